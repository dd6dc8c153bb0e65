// SPDX-License-Identifier: Apache-2.0
#include "process/process_self.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define WARDEN_MS \
	5000 /* after its time the warden's gate gives up a question; this one waits longer */
#define AGAIN_MS 50 /* while the ring is full, or the API process has not read it */

struct actor_question {
	STAILQ_ENTRY(actor_question) next;
	uint32_t req;
	process_found_fn *found;
	void *arg;
};

/* What waits for the warden's approver, or does not any more. */
struct approver_question {
	STAILQ_ENTRY(approver_question) next;
	bool cancelled;
	struct process_hold m; /* owned */
};

void process_fail(struct process_self *p, const struct err *err)
{
	log_error("the process fails", "session_id", p->args.session_id, "reason", err->message);
	peer_send(&p->warden, MSG_process_failed, 0, &(struct process_failed){(char *)err->message},
		  NULL, 0, NULL);
	p->status = 1;
	if (p->loop != NULL)
		loop_stop(p->loop);
}

static void send_to_warden(struct process_self *p, enum msg_type type, uint32_t req,
			   const void *msg)
{
	struct err err = {0};

	if (peer_send(&p->warden, type, req, msg, NULL, 0, &err) != LINK_OK)
		process_fail(p, &err);
}

/* ---- ring and gate ---- */

void process_wake(struct process_self *p)
{
	const uint64_t one = 1;

	if (!atomic_exchange(&p->woken, true))
		(void)!write(p->wake_fd, &one, sizeof(one));
}

static void on_settled(void *arg, const struct gate_case *k, const struct gate_report *r,
		       const struct event *e)
{
	struct process_self *p = arg;

	fold_event(p->fold, e);
	process_wake(p);
}

/* After each callback. */
static void turn(void *arg)
{
	struct process_self *p = arg;
	const int64_t due = fold_flush(p->fold, false);
	const bool flushed = recorder_flush(&p->recorder);
	uint64_t head;
	const enum recorder_bell bell = recorder_bell(&p->recorder, &head);

	if (p->ready && bell == RECORDER_BELL_DUE) {
		send_to_warden(p, MSG_process_bell, 0, &(struct msg_empty){0});
		recorder_rung(&p->recorder, head);
	}
	if (!flushed || bell == RECORDER_BELL_LATER)
		watch_after(p->again, AGAIN_MS);
	if (due >= 0) {
		const int64_t wait_us = due - clock_mono_us(&clock_system);

		watch_after(p->folds, wait_us > 0 ? (uint64_t)wait_us / 1000 + 1 : 0);
	}
}

static void look_at_gate(void *arg)
{
	struct process_self *p = arg;
	const int64_t now = clock_mono_us(&clock_system), next = gate_expire(p->gate, now);

	gate_resume(p->gate, &p->asker);
	if (next >= 0)
		watch_after(p->due, (uint64_t)(next - now) / 1000 + 1);
}

/* Any thread, with the gate's lock held. */
static void wake(void *arg)
{
	process_wake(arg);
}

/* ---- the warden's approver ---- */

/* The gate's lock is held. */
static void ask_later(struct process_self *p, struct approver_question *question)
{
	pthread_mutex_lock(&p->asking);
	STAILQ_INSERT_TAIL(&p->unsent, question, next);
	pthread_mutex_unlock(&p->asking);
	process_wake(p);
}

static void ask_approver(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
			 int64_t deadline_us)
{
	struct approver_question *question = mem_new(struct approver_question);

	question->m = (struct process_hold){.id = id,
					    .op = k->op->file.op,
					    .also = k->also,
					    .tid = (uint32_t)k->actor.pid,
					    .asked_us = (uint64_t)clock_mono_us(&clock_system),
					    .command_id = mem_strdup(k->actor.command_id),
					    .path = mem_strdup(k->op->file.path),
					    .to = k->to != NULL ? mem_strdup(k->to) : NULL};
	ask_later(arg, question);
}

static void cancel_question(void *arg, uint64_t id)
{
	struct approver_question *question = mem_new(struct approver_question);

	question->cancelled = true;
	question->m.id = id;
	ask_later(arg, question);
}

static struct approver_question *next_question(struct process_self *p)
{
	struct approver_question *question;

	pthread_mutex_lock(&p->asking);
	question = STAILQ_FIRST(&p->unsent);
	if (question != NULL)
		STAILQ_REMOVE_HEAD(&p->unsent, next);
	pthread_mutex_unlock(&p->asking);
	return question;
}

/* send: the warden is there. */
static void send_questions(struct process_self *p, bool send)
{
	struct approver_question *question;

	while ((question = next_question(p)) != NULL) {
		if (send && question->cancelled)
			send_to_warden(p, MSG_process_unhold, 0,
				       &(struct process_held){.id = question->m.id});
		else if (send)
			send_to_warden(p, MSG_process_hold, 0, &question->m);
		msg_done(MSG_process_hold, &question->m);
		free(question);
	}
}

