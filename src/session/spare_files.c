// SPDX-License-Identifier: Apache-2.0
/* The files for the output of the next command. They have names of their own, so that an empty file
 * (most commands do not use one of the streams) serves the next command with its open descriptor.
 * New files are made while the session is idle or its warden starts: an inode takes 20 to 40
 * microseconds. */
#include "session/command_state.h"
#include "session/sessions.h"
#include "terminal/stream.h"

static int make_file(struct session *s, struct output_file *f, int stream, struct err *err)
{
	id_make(f->name, "out");
	f->fd = stream_file_create(s->ss->deps.output_dir, s->id, f->name, stream);
	if (f->fd < 0)
		return err_errno(err, E_UNAVAILABLE, s->id, "cannot make a file for the output");
	return 0;
}

static void move(struct output_file *to, struct output_file *from)
{
	*to = *from;
	*from = NO_FILE;
}

static void discard(struct session *s, struct output_file *f, int stream)
{
	if (f->fd == -1)
		return;
	close(f->fd);
	stream_file_remove(s->ss->deps.output_dir, s->id, f->name, stream);
	*f = NO_FILE;
}

static bool wanted(const struct session *s)
{
	return (s->phase == SESSION_SETTLED || s->state == SESSION_CREATING) && !s->ss->freeing &&
	       s->state != SESSION_STOPPING;
}

int spare_take(struct session *s, struct command *c, struct err *err)
{
	int r = 0;

	for (int i = 1; r == 0 && i <= 2; i++) {
		if (s->spare[i].fd != -1) {
			move(&c->file[i], &s->spare[i]);
		} else if (make_file(s, &c->file[i], i, NULL) < 0) {
			/* Descriptors and inodes that wait for a command go to one that has come.
			 */
			spares_drop(s->ss);
			r = make_file(s, &c->file[i], i, err);
		}
	}
	return r;
}

void spare_give(struct command *c)
{
	struct session *s = c->s;

	for (int i = 1; i <= 2; i++) {
		/* Nothing was written, and no process can write any more: the command was not
		 * sent, or its warden reported the end of all its processes. */
		const bool unused =
			c->file[i].fd != -1 && c->out.extent[i].bytes == 0 &&
			(c->phase < COMMAND_SENT || (c->ack && c->out.background.n == 0));

		if (!unused)
			continue;
		if (s->spare[i].fd == -1 && wanted(s))
			move(&s->spare[i], &c->file[i]);
		else
			discard(s, &c->file[i], i);
	}
}

void spare_fill(struct session *s)
{
	if (s->running != NULL) /* its own files may become free */
		return;
	for (int i = 1; i <= 2; i++)
		if (s->spare[i].fd == -1 && wanted(s))
			make_file(s, &s->spare[i], i, NULL); /* else the next command tries */
}

void spare_drop(struct session *s)
{
	for (int i = 1; i <= 2; i++)
		discard(s, &s->spare[i], i);
}

void spares_drop(struct sessions *ss)
{
	struct session *s;

	TAILQ_FOREACH (s, &ss->all, all)
		spare_drop(s);
}
