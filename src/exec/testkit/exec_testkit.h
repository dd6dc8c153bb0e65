// SPDX-License-Identifier: Apache-2.0
/* exec/testkit/exec_testkit.h - a test as the warden of one guest: a forked child behind a small
 * filter. A function of the test makes the execs there.
 *
 * The guest is a grandchild: the tracer of its own child would have its stops taken by waitpid in
 * another thread. The guest's exit status is the test's result of what happened inside; records are
 * copied as they come. Every function fails the running cmocka test, except in the guest, which
 * exits with 99. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "bpf/bpf_load.h"
#include "bpf/exec_wants.h"
#include "exec/exec.h"
#include "walk/walker.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KIT_TIMEOUT_S 60
#define KIT_RECORDS 64
#define KIT_BROKEN 99
#define KIT_NOT_RUN 98	      /* the guest's exec came back */
#define KIT_ANSWER_MS 3600000 /* the approver's time: no test waits for its end */

struct kit_record {
	char path[256], called[256], script[256], argv[512], cwd[256], chain[512];
	unsigned flags;
	enum decision decision;
	enum gate_outcome outcome;
	bool initial;
	bool own; /* written by a thread that the actor table knows as agentsh's own */
	char command_id[ID_MAX + 1];
	pid_t pid, ppid;
	size_t argc;
	bool cut;
	uint64_t latency_us;
	enum event_type type;
	char verified[16], loaded[256], reason[64]; /* "": absent */
};

extern struct kit {
	char dir[64];
	struct exec_control *control;
	struct listener *listener;
	struct gate *gate;
	struct actor_table *actors;
	int root;	      /* the guest's */
	int (*enter)(void);   /* set by a test: what the guest does first; 0, or it is broken */
	pid_t guest, keeper;  /* keeper: the guest's parent, ends as it does */
	int go;		      /* the guest starts when this is written */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t came;
	struct kit_record record[KIT_RECORDS];
	size_t nrecords;
	uint64_t parked, gone; /* the last id that the approver was asked, and lost */
	const char *target;    /* of redirects */
	const char *rules;     /* in the place of those of the kit, if a test sets it */
	void (*on_ask)(void);  /* on the listener's thread, while an exec is being decided */
	uint64_t count[GATE_OUTCOMES]; /* of records */
	bool is_user;		       /* kit_become_user was called by root */
	bool by_kernel;		       /* the guest's execs are checked by the kernel */
	bool far;		       /* the guest's programs are found by walks */
	struct walker *walker;
	struct exec_check check; /* loaded by the first guest that needs it */
	struct exec_wants *wants;
	int wants_fd, link_fd;		 /* of these wants */
	uint64_t outcome[GATE_OUTCOMES]; /* exec_control_count, when the guest has ended */
} kit;

/* Three tests. In the first, guests are compared at the exec stop. In the second, walks find the
 * programs. In the third, the kernel checks the guests; it is skipped where the exec check cannot
 * be loaded. */
#define KIT_BOTH(test)                                                                             \
	{#test, test, kit_by_stop, NULL, NULL}, {#test "_by_walk", test, kit_by_walk, NULL, NULL}, \
	{                                                                                          \
#test "_by_kernel", test, kit_by_kernel, NULL, NULL                                \
	}
int kit_by_stop(void **state);
int kit_by_walk(void **state);
int kit_by_kernel(void **state);

const char *kit_path(const char *name);

/* ---- the warden's side ---- */

/* The strings with a bar between them. */
void kit_join(char *out, size_t n, const char *const *v, size_t count);
bool kit_ends(const char *s, const char *end);

void kit_record(void *arg, const struct gate_case *k, const struct gate_report *rep,
		const struct event *e);

void kit_open_gate(gate_sink_fn *sink, const char *rules);

void kit_close_gate(void);

/* Waits until *value is at least n; the program's alarm is the limit. */
void kit_wait_u64(const uint64_t *value, uint64_t n);

/* An initial exec that the policy has let go, to be expected. */
struct exec_initial *kit_initial(struct exec_looker *l, const char *command_id);

/* ---- the guest ---- */

typedef int kit_guest_fn(void *arg); /* runs in the guest; its result is the exit status */

/* In the guest: waits for a child; its exit status, or 128 + its signal. */
int kit_status(pid_t pid);

/* The guest's parent: sends the guest's pid and listener to sock; a byte there starts fn. */
_Noreturn void kit_be_keeper(int sock, kit_guest_fn *fn, void *arg);
/* Starts the guest and the listener thread; the guest waits for kit_go. */
void kit_start(kit_guest_fn *fn, void *arg);

void kit_stop(void);

void kit_go(void);

/* Waits for the guest; its exit status or 128 + its signal. */
int kit_wait(void);

int kit_end(void);

/* From start to end; the thread is stopped, all records have come. */
int kit_run(kit_guest_fn *fn, void *arg);

/* ---- files ---- */

void kit_copy(const char *from, const char *name, mode_t mode);

void kit_write(const char *name, const char *text, mode_t mode);

/* good, held, other and watched end with 0; evil with 1. */
int kit_prepare(void **state);

/* For main(): the tests run as a user that owns no file of the system. */
int kit_become_user(void);

int kit_clean(void **state);
