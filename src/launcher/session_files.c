// SPDX-License-Identifier: Apache-2.0
/* What a session has below RUNTIME/sessions (root-owned, 0700). Names are ID.kind, and ID.ring-NAME
 * of the ring of another process than the main one. The last dot decides, so that an id with dots
 * is not taken for another session's file. Sockets are reached through the
 * directory's descriptor: sun_path is short.
 *
 * ID.meta has the processes of a session, for the next launcher. Each line is "key=number", in the
 * order of format(). A process has two lines: NAME_pid and NAME_start. An earlier version may have
 * written "late" at the end: 1 while it moved the session into a group, which may therefore not
 * hold all processes of the session. */
#include "launcher/session_files.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define META_MAX 2048

void session_files_name(char out[SESSION_FILE_NAME_MAX], const char *id, enum session_file kind)
{
	static const char *const kinds[] = {"sock", "meta", "new", "ring", "ack"};

	if (kind <= FILE_ACK)
		snprintf(out, SESSION_FILE_NAME_MAX, "%s.%s", id, kinds[kind]);
	else
		snprintf(out, SESSION_FILE_NAME_MAX, "%s.%s-%s", id,
			 kinds[FILE_RING + (kind - FILE_RING) % 2],
			 process_table[process_with_ring((kind - FILE_RING) / 2)].name);
}

bool session_files_parse(const char *name, char id[ID_MAX + 1])
{
	const char *dot = strrchr(name, '.');
	char known[SESSION_FILE_NAME_MAX] = "";

	if (dot == NULL || dot - name > ID_MAX)
		return false;
	snprintf(id, ID_MAX + 1, "%.*s", (int)(dot - name), name);
	if (!id_valid(id))
		return false;
	for (size_t i = 0; i < SESSION_FILES && strcmp(name, known) != 0; i++)
		session_files_name(known, id, (enum session_file)i);
	return strcmp(name, known) == 0;
}

bool session_files_any(int dir, const char *id)
{
	char name[SESSION_FILE_NAME_MAX];
	struct stat st;

	for (size_t i = 0; i < SESSION_FILES; i++) {
		session_files_name(name, id, (enum session_file)i);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

void session_files_remove(int dir, const char *id, bool all)
{
	char name[SESSION_FILE_NAME_MAX];

	for (size_t i = 0; i < SESSION_FILES; i++) {
		if (!all && i != FILE_SOCK && i != FILE_NEW)
			continue;
		session_files_name(name, id, (enum session_file)i);
		unlinkat(dir, name, 0);
	}
}

int session_files_open(int dir, const char *id, enum session_file kind, int flags)
{
	char name[SESSION_FILE_NAME_MAX];

	session_files_name(name, id, kind);
	return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
}

size_t session_files_rings(int dir, const char *id, struct strv *names, int fd[RINGS_FDS])
{
	size_t n = 0;

	for (unsigned i = 0; i < PROCESS_RINGS; i++) {
		fd[n] = session_files_open(dir, id, FILE_RING + 2 * i, O_RDONLY);
		fd[n + 1] = session_files_open(dir, id, FILE_ACK + 2 * i, O_RDWR);
		if (fd[n] != -1 && fd[n + 1] != -1) {
			strv_add(names, process_table[process_with_ring(i)].name);
			n += 2;
			continue;
		}
		mem_cleanup_fd(&fd[n]);
		mem_cleanup_fd(&fd[n + 1]);
		if (n == 0)
			break;
	}
	return n;
}

static struct sockaddr_un address(int dir, const char *id)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s.sock", dir, id);
	return a;
}

int session_files_bind(int dir, const char *id)
{
	const struct sockaddr_un a = address(dir, id);
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd == -1 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return -1;
	return take_fd(fd);
}

int session_files_connect(int dir, const char *id)
{
	const struct sockaddr_un a = address(dir, id);
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* Non-blocking only here: a warden that does not accept must not stop us. */
	if (fd == -1 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fcntl(fd, F_SETFL, 0) < 0)
		return -1;
	return take_fd(fd);
}

/* ---- the record ---- */

void meta_add(struct meta *m, enum process process, pid_t pid, uint64_t start)
{
	struct meta_process *p = &m->process[m->n];

	ensure(m->n++ < META_PROCESSES);
	*p = (struct meta_process){.pid = (uint64_t)pid, .start = start};
	snprintf(p->name, sizeof(p->name), "%s", process_table[process].name);
}

static const struct meta_process *find(const struct meta *m, enum process_start start)
{
	static const struct meta_process none = {0};

	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->process[i].name, process_table[process_of(start)].name) == 0)
			return &m->process[i];
	return &none;
}

