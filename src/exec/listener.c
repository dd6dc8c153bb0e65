// SPDX-License-Identifier: Apache-2.0
#include "exec/listener.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

int listener_init(int fd)
{
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == -1)
		return errno;
	if (sizes.seccomp_notif > sizeof(union listener_notif) ||
	    sizes.seccomp_notif_resp > sizeof(struct seccomp_notif_resp))
		return ENOTSUP;
	ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	return 0;
}

int listener_recv(int fd, union listener_notif *out)
{
	memset(out, 0, sizeof(*out)); /* the kernel insists */
	return ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, out) == -1 ? errno : 0;
}

bool listener_valid(int fd, uint64_t id)
{
	return ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

int listener_send(int fd, uint64_t id, int errnum)
{
	struct seccomp_notif_resp r = {.id = id, .error = -errnum};

	if (errnum == 0)
		r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	return ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &r) == -1 ? errno : 0;
}

int listener_done(int fd, uint64_t id)
{
	struct seccomp_notif_resp r = {.id = id};

	return ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &r) == -1 ? errno : 0;
}

int listener_give(int fd, uint64_t id, int given)
{
	struct seccomp_notif_addfd a = {.id = id,
					.flags = SECCOMP_ADDFD_FLAG_SEND,
					.srcfd = (uint32_t)given,
					.newfd_flags = O_CLOEXEC};

	return ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a) == -1 ? errno : 0;
}
