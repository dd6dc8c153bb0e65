// SPDX-License-Identifier: Apache-2.0
/* Credentials of a server that is root and serves every uid. The secure bit NO_SETUID_FIXUP keeps
 * the capabilities of a thread whose fsuid is not 0: what it makes belongs to the caller, and the
 * kernel, which has checked the permissions before (default_permissions), does not check them a
 * second time with less knowledge of the caller's groups. */
#include "fs/fs_state.h"
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int caller_prepare(struct err *err)
{
	const int bits = prctl(PR_GET_SECUREBITS);

	if (geteuid() != 0 || bits < 0 ||
	    prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0)
		return err_errno(err, E_UNAVAILABLE, "file system", "cannot act for other users");
	return 0;
}

void caller_enter(const struct fs *fs, const struct fs_request *q)
{
	if (!fs->setup.as_caller)
		return;
	setfsgid(q->gid);
	setfsuid(q->uid);
}

void caller_leave(const struct fs *fs)
{
	if (!fs->setup.as_caller)
		return;
	setfsuid(0);
	setfsgid(0);
}

bool caller_set_effective(unsigned cap, bool on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint32_t bit = 1U << cap;

	if (syscall(SYS_capget, &head, data) < 0 || !(data[0].permitted & bit) ||
	    ((data[0].effective & bit) != 0) == on)
		return false;
	data[0].effective ^= bit;
	return syscall(SYS_capset, &head, data) == 0;
}

void caller_drop_fsetid(const struct fs *fs, bool kill)
{
	if (fs->setup.as_caller && kill)
		caller_set_effective(CAP_FSETID, false);
}

void caller_keep_fsetid(const struct fs *fs, bool kill)
{
	if (fs->setup.as_caller && kill)
		caller_set_effective(CAP_FSETID, true);
}
