// SPDX-License-Identifier: Apache-2.0
/* Opening and closing, statements and writes. A write is a statement with its values, noted as
 * bytes in memory and in the redo file. It is safe at the end of the loop's turn, and in the
 * database a little later. */
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
#define QUIET_MS 2		/* without a write: then they are committed together */
#define PUT_OFF 4		/* times that a write may put it off */
#define RETRY_MS 1000		/* after a failed commit */
#define BATCH_MAX (256 * 1024)	/* bytes that do not wait for it */
#define BYTES_KEPT (512 * 1024) /* memory that stays for the next writes */
#define WAL_KEPT "16777216"	/* bytes that the WAL file keeps when it starts anew */

/* Notes why the database cannot be written. */
static int fail(struct store *s)
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

/* Returns the statement as its last user left it, or NULL. */
static sqlite3_stmt *cached(struct store *s, const char *sql)
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
	stmt = cached(s, sql);
	if (stmt == NULL)
		return NULL;
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return stmt;
}

/* Runs a statement without rows. */
static int step(struct store *s, sqlite3_stmt *stmt)
{
	const bool done = sqlite3_step(stmt) == SQLITE_DONE;
	const int rc = done ? 0 : fail(s);

	sqlite3_reset(stmt);
	return rc;
}

sqlite3 *store_db(struct store *s)
{
	return s->db;
}

struct loop *store_loop(struct store *s)
{
	return s->loop;
}

/* ---- writes are noted ---- */

enum value_kind { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB };

/* In front of a value's bytes. */
struct value {
	uint32_t kind, len;
};

void store_put(struct store *s, const char *sql)
{
	s->ops = mem_grow(s->ops, s->nops, sizeof(*s->ops));
	s->ops[s->nops] = (struct store_op){sql, s->bytes.len, 0};
	buf_add(&s->bytes, sql, strlen(sql) + 1);
}

static void put_value(struct store *s, enum value_kind kind, const void *p, size_t len)
{
	const struct value v = {p != NULL ? kind : VALUE_NULL, (uint32_t)len};

	ensure(len < UINT32_MAX);
	buf_add(&s->bytes, &v, sizeof(v));
	buf_add(&s->bytes, p, len);
}

void store_put_text(struct store *s, const char *text)
{
	put_value(s, VALUE_TEXT, text, text != NULL ? strlen(text) : 0);
}

void store_put_int(struct store *s, int64_t v)
{
	put_value(s, VALUE_INT, &v, sizeof(v));
}

void store_put_blob(struct store *s, const void *p, size_t n)
{
	put_value(s, VALUE_BLOB, p, p != NULL ? n : 0);
}

uint64_t store_put_end(struct store *s)
{
	struct store_op *op = &s->ops[s->nops++];

	op->len = s->bytes.len - op->at;
	if (!s->spilled)
		s->spilled = !redo_add(s->redo, s->bytes.data + op->at, op->len);
	if (!s->in_turn) {
		s->in_turn = true;
		watch_soon(s->turn_end);
		s->fresh = true;
		if (watch_due_us(s->commit_due) == 0) {
			s->put_off = 0;
			watch_after(s->commit_due, QUIET_MS);
		}
	}
	return s->number + s->nops;
}

bool store_take_back(struct store *s, uint64_t number)
{
	struct store_op *op =
		number > s->number + s->applied ? &s->ops[number - s->number - 1] : NULL;

	if (op == NULL || op->sql == NULL)
		return false;
	op->sql = NULL;
	return true;
}

/* ---- writes are carried out ---- */

/* Binds one value of at most n bytes; returns how many it took, 0 if it is damaged. The bytes must
 * stay. */
