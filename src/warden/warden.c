// SPDX-License-Identifier: Apache-2.0
/* The wiring: init, the loop's turns, and the order of an end. */
#include "warden/warden.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "bpf/exec_wants.h"
#include "gate/gate.h"
#include "model/request.h"
#include "shell/session_root.h"
#include "shell/shell.h"
#include "walk/walker.h"
#include "warden/core.h"
#include "warden/file_wall.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CWD_DEFAULT "/workspace"

/* ---- the end ---- */

static void close_init(struct warden *w)
{
	w->phase = WARDEN_CLOSING;
	peer_close(&w->init);
	processes_end(w);
	watch_after(w->deadline, END_MS);
	if (w->init_dead && processes_gone(w))
		loop_stop(w->loop);
}

/* The last messages or events cannot be written, or init does not die. */
static void on_deadline(void *arg)
{
	struct warden *w = arg;

	if (w->phase == WARDEN_ENDING) {
		log_warn("the session ends with messages that were not sent");
		close_init(w);
	} else {
		proc_pidfd_signal(w->init_pidfd, SIGKILL);
		processes_kill(w);
		watch_after(w->deadline, END_MS);
	}
}

static void on_grace_over(void *arg)
{
	struct warden *w = arg;

	w->commands.in_grace = false;
	run_kill_all(&w->commands);
}

void warden_end(struct warden *w, const char *reason, uint64_t grace_ms)
{
	if (w->phase != WARDEN_LIVE)
		return;
	log_info("session ends", "session_id", w->args->session_id, "reason", reason);
	w->phase = WARDEN_ENDING;
	w->commands.closed = true;
	watch_after(w->deadline, 2 * END_MS + grace_ms);
	if (grace_ms == 0) {
		run_kill_all(&w->commands);
		return;
	}
	w->commands.in_grace = true;
	run_terminate_all(&w->commands);
	watch_after(w->grace, grace_ms);
}

/* Running commands get no result any more: they end with init. */
void warden_fail(struct warden *w, const char *fmt, ...)
{
	cleanup_buf struct buf b = {0};
	struct run *r;
	va_list ap;

	if (w->failure != NULL || w->phase == WARDEN_CLOSING)
		return;
	va_start(ap, fmt);
	buf_addv(&b, fmt, ap);
	va_end(ap);
	w->failure = buf_take(&b);
	log_error("session failed", "session_id", w->args->session_id, "reason", w->failure);
	w->phase = WARDEN_ENDING;
	w->commands.closed = true;
	watch_after(w->deadline, END_MS);
	TAILQ_FOREACH (r, &w->commands.runs, next)
		r->phase = RUN_DEAD;
}

static void on_suspicion(void *arg)
{
	struct warden *w = arg;

	if (w->commands.sweeping)
		warden_fail(w, "a leader was killed, and what it left does not die");
	else
		warden_fail(w, "the leader of %s died", w->suspect);
}

/* A leader that dies with init shows that the session fails. Else a command has killed it (kill -9
 * -1): then everything that runs is ended and reported as killed, and the session goes on. */
static void on_leader_died(void *arg, const char *command_id)
{
	struct warden *w = arg;

	if (w->suspect != NULL || w->commands.sweeping || w->phase == WARDEN_CLOSING)
		return;
	watch_after(w->suspicion, END_MS);
	/* A leader that dies with init does so while init ends. */
	if (proc_ending(w->args->init_pid)) {
		w->suspect = mem_strdup(command_id);
		return;
	}
	log_warn("a leader was killed: all that the session runs is ended", "session_id",
		 w->args->session_id, "command_id", command_id);
	w->commands.sweeping = true;
	eventfd_write(w->end_fd, 1);
}

/* init has ended all processes of the session. A command that no leader has read yet still waits in
 * init's link, for the next leader. */
static void on_ended(void *ctx, void *msg, struct link_msg *m)
{
	struct warden *w = ctx;
	struct run *r;

	if (!w->commands.sweeping)
		return;
	w->commands.sweeping = false;
	watch_stop(w->suspicion);
	leaders_free_idle(&w->commands);
	run_take_all_news(&w->commands);
	TAILQ_FOREACH (r, &w->commands.runs, next)
		if (r->leader != NULL && r->phase != RUN_DEAD && !leader_settle(r->leader))
			run_leader_died(r);
}

