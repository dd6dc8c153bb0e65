// SPDX-License-Identifier: Apache-2.0
#include "spawn/assignment.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "link/link.h"
#include "sandbox/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define WARDEN_BACKLOG 16
#define WALLS_MAX (64 * 1024)
#define ASSIGNMENT_MAX (2 * WALLS_MAX)
#define FAILURE 125
#define AHEAD_MS 5000 /* for the answer of a process that has waited in the pool */

#define ROW(kind, name, max) FIELD(struct assignment, kind, name, max)
static const struct field rows[] = {
	ROW(FIELD_STR, session_id, 64), ROW(FIELD_STRV, walls, WALLS_MAX),
	ROW(FIELD_U32, api_uid, 0),	ROW(FIELD_U32, log_level, 0),
	ROW(FIELD_U32, log_format, 0),	ROW(FIELD_STR, real, PATH_MAX),
	ROW(FIELD_U32, entry_ms, 0),	ROW(FIELD_U32, attr_ms, 0),
	ROW(FIELD_U32, negative_ms, 0), ROW(FIELD_U32, max_readahead, 0),
	ROW(FIELD_U32, async_read, 0),	ROW(FIELD_U32, writeback_cache, 0),
	ROW(FIELD_U32, io_uring, 0),
};
const struct fields assignment_fields = {"assignment", sizeof(struct assignment), rows,
					 ARRAY_LEN(rows)};
/* One message carries the descriptors up to ASSIGNMENT_OTHERS, the plan, the assignment itself and
 * the descriptors of the other rings that the session has. */
enum { MESSAGE_PLAN = ASSIGNMENT_OTHERS, MESSAGE_TEXT, MESSAGE_OTHERS };
#define MESSAGE_FDS (ASSIGNMENT_FDS + 2)
#define MESSAGE_TRASH MESSAGE_OTHERS /* in its place, when the rings have been taken */
_Static_assert(sizeof(ASSIGNMENT_ID) == ID_MAX + 1, "any id takes its place");
_Static_assert(MESSAGE_FDS <= FDIO_MAX_FDS, "see assignment_send");

int assignment_send(int sock, const struct assignment *o, const struct sandbox_plan *plan,
		    const int fd[ASSIGNMENT_FDS], const struct sandbox_trees *view, struct err *err)
{
	cleanup_fd int plan_fd = -1, memory = -1;
	cleanup_buf struct buf text = {0};
	int all[MESSAGE_FDS];
	size_t n = MESSAGE_OTHERS;
	const char byte = 0;
	int r = plan_seal(plan, &plan_fd, err);

	if (r < 0)
		return r;
	fields_pack(&assignment_fields, o, &text);
	memory = fdio_sealed("agentsh-assignment", text.data, text.len);
	if (memory == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "memfd_create");
	memcpy(all, fd, ASSIGNMENT_OTHERS * sizeof(*fd));
	all[MESSAGE_PLAN] = plan_fd;
	all[MESSAGE_TEXT] = memory;
	for (size_t i = ASSIGNMENT_OTHERS; i < ASSIGNMENT_FDS; i++)
		if (fd[i] != -1)
			all[n++] = fd[i];
	if (fdio_send(sock, &byte, 1, all, n) < 0 || trees_send(sock, view) < 0)
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

/* Returns how many descriptors came. The process ends with 0 when the launcher does not need it. */
static size_t receive(int sock, int fd[MESSAGE_FDS])
{
	size_t nfds = MESSAGE_FDS;
	char byte;

	if (assignment_recv(sock, &byte, fd, &nfds) != 1 || nfds < MESSAGE_OTHERS)
		_exit(0);
	return nfds;
}

static int tell(int report_fd, enum process process, pid_t pid, struct err *err)
{
	const struct assignment_report report = {.process = process, .pid = pid};

	return fdio_write_all(report_fd, &report, sizeof(report)) < 0
		       ? err_errno(err, E_UNAVAILABLE, NULL,
				   "the launcher does not read its reports")
		       : 0;
}

static _Noreturn void give_up(int report_fd, const struct err *why)
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
	give_up(fd[ASSIGNMENT_REPORT], why);
}

