// SPDX-License-Identifier: Apache-2.0
/* The link to the API child: what is sent, what is received, coming and going. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "shell/session_root.h"
#include "walk/walker.h"
#include "warden/core.h"
#include <errno.h>
#include <sys/socket.h>

#define REFUSALS_MAX 256 /* that are not sent yet; then no message is read */
#define ENTER_MS 500	 /* for a directory of a patch */

static void hang_up(struct warden *w);

/* ---- what is sent ---- */

/* A message that can never be sent is logged and counts as sent: the others must follow. */
static enum link_status send_message(struct warden *w, enum msg_type type, uint32_t req,
				     const void *obj)
{
	struct server_link *a = &w->api;
	struct err err = {0};
	const enum link_status status = link_send(&a->peer.link, type, req, obj, NULL, 0, &err);

	if (status == LINK_FULL)
		peer_await_room(&a->peer);
	if (status == LINK_EOF)
		hang_up(w);
	if (status != LINK_BROKEN)
		return status;
	log_error("a message cannot be sent", "reason", err.message);
	return LINK_OK;
}

static enum link_status send_state(struct warden *w, uint32_t req)
{
	struct warden_state m = {.version = LINK_VERSION,
				 .fresh = w->fresh,
				 .session_id = (char *)w->args->session_id,
				 .cwd = w->memory.cwd,
				 .env = w->memory.env,
				 .aliases = w->memory.aliases,
				 .dir_stack = w->memory.dirs,
				 .walls = w->walls,
				 .commands = w->commands.started,
				 .last_exit = w->memory.last_exit,
				 .ring_pos = recorder_head(&w->recorder),
				 .execs = commands_exec_counts(&w->commands)};

	return send_message(w, MSG_warden_state, req, &m);
}

static enum link_status send_progress(struct warden *w, struct run *r)
{
	enum link_status s = LINK_OK;

	if (r->tell_started) {
		struct warden_started m = {r->ask.command_id, (uint32_t)r->pid,
					   (uint64_t)r->wall_us};

		s = send_message(w, MSG_warden_started, r->req, &m);
		r->tell_started = s != LINK_OK;
	}
	if (s == LINK_OK && r->tell_output && r->phase < RUN_KEPT) {
		const struct stream *out = &r->out[0].stream, *errors = &r->out[1].stream;
		struct warden_output m = {
			.command_id = r->ask.command_id,
			.stdout_bytes = out->bytes,
			.stderr_bytes = errors->bytes,
			.stdout_kept = out->kept,
			.stderr_kept = errors->kept,
			.stdout_from = out->from,
			.stderr_from = errors->from,
			.stdout_lines = stream_lines(out),
			.stderr_lines = stream_lines(errors),
		};

		s = send_message(w, MSG_warden_output, r->req, &m);
		r->tell_output = s != LINK_OK;
	}
	if (s == LINK_OK && r->tell_taken) {
		struct warden_taken m = {r->ask.command_id, r->in.taken};

		s = send_message(w, MSG_warden_taken, r->req, &m);
		r->tell_taken = s != LINK_OK;
	}
	return s;
}

static enum link_status send_refusal(struct warden *w, const struct result *k)
{
	struct err *err = k->refusal;
	struct warden_refused m = {.command_id = k->msg.command_id,
				   .code = (char *)err_row(err->code)->name,
				   .subject = err->subject,
				   .policy = err->denial[0] != '\0' ? err->denial : NULL,
				   .message = err->message};

	return send_message(w, MSG_warden_refused, k->req, &m);
}

static enum link_status send_result(struct warden *w, struct result *k)
{
	enum link_status s;

	ring_heads_look(&w->heads); /* what the command did is before them */
	ring_heads_format(&w->heads, &k->msg.ring_ends);
	s = send_message(w, MSG_warden_result, k->req, &k->msg);
	if (s == LINK_OK) {
		recorder_rung(&w->recorder, k->msg.ring_end); /* it makes the reader read */
		ring_heads_rung(&w->heads);
	}
	return s;
}

static enum link_status send_commands(struct warden *w)
{
	struct results *results = &w->commands.results;
	enum link_status s = LINK_OK;
	struct result *k;
	struct run *r;

	for (r = TAILQ_FIRST(&w->commands.runs); s == LINK_OK && r != NULL; r = TAILQ_NEXT(r, next))
		s = send_progress(w, r);
	while (s == LINK_OK && (k = results_next(results)) != NULL) {
		struct warden_started m = {k->msg.command_id, 0, k->msg.started_us};

		s = k->refusal != NULL ? send_refusal(w, k)
		    : k->ready	       ? send_result(w, k)
				       : send_message(w, MSG_warden_started, 0, &m);
		if (s == LINK_OK)
			results_told(results, k);
	}
	return s;
}

