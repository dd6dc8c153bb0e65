// SPDX-License-Identifier: Apache-2.0
/* From an accepted request to a running process. */
#include "base/mem.h"
#include "base/proc.h"
#include "command/run.h"
#include "link/peer.h"
#include "shell/alias.h"
#include "shell/builtins.h"
#include "shell/shell.h"
#include "spawn/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#define UMASK_DEFAULT 022
#define LISTEN_MS 2	/* most commands end before it: their pipes are read once, at the end */
#define SCRIPT_MS 4	/* the same for a script, whose shell starts and ends more slowly */
#define ABANDON_MS 5000 /* after the time-out, for a start that hangs */
#define START_CODE(errnum) ((errnum) == EAGAIN ? E_RESOURCE_LIMIT : E_INTERNAL)

/* ---- the leader's messages ---- */

/* The program runs: a message to the API process is due, once. */
static void begin(struct run *r)
{
	if (r->began)
		return;
	r->began = true;
	r->root.pid = r->leader->id.pid; /* 0: it has not sent a message yet */
	r->tell_started = true;
}

static void on_running(struct run *r)
{
	actor_table_started(r->cs->actors, r->spawn, &r->leader->id);
	if (r->pid == 0 && r->pidfd >= 0) { /* execs are not watched */
		const pid_t pid = proc_pidfd_pid(r->pidfd);

		r->pid = pid > 0 ? pid : 0;
	}
	r->root.pid = r->leader->id.pid;
	r->phase = RUN_RUNNING;
	begin(r);
}

static void on_started(void *ctx, void *msg, struct link_msg *m)
{
	struct run *r = ctx;

	r->pidfd = take_fd(m->fd[0]);
	on_running(r);
	capture_in_settle(r->cs->captures);
	if (r->why == WHY_TIMEOUT || r->why == WHY_SESSION_END) {
		run_begin_kill(r, r->why);
	} else if (r->signal != 0) {
		const struct warden_kill again = {.signal = (uint32_t)r->signal,
						  .grace_ms = r->grace_ms,
						  .tree = r->signal_tree,
						  .client_gone = r->why == WHY_CLIENT_GONE};

		run_kill(r, &again);
	}
}

static void on_failed(void *ctx, void *msg, struct link_msg *m)
{
	const struct leader_failed *f = msg;
	struct run *r = ctx;
	const int errnum = (int)f->errnum;
	struct err err = {0};

	run_spawn_over(r, false);
	r->spawn = 0;
	if (f->stage == SPAWN_STAGE_EXEC) {
		run_not_executed(r, errnum);
		return;
	}
	errno = errnum;
	if (f->stage == SPAWN_STAGE_LIMITS)
		err_errno(&err, E_ENFORCEMENT, "rlimit", "the command's limits cannot be set");
	else if (f->stage == SPAWN_STAGE_CWD)
		err_errno(&err, E_BAD_REQUEST, "working_dir", "cannot enter '%.256s'", r->cwd);
	else
		err_errno(&err, START_CODE(errnum), NULL, "the command cannot be started");
	run_refuse(r, &err);
}

/* Takes the results of its execs from exec control. */
static void take_news(struct run *r)
{
	struct exec_news news;

	exec_take_news(r->cs->control, r->spawn, &news);
	if (news.pid != 0)
		r->pid = news.pid;
	/* Its leader may report later that it runs. */
	if (news.any && r->phase == RUN_STARTING)
		begin(r);
	/* After `exec` the shell's old state stands, also if its helper was called before. */
	if (news.replaced) {
		r->replaced = true;
		captured_done(&r->captured);
	}
	r->mismatched |= news.killed;
	if (r->privileged == NULL)
		r->privileged = take(news.privileged);
	free(news.privileged);
}

void run_take_all_news(struct commands *cs)
{
	struct run *r;

	TAILQ_FOREACH (r, &cs->runs, next)
		if (r->phase >= RUN_STARTING && r->phase < RUN_KEPT)
			take_news(r);
}

static void on_exit_message(void *ctx, void *msg, struct link_msg *m)
{
	struct run *r = ctx;

	if (r->phase == RUN_STARTING) /* it was brief */
		on_running(r);
	run_on_exit(r, msg);
}

