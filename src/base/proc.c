// SPDX-License-Identifier: Apache-2.0
/* Everything here races with the processes that it looks at: a file that cannot be opened or read
 * means that its process is gone. A caller that must not act on another process with the same pid
 * holds a pidfd across the call. */
#include "base/proc.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define PROC_PATH 64

int proc_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int proc_pidfd_signal(int pidfd, int sig)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

/* Reads the beginning of a /proc file as a string; -1 if it is gone. */
static ssize_t read_proc(const char *path, char *out, size_t n)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t r = fd == -1 ? -1 : fdio_read_full(fd, out, n - 1);

	if (r != -1)
		out[r] = '\0';
	return r;
}

long proc_number(const char *path, const char *key)
{
	char text[1024];
	const char *line = read_proc(path, text, sizeof(text)) == -1 ? NULL : strstr(text, key);

	return line != NULL ? strtol(line + strlen(key), NULL, 10) : -1;
}

#define FLAG_EXITING 0x4 /* PF_EXITING of the kernel */

/* Field n of stat(5), counted from 1; p is behind the second. NULL: there are fewer. */
static const char *field(const char *p, int n)
{
	for (int i = 3; p != NULL && i < n; i++)
		p = strchr(p + 1, ' ');
	return p != NULL ? p + 1 : NULL;
}

/* The name in the second field may hold anything, so that fields are counted from its last ')'. Not
 * by sscanf, which would make static programs an eighth larger. */
int proc_stat(pid_t pid, struct proc_stat *out)
{
	char path[PROC_PATH], text[1024];
	const char *p, *name, *pages, *pending;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_proc(path, text, sizeof(text)) == -1 || (p = strrchr(text, ')')) == NULL ||
	    (name = strchr(text, '(')) == NULL)
		return -1;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)(p - name - 1), name + 1);
	p = strchr(p, ' ');
	pages = field(p, 24);
	pending = field(p, 31);
	if (pending == NULL)
		return -1;
	out->state = *field(p, 3);
	out->ppid = (int)strtol(field(p, 4), NULL, 10);
	out->flags = strtoul(field(p, 9), NULL, 10);
	out->threads = (int)strtol(field(p, 20), NULL, 10);
	out->cpu = strtoull(field(p, 14), NULL, 10) + strtoull(field(p, 15), NULL, 10);
	out->start = strtoull(field(p, 22), NULL, 10);
	out->pages = strtoll(pages, NULL, 10);
	out->killed = (strtoul(pending, NULL, 10) & 1UL << (SIGKILL - 1)) != 0;
	return 0;
}

pid_t proc_ppid(pid_t pid)
{
	struct proc_stat st;

	return proc_stat(pid, &st) == -1 ? -1 : st.ppid;
}

int proc_origin(pid_t pid, struct proc_origin *out)
{
	struct proc_stat st;

	if (proc_stat(pid, &st) == -1)
		return -1;
	*out = (struct proc_origin){st.ppid, st.start};
	return 0;
}

bool proc_chrooted(void)
{
	struct statx root, first;

	if (statx(AT_FDCWD, "/", 0, STATX_INO, &root) == -1)
		return false;
	if ((root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
	    (root.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0)
		return true;
	/* A chroot to a mount's root; the first process is most often not in it. */
	return statx(AT_FDCWD, "/proc/1/root/", 0, STATX_INO, &first) == 0 &&
	       (root.stx_ino != first.stx_ino || root.stx_dev_major != first.stx_dev_major ||
		root.stx_dev_minor != first.stx_dev_minor);
}

bool proc_ending(pid_t pid)
{
	struct proc_stat st;

	return proc_stat(pid, &st) == -1 || st.killed || (st.flags & FLAG_EXITING) != 0;
}

int proc_exe_is(pid_t pid, dev_t dev, ino_t ino)
{
	char path[PROC_PATH];
	struct statx st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	/* A file system's server that does not answer is not asked. */
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &st) == -1)
		return -1;
	return makedev(st.stx_dev_major, st.stx_dev_minor) == dev && st.stx_ino == ino;
}

bool proc_alive(pid_t pid)
{
	struct proc_stat st;

	if (proc_stat(pid, &st) == -1)
		return false;
	return (st.state != 'Z' && st.state != 'X') || st.threads > 1;
}

