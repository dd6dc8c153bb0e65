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

void store_note_failure(struct store *s)
{
	if (s->failed.code == E_OK)
		log_error("the database cannot be written: nothing new is begun until it can",
			  "error", s->why.message, "database", s->path);
	s->failed = s->why;
}

int store_failing(const struct store *s, struct err *err)
{
	if (s->failed.code == E_OK)
		return 0;
	return err_set(err, s->failed.code, s->path, "the database cannot be written: %s",
		       s->failed.message);
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

void store_put(struct store *s, const char *sql)
{
	struct store_batch *b = &s->now;

	b->ops = mem_grow(b->ops, b->nops, sizeof(*b->ops));
	b->ops[b->nops] = (struct store_op){sql, b->bytes.len, 0};
	buf_add(&b->bytes, sql, strlen(sql) + 1);
}

static void put_value(struct store *s, enum value_kind kind, const void *p, size_t len)
{
	const struct value v = {p != NULL ? kind : VALUE_NULL, (uint32_t)len};

	ensure(len < UINT32_MAX);
	buf_add(&s->now.bytes, &v, sizeof(v));
	buf_add(&s->now.bytes, p, len);
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
	struct store_batch *b = &s->now;
	struct store_op *op = &b->ops[b->nops++];

	op->len = b->bytes.len - op->at;
	if (!s->spilled)
		s->spilled = !redo_add(b->redo, b->bytes.data + op->at, op->len);
	if (!s->in_turn) {
		s->in_turn = true;
		watch_soon(s->turn_end);
		s->fresh = true;
		if (watch_due_us(s->commit_due) == 0) {
			s->put_off = 0;
			watch_after(s->commit_due, QUIET_MS);
		}
	}
	return store_written(s);
}

bool store_take_back(struct store *s, uint64_t number)
{
	struct store_op *op =
		number > s->number + s->now.applied ? &s->now.ops[number - s->number - 1] : NULL;

	if (op == NULL || op->sql == NULL)
		return false;
	op->sql = NULL;
	return true;
}

uint64_t store_written(const struct store *s)
{
	return s->number + s->now.nops;
}

uint64_t store_committed(const struct store *s)
{
	return s->number - s->sent.nops;
}

/* ---- waiters ---- */

/* Calls fn now, or when the list is called. */
static void call_or_wait(struct store *s, bool now, struct waiters *list, store_done_fn *fn,
			 void *arg)
{
	if (now) {
		fn(arg);
		return;
	}
	list->v = mem_grow(list->v, list->n, sizeof(*list->v));
	list->v[list->n++] = (struct commit_waiter){fn, arg, store_written(s)};
}

/* Calls those that wait for writes up to this one, the first ones of the list. They are taken off
 * before: a callback may write and wait again. */
static void call_waiters(struct waiters *list, uint64_t number)
{
	struct waiters called = *list, rest = {0};

	for (called.n = 0; called.n < list->n && list->v[called.n].number <= number;)
		called.n++;
	for (size_t i = called.n; i < list->n; i++) {
		rest.v = mem_grow(rest.v, rest.n, sizeof(*rest.v));
		rest.v[rest.n++] = list->v[i];
	}
	*list = rest;
	for (size_t i = 0; i < called.n; i++)
		called.v[i].fn(called.v[i].arg);
	free(called.v);
}

void store_after(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(s, !s->in_turn && !s->spilled, &s->waiters, fn, arg);
}

void store_before_sinks(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(s, !s->in_turn && !s->spilled, &s->early, fn, arg);
}

void store_after_commit(struct store *s, store_done_fn *fn, void *arg)
{
	call_or_wait(s, store_committed(s) == store_written(s), &s->committers, fn, arg);
}

void store_release(struct store *s)
{
	call_waiters(&s->early, UINT64_MAX);
	call_waiters(&s->waiters, UINT64_MAX);
	call_waiters(&s->committers, UINT64_MAX);
}

/* ---- the end of a turn, and the commit ---- */

/* From here on a SIGKILL loses nothing of the turn. A turn that the redo file has only a part of is
 * safe when it is committed: its events without their positions would be read from the rings again.
 */
static void end_turn(struct store *s)
{
	if (!s->in_turn)
		return;
	s->in_turn = false;
	watch_stop(s->turn_end);
	if (!s->spilled)
		redo_publish(s->now.redo);
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
	call_waiters(&s->early, UINT64_MAX);
	store_deliver(s, &events);
	call_waiters(&waiters, UINT64_MAX);
}

/* Moves the writes to s->sent, which is empty, and begins the next generation in the other file. */
static void close_batch(struct store *s)
{
	const struct store_batch sent = s->now;

	redo_begin(s->sent.redo, redo_generation(sent.redo) + 1);
	s->now = s->sent;
	s->sent = sent;
	s->number += sent.nops;
}

/* After a commit or a try. The callbacks come later, in tell. */
static void take_result(struct store *s)
{
	struct store_batch *b = &s->sent;

	if (s->wrote < 0) {
		store_note_failure(s);
		watch_after(s->commit_due, RETRY_MS);
		return;
	}
	if (s->failed.code != E_OK)
		log_info("the database can be written again", "database", s->path);
	s->failed.code = E_OK;
	b->nops = b->applied = 0;
	if (b->bytes.cap > BYTES_KEPT)
		buf_done(&b->bytes);
	buf_clear(&b->bytes);
}

void store_settle(struct store *s)
{
	if (!s->writing)
		return;
	writer_wait(s->writer);
	s->writing = false;
	take_result(s);
}

static void tell(struct store *s)
{
	call_waiters(&s->committers, store_committed(s));
	readers_release(s->readers, store_committed(s), s->failed.code != E_OK);
}

/* The transaction of a read may have more than the batch, whose generation must not cover it. */
static void before_write(struct store *s)
{
	if (s->sent.nops == 0)
		close_batch(s);
	else if (s->now.applied > 0)
		store_roll_back(s);
	watch_stop(s->commit_due);
}

static void on_thread(void *arg)
{
	struct store *s = arg;

	s->wrote = store_write(s);
}

/* Lets the writer commit. The turn ends before: what is committed is published. */
static void hand_over(struct store *s)
{
	const bool turn = s->in_turn;

	end_turn(s);
	before_write(s);
	s->writing = true;
	writer_begin(s->writer);
	if (turn)
		deliver_turn(s);
}

/* The writer has ended, maybe a while ago: the connection may be in use again. */
static void on_written(void *arg)
{
	struct store *s = arg;

	if (s->writing && !writer_idle(s->writer))
		return;
	store_settle(s);
	tell(s);
	/* The timer ended meanwhile, or the batch is large. */
	if (!s->writing && !s->spilled && s->failed.code == E_OK && s->now.nops > 0 &&
	    (watch_due_us(s->commit_due) == 0 || s->now.bytes.len > BATCH_MAX))
		hand_over(s);
}

int store_commit(struct store *s, struct err *err)
{
	end_turn(s);
	store_settle(s);
	s->wrote = 0;
	watch_stop(s->commit_due);
	while (s->wrote == 0 && store_committed(s) < store_written(s)) {
		before_write(s);
		s->wrote = store_write(s);
		take_result(s);
	}
	if (s->wrote == 0)
		s->spilled = false;
	if (!s->spilled)
		deliver_turn(s);
	tell(s);
	return store_failing(s, err);
}

static void trim_batch(struct store_batch *b)
{
	if (b->nops == 0)
		buf_done(&b->bytes);
	redo_trim(b->redo);
}

void store_trim(struct store *s)
{
	trim_batch(&s->now);
	if (s->writing)
		return;
	trim_batch(&s->sent);
	sqlite3_db_release_memory(s->db);
}

static void on_turn_end(void *arg)
{
	struct store *s = arg;

	end_turn(s);
	if (!s->spilled)
		deliver_turn(s);
	if (s->failed.code != E_OK)
		return;
	if (s->spilled)
		store_commit(s, NULL);
	else if (s->now.bytes.len > BATCH_MAX && !s->writing)
		hand_over(s);
}

static void on_commit_due(void *arg)
{
	struct store *s = arg;

	if (s->fresh && s->put_off < PUT_OFF) {
		s->fresh = false;
		s->put_off++;
		watch_after(s->commit_due, QUIET_MS);
	} else if (s->spilled) {
		store_commit(s, NULL);
	} else if (!s->writing && store_committed(s) < store_written(s)) {
		hand_over(s);
	}
}

/* After each commit; replaces SQLite's own checkpoints on this connection. */
static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *s = arg;

	checkpointer_note(s->checkpointer, pages);
	return SQLITE_OK;
}