static int load_text(int fd, struct assignment *o, struct err *err)
{
	cleanup_buf struct buf text = {0};
	int r = lseek(fd, 0, SEEK_SET) < 0
			? err_errno(err, E_UNAVAILABLE, NULL, "the assignment cannot be read")
			: fdio_load(fd, ASSIGNMENT_MAX, &text, err);

	return r < 0 ? r : fields_unpack(&assignment_fields, text.data, text.len, false, o, err);
}

bool assignment_part_receive(int link, struct assignment_part *out, int fd[PART_FDS])
{
	size_t nfds = PART_FDS;

	fd[PART_TRASH] = -1;
	return fdio_recv(link, out, sizeof(*out), fd, &nfds, NULL) == sizeof(*out) &&
	       nfds >= PART_TRASH;
}

int assignment_part_load(const int fd[PART_FDS], struct sandbox_plan *plan, struct assignment *out,
			 struct err *err)
{
	const int r = plan_load(fd[PART_PLAN], plan, err);

	return r < 0 ? r : load_text(fd[PART_TEXT], out, err);
}

/* All power is gone: becomes the main process. Only returns on failure. */
static int execute_waiting(const struct prepared_stub *p, struct err *err)
{
	const struct process_row *row = &process_waiting;
	struct process_args args = {.session_id = ASSIGNMENT_ID,
				    .wait_fd = p->sock,
				    .prepared_fd = p->init.assignment,
				    .counters = p->counters,
				    .exec_map_fd = p->exec_map,
				    .exec_link_fd = p->exec_link};
	const enum process inside = process_of(PROCESS_INSIDE);
	struct strv argv = {0};
	int r = 0;

	process_args_add(&args,
			 &(struct process_link){&process_table[inside], p->init.pid, p->init_link});
	if (p->ahead.row != NULL)
		process_args_add(&args, &p->ahead);
	for (size_t i = 0; i < PROCESSES && r == 0; i++)
		if (process_table[i].start == PROCESS_BESIDE) {
			strv_addf(&args.programs, "%s %d", process_table[i].name, p->program[i]);
			r = fcntl(p->program[i], F_SETFD, 0);
		}
	process_args_format(row, &args, &argv);
	if (r < 0 || process_args_pass(row, &args) < 0)
		return err_errno(err, E_INTERNAL, row->program, "cannot pass a descriptor");
	return sandbox_execute(p->program[process_of(PROCESS_MAIN)], argv.v, err);
}