/* The event comes after the first exec that was let go without the kernel's check, and before the
 * result of its command is sent. */
static void look_at_exec_check(struct warden *w)
{
	struct wall_report walls;
	struct err err = {0};
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_enforcement_failed,
			  .time_us = (uint64_t)clock_wall_us(w->clock),
			  .session_id = event_lend(w->args->session_id),
			  .reason = err.message};

	wall_report_init(&walls);
	if (wall_unpack(&walls, &w->walls, &err) < 0 || !execs_lost(&w->execs, &walls, &err))
		return;
	log_error("exec check lost", "session_id", w->args->session_id, "reason", err.message);
	recorder_event(&w->recorder, &e, NULL, NULL);
	strv_done(&w->walls);
	wall_pack(&walls, &w->walls);
	w->api.tell_state = w->api.greeted;
}

/* Runs after each callback. */
static void turn(void *arg)
{
	struct warden *w = arg;
	bool recorded, told;

	if (w->phase == WARDEN_ENDING)
		run_take_all_news(&w->commands);
	if (w->execs.control != NULL && !w->execs.told_lost &&
	    exec_control_lost(w->execs.control) != 0)
		look_at_exec_check(w);
	recorded = recorder_flush(&w->recorder);
	if (!recorded || !run_start_held(&w->commands))
		watch_after(w->retry, RECORD_RETRY_MS);
	told = server_link_flush(w);
	run_free(&w->commands, false);
	if (w->phase == WARDEN_ENDING && TAILQ_EMPTY(&w->commands.runs) && recorded && told &&
	    (w->suspect == NULL || w->failure != NULL))
		close_init(w);
}

/* ---- init ---- */

static void on_init_gone(void *arg)
{
	struct warden *w = arg;
	siginfo_t info = {0};

	waitid(P_PIDFD, (id_t)w->init_pidfd, &info, WEXITED | WNOHANG);
	place_end(&w->place);
	watch_stop(w->init_gone);
	w->init_dead = true;
	warden_process_gone(w, &process_table[PROCESS_init], &info);
}

void warden_process_gone(struct warden *w, const struct process_row *row, const siginfo_t *how)
{
	if (w->phase != WARDEN_CLOSING)
		warden_fail(w,
			    how->si_code == CLD_EXITED ? "%s exited with status %d"
						       : "%s was ended by signal %d",
			    row->title, how->si_status);
	else if (w->init_dead && processes_gone(w))
		loop_stop(w->loop);
}

void warden_greet(struct warden *w)
{
	struct warden_hello *h = &w->settings;

	if (!w->ready || !processes_ready(w) || !w->api.hello || w->api.greeted)
		return;
	if (h->env_max == 0 || h->env_max > REQUEST_ENV_MAX)
		h->env_max = REQUEST_ENV_MAX;
	w->recorder.drop = h->full_ring_drops != 0;
	w->processes.settings.full_ring_drops = h->full_ring_drops;
	w->processes.settings.event_batch_size = h->event_batch_size;
	w->processes.settings.event_batch_ms = h->event_batch_ms;
	w->processes.settings.max_file_ops = h->max_file_ops;
	w->processes.settings.approval_ms =
		w->approver != NULL ? (uint64_t)w->approver->timeout_ms : 0;
	w->processes.settings.trash_max_bytes = h->trash_max_bytes;
	w->processes.settings.trash_max_age_ms = h->trash_max_age_ms;
	w->processes.settings.max_disk_mb = h->max_disk_mb;
	processes_settings(w, -1);
	w->fresh = !w->settled;
	if (!w->settled) {
		const char *cwd = h->cwd != NULL && h->cwd[0] == '/' ? h->cwd : CWD_DEFAULT;
		cleanup_free char *first = workspace_seen(&w->place.names, CWD_DEFAULT),
				  *there = workspace_seen(&w->place.names, cwd);

		if (strcmp(first, there) != 0 && !warden_may_enter(w, there))
			mem_replace(&there, take(first));
		file_wall_records(&(struct file_records){w->place.names.served.n > 0, w->records,
							 w->sees_refusals},
				  &w->walls);
		shell_memory_init(&w->memory, &h->env, there, h->env_max);
		place_settle(&w->place, &w->memory);
		shell_memory_bind(&w->memory, gate_policy(w->commands.gate));
		w->commands.shell = shell_find(w->commands.root_fd, h->shell);
		w->settled = true;
	}
	w->memory.env_max = h->env_max;
	w->api.greeted = w->api.tell_state = true;
}

