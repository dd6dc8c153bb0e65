// SPDX-License-Identifier: Apache-2.0
/* warden/core.h - the one session of this process; the files of this folder share it, nobody else
 * includes it. */
#pragma once
#include "base/clock.h"
#include "base/loop.h"
#include "event/recorder.h"
#include "event/ring_heads.h"
#include "shell/capture_in.h"
#include "shell/shell_memory.h"
#include "warden/bare_session.h"
#include "warden/execs.h"
#include "warden/limit_counters.h"
#include "warden/processes.h"
#include "warden/results.h"
#include "warden/run.h"
#include "warden/server_link.h"
#include "warden/warden.h"
#include <signal.h>

#define ORPHAN_DEFAULT_MS (10 * 60 * 1000) /* until a hello says otherwise */
#define END_MS 5000			   /* for the last events and messages, and for init */
#define RECORD_RETRY_MS 10		   /* while the ring is full */
#define BELL_MS 50			   /* between two bells, unless it is urgent */

enum warden_phase {
	WARDEN_LIVE,
	WARDEN_ENDING,	/* commands are being ended, the last is told */
	WARDEN_CLOSING, /* init's link is closed; init dies */
};

struct warden {
	const struct process_args *args;
	const struct clock *clock;
	struct loop *loop;
	enum warden_phase phase;
	char *failure; /* why it fails; NULL: it does not */
	/* init */
	struct peer init;
	struct watch *init_gone, *deadline, *retry, *grace;
	bool in_grace; /* it ends, and what runs has been asked to end */
	int init_pidfd;
	int end_fd; /* eventfd: init ends all that runs, and answers with init_ended */
	struct watch *suspicion;
	char *suspect; /* a dead leader, while init may be found dead */
	bool sweeping; /* init was asked to end all that runs; nothing is started meanwhile */
	bool ready, init_dead;
	int root_fd, null_fd;
	struct strv walls;
	struct bare *bare; /* NULL: the session has namespaces */
	struct capture_in *captures;
	/* from hello */
	struct warden_hello settings;
	bool settled; /* a first hello was taken: memory is set up */
	bool fresh;   /* by the API child that is linked now */
	char *shell;
	/* the session */
	struct shell_memory memory;
	struct recorder recorder;
	struct processes processes;
	struct ring_heads heads; /* of the session's other processes */
	struct limit_counters limits;
	struct results results;
	struct run_list runs; /* in the order of their requests */
	struct leader_list idle;
	struct actor_table *actors;
	/* execs */
	struct gate *gate;
	const struct gate_approver *approver; /* NULL: there is none */
	struct gate_asker asker;	      /* the loop's thread */
	struct exec_looker *looker;
	struct execs execs;
	struct watch *woken, *execs_again, *approvals_due;
	int wake_fd;	   /* eventfd: another thread has something for the loop */
	uint64_t commands; /* started so far */
	struct server_link api;
};

/* Answers a hello once init is ready. */
void warden_greet(struct warden *w);
/* Ends in order: commands get TERM, after the grace (0: at once) they are killed, and are told;
 * then init goes, then the process. */
void warden_end(struct warden *w, const char *reason, uint64_t grace_ms);
/* A process of the session is dead. */
void warden_process_gone(struct warden *w, const struct process_row *row, const siginfo_t *how);
/* The leader of this command died unasked: with init, and then the session fails; else by a command
 * (kill -9 -1), and then everything that runs is ended and told as killed. The session goes on. */
void warden_suspect(struct warden *w, const char *command_id);
/* Ends because something broke. The first reason counts. */
void warden_fail(struct warden *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
