// SPDX-License-Identifier: Apache-2.0
/* Coming, going and hearing; what is told is in server_messages.c. */
#include "warden/server_link.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "shell/session_root.h"
#include "warden/core.h"
#include <errno.h>
#include <sys/socket.h>

#define REFUSALS_MAX 256 /* untold; then nothing more is read */

/* ---- hearing ---- */

static void on_hello(struct warden *w, struct link_msg *m)
{
	struct warden_hello h;
	struct err err = {0};

	if (link_unpack(m, &h, &err) < 0) {
		log_warn("bad hello", "reason", err.message);
		server_link_hang_up(w);
		return;
	}
	msg_done(MSG_warden_hello, &w->settings);
	w->settings = h;
	w->api.hello = true;
	w->api.state_req = m->req;
	warden_greet(w);
}

static void on_exec(struct warden *w, struct link_msg *m)
{
	struct warden_exec ask;
	struct err err = {0};

	if (link_unpack(m, &ask, &err) < 0)
		server_link_hang_up(w);
	else {
		results_ack(&w->results, &ask.acks);
		run_exec(w, &ask, m->req, m->fd);
	}
}

static void on_ack(struct warden *w, struct link_msg *m)
{
	struct warden_acks acks;

	if (link_unpack(m, &acks, NULL) < 0)
		return;
	results_ack(&w->results, &acks.command_ids);
	msg_done(MSG_warden_ack, &acks);
}

static struct run *run_of(struct warden *w, const char *command_id)
{
	return command_id != NULL ? run_find(w, command_id) : NULL;
}

static void on_stdin(struct warden *w, struct link_msg *m)
{
	struct warden_stdin in;
	struct run *r;

	if (link_unpack(m, &in, NULL) < 0)
		return;
	r = run_of(w, in.command_id);
	if (r != NULL)
		run_stdin(r, &in);
	msg_done(MSG_warden_stdin, &in);
}

static void on_window(struct warden *w, struct link_msg *m)
{
	struct warden_window win;
	struct run *r;

	if (link_unpack(m, &win, NULL) < 0)
		return;
	r = run_of(w, win.command_id);
	if (r != NULL)
		run_window(r, &win);
	msg_done(MSG_warden_window, &win);
}

static void on_kill(struct warden *w, struct link_msg *m)
{
	struct warden_kill k;
	struct run *r;

	if (link_unpack(m, &k, NULL) < 0)
		return;
	r = run_of(w, k.command_id);
	if (r != NULL)
		run_kill(r, &k);
	msg_done(MSG_warden_kill, &k);
}

/* All or nothing; the state that answers shows which. */
static void patch(struct warden *w, const struct warden_patch *p)
{
	struct shell_memory *m = &w->memory;
	struct strv before = {0};

	if (p->cwd != NULL && (p->cwd[0] != '/' || root_dir(w->root_fd, p->cwd) != 0))
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
	if (p->cwd != NULL && strcmp(p->cwd, m->cwd) != 0)
		env_chdir(m, p->cwd);
	if (p->command_timeout_ms > 0)
		w->settings.command_timeout_ms = p->command_timeout_ms;
	limits_changed(w, &p->walls);
}

static void on_patch(struct warden *w, struct link_msg *m)
{
	struct warden_patch p;

	if (link_unpack(m, &p, NULL) < 0)
		return;
	patch(w, &p);
	msg_done(MSG_warden_patch, &p);
	w->api.patches++;
	w->api.patch_req = m->req;
}

/* The log is our stderr: whatever it was (a file that was put aside) is let go. */
static void on_settings(struct warden *w, struct link_msg *m)
{
	struct warden_settings s;

	if (link_unpack(m, &s, NULL) < 0 || s.log_level > LOG_ERROR || s.log_format > LOG_JSON)
		return;
	w->settings.orphan_timeout_ms = s.orphan_timeout_ms;
	w->settings.output_quota = s.output_quota;
	w->settings.full_ring_drops = s.full_ring_drops;
	w->recorder.drop = s.full_ring_drops != 0;
	log_set((enum log_level)s.log_level, (enum log_format)s.log_format);
	if (m->nfds > 0)
		dup2(m->fd[0], STDERR_FILENO);
}

static void on_end(struct warden *w, struct link_msg *m)
{
	struct warden_end e;

	if (link_unpack(m, &e, NULL) < 0)
		return;
	warden_end(w, e.reason != NULL ? e.reason : "ended", e.grace_ms);
	msg_done(MSG_warden_end, &e);
}

static const struct {
	enum msg_type type;
	void (*on)(struct warden *w, struct link_msg *m);
} hearing[] = {
	{MSG_warden_exec, on_exec},	    {MSG_warden_ack, on_ack},
	{MSG_warden_stdin, on_stdin},	    {MSG_warden_window, on_window},
	{MSG_warden_kill, on_kill},	    {MSG_warden_patch, on_patch},
	{MSG_warden_end, on_end},	    {MSG_warden_hello, on_hello},
	{MSG_warden_settings, on_settings},
};

