// SPDX-License-Identifier: Apache-2.0
/* warden/core.h - the one session of this process. Only files of this folder include it. */
#pragma once
#include "base/clock.h"
#include "base/loop.h"
#include "command/run.h"
#include "event/recorder.h"
#include "event/ring_heads.h"
#include "link/peer.h"
#include "warden/execs.h"
#include "warden/session_place.h"
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

/* The link to the API child, which may be replaced at any time.
 *
 * No message is queued: a mark on the object (command, result) means that a message about it is
 * due, and flush sends what the socket takes, in a legal order. A full socket therefore costs no
 * memory and never blocks. */
struct server_link {
	struct peer peer; /* closed: none */
	int guest_fd;	  /* connected, has not sent anything; -1: none */
	struct watch *guest_readable, *accepting;
	struct watch *orphan, *bell;
	int64_t rung_us; /* the last bell */
	bool hello;	 /* has come; its contents are the warden's settings */
	bool greeted;	 /* and init is ready: every message may be sent */
	bool tell_state, told_failure;
	uint32_t state_req;
	unsigned patches; /* states owed as answers */
	uint32_t patch_req;
};

/* The processes of the session beside init (model/process_table.h).
 *
 * The stub has started them as children of the warden. Each has a link: the warden hands it the
 * actor table, waits until it is ready, answers its questions about actors and rings the API
 * process for its events. If one dies, the session fails, with its name in the reason. */
struct processes {
	struct process_beside {
		struct warden *w;
		const struct process_row *row;
		int pidfd; /* -1: it is dead */
		struct watch *gone;
		struct peer peer;
		struct actor_reader *actors; /* made at its first question */
		bool ready;
	} one[PROCESSES];
	size_t n;
	LIST_HEAD(, held_operation) held; /* in the gate; see holds.c */
	struct process_settings settings;
	struct watch *late; /* a process has not confirmed its last events of a command */
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
	/* of a process, as in its process_ready */
	bool sees_refusals, records;
	struct session_place place;
	struct served_mounts {
		int list_fd, changes_fd; /* -1: none */
		int n;			 /* mounts of the file server */
		struct watch *changed;
	} mounts;
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
	/* execs */
	const struct gate_approver *approver; /* may be NULL */
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

/* ---- server_link.c ---- */

void server_link_open(struct warden *w);
void server_link_close(struct warden *w);
/* Sends the messages that are due; true if none is left, or there is no link. */
bool server_link_flush(struct warden *w);
/* The session can enter the directory. The loop waits, but not long. */
bool warden_may_enter(struct warden *w, const char *cwd);

/* ---- served_mounts.c ---- */

/* The session fails when a mount of its file server goes away. */
int served_mounts_watch(struct warden *w, struct err *err);

/* ---- processes.c ---- */

/* Any message; req 0: it answers none. fd: -1 or a descriptor to go with it. */
void process_send(struct process_beside *p, enum msg_type type, uint32_t req, const void *msg,
		  int fd);
/* For a question of the process; as actor_find. */
bool process_actor_find(struct process_beside *p, const struct actor_query *q, struct actor *out);
/* From the arguments of the warden. */
int processes_open(struct warden *w, struct err *err);
void processes_close(struct warden *w);
/* There is an actor table: greets all. */
void processes_greet(struct warden *w);
/* Sends the settings to all, with the descriptor of the log unless it is -1. */
/* Asks the file server; the answer goes to the API process. False: there is no file server. */
bool processes_restore(struct warden *w, uint32_t req, const struct trash_restore *m);
void processes_settings(struct warden *w, int log_fd);
/* Asks all for their last events of a command; returns how many were asked. */
unsigned processes_settle(void *warden, const char *command_id);
void processes_command_over(void *warden, const char *command_id);
bool processes_ready(const struct warden *w);
/* The title of a process, init among them, that has died or is dying; NULL: none. */
const char *processes_dying(void *warden);
void processes_end(struct warden *w); /* closes the links: they end */
void processes_kill(struct warden *w);
bool processes_gone(const struct warden *w);

/* ---- holds.c: operations of another process that wait for the approver ---- */

void on_hold(void *process_beside, void *msg, struct link_msg *m);
void on_unhold(void *process_beside, void *msg, struct link_msg *m);
/* Those of a process, or of all (NULL), are given up. */
void holds_drop(struct warden *w, const struct process_beside *p);
