// SPDX-License-Identifier: Apache-2.0
/* What a namespace would hold, refused: only for a session that has none.
 *
 * Landlock holds the opening, making, moving and removal of files, tracing, and signals. It does
 * not hold sockets with a path, attributes of files, watches, queues, and what one process may do
 * to another of its user's by number. What programs cannot do without is asked of the warden, which
 * does it for files of the session's own (exec/attributes.c). */
#include "base/mem.h"
#include "sandbox/seccomp_rows.h"
#include <asm/ioctls.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/msdos_fs.h>
#include <sys/resource.h>
#include <sys/socket.h>

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
_Static_assert(__NR_fchmodat2 == 452 && __NR_setxattrat == 463 && __NR_getxattrat == 464 &&
		       __NR_listxattrat == 465 && __NR_removexattrat == 466 &&
		       __NR_file_setattr == 469,
	       "from 424 on numbers are the same everywhere");

#define IOCTL_TYPE ((uint32_t)_IOC_TYPEMASK << _IOC_TYPESHIFT)

/* clang-format off */
const struct seccomp_row seccomp_bare_rows[] = {
	/* sockets */
	{CALL(socket), SECCOMP_NOTIFY, "family UNIX, type SEQPACKET, where programs are checked",
	 "our own program that tells of a shell's state gets one that is connected; everybody else EPERM",
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
	{CALL(inotify_add_watch), SECCOMP_EPERM, "", "tells what happens in directories that cannot be opened"},
	{CALL(fanotify_init), SECCOMP_EPERM, "", "tells what happens in directories that cannot be opened"},

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
const size_t seccomp_bare_nrows = ARRAY_LEN(seccomp_bare_rows);