/* ---- other threads ---- */

static void look_at_execs(void *arg)
{
	struct warden *w = arg;

	size_t loading;

	if (w->execs.control == NULL)
		return;
	loading = exec_control_look(w->execs.control); /* a mismatch is recorded soon */
	if (execs_pause(&w->execs) && loading == 0)
		return;
	run_take_all_news(&w->commands);
	watch_after(w->execs_again, EXECS_LOOK_MS);
}

/* Operations that wait for an approver. */
static void look_at_approvals(void *arg)
{
	struct warden *w = arg;
	const int64_t now = clock_mono_us(w->clock), next = gate_expire(w->commands.gate, now);

	gate_resume(w->commands.gate, &w->commands.asker);
	if (next >= 0)
		watch_after(w->approvals_due, (uint64_t)(next - now) / 1000 + 1);
}

static void on_woken(void *arg)
{
	struct warden *w = arg;
	eventfd_t n;

	if (eventfd_read(w->wake_fd, &n) < 0)
		return;
	look_at_execs(w);
	run_take_lookups(&w->commands);
	if (w->approver != NULL)
		look_at_approvals(w);
}

/* On any thread. */
static void wake_loop(void *arg)
{
	const struct warden *w = arg;

	if (eventfd_write(w->wake_fd, 1) < 0)
		ensure(errno == EAGAIN);
}

/* On the thread that settles. The loop waits for a command's initial exec by itself. */
static void journal_case(void *arg, const struct gate_case *k, const struct gate_report *r,
			 const struct event *e)
{
	struct warden *w = arg;

	recorder_event(&w->recorder, e, NULL, NULL);
	if (!k->initial)
		execs_tell(&w->execs, r->outcome);
}

/* The policy, while init raises the walls. */
static int open_gate(struct warden *w, struct err *err)
{
	const struct gate_setup setup = {w->args->policy_fd, w->args->session_id, journal_case,
					 wake_loop, w};
	int r = gate_open(&setup, &w->commands.gate, err);

	if (r == 0 && w->approver != NULL)
		gate_set_approver(w->commands.gate, w->approver);
	if (r == 0)
		r = actor_table_open(&w->commands.actors, err);
	if (r == 0) {
		actor_table_own(w->commands.actors, gettid());
		actor_table_own(w->commands.actors, w->args->init_pid);
		w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (w->wake_fd < 0)
			r = err_errno(err, E_ENFORCEMENT, "exec_policy", "eventfd");
	}
	if (r == 0) {
		w->woken = watch_readable(w->loop, w->wake_fd, on_woken, w);
		watch_start(w->woken);
	}
	return r;
}

/* On a thread of the walker. */
static void own_thread(void *actors)
{
	actor_table_own(actors, gettid());
}

static void disown_thread(void *actors)
{
	actor_table_disown(actors, gettid());
}

/* Exec control, and the report of all walls. */
static int open_execs(struct warden *w, const struct init_ready *ready, struct link_msg *m,
		      struct err *err)
{
	cleanup_file_view struct file_view files = {0};
	struct execs_setup execs = {.wake = wake_loop, .arg = w};
	struct wall_report walls;
	int r;

	wall_report_init(&walls);
	r = wall_unpack(&walls, &ready->walls, err);
	if (r == 0)
		r = file_view_unpack(&ready->files, &files, err);
	if (r == 0)
		r = file_wall_set(gate_policy(w->commands.gate), &files, ready->may_lack != 0,
				  &walls, err);
	if (r == 0 && m->nfds > 3) {
		execs.exec = (struct exec_setup){.gate = w->commands.gate,
						 .actors = w->commands.actors,
						 .root = m->fd[0],
						 .walker = w->commands.walker};
		place_execs(&w->place, &execs);
		execs.holds = w->approver != NULL && w->commands.walker != NULL &&
			      w->place.names.served.n > 0 &&
			      held_calls_needed(gate_policy(w->commands.gate));
		if (w->args->exec_map_fd >= 0)
			execs.exec.wants =
				exec_wants_open(w->args->exec_map_fd, w->args->exec_link_fd);
		execs.listener = take_fd(m->fd[3]);
		r = execs_open(&w->execs, &execs, &walls, err);
	} else if (r == 0 && w->args->exec_map_fd >= 0 &&
		   exec_wants_let_all(w->args->exec_map_fd) < 0) {
		r = err_set(err, E_ENFORCEMENT, "exec_policy", "the kernel's exec check stays on");
	}
	wall_pack(&walls, &w->walls);
	return r;
}