void run_on_leader(struct run *r, struct link_msg *m)
{
	static const struct peer_row rows[] = {{MSG_leader_started, on_started},
					       {MSG_leader_failed, on_failed},
					       {MSG_leader_exit, on_exit_message},
					       {MSG_leader_empty, run_on_empty}};
	static const struct peer_kind kind = {.rows = rows, .n = ARRAY_LEN(rows)};

	take_news(r);
	peer_dispatch(&kind, r, m, NULL);
}

bool run_hold_leader(struct run *r)
{
	if (r->root.pidfd < 0)
		r->root.pidfd = proc_pidfd(r->root.pid);
	return r->root.pidfd >= 0 && leader_alive(r->leader);
}

/* ---- starting ---- */

static void on_data(void *arg)
{
	struct run *r = arg;

	r->tell_output = run_reports_output(r);
}

static void on_taken(void *arg)
{
	struct run *r = arg;

	r->tell_taken = r->ask.stdin_open != 0;
}

static void on_deadline(void *arg)
{
	struct run *r = arg;

	if (r->phase == RUN_RUNNING)
		run_begin_kill(r, WHY_TIMEOUT);
	else if (r->phase <= RUN_ASKING)
		run_give_up(r, WHY_TIMEOUT, SIGKILL);
	else if (r->phase == RUN_STARTING && r->why == WHY_TIMEOUT)
		run_end(r);
	else if (r->phase == RUN_STARTING) {
		r->why = WHY_TIMEOUT; /* on_started kills it */
		watch_after(r->deadline, ABANDON_MS);
	}
}

/* The smaller of the two time-outs counts; 0: without one. A command that waited for the gate
 * has its deadline already. */
static void start_deadline(struct run *r)
{
	const uint64_t own = r->ask.timeout_ms, cap = r->cs->settings->command_timeout_ms;
	const uint64_t timeout = own == 0 || (cap > 0 && cap < own) ? cap : own;

	if (timeout == 0 || r->deadline != NULL)
		return;
	r->deadline = watch_timer(r->cs->loop, on_deadline, r);
	watch_after(r->deadline, timeout);
}

/* Program, arguments and environment of the first process. */
static void build_spawn(struct run *r, struct init_spawn *sp)
{
	struct commands *cs = r->cs;
	const struct env_ask env = {cs->session_id, r->cwd, &r->ask.env, &r->dropped};

	env_build(cs->memory, &env, &sp->env);
	if (r->ask.script != NULL) {
		const struct shell_ask shell = {cs->shell, r->ask.argv0, r->ask.script,
						cs->state_program, cs->memory->last_exit};

		strv_copy(&r->given, &sp->env);
		shell_argv(&shell, &sp->argv, &sp->env);
		sp->path = mem_strdup(cs->shell);
	} else {
		strv_copy(&sp->argv, &r->ask.argv);
		sp->path = mem_strdup(r->ask.argv.v[0]);
		if (r->ask.argv0 != NULL) {
			free(sp->argv.v[0]);
			sp->argv.v[0] = mem_strdup(r->ask.argv0);
		}
	}
	sp->cwd = mem_strdup(r->cwd);
	sp->umask = r->ask.umask_plus1 > 0 ? r->ask.umask_plus1 - 1 : UMASK_DEFAULT;
	sp->stdio = r->ask.stdio;
	sp->cols = r->ask.cols;
	sp->rows = r->ask.rows;
	sp->id = (uint32_t)cs->started;
	/* The state of a shell needs a sender: exec control sees it, or the leader reports it. */
	sp->brief_ms = r->ask.script == NULL ? LISTEN_MS : cs->control != NULL ? SCRIPT_MS : 0;
}

void run_listen(struct run *r)
{
	watch_stop(r->listen);
	for (int i = 0; i < 2; i++)
		if (r->out[i].fd >= 0 && r->out[i].watch == NULL)
			output_start(&r->out[i], r->cs->loop, on_data, r);
}

static void on_listen(void *arg)
{
	limits_begin(arg);
	run_listen(arg);
}

