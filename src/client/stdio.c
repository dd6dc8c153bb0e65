// SPDX-License-Identifier: Apache-2.0
/* The client's side of the stdio stream.
 *
 * Other processes may share descriptors 0, 1 and 2 (a terminal, a pipe), so they are never made
 * non-blocking: the client asks for it write by write (RWF_NOWAIT). A terminal, or a pipe before
 * Linux 6.4, does not take that: there the client polls, and writes at most as much as POLLOUT
 * promises (PIPE_BUF). The client always reads the socket. Credit bounds its memory: the server
 * sends at most WINDOW bytes of each stream that the client has not written yet. */
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "client/client_internal.h"
#include "wire/stdio_frame.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define FROM_SERVER \
	(1U << STDIO_STDOUT | 1U << STDIO_STDERR | 1U << STDIO_CONTROL | 1U << STDIO_RESULT)
#define WINDOW (1024 * 1024)	 /* of a stream that has much to say */
#define FIRST_STEP 16384	 /* bytes written before the window is opened */
#define CREDIT_STEP (WINDOW / 2) /* bytes written before they are granted again */
#define WIDE_PIPE (256 * 1024)
#define READ_SIZE (256 * 1024)

struct client_output {
	int fd;
	const char *name;
	struct buf pending;
	size_t pending_at;
	bool file;	/* a write never waits for a reader */
	bool nowait;	/* RWF_NOWAIT works, as far as is known */
	size_t granted; /* bytes that the server may still send */
	size_t owed;	/* bytes written, not yet granted again */
	size_t step;	/* owed bytes that are granted */
	uint64_t received;
};

struct passing {
	struct client *c;
	const struct client_call *call;
	struct stdio_parser parser;
	struct buf send;
	struct client_output output[2];
	int64_t stdin_credit;
	bool stdin_open, done;
	int signals; /* signalfd */
	struct buf *answer;
	struct err *err;
	char *scratch; /* owned; STDIO_FRAME_MAX */
};

/* --- to the server --- */

static void send_control(struct passing *s, const char *json)
{
	stdio_frame(&s->send, STDIO_CONTROL, json, strlen(json));
}

static void read_stdin(struct passing *s)
{
	const size_t max = MIN((size_t)s->stdin_credit, STDIO_FRAME_MAX);
	const ssize_t n = TEMP_FAILURE_RETRY(read(0, s->scratch, max));

	if (n == -1 && errno == EAGAIN)
		return;
	if (n > 0) {
		s->stdin_credit -= n;
		stdio_frame(&s->send, STDIO_STDIN, s->scratch, (size_t)n);
		return;
	}
	/* A stdin that cannot be read (closed, a directory) has ended. */
	s->stdin_open = false;
	send_control(s, "{\"eof\":true}");
}

/* --- from the server --- */

static int on_control(struct passing *s, const uint8_t *p, size_t n)
{
	json_auto_t *doc = NULL;
	const json_t *credit, *session;
	const char *stream;
	int64_t bytes;

	if (json_parse((const char *)p, n, &doc, NULL) != 0)
		return err_set(s->err, E_UNAVAILABLE, NULL,
			       "the server's control frame is malformed");
	session = json_object_get(doc, "session");
	if (session != NULL && s->call->on_session != NULL)
		s->call->on_session(session, s->call->arg);
	credit = json_object_get(doc, "credit");
	stream = json_string_value(json_object_get(credit, "stream"));
	bytes = json_integer_value(json_object_get(credit, "bytes"));
	if (stream != NULL && strcmp(stream, "stdin") == 0 &&
	    __builtin_add_overflow(s->stdin_credit, bytes, &s->stdin_credit))
		s->stdin_credit = INT64_MAX;
	return 0;
}

/* Writes what fits without waiting. ready: POLLOUT was seen. Returns the bytes, or -1. */
static ssize_t write_some(struct client_output *o, const void *p, size_t n, bool ready)
{
	const struct iovec iov = {(void *)p, n};
	ssize_t r = -1;

	if (o->file)
		return TEMP_FAILURE_RETRY(write(o->fd, p, n));
	if (o->nowait)
		r = TEMP_FAILURE_RETRY(pwritev2(o->fd, &iov, 1, -1, RWF_NOWAIT));
	if (o->nowait && (r != -1 || errno != EOPNOTSUPP))
		return r;
	o->nowait = false;
	errno = EAGAIN;
	return ready ? TEMP_FAILURE_RETRY(write(o->fd, p, MIN(n, PIPE_BUF))) : -1;
}