static void on_held(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_held *held = msg;
	struct process_self *p = ctx;

	if (held->why < GATE_WHYS)
		gate_answer_why(p->gate, held->id, (enum gate_why)held->why, held->approval_id);
}

static void on_wake(void *arg)
{
	struct process_self *p = arg;
	uint64_t n;

	(void)!read(p->wake_fd, &n, sizeof(n));
	atomic_store(&p->woken, false);
	if (gate_has_approver(p->gate))
		look_at_gate(p);
	send_questions(p, true);
	if (p->face->woken != NULL)
		p->face->woken(p);
}

/* ---- actors ---- */

void process_find(struct process_self *p, const struct actor_query *q, process_found_fn *found,
		  void *arg)
{
	const struct process_ask ask = {.id = (uint32_t)q->id,
					.ppid = (uint32_t)q->ppid,
					.process = q->process,
					.asked_us = (uint64_t)q->asked_us};
	struct actor_question *question;
	struct actor actor;

	if (actor_find(p->actors, q, &actor)) {
		found(&actor, arg);
		return;
	}
	question = mem_new(struct actor_question);
	*question = (struct actor_question){.req = ++p->last_question, .found = found, .arg = arg};
	STAILQ_INSERT_TAIL(&p->questions, question, next);
	send_to_warden(p, MSG_process_ask, question->req, &ask);
}

static void answer(struct process_self *p, const struct actor *actor)
{
	struct actor_question *question = STAILQ_FIRST(&p->questions);

	STAILQ_REMOVE_HEAD(&p->questions, next);
	question->found(actor, question->arg);
	free(question);
}

/* ---- messages of the warden ---- */

static void on_hello(void *ctx, void *msg, struct link_msg *m)
{
	struct process_self *p = ctx;
	struct process_ready ready = {0};
	struct err err = {0};

	p->actors_fd = m->fd[0];
	if (actor_reader_open(p->actors_fd, &p->actors, &err) < 0 || p->face->open(p, &err) < 0) {
		process_fail(p, &err);
		return;
	}
	p->ready = true;
	if (p->face->tell != NULL)
		p->face->tell(p, &ready);
	send_to_warden(p, MSG_process_ready, 0, &ready);
}

/* Answers come in the order of the questions. */
static void on_actor(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_actor *a = msg;
	struct actor actor = {.pid = (pid_t)a->pid,
			      .ppid = (pid_t)a->ppid,
			      .leader = (pid_t)a->leader,
			      .spawn = a->spawn};
	struct process_self *p = ctx;

	if (a->command_id != NULL)
		snprintf(actor.command_id, sizeof(actor.command_id), "%s", a->command_id);
	if (!STAILQ_EMPTY(&p->questions) && STAILQ_FIRST(&p->questions)->req == m->req)
		answer(p, &actor);
}

static void on_over(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_settle *over = msg;
	struct process_self *p = ctx;

	if (over->command_id == NULL)
		return;
	gate_command_over(p->gate, over->command_id);
	if (p->face->over != NULL)
		p->face->over(p, over);
}

void process_tell_settled(struct process_self *p, const struct process_settled *m)
{
	fold_flush(p->fold, true);
	recorder_flush(&p->recorder);
	send_to_warden(p, MSG_process_settled, 0, m);
}

void process_tell_limit(struct process_self *p, const struct process_limit *m)
{
	send_to_warden(p, MSG_process_limit, 0, m);
}

void process_tell_restored(struct process_self *p, uint32_t req, const struct err *err)
{
	const struct trash_restored m = {
		.code = err->code != E_OK ? (char *)err_row(err->code)->name : NULL,
		.subject = (char *)err->subject,
		.message = (char *)err->message,
		.policy = (char *)err->denial};

	send_to_warden(p, MSG_process_restored, req, &m);
}

static void on_restore(void *ctx, void *msg, struct link_msg *m)
{
	static const struct err none = {.code = E_UNAVAILABLE, .message = "there is no trash"};
	const struct trash_restore *ask = msg;
	struct process_self *p = ctx;

	if (p->face->restore != NULL)
		p->face->restore(p, ask->entry, m->req);
	else
		process_tell_restored(p, m->req, &none);
}

static void on_settle(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_settle *command = msg;
	struct process_self *p = ctx;

	if (command->command_id != NULL &&
	    (p->face->settle == NULL || !p->face->settle(p, command)))
		process_tell_settled(p,
				     &(struct process_settled){.command_id = command->command_id});
}

