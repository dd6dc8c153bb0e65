// SPDX-License-Identifier: Apache-2.0
#include "command/output_writer.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#define CHUNK (128 * 1024)
#define TURN_MAX (4 * CHUNK) /* of one stream, before the others get their turn */
#define WIDE_PIPE TURN_MAX   /* of a stream that has filled its pipe once */

static char chunk[CHUNK];

void output_init(struct output *o, int pipe_fd, int file_fd, uint64_t quota)
{
	*o = (struct output){.fd = pipe_fd, .allowed = UINT64_MAX, .read = OUTPUT_UNREAD};
	stream_init(&o->stream, file_fd, quota);
}

static void close_pipe(int *fd, struct watch **watch)
{
	watch_free(take(*watch));
	mem_cleanup_fd(fd);
	*fd = -1;
}

void output_done(struct output *o)
{
	close_pipe(&o->fd, &o->watch);
	stream_done(&o->stream);
}

/* Reads at most max. Returns the bytes; 0 at the end (it closes the pipe); -1: it is empty. */
static ssize_t move(struct output *o, size_t max)
{
	ssize_t n;

	do {
		n = read(o->fd, chunk, max < CHUNK ? max : CHUNK);
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		stream_append(&o->stream, chunk, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		close_pipe(&o->fd, &o->watch);
	return n;
}

/* A stream that cannot be written has no bytes for a reader: the rest is only counted. */
static uint64_t room(const struct output *o)
{
	const struct stream *s = &o->stream;
	uint64_t most = o->allowed;

	if (s->failed != 0)
		return TURN_MAX;
	if (o->read != OUTPUT_UNREAD) {
		const uint64_t ahead = o->read + STREAM_WINDOW;
		const uint64_t held_at = ahead > s->quota ? ahead : s->quota;

		most = held_at < most ? held_at : most;
	}
	return most > s->bytes ? most - s->bytes : 0;
}

/* Reads until the pipe is empty, the window is full or other streams should have their turn. */
static void on_readable(void *arg)
{
	struct output *o = arg;
	const uint64_t before = o->stream.bytes;

	while (o->fd >= 0 && o->stream.bytes - before < TURN_MAX) {
		const uint64_t max = room(o);

		if (max == 0 || move(o, (size_t)max) < (ssize_t)(max < CHUNK ? max : CHUNK))
			break;
	}
	if (o->fd >= 0 && room(o) == 0)
		watch_stop(o->watch);
	if (o->fd >= 0 && !o->wide && o->stream.bytes - before >= CHUNK / 2) {
		fcntl(o->fd, F_SETPIPE_SZ, WIDE_PIPE); /* without it there are more wake-ups */
		o->wide = true;
	}
	if (o->stream.bytes > before)
		o->on_data(o->arg);
}

void output_start(struct output *o, struct loop *loop, watch_fn *on_data, void *arg)
{
	o->on_data = on_data;
	o->arg = arg;
	fcntl(o->fd, F_SETFL, O_NONBLOCK); /* a brief command's pipe is only drained */
	o->watch = watch_readable(loop, o->fd, on_readable, o);
	watch_start(o->watch);
}

void output_window(struct output *o, uint64_t allowed, uint64_t read)
{
	if (allowed > o->allowed)
		o->allowed = allowed;
	o->read = read;
	o->stream.window = read != OUTPUT_UNREAD;
	if (o->watch != NULL && room(o) > 0)
		watch_start(o->watch);
}

void output_unbind(struct output *o)
{
	output_window(o, UINT64_MAX, OUTPUT_UNREAD);
}

void output_drain(struct output *o)
{
	int held = 0;

	if (o->fd < 0 || ioctl(o->fd, FIONREAD, &held) < 0 || held == 0)
		return;
	/* A process can open the other end for reading, and read what FIONREAD counted. */
	if (o->watch == NULL)
		fcntl(o->fd, F_SETFL, O_NONBLOCK);
	while (o->fd >= 0 && held > 0) {
		const ssize_t n = move(o, (size_t)held);

		if (n <= 0)
			return;
		held -= (int)n;
	}
}

void input_done(struct input *in)
{
	close_pipe(&in->fd, &in->watch);
	buf_done(&in->queue);
}

static void pump(struct input *in)
{
	while (in->at < in->queue.len) {
		const ssize_t n = write(in->fd, in->queue.data + in->at, in->queue.len - in->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) { /* the reader has closed the pipe */
			in->taken += in->queue.len - in->at;
			close_pipe(&in->fd, &in->watch);
			break;
		}
		in->at += (size_t)n;
		in->taken += (uint64_t)n;
	}
	in->at = 0;
	buf_done(&in->queue);
	if (in->eof)
		close_pipe(&in->fd, &in->watch);
}

static void feed(void *arg)
{
	struct input *in = arg;
	const uint64_t before = in->taken;

	pump(in);
	if (in->queue.len > 0 && in->loop != NULL) {
		if (in->watch == NULL)
			in->watch = watch_writable(in->loop, in->fd, feed, in);
		watch_start(in->watch);
	}
	if (in->taken > before && in->on_taken != NULL)
		in->on_taken(in->arg);
}

void input_start(struct input *in, struct loop *loop, watch_fn *on_taken, void *arg)
{
	in->loop = loop;
	in->on_taken = on_taken;
	in->arg = arg;
	feed(in);
}

int input_add(struct input *in, const void *p, size_t n, bool eof, struct err *err)
{
	if (in->queue.len - in->at + n > INPUT_MAX)
		return err_set(err, E_TOO_LARGE, NULL, "more than %d bytes wait for the command",
			       INPUT_MAX);
	in->eof |= eof;
	buf_add(&in->queue, p, n);
	feed(in);
	return 0;
}
