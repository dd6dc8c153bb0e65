// SPDX-License-Identifier: Apache-2.0
/* What the answers have in common: pages, errors, names, times, owners, attributes. */
#include "acmd/acmd.h"
#include "acmd/walk.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#define PIECE 65536
#define NAMES_MAX (1 << 20) /* bytes of /etc/passwd and /etc/group */

/* Another process may have made the pipe non-blocking. */
static bool write_text(const struct acmd *a)
{
	struct pollfd out = {a->out_fd, POLLOUT, 0};

	for (size_t at = 0; at < a->text.len;) {
		const ssize_t n = write(a->out_fd, a->text.data + at, a->text.len - at);

		if (n >= 0)
			at += (size_t)n;
		else if (errno == EAGAIN)
			poll(&out, 1, -1);
		else if (errno != EINTR)
			return false;
	}
	return true;
}

void acmd_flush(struct acmd *a, bool all)
{
	if (a->text.len == 0 || (!all && a->text.len < PIECE))
		return;
	if (!a->broken && !write_text(a)) {
		a->broken = true;
		if (errno != EPIPE)
			perror("agentsh: cannot write the answer");
	}
	a->written += a->text.len;
	buf_clear(&a->text);
}

enum acmd_turn acmd_turn(struct acmd *a)
{
	const uint64_t i = a->seen++;

	acmd_flush(a, false);
	if (a->next != 0)
		return ACMD_STOP;
	if (i < a->o.offset)
		return ACMD_SKIP;
	if (!a->broken &&
	    (a->o.limited ? i - a->o.offset < a->o.limit
			  : i == a->o.offset || a->written + a->text.len < ACMD_ANSWER))
		return ACMD_TAKE;
	a->next = i;
	return ACMD_STOP;
}

/* ---- errors ---- */

void acmd_failed(struct acmd *a, const char *path, int errnum)
{
	const uint64_t i = a->failures++;

	if (i >= ACMD_ERRORS)
		return;
	a->failed[i].path = mem_strdup(path);
	a->failed[i].errnum = errnum;
}

static void write_error(struct acmd *a, const char *path, int errnum)
{
	const char *code = strerrorname_np(errnum);

	jw_kstr(&a->w, "code", code != NULL ? code : "EIO");
	jw_key(&a->w, "message");
	jw_str(&a->w, strerror(errnum));
	acmd_path(a, path);
}

int acmd_finish(struct acmd *a)
{
	const uint64_t kept = a->failures < ACMD_ERRORS ? a->failures : ACMD_ERRORS;
	uint64_t shown = 0;

	jw_key(&a->w, "next");
	if (a->next > 0)
		jw_uint(&a->w, a->next);
	else
		jw_null(&a->w);
	jw_karr(&a->w, "errors");
	for (; shown < kept &&
	       (shown == 0 || a->o.limited || a->written + a->text.len < ACMD_ERRORS_AT);
	     shown++) {
		jw_obj(&a->w);
		write_error(a, a->failed[shown].path, a->failed[shown].errnum);
		jw_obj_end(&a->w);
	}
	for (uint64_t i = 0; i < kept; i++)
		free(a->failed[i].path);
	jw_arr_end(&a->w);
	if (a->failures > shown)
		jw_kuint(&a->w, "errors_total", a->failures);
	jw_obj_end(&a->w);
	buf_addc(&a->text, '\n');
	acmd_flush(a, true);
	return a->failures > 0 || a->broken;
}

int acmd_refuse(struct acmd *a, const char *path, int errnum)
{
	jw_obj(&a->w);
	jw_kobj(&a->w, "error");
	write_error(a, path, errnum);
	jw_obj_end(&a->w);
	jw_obj_end(&a->w);
	buf_addc(&a->text, '\n');
	acmd_flush(a, true);
	return 1;
}

/* ---- values ---- */

void acmd_name(struct acmd *a, const char *key, const char *name, size_t n)
{
	jw_key(&a->w, key);
	if (strcmp(jw_data(&a->w, name, n), "text") != 0) {
		cleanup_free char *second = mem_printf("%s_encoding", key);

		jw_kstr(&a->w, second, "base64");
	}
}

void acmd_path(struct acmd *a, const char *path)
{
	cleanup_free char *whole = mem_printf("%s%s", a->start != NULL ? a->start : "", path);

	acmd_name(a, "path", whole, strlen(whole));
}