static void on_settings(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_settings *s = msg;
	struct process_self *p = ctx;

	if (s->approval_ms > 0)
		gate_set_approver(
			p->gate,
			&(struct gate_approver){.ask = ask_approver,
						.cancel = cancel_question,
						.arg = p,
						.timeout_ms = (int64_t)s->approval_ms + WARDEN_MS,
						.passes_on = true});
	p->recorder.drop = s->full_ring_drops != 0;
	fold_set(p->fold, s->event_batch_size, (int64_t)s->event_batch_ms * 1000);
	if (p->face->settings != NULL)
		p->face->settings(p, s);
	log_set((enum log_level)s->log_level, (enum log_format)s->log_format);
	if (m->nfds > 0)
		dup2(m->fd[0], STDERR_FILENO);
}

static void on_readable(void *arg)
{
	struct process_self *p = arg;
	struct err err = {0};
	const enum link_status status = peer_read(&p->warden, &err);

	if (status == LINK_EOF)
		loop_stop(p->loop);
	else if (status == LINK_BROKEN)
		process_fail(p, &err);
}

static const struct peer_row rows[] = {
	{MSG_process_hello, on_hello},	     {MSG_process_actor, on_actor},
	{MSG_process_over, on_over},	     {MSG_process_settle, on_settle},
	{MSG_process_settings, on_settings}, {MSG_process_held, on_held},
	{MSG_process_restore, on_restore},
};
static const struct peer_kind kind = {.self = SIDE_PROCESS,
				      .other = SIDE_WARDEN,
				      .rows = rows,
				      .n = ARRAY_LEN(rows),
				      .readable = on_readable};

/* ---- the process ---- */

static int open_self(struct process_self *p, struct err *err)
{
	const struct gate_setup gate = {p->args.policy_fd, p->args.session_id, on_settled, wake, p};
	int r;

	p->loop = loop_new(turn, p);
	if (p->loop == NULL)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot make an epoll descriptor");
	r = peer_open(&p->warden, &kind, p->loop, p->args.link_fd, p, err);
	p->asker = (struct gate_asker){wake, p};
	p->due = watch_timer(p->loop, look_at_gate, p);
	p->again = watch_timer(p->loop, NULL, NULL); /* turn() does the work */
	p->folds = watch_timer(p->loop, NULL, NULL); /* the same */
	p->fold = fold_new(&p->recorder, &clock_system);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0 && p->wake_fd == -1)
		r = err_errno(err, E_UNAVAILABLE, NULL, "eventfd");
	if (r == 0) {
		p->wakes = watch_readable(p->loop, p->wake_fd, on_wake, p);
		watch_start(p->wakes);
		r = recorder_open(&p->recorder, p->args.ring_fd, p->args.ack_fd, err);
	}
	if (r == 0)
		r = gate_open(&gate, &p->gate, err);
	return r < 0 || p->face->begin == NULL ? r : p->face->begin(p, err);
}

static void close_self(struct process_self *p)
{
	while (!STAILQ_EMPTY(&p->questions))
		answer(p, &(struct actor){0});
	if (p->ready || p->face->begin != NULL)
		p->face->close(p);
	actor_reader_free(p->actors);
	gate_close(p->gate);
	send_questions(p, false);
	pthread_mutex_destroy(&p->asking);
	fold_free(p->fold);
	recorder_flush(&p->recorder);
	recorder_close(&p->recorder);
	peer_close(&p->warden);
	watch_free(p->due);
	watch_free(p->again);
	watch_free(p->wakes);
	mem_cleanup_fd(&p->wake_fd);
	watch_free(p->folds);
	loop_free(p->loop);
	process_args_done(&p->args);
}

int process_start(const struct process_row *row, int argc, char **argv, struct process_args *out)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ};
	struct err err = {0};

	log_init(row->program, LOG_INFO, LOG_TEXT, STDERR_FILENO);
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	    process_args_parse(row, argc, argv, out, &err) == 0)
		return 0;
	log_error("the process cannot start", "reason", err.message);
	return -1;
}

int process_serve(const struct process_program *program, struct process_args *args, void *context)
{
	struct process_self p = {.args = *args,
				 .face = program,
				 .program = context,
				 .warden = PEER_CLOSED,
				 .actors_fd = -1,
				 .wake_fd = -1};
	struct err err = {0};

	*args = (struct process_args){0};
	STAILQ_INIT(&p.questions);
	STAILQ_INIT(&p.unsent);
	pthread_mutex_init(&p.asking, NULL);
	log_set((enum log_level)p.args.log_level, (enum log_format)p.args.log_format);
	if (open_self(&p, &err) < 0) {
		process_fail(&p, &err);
		return 1;
	}
	loop_run(p.loop);
	close_self(&p);
	return p.status;
}

int process_run(const struct process_row *row, const struct process_program *program, int argc,
		char **argv)
{
	struct process_args args;

	return process_start(row, argc, argv, &args) < 0 ? 2 : process_serve(program, &args, NULL);
}
