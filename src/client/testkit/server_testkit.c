// SPDX-License-Identifier: Apache-2.0
#include "client/testkit/server_testkit.h"
#include "base/fdio.h"
#include "base/loop.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

void server_place(struct server *s)
{
	snprintf(s->dir, sizeof(s->dir), "/tmp/agentsh-client-test-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	snprintf(s->socket, sizeof(s->socket), "%s/sock", s->dir);
}

int server_listen(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(a.sun_path, path, strlen(path) + 1);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 8) < 0)
		return -1;
	return fd;
}

pid_t server_fork(void)
{
	const pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

void server_start(struct server *s, http_request_fn *on_request)
{
	struct server_child child;
	struct http_server *http;
	int listener;

	server_place(s);
	listener = server_listen(s->socket);
	assert_true(listener >= 0);
	s->pid = server_fork();
	if (s->pid > 0) {
		close(listener);
		return;
	}
	fdio_nonblock(listener);
	child.loop = loop_new(NULL, NULL);
	http = http_server_new(child.loop, &http_limits_default, on_request, NULL, &child);
	http_server_listen(http, listener, 0, transport_plain, NULL);
	loop_run(child.loop);
	_exit(1);
}

void server_stop(struct server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	unlink(s->socket);
	rmdir(s->dir);
}