int assignment_wait(const struct prepared_stub *p, struct err *err)
{
	const int r = sandbox_become_user(p->plan, err);

	if (r < 0)
		return r;
	/* The change of the uid has cleared it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != p->launcher)
		_exit(FAILURE);
	return execute_waiting(p, err);
}

/* ---- the main process ---- */

/* Waits for init's word that it is prepared. False: init has ended. */
static bool await_prepared(const struct process_args *a)
{
	char word;

	return fdio_recv(a->prepared_fd, &word, 1, NULL, NULL, NULL) == 1 &&
	       word == SANDBOX_PREPARED;
}

/* Waits for the assignment. The process ends if init or the process that was started ahead ends
 * before it: the pool then makes another sandbox. If init ends later, its link has the reason.
 * Returns whether init is prepared. */
static bool await(const struct process_args *a)
{
	struct pollfd pfd[] = {{a->wait_fd, POLLIN, 0}, {a->prepared_fd, POLLIN, 0}, {-1, 0, 0}};
	const char ready = ASSIGNMENT_READY;
	bool prepared = false, ended = false; /* what was started ahead */

	for (size_t i = 0; i < a->nothers; i++)
		if (a->other[i].row->start == PROCESS_AHEAD)
			pfd[2].fd = a->other[i].fd;
	for (;;) {
		if (poll(pfd, ARRAY_LEN(pfd), -1) < 0 && errno != EINTR)
			_exit(FAILURE);
		if (pfd[0].revents != 0)
			return prepared;
		if (pfd[2].revents != 0) { /* POLLHUP */
			ended = true;
			pfd[2].fd = -1;
		}
		/* A session for which this sandbox was made sends the assignment meanwhile, and
		 * gets the reason as its answer. */
		if (ended && prepared)
			_exit(FAILURE);
		if (pfd[1].revents == 0)
			continue;
		prepared = await_prepared(a);
		if (!prepared || ended || fdio_send(a->wait_fd, &ready, 1, NULL, 0) < 0)
			_exit(FAILURE);
		prctl(PR_SET_NAME, ASSIGNMENT_NAME, 0, 0, 0);
	}
}

/* The three descriptors of the ring of a process that is not the main one. */
static const int *ring_of(const int fd[ASSIGNMENT_FDS], enum process p)
{
	size_t ring = 1;

	while (process_with_ring(ring) != p)
		ring++;
	return fd + ASSIGNMENT_OTHERS + 3 * (ring - 1);
}

/* Reads the answer of a process that was started ahead, and its mount: -1 if it makes none.
 * wait_ms -1: without end. */
static int ahead_answer(const struct process_link *l, int wait_ms, bool mounts, int *mount,
			struct err *err)
{
	struct pollfd pfd = {l->fd, POLLIN, 0};
	struct err answer = {0};
	size_t nfds = 1;

	*mount = -1;
	if (poll(&pfd, 1, wait_ms) == 0)
		return err_set(err, E_UNAVAILABLE, l->row->program, "%s did not answer for %d s",
			       l->row->title, wait_ms / 1000);
	if (fdio_recv(l->fd, &answer, sizeof(answer), mount, &nfds, NULL) != sizeof(answer))
		return err_set(err, E_UNAVAILABLE, l->row->program, "%s ended early",
			       l->row->title);
	if (answer.code == E_OK && nfds == mounts)
		return 0;
	*err = answer;
	return answer.code != E_OK ? -(int)answer.code : -E_INTERNAL;
}

/* How a process that was started ahead is waited for, and what it serves besides the workspace. */
struct ahead_wait {
	int ms;	     /* -1: without end */
	bool mounts; /* its answer has a mount */
	const struct sandbox_trees *served;
};

/* Gives its part of the assignment to the process that was started ahead. *mount: of its answer. */
static int assign_ahead(struct process_args *args, struct process_link *l, struct ahead_wait wait,
			const int *all, const int *fd, int *mount, struct err *err)
{
	const struct assignment_part part = {args->init_pid};
	const int *ring = ring_of(fd, (enum process)(l->row - process_table));
	const int sent[PART_FDS] = {[PART_TREE] = fd[ASSIGNMENT_TREE],
				    [PART_POLICY] = fd[ASSIGNMENT_POLICY],
				    [PART_RING] = ring[0],
				    [PART_ACK] = ring[1],
				    [PART_PLAN] = all[MESSAGE_PLAN],
				    [PART_TEXT] = all[MESSAGE_TEXT],
				    [PART_TRASH] = all[MESSAGE_TRASH]};
	int r;

	/* if it has ended, its answer does not come */
	fdio_send(l->fd, &part, sizeof(part), sent, sent[PART_TRASH] == -1 ? PART_TRASH : PART_FDS);
	trees_send(l->fd, wait.served);
	r = ahead_answer(l, wait.ms, wait.mounts, mount, err);
	if (r < 0)
		return r;
	l->ring_fd = ring[2];
	close(ring[0]);
	close(ring[1]);
	return tell(fd[ASSIGNMENT_REPORT], (enum process)(l->row - process_table), l->pid, err);
}

/* It dies with us. */
static int start_beside(struct process_args *args, const char *program,
			const int fd[ASSIGNMENT_FDS], struct err *err)
{
	struct process_link l = {0};
	const pid_t parent = getpid();
	struct process_args own = *args;
	char name[32];
	int pair[2], program_fd;
	const int *ring;
	size_t p = 0;

	if (sscanf(program, "%31s %d", name, &program_fd) != 2)
		return err_set(err, E_BAD_REQUEST, program, "not a program: '%s'", program);
	while (p < PROCESSES && strcmp(process_table[p].name, name) != 0)
		p++;
	if (p == PROCESSES || link_pair(pair, err) < 0)
		return err_set(err, E_UNAVAILABLE, name, "cannot start %s", name);
	l.row = &process_table[p];
	own.link_fd = pair[1];
	l.fd = pair[0];
	ring = ring_of(fd, (enum process)p);
	own.ring_fd = ring[0];
	own.ack_fd = ring[1];
	l.ring_fd = ring[2];
	l.pid = fork();
	if (l.pid == 0) {
		struct strv argv = {0};

		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
			_exit(FAILURE);
		process_args_format(l.row, &own, &argv);
		if (process_args_pass(l.row, &own) < 0)
			err_errno(err, E_INTERNAL, name, "cannot pass a descriptor");
		else
			sandbox_execute(program_fd, argv.v, err);
		give_up(fd[ASSIGNMENT_REPORT], err);
	}
	close(pair[1]);
	close(program_fd);
	process_args_add(args, &l);
	return l.pid < 0 ? err_errno(err, E_UNAVAILABLE, name, "fork")
			 : tell(fd[ASSIGNMENT_REPORT], (enum process)p, l.pid, err);
}

/* The descriptors of the rings that the session has follow the others in the message. */
static int spread(const struct sandbox_plan *plan, const int *others, size_t n,
		  int fd[ASSIGNMENT_FDS], struct err *err)
{
	for (unsigned i = 1; i < PROCESS_RINGS; i++)
		if (process_used(process_with_ring(i), sandbox_has_fs(plan))) {
			if (n < 3)
				return err_set(err, E_BAD_REQUEST, NULL,
					       "the assignment lacks a ring");
			memcpy(fd + ASSIGNMENT_OTHERS + (size_t)3 * (i - 1), others,
			       3 * sizeof(*fd));
			others += 3;
			n -= 3;
		}
	return 0;
}

/* Adds what the launcher does not know to the plan for init and the process ahead. */
static int complete(struct sandbox_plan *plan, bool holds, int workspace,
		    struct sandbox_trees *view, struct sandbox_trees *served, int *plan_fd,
		    struct err *err)
{
	int r = sandbox_serve(plan, workspace, view, served, err);

	if (r < 0 || !plan->fuse)
		return r;
	plan->holds = holds;
	close(*plan_fd);
	return plan_seal(plan, plan_fd, err);
}

/* Returns only on success; else the process ends. */
static void apply(struct process_args *a, bool prepared, assignment_holds_fn *holds,
		  struct assignment *o, int fd[ASSIGNMENT_FDS])
{
	const struct sandbox_prepared init = {a->init_pid, a->prepared_fd};
	struct sandbox_trees view = {0}, served = {0};
	int all[MESSAGE_FDS], mount = -1, r;
	struct sandbox_plan plan = {0};
	struct err err = {0};
	const size_t n = receive(a->wait_fd, all);

	memcpy(fd, all, ASSIGNMENT_OTHERS * sizeof(*fd));
	r = plan_load(all[MESSAGE_PLAN], &plan, &err);
	if (r == 0)
		r = load_text(all[MESSAGE_TEXT], o, &err);
	if (r == 0)
		r = spread(&plan, all + MESSAGE_OTHERS, n - MESSAGE_OTHERS, fd, &err);
	if (r == 0)
		r = trees_receive(a->wait_fd, plan.trees + (plan.trash != 0), &view, &err);
	all[MESSAGE_TRASH] = r == 0 && plan.trash ? view.fd[--view.n] : -1;
	if (r == 0)
		r = complete(&plan, holds != NULL && holds(fd[ASSIGNMENT_POLICY]),
			     fd[ASSIGNMENT_TREE], &view, &served, &all[MESSAGE_PLAN], &err);
	/* The next launcher recognizes the main process by the pid that called listen(). */
	if (r == 0 && (prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0 ||
		       listen(fd[ASSIGNMENT_LISTEN], WARDEN_BACKLOG) < 0))
		r = err_errno(&err, E_UNAVAILABLE, NULL, "cannot listen for the session");
	/* Not before: the next launcher must find this session, or it would never end. */
	if (r == 0)
		close(fd[ASSIGNMENT_LOCK]);
	for (size_t i = 0; r == 0 && i < a->nothers; i++) {
		struct process_link *l = &a->other[i];

		if (l->row->start != PROCESS_AHEAD)
			continue;
		/* It enters init's user namespace, which must have its maps. If init has ended, its
		 * link has the reason, and the process is not needed: it ends with its link. */
		if (plan.privileged || prepared || await_prepared(a)) {
			const struct ahead_wait wait = {prepared ? AHEAD_MS : -1, plan.fuse != 0,
							&served};

			r = assign_ahead(a, l, wait, all, fd, &mount, &err);
			continue;
		}
		r = tell(fd[ASSIGNMENT_REPORT], (enum process)(l->row - process_table), l->pid,
			 &err);
		close(l->fd);
		*l = a->other[--a->nothers];
	}
	if (plan.fuse != 0)
		sandbox_trees_add(&view, mount);
	sandbox_trees_done(&served);
	if (r == 0)
		r = sandbox_bind_init(&init, all[MESSAGE_PLAN], fd[ASSIGNMENT_TREE], &view, &err);
	sandbox_trees_done(&view);
	if (r == 0)
		r = tell(fd[ASSIGNMENT_REPORT], process_of(PROCESS_INSIDE), a->init_pid, &err);
	if (r < 0)
		give_up(fd[ASSIGNMENT_REPORT], &err);
	mem_cleanup_fd(&all[MESSAGE_TRASH]); /* only agentsh-fs has it */
	close(all[MESSAGE_PLAN]);
	close(all[MESSAGE_TEXT]);
	close(fd[ASSIGNMENT_TREE]);
	sandbox_plan_done(&plan);
}

int assignment_await(int argc, char **argv, assignment_holds_fn *holds, struct process_args *out,
		     struct err *err)
{
	struct assignment o = {0};
	int fd[ASSIGNMENT_FDS], r;

	r = process_args_parse(&process_waiting, argc, argv, out, err);
	if (r < 0)
		return r;
	/* Else other processes of its uid could read its memory, and its descriptors. The warden
	 * reports that it cannot. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	apply(out, await(out), holds, &o, fd);
	/* ps shows the session's id, and not what the process waited with */
	memset(argv[1], 0, strlen(ASSIGNMENT_ID));
	memcpy(argv[1], o.session_id, strlen(o.session_id));
	prctl(PR_SET_NAME, process_waiting.program, 0, 0, 0);
	free(o.session_id);
	free(o.real);
	out->session_id = argv[1];
	out->listen_fd = fd[ASSIGNMENT_LISTEN];
	out->api_fd = fd[ASSIGNMENT_API];
	out->ring_fd = fd[ASSIGNMENT_RING];
	out->ack_fd = fd[ASSIGNMENT_ACK];
	out->policy_fd = fd[ASSIGNMENT_POLICY];
	out->api_uid = o.api_uid;
	out->log_level = (int)o.log_level;
	out->log_format = (int)o.log_format;
	out->walls = o.walls;
	/* The descriptors of these lists go to no other program. */
	for (size_t i = 0; i < out->counters.n; i++)
		fcntl(atoi(out->counters.v[i]), F_SETFD, FD_CLOEXEC);
	for (size_t i = 0; i < out->programs.n; i++)
		fcntl(atoi(strchrnul(out->programs.v[i], ' ')), F_SETFD, FD_CLOEXEC);
	for (size_t i = 0; r == 0 && i < out->programs.n; i++)
		r = start_beside(out, out->programs.v[i], fd, err);
	if (r < 0)
		give_up(fd[ASSIGNMENT_REPORT], err);
	close(fd[ASSIGNMENT_REPORT]); /* without an error: success */
	close(out->wait_fd);
	close(out->prepared_fd);
	return 0;
}
