// SPDX-License-Identifier: Apache-2.0
/* From the end of a command's first process to its result. */
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "command/run.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* A tree that does not die (uninterruptible sleep) delays the answer no longer than this. */
#define GIVE_UP_US (5 * 1000 * 1000)
#define ROUND_MS 2 /* between the first rounds; doubles */
#define ROUND_MAX_MS 64
#define CODE_TIMEOUT 124
#define CODE_NOT_EXECUTABLE 126
#define CODE_NOT_FOUND 127
#define CODE_SIGNAL 128
#define PATH_SHOWN 512

static struct event event_of(const struct run *r, enum event_type type)
{
	return (struct event){.schema = EVENT_SCHEMA,
			      .type = type,
			      .time_us = (uint64_t)clock_wall_us(r->cs->clock),
			      .session_id = event_lend(r->cs->session_id),
			      .command_id = r->ask.command_id,
			      .agent_id = r->cs->settings->agent_id,
			      .request_id = r->ask.request_id,
			      .pid = (uint32_t)r->pid,
			      .count = 1,
			      .command_line = r->line};
}

void run_record_start(struct run *r)
{
	struct event e = event_of(r, EVENT_command_started);
	cleanup_free char *cwd = NULL;

	if (r->recorded)
		return;
	r->recorded = true;
	e.time_us = (uint64_t)r->wall_us;
	cwd = workspace_canonical(r->cs->names, r->cwd);
	e.exec_cwd = cwd != NULL ? cwd : r->cwd;
	recorder_event(r->cs->recorder, &e, NULL, NULL);
}

/* ---- the result ---- */

static const char *const reasons[] = {
	[WHY_ITSELF] = NULL,
	[WHY_TIMEOUT] = "time-out",
	[WHY_KILL] = "killed on request",
	[WHY_CLIENT_GONE] = "the client went away",
	[WHY_SESSION_END] = "the session ended",
	[WHY_LIMIT] = "the session has reached a limit",
	[WHY_LEADER] = "its leader was killed: ended without a result; it may have run",
};

static void set_error(struct warden_result *m, enum err_code code, char *message)
{
	m->error_code = mem_strdup(err_row(code)->name);
	m->error_message = message;
}

/* The program that could not be executed: missing (127) or not executable (126). */
static void explain_exec(struct run *r, const char *what, int errnum, struct warden_result *m)
{
	const bool missing = m->exit_code == CODE_NOT_FOUND;

	set_error(m, missing ? E_COMMAND_NOT_FOUND : E_COMMAND_NOT_EXECUTABLE,
		  mem_printf("%.*s: %s", PATH_SHOWN, what,
			     missing && strchr(what, '/') == NULL ? "command not found"
								  : strerror(errnum)));
	m->error_path = mem_strndup(what, strnlen(what, PATH_SHOWN));
	if (missing && (r->ask.script == NULL || strcmp(what, r->cs->shell) != 0))
		r->missing = mem_strdup(what);
}

/* exit_code, signal and error from the wait status and the reason of the end. */
static void explain_end(struct run *r, struct warden_result *m)
{
	const int status = r->exited ? (int)r->end.status : SIGKILL;
	const char *left = r->empty ? "" : "; some of its processes do not die";
	cleanup_free char *met = r->why == WHY_ITSELF || r->limit != NULL ? limits_met(r) : NULL;
	cleanup_free char *what = NULL;
	int errnum;

	if (WIFSIGNALED(status)) {
		m->signal = (uint32_t)WTERMSIG(status);
		m->exit_code = CODE_SIGNAL + m->signal;
	} else {
		m->exit_code = (uint32_t)WEXITSTATUS(status);
	}
	if (r->why == WHY_TIMEOUT) {
		m->exit_code = CODE_TIMEOUT;
		set_error(m, E_COMMAND_TIMEOUT,
			  mem_printf("the command ran out of time after %.3f s%s",
				     (double)m->duration_us / 1e6, left));
	} else if (met != NULL) {
		set_error(m, E_RESOURCE_LIMIT, take(met));
	} else if (m->signal != 0) {
		const char *name = proc_signal_name((int)m->signal);
		const char *why = r->why == WHY_ITSELF && r->mismatched
					  ? "it loaded another program, or other arguments, than "
					    "were decided on"
					  : reasons[r->why];

		set_error(m, E_COMMAND_KILLED,
			  mem_printf("ended by signal %s%s%s%s", name != NULL ? name : "?",
				     why != NULL ? ": " : "", why != NULL ? why : "", left));
	} else if (m->exit_code == CODE_NOT_FOUND || m->exit_code == CODE_NOT_EXECUTABLE) {
		/* A shell, env or xargs ends so if it could not execute the last program. */
		errnum = exec_last_failure(r->cs->control, r->spawn, &what);
		if (errnum != 0)
			explain_exec(r, what, errnum, m);
	}
}

