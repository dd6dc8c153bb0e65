// SPDX-License-Identifier: Apache-2.0
/* session/db_row.h - reads rows of the database, and maps columns to members of a struct. */
#pragma once
#include "event/store.h"

/* One statement that reads. Values are bound and read in order. */
struct db_row {
	struct store *store;
	sqlite3_stmt *stmt;
	int next; /* value to bind or to read */
};
struct db_row row_read(struct store *store, const char *sql); /* a literal */
void row_bind_text(struct db_row *r, const char *s); /* borrowed until the last row was read */
void row_bind_int(struct db_row *r, int64_t v);
/* 1: the values of a row can be read; 0: there are no more rows; -code. Resets the statement after
 * 0 and -code. */
int row_next(struct db_row *r, struct err *err);
/* Valid until the next row_next; NULL for NULL. */
const char *row_text(struct db_row *r);
int64_t row_int(struct db_row *r);

/* How a column stores a member of a struct. Without functions it stores an int64_t: a negative one
 * as NULL, and NULL leaves the member as it is. With functions it stores a text; NULL is not
 * parsed. */
struct column_kind {
	void (*format)(const void *member, struct buf *out);
	int (*parse)(const char *text, void *member, struct err *err);
};
extern const struct column_kind column_int, /* int64_t, uint64_t */
	column_text,			    /* char *, owned */
	column_id,			    /* char [ID_MAX + 1] */
	column_lines;			    /* struct strv, a line for each string */
struct column {
	const struct column_kind *kind;
	size_t offset;
};
void columns_put(struct store *store, const struct column *columns, size_t n, const void *obj);
/* The first value of the row is an id. A value that cannot be parsed is logged and left out. */
void columns_get(struct db_row *r, const struct column *columns, size_t n, void *obj);
