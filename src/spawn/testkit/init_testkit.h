// SPDX-License-Identifier: Apache-2.0
/* spawn/testkit/init_testkit.h - a test as the launcher, the stub and the warden of one session
 * with the real agentsh-init.
 *
 * Shared by the tests as root and as a normal user; every function fails the running cmocka test.
 */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "link/link.h"
#include "model/wall.h"
#include "sandbox/sandbox.h"
#include "spawn/spawn.h"

/* Prints the names of all visible processes, each once, without starting another process. */
#define BOX_NAMES                                                                                 \
	"for f in /proc/[0-9]*/comm; do read n < $f || continue; case \" $all \" in *\" $n \"*) " \
	";; "                                                                                     \
	"*) all=\"$all $n\";; esac; done 2>/dev/null; echo $all"

#define BOX_USER 1000	      /* of box_become_user */
#define BOX_SESSION_UID 64999 /* of root's session */

extern char box_dir[64]; /* scratch, with our own copy of agentsh-state */
extern char box_state[96], box_workspace[96];
extern int box_program; /* goes with the next spawns; -1: their path is executed */
extern bool box_ready;	/* false: the tests are skipped */

struct box_session {
	struct sandbox_plan plan;
	struct link init;
	struct wall_report walls;
	int root_fd, state_fd;
	pid_t pid;
};
struct box_run {
	struct link leader;
	pid_t leader_pid;
	int pidfd, out, in; /* ends that are ours; -1 once closed */
	struct buf text;    /* stdout and stderr */
	struct leader_failed failed;
	struct leader_exit exit;
};

/* 0, or -1 if a program is missing. owner will use the directory. */
int box_prepare(uid_t owner);
void box_clean(void);
/* Runs the tests in a child that is the normal user; the parent keeps its uid and cleans up. The
 * child's exit status. */
int box_run_as_user(int (*tests)(void));
void box_plan(struct sandbox_plan *p, uint32_t uid, bool privileged);
int box_start_init(const struct sandbox_start *start, const struct sandbox_trees *view, pid_t *pid,
		   struct err *err);
/* Makes the session up to init's first message, which is left in *m. asker: the owner of the
 * workspace.
 */
void box_start(struct box_session *s, uint32_t asker, struct link_msg *m);
void box_open(struct box_session *s, uint32_t asker);
/* Closes the link and waits until init has gone, as the warden's death would have it. */
void box_close(struct box_session *s);
/* Sends the spawn through init; everything that is not in *ask is filled. Returns the type of the
 * leader's first message. */
enum msg_type box_spawn(struct box_session *s, struct init_spawn *ask, struct box_run *run);
/* Sends another to the same leader, which is idle. */
enum msg_type box_spawn_again(struct init_spawn *ask, struct box_run *run);
void box_recv_exit(struct box_run *run, enum msg_type type);
void box_read_all(struct box_run *run);
void box_expect_eof(struct box_run *run);
void box_run_done(struct box_run *run);
void box_ask(struct init_spawn *ask, const char *script);
/* Runs a script to its end; the output is left in run->text, the wait status returned. */
int box_script(struct box_session *s, const char *script, struct box_run *run);
/* A script must print exactly this and end well. */
void box_expect(struct box_session *s, const char *script, const char *output);
struct box_session *box_session_of(void **state);
/* Root's, with a mapped workspace, or a normal user's own. */
int box_group_open(void **state);
int box_group_close(void **state);
/* Of a group of root's; passes the exit status of the program through. */
int box_finish(int failed);
/* The script runs our helper and prints its exit code; the sender of a capture, seen from outside,
 * is our program. */
void box_expect_sender(struct box_session *s, const char *script);
/* The session's end takes a command and its leader, whatever they ignore. */
void box_expect_end(struct box_session *s);
/* SBX-4: no core file and no priority for a command, and fewer open files than for init. */
void box_expect_limits(struct box_session *s);