/* For a stream that has much to say: a larger window, and fewer switches to the reader of a pipe.
 * A pipe is never made smaller. */
static void open_wide(struct client_output *o)
{
	o->owed += WINDOW - STDIO_WINDOW;
	if (fcntl(o->fd, F_GETPIPE_SZ) < WIDE_PIPE)
		fcntl(o->fd, F_SETPIPE_SZ, WIDE_PIPE);
}

/* Writes n bytes as far as possible now, and grants credit for them; *done tells how many. */
static int write_bytes(struct passing *s, struct client_output *o, const void *p, size_t n,
		       bool ready, size_t *done)
{
	const ssize_t r = write_some(o, p, n, ready);
	char text[80];

	*done = r > 0 ? (size_t)r : 0;
	if (r == -1 && errno != EAGAIN)
		return err_errno(s->err, E_UNAVAILABLE, o->name, "cannot write to %s", o->name);
	o->owed += *done;
	if (o->owed >= o->step) {
		if (o->step == FIRST_STEP)
			open_wide(o);
		o->step = CREDIT_STEP;
		snprintf(text, sizeof(text), "{\"credit\":{\"stream\":\"%s\",\"bytes\":%zu}}",
			 o->name, o->owed);
		send_control(s, text);
		o->granted += o->owed;
		o->owed = 0;
	}
	return 0;
}

static int on_output(struct passing *s, struct client_output *o, const uint8_t *p, size_t n)
{
	size_t done = 0;
	int r = 0;

	if (n > o->granted)
		return err_set(s->err, E_UNAVAILABLE, NULL,
			       "the server sent more %s than its credit", o->name);
	o->granted -= n;
	o->received += n;
	if (o->pending.len == 0)
		r = write_bytes(s, o, p, n, false, &done);
	buf_add(&o->pending, p + done, n - done);
	return r;
}

/* Writes bytes that had to wait. */
static int write_pending(struct passing *s, struct client_output *o)
{
	size_t done;
	const int r = write_bytes(s, o, o->pending.data + o->pending_at,
				  o->pending.len - o->pending_at, true, &done);

	o->pending_at += done;
	if (o->pending_at > o->pending.len / 2) {
		buf_drop(&o->pending, o->pending_at);
		o->pending_at = 0;
	}
	return r;
}

static int on_frame(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	struct passing *s = arg;

	/* The result is the last frame. */
	if (s->done)
		return 0;
	switch (type) {
	case STDIO_STDOUT:
	case STDIO_STDERR:
		return on_output(s, &s->output[type - STDIO_STDOUT], p, n);
	case STDIO_CONTROL:
		return on_control(s, p, n);
	case STDIO_RESULT:
		buf_add(s->answer, p, n);
		s->done = true;
		break;
	case STDIO_STDIN:
		break;
	}
	return 0;
}

/* --- the loop --- */

enum { ON_SOCKET, ON_STDIN, ON_STDOUT, ON_STDERR, ON_SIGNAL, ON_COUNT };