/* States that answer a patch come behind everything that was marked before. */
static enum link_status send_patches(struct warden *w)
{
	struct server_link *a = &w->api;
	enum link_status s = LINK_OK;

	while (s == LINK_OK && a->patches > 0) {
		s = send_state(w, a->patch_req);
		a->patches -= s == LINK_OK;
	}
	return s;
}

/* One bell for all new records; the next when the reader has read those, and after BELL_MS. */
static enum link_status send_bell(struct warden *w)
{
	const struct msg_empty m = {0};
	uint64_t head;
	const enum recorder_bell bell = recorder_bell(&w->recorder, &head);
	const bool others = ring_heads_look(&w->heads);
	const bool due = w->recorder.urgent || w->phase != WARDEN_LIVE ||
			 clock_mono_us(w->clock) - w->api.rung_us >= BELL_MS * 1000;
	enum link_status s = LINK_OK;

	if (bell == RECORDER_BELL_NONE && !others)
		return LINK_OK;
	if ((bell == RECORDER_BELL_DUE || others) && due) {
		s = send_message(w, MSG_warden_bell, 0, &m);
		if (s == LINK_OK) {
			recorder_rung(&w->recorder, head);
			ring_heads_rung(&w->heads);
			w->api.rung_us = clock_mono_us(w->clock);
		}
	} else {
		watch_after(w->api.bell, BELL_MS);
	}
	return s;
}

bool server_link_flush(struct warden *w)
{
	static enum link_status (*const steps[])(struct warden *) = {send_commands, send_patches,
								     send_bell};
	const struct warden_failed failed = {w->failure};
	struct server_link *a = &w->api;
	enum link_status s = LINK_OK;

	if (a->peer.link.fd < 0)
		return true;
	if (a->greeted && a->tell_state) {
		s = send_state(w, a->state_req);
		a->tell_state = s != LINK_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(steps) && a->greeted && s == LINK_OK; i++)
		s = steps[i](w);
	if (s == LINK_OK && w->failure != NULL && !a->told_failure) {
		s = send_message(w, MSG_warden_failed, 0, &failed);
		a->told_failure = s == LINK_OK;
	}
	return s != LINK_FULL;
}

/* ---- what is received ---- */

static void on_hello(void *ctx, void *msg, struct link_msg *m)
{
	struct warden_hello *hello = msg;
	struct warden *w = ctx;

	msg_done(MSG_warden_hello, &w->settings);
	w->settings = *hello;
	*hello = (struct warden_hello){0};
	w->api.hello = true;
	w->api.state_req = m->req;
	warden_greet(w);
}

static void on_exec(void *ctx, void *msg, struct link_msg *m)
{
	struct warden_exec *ask = msg;
	struct warden *w = ctx;

	results_ack(&w->commands.results, &ask->acks);
	run_exec(&w->commands, ask, m->req, m->fd);
}

static void on_ack(void *ctx, void *msg, struct link_msg *m)
{
	const struct warden_acks *acks = msg;
	struct warden *w = ctx;

	results_ack(&w->commands.results, &acks->command_ids);
}

static void on_stdin(void *ctx, void *msg, struct link_msg *m)
{
	run_stdin(&((struct warden *)ctx)->commands, msg);
}

static void on_window(void *ctx, void *msg, struct link_msg *m)
{
	run_window(&((struct warden *)ctx)->commands, msg);
}

static void on_kill(void *ctx, void *msg, struct link_msg *m)
{
	const struct warden_kill *ask = msg;
	struct run *r = run_find(&((struct warden *)ctx)->commands, ask->command_id);

	if (r != NULL)
		run_kill(r, ask);
}

/* These walls replace the ones of the same names. */
static void narrow(struct warden *w, const struct strv *walls)
{
	struct wall_report report;
	struct err err = {0};

	wall_report_init(&report);
	if (wall_unpack(&report, &w->walls, &err) < 0 || wall_unpack(&report, walls, &err) < 0) {
		log_error("cannot read the session's walls", "error", err.message);
		return;
	}
	strv_done(&w->walls);
	wall_pack(&report, &w->walls);
	limits_changed(&w->commands, &report);
}

struct enter_walk {
	int root_fd;
	struct root_enter enter;
};

static void enter(void *arg)
{
	struct enter_walk *e = arg;

	root_enter(e->root_fd, &e->enter);
}

static void drop_enter(void *arg)
{
	struct enter_walk *e = arg;

	root_enter_done(&e->enter);
	free(e);
}