static void count_output(const struct run *r, struct warden_result *m)
{
	const struct stream *out = &r->out[0].stream, *err = &r->out[1].stream;
	const int failed = out->failed != 0 ? out->failed : err->failed;

	m->stdout_bytes = out->bytes;
	m->stderr_bytes = err->bytes;
	m->stdout_lines = stream_lines(out);
	m->stderr_lines = stream_lines(err);
	m->stdout_kept = out->kept;
	m->stderr_kept = err->kept;
	m->stdout_from = out->from;
	m->stderr_from = err->from;
	if (failed != 0 && m->error_code == NULL) {
		const char *name = strerrorname_np(failed);

		m->error_code = mem_strdup(name != NULL ? name : "EIO");
		m->error_message = mem_printf("the output could not be kept: %s", strerror(failed));
	}
}

static void on_recorded(uint64_t end, void *arg)
{
	result_recorded(arg, end);
}

/* Warns of each variable that the policy dropped, once. */
static void tell_dropped(struct run *r, struct strv *warnings)
{
	struct shell_memory *memory = r->cs->memory;

	for (size_t i = 0; i < r->dropped.n; i++)
		strv_add_new(&memory->dropped, r->dropped.v[i]);
	for (size_t i = 0; i < memory->dropped.n; i++) {
		cleanup_free char *text = mem_printf(
			"%s was dropped: it can load code into a program, and the policy '%s' "
			"denies commands by default; its environment.allow does not name it",
			memory->dropped.v[i], policy_name(memory->policy));

		strv_add(warnings, text);
	}
	strv_done(&memory->dropped);
}

/* Completes m, records the end and adds m to the results; m is empty afterwards. */
static void deliver(struct run *r, struct warden_result *m)
{
	struct commands *cs = r->cs;
	const bool timeout = m->error_code != NULL &&
			     strcmp(m->error_code, err_row(E_COMMAND_TIMEOUT)->name) == 0;
	struct event e = event_of(r, timeout	      ? EVENT_command_timeout
				     : m->signal != 0 ? EVENT_command_killed
						      : EVENT_command_finished);
	struct result *kept;

	m->command_id = mem_strdup(r->ask.command_id);
	m->started_us = (uint64_t)r->wall_us;
	m->finished_us = e.time_us;
	m->cwd = mem_strdup(cs->memory->cwd);
	m->execs = commands_exec_counts(cs);
	tell_dropped(r, &m->warnings);
	if (m->env_changed.n > 0)
		strv_copy(&m->env, &cs->memory->env);
	cs->memory->last_exit = m->exit_code;
	e.has_exit = 1;
	e.exit_code = m->exit_code;
	e.signal = m->signal != 0 ? event_lend(proc_signal_name((int)m->signal)) : NULL;
	e.duration_us = m->duration_us;
	e.reason = event_lend(reasons[r->why]);
	kept = results_add(&cs->results, m);
	kept->req = r->req;
	if (r->spawn != 0)
		kept->unsettled = cs->settle(cs->owner, r->ask.command_id);
	r->tell_started = r->tell_output = r->tell_taken = false; /* the result says everything */
	recorder_event(cs->recorder, &e, on_recorded, kept);
}

static uint64_t duration_us(const struct run *r)
{
	return (uint64_t)(clock_mono_us(r->cs->clock) - r->mono_us);
}

/* ---- the shell's state ---- */

