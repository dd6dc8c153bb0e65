// SPDX-License-Identifier: Apache-2.0
#include "shell/capture_in.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct connection {
	struct capture_in *in;
	int fd; /* -1: free */
	pid_t pid;
	struct capture data;
	struct watch *watch, *deadline;
};

struct capture_in {
	struct capture_in_setup s;
	dev_t dev;
	ino_t ino;
	struct watch *watch;
	struct connection c[CAPTURE_CONNECTIONS];
	char datagram[CAPTURE_CHUNK + 1];
};

void captured_done(struct captured *c)
{
	strv_done(&c->env);
	free(c->cwd);
	*c = (struct captured){0};
}

static void hang_up(struct connection *c)
{
	watch_free(c->watch);
	watch_free(c->deadline);
	capture_done(&c->data);
	close(c->fd);
	*c = (struct connection){.in = c->in, .fd = -1};
}

static struct captured *owner_of(const struct capture_in *in, pid_t pid, bool *later)
{
	*later = false;
	return in->s.owner(pid, later, in->s.arg);
}

static void refuse(struct connection *c, const char *why)
{
	bool later;
	struct captured *to = owner_of(c->in, c->pid, &later);

	if (to != NULL)
		snprintf(to->note, sizeof(to->note), "%.150s", why);
	hang_up(c);
}

static void on_deadline(void *arg)
{
	refuse(arg, "capture: it took too long");
}

static void finish(struct connection *c)
{
	const char ack = CAPTURE_ACK;
	bool later;
	struct captured *to = owner_of(c->in, c->pid, &later);
	struct captured got = {.taken = true};
	struct err err = {0};

	if (to == NULL && later) {
		watch_stop(c->watch);
		return;
	}
	if (to == NULL) {
		hang_up(c);
		return;
	}
	if (proc_exe_is(c->pid, c->in->dev, c->in->ino) != 1) {
		refuse(c, "capture: not from our program");
		return;
	}
	if (capture_finish(&c->data, &got.env, &got.cwd, &err) < 0) {
		refuse(c, err.message);
		return;
	}
	captured_done(to);
	*to = got;
	fdio_send(c->fd, &ack, sizeof(ack), NULL, 0);
	hang_up(c);
}

/* True if there may be more to read. */
static bool receive(struct connection *c)
{
	struct capture_in *in = c->in;
	struct ucred cred = {0};
	struct err err = {0};
	size_t nfds = 0;
	const ssize_t n = fdio_recv(c->fd, in->datagram, sizeof(in->datagram), NULL, &nfds, &cred);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0)
		refuse(c, "capture: cut before its end");
	else if (cred.pid != c->pid)
		refuse(c, "capture: from another process");
	else if (capture_feed(&c->data, in->datagram, (size_t)n, in->s.max, &err) < 0)
		refuse(c, err.message);
	else if (c->data.ended)
		finish(c);
	else
		return true;
	return false;
}

static void on_datagrams(void *arg)
{
	for (int i = 0; i < CAPTURE_CONNECTIONS && receive(arg); i++)
		;
}

/* Datagrams that were sent before this socket was accepted have credentials as well: the listener
 * has the option set, and the accepted socket inherits it. */
static void take_connection(struct capture_in *in, int fd, pid_t pid)
{
	bool later = false;
	struct captured *to = pid > 0 ? owner_of(in, pid, &later) : NULL;
	struct connection *c = NULL;
	const int on = 1;

	for (size_t i = 0; i < ARRAY_LEN(in->c) && c == NULL; i++)
		if (in->c[i].fd < 0)
			c = &in->c[i];
	if (to != NULL && c == NULL)
		snprintf(to->note, sizeof(to->note), "capture: too many at once");
	if ((to == NULL && !later) || c == NULL ||
	    setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->pid = pid;
	c->watch = watch_readable(in->s.loop, fd, on_datagrams, c);
	c->deadline = watch_timer(in->s.loop, on_deadline, c);
	watch_start(c->watch);
	watch_after(c->deadline, CAPTURE_DEADLINE_MS);
	on_datagrams(c);
}

static void on_connection(void *arg)
{
	struct capture_in *in = arg;
	const int fd = accept4(in->s.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer = {.pid = -1};
	socklen_t n = sizeof(peer);

	if (fd < 0)
		return;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n);
	take_connection(in, fd, peer.pid);
}

static void on_given(void *arg)
{
	struct capture_in *in = arg;
	size_t nfds = 1;
	pid_t pid = -1;
	int fd = -1;
	const ssize_t n = fdio_recv(in->s.listen_fd, &pid, sizeof(pid), &fd, &nfds, NULL);

	if (n == (ssize_t)sizeof(pid) && nfds == 1)
		take_connection(in, fd, pid);
	else if (n >= 0 && nfds == 1)
		close(fd);
}

int capture_in_open(const struct capture_in_setup *s, struct capture_in **out, struct err *err)
{
	struct capture_in *in = mem_new(struct capture_in);
	const int on = 1;
	struct stat st;

	in->s = *s;
	for (size_t i = 0; i < ARRAY_LEN(in->c); i++)
		in->c[i] = (struct connection){.in = in, .fd = -1};
	if (fstat(s->program_fd, &st) < 0 || fdio_nonblock(s->listen_fd) < 0 ||
	    setsockopt(s->listen_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0) {
		const int r = err_errno(err, E_INTERNAL, NULL, "cannot watch the state socket");

		capture_in_close(in);
		return r;
	}
	in->dev = st.st_dev;
	in->ino = st.st_ino;
	in->watch = watch_readable(s->loop, s->listen_fd, s->given ? on_given : on_connection, in);
	watch_start(in->watch);
	*out = in;
	return 0;
}

void capture_in_settle(struct capture_in *in)
{
	for (size_t i = 0; i < ARRAY_LEN(in->c); i++)
		if (in->c[i].fd >= 0 && in->c[i].data.ended)
			finish(&in->c[i]);
}

void capture_in_close(struct capture_in *in)
{
	if (in == NULL)
		return;
	for (size_t i = 0; i < ARRAY_LEN(in->c); i++)
		if (in->c[i].fd >= 0)
			hang_up(&in->c[i]);
	watch_free(in->watch);
	close(in->s.listen_fd);
	free(in);
}
