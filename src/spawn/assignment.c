// SPDX-License-Identifier: Apache-2.0
#include "spawn/assignment.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define WARDEN_BACKLOG 16
#define WALLS_MAX (64 * 1024)
#define ASSIGNMENT_MAX (2 * WALLS_MAX)
#define FAILURE 125

#define ROW(kind, name, max) FIELD(struct assignment, kind, name, max)
static const struct field rows[] = {
	ROW(FIELD_STR, session_id, 64), ROW(FIELD_STRV, walls, WALLS_MAX),
	ROW(FIELD_U32, api_uid, 0),	ROW(FIELD_U32, log_level, 0),
	ROW(FIELD_U32, log_format, 0),
};
static const struct fields assignment_fields = {"assignment", sizeof(struct assignment), rows,
						ARRAY_LEN(rows)};
/* One message carries the descriptors, the plan and the assignment itself. */
#define MESSAGE_FDS (ASSIGNMENT_FDS + 2)
_Static_assert(MESSAGE_FDS <= FDIO_MAX_FDS, "see assignment_send");

int assignment_send(int sock, const struct assignment *o, const struct sandbox_plan *plan,
		    const int fd[ASSIGNMENT_FDS], const struct sandbox_trees *view, struct err *err)
{
	cleanup_fd int plan_fd = -1, memory = -1;
	cleanup_buf struct buf text = {0};
	int all[MESSAGE_FDS];
	const char byte = 0;
	int r = plan_seal(plan, &plan_fd, err);

	if (r < 0)
		return r;
	fields_pack(&assignment_fields, o, &text);
	memory = fdio_sealed("agentsh-assignment", text.data, text.len);
	if (memory == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "memfd_create");
	memcpy(all, fd, ASSIGNMENT_FDS * sizeof(*fd));
	all[ASSIGNMENT_FDS] = plan_fd;
	all[ASSIGNMENT_FDS + 1] = memory;
	if (fdio_send(sock, &byte, 1, all, ARRAY_LEN(all)) < 0 || trees_send(sock, view) < 0)
		return err_errno(err, E_UNAVAILABLE, o->session_id,
				 "the prepared sandbox does not answer");
	return 0;
}

ssize_t assignment_recv(int sock, char *byte, int *fd, size_t *nfds)
{
	const ssize_t n = fdio_recv(sock, byte, 1, fd, nfds, NULL);

	return n == -1 && errno == ECONNRESET ? fdio_recv(sock, byte, 1, fd, nfds, NULL) : n;
}

int trees_send(int sock, const struct sandbox_trees *t)
{
	const char byte = 0;

	for (size_t i = 0; t != NULL && i < t->n; i++)
		if (fdio_send(sock, &byte, 1, &t->fd[i], t->fd[i] != -1) < 0)
			return -1;
	return 0;
}

int trees_receive(int sock, size_t n, struct sandbox_trees *out, struct err *err)
{
	*out = (struct sandbox_trees){.fd = mem_resize(NULL, n, sizeof(*out->fd))};
	for (; out->n < n; out->n++) {
		size_t nfds = 1;
		char byte;

		out->fd[out->n] = -1;
		if (assignment_recv(sock, &byte, &out->fd[out->n], &nfds) != 1)
			return err_set(err, E_BAD_REQUEST, NULL, "the assignment lacks a tree");
	}
	return 0;
}

/* The process ends with 0 when the launcher does not need it. */
static void receive(int sock, int fd[MESSAGE_FDS])
{
	size_t nfds = MESSAGE_FDS;
	char byte;

	if (assignment_recv(sock, &byte, fd, &nfds) != 1 || nfds != MESSAGE_FDS)
		_exit(0);
}

int assignment_tell(int report_fd, enum process process, pid_t pid, struct err *err)
{
	const struct assignment_report report = {.process = process, .pid = pid};

	return fdio_write_all(report_fd, &report, sizeof(report)) < 0
		       ? err_errno(err, E_UNAVAILABLE, NULL,
				   "the launcher does not read its reports")
		       : 0;
}