static size_t bind(sqlite3_stmt *stmt, int column, const char *p, size_t n)
{
	struct value v;
	const char *bytes = p + sizeof(v);
	int64_t number;

	if (n < sizeof(v))
		return 0;
	memcpy(&v, p, sizeof(v));
	if (v.len > n - sizeof(v))
		return 0;
	switch ((enum value_kind)v.kind) {
	case VALUE_NULL:
		break;
	case VALUE_INT:
		if (v.len != sizeof(number))
			return 0;
		memcpy(&number, bytes, sizeof(number));
		sqlite3_bind_int64(stmt, column, number);
		break;
	case VALUE_TEXT:
		sqlite3_bind_text(stmt, column, bytes, (int)v.len, SQLITE_STATIC);
		break;
	case VALUE_BLOB:
		sqlite3_bind_blob(stmt, column, bytes, (int)v.len, SQLITE_STATIC);
		break;
	default:
		return 0;
	}
	return sizeof(v) + v.len;
}

/* Runs one write by its statement and its values. A write that breaks a constraint is left out. */
static int run(struct store *s, sqlite3_stmt *stmt, const char *values, size_t n)
{
	bool whole = stmt != NULL;
	int rc;

	sqlite3_reset(stmt);
	for (int column = 1; n > 0 && whole; column++) {
		const size_t used = bind(stmt, column, values, n);

		whole = used > 0;
		values += used;
		n -= used;
	}
	do
		rc = whole ? sqlite3_step(stmt) : SQLITE_MISUSE;
	while (rc == SQLITE_ROW);
	if (rc == SQLITE_CONSTRAINT)
		log_error("a row was refused by the database", "error", sqlite3_errmsg(s->db),
			  "statement", sqlite3_sql(stmt));
	sqlite3_reset(stmt);
	if (stmt != NULL)
		sqlite3_clear_bindings(stmt);
	if ((rc != SQLITE_DONE && rc != SQLITE_CONSTRAINT) || sqlite3_get_autocommit(s->db))
		return fail(s);
	return 0;
}

/* Takes back a transaction that failed; the writes stay noted. */
static void roll_back(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->in_transaction = false;
	s->applied = 0;
}

int store_apply(struct store *s)
{
	int rc = 0;

	/* SQLite also rolls back when a read meets an I/O error. */
	if (s->in_transaction && sqlite3_get_autocommit(s->db))
		roll_back(s);
	if (!s->in_transaction && s->applied < s->nops) {
		rc = step(s, cached(s, "BEGIN"));
		s->in_transaction = rc == 0;
	}
	while (rc == 0 && s->applied < s->nops) {
		const struct store_op *op = &s->ops[s->applied++];
		const size_t text = op->sql != NULL ? strlen(op->sql) + 1 : 0;

		if (text > 0)
			rc = run(s, cached(s, op->sql), s->bytes.data + op->at + text,
				 op->len - text);
	}
	if (rc < 0)
		roll_back(s);
	return rc;
}

/* ---- generations ---- */

/* The last generation that the database took in, and whether it has tables yet. */
static int get_generation(struct store *s, uint64_t *n, bool *tables, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(s->db, "SELECT value FROM meta WHERE key='generation'", -1,
				    &stmt, NULL);

	*n = 0;
	*tables = rc == SQLITE_OK;
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		*n = (uint64_t)sqlite3_column_int64(stmt, 0);
	/* A missing table is SQLITE_ERROR; after any other error the generation is not known. */
	if (rc != SQLITE_ROW && rc != SQLITE_DONE && (rc != SQLITE_ERROR || *tables))
		rc = schema_failed(s->db, s->path, "read", err);
	else
		rc = 0;
	sqlite3_finalize(stmt);
	return rc;
}

static int set_generation(struct store *s, uint64_t n)
{
	sqlite3_stmt *stmt = cached(s, "REPLACE INTO meta(key, value) VALUES('generation', ?1)");

	sqlite3_bind_int64(stmt, 1, (int64_t)n);
	return step(s, stmt);
}

