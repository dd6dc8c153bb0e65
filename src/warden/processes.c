// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "warden/core.h"
#include <signal.h>
#include <sys/wait.h>

#define SETTLE_MS 100 /* twice what a process may wait for */

static void on_gone(void *arg)
{
	struct process_beside *p = arg;
	siginfo_t info = {0};

	waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG);
	holds_drop(p->w, p);
	watch_free(take(p->gone));
	close(take_fd(p->pidfd));
	warden_process_gone(p->w, p->row, &info);
}

void process_send(struct process_beside *p, enum msg_type type, uint32_t req, const void *msg,
		  int fd)
{
	const enum link_status status = peer_send(&p->peer, type, req, msg, &fd, fd != -1, NULL);

	/* A process that misses a message must not go on. One that has closed its link ends. */
	if (status != LINK_OK && status != LINK_EOF)
		proc_pidfd_signal(p->pidfd, SIGKILL);
}

/* ---- messages of a process ---- */

static void on_ready(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_ready *ready = msg;
	struct process_beside *p = ctx;

	p->ready = true;
	p->w->sees_refusals |= ready->sees_refusals != 0;
	p->w->records |= ready->records != 0;
	warden_greet(p->w);
}

static void on_failed(void *ctx, void *msg, struct link_msg *m)
{
	struct process_beside *p = ctx;
	const struct process_failed *failed = msg;

	warden_fail(p->w, "%s: %s", p->row->title,
		    failed->message != NULL ? failed->message : "failed");
}

static void on_bell(void *ctx, void *msg, struct link_msg *m)
{
	/* the turn looks at the rings */
}

bool process_actor_find(struct process_beside *p, const struct actor_query *q, struct actor *out)
{
	if (p->actors == NULL)
		p->actors = actor_reader_new(p->w->commands.actors);
	return actor_find(p->actors, q, out);
}

/* The process did not find the actor in the table. */
static void on_ask(void *ctx, void *msg, struct link_msg *m)
{
	struct process_beside *p = ctx;
	const struct process_ask *ask = msg;
	const struct actor_query q = {.id = (pid_t)ask->id,
				      .ppid = (pid_t)ask->ppid,
				      .asked_us = (int64_t)ask->asked_us,
				      .process = ask->process != 0};
	struct actor found = {0};
	const bool known = process_actor_find(p, &q, &found);
	const struct process_actor answer = {.pid = (uint32_t)found.pid,
					     .ppid = (uint32_t)found.ppid,
					     .leader = (uint32_t)found.leader,
					     .spawn = known ? found.spawn : 0,
					     .command_id = known ? found.command_id : NULL};

	process_send(p, MSG_process_actor, m->req, &answer, -1);
}

static void on_settled(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_beside *p = ctx;
	struct process_settled *settled = msg;
	struct result *r = settled->command_id != NULL
				   ? results_find(&p->w->commands.results, settled->command_id)
				   : NULL;

	if (r != NULL)
		result_settled(r, settled);
	if (!results_unsettled(&p->w->commands.results))
		watch_stop(p->w->processes.late);
}

/* A result does not wait longer for a process that hangs. */
static void on_late(void *arg)
{
	struct warden *w = arg;

	log_warn("a process has not confirmed the end of a command", "session_id",
		 w->args->session_id);
	results_settle_all(&w->commands.results);
}

static void on_limit(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_beside *p = ctx;
	const struct process_limit *limit = msg;

	if (limit->limit != NULL && limit->command_id != NULL)
		limits_reached(&p->w->commands, limit);
}

static void on_restored(void *ctx, void *msg, struct link_msg *m)
{
	const struct process_beside *p = ctx;

	if (p->w->api.greeted)
		peer_send(&p->w->api.peer, MSG_warden_restored, m->req, msg, NULL, 0, NULL);
}

static void on_readable(void *arg)
{
	struct process_beside *p = arg;
	const enum link_status status = peer_read(&p->peer, NULL);

	if (status == LINK_BROKEN)
		proc_pidfd_signal(p->pidfd, SIGKILL);
	if (status == LINK_BROKEN || status == LINK_EOF)
		peer_close(&p->peer); /* its pidfd shows how it ended */
}

static const struct peer_row rows[] = {
	{MSG_process_ready, on_ready},	     {MSG_process_failed, on_failed},
	{MSG_process_bell, on_bell},	     {MSG_process_ask, on_ask},
	{MSG_process_settled, on_settled},   {MSG_process_limit, on_limit},
	{MSG_process_hold, on_hold},	     {MSG_process_unhold, on_unhold},
	{MSG_process_restored, on_restored},
};
static const struct peer_kind kind = {.self = SIDE_WARDEN,
				      .other = SIDE_PROCESS,
				      .rows = rows,
				      .n = ARRAY_LEN(rows),
				      .readable = on_readable};

