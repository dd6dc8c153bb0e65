// SPDX-License-Identifier: Apache-2.0
#include "link/testkit/link_testkit.h"
#include "base/mem.h"
#include <dirent.h>

static size_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static size_t fds_before;

int remember_fds(void **state)
{
	fds_before = open_fds();
	return 0;
}

int no_fd_leaked(void **state)
{
	return open_fds() == fds_before ? 0 : -1;
}

void pair_open(struct pair *p, enum link_side from, enum link_side to, enum link_state at)
{
	int fd[2];

	assert_int_equal(link_pair(fd, NULL), 0);
	link_init(&p->a, fd[0], from, to);
	link_init(&p->b, fd[1], to, from);
	p->a.state = p->b.state = p->a.seen = p->b.seen = at;
}

void pair_close(struct pair *p)
{
	link_done(&p->a);
	link_done(&p->b);
}

void raw_send(int sock, const struct wire_head *h, const void *payload, size_t len, int fd,
	      size_t nfds)
{
	cleanup_buf struct buf frame = {0};
	int fds[FDIO_MAX_FDS];

	for (size_t i = 0; i < nfds; i++)
		fds[i] = fd;
	buf_add(&frame, h, sizeof(*h));
	buf_add(&frame, payload, len);
	assert_int_equal(fdio_send(sock, frame.data, frame.len, fds, nfds), 0);
}

struct wire_head good_head(enum msg_type type, size_t len)
{
	return (struct wire_head){0x4b4c4841, LINK_VERSION, (uint16_t)type, 7, (uint32_t)len, 0, 0};
}
