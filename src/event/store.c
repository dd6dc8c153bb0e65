// SPDX-License-Identifier: Apache-2.0
/* Opening and closing, statements, and the turn: one transaction from the first store_write to the
 * end of the loop's turn. */
#include "event/store.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/schema.h"
#include "event/store_state.h"
#include "event/wal_vfs.h"
#include <event2/event.h>
#include <fcntl.h>

#define BUSY_MS 5000
/* Events of higher priority can keep the loop from ever reaching the low one; then the turn ends by
 * this. */
#define TURN_LATE_US 10000
#define WAL_KEPT "16777216" /* bytes that the WAL file keeps when it starts anew */

int store_fail(struct store *s, struct err *err)
{
	const char *why = sqlite3_errcode(s->db) != SQLITE_OK ? sqlite3_errmsg(s->db)
							      : "the transaction was rolled back";

	if (s->failed.code == E_OK)
		err_set(&s->failed, E_UNAVAILABLE, s->path, "the database cannot be written: %s",
			why);
	return err_set(err, E_UNAVAILABLE, s->path, "%s", s->failed.message);
}

/* A cached statement as its last user left it, or NULL. */
static sqlite3_stmt *get_stmt(struct store *s, const char *sql)
{
	size_t i = ((uintptr_t)sql >> 3) * 0x9e3779b97f4a7c15ULL >> 32;
	sqlite3_stmt *stmt = NULL;
	int rc;

	for (i %= STORE_STATEMENTS; s->statements[i].sql != NULL; i = (i + 1) % STORE_STATEMENTS)
		if (s->statements[i].sql == sql)
			return s->statements[i].stmt;
	rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
	ensure(rc != SQLITE_ERROR);
	if (rc != SQLITE_OK)
		return NULL;
	ensure(++s->nstatements <= STORE_STATEMENTS / 4 * 3);
	s->statements[i].sql = sql;
	s->statements[i].stmt = stmt;
	return stmt;
}

/* BEGIN and COMMIT. */
static void exec(struct store *s, const char *sql)
{
	sqlite3_stmt *stmt = get_stmt(s, sql);

	if (sqlite3_step(stmt) != SQLITE_DONE)
		store_fail(s, NULL);
	sqlite3_reset(stmt);
}

/* Some failures make SQLite roll back by itself. What follows in the turn must not be committed row
 * by row. */
static void begin_again_if_rolled_back(struct store *s)
{
	if (!s->open || !sqlite3_get_autocommit(s->db))
		return;
	store_fail(s, NULL);
	exec(s, "BEGIN");
}

sqlite3 *store_write(struct store *s)
{
	const struct timeval late = {0, TURN_LATE_US};

	ensure(s->base != NULL);
	begin_again_if_rolled_back(s);
	if (s->open)
		return s->db;
	s->open = true;
	s->failed.code = E_OK;
	exec(s, "BEGIN");
	event_active(s->turn_end, EV_TIMEOUT, 0);
	event_add(s->turn_late, &late);
	return s->db;
}

sqlite3 *store_read(struct store *s)
{
	return s->db;
}

sqlite3_stmt *store_stmt(struct store *s, const char *sql)
{
	sqlite3_stmt *stmt;

	begin_again_if_rolled_back(s);
	stmt = get_stmt(s, sql);
	if (stmt == NULL)
		store_fail(s, NULL);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return stmt;
}

int store_run(struct store *s, sqlite3_stmt *stmt, struct err *err)
{
	int rc;

	do
		rc = sqlite3_step(stmt);
	while (rc == SQLITE_ROW);
	if (rc == SQLITE_CONSTRAINT)
		rc = err_set(err, E_CONFLICT, NULL, "%s", sqlite3_errmsg(s->db));
	else if (rc != SQLITE_DONE)
		rc = store_fail(s, err);
	else
		rc = 0;
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return rc;
}

void store_after(struct store *s, store_done_fn *fn, void *arg)
{
	if (!s->open) {
		fn(NULL, arg);
		return;
	}
	if ((s->nwaiters & (s->nwaiters - 1)) == 0)
		s->waiters = mem_resize(s->waiters, s->nwaiters > 0 ? s->nwaiters * 2 : 8,
					sizeof(*s->waiters));
	s->waiters[s->nwaiters++] = (struct waiter){fn, arg};
}

/* Ends the transaction one way or the other; s->failed tells which. */
static void end_transaction(struct store *s)
{
	begin_again_if_rolled_back(s);
	if (s->failed.code == E_OK)
		exec(s, "COMMIT");
	if (s->failed.code == E_OK) {
		s->committed = s->chain;
		return;
	}
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->chain = s->committed;
}