bool proc_uid_lives(uint32_t uid)
{
	char path[PROC_PATH];
	bool found = false;
	struct dirent *e;
	DIR *dir;

	/* The kernel counts zombies, which a container's first process may never reap, so each
	 * process is looked at. Mostly it has no entry for the uid, and this is the end. */
	errno = 0;
	if (getpriority(PRIO_USER, uid) == -1 && errno == ESRCH)
		return false;
	dir = opendir("/proc");
	while (dir != NULL && !found && (e = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%.20s/status", e->d_name);
		found = isdigit((unsigned char)e->d_name[0]) &&
			proc_number(path, "\nUid:\t") == (long)uid &&
			proc_alive((pid_t)strtol(e->d_name, NULL, 10));
	}
	if (dir != NULL)
		closedir(dir);
	return found || dir == NULL;
}

void proc_cmdline(pid_t pid, char *out, size_t n)
{
	char path[PROC_PATH], name[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	len = read_proc(path, out, n);
	if (len == -1) {
		out[0] = '\0';
		return;
	}
	while (len > 0 && out[len - 1] == '\0')
		len--;
	for (ssize_t i = 0; i < len; i++)
		if (out[i] == '\0')
			out[i] = ' ';
		else if ((unsigned char)out[i] < ' ' || out[i] == 0x7f)
			out[i] = '?';
	if (len > 0)
		return;
	/* A zombie or a thread of the kernel has a name only. */
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (read_proc(path, name, sizeof(name)) != -1)
		snprintf(out, n, "[%.*s]", (int)strcspn(name, "\n"), name);
}

static char self_dir[PATH_MAX];

static void find_self_dir(void)
{
	const ssize_t n = readlink("/proc/self/exe", self_dir, sizeof(self_dir) - 1);
	char *slash;

	ensure(n > 0);
	self_dir[n] = '\0';
	slash = strrchr(self_dir, '/');
	ensure(slash != NULL);
	*slash = '\0';
}

const char *proc_self_dir(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_self_dir);
	return self_dir;
}

int proc_sibling(const char *name, char **path, struct err *err)
{
	const char *const places[] = {proc_self_dir(), AGENTSH_LIBEXECDIR};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		cleanup_free char *p = mem_printf("%s/%s", places[i], name);

		if (access(p, X_OK) == 0) {
			*path = take(p);
			return 0;
		}
	}
	return err_set(err, E_UNAVAILABLE, name, "program %s is neither in %s nor in %s", name,
		       places[0], places[1]);
}

/* The real-time signals of libc; 32 and 33 belong to its threads. */
static const char *const realtime[] = {
	"RTMIN",    "RTMIN+1",	"RTMIN+2",  "RTMIN+3",	"RTMIN+4",  "RTMIN+5",	"RTMIN+6",
	"RTMIN+7",  "RTMIN+8",	"RTMIN+9",  "RTMIN+10", "RTMIN+11", "RTMIN+12", "RTMIN+13",
	"RTMIN+14", "RTMIN+15", "RTMAX-14", "RTMAX-13", "RTMAX-12", "RTMAX-11", "RTMAX-10",
	"RTMAX-9",  "RTMAX-8",	"RTMAX-7",  "RTMAX-6",	"RTMAX-5",  "RTMAX-4",	"RTMAX-3",
	"RTMAX-2",  "RTMAX-1",	"RTMAX",
};
#define FIRST_REALTIME (_NSIG - (int)ARRAY_LEN(realtime))

const char *proc_signal_name(int sig)
{
	if (sig >= FIRST_REALTIME && sig < _NSIG)
		return realtime[sig - FIRST_REALTIME];
	return sigabbrev_np(sig);
}

int proc_signal_by_name(const char *s)
{
	char *end;

	if (isdigit((unsigned char)s[0])) {
		const unsigned long v = strtoul(s, &end, 10);

		return *end == '\0' && v > 0 && v < _NSIG ? (int)v : -1;
	}
	if (strncasecmp(s, "SIG", 3) == 0)
		s += 3;
	for (int sig = 1; sig < _NSIG; sig++) {
		const char *name = proc_signal_name(sig);

		if (name != NULL && strcasecmp(s, name) == 0)
			return sig;
	}
	return -1;
}
