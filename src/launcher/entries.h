// SPDX-License-Identifier: Apache-2.0
/* launcher/entries.h - sessions as the launcher sees them. Private to launcher/. */
#pragma once
#include "launcher/child.h"
#include "launcher/session_files.h"
#include <sys/queue.h>

struct launcher;

#define MAIN_PROCESS (&process_table[process_of(PROCESS_MAIN)])

enum entry_state { ENTRY_MAKING, ENTRY_ALIVE, ENTRY_DEAD };
struct making;
struct session_entry {
	TAILQ_ENTRY(session_entry) next;
	struct launcher *l;
	char id[ID_MAX + 1];
	enum entry_state state;
	bool adopted; /* an earlier launcher started it */
	bool told;    /* it was announced to the API child that runs now */
	bool silent;  /* its creation was never answered: all its files go */
	bool removed; /* the API child has removed it */
	bool killed;  /* by the launcher; its death follows */
	int probe_fd; /* connection made when it was adopted, for the first launcher_found; or -1 */
	struct child warden;   /* pidfd -1 when dead; pid 0 if it was adopted */
	struct watch *leaving; /* the session is over; then the warden is killed */
	struct meta meta;
	struct making *making; /* only while MAKING */
	char reason[128];
	uint64_t oom_kills; /* at its death, see struct launcher_gone */
};

struct session_entry *entry_find(struct launcher *l, const char *id);
struct session_entry *entry_new(struct launcher *l, const char *id);
/* Takes the child and watches it; after a failure it is dead. */
int entry_watch(struct session_entry *w, struct child warden, struct err *err);
void entry_free(struct session_entry *w);
void entry_kill(void *session_entry);
/* For launcher_remove. A living warden has a moment to end by itself, then it is killed. */
void entry_remove(struct session_entry *w);
void entries_kill(struct launcher *l); /* except those that are about to end */

/* Reads RUNTIME/sessions at start: living wardens are adopted, the rest is lost. */
int adopt_scan(struct launcher *l, struct err *err);
/* Posts the next session that was not announced to the API child, else found_all; false if there is
 * nothing to post. */
bool adopt_tell(struct launcher *l);