/* Waits once and moves bytes in every direction that is ready. */
static int turn(struct passing *s)
{
	/* read stdin only when the socket has taken all that was read before */
	const bool want_stdin = s->stdin_open && s->stdin_credit > 0 && s->send.len == 0;
	struct pollfd p[ON_COUNT] = {
		[ON_SOCKET] = {.fd = s->c->fd, .events = POLLIN},
		[ON_STDIN] = {.fd = want_stdin ? 0 : -1, .events = POLLIN},
		[ON_STDOUT] = {.fd = s->output[0].pending.len != 0 ? 1 : -1, .events = POLLOUT},
		[ON_STDERR] = {.fd = s->output[1].pending.len != 0 ? 2 : -1, .events = POLLOUT},
		[ON_SIGNAL] = {.fd = s->signals, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	struct buf *in = &s->parser.in;
	char text[64];
	ssize_t n;
	int r = 0;

	if (s->send.len != 0)
		p[ON_SOCKET].events |= POLLOUT;
	if (poll(p, ON_COUNT, -1) == -1)
		return errno == EINTR ? 0 : err_errno(s->err, E_INTERNAL, NULL, "poll");
	if (p[ON_STDOUT].revents != 0)
		r = write_pending(s, &s->output[0]);
	if (r == 0 && p[ON_STDERR].revents != 0)
		r = write_pending(s, &s->output[1]);
	if (p[ON_SIGNAL].revents != 0 && read(s->signals, &info, sizeof(info)) == sizeof(info)) {
		snprintf(text, sizeof(text), "{\"signal\":\"%s\"}",
			 proc_signal_name((int)info.ssi_signo));
		send_control(s, text);
	}
	if (p[ON_STDIN].revents != 0)
		read_stdin(s);
	while (s->send.len != 0) {
		n = TEMP_FAILURE_RETRY(
			send(s->c->fd, s->send.data, s->send.len, MSG_DONTWAIT | MSG_NOSIGNAL));
		if (n == -1 && errno == EAGAIN)
			break;
		/* A server that has closed its reading side may still have sent its result. */
		buf_drop(&s->send, n == -1 ? s->send.len : (size_t)n);
	}
	if (r != 0 || (p[ON_SOCKET].revents & ~POLLOUT) == 0)
		return r;
	buf_reserve(in, READ_SIZE);
	n = TEMP_FAILURE_RETRY(recv(s->c->fd, in->data + in->len, READ_SIZE, MSG_DONTWAIT));
	if (n == -1 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return err_set(s->err, E_UNAVAILABLE, NULL,
			       "the server went away before the command's result, after %" PRIu64
			       " bytes of stdout and %" PRIu64 " of stderr",
			       s->output[0].received, s->output[1].received);
	in->len += (size_t)n;
	return stdio_parse(&s->parser, "", 0, FROM_SERVER, on_frame, s, s->err);
}

/* Writes the rest when the stream has ended. It blocks; a signal ends it like any program. */
static int finish_output(struct passing *s, struct client_output *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	int r = 0;

	while (r == 0 && o->pending.len != 0) {
		poll(&p, 1, -1);
		r = write_pending(s, o);
	}
	return r;
}

static int pass_streams(struct passing *s)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
	sigset_t set, old;
	int r, w;

	/* Signals that end a command are passed to it, unless the caller of agentsh ignores them.
	 */
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		struct sigaction now;

		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &old);
	s->signals = client_above_stdio(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
	r = s->signals == -1 ? err_errno(s->err, E_INTERNAL, NULL, "signalfd") : 0;
	/* these bytes came with the head of the answer */
	if (r == 0)
		r = stdio_parse(&s->parser, s->c->in.data + s->c->in_at, s->c->in.len - s->c->in_at,
				FROM_SERVER, on_frame, s, s->err);
	while (r == 0 && !s->done)
		r = turn(s);
	if (s->signals != -1)
		close(s->signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	client_disconnect(s->c); /* the server does not wait for our readers */
	/* the output is written after a failure, too; the first error counts */
	if (r != 0)
		s->err = NULL;
	w = finish_output(s, &s->output[0]);
	if (w == 0)
		w = finish_output(s, &s->output[1]);
	return r != 0 ? r : w;
}

static void init_output(struct client_output *o, int fd, const char *name)
{
	struct stat st;
	const bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

	*o = (struct client_output){.fd = fd,
				    .name = name,
				    .file = file,
				    .nowait = true,
				    .step = FIRST_STEP,
				    .granted = STDIO_WINDOW};
}

int client_stdio(struct client *c, const struct client_call *call, struct buf *answer,
		 struct err *err)
{
	struct passing s = {.c = c,
			    .call = call,
			    .stdin_credit = STDIO_WINDOW,
			    .stdin_open = true,
			    .answer = answer,
			    .err = err};
	struct answer_head head;
	int r = client_ask(c, call, STDIO_PROTOCOL, &head, err);

	if (r != 0)
		return r;
	if (head.status != 101)
		return client_read_all(c, &head, answer, err);
	s.scratch = mem_alloc(STDIO_FRAME_MAX);
	init_output(&s.output[0], 1, "stdout");
	init_output(&s.output[1], 2, "stderr");
	r = pass_streams(&s);
	stdio_parser_done(&s.parser);
	buf_done(&s.send);
	buf_done(&s.output[0].pending);
	buf_done(&s.output[1].pending);
	free(s.scratch);
	if (r != 0)
		buf_clear(answer);
	return r;
}