/* Carries out a record that the last process left. */
static int run_again(const void *p, size_t n, void *arg, struct err *err)
{
	struct store *s = arg;
	const char *sql = p;
	const size_t text = strnlen(sql, n);
	sqlite3_stmt *stmt = NULL;
	int rc;

	if (text == n || sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return err_set(
			err, schema_code(s->db), s->path,
			"the writes in the redo file cannot be brought into the database '%s': %s",
			s->path, text == n ? "it is damaged" : sqlite3_errmsg(s->db));
	rc = run(s, stmt, sql + text + 1, n - text - 1);
	if (rc < 0)
		rc = err_set(err, schema_code(s->db), s->path, "%s", s->failed.message);
	sqlite3_finalize(stmt);
	return rc;
}

static int found(const void *p, size_t n, void *arg, struct err *err)
{
	return 1;
}

/* Part of what was written and reported is lost. */
static int damaged(struct store *s, const char *how, struct err *err)
{
	if (!s->lossy)
		return err_set(err, E_UNAVAILABLE, s->path,
			       "'%s-redo' %s, and with it the last writes; to go on without "
			       "them, start the server once with --accept-loss",
			       s->path, how);
	log_error("the last writes to the database are lost in part", "database", s->path, "cause",
		  how);
	return 0;
}

/* Carries out what the last process left, and begins a new generation. */
static int redo(struct store *s, struct err *err)
{
	const uint64_t left = redo_generation(s->redo);
	uint64_t last;
	bool tables;
	int rc = get_generation(s, &last, &tables, err);

	if (rc < 0)
		return rc;
	if (tables && left == last + 1) {
		rc = sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK
			     ? redo_each(s->redo, run_again, s, err)
			     : schema_failed(s->db, s->path, "write", err);
		if (rc == -E_CONFLICT)
			rc = damaged(s, "is damaged", err);
		if (rc == 0 && (set_generation(s, left) < 0 ||
				sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK))
			rc = schema_failed(s->db, s->path, "write", err);
		if (rc < 0)
			sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	} else if (left > last && redo_each(s->redo, found, NULL, NULL) != 0) {
		if (tables)
			rc = damaged(s, "belongs to another state of the database", err);
		else
			log_error("the writes in the redo file belong to another database, and "
				  "are lost",
				  "database", s->path);
	}
	if (rc == 0)
		redo_begin(s->redo, (left > last ? left : last) + 1);
	return rc;
}

/* ---- waiters ---- */

/* Calls fn now, or when the list is called. */
static void call_or_wait(bool now, struct waiters *list, store_done_fn *fn, void *arg)
{
	if (now) {
		fn(arg);
		return;
	}
	list->v = mem_grow(list->v, list->n, sizeof(*list->v));
	list->v[list->n++] = (struct commit_waiter){fn, arg};
}

/* Empties the list first: a callback may write and wait again. */
static void call_waiters(struct waiters *list)
{
	const struct waiters called = *list;

	*list = (struct waiters){0};
	for (size_t i = 0; i < called.n; i++)
		called.v[i].fn(called.v[i].arg);
	free(called.v);
}

void store_after(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(!s->in_turn && !s->spilled, &s->waiters, fn, arg);
}

void store_before_sinks(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(!s->in_turn && !s->spilled, &s->early, fn, arg);
}

void store_after_commit(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(s->nops == 0, &s->committers, fn, arg);
}

void store_release(struct store *s)
{
	call_waiters(&s->early);
	call_waiters(&s->waiters);
	call_waiters(&s->committers);
}

/* ---- the end of a turn, and the commit ---- */

/* From here on a SIGKILL loses nothing of the turn. */
static void end_turn(struct store *s)
{
	if (!s->in_turn)
		return;
	s->in_turn = false;
	watch_stop(s->turn_end);
	redo_publish(s->redo);
}

/* Everything is safe. Sinks come first, so that a waiter finds the events there. All lists are
 * emptied before the first callback: it may write and wait again. */
static void deliver_turn(struct store *s)
{
	struct pending_list events = STAILQ_HEAD_INITIALIZER(events);
	struct waiters waiters = s->waiters;

	s->waiters = (struct waiters){0};
	s->safe = s->chain.seq;
	STAILQ_CONCAT(&events, &s->pending);
	call_waiters(&s->early);
	store_deliver(s, &events);
	call_waiters(&waiters);
}

/* Brings everything into the database. On failure the transaction is gone and the writes stay. */
static int write_all(struct store *s)
{
	sqlite3_stmt *commit = cached(s, "COMMIT");
	int rc = store_apply(s);

	if (rc == 0)
		rc = set_generation(s, redo_generation(s->redo));
	if (rc == 0)
		rc = step(s, commit);
	if (rc < 0)
		roll_back(s);
	return rc;
}

static void forget_writes(struct store *s)
{
	s->number += s->nops;
	s->nops = s->applied = 0;
	s->spilled = false;
	if (s->bytes.cap > BYTES_KEPT)
		buf_done(&s->bytes);
	buf_clear(&s->bytes);
}

int store_commit(struct store *s, struct err *err)
{
	const bool failed = s->failed.code != E_OK;

	end_turn(s);
	if (s->nops > 0 && write_all(s) < 0) {
		watch_after(s->commit_due, RETRY_MS);
		if (!s->spilled)
			deliver_turn(s);
		readers_release(s->readers, false);
		return err_set(err, s->failed.code, s->path, "%s", s->failed.message);
	}
	if (failed)
		log_info("the database can be written again", "database", s->path);
	s->failed.code = E_OK;
	s->in_transaction = false;
	watch_stop(s->commit_due);
	redo_begin(s->redo, redo_generation(s->redo) + (s->nops > 0));
	forget_writes(s);
	deliver_turn(s);
	call_waiters(&s->committers);
	if (s->nops == 0)
		readers_release(s->readers, true);
	return 0;
}

static void on_turn_end(void *arg)
{
	struct store *s = arg;

	end_turn(s);
	if (!s->spilled)
		deliver_turn(s);
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

/* ---- opening and closing ---- */

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
		log_error("the last writes to the database are lost: the redo file is damaged and "
			  "was put aside",
			  "file", aside);
		rc = redo_open(path, &s->redo, &why);
	}
	if (rc < 0)
		return err_set(err, rc == -E_CONFLICT ? E_UNAVAILABLE : why.code, path, "%s",
			       why.message);
	return redo(s, err);
}