/* Gives the command its pipes and a leader. program: a descriptor, borrowed, or -1. */
static int ask_leader(struct run *r, struct init_spawn *sp, int program, struct err *err)
{
	const int null_fd = r->cs->null_fd;
	const bool feed = r->ask.stdin_data.len > 0 || r->ask.stdin_open;
	int fd[LEADER_FDS] = {null_fd, null_fd, null_fd, program}, pipes[2], code = 0;

	for (int i = 0; i < 3 && code == 0; i++) {
		if (i == 0 ? !feed : r->ask.stdio == SPAWN_NULL)
			continue;
		if (pipe2(pipes, O_CLOEXEC) < 0) {
			code = err_errno(err, E_RESOURCE_LIMIT, "pipe",
					 "no pipe can be had for the command (limits: "
					 "fs.pipe-user-pages-hard of its user, fs.file-max, "
					 "RLIMIT_NOFILE)");
		} else {
			*(i == 0 ? &r->in.fd : &r->out[i - 1].fd) = pipes[i == 0];
			fd[i] = pipes[i != 0];
		}
	}
	if (code == 0 && feed) {
		fcntl(r->in.fd, F_SETFL, O_NONBLOCK); /* and not the command's end */
		code = input_add(&r->in, r->ask.stdin_data.data, r->ask.stdin_data.len,
				 !r->ask.stdin_open, err);
		bytes_done(&r->ask.stdin_data);
	}
	r->spawn = sp->id;
	if (code == 0) {
		/* From here on the command may run, so the journal says that it started. */
		run_record_start(r);
		if (r->cs->control == NULL) /* else when the kernel asks */
			exec_initial_settle(r->initial, 0, 0);
		code = leader_ask(r, sp, fd, err);
	}
	for (int i = 0; i < 3; i++)
		if (fd[i] != null_fd)
			close(fd[i]);
	return code;
}

/* True: a lookup was not answered, or its directory cannot be entered, which is the reason to
 * report first, as at a real exec. The command is over. */
static bool cannot_enter(struct run *r, const struct lookup *q)
{
	struct err err = {0};

	if (q == NULL) {
		err_set(&err, E_UNAVAILABLE, "workspace",
			"the session's file system does not answer; try again later");
	} else {
		errno = q->enter.errnum;
		if (errno == 0 && (q->errnum == 0 || r->cs->dying(r->cs->owner) == NULL))
			return false;
		err_errno(&err, E_BAD_REQUEST, "working_dir", "cannot enter '%.256s'", r->cwd);
	}
	run_refuse(r, &err);
	return true;
}

static void execute(struct run *r, struct lookup *q);

static void on_target(struct run *r, struct lookup *q)
{
	if (cannot_enter(r, q))
		return;
	if (q->errnum != 0) {
		run_not_executed(r, q->errnum);
		return;
	}
	exec_initial_redirect(r->initial, take(q->initial));
	execute(r, NULL);
}

/* The gate has answered. */
static void execute(struct run *r, struct lookup *q)
{
	struct err err = {0};
	int fd = -1, code;

	code = exec_initial_apply(r->initial, &r->start.path, &r->start.argv, &fd, &err);
	if (code > 0 && code != EXEC_FAR) {
		run_not_executed(r, code);
		return;
	}
	if (code > 0) {
		const struct exec_initial_ask ask = exec_initial_target(r->initial);
		struct lookup *target = lookup_new(r);

		lookup_find(target, &ask);
		start_deadline(r);
		run_look(r, target, RUN_LOOKING, on_target);
		return;
	}
	if (code == 0)
		code = ask_leader(r, &r->start, fd, &err);
	msg_done(MSG_init_spawn, &r->start);
	if (code < 0) {
		run_refuse(r, &err);
		return;
	}
	r->phase = RUN_STARTING;
	r->listen = watch_timer(r->cs->loop, on_listen, r);
	watch_after(r->listen, LISTEN_MS);
	input_start(&r->in, r->cs->loop, on_taken, r);
	start_deadline(r);
}

/* run_start_held starts it in this turn, if the journal has room. */
static void on_answer(struct gate_case *k, void *arg)
{
	struct run *r = arg;

	r->then = execute;
	r->phase = RUN_HELD;
}

