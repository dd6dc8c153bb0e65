// SPDX-License-Identifier: Apache-2.0
/* The next command's id and output files, made while the session has nothing else to do: creating
 * two files takes some 50 to 80 microseconds, which no caller has to wait for. */
#include "session/internal.h"
#include "terminal/stream.h"

void spare_make(struct session *s)
{
	if (s->spare_id[0] != '\0' || !s->registered || !s->settled || s->over ||
	    (s->state != SESSION_READY && s->state != SESSION_BUSY))
		return;
	id_make(s->spare_id, "cmd");
	if (stream_files_create(s->ss->deps.output_dir, s->id, s->spare_id, s->spare_fd, NULL) < 0)
		s->spare_id[0] = '\0';
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
	close(fd[0]);
	close(fd[1]);
	stream_files_remove(s->ss->deps.output_dir, s->id, id);
}
