// SPDX-License-Identifier: Apache-2.0
#include "sandbox/as_user.h"
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 500

static _Noreturn void tell(const struct as_user *who, int sock)
{
	struct findings f = {0};

	fdio_close_except(&sock, 1);
	if (who->drop && sandbox_become_holder(who->uid, who->gid, 0, NULL) < 0)
		_exit(EXIT_FAILURE);
	who->look(who->arg, &f);
	_exit(f.text.len > 0 && fdio_send(sock, f.text.data, f.text.len, f.fd, f.n) < 0);
}

static void take_answer(int sock, struct findings *out)
{
	cleanup_free char *text = mem_alloc(FINDINGS_MAX);
	ssize_t n;

	out->n = FDIO_MAX_FDS;
	n = fdio_recv(sock, text, FINDINGS_MAX, out->fd, &out->n, NULL);
	if (n > 0)
		buf_add(&out->text, text, (size_t)n);
	else
		out->n = 0;
}

bool as_user_look(const struct as_user *who, struct findings *out)
{
	struct pollfd ready;
	int pair[2];
	pid_t pid;

	*out = (struct findings){0};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		tell(who, pair[1]);
	close(pair[1]);
	ready = (struct pollfd){pair[0], POLLIN, 0};
	if (pid > 0 && poll(&ready, 1, LOOK_MS) > 0)
		take_answer(pair[0], out);
	close(pair[0]);
	if (pid <= 0)
		return false;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	return ready.revents != 0;
}

void findings_done(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		mem_cleanup_fd(&f->fd[i]);
	buf_done(&f->text);
	*f = (struct findings){0};
}
