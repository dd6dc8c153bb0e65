// SPDX-License-Identifier: Apache-2.0
/* gate/tally.h - what the operations on files were, by command: how many the session had, which
 * files a command has open, and the last operation of it that failed. Any thread. */
#pragma once
#include "gate/gate.h"

struct tally;

/* What a command may meet. */
enum tally_limit { TALLY_max_file_ops, TALLY_max_disk_mb, TALLY_LIMITS };

struct tally *tally_new(void);
void tally_free(struct tally *t); /* NULL is fine */
/* Operations that the session may have in all; 0: no limit. */
void tally_limit(struct tally *t, uint64_t max);
/* Whether the actor may have one more. False: it is refused with EDQUOT, and tally_next_over will
 * name its command. */
bool tally_allows(struct tally *t, const struct actor *actor);
/* An operation is settled: it counts. */
void tally_settled(struct tally *t, const struct gate_case *k, const struct gate_report *r);
/* The same of one that could not be refused before: what is above the limit meets it now. */
void tally_noticed(struct tally *t, const struct gate_case *k, const struct gate_report *r);
/* An operation of the actor has failed; the last one is remembered. */
void tally_failed(struct tally *t, const struct actor *actor, int error, const char *path);
/* A file was opened, or closed later. */
void tally_opened(struct tally *t, const struct actor *actor);
void tally_closed(struct tally *t, const struct actor *actor);

/* The actor's command has met a limit. */
void tally_over(struct tally *t, const struct actor *actor, enum tally_limit limit);
bool tally_has_over(const struct tally *t);
/* Writes the id of a command that met a limit, each once for a limit; false: no further one. */
bool tally_next_over(struct tally *t, char command_id[ID_MAX + 1], enum tally_limit *limit);
unsigned tally_open_files(struct tally *t, const char *command_id);
/* The command has ended, and is forgotten. The last operation of it that failed: its errno, with
 * the path in *path (owned by the caller); 0: none did. */
int tally_forget(struct tally *t, const char *command_id, char **path);
