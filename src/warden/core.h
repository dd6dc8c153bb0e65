// SPDX-License-Identifier: Apache-2.0
/* warden/core.h - the one session of this process. Only files of this folder include it. */
#pragma once
#include "base/clock.h"
#include "base/loop.h"
#include "command/session_commands.h"
#include "event/recorder.h"
#include "event/ring_heads.h"
#include "warden/bare_session.h"
#include "warden/execs.h"
#include "warden/processes.h"
#include "warden/server_link.h"
#include "warden/warden.h"
#include <signal.h>

#define ORPHAN_DEFAULT_MS (10 * 60 * 1000) /* until a hello says otherwise */
#define END_MS 5000			   /* for the last events and messages, and for init */
#define RECORD_RETRY_MS 10		   /* while the ring is full */
#define BELL_MS 50			   /* between two bells, unless it is urgent */

enum warden_phase {
	WARDEN_LIVE,
	WARDEN_ENDING,	/* commands end, and the last messages are sent */
	WARDEN_CLOSING, /* init's link is closed; init dies */
};

struct warden {
	const struct process_args *args;
	const struct clock *clock;
	struct loop *loop;
	enum warden_phase phase;
	char *failure; /* why the session failed; NULL: it has not */
	/* init */
	struct peer init;
	struct watch *init_gone, *deadline, *retry, *grace;
	int init_pidfd;
	int end_fd; /* eventfd: makes init end all that runs and answer with init_ended */
	struct watch *suspicion;
	char *suspect; /* a dead leader, while init may be found dead */
	bool ready, init_dead;
	struct strv walls;
	struct bare *bare; /* NULL: the session has namespaces */
	/* from hello */
	struct warden_hello settings;
	bool settled; /* a first hello was taken: memory is set up */
	bool fresh;   /* by the API child that is linked now */
	/* the session */
	struct shell_memory memory;
	struct recorder recorder;
	struct processes processes;
	struct ring_heads heads; /* of the session's other processes */
	struct commands commands;
	struct actor_table *actors;
	/* execs */
	struct gate *gate;
	const struct gate_approver *approver; /* may be NULL */
	struct gate_asker asker;	      /* the loop's thread */
	struct execs execs;
	struct watch *woken, *execs_again, *approvals_due;
	int wake_fd; /* eventfd: another thread has something for the loop */
	struct server_link api;
};

/* Answers a hello once init is ready. */
void warden_greet(struct warden *w);
/* Ends in order: commands get TERM and, after the grace (0: at once), KILL; their results are sent;
 * then init ends, and then this process. */
void warden_end(struct warden *w, const char *reason, uint64_t grace_ms);
/* A process of the session is dead. */
void warden_process_gone(struct warden *w, const struct process_row *row, const siginfo_t *how);
/* Ends because something broke. The first reason counts. */
void warden_fail(struct warden *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