int acmd_start(struct acmd *a, struct tree_walk *w, const char **path)
{
	const char *name = a->n > 0 ? a->operand[0] : ".";
	struct rlimit files;
	const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int r = fd == -1 ? errno : walk_open(w, fd);

	*path = name;
	/* Each level of a walk has one open. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (r == 0 && strcmp(name, ".") != 0)
		a->start = mem_printf("%s%s", name, name[strlen(name) - 1] == '/' ? "" : "/");
	return r;
}

/* Some readers of JSON take no larger number. */
static uint64_t bounded(bool overflow, uint64_t v)
{
	return overflow || v > INT64_MAX ? INT64_MAX : v;
}

void acmd_sum(uint64_t *sum, uint64_t add)
{
	uint64_t v;
	const bool overflow = __builtin_add_overflow(*sum, add, &v);

	*sum = bounded(overflow, v);
}

uint64_t acmd_bytes(uint64_t blocks, uint64_t size)
{
	uint64_t v;
	const bool overflow = __builtin_mul_overflow(blocks, size, &v);

	return bounded(overflow, v);
}

void acmd_time(struct acmd *a, const char *key, const struct timespec *t)
{
	int64_t us;

	if (__builtin_mul_overflow((int64_t)t->tv_sec, 1000000, &us))
		us = t->tv_sec < 0 ? INT64_MIN + 1000000 : INT64_MAX - 1000000;
	jw_key(&a->w, key);
	jw_raw(&a->w, "\"", 1);
	clock_format(&a->text, us + t->tv_nsec / 1000, true);
	buf_addc(&a->text, '"');
}

/* libc's getpwuid would load libraries, which a static program cannot. */
struct accounts {
	const char *path;
	bool loaded;
	struct buf text;
	uint32_t last; /* the id of name */
	char name[64]; /* "": none was looked up */
};
static struct accounts users = {.path = "/etc/passwd"}, groups = {.path = "/etc/group"};

/* Lines are name:password:id:… */
static void find_account(struct accounts *from, uint32_t id)
{
	const char *line = from->text.len > 0 ? from->text.data : NULL;

	from->last = id;
	snprintf(from->name, sizeof(from->name), "%u", id);
	for (; line != NULL; line = strchr(line, '\n'), line += line != NULL) {
		const size_t len = strcspn(line, ":\n"), skip = strcspn(line + len, "\n");
		const char *second = skip > 0 ? memchr(line + len + 1, ':', skip - 1) : NULL;

		if (second != NULL && strtoul(second + 1, NULL, 10) == id && second[1] != ':') {
			snprintf(from->name, sizeof(from->name), "%.*s", (int)len, line);
			return;
		}
	}
}

static void write_account(struct acmd *a, const char *key, uint32_t id, struct accounts *from)
{
	if (!from->loaded) {
		from->loaded = true;
		fdio_load_path(from->path, NAMES_MAX, &from->text, NULL);
	}
	if (from->name[0] == '\0' || from->last != id)
		find_account(from, id);
	jw_kstr(&a->w, key, from->name);
}

void acmd_user(struct acmd *a, const char *key, uint32_t uid)
{
	write_account(a, key, uid, &users);
}

void acmd_group(struct acmd *a, const char *key, uint32_t gid)
{
	write_account(a, key, gid, &groups);
}

uint64_t acmd_disk(const struct stat *st)
{
	return st->st_blocks < 0 ? 0 : acmd_bytes((uint64_t)st->st_blocks, 512);
}

const char *acmd_type(mode_t mode)
{
	static const char *const names[16] = {
		[S_IFREG >> 12] = "file",	 [S_IFDIR >> 12] = "directory",
		[S_IFLNK >> 12] = "symlink",	 [S_IFIFO >> 12] = "fifo",
		[S_IFSOCK >> 12] = "socket",	 [S_IFCHR >> 12] = "char_device",
		[S_IFBLK >> 12] = "block_device"};
	const char *name = names[(mode & S_IFMT) >> 12];

	return name != NULL ? name : "unknown";
}

void acmd_file(struct acmd *a, int dir, const char *path, const struct stat *st,
	       enum acmd_detail detail)
{
	char text[PATH_MAX];
	ssize_t n;

	jw_kstr(&a->w, "type", acmd_type(st->st_mode));
	jw_kint(&a->w, "size", st->st_size);
	if (detail >= ACMD_USUAL) {
		snprintf(text, sizeof(text), "%03o", st->st_mode & 07777);
		jw_kstr(&a->w, "mode", text);
		acmd_user(a, "owner", st->st_uid);
		acmd_group(a, "group", st->st_gid);
	}
	acmd_time(a, "mtime", &st->st_mtim);
	n = detail >= ACMD_USUAL && S_ISLNK(st->st_mode) ? readlinkat(dir, path, text, sizeof(text))
							 : -1;
	if (n >= 0)
		acmd_name(a, "target", text, (size_t)n);
	if (detail < ACMD_WHOLE)
		return;
	acmd_time(a, "atime", &st->st_atim);
	acmd_time(a, "ctime", &st->st_ctim);
	jw_kuint(&a->w, "uid", st->st_uid);
	jw_kuint(&a->w, "gid", st->st_gid);
	jw_kuint(&a->w, "inode", st->st_ino);
	jw_kuint(&a->w, "links", st->st_nlink);
	jw_kuint(&a->w, "disk", acmd_disk(st));
	snprintf(text, sizeof(text), "%u:%u", major(st->st_dev), minor(st->st_dev));
	jw_kstr(&a->w, "device", text);
}