/* Everything is taken out of the store before anyone is called: they may write and wait again. */
int store_commit(struct store *s, struct err *err)
{
	struct pending_list events = STAILQ_HEAD_INITIALIZER(events);
	struct err failed;
	struct waiter *waiters;
	size_t n;

	if (!s->open)
		return 0;
	end_transaction(s);
	event_del(s->turn_end);
	event_del(s->turn_late);
	failed = s->failed;
	waiters = take(s->waiters);
	n = s->nwaiters;
	STAILQ_CONCAT(&events, &s->pending);
	s->nwaiters = 0;
	s->open = false;

	if (failed.code == E_OK)
		store_deliver(s, &events);
	else
		store_forget(&events);
	for (size_t i = 0; i < n; i++)
		waiters[i].fn(failed.code == E_OK ? NULL : &failed, waiters[i].arg);
	free(waiters);
	if (failed.code != E_OK)
		return err_set(err, failed.code, failed.subject, "%s", failed.message);
	return 0;
}

static void on_turn_end(evutil_socket_t fd, short what, void *arg)
{
	struct store *s = arg;
	struct err err = {0};

	if (store_commit(s, &err) < 0)
		log_error("a turn was rolled back", "error", err.message, "database", s->path);
}

/* After each commit; replaces SQLite's own checkpoints on this connection. */
static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	checkpointer_note(s->checkpointer, pages);
	return SQLITE_OK;
}

static const char *remedy(int code)
{
	switch (code) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return "it is damaged or no database: move it away to start anew";
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return "another program holds it";
	default:
		return "check that its directory exists and is writable, and that the disk is not "
		       "full";
	}
}

static int cannot_open(struct store *s, struct err *err)
{
	return err_set(err, E_UNAVAILABLE, s->path, "cannot open the database '%s': %s; %s",
		       s->path, sqlite3_errmsg(s->db), remedy(sqlite3_errcode(s->db)));
}

/* Made by us first: SQLite would let others read it. */
static int make_file(const char *path, struct err *err)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot open the database '%s'; %s",
				 path, remedy(SQLITE_CANTOPEN));
	close(fd);
	return 0;
}

static int open_database(struct store *s, struct err *err)
{
	const int mode = s->base != NULL ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
	/* Small pages: a command touches a dozen of them twice, and each is written whole. */
	const char *setup = s->base != NULL ? "PRAGMA page_size=1024;"
					      "PRAGMA journal_mode=WAL;"
					      "PRAGMA synchronous=NORMAL;"
					      "PRAGMA journal_size_limit=" WAL_KEPT ";"
					      "PRAGMA temp_store=MEMORY"
					    : "PRAGMA query_only=1";
	int rc = s->base != NULL ? make_file(s->path, err) : 0;

	if (rc < 0)
		return rc;
	if (sqlite3_open_v2(s->path, &s->db, mode | SQLITE_OPEN_NOMUTEX,
			    s->base != NULL ? wal_vfs() : NULL) != SQLITE_OK)
		return cannot_open(s, err);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	if (sqlite3_exec(s->db, setup, NULL, NULL, NULL) != SQLITE_OK)
		return cannot_open(s, err);
	return s->base != NULL ? schema_migrate(s->db, s->path, err)
			       : schema_check(s->db, s->path, err);
}

static int start(struct store *s, struct err *err)
{
	int rc = checkpointer_start(s->path, &s->checkpointer, err);

	if (rc < 0)
		return rc;
	sqlite3_wal_hook(s->db, on_wal, s);
	s->turn_end = event_new(s->base, -1, 0, on_turn_end, s);
	s->turn_late = event_new(s->base, -1, 0, on_turn_end, s);
	ensure(s->turn_end != NULL && s->turn_late != NULL);
	if (event_base_get_npriorities(s->base) > 1) {
		event_priority_set(s->turn_end, 1);
		event_priority_set(s->turn_late, 0);
	}
	return 0;
}

int store_open(const char *path, struct event_base *base, const struct clock *clock,
	       struct store **out, struct err *err)
{
	struct store *s = mem_new(struct store);
	int rc;

	s->path = mem_strdup(path);
	s->base = base;
	s->clock = clock;
	STAILQ_INIT(&s->pending);
	rc = open_database(s, err);
	if (rc == 0)
		rc = store_load_chain(s, err);
	if (rc == 0 && base != NULL)
		rc = start(s, err);
	if (rc < 0)
		store_close(s);
	else
		*out = s;
	return rc;
}

void store_close(struct store *s)
{
	struct err err = {0};

	if (s == NULL)
		return;
	while (s->open)
		if (store_commit(s, &err) < 0)
			log_error("a turn was rolled back", "error", err.message, "database",
				  s->path);
	checkpointer_stop(s->checkpointer);
	for (size_t i = 0; i < STORE_STATEMENTS; i++)
		sqlite3_finalize(s->statements[i].stmt);
	if (s->checkpointer != NULL)
		sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_close(s->db);
	if (s->turn_end != NULL)
		event_free(s->turn_end);
	if (s->turn_late != NULL)
		event_free(s->turn_late);
	buf_done(&s->json);
	free(s->waiters);
	free(s->sinks);
	free(s->path);
	free(s);
}

struct event_base *store_base(struct store *s)
{
	return s->base;
}