static void take_directory(struct run *r, const char *cwd)
{
	struct shell_memory *m = r->cs->memory;

	if (strv_env_get(&r->captured.env, "OLDPWD") == NULL) {
		env_chdir(m, cwd);
	} else { /* which env_apply has taken over */
		free(m->cwd);
		m->cwd = mem_strdup(cwd);
	}
}

static const char state_refused[] =
	"the working directory and the variables that the script leaves were not taken over: they "
	"could not be read or are too large";
static const char state_missing[] =
	"the working directory and the variables that the script leaves were not taken over: no "
	"process could be started at its end (ulimit -u or -n in the script?), which may also have "
	"changed its exit code; or its EXIT trap was replaced";

/* The session keeps its old state after a kill, after `exec`, after the refusal of a program that
 * raises privilege, and without a capture by our program. */
static void take_state(struct run *r, struct lookup *q)
{
	struct warden_result *m = &r->result;
	struct captured *c = &r->captured;
	struct strv before = {0};
	struct err err = {0};

	if (r->privileged != NULL) {
		cleanup_free char *text = mem_printf(
			"the session's state stays as it was before this command, because %s was "
			"refused (" POLICY_NO_PRIVILEGE ")",
			r->privileged);

		strv_add(&m->warnings, text);
		m->capture = r->ask.script != NULL ? mem_strdup("none") : NULL;
		return;
	}
	if (r->ask.script == NULL)
		return;
	if (r->why != WHY_ITSELF || m->signal != 0 || !c->taken) {
		m->capture = c->note[0] != '\0' ? mem_printf("refused: %s", c->note)
						: mem_strdup("none");
		/* A script with a syntax error in its first line ends with 2 before it runs. */
		if (r->why == WHY_ITSELF && m->signal == 0 && !r->replaced &&
		    (m->exit_code != 2 || strstr(r->ask.script, "ulimit") != NULL))
			strv_add(&m->warnings, c->note[0] != '\0' ? state_refused : state_missing);
		return;
	}
	strv_copy(&before, &r->cs->memory->env);
	if (env_apply(r->cs->memory, &r->given, &c->env, &err) < 0) {
		m->capture = mem_printf("refused: %s", err.message);
	} else {
		env_changes(&before, &r->cs->memory->env, &m->env_changed);
		/* The request's own directory does not become the session's. */
		if (strcmp(c->cwd, r->cwd) != 0 && strcmp(c->cwd, r->cs->memory->cwd) != 0 &&
		    strlen(c->cwd) < ENV_PATH_MAX)
			lookup_enter(q, c->cwd);
		m->capture = mem_strdup("taken");
	}
	strv_done(&before);
}

static void on_explained(struct run *r, struct lookup *q)
{
	if (q != NULL) {
		r->result.similar = q->similar;
		q->similar = (struct strv){0};
		if (q->enter.whole != NULL && q->enter.errnum == 0)
			take_directory(r, q->enter.whole);
	}
	deliver(r, &r->result);
	r->phase = r->after;
}

/* Delivers the result, once the session's files have been looked at for it. */
static void explain(struct run *r, struct lookup *q, enum run_phase after)
{
	if (r->missing != NULL)
		lookup_similar(q, r, r->missing);
	watch_stop(r->deadline);
	watch_stop(r->retry);
	r->after = after;
	run_look(r, q, RUN_EXPLAINING, on_explained);
}

static void finish(struct run *r, enum run_phase after)
{
	struct warden_result *m = &r->result;
	struct lookup *q = lookup_new(r);

	*m = (struct warden_result){.duration_us = duration_us(r),
				    .cpu_us = r->end.cpu_us,
				    .maxrss_kb = r->end.maxrss_kb,
				    .read_bytes = r->end.read_bytes,
				    .write_bytes = r->end.write_bytes};
	for (int i = 0; i < 2; i++)
		output_drain(&r->out[i]);
	limits_look(r->cs);
	limits_measure(r, m);
	explain_end(r, m);
	count_output(r, m);
	take_state(r, q);
	m->background = r->background;
	r->background = (struct strv){0};
	explain(r, q, after);
}

/* ---- the end of a process and of its tree ---- */