/* ---- opening and closing ---- */

static int open_redo(struct store *s, const char *tail, struct redo **out, struct err *err)
{
	cleanup_free char *path = mem_printf("%s%s", s->path, tail);
	cleanup_free char *aside = mem_printf("%s.damaged", path);
	struct err why = {0};
	int rc = redo_open(path, out, &why);

	if (rc == -E_CONFLICT && s->lossy) {
		if (rename(path, aside) < 0)
			return err_errno(err, E_UNAVAILABLE, path, "cannot rename '%s' to '%s'",
					 path, aside);
		log_error("the last writes to the database are lost: the redo file is damaged and "
			  "was put aside",
			  "file", aside);
		rc = redo_open(path, out, &why);
	}
	if (rc < 0)
		return err_set(err, rc == -E_CONFLICT ? E_UNAVAILABLE : why.code, path, "%s",
			       why.message);
	return 0;
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
	rc = open_redo(s, "-redo", &s->now.redo, err);
	if (rc == 0)
		rc = open_redo(s, "-redo2", &s->sent.redo, err);
	/* Before the migration: the redo files were written for the tables as they are. */
	if (rc == 0)
		rc = store_replay(s, err);
	if (rc == 0)
		rc = schema_migrate(s->db, s->path, err);
	/* A new database may lie beside an old redo file. */
	if (rc == 0 && store_set_generation(s, redo_generation(s->now.redo) - 1) < 0)
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
	if (rc == 0)
		rc = writer_start(path, loop, on_thread, on_written, s, &s->writer, err);
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

static void batch_done(struct store_batch *b)
{
	redo_close(b->redo);
	buf_done(&b->bytes);
	free(b->ops);
}

void store_close(struct store *s)
{
	struct err err = {0};

	if (s == NULL)
		return;
	/* A callback may write again. Writes that cannot be committed stay in the redo file. */
	while (store_committed(s) < store_written(s) && store_commit(s, &err) == 0)
		;
	writer_stop(s->writer);
	readers_stop(s->readers);
	checkpointer_stop(s->checkpointer);
	for (size_t i = 0; i < STORE_STATEMENTS; i++)
		sqlite3_finalize(s->statements[i].stmt);
	if (s->checkpointer != NULL)
		sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
	sqlite3_close(s->db);
	batch_done(&s->now);
	batch_done(&s->sent);
	watch_free(s->turn_end);
	watch_free(s->commit_due);
	store_forget_events(&s->pending);
	buf_done(&s->json);
	free(s->early.v);
	free(s->waiters.v);
	free(s->committers.v);
	free(s->sinks);
	free(s->path);
	free(s);
}
