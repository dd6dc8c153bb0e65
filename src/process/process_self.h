// SPDX-License-Identifier: Apache-2.0
/* process/process_self.h - what all processes beside init have: arguments, loop, ring, gate, actors
 * and the link to the warden.
 *
 * Such a process is a row of model/process_table.h and a struct process_program. It ends when the
 * warden closes the link. Everything here runs on the thread of the loop, but other threads may ask
 * the gate and settle, and wake the loop by process_wake. */
#pragma once
#include "base/loop.h"
#include "event/fold.h"
#include "gate/gate.h"
#include "link/peer.h"
#include "model/process_args.h"
#include <pthread.h>
#include <stdatomic.h>

/* Called once, with the actor of the query; its spawn is 0 if the process belongs to no command. */
typedef void process_found_fn(const struct actor *actor, void *arg);
struct actor_question;
struct approver_question;

struct process_self {
	struct process_args args;
	struct loop *loop;
	struct recorder recorder;
	struct fold *fold;	 /* before the recorder */
	struct gate *gate;	 /* its events go to the recorder */
	struct gate_asker asker; /* for questions to the gate on this thread */
	void *program;		 /* for struct process_program */
	int actors_fd; /* of the actor table, for readers of other threads; only in open */
	/* private */
	const struct process_program *face;
	struct peer warden;
	struct actor_reader *actors;
	int wake_fd;
	atomic_bool woken; /* until turn() has looked at what other threads did */
	struct watch *wakes;
	bool ready; /* the warden has greeted us, and the program is open */
	STAILQ_HEAD(, actor_question) questions;
	uint32_t last_question;
	struct watch *due;	/* looks at the gate */
	pthread_mutex_t asking; /* of questions for the warden's approver that were not sent */
	STAILQ_HEAD(, approver_question) unsent;
	struct watch *again, *folds;
	int status; /* of the exit */
};

struct process_program {
	/* The warden has sent the actor table; commands start when this has returned. May hand an
	 * approver to the gate. */
	int (*open)(struct process_self *p, struct err *err);
	/* Only after begin or open. Gives up what waits at the gate (gate_gone). */
	void (*close)(struct process_self *p);
	/* Before the first message of the warden; NULL: nothing to do. */
	int (*begin)(struct process_self *p, struct err *err);
	/* On the loop, some time after process_wake; NULL: nothing to do. */
	void (*woken)(struct process_self *p);
	/* The result of a command waits for its last events. True: process_tell_settled is called
	 * within 50 ms. NULL or false: they are in. */
	bool (*settle)(struct process_self *p, const struct process_settle *command);
	/* The last process of a command has ended; NULL: nothing to do. */
	void (*over)(struct process_self *p, const struct process_settle *command);
	/* A client wants a file back from the trash: process_tell_restored is called with the same
	 * req. NULL: the program keeps no trash. */
	void (*restore)(struct process_self *p, uint64_t entry, uint32_t req);
	/* Fills the message that the program is open; NULL: it stays empty. */
	void (*tell)(struct process_self *p, struct process_ready *m);
	/* New settings; NULL: the program needs no others. */
	void (*settings)(struct process_self *p, const struct process_settings *s);
};
/* The whole life of the process; returns the exit status. */
int process_run(const struct process_row *row, const struct process_program *program, int argc,
		char **argv);
/* The same in two parts, for a process that gets some of its arguments later. process_start reads
 * those that it has. process_serve takes all of them; context is the `program` of struct
 * process_self. */
int process_start(const struct process_row *row, int argc, char **argv, struct process_args *out);
int process_serve(const struct process_program *program, struct process_args *args, void *context);

/* Any thread. */
void process_wake(struct process_self *p);
/* Tells the warden why, which fails the session; the process ends. */
void process_fail(struct process_self *p, const struct err *why);

/* The last events of a command are settled. */
void process_tell_settled(struct process_self *p, const struct process_settled *m);
/* err.code E_OK: it is back. */
void process_tell_restored(struct process_self *p, uint32_t req, const struct err *err);
/* A command has met a limit. */
void process_tell_limit(struct process_self *p, const struct process_limit *m);

/* Finds the actor in the table, or asks the warden: found is called now or later. At the end of the
 * process an open question is answered with spawn 0. */
void process_find(struct process_self *p, const struct actor_query *q, process_found_fn *found,
		  void *arg);
