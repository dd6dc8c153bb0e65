// SPDX-License-Identifier: Apache-2.0
/* The socket by which a shell's state goes out: forged states, and descriptors that nobody asked
 * for. Both end when the other side has closed, or after two seconds. */
#include "attack.h"
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#define PASSED 100

static int connect_state(void)
{
	const struct sockaddr_un to = {AF_UNIX, "/run/agentsh/state.sock"};
	const struct timeval limit = {2, 0};
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ? -1 : fd;
}

static int forge(void)
{
	const int fd = connect_state();
	char answer[16];

	if (fd == -1)
		return BROKEN;
	send(fd, "EFORGED=1", sizeof("EFORGED=1"), MSG_NOSIGNAL);
	send(fd, "D/tmp", 5, MSG_NOSIGNAL);
	send(fd, "F", 1, MSG_NOSIGNAL);
	return recv(fd, answer, sizeof(answer), 0) > 0 && answer[0] == 'A' ? 0 : EPERM;
}

/* Done if they could be sent; what became of them is seen from outside. */
static int pass_descriptors(void)
{
	const int fd = connect_state();
	char control[CMSG_SPACE(PASSED * sizeof(int))] = {0};
	struct iovec data = {"EA=1", 5};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	char answer[16];
	ssize_t sent;

	if (fd == -1)
		return BROKEN;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(PASSED * sizeof(int));
	for (int i = 0; i < PASSED; i++)
		memcpy(CMSG_DATA(c) + (size_t)i * sizeof(int), &fd, sizeof(int));
	sent = sendmsg(fd, &m, MSG_NOSIGNAL);
	recv(fd, answer, sizeof(answer), 0);
	return outcome(sent);
}

/* Everything that may be signalled, but not itself. */
static int kill_everything(void)
{
	return outcome(kill(-1, SIGKILL));
}

const struct attack gateway_attacks[] = {
	{"forged_state", forge},
	{"descriptor_passing", pass_descriptors},
	{"kill_all", kill_everything},
	{0},
};
