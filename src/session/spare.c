// SPDX-License-Identifier: Apache-2.0
/* The next command's id and output files, made while the session has nothing else to do: creating
 * two files takes some 50 to 80 microseconds, which no caller has to wait for. A file into which
 * nothing was written (most commands are silent on one stream) is passed on, which takes less than
 * a new inode. */
#include "session/internal.h"
#include "terminal/stream.h"

/* The warden has told the whole end, and nothing of the command lives that could still write. */
static bool is_free(const struct command *from, int which)
{
	return from->over && from->ack && from->out.background.n == 0 && from->bytes[which] == 0 &&
	       from->out_fd[which - 1] != -1;
}

static int make_file(struct session *s, struct command *from, int which)
{
	const int dir = s->ss->deps.output_dir;

	if (is_free(from, which) && stream_file_pass(dir, s->id, from->id, s->spare_id, which))
		return take_fd(from->out_fd[which - 1]);
	return stream_file_create(dir, s->id, s->spare_id, which);
}

void spare_make(struct session *s, struct command *from)
{
	if (s->spare_id[0] != '\0' || !s->registered || !s->settled || s->over ||
	    (s->state != SESSION_READY && s->state != SESSION_BUSY))
		return;
	id_make(s->spare_id, "cmd");
	for (int i = 0; i < 2; i++)
		s->spare_fd[i] = make_file(s, from, i + 1);
	if (s->spare_fd[0] == -1 || s->spare_fd[1] == -1)
		spare_drop(s);
}

bool spare_take(struct session *s, char id[ID_MAX + 1], int fd[2])
{
	if (s->spare_id[0] == '\0')
		return false;
	memcpy(id, s->spare_id, sizeof(s->spare_id));
	fd[0] = take_fd(s->spare_fd[0]);
	fd[1] = take_fd(s->spare_fd[1]);
	s->spare_id[0] = '\0';
	return true;
}

void spare_drop(struct session *s)
{
	char id[ID_MAX + 1];
	int fd[2];

	if (!spare_take(s, id, fd))
		return;
	mem_cleanup_fd(&fd[0]);
	mem_cleanup_fd(&fd[1]);
	stream_files_remove(s->ss->deps.output_dir, s->id, id);
}
