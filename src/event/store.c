// SPDX-License-Identifier: Apache-2.0
/* Opening and closing, statements, and the two stages of a write: it is safe at the end of the
 * loop's turn, and in the database a little later. */
#include "event/store.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "event/schema.h"
#include "event/store_state.h"
#include "event/wal_vfs.h"
#include <fcntl.h>
#include <stdio.h>

#define BUSY_MS 5000
#define QUIET_MS 2	       /* without a write: then they are committed together */
#define PUT_OFF 4	       /* times that a write may put it off */
#define RETRY_MS 1000	       /* after a failed commit */
#define BATCH_MAX (256 * 1024) /* bytes that do not wait for it */
#define WAL_KEPT "16777216"    /* bytes that the WAL file keeps when it starts anew */

int store_fail(struct store *s)
{
	const bool failed = s->failed.code != E_OK;
	const char *why = sqlite3_errcode(s->db) != SQLITE_OK ? sqlite3_errmsg(s->db)
							      : "the transaction was rolled back";

	err_set(&s->failed, E_UNAVAILABLE, s->path, "the database cannot be written: %s", why);
	if (!failed)
		log_error("the database cannot be written: nothing new is begun until it can",
			  "error", why, "database", s->path);
	return -E_UNAVAILABLE;
}

int store_failing(const struct store *s, struct err *err)
{
	if (s->failed.code == E_OK)
		return 0;
	return err_set(err, s->failed.code, s->path, "%s", s->failed.message);
}

/* ---- statements ---- */

sqlite3_stmt *store_cached(struct store *s, const char *sql)
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

sqlite3_stmt *store_stmt(struct store *s, const char *sql)
{
	sqlite3_stmt *stmt;

	store_apply(s);
	stmt = store_cached(s, sql);
	if (stmt == NULL)
		return NULL;
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return stmt;
}

sqlite3 *store_db(struct store *s)
{
	return s->db;
}

/* ---- waiters ---- */

static void add_waiter(struct waiters *list, store_done_fn *fn, void *arg)
{
	if ((list->n & (list->n - 1)) == 0)
		list->v = mem_resize(list->v, list->n > 0 ? list->n * 2 : 8, sizeof(*list->v));
	list->v[list->n++] = (struct commit_waiter){fn, arg};
}

/* Takes the list first: a callback may write and wait again. */
static void tell(struct waiters *list)
{
	const struct waiters told = *list;

	*list = (struct waiters){0};
	for (size_t i = 0; i < told.n; i++)
		told.v[i].fn(told.v[i].arg);
	free(told.v);
}

void store_after(struct store *s, store_done_fn *fn, void *arg)
{
	if (s->in_turn || s->spilled)
		add_waiter(&s->waiters, fn, arg);
	else
		fn(arg);
}

void store_before_sinks(struct store *s, store_done_fn *fn, void *arg)
{
	if (s->in_turn || s->spilled)
		add_waiter(&s->early, fn, arg);
	else
		fn(arg);
}

void store_after_commit(struct store *s, store_done_fn *fn, void *arg)
{
	if (s->nops > 0)
		add_waiter(&s->committers, fn, arg);
	else
		fn(arg);
}

void store_release(struct store *s)
{
	tell(&s->early);
	tell(&s->waiters);
	tell(&s->committers);
}

/* ---- the end of a turn ---- */

void store_turn(struct store *s)
{
	if (s->in_turn)
		return;
	s->in_turn = true;
	watch_soon(s->turn_end);
	s->fresh = true;
	if (watch_due_us(s->commit_due) == 0) {
		s->put_off = 0;
		watch_after(s->commit_due, QUIET_MS);
	}
}

/* From here on a SIGKILL loses nothing of the turn. */
static void end_turn(struct store *s)
{
	if (!s->in_turn)
		return;
	s->in_turn = false;
	watch_stop(s->turn_end);
	redo_publish(s->redo);
}

