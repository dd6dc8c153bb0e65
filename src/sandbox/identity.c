// SPDX-License-Identifier: Apache-2.0
/* capabilities(7). The securebits come first. With NO_SETUID_FIXUP the capabilities outlive the
 * change of uid, so that the new uid can empty the bounding set. The locks make sure that no later
 * program gets a capability back. */
#include "sandbox/identity.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHUT_BITS                                                                                \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                         \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)
#define CAPS_MAX 64

static int set_caps(const struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

	return (int)syscall(SYS_capset, &head, data);
}

/* The system calls themselves: libc's wrappers signal every thread, and there is only one here. */
int identity_become(const struct identity *who)
{
	if (syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0 ||
	    syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
		return errno;
	return 0;
}

int identity_take(const struct identity *who, bool *bounded, struct err *err)
{
	const struct __user_cap_data_struct none[2] = {0};

	/* A process without CAP_SETPCAP has nothing to lock, unless it is to change its uid. */
	if (prctl(PR_SET_SECUREBITS, SHUT_BITS, 0, 0, 0) < 0 && (errno != EPERM || who->change))
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_SET_SECUREBITS");
	errno = who->change ? identity_become(who) : 0;
	if (errno != 0)
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "setgroups, setresgid(%u), setresuid(%u)", who->gid, who->uid);
	*bounded = true;
	for (int cap = 0; *bounded && cap < CAPS_MAX; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL) /* past the last one that this kernel knows */
			break;
		if (errno != EPERM)
			return err_errno(err, E_ENFORCEMENT, NULL, "PR_CAPBSET_DROP(%d)", cap);
		*bounded = false;
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_CAP_AMBIENT_CLEAR_ALL");
	if (set_caps(none) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "capset");
	return 0;
}

int identity_no_new_privs(struct err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "PR_SET_NO_NEW_PRIVS");
	return 0;
}

int identity_keep_caps(void)
{
	static const int kept[] = {CAP_SYS_ADMIN, CAP_SETPCAP, CAP_NET_ADMIN};
	struct __user_cap_data_struct data[2] = {0};

	for (unsigned i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		data[CAP_TO_INDEX(kept[i])].inheritable |= CAP_TO_MASK(kept[i]);
	for (int i = 0; i < 2; i++)
		data[i].permitted = data[i].effective = data[i].inheritable;
	if (set_caps(data) < 0)
		return errno;
	for (unsigned i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept[i], 0, 0) < 0)
			return errno;
	return 0;
}
