// SPDX-License-Identifier: Apache-2.0
/* Sources: the profile of the specification, the default profiles of container engines and of
 * systemd, and the escapes that were published against them. A row that stops a program people run
 * in a session is a bug. */
#include "base/mem.h"
#include "sandbox/seccomp.h"
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/msdos_fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Debian 12's headers are those of Linux 6.1. */
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_file_setattr
#define __NR_file_setattr 469
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
_Static_assert(__NR_fchmodat2 == 452 && __NR_setxattrat == 463 && __NR_getxattrat == 464 &&
		       __NR_listxattrat == 465 && __NR_removexattrat == 466 &&
		       __NR_open_tree_attr == 467 && __NR_file_setattr == 469,
	       "from 424 on numbers are the same everywhere");

#define CALL(name) #name, __NR_##name
#define VALUES(...)                                                       \
	sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), UINT32_MAX, \
	{                                                                 \
		__VA_ARGS__                                               \
	}
#define IS(arg, ...)                        \
	{                                   \
		arg, 0, VALUES(__VA_ARGS__) \
	}
#define IS_NOT(arg, ...)                    \
	{                                   \
		arg, 1, VALUES(__VA_ARGS__) \
	}
#define ANY_BIT(arg, bits)       \
	{                        \
		arg, 1, 1, bits, \
		{                \
			0        \
		}                \
	}
#define FIELD_IS(arg, bits, value) \
	{                          \
		arg, 0, 1, bits,   \
		{                  \
			value      \
		}                  \
	}
/* Behind other rows of its call. */
#define ALWAYS FIELD_IS(0, 0, 0)
#define SOCKET_TYPE 0xf

#define IOCTL_TYPE ((uint32_t)_IOC_TYPEMASK << _IOC_TYPESHIFT)
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
	{CALL(openat), SECCOMP_EPERM, "makes a file with a set-id bit", "a user who runs the file outside gets its owner's rights",
	 {ANY_BIT(2, MAKES_A_FILE), ANY_BIT(3, SET_ID)}},
	{CALL(openat), SECCOMP_HOLD, "makes a file, where an approver is asked", "waits for the approver before the kernel locks the directory",
	 {ANY_BIT(2, O_CREAT)}},
