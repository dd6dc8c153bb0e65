// SPDX-License-Identifier: Apache-2.0
/* What a session has below RUNTIME/sessions (root-owned, 0700). Names are ID.kind, and ID.ring-NAME
 * of the ring of another process than the main one. The last dot decides, so that an id with dots
 * is not taken for another session's file. Sockets are reached through the
 * directory's descriptor: sun_path is short. */
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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

int session_files_parse(const char *name, char id[ID_MAX + 1], enum session_file *kind)
{
	const char *dot = strrchr(name, '.');
	char part[ID_MAX + 1];

	if (dot == NULL || dot - name > ID_MAX)
		return -1;
	memcpy(part, name, (size_t)(dot - name));
	part[dot - name] = '\0';
	if (!id_valid(part))
		return -1;
	for (size_t i = 0; i < SESSION_FILES; i++) {
		char known[SESSION_FILE_NAME_MAX];

		session_files_name(known, part, (enum session_file)i);
		if (strcmp(name, known) == 0) {
			memcpy(id, part, sizeof(part));
			*kind = (enum session_file)i;
			return 0;
		}
	}
	return -1;
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
