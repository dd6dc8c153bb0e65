// SPDX-License-Identifier: Apache-2.0
/* event/wal_vfs.h - a commit's frames in one write, and no signal for a full disk.
 *
 * SQLite writes each frame of its log by two calls, a head and a page; a command's two commits were
 * some sixty. This VFS collects the frames and writes them at once when a frame that ends a
 * transaction is complete, when a frame is written a second time, or when anything else is done
 * with the file. No reader looks for frames earlier: SQLite changes the log's index after it has
 * written that frame. All other calls go to the system's VFS, except that the index of the log,
 * which is mapped, gets all of its blocks when it is mapped. */
#pragma once

/* Registers it (once, from any thread) and returns its name for sqlite3_open_v2; NULL: the system's
 * own is to be used. */
const char *wal_vfs(void);