void run_end(struct run *r)
{
	if (r->phase < RUN_EXPLAINING) {
		finish(r, RUN_DEAD);
		return;
	}
	for (int i = 0; i < 2; i++)
		output_drain(&r->out[i]);
	if (r->phase == RUN_EXPLAINING)
		r->after = RUN_DEAD;
	else
		r->phase = RUN_DEAD;
}

static void kill_step(void *arg)
{
	struct run *r = arg;
	const unsigned ms = r->rounds < 5 ? ROUND_MS << r->rounds : ROUND_MAX_MS;

	if (clock_mono_us(r->cs->clock) >= r->give_up_us) {
		log_warn("a command's processes do not die", "command_id", r->ask.command_id);
		run_end(r);
		return;
	}
	if (run_hold_leader(r)) {
		/* A stopped leader can neither reap nor send. */
		proc_pidfd_signal(r->root.pidfd, SIGCONT);
		tree_kill_round(&r->root);
	}
	r->rounds++;
	watch_after(r->retry, ms);
}

void run_begin_kill(struct run *r, enum run_why why)
{
	if (r->phase == RUN_ENDING)
		return;
	r->why = why;
	r->phase = RUN_ENDING;
	r->rounds = 0;
	r->give_up_us = clock_mono_us(r->cs->clock) + GIVE_UP_US;
	watch_stop(r->deadline);
	watch_free(r->retry);
	r->retry = watch_timer(r->cs->loop, kill_step, r);
	kill_step(r);
}

void run_on_exit(struct run *r, const struct leader_exit *m)
{
	const bool keep =
		r->cs->settings->keep_background && r->why == WHY_ITSELF && r->phase == RUN_RUNNING;

	r->exited = true;
	r->end = *m;
	r->empty = m->empty != 0;
	if (r->empty) {
		run_end(r);
		return;
	}
	/* While the session ends with a grace, all processes have been asked to end. */
	if (r->phase == RUN_ENDING || r->cs->in_grace)
		return;
	if (r->why == WHY_ITSELF && run_hold_leader(r))
		tree_list(&r->root, keep ? "kept" : "ended", &r->background);
	if (!keep) {
		run_begin_kill(r, r->why);
		return;
	}
	r->empty = true; /* the processes that are left need not die */
	finish(r, RUN_KEPT);
	run_listen(r);
	run_unbind(r); /* from now on no reader waits for output */
}

void run_on_empty(void *run, void *msg, struct link_msg *m)
{
	struct run *r = run;
	const uint32_t status = r->end.status;

	r->end = *(const struct leader_exit *)msg;
	r->end.status = status;
	r->empty = true;
	run_end(r);
}

/* ---- ends without a process ---- */

void run_leader_died(struct run *r)
{
	r->orphaned = r->empty = true;
	if (!r->exited && r->why == WHY_ITSELF)
		r->why = WHY_LEADER;
	run_end(r);
}

void run_give_up(struct run *r, enum run_why why, int sig)
{
	if (r->initial != NULL)
		exec_initial_gone(r->initial);
	run_record_start(r);
	r->why = why;
	r->exited = r->empty = true;
	r->end.status = (uint32_t)sig;
	run_end(r);
}

/* Its result, if it has no process. */
static void finish_without_process(struct run *r)
{
	run_record_start(r);
	r->result.duration_us = duration_us(r);
	count_output(r, &r->result);
	explain(r, lookup_new(r), RUN_DEAD);
}

void run_not_executed(struct run *r, int errnum)
{
	const char *what = r->ask.script != NULL ? r->cs->shell : r->ask.argv.v[0];

	r->result = (struct warden_result){.exit_code = errnum == ENOENT ? CODE_NOT_FOUND
									 : CODE_NOT_EXECUTABLE};
	explain_exec(r, what, errnum, &r->result);
	finish_without_process(r);
}

void run_finish_builtin(struct run *r, int status, const struct strv *env_before)
{
	r->result = (struct warden_result){.exit_code = (uint32_t)status};
	env_changes(env_before, &r->cs->memory->env, &r->result.env_changed);
	finish_without_process(r);
}