/* ---- all of them ---- */

int processes_open(struct warden *w, struct err *err)
{
	int r = 0;

	w->processes.settings = (struct process_settings){0, (uint32_t)w->args->log_level,
							  (uint32_t)w->args->log_format};
	w->processes.late = watch_timer(w->loop, on_late, w);
	LIST_INIT(&w->processes.held);
	for (size_t i = 0; r == 0 && i < w->args->nothers; i++) {
		const struct process_link *l = &w->args->other[i];
		struct process_beside *p;

		if (l->row->start != PROCESS_BESIDE && l->row->start != PROCESS_AHEAD)
			continue;
		p = &w->processes.one[w->processes.n++];
		*p = (struct process_beside){
			.w = w, .row = l->row, .pidfd = proc_pidfd(l->pid), .peer = PEER_CLOSED};
		if (p->pidfd < 0)
			return err_errno(err, E_INTERNAL, l->row->name, "%s (pid %d)",
					 l->row->title, (int)l->pid);
		p->gone = watch_readable(w->loop, p->pidfd, on_gone, p);
		watch_start(p->gone);
		if (l->ring_fd > 0)
			r = ring_heads_add(&w->heads, l->row->name, l->ring_fd, err);
		if (r == 0)
			r = peer_open(&p->peer, &kind, w->loop, l->fd, p, err);
	}
	return r;
}

const char *processes_dying(void *warden)
{
	const struct warden *w = warden;
	size_t n = 0;

	if (w->init_dead || proc_ending(w->args->init_pid))
		return process_table[process_of(PROCESS_INSIDE)].title;
	for (size_t i = 0; i < w->args->nothers; i++) {
		const struct process_link *l = &w->args->other[i];

		if (l->row->start != PROCESS_BESIDE && l->row->start != PROCESS_AHEAD)
			continue;
		if (w->processes.one[n++].pidfd == -1 || proc_ending(l->pid))
			return l->row->title;
	}
	return NULL;
}

void processes_greet(struct warden *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		process_send(&w->processes.one[i], MSG_process_hello, 0, &(struct msg_empty){0},
			     actor_table_fd(w->commands.actors));
}

bool processes_restore(struct warden *w, uint32_t req, const struct trash_restore *m)
{
	for (size_t i = 0; i < w->processes.n; i++)
		if (w->processes.one[i].row == &process_table[PROCESS_fs]) {
			process_send(&w->processes.one[i], MSG_process_restore, req, m, -1);
			return true;
		}
	return false;
}

void processes_settings(struct warden *w, int log_fd)
{
	for (size_t i = 0; i < w->processes.n; i++)
		process_send(&w->processes.one[i], MSG_process_settings, 0, &w->processes.settings,
			     log_fd);
}

static void tell_all(struct warden *w, enum msg_type type, const char *command_id)
{
	struct process_settle m = {.command_id = (char *)command_id,
				   .until_us = (uint64_t)clock_mono_us(w->clock)};
	struct actor command;
	int64_t since_us = 0;

	actor_table_command(w->commands.actors, command_id, &command, &since_us);
	m.leader = (uint32_t)command.leader;
	m.spawn = command.spawn;
	m.since_us = (uint64_t)since_us;
	for (size_t i = 0; i < w->processes.n; i++)
		process_send(&w->processes.one[i], type, 0, &m, -1);
}

unsigned processes_settle(void *warden, const char *command_id)
{
	struct warden *w = warden;

	tell_all(w, MSG_process_settle, command_id);
	if (w->processes.n > 0 && watch_due_us(w->processes.late) == 0)
		watch_after(w->processes.late, SETTLE_MS);
	return (unsigned)w->processes.n;
}

void processes_command_over(void *warden, const char *command_id)
{
	tell_all(warden, MSG_process_over, command_id);
}

bool processes_ready(const struct warden *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		if (!w->processes.one[i].ready)
			return false;
	return true;
}

bool processes_gone(const struct warden *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		if (w->processes.one[i].pidfd != -1)
			return false;
	return true;
}

void processes_end(struct warden *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		peer_close(&w->processes.one[i].peer);
}

void processes_kill(struct warden *w)
{
	for (size_t i = 0; i < w->processes.n; i++)
		proc_pidfd_signal(w->processes.one[i].pidfd, SIGKILL);
}

void processes_close(struct warden *w)
{
	processes_end(w);
	holds_drop(w, NULL);
	watch_free(w->processes.late);
	while (w->processes.n > 0) {
		struct process_beside *p = &w->processes.one[--w->processes.n];

		watch_free(p->gone);
		actor_reader_free(p->actors);
		mem_cleanup_fd(&p->pidfd);
	}
}
