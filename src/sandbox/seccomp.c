// SPDX-License-Identifier: Apache-2.0
#include "sandbox/seccomp.h"
#include "model/wall.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.19, as Debian 12's headers have it. Without it a caller with a timer signal restarts its
 * exec again and again while a person decides. */
_Static_assert(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV == 1u << 5, "seccomp(2)");

#define LISTEN (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

int seccomp_load(const struct sock_filter *code, size_t n, int *listener_fd, struct err *err)
{
	const struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(size_t)code};
	const unsigned flags = listener_fd != NULL ? LISTEN : 0;
	const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);

	if (r == -1 && listener_fd != NULL && errno == EBUSY)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_exec_policy),
			       "a filter with a listener is there already: is the server itself "
			       "in a container that watches system calls?");
	if (r == -1 && listener_fd != NULL && errno == EINVAL)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_exec_policy),
			       "the kernel has no listener that only fatal signals interrupt "
			       "(Linux 5.19)");
	if (r == -1)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_seccomp),
				 "seccomp(SECCOMP_SET_MODE_FILTER)");
	if (listener_fd != NULL)
		*listener_fd = (int)r;
	return 0;
}
