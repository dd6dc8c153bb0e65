// SPDX-License-Identifier: Apache-2.0
#include "wire/transport.h"
#include "base/mem.h"
#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t plain_receive(struct transport *t, void *p, size_t n)
{
	return TEMP_FAILURE_RETRY(recv(t->fd, p, n, 0));
}

static ssize_t plain_send(struct transport *t, const struct iovec *iov, int n)
{
	const struct msghdr m = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n};

	return TEMP_FAILURE_RETRY(sendmsg(t->fd, &m, MSG_NOSIGNAL));
}

static ssize_t plain_send_file(struct transport *t, int fd, off_t at, size_t n)
{
	return TEMP_FAILURE_RETRY(sendfile(t->fd, fd, &at, n));
}

static void plain_shut_down(struct transport *t)
{
	shutdown(t->fd, SHUT_WR);
}

static void plain_close(struct transport *t)
{
	close(t->fd);
	free(t);
}

struct transport *transport_plain(int fd)
{
	static const struct transport_ops ops = {plain_receive, plain_send, plain_send_file,
						 plain_shut_down, plain_close};
	struct transport *t = mem_new(struct transport);

	*t = (struct transport){&ops, fd};
	return t;
}