/* The directory's file system may not answer. */
bool warden_may_enter(struct warden *w, const char *cwd)
{
	struct enter_walk *e;
	bool may;

	if (w->commands.walker == NULL)
		return root_dir(w->commands.root_fd, cwd) == 0;
	e = mem_new(struct enter_walk);
	*e = (struct enter_walk){w->commands.root_fd,
				 {.whole = mem_strdup(cwd), .logical = mem_strdup(cwd)}};
	if (!walk_within(w->commands.walker, &(struct walk_job){enter, drop_enter, e}, ENTER_MS))
		return false;
	may = e->enter.errnum == 0;
	drop_enter(e);
	return may;
}

/* The limits that the file server holds. */
static void narrow_files(struct warden *w, const struct warden_patch *p)
{
	struct process_settings *now = &w->processes.settings;

	if (p->max_file_ops == now->max_file_ops && p->max_disk_mb == now->max_disk_mb)
		return;
	if (p->max_file_ops > 0)
		now->max_file_ops = p->max_file_ops;
	if (p->max_disk_mb > 0)
		now->max_disk_mb = p->max_disk_mb;
	processes_settings(w, -1);
}

/* Applies all of the patch or nothing; the state that answers shows which. */
static void on_patch(void *ctx, void *msg, struct link_msg *link_msg)
{
	const struct warden_patch *p = msg;
	struct warden *w = ctx;
	struct shell_memory *m = &w->memory;
	struct strv before = {0};
	cleanup_free char *cwd = NULL;

	w->api.patches++;
	w->api.patch_req = link_msg->req;
	if (p->cwd != NULL)
		cwd = workspace_seen(&w->place.names, p->cwd);
	if (cwd != NULL && (cwd[0] != '/' || !warden_may_enter(w, cwd)))
		return;
	strv_copy(&before, &m->env);
	for (size_t i = 0; i < p->unset.n; i++)
		strv_env_unset(&m->env, p->unset.v[i]);
	for (size_t i = 0; i < p->set.n; i++) {
		const size_t len = strcspn(p->set.v[i], "=");
		cleanup_free char *name = mem_strndup(p->set.v[i], len);

		if (p->set.v[i][len] == '\0' || env_set(m, name, p->set.v[i] + len + 1, NULL) < 0) {
			strv_done(&m->env);
			m->env = before;
			return;
		}
	}
	strv_done(&before);
	if (cwd != NULL && strcmp(cwd, m->cwd) != 0)
		env_chdir(m, cwd);
	if (p->command_timeout_ms > 0)
		w->settings.command_timeout_ms = p->command_timeout_ms;
	narrow_files(w, p);
	if (p->walls.n > 0)
		narrow(w, &p->walls);
}

/* The new log replaces stderr, which may be a file that was renamed. */
static void on_settings(void *ctx, void *msg, struct link_msg *m)
{
	const struct warden_settings *s = msg;
	struct warden *w = ctx;

	if (s->log_level > LOG_ERROR || s->log_format > LOG_JSON)
		return;
	w->settings.orphan_timeout_ms = s->orphan_timeout_ms;
	w->settings.output_quota = s->output_quota;
	w->settings.full_ring_drops = s->full_ring_drops;
	w->recorder.drop = s->full_ring_drops != 0;
	log_set((enum log_level)s->log_level, (enum log_format)s->log_format);
	if (m->nfds > 0)
		dup2(m->fd[0], STDERR_FILENO);
	w->processes.settings =
		(struct process_settings){.full_ring_drops = s->full_ring_drops,
					  .log_level = s->log_level,
					  .log_format = s->log_format,
					  .event_batch_size = s->event_batch_size,
					  .event_batch_ms = s->event_batch_ms,
					  .max_file_ops = w->processes.settings.max_file_ops,
					  .max_disk_mb = w->processes.settings.max_disk_mb,
					  .approval_ms = w->processes.settings.approval_ms,
					  .trash_max_bytes = s->trash_max_bytes,
					  .trash_max_age_ms = s->trash_max_age_ms};
	processes_settings(w, m->nfds > 0 ? m->fd[0] : -1);
}

static void on_restore(void *ctx, void *msg, struct link_msg *m)
{
	const struct trash_restored none = {.code = (char *)err_row(E_UNAVAILABLE)->name,
					    .message = (char *)"the session has no file server"};
	struct warden *w = ctx;

	if (!processes_restore(w, m->req, msg))
		peer_send(&w->api.peer, MSG_warden_restored, m->req, &none, NULL, 0, NULL);
}

static void on_end(void *ctx, void *msg, struct link_msg *m)
{
	const struct warden_end *end = msg;

	warden_end(ctx, end->reason != NULL ? end->reason : "ended", end->grace_ms);
}

static void on_readable(void *arg);

/* The end of this turn sends the messages that are left. */
static void on_writable(void *arg)
{
	struct warden *w = arg;

	watch_start(w->api.peer.readable);
}

