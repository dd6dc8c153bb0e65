// SPDX-License-Identifier: Apache-2.0
/* The client's side of the stdio stream.
 *
 * Other processes may share descriptors 0, 1 and 2 (a terminal, a pipe), so they are never made
 * non-blocking: the client polls them and writes at most as much as POLLOUT promises (PIPE_BUF).
 * The client always reads the socket. Credit bounds its memory: the server sends at most
 * STDIO_WINDOW bytes of each stream that the client has not written yet. */
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "client/client_internal.h"
#include "wire/stdio_frame.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FROM_SERVER \
	(1U << STDIO_STDOUT | 1U << STDIO_STDERR | 1U << STDIO_CONTROL | 1U << STDIO_RESULT)
#define CREDIT_STEP 16384 /* bytes written before they are granted again */
#define READ_SIZE 65536

struct client_output {
	int fd;
	const char *name;
	struct buf pending;
	size_t written_max; /* at a time */
	size_t granted;	    /* bytes that the server may still send */
	size_t owed;	    /* bytes written, not yet granted again */
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
	char *scratch; /* owned; READ_SIZE */
};

/* --- to the server --- */

static void send_control(struct passing *s, const char *json)
{
	stdio_frame(&s->send, STDIO_CONTROL, json, strlen(json));
}

static void read_stdin(struct passing *s)
{
	const size_t max = MIN((size_t)s->stdin_credit, READ_SIZE);
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

static int on_frame(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	struct passing *s = arg;
	struct client_output *o;

	/* The result is the last frame. */
	if (s->done)
		return 0;
	switch (type) {
	case STDIO_STDOUT:
	case STDIO_STDERR:
		o = &s->output[type - STDIO_STDOUT];
		if (n > o->granted)
			return err_set(s->err, E_UNAVAILABLE, NULL,
				       "the server sent more %s than its credit", o->name);
		o->granted -= n;
		o->received += n;
		buf_add(&o->pending, p, n);
		break;
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

static int write_output(struct passing *s, struct client_output *o)
{
	const size_t part = MIN(o->pending.len, o->written_max);
	const ssize_t n = TEMP_FAILURE_RETRY(write(o->fd, o->pending.data, part));
	char text[80];

	if (n == -1 && errno == EAGAIN)
		return 0;
	if (n == -1)
		return err_errno(s->err, E_UNAVAILABLE, o->name, "cannot write to %s", o->name);
	buf_drop(&o->pending, (size_t)n);
	o->owed += (size_t)n;
	if (o->owed >= CREDIT_STEP) {
		snprintf(text, sizeof(text), "{\"credit\":{\"stream\":\"%s\",\"bytes\":%zu}}",
			 o->name, o->owed);
		send_control(s, text);
		o->granted += o->owed;
		o->owed = 0;
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
	char text[64];
	ssize_t n;
	int r = 0;

	if (s->send.len != 0)
		p[ON_SOCKET].events |= POLLOUT;
	if (poll(p, ON_COUNT, -1) == -1)
		return errno == EINTR ? 0 : err_errno(s->err, E_INTERNAL, NULL, "poll");
	if (p[ON_STDOUT].revents != 0)
		r = write_output(s, &s->output[0]);
	if (r == 0 && p[ON_STDERR].revents != 0)
		r = write_output(s, &s->output[1]);
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
	n = TEMP_FAILURE_RETRY(recv(s->c->fd, s->scratch, READ_SIZE, MSG_DONTWAIT));
	if (n == -1 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return err_set(s->err, E_UNAVAILABLE, NULL,
			       "the server went away before the command's result, after %" PRIu64
			       " bytes of stdout and %" PRIu64 " of stderr",
			       s->output[0].received, s->output[1].received);
	return stdio_parse(&s->parser, s->scratch, (size_t)n, FROM_SERVER, on_frame, s, s->err);
}

/* Writes the rest when the stream has ended. It blocks; a signal ends it like any program. */
static int finish_output(struct passing *s, struct client_output *o)
{
	struct pollfd p = {.fd = o->fd, .events = POLLOUT};
	int r = 0;

	while (r == 0 && o->pending.len != 0) {
		poll(&p, 1, -1);
		r = write_output(s, o);
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
				    .written_max = file ? READ_SIZE : PIPE_BUF,
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
	s.scratch = mem_alloc(READ_SIZE);
	init_output(&s.output[0], 1, "stdout");
	init_output(&s.output[1], 2, "stderr");
	r = pass_streams(&s);
	client_disconnect(c);
	stdio_parser_done(&s.parser);
	buf_done(&s.send);
	buf_done(&s.output[0].pending);
	buf_done(&s.output[1].pending);
	free(s.scratch);
	if (r != 0)
		buf_clear(answer);
	return r;
}
