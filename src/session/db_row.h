// SPDX-License-Identifier: Apache-2.0
/* session/db_row.h - one statement at a time, its values in order. */
#pragma once
#include "session/sessions.h"

struct db_row {
	struct sessions *ss;
	sqlite3_stmt *stmt; /* NULL: a write */
	int next;	    /* value to put or get */
};

static inline struct db_row row_read(struct sessions *ss, const char *sql)
{
	return (struct db_row){.ss = ss, .stmt = store_stmt(ss->deps.store, sql), .next = 1};
}

/* Until row_run no other write may begin. */
static inline struct db_row row_write(struct sessions *ss, const char *sql)
{
	store_put(ss->deps.store, sql);
	return (struct db_row){.ss = ss};
}

/* The text of a reading is borrowed until it has run. */
static inline void put_text(struct db_row *r, const char *s)
{
	if (r->stmt == NULL)
		store_put_text(r->ss->deps.store, s);
	else
		sqlite3_bind_text(r->stmt, r->next++, s, -1, SQLITE_STATIC);
}

static inline void put_int(struct db_row *r, int64_t v)
{
	if (r->stmt == NULL)
		store_put_int(r->ss->deps.store, v);
	else
		sqlite3_bind_int64(r->stmt, r->next++, v);
}

/* Of a write; p NULL: NULL. */
static inline void put_blob(struct db_row *r, const void *p, size_t n)
{
	store_put_blob(r->ss->deps.store, p, n);
}

static inline void put_null(struct db_row *r)
{
	put_text(r, NULL);
}

static inline uint64_t row_run(struct db_row *r) /* its number */
{
	return store_put_end(r->ss->deps.store);
}

/* 1: a row is there to get from; 0: no more; -code. After 0 and -code the statement is reset. */
static inline int row_next(struct db_row *r, struct err *err)
{
	const int rc = sqlite3_step(r->stmt);

	r->next = 0;
	if (rc == SQLITE_ROW)
		return 1;
	sqlite3_reset(r->stmt);
	if (rc == SQLITE_DONE)
		return 0;
	return err_set(err, E_UNAVAILABLE, NULL, "the database cannot be read: %s",
		       sqlite3_errmsg(store_db(r->ss->deps.store)));
}

/* Valid until the next row_next; NULL for NULL. */
static inline const char *get_text(struct db_row *r)
{
	return (const char *)sqlite3_column_text(r->stmt, r->next++);
}

static inline int64_t get_int(struct db_row *r)
{
	return sqlite3_column_int64(r->stmt, r->next++);
}
