// SPDX-License-Identifier: Apache-2.0
/* The body of agentsh-state. It runs in the agent's environment, and reads from it only what it
 * sends. It is a static program, so that LD_PRELOAD and the like have no effect. */
#include "base/fdio.h"
#include "base/mem.h"
#include "spawn/capture.h"
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Sends bytes as datagrams of one kind, none longer than CAPTURE_CHUNK; nothing at all for no
 * bytes. */
static int send_part(int fd, enum capture_kind kind, const char *p, size_t n)
{
	char datagram[CAPTURE_CHUNK];

	datagram[0] = (char)kind;
	while (n > 0) {
		const size_t part = n < sizeof(datagram) - 1 ? n : sizeof(datagram) - 1;

		memcpy(datagram + 1, p, part);
		if (fdio_send(fd, datagram, part + 1, NULL, 0) < 0)
			return -1;
		p += part;
		n -= part;
	}
	return 0;
}

/* The shell's own name for the directory, if it is right: it keeps the links that the shell
 * followed. Also if the directory was removed, because then it has no other name. NULL: no name. */
static const char *find_cwd(char real[PATH_MAX])
{
	const char *pwd = getenv("PWD");
	struct stat x, y;

	if (pwd != NULL && pwd[0] != '/')
		pwd = NULL;
	if (getcwd(real, PATH_MAX) == NULL || real[0] != '/')
		return pwd;
	return pwd != NULL && stat(pwd, &x) == 0 && stat(".", &y) == 0 && x.st_dev == y.st_dev &&
			       x.st_ino == y.st_ino
		       ? pwd
		       : real;
}

int capture_send_main(char *const environ_[])
{
	const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CAPTURE_SOCKET};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un peer;
	socklen_t n = sizeof(peer);
	cleanup_buf struct buf env = {0};
	const char end = CAPTURE_END;
	char real[PATH_MAX], answer = 0;
	const char *cwd = find_cwd(real);

	if (fd == -1 || cwd == NULL)
		return 1;
	/* In a session without namespaces the warden gives us a connected socket (exec/exec.h). */
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 &&
	    getpeername(fd, (struct sockaddr *)&peer, &n) < 0)
		return 1;
	for (char *const *e = environ_; *e != NULL; e++)
		buf_add(&env, *e, strlen(*e) + 1);
	if (send_part(fd, CAPTURE_ENV, env.data, env.len) < 0 ||
	    send_part(fd, CAPTURE_CWD, cwd, strlen(cwd)) < 0 || fdio_send(fd, &end, 1, NULL, 0) < 0)
		return 1;
	return recv(fd, &answer, 1, 0) == 1 && answer == CAPTURE_ACK ? 0 : 1;
}