/* Everything is safe. Sinks come first, so that a waiter finds the events there. Takes all lists
 * before it calls anyone: a callback may write and wait again. */
static void tell_all(struct store *s)
{
	struct pending_list events = STAILQ_HEAD_INITIALIZER(events);
	struct waiters waiters = s->waiters;

	s->waiters = (struct waiters){0};
	s->safe = s->chain.seq;
	STAILQ_CONCAT(&events, &s->pending);
	tell(&s->early);
	store_deliver(s, &events);
	tell(&waiters);
}

/* Brings everything into the database. On failure the transaction is gone and the writes stay. */
static int write_all(struct store *s)
{
	sqlite3_stmt *stmt = store_cached(s, "COMMIT");
	int rc = store_apply(s);

	if (rc == 0)
		rc = store_take_in(s);
	if (rc == 0) {
		const bool done = sqlite3_step(stmt) == SQLITE_DONE;

		rc = done ? 0 : store_fail(s);
		sqlite3_reset(stmt);
	}
	if (rc < 0)
		store_roll_back(s);
	return rc;
}

int store_commit(struct store *s, struct err *err)
{
	const bool failed = s->failed.code != E_OK;

	end_turn(s);
	if (s->nops > 0 && write_all(s) < 0) {
		watch_after(s->commit_due, RETRY_MS);
		if (!s->spilled)
			tell_all(s);
		readers_release(s->readers, false);
		return err_set(err, s->failed.code, s->path, "%s", s->failed.message);
	}
	if (failed)
		log_info("the database can be written again", "database", s->path);
	s->failed.code = E_OK;
	s->in_transaction = false;
	watch_stop(s->commit_due);
	redo_begin(s->redo, redo_generation(s->redo) + (s->nops > 0));
	store_forget_writes(s);
	tell_all(s);
	tell(&s->committers);
	if (s->nops == 0)
		readers_release(s->readers, true);
	return 0;
}

static void on_turn_end(void *arg)
{
	struct store *s = arg;

	end_turn(s);
	if (!s->spilled)
		tell_all(s);
	if ((s->spilled || s->bytes.len > BATCH_MAX) && s->failed.code == E_OK)
		store_commit(s, NULL);
}

static void on_commit_due(void *arg)
{
	struct store *s = arg;

	if (!s->fresh || s->put_off == PUT_OFF) {
		store_commit(s, NULL);
		return;
	}
	s->fresh = false;
	s->put_off++;
	watch_after(s->commit_due, QUIET_MS);
}

/* After each commit; replaces SQLite's own checkpoints on this connection. */
static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	checkpointer_note(s->checkpointer, pages);
	return SQLITE_OK;
}

/* ---- opened and closed ---- */

static const char *remedy(int code)
{
	switch (code) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return "it is damaged or not a database: move it away to start anew";
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
	return err_set(err, schema_code(s->db), s->path, "cannot open the database '%s': %s; %s",
		       s->path, sqlite3_errmsg(s->db), remedy(sqlite3_errcode(s->db)));
}

static int open_redo(struct store *s, struct err *err)
{
	cleanup_free char *path = mem_printf("%s-redo", s->path);
	cleanup_free char *aside = mem_printf("%s.damaged", path);
	struct err why = {0};
	int rc = redo_open(path, &s->redo, &why);

	if (rc == -E_CONFLICT && s->lossy) {
		if (rename(path, aside) < 0)
			return err_errno(err, E_UNAVAILABLE, path, "cannot rename '%s' to '%s'",
					 path, aside);
		log_error("what was not yet in the database is lost: its file is damaged and was "
			  "put aside",
			  "file", aside);
		rc = redo_open(path, &s->redo, &why);
	}
	if (rc < 0)
		return err_set(err, rc == -E_CONFLICT ? E_UNAVAILABLE : why.code, path, "%s",
			       why.message);
	return store_redo(s, err);
}

