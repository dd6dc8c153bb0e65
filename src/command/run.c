// SPDX-License-Identifier: Apache-2.0
/* Requests about commands: accepts, finds, feeds and signals them. */
#include "command/run.h"
#include "base/id.h"
#include "base/line.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include <signal.h>

#define HELD_MAX 64

/* ---- making and finding ---- */

void run_spawn_over(struct run *r, bool orphans)
{
	/* First: the other processes then have the command before the table loses it. */
	r->cs->over(r->cs->owner, r->ask.command_id);
	actor_table_over(r->cs->actors, r->spawn, orphans);
	exec_over(r->cs->control, r->spawn);
	gate_command_over(r->cs->gate, r->ask.command_id);
}

static void free_run(struct commands *cs, struct run *r)
{
	const bool rests = r->exited && r->end.empty && !r->orphaned; /* its leader */

	TAILQ_REMOVE(&cs->runs, r, next);
	watch_free(r->deadline);
	watch_free(r->retry);
	watch_free(r->listen);
	run_drop_lookup(r);
	watch_free(r->patience);
	if (r->spawn != 0)
		run_spawn_over(r, !r->orphaned && !rests);
	if (rests)
		leader_rest(r->leader);
	else
		leader_free(r->leader);
	exec_initial_free(r->initial); /* after exec_over: exec control borrows it */
	output_done(&r->out[0]);
	output_done(&r->out[1]);
	input_done(&r->in);
	mem_cleanup_fd(&r->pidfd);
	mem_cleanup_fd(&r->root.pidfd);
	msg_done(MSG_warden_exec, &r->ask);
	msg_done(MSG_init_spawn, &r->start);
	strv_done(&r->given);
	strv_done(&r->dropped);
	strv_done(&r->background);
	captured_done(&r->captured);
	msg_done(MSG_warden_result, &r->result);
	free(r->missing);
	free(r->privileged);
	free(r->limit);
	free(r->tree_full);
	free(r->line);
	free(r->cwd);
	free(r);
}

void run_free(struct commands *cs, bool all)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&cs->runs); r != NULL; r = next) {
		next = TAILQ_NEXT(r, next);
		if (all || r->phase == RUN_DEAD)
			free_run(cs, r);
	}
}

struct run *run_find(struct commands *cs, const char *command_id)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next)
		if (r->phase < RUN_KEPT && command_id != NULL &&
		    strcmp(r->ask.command_id, command_id) == 0)
			return r;
	return NULL;
}

struct captured *run_owner_of(pid_t pid, bool *later, void *commands)
{
	struct commands *cs = commands;
	pid_t parent = 0;
	struct run *r;

	run_take_all_news(cs); /* earlier execs come first */
	TAILQ_FOREACH (r, &cs->runs, next) {
		if (r->ask.script == NULL)
			continue;
		if (r->phase != RUN_STARTING && r->phase != RUN_RUNNING)
			continue;
		/* Exec control has seen its pid before the leader reports the start. */
		if (r->pid > 0 && r->pid != pid && parent == 0)
			parent = proc_ppid(pid);
		if (r->pid > 0 && (r->pid == pid || r->pid == parent))
			return &r->captured;
		*later |= r->phase == RUN_STARTING;
	}
	return NULL;
}

void run_refuse(struct run *r, const struct err *err)
{
	const char *died = r->cs->dying(r->cs->owner);
	struct err ends = {.code = E_SESSION_STOPPED};

	/* Without init or the file server the session's root or workspace is gone, so any other
	 * reason would be wrong. */
	if (died != NULL)
		snprintf(ends.message, sizeof(ends.message), "the session ends: %s died", died);
	results_refuse(&r->cs->results, r->ask.command_id, r->req, died != NULL ? &ends : err);
	r->phase = RUN_DEAD;
}

bool run_start_held(struct commands *cs)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next) {
		if (cs->closed || cs->sweeping)
			break;
		if (r->phase != RUN_HELD)
			continue;
		if (!recorder_has_room(cs->recorder))
			return false;
		run_start(r);
	}
	return true;
}

/* Whether the command may be accepted now. */
static int admit(struct commands *cs, const struct warden_exec *ask, struct err *err)
{
	const char *id = ask->command_id;
	const struct run *r;
	unsigned waiting = 0;

	if (id == NULL || !id_valid(id))
		return err_set(err, E_BAD_REQUEST, "command_id", "not a command's id");
	if (cs->closed)
		return err_set(err, E_SESSION_STOPPED, cs->session_id, "the session ends");
	if (run_find(cs, id) != NULL || results_find(&cs->results, id) != NULL)
		return err_set(err, E_CONFLICT, id, "command '%s' was started before", id);
	TAILQ_FOREACH (r, &cs->runs, next)
		waiting += r->phase <= RUN_ASKING;
	if (results_full(&cs->results) || waiting >= HELD_MAX)
		return err_set(err, E_UNAVAILABLE, id, "too many results are not yet stored");
	return 0;
}