#ifdef __NR_open
	{CALL(open), SECCOMP_EPERM, "makes a file with a set-id bit", "a user who runs the file outside gets its owner's rights",
	 {ANY_BIT(1, MAKES_A_FILE), ANY_BIT(2, SET_ID)}},
	{CALL(open), SECCOMP_HOLD, "makes a file, where an approver is asked", "waits for the approver before the kernel locks the directory",
	 {ANY_BIT(1, O_CREAT)}},
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
	{CALL(fchmod), SECCOMP_EPERM, "the set-user-ID bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(1, S_ISUID)}},
	{CALL(fchmod), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(1, S_ISGID)}},
	{CALL(fchmod), SECCOMP_EPERM, "the set-group-ID bit, else", "a user who runs the file outside gets its group's rights", {ANY_BIT(1, S_ISGID)}},
	{CALL(fchmodat), SECCOMP_EPERM, "the set-user-ID bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(2, S_ISUID)}},
	{CALL(fchmodat), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat), SECCOMP_EPERM, "the set-group-ID bit, else", "a user who runs the file outside gets its group's rights", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the file", {ALWAYS}},
	{CALL(fchmodat2), SECCOMP_EPERM, "the set-user-ID bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(2, S_ISUID)}},
	{CALL(fchmodat2), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat2), SECCOMP_EPERM, "the set-group-ID bit, else", "a user who runs the file outside gets its group's rights", {ANY_BIT(2, S_ISGID)}},
	{CALL(fchmodat2), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the file", {ALWAYS}},
	{CALL(mknodat), SECCOMP_EPERM, "a set-id bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(2, SET_ID)}},
	{CALL(mknodat), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the directory", {ALWAYS}},
#ifdef __NR_open
	{CALL(chmod), SECCOMP_EPERM, "the set-user-ID bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(1, S_ISUID)}},
	{CALL(chmod), SECCOMP_NOTIFY, "the set-group-ID bit, where programs are checked", "done by the warden, for directories", {ANY_BIT(1, S_ISGID)}},
	{CALL(chmod), SECCOMP_EPERM, "the set-group-ID bit, else", "a user who runs the file outside gets its group's rights", {ANY_BIT(1, S_ISGID)}},
	{CALL(chmod), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the file", {ALWAYS}},
	{CALL(creat), SECCOMP_EPERM, "a set-id bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(1, SET_ID)}},
	{CALL(creat), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the directory", {ALWAYS}},
	{CALL(mknod), SECCOMP_EPERM, "a set-id bit", "a user who runs the file outside gets its owner's rights", {ANY_BIT(1, SET_ID)}},
	{CALL(mknod), SECCOMP_HOLD, "else, where an approver is asked", "waits for the approver before the kernel locks the directory", {ALWAYS}},
#endif
	/* changes of directories and of attributes */
	{CALL(unlinkat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(renameat2), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(mkdirat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(linkat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(symlinkat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
#ifdef __NR_renameat
	{CALL(renameat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
#endif
#ifdef __NR_open
	{CALL(unlink), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(rmdir), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(rename), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(mkdir), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(link), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(symlink), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the directory"},
	{CALL(chown), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the file"},
	{CALL(lchown), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the file"},
#endif
	{CALL(fchownat), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the file"},
	{CALL(truncate), SECCOMP_HOLD, "where an approver is asked", "waits for the approver before the kernel locks the file"},

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
	{CALL(io_setup), SECCOMP_ENOSYS, "", "reads and writes files by requests that nothing counts; programs then do without"},
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

/* For a session without namespaces, which shares the machine's: what a namespace would refuse.
 *
 * Landlock holds the opening, making, moving and removal of files, tracing, and signals. It does
 * not hold sockets with a path, attributes of files, watches, queues, and what one process may do
 * to another one of its user by number. The warden makes the calls that programs need, for files
 * of the session's own (exec/attributes.c). */
const struct seccomp_row seccomp_shared_rows[] = {
	/* sockets */
	{CALL(socket), SECCOMP_NOTIFY, "family UNIX, type SEQPACKET, where programs are checked",
	 "agentsh-state, which reports the state of a shell, gets a connected one; any other program EPERM",
	 {IS(0, AF_UNIX), FIELD_IS(1, SOCKET_TYPE, SOCK_SEQPACKET)}},
	{CALL(socket), SECCOMP_EPERM, "else", "the network and the sockets of the machine's services are a way out", {ALWAYS}},
	{CALL(socketpair), SECCOMP_EPERM, "family is not UNIX", "as for socket", {IS_NOT(0, AF_UNIX)}},
	{CALL(socketpair), SECCOMP_EPERM, "type is neither STREAM nor SEQPACKET",
	 "an end of another type can be sent from to any address",
	 {{1, 1, 2, SOCKET_TYPE, {SOCK_STREAM, SOCK_SEQPACKET}}}},
	{CALL(connect), SECCOMP_EPERM, "", "there is nothing to connect"},
	{CALL(bind), SECCOMP_EPERM, "", "there is nothing to bind"},

	/* attributes, which Landlock does not hold: by path of any file, else of what may be read */
#ifdef __NR_chmod
	{CALL(chmod), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(chmod), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(utime), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(utime), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(utimes), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(utimes), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(futimesat), SECCOMP_EPERM, "", "changes files that cannot be opened"},
	{CALL(chown), SECCOMP_EPERM, "", "changes files that cannot be opened"},
	{CALL(lchown), SECCOMP_EPERM, "", "changes files that cannot be opened"},
#endif
	{CALL(fchmod), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(fchmod), SECCOMP_EPERM, "else", "changes files that may only be read", {ALWAYS}},
	{CALL(fchmodat), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(fchmodat), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(fchmodat2), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(fchmodat2), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(utimensat), SECCOMP_NOTIFY, "where programs are checked", "done by the warden, for files of the session's own", {ALWAYS}},
	{CALL(utimensat), SECCOMP_EPERM, "else", "changes files that cannot be opened", {ALWAYS}},
	{CALL(fchownat), SECCOMP_EPERM, "", "changes files that cannot be opened"},
	{CALL(fchown), SECCOMP_EPERM, "", "changes files that may only be read"},
	{CALL(fsetxattr), SECCOMP_EOPNOTSUPP, "", "changes files that may only be read"},
	{CALL(fremovexattr), SECCOMP_EOPNOTSUPP, "", "changes files that may only be read"},
	{CALL(setxattr), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(lsetxattr), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(setxattrat), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(removexattr), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(lremovexattr), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(removexattrat), SECCOMP_EOPNOTSUPP, "", "changes files that cannot be opened"},
	{CALL(getxattr), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(lgetxattr), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(getxattrat), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(listxattr), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(llistxattr), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(listxattrat), SECCOMP_EOPNOTSUPP, "", "reads of files that cannot be opened"},
	{CALL(file_setattr), SECCOMP_EPERM, "", "changes files that cannot be opened"},
	{CALL(truncate), SECCOMP_EPERM, "", "changes files that cannot be opened, before Landlock ABI 3"},
	{CALL(ioctl), SECCOMP_EPERM, "TIOCSTI, TIOCLINUX, TIOCSETD",
	 "types into a terminal as if a person did; loads line disciplines",
	 {IS(1, TIOCSTI, TIOCLINUX, TIOCSETD)}},
	{CALL(ioctl), SECCOMP_EPERM, "FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FAT_IOCTL_SET_ATTRIBUTES",
	 "changes files that may only be read", {IS(1, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, FAT_IOCTL_SET_ATTRIBUTES)}},
	{CALL(ioctl), SECCOMP_EPERM, "type 'f' but FS_IOC_GETFLAGS and FS_IOC_FIEMAP",
	 "changes files that may only be read: flags, encryption, verity",
	 {FIELD_IS(1, IOCTL_TYPE, 'f' << _IOC_TYPESHIFT), IS_NOT(1, FS_IOC_GETFLAGS, FS_IOC_FIEMAP)}},
	{CALL(ioctl), SECCOMP_EPERM, "type 0x94 (btrfs) but FICLONE, FICLONERANGE and FIDEDUPERANGE",
	 "makes and removes subvolumes in directories that may only be read",
	 {FIELD_IS(1, IOCTL_TYPE, 0x94 << _IOC_TYPESHIFT), IS_NOT(1, FICLONE, FICLONERANGE, FIDEDUPERANGE)}},

	/* watches */
	{CALL(inotify_add_watch), SECCOMP_EPERM, "", "shows what happens in directories that cannot be opened"},
	{CALL(fanotify_init), SECCOMP_EPERM, "", "shows what happens in directories that cannot be opened"},

	/* System V IPC and queues are the user's own without a namespace */
	{CALL(shmget), SECCOMP_EPERM, "", "finds memory of the user's other programs"},
	{CALL(shmat), SECCOMP_EPERM, "", "maps memory of the user's other programs"},
	{CALL(shmctl), SECCOMP_EPERM, "", "changes memory of the user's other programs"},
	{CALL(semget), SECCOMP_EPERM, "", "finds semaphores of the user's other programs"},
	{CALL(semop), SECCOMP_EPERM, "", "changes semaphores of the user's other programs"},
	{CALL(semtimedop), SECCOMP_EPERM, "", "changes semaphores of the user's other programs"},
	{CALL(semctl), SECCOMP_EPERM, "", "changes semaphores of the user's other programs"},
	{CALL(msgget), SECCOMP_EPERM, "", "finds queues of the user's other programs"},
	{CALL(msgsnd), SECCOMP_EPERM, "", "writes to queues of the user's other programs"},
	{CALL(msgrcv), SECCOMP_EPERM, "", "reads from queues of the user's other programs"},
	{CALL(msgctl), SECCOMP_EPERM, "", "changes queues of the user's other programs"},
	{CALL(mq_open), SECCOMP_EPERM, "", "opens queues of the user's other programs"},
	{CALL(mq_unlink), SECCOMP_EPERM, "", "removes queues of the user's other programs"},

	/* other processes by number */
	{CALL(prlimit64), SECCOMP_EPERM, "pid is not 0", "a limit of CPU time ends any process of the user's", {IS_NOT(0, 0)}},
	{CALL(setpriority), SECCOMP_EPERM, "which is PRIO_USER", "slows down the user's other processes", {IS(0, PRIO_USER)}},
	{CALL(setpriority), SECCOMP_EPERM, "who is not 0", "slows down the user's other processes", {IS_NOT(1, 0)}},
	{CALL(ioprio_set), SECCOMP_EPERM, "which is IOPRIO_WHO_USER", "slows down the user's other processes", {IS(0, IOPRIO_WHO_USER)}},
	{CALL(ioprio_set), SECCOMP_EPERM, "who is not 0", "slows down the user's other processes", {IS_NOT(1, 0)}},
	{CALL(sched_setaffinity), SECCOMP_EPERM, "pid is not 0", "slows down the user's other processes", {IS_NOT(0, 0)}},
	{CALL(sched_setscheduler), SECCOMP_EPERM, "pid is not 0", "slows down the user's other processes", {IS_NOT(0, 0)}},
	{CALL(sched_setparam), SECCOMP_EPERM, "pid is not 0", "slows down the user's other processes", {IS_NOT(0, 0)}},
	{CALL(sched_setattr), SECCOMP_EPERM, "pid is not 0", "slows down the user's other processes", {IS_NOT(0, 0)}},
};
/* clang-format on */
const size_t seccomp_nrows = ARRAY_LEN(seccomp_rows);
const size_t seccomp_shared_nrows = ARRAY_LEN(seccomp_shared_rows);
