// SPDX-License-Identifier: Apache-2.0
/* session/testkit/fake_warden_testkit.h - a test as the warden of a session: real links and rings.
 */
#pragma once
#include "session/testkit/session_testkit.h"

extern const char kit_observe[]; /* YAML of a policy that allows everything */

/* The next message must be of this type; obj is to be freed with msg_done. */
void kit_recv(struct link *l, enum msg_type type, void *obj, struct link_msg *m);
void kit_recv_nothing(struct link *l);
/* Receives and forgets one message of a type. */
void kit_skip(struct link *l, enum msg_type type);
void fake_send(struct kit *k, struct fake *f, enum msg_type type, const void *obj);
struct fake *fake_new(struct kit *k, const char *id);
/* The names of its rings, where there is more than one. */
struct strv fake_rings(const struct fake *f);
/* A new link to it; the API child's ends of link and rings. Returns how many they are. */
size_t fake_connect(struct fake *f, int fd[5]);
/* A compiled policy as the launcher passes it on. */
int kit_policy(const char *yaml, char version[POLICY_VERSION_LEN + 1]);
void fake_created(struct kit *k, struct fake *f);
void fake_state(struct kit *k, struct fake *f, const char *cwd, const struct strv *env);
/* A warden's first hello and its answer with the same environment. */
void fake_greet(struct kit *k, struct fake *f);
/* A session from the request to its first state. */
struct fake *kit_session(struct kit *k, const char *id);
void kit_found(struct kit *k, struct fake *f);
/* Answers the hello; the patch that asks for the rest is answered last. */
void fake_answer_hello(struct kit *k, struct fake *f);
void fake_answer_patch(struct kit *k, struct fake *f);
/* Takes an exec: its command's id and output files are the warden's now. */
void fake_take_exec(struct fake *f);
void fake_event(struct fake *f, enum event_type type, const char *command, uint64_t *end);
void fake_start(struct kit *k, struct fake *f);
/* The result of the command that was taken last: an exit code and what it wrote. */
struct warden_result fake_result(struct fake *f, int exit_code, const char *out);
void fake_finish(struct kit *k, struct fake *f, int exit_code, const char *out);
/* exec, start and end in one go; the acknowledgement is taken. */
void fake_run(struct kit *k, struct fake *f, int exit_code, const char *out);
