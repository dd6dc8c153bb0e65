// SPDX-License-Identifier: Apache-2.0
#include "warden/session_place.h"
#include "base/fdio.h"
#include "base/line.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include "model/acmd_names.h"
#include "sandbox/sandbox.h"
#include "shell/session_root.h"
#include "warden/core.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define SWEEP_MS 300 /* for the process that init leaves, which needs much less */
#define END_CHILDREN_MS 2000

int place_open(struct session_place *p, struct init_ready *ready, struct link_msg *m,
	       struct err *err)
{
	struct buf word = {0};
	int pair[2];

	/* The file that init has bound, or that the session will execute: the one that the server
	 * was started with may have been replaced. A session cannot change either. */
	if (ready->workspace == NULL) {
		p->namespaces = true;
		if (ready->shown.n < 2)
			return err_set(err, E_INTERNAL, NULL,
				       "init does not report where the workspace is");
		p->names = (struct workspace_names){ready->shown, take(ready->real_path)};
		ready->shown = (struct strv){0};
		p->program = mem_strdup(CAPTURE_PROGRAM);
		p->capture = mem_strdup(CAPTURE_PROGRAM);
		p->program_fd = root_open(m->fd[0], CAPTURE_PROGRAM);
		return 0;
	}
	if (ready->own_dir == NULL || ready->state_program == NULL)
		return err_set(err, E_INTERNAL, NULL, "init does not report where the session is");
	/* The policy was compiled for the real path, which is canonical here. */
	strv_add(&p->names.shown, ready->workspace);
	strv_add(&p->names.shown, ready->workspace);
	p->home = ready->home != NULL ? take(ready->home)
				      : mem_printf("%s/%s", ready->own_dir, SANDBOX_OWN_HOME);
	p->tmp = mem_printf("%s/%s", ready->own_dir, SANDBOX_OWN_TMP);
	p->writable = ready->writable;
	ready->writable = (struct strv){0};
	p->program = realpath(ready->state_program, NULL);
	p->program_fd = open(ready->state_program, O_PATH | O_CLOEXEC);
	if (p->program == NULL || p->program_fd == -1)
		return err_errno(err, E_INTERNAL, ready->state_program, "cannot open %s",
				 ready->state_program);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "socketpair");
	p->taken = pair[0];
	p->given = pair[1];
	line_add_word(&word, p->program, SIZE_MAX);
	p->capture = buf_take(&word);
	return 0;
}

void place_close(struct session_place *p)
{
	mem_cleanup_fd(&p->program_fd);
	mem_cleanup_fd(&p->taken);
	mem_cleanup_fd(&p->given);
	strv_done(&p->writable);
	workspace_names_done(&p->names);
	free(p->home);
	free(p->tmp);
	free(p->program);
	free(p->capture);
	*p = SESSION_PLACE_NONE;
}

bool place_may_hang(const struct session_place *p, int root_fd)
{
	bool may = false;

	for (size_t i = 0; !may && i < p->names.shown.n; i += 2) {
		cleanup_fd int fd =
			fdio_openat2(root_fd, p->names.shown.v[i], O_PATH, RESOLVE_IN_ROOT);
		struct statfs fs;

		may = fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
	}
	return may;
}

/* At the end of PATH: whatever else is found there comes first, and is found as fast as before. */
static void add_acommands(const struct session_place *p, struct shell_memory *m)
{
	const char *path = strv_env_get(&m->env, "PATH"), *slash = strrchr(p->program, '/');
	cleanup_free char *dir = p->namespaces ? mem_strdup(ACMD_DIR)
					       : mem_printf("%.*s/" ACMD_BESIDE,
							    (int)(slash - p->program), p->program);

	/* A colon would separate it. */
	if (path != NULL && strchr(dir, ':') == NULL) {
		cleanup_free char *longer = mem_printf("%s:%s", path, dir);

		env_set(m, "PATH", longer, NULL);
	}
}

void place_settle(const struct session_place *p, struct shell_memory *m)
{
	add_acommands(p, m);
	if (p->home == NULL)
		return;
	free(m->home);
	m->home = mem_strdup(p->home);
	if (strv_env_get(&m->env, "TMPDIR") == NULL)
		env_set(m, "TMPDIR", p->tmp, NULL);
}

void place_captures(struct session_place *p, struct link_msg *m, struct capture_in_setup *out)
{
	out->program_fd = p->program_fd;
	out->listen_fd = take_fd(m->fd[1]);
	if (p->namespaces)
		return;
	close(out->listen_fd);
	out->listen_fd = take_fd(p->taken);
	out->given = true;
}

/* On the listener thread. No process of the session can write to the state program's memory or
 * trace it, and it has one thread. capture_in checks what it sends as in every session. */
static int give_socket(void *arg, pid_t tid)
{
	const struct session_place *p = &((const struct warden *)arg)->place;
	const int on = 1;
	cleanup_fd int ours = -1, theirs = -1;
	struct stat st;
	int pair[2];

	if (fstat(p->program_fd, &st) < 0 || proc_exe_is(tid, st.st_dev, st.st_ino) != 1)
		return -EPERM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -EPERM;
	ours = pair[0];
	theirs = pair[1];
	if (fdio_nonblock(ours) < 0 ||
	    setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    fdio_send(p->given, &tid, sizeof(tid), &ours, 1) < 0)
		return -EPERM;
	return take_fd(theirs);
}

void place_execs(const struct session_place *p, struct execs_setup *out)
{
	out->exec.helper = p->program;
	out->exec.names = &p->names;
	if (p->namespaces)
		return;
	out->own_trees = &p->writable;
	out->state_socket = give_socket;
}

void place_end(const struct session_place *p)
{
	if (p->home == NULL)
		return;
	tree_leave_dead();
	if (!tree_await_own(SWEEP_MS) && !tree_end_own(END_CHILDREN_MS, 0))
		log_warn("some processes of the session do not die");
}
