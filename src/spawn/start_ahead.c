// SPDX-License-Identifier: Apache-2.0
/* The stub starts a process that prepares itself before the session is known: agentsh-fs.
 *
 * Only this process may hold /dev/fuse. If another process had a copy, requests would wait for ever
 * after the death of the file server, instead of failing. */
#include "base/fdio.h"
#include "base/mem.h"
#include "link/link.h"
#include "spawn/assignment.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>

#define FAILURE 125

/* Its parent sees that it ends, and its link has no answer. */
static _Noreturn void child(const struct prepared_stub *p, const struct process_row *row,
			    int program, struct process_args *args, pid_t parent)
{
	const struct sandbox_plan *plan = p->plan;
	int keep[] = {program, args->link_fd, args->fuse_fd}, r;
	struct strv argv = {0};
	struct err err = {0};

	fdio_close_except(keep, ARRAY_LEN(keep));
	r = plan->privileged && plan->fuse
		    ? sandbox_become_holder(plan->uid, plan->gid, UINT64_C(1) << CAP_SYS_ADMIN,
					    &err)
		    : sandbox_become_user(plan, &err);
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
	    process_args_pass(row, args) == 0) {
		process_args_format(row, args, &argv);
		sandbox_execute(program, argv.v, &err);
	}
	_exit(FAILURE);
}

int start_ahead(struct prepared_stub *p, struct err *err)
{
	struct process_args args = {.session_id = ASSIGNMENT_ID, .fuse_fd = -1};
	const pid_t parent = getpid();
	cleanup_fd int device = -1, theirs = -1;
	enum process i = 0;
	int pair[2];

	while (i < PROCESSES && (process_table[i].start != PROCESS_AHEAD ||
				 !process_used(i, sandbox_has_fs(p->plan))))
		i++;
	if (i == PROCESSES)
		return 0;
	/* A normal user's process opens it in init's user namespace. */
	if (p->plan->privileged && p->plan->fuse) {
		device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
		if (device == -1)
			return err_errno(err, E_ENFORCEMENT, wall_name(WALL_file_rules),
					 "cannot open /dev/fuse; load the fuse module, or pass "
					 "/dev/fuse into the container");
	}
	if (link_pair(pair, err) < 0)
		return -E_UNAVAILABLE;
	theirs = pair[1];
	args.link_fd = theirs;
	args.fuse_fd = device;
	p->ahead = (struct process_link){.row = &process_table[i], .fd = pair[0], .pid = fork()};
	if (p->ahead.pid == 0)
		child(p, p->ahead.row, p->program[i], &args, parent);
	return p->ahead.pid > 0 ? 0 : err_errno(err, E_UNAVAILABLE, NULL, "fork");
}

int ahead_pass(const struct process_link *ahead, const int fd[AHEAD_FDS], struct err *err)
{
	if (ahead->row == NULL || fdio_send(ahead->fd, "", 1, fd, fd[0] != -1 ? AHEAD_FDS : 0) >= 0)
		return 0;
	return err_set(err, E_ENFORCEMENT, NULL, "%s ended early", ahead->row->title);
}

bool ahead_receive(int link, int fd[AHEAD_FDS])
{
	size_t nfds = AHEAD_FDS;
	char byte;

	return fdio_recv(link, &byte, 1, fd, &nfds, NULL) == 1;
}
