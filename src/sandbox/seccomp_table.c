// SPDX-License-Identifier: Apache-2.0
/* Sources: the profile of the specification, the default profiles of container engines and of
 * systemd, and the escapes that were published against them. A row that stops a program people run
 * in a session is a bug. */
#include "base/mem.h"
#include "sandbox/seccomp_rows.h"
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Debian 12's headers are those of Linux 6.1. */
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
_Static_assert(__NR_open_tree_attr == 467 && __NR_fchmodat2 == 452,
	       "from 424 on numbers are the same everywhere");

#define NAMESPACES                                                                                \
	((uint32_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		    CLONE_NEWPID | CLONE_NEWNET))
#define HARMLESS_TO_UNSHARE                                                                 \
	((uint32_t)(CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | \
		    CLONE_VM))
#define QUERY_PERSONALITY UINT32_MAX
#define MAKES_A_FILE ((uint32_t)(O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
#define SET_ID ((uint32_t)(S_ISUID | S_ISGID))
#define NETLINK_ROUTE_PROTOCOL 0

/* clang-format off */
const struct seccomp_row seccomp_rows[] = {
	/* programs */
	{CALL(execve), SECCOMP_NOTIFY, "where programs are checked", "the policy decides about programs"},
	{CALL(execveat), SECCOMP_NOTIFY, "where programs are checked", "the policy decides about programs"},

	/* calls that are refused for some arguments only; the frequent ones first */
	{CALL(ioctl), SECCOMP_EPERM, "TIOCSTI, TIOCLINUX, TIOCSETD",
	 "types into a terminal as if a person did; loads line disciplines",
	 {IS(1, TIOCSTI, TIOCLINUX, TIOCSETD)}},
	{CALL(openat), SECCOMP_EPERM, "makes a file with a set-id bit", "whoever runs the file outside gets its owner's rights",
	 {ANY_BIT(2, MAKES_A_FILE), ANY_BIT(3, SET_ID)}},
#ifdef __NR_open
	{CALL(open), SECCOMP_EPERM, "makes a file with a set-id bit", "whoever runs the file outside gets its owner's rights",
	 {ANY_BIT(1, MAKES_A_FILE), ANY_BIT(2, SET_ID)}},
#endif
	{CALL(clone), SECCOMP_EPERM, "with a CLONE_NEW… flag", "a namespace gives capabilities in it",
	 {ANY_BIT(0, NAMESPACES)}},
	{CALL(socket), SECCOMP_EPERM, "family is not UNIX, INET, INET6 or NETLINK",
	 "vsock reaches the host, packet sockets the wire; the other families are little-tested kernel code",
	 {IS_NOT(0, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)}},
	{CALL(socket), SECCOMP_EPERM, "family NETLINK, protocol not ROUTE",
	 "only libc's question about interfaces is needed",
	 {IS(0, AF_NETLINK), IS_NOT(2, NETLINK_ROUTE_PROTOCOL)}},
	{CALL(socket), SECCOMP_EPERM, "family INET, type SOCK_PACKET", "the old name of a packet socket",
	 {IS(0, AF_INET), FIELD_IS(1, SOCKET_TYPE, SOCK_PACKET)}},
	{CALL(socketpair), SECCOMP_EPERM, "family is not UNIX", "as for socket", {IS_NOT(0, AF_UNIX)}},
	{CALL(unshare), SECCOMP_EPERM, "more than files, file-system attributes and semaphores",
	 "a namespace gives capabilities in it", {ANY_BIT(0, ~HARMLESS_TO_UNSHARE)}},
	{CALL(personality), SECCOMP_EPERM, "neither 0 nor the query 0xffffffff",
	 "turns off address randomisation and non-executable memory", {IS_NOT(0, 0, QUERY_PERSONALITY)}},
	{CALL(seccomp), SECCOMP_EPERM, "with NEW_LISTENER", "a second listener would answer in the warden's place",
	 {IS(0, SECCOMP_SET_MODE_FILTER), ANY_BIT(1, SECCOMP_FILTER_FLAG_NEW_LISTENER)}},
	/* The workspace is mounted elsewhere too, and its files belong to its owner, who may be root.
	 * The set-group-ID bit of a directory is harmless, and chmod keeps it where it is: the warden
	 * looks what it is. */
	{CALL(fchmod), SECCOMP_EPERM, "the set-user-ID bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(1, S_ISUID)}},
	{CALL(fchmod), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(1, S_ISGID)}},
	{CALL(fchmod), SECCOMP_EPERM, "the set-group-ID bit, else", "whoever runs the file outside gets its group's rights", {ANY_BIT(1, S_ISGID)}},
	{CALL(fchmodat), SECCOMP_EPERM, "the set-user-ID bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(2, S_ISUID)}},
	{CALL(fchmodat), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat), SECCOMP_EPERM, "the set-group-ID bit, else", "whoever runs the file outside gets its group's rights", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat2), SECCOMP_EPERM, "the set-user-ID bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(2, S_ISUID)}},
	{CALL(fchmodat2), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat2), SECCOMP_EPERM, "the set-group-ID bit, else", "whoever runs the file outside gets its group's rights", {ANY_BIT(2, S_ISGID)}},
	{CALL(mknodat), SECCOMP_EPERM, "a set-id bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(2, SET_ID)}},
#ifdef __NR_open
	{CALL(chmod), SECCOMP_EPERM, "the set-user-ID bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(1, S_ISUID)}},
	{CALL(chmod), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(1, S_ISGID)}},
	{CALL(chmod), SECCOMP_EPERM, "the set-group-ID bit, else", "whoever runs the file outside gets its group's rights", {ANY_BIT(1, S_ISGID)}},
	{CALL(creat), SECCOMP_EPERM, "a set-id bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(1, SET_ID)}},
	{CALL(mknod), SECCOMP_EPERM, "a set-id bit", "whoever runs the file outside gets its owner's rights", {ANY_BIT(1, SET_ID)}},
#endif
	{CALL(openat2), SECCOMP_ENOSYS, "", "the mode of a file that it makes lies in memory, where a filter cannot read it"},
	{CALL(clone3), SECCOMP_ENOSYS, "", "its flags lie in memory, where a filter cannot read them"},

	/* namespaces and mounts */
	{CALL(setns), SECCOMP_EPERM, "", "enters another namespace"},
	{CALL(mount), SECCOMP_EPERM, "", "changes what is mounted"},
	{CALL(umount2), SECCOMP_EPERM, "", "uncovers what lies below a mount"},
	{CALL(pivot_root), SECCOMP_EPERM, "", "changes the root"},
	{CALL(chroot), SECCOMP_EPERM, "", "changes the root"},
	{CALL(open_tree), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(open_tree_attr), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(move_mount), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(fsopen), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(fsconfig), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(fsmount), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(fspick), SECCOMP_EPERM, "", "the new mount interface"},
	{CALL(mount_setattr), SECCOMP_EPERM, "", "the new mount interface: makes read-only mounts writable"},

	/* other processes' memory, descriptors and files */
	{CALL(ptrace), SECCOMP_EPERM, "", "reads and changes other processes (gdb and strace do not work inside)"},
	{CALL(process_vm_readv), SECCOMP_EPERM, "", "reads other processes' memory"},
	{CALL(process_vm_writev), SECCOMP_EPERM, "", "writes other processes' memory"},
	{CALL(kcmp), SECCOMP_EPERM, "", "compares kernel objects of other processes"},
	{CALL(pidfd_getfd), SECCOMP_EPERM, "", "takes another process's descriptors"},
	{CALL(open_by_handle_at), SECCOMP_EPERM, "", "opens files by number, past every directory"},
	{CALL(name_to_handle_at), SECCOMP_EPERM, "", "gives the numbers for it"},

	/* large or little-tested kernel interfaces */
	{CALL(io_uring_setup), SECCOMP_EPERM, "", "makes system calls that no filter sees"},
	{CALL(io_uring_enter), SECCOMP_EPERM, "", "makes system calls that no filter sees"},
	{CALL(io_uring_register), SECCOMP_EPERM, "", "makes system calls that no filter sees"},
	{CALL(userfaultfd), SECCOMP_EPERM, "", "holds the kernel at a page fault: the tool of most races"},
	{CALL(bpf), SECCOMP_EPERM, "", "loads programs into the kernel"},
	{CALL(perf_event_open), SECCOMP_EPERM, "", "observes other processes and the kernel"},
	{CALL(keyctl), SECCOMP_EPERM, "", "key rings are not divided by namespaces"},
	{CALL(add_key), SECCOMP_EPERM, "", "key rings are not divided by namespaces"},
	{CALL(request_key), SECCOMP_EPERM, "", "key rings are not divided by namespaces; starts a program on the host"},

	/* the machine */
	{CALL(init_module), SECCOMP_EPERM, "", "loads kernel modules"},
	{CALL(finit_module), SECCOMP_EPERM, "", "loads kernel modules"},
	{CALL(delete_module), SECCOMP_EPERM, "", "removes kernel modules"},
	{CALL(kexec_load), SECCOMP_EPERM, "", "loads another kernel"},
	{CALL(kexec_file_load), SECCOMP_EPERM, "", "loads another kernel"},
	{CALL(reboot), SECCOMP_EPERM, "", "ends the machine"},
	{CALL(swapon), SECCOMP_EPERM, "", "changes the machine's swap"},
	{CALL(swapoff), SECCOMP_EPERM, "", "changes the machine's swap"},
	{CALL(acct), SECCOMP_EPERM, "", "changes the machine's process accounting"},
	{CALL(quotactl), SECCOMP_EPERM, "", "changes disk quotas"},
	{CALL(quotactl_fd), SECCOMP_EPERM, "", "changes disk quotas"},
	{CALL(settimeofday), SECCOMP_EPERM, "", "sets the machine's clock"},
	{CALL(clock_settime), SECCOMP_EPERM, "", "sets the machine's clock"},
	{CALL(syslog), SECCOMP_EPERM, "", "reads the machine's kernel log"},
#ifdef __NR_ioperm
	{CALL(ioperm), SECCOMP_EPERM, "", "reaches hardware"},
	{CALL(iopl), SECCOMP_EPERM, "", "reaches hardware"},
	{CALL(modify_ldt), SECCOMP_EPERM, "", "is for 16- and 32-bit code, which does not run here"},
#endif
};
/* clang-format on */
const size_t seccomp_nrows = ARRAY_LEN(seccomp_rows);