static void hear(struct warden *w, struct link_msg *m)
{
	const bool early = m->type == MSG_warden_hello || m->type == MSG_warden_end;

	if (!w->api.greeted && !early) {
		log_warn("the API child speaks before it was answered");
		server_link_hang_up(w);
	}
	for (size_t i = 0; i < ARRAY_LEN(hearing) && w->api.link.fd >= 0; i++)
		if (hearing[i].type == m->type) {
			hearing[i].on(w, m);
			break;
		}
	link_msg_done(m);
}

/* One message a turn: the answer goes out first, and asking whether there is another would cost as
 * much as being told. */
static void on_readable(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	struct err err = {0};
	struct link_msg m;
	enum link_status status;

	if (a->nrefusals >= REFUSALS_MAX) {
		watch_stop(a->readable);
		return;
	}
	status = link_recv(&a->link, &m, &err);
	if (status == LINK_AGAIN)
		return;
	if (status == LINK_OK) {
		hear(w, &m);
		return;
	}
	if (status != LINK_EOF)
		log_warn("the API link broke", "reason", err.message);
	server_link_hang_up(w);
}

/* The turn that follows tells what is left. */
static void on_writable(void *arg)
{
	struct warden *w = arg;

	if (w->api.link.fd >= 0)
		watch_start(w->api.readable);
}

/* ---- coming and going ---- */

static void await_server(struct warden *w)
{
	watch_after(w->api.orphan, w->settings.orphan_timeout_ms > 0 ? w->settings.orphan_timeout_ms
								     : ORPHAN_DEFAULT_MS);
}

void server_link_hang_up(struct warden *w)
{
	struct server_link *a = &w->api;

	watch_free(a->readable);
	watch_free(a->writable);
	a->readable = a->writable = NULL;
	link_done(&a->link);
	a->hello = a->greeted = a->tell_state = a->told_failure = false;
	a->patches = 0;
	server_link_drop_refusals(a);
	run_unbind_all(w);
	await_server(w);
}

/* A new API child is told of every command anew. */
static void mark_all(struct warden *w)
{
	struct run *r;

	results_tell_again(&w->results);
	TAILQ_FOREACH (r, &w->runs, next) {
		r->req = 0;
		r->tell_started = r->phase < RUN_KEPT; /* or will: it is not lost */
		r->tell_output = run_reports_output(r);
	}
}

static void attach(struct warden *w, int fd)
{
	struct server_link *a = &w->api;

	fdio_nonblock(fd);
	link_init(&a->link, fd, SIDE_WARDEN, SIDE_API);
	a->readable = watch_readable(w->loop, fd, on_readable, w);
	a->writable = watch_writable(w->loop, fd, on_writable, w);
	watch_start(a->readable);
	watch_stop(a->orphan);
	mark_all(w);
}

static void drop_guest(struct server_link *a)
{
	watch_free(a->guest_readable);
	a->guest_readable = NULL;
	link_done(&a->guest);
}

/* Whoever only connects (to see whether we live) replaces nobody: a first byte does. */
static void on_guest(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	char c;
	const ssize_t n = recv(a->guest.fd, &c, sizeof(c), MSG_PEEK | MSG_DONTWAIT);
	const int fd = a->guest.fd;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop_guest(a);
		if (a->link.fd < 0)
			await_server(w);
		return;
	}
	a->guest.fd = -1;
	drop_guest(a);
	if (a->link.fd >= 0)
		server_link_hang_up(w);
	attach(w, fd);
	on_readable(w);
}

static bool welcome(const struct warden *w, int fd)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	       (peer.uid == 0 || peer.uid == w->args->api_uid);
}

static void on_connection(void *arg)
{
	struct warden *w = arg;
	struct server_link *a = &w->api;
	const int fd = accept4(w->args->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (!welcome(w, fd)) {
		log_warn("a connection by a stranger was refused");
		close(fd);
		return;
	}
	drop_guest(a);
	link_init(&a->guest, fd, SIDE_WARDEN, SIDE_API);
	watch_stop(a->orphan); /* while it stays: a server that cannot speak yet is one */
	a->guest_readable = watch_readable(w->loop, fd, on_guest, w);
	watch_start(a->guest_readable);
}

static void on_orphaned(void *arg)
{
	warden_end(arg, "no server came back in time", 0);
}

static void on_bell_retry(void *arg)
{
	/* the turn does it */
}

void server_link_open(struct warden *w)
{
	struct server_link *a = &w->api;

	STAILQ_INIT(&a->refusals);
	link_init(&a->link, -1, SIDE_WARDEN, SIDE_API);
	link_init(&a->guest, -1, SIDE_WARDEN, SIDE_API);
	a->orphan = watch_timer(w->loop, on_orphaned, w);
	a->bell = watch_timer(w->loop, on_bell_retry, w);
	a->accepting = watch_readable(w->loop, w->args->listen_fd, on_connection, w);
	fdio_nonblock(w->args->listen_fd);
	watch_start(a->accepting);
	attach(w, w->args->api_fd);
}

void server_link_close(struct warden *w)
{
	struct server_link *a = &w->api;

	server_link_hang_up(w);
	drop_guest(a);
	watch_free(a->accepting);
	watch_free(a->orphan);
	watch_free(a->bell);
}
