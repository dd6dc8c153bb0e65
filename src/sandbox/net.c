// SPDX-License-Identifier: Apache-2.0
/* The network of a session: a namespace with nothing but loopback. */
#include "base/mem.h"
#include "sandbox/inside.h"
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int inside_net(struct inside *in, struct err *err)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	cleanup_fd int fd = -1;

	/* Without a namespace of our own it would be the machine's. */
	if ((in->namespaces & CLONE_NEWNET) == 0)
		return err_set(err, E_ENFORCEMENT, NULL, "no network namespace");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return err_errno(err, E_ENFORCEMENT, "lo", "cannot bring up the loopback device");
	wall_set(&in->walls, WALL_net_namespace, WALL_UP,
		 "only loopback: nothing leaves the session");
	return 0;
}