static int open_database(struct store *s, struct err *err)
{
	const int mode = s->loop != NULL ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
	/* Small pages: a command touches a dozen of them twice, and each is written whole. */
	const char *setup = s->loop != NULL ? "PRAGMA page_size=1024;"
					      "PRAGMA journal_mode=WAL;"
					      "PRAGMA synchronous=NORMAL;"
					      "PRAGMA journal_size_limit=" WAL_KEPT ";"
					      "PRAGMA temp_store=MEMORY"
					    : "PRAGMA query_only=1";
	/* Made here first: SQLite would let others read it. */
	cleanup_fd int fd =
		s->loop != NULL ? open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	int rc;

	if (s->loop != NULL && fd == -1)
		return err_errno(err, err_disk(E_UNAVAILABLE), s->path,
				 "cannot open the database '%s'; %s", s->path,
				 remedy(SQLITE_CANTOPEN));
	if (fd != -1)
		close(take_fd(fd));
	if (sqlite3_open_v2(s->path, &s->db, mode | SQLITE_OPEN_NOMUTEX,
			    s->loop != NULL ? wal_vfs() : NULL) != SQLITE_OK)
		return cannot_open(s, err);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	if (sqlite3_exec(s->db, setup, NULL, NULL, NULL) != SQLITE_OK)
		return cannot_open(s, err);
	if (s->loop == NULL)
		return schema_check(s->db, s->path, err);
	/* Before the migration: the redo file was written for the tables as they are. */
	rc = open_redo(s, err);
	if (rc == 0)
		rc = schema_migrate(s->db, s->path, err);
	return rc == 0 ? store_follow(s, err) : rc;
}

static int open_as(bool lossy, const char *path, struct loop *loop, const struct clock *clock,
		   struct store **out, struct err *err)
{
	struct store *s = mem_new(struct store);
	int rc;

	s->lossy = lossy;
	s->path = mem_strdup(path);
	s->loop = loop;
	s->clock = clock;
	STAILQ_INIT(&s->pending);
	rc = open_database(s, err);
	if (rc == 0)
		rc = store_load_chain(s, err);
	if (rc == 0 && loop != NULL)
		rc = checkpointer_start(path, &s->checkpointer, err);
	if (rc == 0 && loop != NULL)
		rc = readers_new(path, loop, &s->readers, err);
	if (rc == 0 && loop != NULL) {
		sqlite3_wal_hook(s->db, on_wal, s);
		s->turn_end = watch_timer(loop, on_turn_end, s);
		s->commit_due = watch_timer(loop, on_commit_due, s);
	}
	if (rc < 0)
		store_close(s);
	else
		*out = s;
	return rc;
}

int store_open(const char *path, struct loop *loop, const struct clock *clock, struct store **out,
	       struct err *err)
{
	return open_as(false, path, loop, clock, out, err);
}

int store_open_lossy(const char *path, struct loop *loop, const struct clock *clock,
		     struct store **out, struct err *err)
{
	return open_as(true, path, loop, clock, out, err);
}

void store_close(struct store *s)
{
	struct err err = {0};

	if (s == NULL)
		return;
	/* A callback may write again. What cannot be committed stays in the redo file. */
	while (s->nops > 0 && store_commit(s, &err) == 0)
		;
	readers_stop(s->readers);
	checkpointer_stop(s->checkpointer);
	for (size_t i = 0; i < STORE_STATEMENTS; i++)
		sqlite3_finalize(s->statements[i].stmt);
	if (s->checkpointer != NULL)
		sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_close(s->db);
	redo_close(s->redo);
	watch_free(s->turn_end);
	watch_free(s->commit_due);
	store_forget_events(&s->pending);
	buf_done(&s->json);
	buf_done(&s->bytes);
	free(s->ops);
	free(s->early.v);
	free(s->waiters.v);
	free(s->committers.v);
	free(s->sinks);
	free(s->path);
	free(s);
}

struct loop *store_loop(struct store *s)
{
	return s->loop;
}