static int open_database(struct store *s, struct err *err)
{
	/* Small pages: a command touches a dozen of them twice, and each is written whole. */
	static const char setup[] = "PRAGMA page_size=1024;"
				    "PRAGMA journal_mode=WAL;"
				    "PRAGMA synchronous=NORMAL;"
				    "PRAGMA journal_size_limit=" WAL_KEPT ";"
				    "PRAGMA temp_store=MEMORY";
	/* Made here first: SQLite would let others read it. */
	const int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int rc;

	if (fd == -1)
		return err_errno(err, err_disk(E_UNAVAILABLE), s->path,
				 "cannot open the database '%s'; %s", s->path,
				 schema_remedy(SQLITE_CANTOPEN));
	close(fd);
	if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    wal_vfs()) != SQLITE_OK ||
	    sqlite3_busy_timeout(s->db, BUSY_MS) != SQLITE_OK ||
	    sqlite3_exec(s->db, setup, NULL, NULL, NULL) != SQLITE_OK)
		return schema_failed(s->db, s->path, "open", err);
	/* Before the migration: the redo file was written for the tables as they are. */
	rc = open_redo(s, err);
	if (rc == 0)
		rc = schema_migrate(s->db, s->path, err);
	/* A new database may lie beside an old redo file. */
	if (rc == 0 && set_generation(s, redo_generation(s->redo) - 1) < 0)
		rc = schema_failed(s->db, s->path, "write", err);
	return rc;
}

int store_open(const char *path, struct loop *loop, const struct clock *clock, bool lossy,
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
	if (rc == 0)
		rc = checkpointer_start(path, &s->checkpointer, err);
	if (rc == 0)
		rc = readers_new(path, loop, &s->readers, err);
	if (rc < 0) {
		store_close(s);
		return rc;
	}
	sqlite3_wal_hook(s->db, on_wal, s);
	s->turn_end = watch_timer(loop, on_turn_end, s);
	s->commit_due = watch_timer(loop, on_commit_due, s);
	*out = s;
	return 0;
}

void store_close(struct store *s)
{
	struct err err = {0};

	if (s == NULL)
		return;
	/* A callback may write again. Writes that cannot be committed stay in the redo file. */
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
