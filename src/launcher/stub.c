// SPDX-License-Identifier: Apache-2.0
/* The stub: forked from the launcher, still privileged. It joins the control group, starts the
 * process inside the namespaces and waits for its assignment (spawn/assignment.h). Then it gives up
 * its capabilities, starts the processes beside it and executes the main one. If a step before the
 * assignment fails, the stub reports it when the assignment comes.
 *
 * It dies with the launcher (PDEATHSIG, and the end of its socket), and holds neither the
 * launcher's descriptors nor its lock. The assignment brings the lock: so the next launcher cannot
 * look for sessions before this one can be found. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "model/process_args.h"
#include "sandbox/command_walls.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_others(const struct stub *s)
{
	const struct launcher *l = s->l;
	/* -1: none */
	int keep[4 + PROCESSES + CGROUP_TREES] = {s->sock, s->tree_fd, l->bpf.check.sessions,
						  l->bpf.check.link};
	size_t n = 4;

	for (size_t i = 0; i < PROCESSES; i++)
		keep[n++] = l->programs.fd[i];
	for (size_t i = 0; i < l->groups.host.n; i++)
		keep[n++] = l->groups.host.tree[i].dir;
	qsort(keep, n, sizeof(keep[0]), compare);
	fdio_close_except(keep, n);
}

static int pass_files(const struct cgroup_files *f)
{
	const int more[] = {f->event, f->notify};

	for (size_t i = 0; i < f->n; i++)
		if (fcntl(f->file[i].fd, F_SETFD, 0) < 0)
			return -1;
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (more[i] != -1 && fcntl(more[i], F_SETFD, 0) < 0)
			return -1;
	return 0;
}

/* Becomes the program of a row. Only returns on failure. */
static int execute(const struct stub *s, enum process process, const struct process_args *args,
		   struct err *err)
{
	const struct process_row *row = &process_table[process];
	struct strv argv = {0};
	int r;

	process_args_format(row, args, &argv);
	r = process_args_pass(row, args) < 0
		    ? err_errno(err, E_INTERNAL, row->program, "cannot pass a descriptor")
		    : sandbox_execute(s->l->programs.fd[process], argv.v, err);
	strv_done(&argv);
	return r;
}

/* It dies with us, the main process. */
static int start_beside(const struct stub *s, enum process process, struct process_args *args,
			const int fd[ASSIGNMENT_FDS], struct err *err)
{
	struct process_link l = {.row = &process_table[process]};
	const pid_t parent = getpid();
	struct process_args own = *args;
	int pair[2];
	int r = link_pair(pair, err);

	if (r < 0)
		return r;
	own.link_fd = pair[1];
	l.fd = pair[0];
	for (size_t i = 1; i < PROCESS_RINGS; i++)
		if (process_with_ring(i) == process) {
			const int *ring = fd + ASSIGNMENT_OTHERS + 3 * (i - 1);

			own.ring_fd = ring[0];
			own.ack_fd = ring[1];
			l.ring_fd = ring[2];
		}
	l.pid = fork();
	if (l.pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
			_exit(125);
		execute(s, process, &own, err);
		assignment_give_up(fd[ASSIGNMENT_REPORT], err);
	}
	r = l.pid < 0 ? err_errno(err, E_UNAVAILABLE, l.row->program, "fork")
		      : assignment_tell(fd[ASSIGNMENT_REPORT], process, l.pid, err);
	close(pair[1]);
	process_args_add(args, &l);
	return r;
}

/* All power is gone: starts the other processes, and becomes the main one. */
static _Noreturn void become_session(const struct stub *s, const struct assignment *o,
				     const int fd[ASSIGNMENT_FDS],
				     const struct process_link *inside, int wants,
				     const struct cgroup_files *files)
{
	struct process_args args = {
		.session_id = o->session_id,
		.listen_fd = fd[ASSIGNMENT_LISTEN],
		.api_fd = fd[ASSIGNMENT_API],
		.ring_fd = fd[ASSIGNMENT_RING],
		.ack_fd = fd[ASSIGNMENT_ACK],
		.policy_fd = fd[ASSIGNMENT_POLICY],
		.api_uid = o->api_uid,
		.log_level = (int)o->log_level,
		.log_format = (int)o->log_format,
		.walls = o->walls,
		.exec_map_fd = wants,
		.exec_link_fd = s->l->bpf.check.link,
	};
	struct err err = {0};
	int r = 0;

	cgroup_files_format(files, &args.counters);
	process_args_add(&args, inside);
	for (size_t i = 0; r == 0 && i < PROCESSES; i++)
		if (process_table[i].start == PROCESS_BESIDE)
			r = start_beside(s, (enum process)i, &args, fd, &err);
	if (r == 0 && pass_files(files) < 0)
		r = err_errno(&err, E_INTERNAL, o->session_id, "cannot pass a counter");
	if (r == 0)
		execute(s, process_of(PROCESS_MAIN), &args, &err);
	assignment_give_up(fd[ASSIGNMENT_REPORT], &err);
}

static int prepare(const struct stub *s, struct err *err)
{
	const struct cgroup_host *host = &s->l->groups.host;
	struct sandbox_start start = {s->plan, s->l->programs.fd[process_of(PROCESS_INSIDE)], -1,
				      s->tree_fd};
	struct waiting_stub w = {.sock = s->sock, .userns = -1};
	struct cgroup_files files = CGROUP_FILES_NONE;
	struct process_link inside;
	int link[2], fd[ASSIGNMENT_FDS], wants = -1;
	char id[GROUP_ID_MAX];
	struct assignment o;
	int r = 0;

	/* The session's limits hold for every process that is started from now on. */
	if (s->group != 0) {
		group_id(s->l, s->group, id);
		if (s->makes_group)
			group_make(s->l, s->group);
		r = s->born_in_it ? 0 : cgroup_join(host, id, 0, err);
		if (r == 0)
			cgroup_files_open(host, id, &files);
	}
	if (r == 0)
		r = link_pair(link, err);
	if (r < 0)
		return r;
	start.init_link = link[1];
	r = sandbox_prepare_init(&start, &w.init, err);
	close(link[1]);
	/* From now on the kernel checks what the session executes; no program but init runs yet. */
	if (r == 0 && s->l->bpf.check.link != -1)
		r = exec_sessions_add(s->l->bpf.check.sessions, w.init.pid, &wants, err);
	/* If this fails, the launcher reports it for the session that needs the namespace. */
	if (r == 0 && s->map.shown_uid != 0)
		sandbox_idmap(&s->map, &w.userns, NULL);
	if (r < 0)
		return r;
	inside = (struct process_link){&process_table[process_of(PROCESS_INSIDE)], w.init.pid,
				       link[0]};
	/* init has the limit of its commands; the process that sends it descriptors needs more. */
	rlimit_raise_files();
	assignment_apply(&w, &o, fd); /* waits for the assignment, and gives up all power */
	become_session(s, &o, fd, &inside, wants, &files);
}

void stub_main(const struct stub *s, pid_t parent)
{
	struct err err = {0};
	sigset_t none;
	int null;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(125);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0022);
	if (null == -1 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(s->l->settings.log_fd, STDERR_FILENO) < 0 || setsid() < 0 || chdir("/") < 0 ||
	    setrlimit(RLIMIT_NOFILE, &s->l->nofile) < 0) {
		err_errno(&err, E_UNAVAILABLE, NULL, "cannot prepare the session");
	} else {
		close_others(s);
		prepare(s, &err);
	}
	assignment_refuse(s->sock, &err);
}
