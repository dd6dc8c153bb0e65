// SPDX-License-Identifier: Apache-2.0
#include "warden/bare_session.h"
#include "base/fdio.h"
#include "base/line.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include "sandbox/sandbox.h"
#include "warden/core.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define INSIDE_WORKSPACE "/workspace"
#define SWEEP_MS 300 /* for the process that init leaves, which needs much less */
#define END_CHILDREN_MS 2000

int bare_open(struct init_ready *ready, int program_fd, struct bare **out, struct err *err)
{
	struct buf word = {0};
	struct bare *b;
	struct stat st;
	int pair[2], r = 0;

	*out = NULL;
	if (ready->workspace == NULL)
		return 0;
	if (ready->own_dir == NULL || ready->state_program == NULL || fstat(program_fd, &st) < 0)
		return err_set(err, E_INTERNAL, NULL, "init does not tell where the session is");
	b = mem_new(struct bare);
	*b = (struct bare){.workspace = take(ready->workspace),
			   .home = mem_printf("%s/%s", ready->own_dir, SANDBOX_OWN_HOME),
			   .tmp = mem_printf("%s/%s", ready->own_dir, SANDBOX_OWN_TMP),
			   .program = realpath(ready->state_program, NULL),
			   .writable = ready->writable,
			   .taken = -1,
			   .given = -1,
			   .dev = st.st_dev,
			   .ino = st.st_ino};
	ready->writable = (struct strv){0};
	if (b->program == NULL)
		r = err_errno(err, E_INTERNAL, ready->state_program, "realpath");
	else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		r = err_errno(err, E_UNAVAILABLE, NULL, "socketpair");
	if (r < 0) {
		bare_close(b);
		return r;
	}
	b->taken = pair[0];
	b->given = pair[1];
	line_add_word(&word, b->program, SIZE_MAX);
	b->capture = buf_take(&word);
	*out = b;
	return 0;
}

void bare_close(struct bare *b)
{
	if (b == NULL)
		return;
	mem_cleanup_fd(&b->taken);
	mem_cleanup_fd(&b->given);
	strv_done(&b->writable);
	free(b->workspace);
	free(b->home);
	free(b->tmp);
	free(b->program);
	free(b->capture);
	free(b);
}

char *bare_directory(const struct bare *b, const char *path)
{
	if (!path_within(path, INSIDE_WORKSPACE))
		return mem_strdup(path);
	return mem_printf("%s%s", b->workspace, path + strlen(INSIDE_WORKSPACE));
}

void bare_settle(const struct bare *b, struct shell_memory *m)
{
	free(m->home);
	m->home = mem_strdup(b->home);
	if (strv_env_get(&m->env, "TMPDIR") == NULL)
		env_set(m, "TMPDIR", b->tmp, NULL);
}

/* On the listener thread. No process of the session can write to the state program's memory or
 * trace it, and it has one thread. capture_in checks what it sends as in every session. */
int bare_state_socket(void *arg, pid_t tid)
{
	const struct bare *b = ((const struct warden *)arg)->bare;
	const int on = 1;
	cleanup_fd int ours = -1, theirs = -1;
	int pair[2];

	if (b == NULL || proc_exe_is(tid, b->dev, b->ino) != 1)
		return -EPERM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -EPERM;
	ours = pair[0];
	theirs = pair[1];
	if (fdio_nonblock(ours) < 0 ||
	    setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    fdio_send(b->given, &tid, sizeof(tid), &ours, 1) < 0)
		return -EPERM;
	return take_fd(theirs);
}

void bare_end(const struct bare *b)
{
	if (b == NULL)
		return;
	tree_leave_dead();
	if (!tree_await_own(SWEEP_MS) && !tree_end_own(END_CHILDREN_MS, 0))
		log_warn("some processes of the session do not die");
}
