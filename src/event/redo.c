// SPDX-License-Identifier: Apache-2.0
#include "event/redo.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MAGIC 0x314f444552534741ULL /* "AGSREDO1" */
#define PAGE 4096
#define ALIGN 8
#define DYING_MS 2000 /* for the process before us, which may have been killed a moment ago */

/* The first page; the records follow it. */
struct redo_head {
	uint64_t magic;
	_Atomic uint64_t generation;
	_Atomic uint64_t end; /* of the published records */
};

struct redo_record {
	uint32_t len;
	uint32_t crc; /* of len, generation, bytes */
};

struct redo {
	int fd; /* claimed */
	char *path;
	struct redo_head *head;
	uint64_t end; /* of the added records */
};

static uint8_t *bytes_of(const struct redo *r)
{
	return (uint8_t *)r->head + PAGE;
}

static uint32_t crc_of(const struct redo *r, uint32_t len, const void *p)
{
	const uint64_t generation = redo_generation(r);
	const uint32_t crc = crc32c(crc32c(0, &len, sizeof(len)), &generation, sizeof(generation));

	return crc32c(crc, p, len);
}

static uint64_t size_of(uint64_t len)
{
	return (sizeof(struct redo_record) + len + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

static int refuse(const char *path, const char *why, struct err *err)
{
	return err_set(err, E_CONFLICT, path,
		       "'%s' %s: to go on without its records, start the server once with "
		       "--accept-loss",
		       path, why);
}

/* Preallocated: a write to the mapping must never meet a full disk, which would be a signal. */
static int open_file(const char *path, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	pid_t holder = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, err_disk(E_UNAVAILABLE), path, "cannot open '%s'", path);
	if (st.st_size != 0 && st.st_size != PAGE + REDO_SIZE)
		return refuse(path, "has another size than a redo file", err);
	/* Two servers that write one database would break its order. */
	if (file_lock_take(fd, DYING_MS, &holder) < 0)
		return errno != EAGAIN
			       ? err_errno(err, E_UNAVAILABLE, path, "cannot lock '%s'", path)
			       : err_set(err, E_UNAVAILABLE, path,
					 "'%s' is in use by another server (process %d): give this "
					 "one another sessions.base_dir or events.db",
					 path, (int)holder);
	errno = posix_fallocate(fd, 0, PAGE + REDO_SIZE);
	if (errno != 0) {
		const int rc =
			err_errno(err, err_disk(E_UNAVAILABLE), path, "cannot write '%s'", path);

		if (st.st_size == 0)
			unlink(path);
		return rc;
	}
	return take_fd(fd);
}

int redo_open(const char *path, struct redo **out, struct err *err)
{
	const int made = open_file(path, err);
	cleanup_fd int fd = made;
	struct redo *r;
	void *p;

	if (made < 0)
		return made;
	p = mmap(NULL, PAGE + REDO_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_errno(err, E_UNAVAILABLE, path, "cannot map '%s'", path);
	r = mem_new(struct redo);
	r->fd = take_fd(fd);
	r->path = mem_strdup(path);
	r->head = p;
	/* New, or the process that made it was killed before this line. */
	if (r->head->magic == 0 && r->head->generation == 0 && r->head->end == 0)
		r->head->magic = MAGIC;
	if (r->head->magic != MAGIC || r->head->end > REDO_SIZE) {
		redo_close(r);
		return refuse(path, "is not a redo file", err);
	}
	r->end = r->head->end;
	*out = r;
	return 0;
}

void redo_close(struct redo *r)
{
	if (r == NULL)
		return;
	munmap(r->head, PAGE + REDO_SIZE);
	close(r->fd);
	free(r->path);
	free(r);
}

const char *redo_path(const struct redo *r)
{
	return r->path;
}

uint64_t redo_generation(const struct redo *r)
{
	return atomic_load_explicit(&r->head->generation, memory_order_relaxed);
}

int redo_each(const struct redo *r, redo_fn *fn, void *arg, struct err *err)
{
	struct redo_record rec;
	int rc = 0;

	for (uint64_t at = 0; rc == 0 && at < r->head->end; at += size_of(rec.len)) {
		const uint8_t *p = bytes_of(r) + at;
		const uint64_t rest = r->head->end - at;

		memset(&rec, 0, sizeof(rec));
		if (rest >= sizeof(rec))
			memcpy(&rec, p, sizeof(rec));
		if (rest < sizeof(rec) || size_of(rec.len) > rest ||
		    rec.crc != crc_of(r, rec.len, p + sizeof(rec))) {
			return err_set(err, E_CONFLICT, NULL, "a record at %llu is damaged",
				       (unsigned long long)at);
		}
		rc = fn(p + sizeof(rec), rec.len, arg, err);
	}
	return rc;
}

void redo_begin(struct redo *r, uint64_t generation)
{
	/* In this order: killed between the two, nothing is there for the old one. */
	atomic_store_explicit(&r->head->end, 0, memory_order_release);
	atomic_store_explicit(&r->head->generation, generation, memory_order_release);
	r->end = 0;
}

bool redo_add(struct redo *r, const void *p, size_t n)
{
	struct redo_record rec;

	if (n > REDO_SIZE || size_of(n) > REDO_SIZE - r->end)
		return false;
	rec.len = (uint32_t)n;
	rec.crc = crc_of(r, rec.len, p);
	memcpy(bytes_of(r) + r->end, &rec, sizeof(rec));
	memcpy(bytes_of(r) + r->end + sizeof(rec), p, n);
	r->end += size_of(n);
	return true;
}

void redo_publish(struct redo *r)
{
	atomic_store_explicit(&r->head->end, r->end, memory_order_release);
}

void redo_trim(struct redo *r)
{
	madvise(r->head, PAGE + REDO_SIZE, MADV_DONTNEED); /* the file keeps them */
}