void run_exec(struct commands *cs, struct warden_exec *ask, uint32_t req, int fd[2])
{
	struct err err = {0};
	struct run *r;

	if (admit(cs, ask, &err) < 0) {
		results_refuse(&cs->results, ask->command_id, req, &err);
		return;
	}
	r = mem_new(struct run);
	r->cs = cs;
	r->ask = *ask;
	*ask = (struct warden_exec){0};
	r->req = req;
	r->line = line_of(&r->ask.argv, r->ask.script);
	if (r->ask.cwd != NULL) {
		cleanup_free char *cwd = path_clean(cs->memory->cwd, r->ask.cwd);

		r->cwd = workspace_seen(cs->names, cwd);
	} else {
		r->cwd = mem_strdup(cs->memory->cwd);
	}
	r->root.pidfd = r->pidfd = r->in.fd = -1;
	for (int i = 0; i < 2; i++) {
		output_init(&r->out[i], -1, take_fd(fd[i]), cs->settings->output_quota);
		if (r->ask.flow != 0)
			r->out[i].allowed = OUTPUT_FIRST_WINDOW;
		if (r->ask.report_output != 0)
			output_window(&r->out[i], 0, 0);
	}
	TAILQ_INSERT_TAIL(&cs->runs, r, next);
}

struct exec_counts commands_exec_counts(const struct commands *cs)
{
	uint64_t n[GATE_OUTCOMES] = {0};

	if (cs->control != NULL)
		exec_outcomes(cs->control, n);
	return (struct exec_counts){.verified = n[GATE_DONE],
				    .refused = n[GATE_REFUSED],
				    .mismatched = n[GATE_MISMATCHED],
				    .failed = n[GATE_FAILED]};
}

/* ---- while it runs ---- */

void run_stdin(struct commands *cs, const struct warden_stdin *m)
{
	struct run *r = run_find(cs, m->command_id);
	struct err err = {0};

	if (r == NULL || r->phase > RUN_RUNNING || !r->ask.stdin_open)
		return;
	if (input_add(&r->in, m->data.data, m->data.len, m->eof != 0, &err) < 0)
		log_warn("stdin refused", "command_id", r->ask.command_id, "reason", err.message);
}

static void on_grace_over(void *arg)
{
	struct run *r = arg;

	run_begin_kill(r, r->why);
}

void run_kill(struct run *r, const struct warden_kill *m)
{
	const int sig = (int)m->signal;

	if (r->phase >= RUN_ENDING || sig <= 0 || sig >= _NSIG)
		return;
	if (m->client_gone)
		run_unbind(r);
	if (sig == SIGKILL || m->grace_ms > 0)
		r->why = m->client_gone ? WHY_CLIENT_GONE : WHY_KILL;
	if ((r->phase == RUN_ASKING || r->phase == RUN_LOOKING) &&
	    (r->why != WHY_ITSELF || sig == SIGTERM || sig == SIGINT || sig == SIGHUP ||
	     sig == SIGQUIT)) {
		run_give_up(r, r->why != WHY_ITSELF ? r->why : WHY_KILL, sig);
		return;
	}
	if (r->phase != RUN_RUNNING) {
		r->signal = sig;
		r->grace_ms = m->grace_ms;
		r->signal_tree = m->tree != 0;
		return;
	}
	if (sig == SIGKILL) {
		run_begin_kill(r, r->why);
		return;
	}
	if (!m->tree)
		proc_pidfd_signal(r->pidfd, sig);
	else if (run_hold_leader(r))
		tree_signal(&r->root, sig);
	if (m->grace_ms > 0) {
		if (r->retry == NULL)
			r->retry = watch_timer(r->cs->loop, on_grace_over, r);
		watch_after(r->retry, m->grace_ms);
	}
}

/* The session ends before the command has begun. */
static void end_unstarted(struct run *r)
{
	const struct err ends = {.code = E_SESSION_STOPPED, .message = "the session ends"};

	if (r->initial != NULL)
		exec_initial_gone(r->initial);
	run_refuse(r, &ends);
}

void run_terminate_all(struct commands *cs)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next) {
		if (r->phase <= RUN_ASKING)
			end_unstarted(r);
		else if (r->phase < RUN_ENDING && r->why == WHY_ITSELF)
			r->why = WHY_SESSION_END;
		if ((r->phase == RUN_RUNNING || r->phase == RUN_KEPT) && run_hold_leader(r))
			tree_signal(&r->root, SIGTERM);
	}
}

void run_kill_all(struct commands *cs)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next) {
		if (r->phase <= RUN_ASKING)
			end_unstarted(r);
		else if (r->phase == RUN_STARTING)
			r->why = WHY_SESSION_END;
		else if (r->phase == RUN_RUNNING)
			run_begin_kill(r, WHY_SESSION_END);
		else if (r->phase == RUN_EXPLAINING)
			run_hurry(r);
		else if (r->phase == RUN_KEPT)
			r->phase = RUN_DEAD; /* the end of the session kills its processes */
	}
}

void run_window(struct commands *cs, const struct warden_window *m)
{
	struct run *r = run_find(cs, m->command_id);

	if (r == NULL || (m->stream != 1 && m->stream != 2))
		return;
	if (m->read == OUTPUT_UNREAD)
		output_unbind(&r->out[m->stream - 1]);
	else
		output_window(&r->out[m->stream - 1], m->allowed, m->read);
	/* A reader that comes later gets messages as well. */
	r->ask.report_output |= m->read != OUTPUT_UNREAD;
}

bool run_reports_output(const struct run *r)
{
	const struct stream *out = &r->out[0].stream, *errors = &r->out[1].stream;

	return r->ask.report_output != 0 || out->bytes > out->kept || errors->bytes > errors->kept;
}

void run_unbind(struct run *r)
{
	for (int i = 0; i < 2; i++)
		output_unbind(&r->out[i]);
}