static void fail_policy(struct warden *w, const struct err *why)
{
	warden_fail(w, "%s: %s", why->subject[0] != '\0' ? why->subject : "policy", why->message);
}

static void on_ready(void *ctx, void *msg, struct link_msg *m)
{
	struct init_ready *ready = msg;
	struct warden *w = ctx;
	struct capture_in_setup captures = {.loop = w->loop,
					    .max = REQUEST_ENV_MAX + ENV_PATH_MAX,
					    .owner = run_owner_of,
					    .arg = &w->commands};
	struct commands *cs = &w->commands;
	struct err err = {0};

	if (w->failure != NULL)
		return;
	if (place_open(&w->place, ready, m, &err) < 0) {
		fail_policy(w, &err);
		return;
	}
	if (w->place.names.real != NULL)
		gate_name_workspace(cs->gate, w->place.names.real);
	if (place_may_hang(&w->place))
		cs->walker = walker_new(own_thread, disown_thread, cs->actors);
	if (open_execs(w, ready, m, &err) < 0 || served_mounts_watch(w, &err) < 0) {
		fail_policy(w, &err);
		return;
	}
	cs->namespaces = w->place.namespaces;
	cs->names = &w->place.names;
	cs->state_program = w->place.capture;
	cs->root_fd = take_fd(m->fd[0]);
	cs->control = w->execs.control;
	cs->looker = exec_looker_new(cs->root_fd, &w->place.names);
	if (cs->walker != NULL)
		exec_looker_stay_near(cs->looker);
	w->end_fd = take_fd(m->fd[2]);
	place_captures(&w->place, m, &captures);
	cs->null_fd = root_open(cs->root_fd, "/dev/null");
	if (cs->null_fd < 0 || fcntl(cs->null_fd, F_SETFL, 0) < 0) {
		warden_fail(w, "the session has no /dev/null: %s", strerror(errno));
		close(captures.listen_fd);
	} else if (capture_in_open(&captures, &cs->captures, &err) < 0) {
		warden_fail(w, "%s", err.message);
	} else {
		limits_watch_scratch(cs);
		w->ready = true;
		processes_greet(w);
		warden_greet(w);
	}
}

static void on_failed(void *ctx, void *msg, struct link_msg *m)
{
	const struct init_failed *failed = msg;

	warden_fail(ctx, "%s: %s", failed->wall != NULL ? failed->wall : "init",
		    failed->message != NULL ? failed->message : "failed");
}

static void on_init(void *arg)
{
	struct warden *w = arg;
	struct err err = {0};
	const enum link_status status = peer_read(&w->init, &err);

	if (status == LINK_OK || status == LINK_AGAIN)
		return;
	watch_stop(w->init.readable);
	if (status != LINK_EOF) /* else its pidfd shows how it ended */
		warden_fail(w, "init: %s", err.message);
}

static const struct peer_row init_rows[] = {
	{MSG_init_ready, on_ready}, {MSG_init_ended, on_ended}, {MSG_init_failed, on_failed}};
static const struct peer_kind init_kind = {.self = SIDE_WARDEN,
					   .other = SIDE_INIT,
					   .rows = init_rows,
					   .n = ARRAY_LEN(init_rows),
					   .readable = on_init};

/* ---- the process ---- */