const struct meta_process *meta_inside(const struct meta *m)
{
	return find(m, PROCESS_INSIDE);
}

static void format(const struct meta *m, struct buf *out)
{
	for (size_t i = 0; i < m->n; i++)
		buf_addf(out, "%s_pid=%" PRIu64 "\n%s_start=%" PRIu64 "\n", m->process[i].name,
			 m->process[i].pid, m->process[i].name, m->process[i].start);
	buf_addf(out,
		 "uid=%" PRIu64 "\ngid=%" PRIu64 "\nowner_uid=%" PRIu64 "\ngroup=%" PRIu64 "\n",
		 m->uid, m->gid, m->owner_uid, m->group);
	if (m->device != 0)
		buf_addf(out, "device=%" PRIu64 "\n", m->device);
}

/* Reads what format writes. A text is a record only if its meaning, formatted again, gives the same
 * text. */
static int parse(const char *text, struct meta *out, struct err *err)
{
	const char *at = text;
	char key[META_NAME + sizeof("_pid")], *end;
	cleanup_buf struct buf again = {0};
	struct meta m = {0};
	unsigned late = 0;
	uint64_t pid, start;
	int n = 0;

	while (m.n < META_PROCESSES &&
	       sscanf(at, "%19[^=]=%" SCNu64 " %*[^=]=%" SCNu64 " %n", key, &pid, &start, &n) ==
		       3 &&
	       (end = strstr(key, "_pid")) != NULL && end != key) {
		m.process[m.n] = (struct meta_process){.pid = pid, .start = start};
		memcpy(m.process[m.n++].name, key, (size_t)(end - key));
		at += n;
	}
	n = 0;
	sscanf(at, "uid=%" SCNu64 " gid=%" SCNu64 " owner_uid=%" SCNu64 " group=%" SCNu64 " %n",
	       &m.uid, &m.gid, &m.owner_uid, &m.group, &n);
	if (sscanf(at + n, "late=%u", &late) == 0)
		sscanf(at + n, "device=%" SCNu64, &m.device);
	format(&m, &again);
	if (late != 0)
		buf_addf(&again, "late=%u\n", late);
	if (strcmp(text, again.data) != 0 || find(&m, PROCESS_MAIN) != m.process ||
	    meta_inside(&m)->name[0] == '\0')
		return err_set(err, E_BAD_REQUEST, "meta", "not a session's record");
	if (late == 1)
		m.group = 0;
	*out = m;
	return 0;
}

int meta_save(int dir, const char *id, const struct meta *m, struct err *err)
{
	char tmp[SESSION_FILE_NAME_MAX], name[SESSION_FILE_NAME_MAX];
	cleanup_buf struct buf text = {0};
	cleanup_fd int fd = -1;

	session_files_name(tmp, id, FILE_NEW);
	session_files_name(name, id, FILE_META);
	format(m, &text);
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1 || fdio_write_all(fd, text.data, text.len) < 0 ||
	    renameat(dir, tmp, dir, name) < 0)
		return err_errno(err, E_UNAVAILABLE, id, "cannot write the record of session %s",
				 id);
	return 0;
}

int meta_load(int dir, const char *id, struct meta *out, struct err *err)
{
	cleanup_fd int fd = session_files_open(dir, id, FILE_META, O_RDONLY);
	cleanup_buf struct buf text = {0};
	int r;

	if (fd == -1)
		return err_errno(err, E_NOT_FOUND, id, "cannot open the record of session %s", id);
	r = fdio_load(fd, META_MAX, &text, err);
	return r < 0 ? r : parse(text.data, out, err);
}

uint64_t meta_start_time(pid_t pid)
{
	struct proc_origin origin;

	return proc_origin(pid, &origin) < 0 ? 0 : origin.start;
}

int meta_pidfd(const struct meta_process *p)
{
	cleanup_fd int pidfd = p->pid > 0 && p->start > 0 ? proc_pidfd((pid_t)p->pid) : -1;

	/* While the descriptor is open, no other process can get the pid. */
	return pidfd != -1 && meta_start_time((pid_t)p->pid) == p->start ? take_fd(pidfd) : -1;
}

void meta_kill(const struct meta_process *p)
{
	cleanup_fd int pidfd = meta_pidfd(p);

	if (pidfd != -1)
		proc_pidfd_signal(pidfd, SIGKILL);
}

void meta_kill_others(const struct meta *m)
{
	for (size_t i = 1; i < m->n; i++)
		meta_kill(&m->process[i]);
}
