// SPDX-License-Identifier: Apache-2.0
/* Requests to a running command: input, room for output, signals, and a client that leaves. */
#include "base/proc.h"
#include "session/command_state.h"
#include "session/sessions.h"
#include <signal.h>

#define GONE_GRACE_MS 2000
#define STDIN_CHUNK (31 * 1024) /* travels inside the datagram */

/* An end of input alone is one message without bytes. */
static void send_stdin(struct command *c, const char *p, size_t n, bool eof)
{
	size_t at = 0;

	do {
		const size_t part = n - at < STDIN_CHUNK ? n - at : STDIN_CHUNK;
		struct warden_stdin m = {.command_id = c->id, .eof = eof && at + part == n};

		if (part > 0)
			m.data = (struct bytes){(uint8_t *)(p + at), part};
		warden_send(c->s, MSG_warden_stdin, &m);
		at += part;
	} while (at < n);
}

/* UINT64_MAX: there is no reader. */
static uint64_t slowest_reader(const struct command *c, int stream)
{
	const struct observer *o;
	uint64_t least = UINT64_MAX;

	TAILQ_FOREACH (o, &c->observers, next)
		if (o->o.output != NULL && o->read[stream] < least)
			least = o->read[stream];
	return least;
}

static void send_window(struct command *c, int stream)
{
	struct warden_window m = {.command_id = c->id,
				  .stream = (uint32_t)stream,
				  .allowed = c->window[stream],
				  .read = slowest_reader(c, stream)};

	c->told_read[stream] = m.read;
	warden_send(c->s, MSG_warden_window, &m);
}

/* Sends small steps, so that a command that is STREAM_WINDOW ahead does not have to wait. */
void command_tell_readers(struct command *c)
{
	for (int i = 1; i <= 2 && c->phase == COMMAND_SENT; i++) {
		const uint64_t now = slowest_reader(c, i), told = c->told_read[i];

		if (now < told || now - told >= STREAM_WINDOW / 4)
			send_window(c, i);
	}
}

void command_has_read(struct command *c, const void *arg, int stream, uint64_t position)
{
	struct observer *o = command_observer_of(c, arg);

	if (o != NULL)
		o->read[stream] = position;
	command_tell_readers(c);
}

void command_send_early(struct command *c)
{
	for (int i = 1; i <= 2; i++)
		if (c->window[i] > 0)
			send_window(c, i);
	command_tell_readers(c);
	if (c->early_stdin.len > 0 || c->early_eof)
		send_stdin(c, c->early_stdin.data, c->early_stdin.len, c->early_eof);
	buf_done(&c->early_stdin);
}

void command_stdin(struct command *c, const void *p, size_t n, bool eof)
{
	if (c->phase == COMMAND_OVER)
		return;
	if (c->phase == COMMAND_SENT) {
		send_stdin(c, p, n, eof);
		return;
	}
	if (c->early_stdin.len + n <= REQUEST_STDIN_MAX)
		buf_add(&c->early_stdin, p, n);
	c->early_eof |= eof;
}

void command_window(struct command *c, int stream, uint64_t allowed)
{
	if (c->phase == COMMAND_OVER || (stream != 1 && stream != 2))
		return;
	c->window[stream] = allowed;
	if (c->phase == COMMAND_SENT)
		send_window(c, stream);
}

/* Sends the signal. A command that its warden does not have is dropped instead. */
static void send_kill(struct command *c, struct warden_kill *m, const char *dropped)
{
	struct err why = {0};

	m->command_id = c->id;
	if (c->phase >= COMMAND_UNKNOWN) {
		warden_send(c->s, MSG_warden_kill, m);
		return;
	}
	err_set(&why, E_COMMAND_KILLED, c->id, "%s", dropped);
	c->signal = (int)m->signal;
	c->exit_code = 128 + c->signal;
	command_end(c, COMMAND_KILLED, &why, false);
}

int command_signal(struct command *c, int sig, int64_t grace_ms, bool tree, struct err *err)
{
	struct warden_kill m = {.signal = (uint32_t)sig,
				.grace_ms = (uint64_t)(grace_ms > 0 ? grace_ms : 0),
				.tree = tree};

	if (command_is_over(c))
		return err_set(err, E_CONFLICT, c->id, "command '%s' is over", c->id);
	if (c->s->phase != SESSION_SETTLED) /* the server does not know whether it runs */
		return err_set(err, E_UNAVAILABLE, c->id, "session '%s' is not within reach now",
			       c->s->id);
	send_kill(c, &m, "killed before it was started");
	return 0;
}

int command_kill(struct command *c, const char *signal, int64_t grace_ms, struct err *err)
{
	const int sig = signal != NULL ? proc_signal_by_name(signal) : SIGTERM;

	if (sig <= 0) {
		err_detail(err, "signal", "not a signal: '%.32s'", signal);
		return err_from_details(err, c->id);
	}
	return command_signal(c, sig, grace_ms, true, err);
}

void command_unobserve(struct command *c, const void *arg, bool gone)
{
	struct warden_kill m = {
		.signal = SIGHUP, .grace_ms = GONE_GRACE_MS, .tree = 1, .client_gone = 1};
	struct observer *o = command_observer_of(c, arg);

	if (o == NULL)
		return;
	TAILQ_REMOVE(&c->observers, o, next);
	free(o);
	if (gone && TAILQ_EMPTY(&c->observers) && !c->detach && !command_is_over(c) &&
	    !c->s->ss->freeing)
		send_kill(c, &m, "the client left before it was started");
	else
		command_tell_readers(c);
}
