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

struct wal_file {
	sqlite3_file base;
	struct buf kept;
	sqlite3_int64 at;  /* of the first kept byte */
	bool commits;	   /* the frame whose page comes next ends a transaction */
	sqlite3_file real; /* as long as the system's VFS wants; the last */
};

static sqlite3_vfs *below;
static sqlite3_vfs ours;

static struct wal_file *file_of(sqlite3_file *f)
{
	return (struct wal_file *)f;
}

static int pass_on(struct wal_file *w)
{
	int rc;

	if (w->kept.len == 0)
		return SQLITE_OK;
	rc = w->real.pMethods->xWrite(&w->real, w->kept.data, (int)w->kept.len, w->at);
	buf_clear(&w->kept);
	return rc;
}

static int wal_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
	struct wal_file *w = file_of(f);
	const bool head = n == FRAME_HEAD;
	static const uint8_t none[4];
	bool complete;

	if (w->kept.len > 0 &&
	    (at != w->at + (sqlite3_int64)w->kept.len || w->kept.len + (size_t)n > KEPT_MAX)) {
		const int rc = pass_on(w);

		if (rc != SQLITE_OK)
			return rc;
	}
	if (w->kept.len == 0)
		w->at = at;
	buf_add(&w->kept, data, (size_t)n);
	complete = !head && w->commits;
	w->commits = head && memcmp((const uint8_t *)data + AT_COMMIT, none, sizeof(none)) != 0;
	return complete ? pass_on(w) : SQLITE_OK;
}

static int wal_read(sqlite3_file *f, void *out, int n, sqlite3_int64 at)
{
	struct wal_file *w = file_of(f);
	const int rc = pass_on(w);

	return rc != SQLITE_OK ? rc : w->real.pMethods->xRead(&w->real, out, n, at);
}

static int wal_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	struct wal_file *w = file_of(f);
	const int rc = pass_on(w);

	return rc != SQLITE_OK ? rc : w->real.pMethods->xTruncate(&w->real, size);
}

static int wal_sync(sqlite3_file *f, int flags)
{
	struct wal_file *w = file_of(f);
	const int rc = pass_on(w);

	return rc != SQLITE_OK ? rc : w->real.pMethods->xSync(&w->real, flags);
}

static int wal_size(sqlite3_file *f, sqlite3_int64 *size)
{
	struct wal_file *w = file_of(f);
	const int rc = pass_on(w);

	return rc != SQLITE_OK ? rc : w->real.pMethods->xFileSize(&w->real, size);
}

static int wal_close(sqlite3_file *f)
{
	struct wal_file *w = file_of(f);
	const int rc = pass_on(w), closed = w->real.pMethods->xClose(&w->real);

	buf_done(&w->kept);
	return rc != SQLITE_OK ? rc : closed;
}

static int wal_lock(sqlite3_file *f, int level)
{
	return file_of(f)->real.pMethods->xLock(&file_of(f)->real, level);
}

static int wal_unlock(sqlite3_file *f, int level)
{
	return file_of(f)->real.pMethods->xUnlock(&file_of(f)->real, level);
}

static int wal_check_lock(sqlite3_file *f, int *held)
{
	return file_of(f)->real.pMethods->xCheckReservedLock(&file_of(f)->real, held);
}

static int wal_control(sqlite3_file *f, int op, void *arg)
{
	return file_of(f)->real.pMethods->xFileControl(&file_of(f)->real, op, arg);
}

static int wal_sector(sqlite3_file *f)
{
	return file_of(f)->real.pMethods->xSectorSize(&file_of(f)->real);
}

static int wal_traits(sqlite3_file *f)
{
	return file_of(f)->real.pMethods->xDeviceCharacteristics(&file_of(f)->real);
}

/* Version 1: a log has no shared memory and is not mapped. */
static const sqlite3_io_methods methods = {.iVersion = 1,
					   .xClose = wal_close,
					   .xRead = wal_read,
					   .xWrite = wal_write,
					   .xTruncate = wal_truncate,
					   .xSync = wal_sync,
					   .xFileSize = wal_size,
					   .xLock = wal_lock,
					   .xUnlock = wal_unlock,
					   .xCheckReservedLock = wal_check_lock,
					   .xFileControl = wal_control,
					   .xSectorSize = wal_sector,
					   .xDeviceCharacteristics = wal_traits};

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

/* Opens files that are neither log nor database as the VFS below does. */
static int vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *f, int flags, int *out)
{
	struct wal_file *w = file_of(f);
	int rc;

	if ((flags & SQLITE_OPEN_WAL) == 0) {
		const sqlite3_io_methods *real;

		rc = below->xOpen(below, name, f, flags, out);
		real = f->pMethods;
		if (rc != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0 || real == NULL ||
		    real->iVersion < 2)
			return rc;
		if (map_below == NULL) {
			map_below = real->xShmMap;
			database_methods = *real;
			database_methods.xShmMap = map_shared;
		}
		if (real->xShmMap == map_below)
			f->pMethods = &database_methods;
		return rc;
	}
	*w = (struct wal_file){0};
	rc = below->xOpen(below, name, &w->real, flags, out);
	if (w->real.pMethods != NULL)
		w->base.pMethods = &methods;
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
	ours.szOsFile = (int)offsetof(struct wal_file, real) + below->szOsFile;
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
