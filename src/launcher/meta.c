// SPDX-License-Identifier: Apache-2.0
/* ID.meta: who belongs to a session, for the next launcher. One "key=number" a line, each key
 * exactly once. The version before may have written "late": 1 if it was about to move the session
 * into a group, of which nobody knows whether it holds all of the session. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#define META_MAX 1024

static const struct {
	const char *name;
	size_t offset;
} keys[] = {
	{"warden_pid", offsetof(struct meta, warden_pid)},
	{"warden_start", offsetof(struct meta, warden_start)},
	{"init_pid", offsetof(struct meta, init_pid)},
	{"init_start", offsetof(struct meta, init_start)},
	{"uid", offsetof(struct meta, uid)},
	{"gid", offsetof(struct meta, gid)},
	{"owner_uid", offsetof(struct meta, owner_uid)},
	{"group", offsetof(struct meta, group)},
};

void meta_format(const struct meta *m, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const uint64_t v = *(const uint64_t *)((const char *)m + keys[i].offset);

		buf_addf(out, "%s=%llu\n", keys[i].name, (unsigned long long)v);
	}
}

/* Reads "name=digits"; the key's index, or -1. */
static int parse_line(const char *line, size_t len, uint64_t *value)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const size_t n = strlen(keys[i].name);
		uint64_t v = 0;
		size_t at = n + 1;

		if (len <= at || memcmp(line, keys[i].name, n) != 0 || line[n] != '=')
			continue;
		for (; at < len && line[at] >= '0' && line[at] <= '9'; at++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, line[at] - '0', &v))
				return -1;
		*value = v;
		return at == len ? (int)i : -1;
	}
	return -1;
}

int meta_parse(const char *text, size_t len, struct meta *out, struct err *err)
{
	const char *end = text + len;
	struct meta m = {0};
	unsigned seen = 0;
	bool moving = false;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		uint64_t v;
		int i;

		if (nl == text + 6 && memcmp(text, "late=", 5) == 0) {
			moving = text[5] == '1';
			text = nl + 1;
			continue;
		}
		i = nl == NULL ? -1 : parse_line(text, (size_t)(nl - text), &v);

		if (i < 0 || (seen & 1U << i) != 0)
			return err_set(err, E_BAD_REQUEST, "meta", "not a session's record");
		*(uint64_t *)((char *)&m + keys[i].offset) = v;
		seen |= 1U << i;
		text = nl + 1;
	}
	if (seen != (1U << ARRAY_LEN(keys)) - 1)
		return err_set(err, E_BAD_REQUEST, "meta", "a session's record lacks a key");
	if (moving)
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
	meta_format(m, &text);
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
	return r < 0 ? r : meta_parse(text.data, text.len, out, err);
}

/* Field 22; the name in the second field may hold anything, so that fields are counted from its
 * last ')'. */
uint64_t meta_start_time(pid_t pid)
{
	cleanup_buf struct buf text = {0};
	char path[64];
	unsigned long long start;
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fdio_load_path(path, 4096, &text, NULL) < 0 || (p = strrchr(text.data, ')')) == NULL)
		return 0;
	if (sscanf(p + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &start) != 1)
		return 0;
	return start;
}

void meta_kill(uint64_t pid, uint64_t start)
{
	cleanup_fd int pidfd = pid > 0 && start > 0 ? proc_pidfd((pid_t)pid) : -1;

	/* The descriptor is held while the start time is read: the pid cannot be another's by then.
	 */
	if (pidfd != -1 && meta_start_time((pid_t)pid) == start)
		proc_pidfd_signal(pidfd, SIGKILL);
}
