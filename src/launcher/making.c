// SPDX-License-Identifier: Apache-2.0
/* A session whose stub has its assignment: the loop goes on, and the creation is answered when the
 * stub's report pipe ends. The stub reports the processes that it starts, or why it cannot. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <limits.h>

struct making {
	uint32_t req;
	struct launcher_created answer; /* owned */
	int fd[MAKING_FDS];		/* owned */
	int report_fd;
	struct watch *reported;
	struct err failure; /* as reported */
};

static void making_free(struct session_entry *w)
{
	struct making *k = w->making;

	w->making = NULL;
	watch_free(k->reported);
	close(k->report_fd);
	for (size_t i = 0; i < ARRAY_LEN(k->fd); i++)
		if (k->fd[i] != -1)
			close(k->fd[i]);
	msg_done(MSG_launcher_created, &k->answer);
	free(k);
}

static void refuse(struct session_entry *w, const struct err *why)
{
	api_link_refuse(w->l, w->making->req, w->id, why);
	making_free(w);
	entry_kill(w);
}

void making_begin(struct session_entry *w, uint32_t req, const struct launcher_created *answer,
		  const int fd[MAKING_FDS], int report_fd)
{
	struct making *k = mem_new(struct making);

	*k = (struct making){.req = req, .answer = *answer, .report_fd = report_fd};
	memcpy(k->fd, fd, sizeof(k->fd));
	fdio_nonblock(report_fd);
	k->reported = watch_readable(w->l->loop, report_fd, make_finish, w);
	w->making = k;
	w->state = ENTRY_MAKING;
	if (watch_start(k->reported) < 0) {
		const struct err full = {.code = E_UNAVAILABLE,
					 .message = "cannot hear of a new session: " LOOP_FULL};

		refuse(w, &full);
	}
}

static void answer(struct session_entry *w)
{
	struct making *k = w->making;
	const int dir = w->l->place.sessions_fd;
	int fd[RINGS_FDS + MAKING_FDS] = {k->fd[0]};
	struct launcher_created created;
	struct err err = {0};
	size_t n;

	/* once the main process is dead the numbers may be others' already */
	for (size_t i = 1; i < w->meta.n && w->warden.pidfd != -1; i++)
		w->meta.process[i].start = meta_start_time((pid_t)w->meta.process[i].pid);
	n = 1 + session_files_rings(dir, w->id, &k->answer.rings, fd + 1);
	if (n < 1 + RINGS_FDS)
		err_errno(&err, E_UNAVAILABLE, w->id, "cannot open the rings of session %s", w->id);
	else
		meta_save(dir, w->id, &w->meta, &err);
	if (err.code != E_OK) {
		while (--n > 0)
			close(fd[n]);
		refuse(w, &err);
		return;
	}
	if (k->fd[1] != -1)
		fd[n++] = k->fd[1];
	log_info("session made", "session_id", w->id);
	created = k->answer;
	k->answer = (struct launcher_created){0};
	w->state = ENTRY_ALIVE;
	w->silent = false;
	api_link_post(w->l, MSG_launcher_created, k->req, &created, fd, n);
	memset(k->fd, -1, sizeof(k->fd));
	making_free(w);
}

_Static_assert(sizeof(struct assignment_report) <= PIPE_BUF, "a report is one write");

void make_finish(void *session_entry)
{
	struct session_entry *w = session_entry;
	struct making *k = w->making;
	struct assignment_report got;
	ssize_t n;

	while ((n = read(k->report_fd, &got, sizeof(got))) == (ssize_t)sizeof(got)) {
		if (got.err.code != E_OK)
			k->failure = got.err;
		else
			meta_add(&w->meta, got.process, got.pid, 0);
	}
	if (n != 0 && w->warden.pidfd != -1)
		return; /* more reports may follow */
	/* If the main process is dead already, its last messages are in the link that the API child
	 * gets. */
	if (k->failure.code == E_OK && w->meta.n < PROCESSES)
		err_set(&k->failure, E_INTERNAL, w->id, "%s of %s did not start: %s",
			MAIN_PROCESS->title, w->id,
			w->reason[0] != '\0' ? w->reason : "its stub ended early");
	if (k->failure.code != E_OK) {
		const struct err why = k->failure;

		refuse(w, &why);
	} else {
		answer(w);
	}
}

void make_abandon(struct session_entry *w)
{
	making_free(w);
	entry_kill(w);
}
