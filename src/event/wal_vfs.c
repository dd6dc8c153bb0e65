// SPDX-License-Identifier: Apache-2.0
#include "event/wal_vfs.h"
#include "base/buf.h"
#include "base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define NAME "agentsh-wal"
#define KEPT_MAX (64 * 1024) /* the VFS below takes less than 128 KiB at a time */
#define FRAME_HEAD 24
#define AT_COMMIT 4 /* pages of the database behind a transaction's last frame, else 0 */

/* Behind the file of the system's VFS. */
struct wal_tail {
	struct buf kept;
	sqlite3_int64 at;  /* of the first kept byte */
	sqlite3_int64 end; /* of what was written since the log began anew */
	bool commits;	   /* the frame whose page comes next ends a transaction */
};

static sqlite3_vfs *below;
static sqlite3_vfs ours;
static const sqlite3_io_methods *wal_below; /* those of the VFS below */
static sqlite3_io_methods wal_methods;	    /* the same, except for those that follow */

static struct wal_tail *tail_of(sqlite3_file *f)
{
	return (struct wal_tail *)((char *)f + below->szOsFile);
}

static int pass_on(sqlite3_file *f)
{
	struct wal_tail *w = tail_of(f);
	int rc;

	if (w->kept.len == 0)
		return SQLITE_OK;
	rc = wal_below->xWrite(f, w->kept.data, (int)w->kept.len, w->at);
	buf_clear(&w->kept);
	return rc;
}

static int wal_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
	struct wal_tail *w = tail_of(f);
	const bool head = n == FRAME_HEAD;
	static const uint8_t none[4];
	bool again, complete;

	/* A log begins with its own head. After a large transaction SQLite writes heads of frames a
	 * second time, the last one after everything else: nothing may be kept then. */
	if (at == 0)
		w->end = 0;
	again = at < w->end;
	if (at + n > w->end)
		w->end = at + n;

	if (w->kept.len > 0 &&
	    (at != w->at + (sqlite3_int64)w->kept.len || w->kept.len + (size_t)n > KEPT_MAX)) {
		const int rc = pass_on(f);

		if (rc != SQLITE_OK)
			return rc;
	}
	if (w->kept.len == 0)
		w->at = at;
	buf_add(&w->kept, data, (size_t)n);
	complete = again || (!head && w->commits);
	w->commits = head && !again &&
		     memcmp((const uint8_t *)data + AT_COMMIT, none, sizeof(none)) != 0;
	return complete ? pass_on(f) : SQLITE_OK;
}

static int wal_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
	const int rc = pass_on(f);

	return rc != SQLITE_OK ? rc : wal_below->xRead(f, out, n, at);
}

static int wal_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	const int rc = pass_on(f);

	return rc != SQLITE_OK ? rc : wal_below->xTruncate(f, size);
}

static int wal_sync(sqlite3_file *f, int flags)
{
	const int rc = pass_on(f);

	return rc != SQLITE_OK ? rc : wal_below->xSync(f, flags);
}

static int wal_size(sqlite3_file *f, sqlite3_int64 *size)
{
	const int rc = pass_on(f);

	return rc != SQLITE_OK ? rc : wal_below->xFileSize(f, size);
}

static int wal_close(sqlite3_file *f)
{
	const int rc = pass_on(f), closed = wal_below->xClose(f);

	buf_done(&tail_of(f)->kept);
	return rc != SQLITE_OK ? rc : closed;
}

/* Version 1: a log has no shared memory and is not mapped. */
static void open_wal(sqlite3_file *f)
{
	*tail_of(f) = (struct wal_tail){0};
	if (wal_below == NULL) {
		wal_below = f->pMethods;
		wal_methods = *wal_below;
		wal_methods.iVersion = 1;
		wal_methods.xClose = wal_close;
		wal_methods.xRead = wal_read;
		wal_methods.xWrite = wal_write;
		wal_methods.xTruncate = wal_truncate;
		wal_methods.xSync = wal_sync;
		wal_methods.xFileSize = wal_size;
	}
	if (f->pMethods == wal_below)
		f->pMethods = &wal_methods;
}

/* ---- the database ---- */

static sqlite3_io_methods database_methods; /* those of the VFS below, but for one */
static int (*map_below)(sqlite3_file *f, int region, int size, int extend, void volatile **out);

/* SQLite writes one byte to each 4 KiB of the file that it maps. Where blocks are smaller the rest
 * is a hole, and a write to it on a full disk is SIGBUS. Here it becomes an error (Linux 5.14). */
static int map_shared(sqlite3_file *f, int region, int size, int extend, void volatile **out)
{
	const int rc = map_below(f, region, size, extend, out);

	if (rc != SQLITE_OK || *out == NULL ||
	    madvise((void *)*out, (size_t)size, MADV_POPULATE_WRITE) == 0 || errno != EFAULT)
		return rc;
	*out = NULL;
	return SQLITE_IOERR_SHMSIZE;
}

static void open_database(sqlite3_file *f)
{
	if (f->pMethods->iVersion < 2)
		return;
	if (map_below == NULL) {
		map_below = f->pMethods->xShmMap;
		database_methods = *f->pMethods;
		database_methods.xShmMap = map_shared;
	}
	if (f->pMethods->xShmMap == map_below)
		f->pMethods = &database_methods;
}

/* Files that are neither log nor database stay as the VFS below opens them. */
static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	const int rc = below->xOpen(below, name, f, flags, out);

	if (rc == SQLITE_OK && f->pMethods != NULL && (flags & SQLITE_OPEN_WAL) != 0)
		open_wal(f);
	if (rc == SQLITE_OK && f->pMethods != NULL && (flags & SQLITE_OPEN_MAIN_DB) != 0)
		open_database(f);
	return rc;
}

static void register_it(void)
{
	below = sqlite3_vfs_find(NULL);
	if (below == NULL)
		return;
	ours = *below;
	ours.pNext = NULL;
	ours.zName = NAME;
	ours.szOsFile = below->szOsFile + (int)sizeof(struct wal_tail);
	ours.xOpen = vfs_open;
	if (sqlite3_vfs_register(&ours, 0) != SQLITE_OK)
		below = NULL;
}

const char *wal_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_it);
	return below != NULL ? NAME : NULL;
}