static int open_warden(struct warden *w, const struct process_args *args, struct err *err)
{
	int r;

	*w = (struct warden){.args = args,
			     .clock = &clock_system,
			     .end_fd = -1,
			     .wake_fd = -1,
			     .init_pidfd = -1,
			     .mounts = {-1, -1, 0, NULL},
			     .place = SESSION_PLACE_NONE,
			     .loop = loop_new(turn, w)};
	if (w->loop == NULL)
		return err_errno(err, E_UNAVAILABLE, NULL, "no epoll can be had");
	w->commands = (struct commands){.session_id = args->session_id,
					.init = &w->init.link,
					.clock = w->clock,
					.loop = w->loop,
					.recorder = &w->recorder,
					.memory = &w->memory,
					.settings = &w->settings,
					.leader_died = on_leader_died,
					.dying = processes_dying,
					.settle = processes_settle,
					.over = processes_command_over,
					.owner = w,
					.asker = {wake_loop, w},
					.root_fd = -1,
					.null_fd = -1,
					.limits = {.scratch_fd = -1}};
	TAILQ_INIT(&w->commands.runs);
	LIST_INIT(&w->commands.idle);
	results_init(&w->commands.results);
	strv_copy(&w->walls, &args->walls);
	r = recorder_open(&w->recorder, args->ring_fd, args->ack_fd, err);
	if (r == 0)
		r = limits_open(&w->commands, &args->counters, &args->walls, err);
	if (r == 0)
		r = processes_open(w, err);
	if (r < 0)
		return r;
	w->init_pidfd = proc_pidfd(args->init_pid);
	if (w->init_pidfd < 0)
		return err_errno(err, E_INTERNAL, NULL, "init (pid %d)", (int)args->init_pid);
	w->deadline = watch_timer(w->loop, on_deadline, w);
	w->retry = watch_timer(w->loop, NULL, NULL); /* the turn does it */
	w->grace = watch_timer(w->loop, on_grace_over, w);
	w->suspicion = watch_timer(w->loop, on_suspicion, w);
	w->execs_again = watch_timer(w->loop, look_at_execs, w);
	w->approvals_due = watch_timer(w->loop, look_at_approvals, w);
	w->init_gone = watch_readable(w->loop, w->init_pidfd, on_init_gone, w);
	peer_open(&w->init, &init_kind, w->loop, args->init_fd, w, NULL);
	watch_start(w->init_gone);
	server_link_open(w);
	return 0;
}

static void close_warden(struct warden *w)
{
	struct watch *const watches[] = {w->woken,    w->execs_again, w->approvals_due,
					 w->deadline, w->init_gone,   w->retry,
					 w->grace,    w->suspicion,   w->mounts.changed};
	int fds[] = {w->wake_fd,	  w->init_pidfd,       w->end_fd,
		     w->commands.root_fd, w->commands.null_fd, w->mounts.changes_fd,
		     w->mounts.list_fd};

	server_link_close(w); /* first: a process that waits for the session sees the end here */
	run_free(&w->commands, true);
	leaders_free_idle(&w->commands);
	execs_close(&w->execs);
	processes_close(w);
	if (!walker_free(w->commands.walker)) /* a thread hangs that uses what follows */
		_exit(w->failure != NULL);
	actor_table_close(w->commands.actors);
	gate_close(w->commands.gate);
	exec_looker_free(w->commands.looker);
	capture_in_close(w->commands.captures);
	place_close(&w->place);
	for (size_t i = 0; i < ARRAY_LEN(watches); i++)
		watch_free(watches[i]);
	peer_close(&w->init);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		mem_cleanup_fd(&fds[i]);
	limits_close(&w->commands);
	recorder_close(&w->recorder);
	ring_heads_close(&w->heads);
	results_done(&w->commands.results);
	shell_memory_done(&w->memory);
	msg_done(MSG_warden_hello, &w->settings);
	strv_done(&w->walls);
	free(w->commands.shell);
	free(w->failure);
	free(w->suspect);
	loop_free(w->loop);
}

bool warden_holds(int policy_fd)
{
	const struct gate_setup setup = {.policy_fd = policy_fd};
	struct gate *g = NULL;
	bool needed;

	if (gate_open(&setup, &g, NULL) < 0)
		return false; /* the session fails for it later */
	needed = held_calls_needed(gate_policy(g));
	gate_close(g);
	return needed;
}

int warden_main(const struct process_args *args, const struct gate_approver *approver)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ};
	struct err err = {0};
	struct rlimit files;
	struct warden w;
	int readable, status;

	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/* Else other processes of its uid could read its memory. */
	readable = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? errno : 0;
	if (open_warden(&w, args, &err) < 0) {
		log_error("the warden cannot start", "session_id", args->session_id, "reason",
			  err.message);
		return 1;
	}
	w.approver = approver;
	if (readable != 0)
		warden_fail(
			&w,
			"%s: the warden's memory could be read; a filter around the server must "
			"let prctl(PR_SET_DUMPABLE) through: %s",
			wall_name(WALL_process_separation), strerror(readable));
	else if (open_gate(&w, &err) < 0)
		fail_policy(&w, &err);
	loop_run(w.loop);
	status = w.failure != NULL;
	close_warden(&w);
	return status;
}
