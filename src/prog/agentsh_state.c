// SPDX-License-Identifier: Apache-2.0
/* agentsh-state: a session's shell runs it as its last act; it sends the environment and the
 * working directory to the warden, and waits for the ack.
 *
 * With an argument it runs in the shell's own place: the argument is the shell's exit status, and
 * it ends with that status whatever happens here. Without one it is a child of the shell, and ends
 * with 0 or 1. It runs in the agent's environment and reads from it only what it sends. Without
 * libc it is a few pages, and LD_PRELOAD and the like have no effect. */
#include "prog/bare.h"
#include "spawn/capture.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/stat.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Sends bytes as datagrams of one kind, none longer than CAPTURE_CHUNK. */
static bool send_part(long fd, char kind, const char *p, size_t n)
{
	do {
		const size_t part = n < CAPTURE_CHUNK - 1 ? n : CAPTURE_CHUNK - 1;
		struct iovec iov[] = {{&kind, 1}, {(void *)(uintptr_t)p, part}};
		const struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
		long r;

		do
			r = bare_call(SYS_sendmsg, fd, (long)&m, MSG_NOSIGNAL, 0, 0);
		while (r == -EINTR);
		if (r < 0)
			return false;
		p += part;
		n -= part;
	} while (n > 0);
	return true;
}

static bool same_directory(const char *path)
{
	struct statx x, y;

	return bare_call(SYS_statx, AT_FDCWD, (long)path, 0, STATX_INO, (long)&x) == 0 &&
	       bare_call(SYS_statx, AT_FDCWD, (long)".", 0, STATX_INO, (long)&y) == 0 &&
	       x.stx_dev_major == y.stx_dev_major && x.stx_dev_minor == y.stx_dev_minor &&
	       x.stx_ino == y.stx_ino;
}

/* The shell's own name for the directory, if it is right: it keeps the links that the shell
 * followed. Also if the directory was removed, because then it has no other name. NULL: no name. */
static const char *find_cwd(char *const env[], char real[PATH_MAX])
{
	const char *pwd = NULL;

	for (; *env != NULL && pwd == NULL; env++)
		if (bare_begins(*env, "PWD=/"))
			pwd = *env + 4;
	if (bare_call(SYS_getcwd, (long)real, PATH_MAX, 0, 0, 0) < 0 || real[0] != '/')
		return pwd;
	return pwd != NULL && same_directory(pwd) ? pwd : real;
}

/* The kernel puts the strings of the environment one after the other. */
static bool send_state(char *const env[])
{
	static const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = CAPTURE_SOCKET};
	const long fd = bare_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0);
	char real[PATH_MAX], answer = 0;
	const char *cwd = find_cwd(env, real), *last = NULL;

	for (size_t i = 0; env[i] != NULL; i++)
		last = env[i];
	if (fd < 0 || cwd == NULL)
		return false;
	/* In a session without namespaces the warden has given a connected socket (exec/exec.h),
	 * and this fails. */
	bare_call(SYS_connect, fd, (long)&at, sizeof(at), 0, 0);
	return (last == NULL || send_part(fd, CAPTURE_ENV, env[0],
					  (size_t)(last - env[0]) + bare_length(last) + 1)) &&
	       send_part(fd, CAPTURE_CWD, cwd, bare_length(cwd)) &&
	       send_part(fd, CAPTURE_END, "", 0) &&
	       bare_call(SYS_read, fd, (long)&answer, 1, 0, 0) == 1 && answer == CAPTURE_ACK;
}

int bare_main(int argc, char *const argv[], char *const env[])
{
	const bool sent = send_state(env);
	int status = 0;

	if (argc < 2)
		return sent ? 0 : 1;
	for (const char *digit = argv[1]; *digit >= '0' && *digit <= '9'; digit++)
		status = (status * 10 + (*digit - '0')) & 0xff;
	return status;
}