static void on_found(struct run *r, struct lookup *q)
{
	const struct gate_waiter waiter = {&r->cs->asker, on_answer, r};

	if (cannot_enter(r, q))
		return;
	if (q->errnum != 0) {
		run_not_executed(r, q->errnum);
		return;
	}
	r->initial = take(q->initial);
	if (exec_initial_decide(r->initial, r->cs->gate, &waiter) == GATE_PENDING) {
		r->phase = RUN_ASKING;
		start_deadline(r);
	} else {
		execute(r, NULL);
	}
}

static void start_process(struct run *r, struct lookup *q)
{
	const struct init_spawn *sp = &r->start;
	/* The policy sees the client's script without our text before it. */
	char *script[] = {NULL, (char[]){"-c"}, r->ask.script};
	const struct strv shown = {script, ARRAY_LEN(script)};

	build_spawn(r, &r->start);
	script[0] = sp->argv.v[0];
	const struct exec_initial_ask ask = {.path = sp->path,
					     .search = strv_env_get(&sp->env, "PATH"),
					     .argv = r->ask.script != NULL ? &shown : &sp->argv,
					     .command_id = r->ask.command_id,
					     .request_id = r->ask.request_id};

	lookup_find(q, &ask);
	run_look(r, q, RUN_LOOKING, on_found);
}

static void run_builtin(struct run *r, struct lookup *q)
{
	struct builtin_call call = {.memory = r->cs->memory,
				    .root_fd = r->cs->root_fd,
				    .cwd = r->cwd,
				    .session_id = r->cs->session_id,
				    .argv = &r->ask.argv,
				    .request = &r->ask.env};
	struct strv before = {0};
	int status;

	if (q == NULL) {
		cannot_enter(r, q);
		return;
	}
	if (r->cs->walker != NULL)
		call.enter = &q->enter;
	strv_copy(&before, &r->cs->memory->env);
	status = builtin_run(&call);
	if (call.asks) {
		struct lookup *next = lookup_new(r);

		next->enter = q->enter;
		q->enter = (struct root_enter){0};
		run_look(r, next, RUN_LOOKING, run_builtin);
	} else {
		stream_append(&r->out[0].stream, call.out.data, call.out.len);
		stream_append(&r->out[1].stream, call.err.data, call.err.len);
		run_finish_builtin(r, status, &before);
	}
	buf_done(&call.out);
	buf_done(&call.err);
	strv_done(&before);
}

static void enter_builtin(struct run *r, struct lookup *q)
{
	if (!cannot_enter(r, q))
		run_builtin(r, q);
}

/* The program or the directory of a new command is looked up. */
static void look_first(struct run *r)
{
	const bool builtin = r->ask.script == NULL && builtin_is(&r->ask.argv);
	struct lookup *q;
	struct err err = {0};

	if (!builtin && loop_room(r->cs->loop, &err) < 0) {
		run_refuse(r, &err);
		return;
	}
	q = lookup_new(r);
	if (r->ask.cwd != NULL)
		lookup_enter(q, r->cwd);
	if (r->cs->walker != NULL)
		start_deadline(r);
	if (builtin)
		run_look(r, q, RUN_LOOKING, enter_builtin);
	else
		start_process(r, q);
}

void run_start(struct run *r)
{
	struct commands *cs = r->cs;
	struct err err = {0};

	if (r->then != NULL) {
		run_go_on(r);
		return;
	}
	cs->started++;
	limits_before(cs);
	r->before = cs->limits.seen;
	r->mono_us = clock_mono_us(cs->clock);
	r->wall_us = clock_wall_us(cs->clock);
	shell_memory_remember(cs->memory, r->line);
	alias_expand(cs->memory, &r->ask.argv);
	if (r->ask.script == NULL && r->ask.argv.n == 0) {
		err_set(&err, E_BAD_REQUEST, "command", "there is nothing to execute");
		run_refuse(r, &err);
	} else if (r->ask.script == NULL && strlen(r->ask.argv.v[0]) >= ENV_PATH_MAX) {
		run_not_executed(r, ENAMETOOLONG);
	} else {
		look_first(r);
	}
}
