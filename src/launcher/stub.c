// SPDX-License-Identifier: Apache-2.0
/* The stub: forked from the launcher, still privileged. It joins the control group and starts the
 * process inside the namespaces. Then it gives up its capabilities and executes the main process,
 * which waits for its assignment (spawn/assignment.h). If a step fails, the stub reports it when
 * the assignment comes.
 *
 * Both die with the launcher (PDEATHSIG, and the end of the socket), and hold neither the
 * launcher's descriptors nor its lock. The assignment brings the lock: so the next launcher cannot
 * look for sessions before this one can be found. */
#include "base/fdio.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "sandbox/command_walls.h"
#include <fcntl.h>
#include <sys/prctl.h>

static void close_others(const struct stub *s)
{
	const struct launcher *l = s->l;
	int keep[2 + CHECK_FDS + PROCESSES + CGROUP_TREES] = {s->sock, s->tree_fd}; /* -1: none */
	size_t n = 2;

	for (size_t i = 0; i < CHECK_FDS; i++)
		keep[n++] = l->bpf.check.fd[i];
	for (size_t i = 0; i < PROCESSES; i++)
		keep[n++] = l->programs.fd[i];
	for (size_t i = 0; i < l->groups.host.n; i++)
		keep[n++] = l->groups.host.tree[i].dir;
	fdio_close_except(keep, n);
}

static int prepare(const struct stub *s, pid_t parent, struct err *err)
{
	const struct cgroup_host *host = &s->l->groups.host;
	struct sandbox_start start = {s->plan, s->l->programs.fd[process_of(PROCESS_INSIDE)], -1,
				      s->tree_fd};
	const char made = ASSIGNMENT_USERNS;
	struct cgroup_files files = CGROUP_FILES_NONE;
	struct prepared_stub done = {.sock = s->sock,
				     .launcher = parent,
				     .plan = s->plan,
				     .program = s->l->programs.fd,
				     .exec_link = s->l->bpf.check.fd[CHECK_LINK]};
	const struct uid_range *uids = &s->l->settings.config.session_uids;
	const struct idmap owners[] = {s->map, home_map(s->l, s->map.shown_uid)};
	int userns[ARRAY_LEN(owners)], link[2], maps[SESSION_FDS] = {-1, -1, -1, -1}, r = 0;
	size_t n = 0;
	char id[GROUP_ID_MAX];

	/* The session's limits hold for every process that is started from now on. */
	if (s->group != 0) {
		group_id(s->l, s->group, id);
		if (s->makes_group)
			group_make(s->l, s->group);
		r = s->born_in_it ? 0 : cgroup_join(host, id, 0, err);
		if (r == 0)
			cgroup_files_open(host, id, &files);
		cgroup_files_format(&files, &done.counters);
	}
	if (r == 0)
		r = start_ahead(&done, err);
	if (r == 0)
		r = link_pair(link, err);
	if (r < 0)
		return r;
	start.init_link = link[1];
	done.init_link = link[0];
	r = sandbox_prepare_init(&start, &done.init, err);
	close(link[1]);
	/* From now on the kernel checks what the session executes; no program but init runs yet. */
	if (r == 0 && done.exec_link != -1)
		r = exec_sessions_add(&s->l->bpf.check, done.init.pid,
				      uid_range_has(uids, s->plan->uid), maps, err);
	done.exec_map = maps[SESSION_FD_WANTS];
	if (r == 0)
		r = ahead_pass(&done.ahead, maps + SESSION_FD_SLOTS, err);
	if (r < 0)
		return r;
	/* If this fails, the launcher reports it for the session that needs the namespace. */
	while (s->map.shown_uid != 0 && n < ARRAY_LEN(owners) &&
	       sandbox_idmap(&owners[n], &userns[n], NULL) == 0)
		n++;
	if (n > 0 && fdio_send(s->sock, &made, 1, userns, n) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "the launcher does not listen");
	while (n > 0)
		close(userns[--n]);
	/* init has the limit of its commands; the process that sends it descriptors needs more. */
	rlimit_raise_files();
	return assignment_wait(&done, err); /* gives up all power */
}

void stub_main(const struct stub *s, pid_t parent)
{
	struct err err = {0};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(125);
	umask(0022);
	if (!child_begin(s->l) || setsid() < 0 || chdir("/") < 0 ||
	    setrlimit(RLIMIT_NOFILE, &s->l->nofile) < 0) {
		err_errno(&err, E_UNAVAILABLE, NULL, "cannot prepare the session");
	} else {
		close_others(s);
		prepare(s, parent, &err);
	}
	assignment_refuse(s->sock, &err);
}