static const struct peer_row rows[] = {
	{MSG_warden_hello, on_hello},	    {MSG_warden_end, on_end},
	{MSG_warden_exec, on_exec},	    {MSG_warden_ack, on_ack},
	{MSG_warden_stdin, on_stdin},	    {MSG_warden_window, on_window},
	{MSG_warden_kill, on_kill},	    {MSG_warden_patch, on_patch},
	{MSG_warden_settings, on_settings}, {MSG_warden_restore, on_restore},
};
#define KIND(n_)                                                                 \
	{                                                                        \
		.self = SIDE_WARDEN, .other = SIDE_API, .rows = rows, .n = (n_), \
		.readable = on_readable, .writable = on_writable                 \
	}
static const struct peer_kind greeted = KIND(ARRAY_LEN(rows));
/* Before its hello is answered, the API process may send only hello and end. */
static const struct peer_kind not_greeted = KIND(2);

/* Reads one message a turn: a check for another one costs as much as another turn. */
static void on_readable(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	enum link_status status;
	struct err err = {0};

	if (w->commands.results.refusals >= REFUSALS_MAX) {
		watch_stop(a->peer.readable);
		return;
	}
	a->peer.kind = a->greeted ? &greeted : &not_greeted;
	status = peer_read(&a->peer, &err);
	if (status == LINK_OK || status == LINK_AGAIN)
		return;
	if (status != LINK_EOF)
		log_warn("the API link broke", "reason", err.message);
	hang_up(w);
}

/* ---- coming and going ---- */

static void await_server(struct warden *w)
{
	watch_after(w->api.orphan, w->settings.orphan_timeout_ms > 0 ? w->settings.orphan_timeout_ms
								     : ORPHAN_DEFAULT_MS);
}

static void hang_up(struct warden *w)
{
	struct server_link *a = &w->api;
	struct run *r;

	peer_close(&a->peer);
	a->hello = a->greeted = a->tell_state = a->told_failure = false;
	a->patches = 0;
	results_unlinked(&w->commands.results);
	TAILQ_FOREACH (r, &w->commands.runs, next)
		run_unbind(r);
	await_server(w);
}

/* A new API process gets messages about every command again. */
static void attach(struct warden *w, int fd)
{
	struct server_link *a = &w->api;
	struct run *r;

	peer_open(&a->peer, &not_greeted, w->loop, fd, w, NULL);
	watch_stop(a->orphan);
	results_tell_again(&w->commands.results);
	TAILQ_FOREACH (r, &w->commands.runs, next) {
		r->req = 0;
		r->tell_started = r->phase < RUN_KEPT; /* also one that will start */
		r->tell_output = run_reports_output(r);
	}
}

static void drop_guest(struct server_link *a)
{
	watch_free(take(a->guest_readable));
	mem_cleanup_fd(&a->guest_fd);
	a->guest_fd = -1;
}

/* A new connection replaces the API child only when its first byte comes: the launcher connects
 * just to see whether the warden lives. */
static void on_guest(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	char c;
	const ssize_t n = recv(a->guest_fd, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT);
	const int fd = a->guest_fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop_guest(a);
		if (a->peer.link.fd < 0)
			await_server(w);
		return;
	}
	a->guest_fd = -1;
	drop_guest(a);
	if (a->peer.link.fd >= 0)
		hang_up(w);
	attach(w, fd);
	on_readable(w);
}

static void on_connection(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	const int fd = accept4(w->args->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t n = sizeof(peer);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
	    (peer.uid != 0 && peer.uid != w->args->api_uid)) {
		log_warn("a connection by a stranger was refused");
		close(fd);
		return;
	}
	drop_guest(a);
	a->guest_fd = fd;
	watch_stop(a->orphan); /* while it is connected: a server that cannot send yet counts */
	a->guest_readable = watch_readable(w->loop, fd, on_guest, w);
	watch_start(a->guest_readable);
}

static void on_orphaned(void *arg)
{
	warden_end(arg, "no server came back in time", 0);
}

void server_link_open(struct warden *w)
{
	struct server_link *a = &w->api;

	a->peer = PEER_CLOSED;
	a->guest_fd = -1;
	a->orphan = watch_timer(w->loop, on_orphaned, w);
	a->bell = watch_timer(w->loop, NULL, NULL); /* the turn sends it */
	a->accepting = watch_readable(w->loop, w->args->listen_fd, on_connection, w);
	fdio_nonblock(w->args->listen_fd);
	watch_start(a->accepting);
	attach(w, w->args->api_fd);
}

void server_link_close(struct warden *w)
{
	struct server_link *a = &w->api;

	hang_up(w);
	drop_guest(a);
	watch_free(a->accepting);
	watch_free(a->orphan);
	watch_free(a->bell);
}