_Noreturn void assignment_give_up(int report_fd, const struct err *why)
{
	struct assignment_report report = {.err = *why};

	if (report.err.code == E_OK)
		report.err.code = E_INTERNAL;
	fdio_write_all(report_fd, &report, sizeof(report));
	_exit(FAILURE);
}

void assignment_refuse(int sock, const struct err *why)
{
	const char word = ASSIGNMENT_FAILED;
	int fd[MESSAGE_FDS];

	fdio_send(sock, &word, 1, NULL, 0);
	receive(sock, fd);
	assignment_give_up(fd[ASSIGNMENT_REPORT], why);
}

/* Waits for the assignment. The stub ends if init ends before it. If init ends later, its link has
 * the reason. */
static void await(const struct waiting_stub *w)
{
	struct pollfd pfd[] = {{w->sock, POLLIN, 0}, {w->init.assignment, POLLIN, 0}};
	const char ready = ASSIGNMENT_READY;
	char word;

	for (;;) {
		if (poll(pfd, ARRAY_LEN(pfd), -1) < 0 && errno != EINTR)
			_exit(FAILURE);
		if (pfd[0].revents != 0)
			return;
		if (pfd[1].revents == 0)
			continue;
		if (fdio_recv(w->init.assignment, &word, 1, NULL, NULL, NULL) != 1 ||
		    word != SANDBOX_PREPARED ||
		    fdio_send(w->sock, &ready, 1, &w->userns, w->userns != -1) < 0)
			_exit(FAILURE);
		if (w->userns != -1)
			close(w->userns);
		prctl(PR_SET_NAME, ASSIGNMENT_NAME, 0, 0, 0);
	}
}

void assignment_apply(const struct waiting_stub *w, struct assignment *o, int fd[ASSIGNMENT_FDS])
{
	struct sandbox_trees view = {0};
	cleanup_buf struct buf text = {0};
	struct sandbox_plan plan = {0};
	struct err err = {0};
	int all[MESSAGE_FDS], r;

	await(w);
	receive(w->sock, all);
	memcpy(fd, all, ASSIGNMENT_FDS * sizeof(*fd));
	r = plan_load(all[ASSIGNMENT_FDS], &plan, &err);
	if (r == 0)
		r = fdio_load(all[ASSIGNMENT_FDS + 1], ASSIGNMENT_MAX, &text, &err);
	if (r == 0)
		r = fields_unpack(&assignment_fields, text.data, text.len, false, o, &err);
	if (r == 0)
		r = trees_receive(w->sock, plan.trees, &view, &err);
	/* A client that connects to the session's socket sees the ids of this moment: listen before
	 * the stub gives up its uid. */
	if (r == 0 && (prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0 ||
		       listen(fd[ASSIGNMENT_LISTEN], WARDEN_BACKLOG) < 0))
		r = err_errno(&err, E_UNAVAILABLE, NULL, "cannot listen for the session");
	/* Not before: the next launcher must find this session, or it would never end. */
	if (r == 0)
		close(fd[ASSIGNMENT_LOCK]);
	if (r == 0)
		r = sandbox_bind_init(&w->init, all[ASSIGNMENT_FDS], fd[ASSIGNMENT_TREE], &view,
				      &err);
	sandbox_trees_done(&view);
	if (r == 0)
		r = assignment_tell(fd[ASSIGNMENT_REPORT], process_of(PROCESS_INSIDE), w->init.pid,
				    &err);
	if (r == 0)
		r = sandbox_become_user(&plan, &err);
	if (r < 0)
		assignment_give_up(fd[ASSIGNMENT_REPORT], &err);
	close(fd[ASSIGNMENT_TREE]);
	sandbox_plan_done(&plan);
}
