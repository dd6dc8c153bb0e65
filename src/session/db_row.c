// SPDX-License-Identifier: Apache-2.0
#include "session/db_row.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"

struct db_row row_read(struct store *store, const char *sql)
{
	return (struct db_row){.store = store, .stmt = store_stmt(store, sql), .next = 1};
}

void row_bind_text(struct db_row *r, const char *s)
{
	sqlite3_bind_text(r->stmt, r->next++, s, -1, SQLITE_STATIC);
}

void row_bind_int(struct db_row *r, int64_t v)
{
	sqlite3_bind_int64(r->stmt, r->next++, v);
}

int row_next(struct db_row *r, struct err *err)
{
	const int rc = sqlite3_step(r->stmt);

	r->next = 0;
	if (rc == SQLITE_ROW)
		return 1;
	sqlite3_reset(r->stmt);
	if (rc == SQLITE_DONE)
		return 0;
	return err_set(err, E_UNAVAILABLE, NULL, "the database cannot be read: %s",
		       sqlite3_errmsg(store_db(r->store)));
}

const char *row_text(struct db_row *r)
{
	return (const char *)sqlite3_column_text(r->stmt, r->next++);
}

int64_t row_int(struct db_row *r)
{
	return sqlite3_column_int64(r->stmt, r->next++);
}

/* ---- columns ---- */

static void format_text(const void *member, struct buf *out)
{
	char *const *text = member;

	if (*text != NULL)
		buf_adds(out, *text);
}

static int parse_text(const char *text, void *member, struct err *err)
{
	*(char **)member = mem_strdup(text);
	return 0;
}

static void format_id(const void *member, struct buf *out)
{
	buf_adds(out, member);
}

static int parse_id(const char *text, void *member, struct err *err)
{
	memcpy(member, text, strnlen(text, ID_MAX));
	return 0;
}

static void format_lines(const void *member, struct buf *out)
{
	const struct strv *list = member;

	for (size_t i = 0; i < list->n; i++)
		buf_addf(out, "%s%s", i > 0 ? "\n" : "", list->v[i]);
}

static int parse_lines(const char *text, void *member, struct err *err)
{
	cleanup_free char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		strv_add(member, line);
	return 0;
}

const struct column_kind column_int = {NULL, NULL}, column_text = {format_text, parse_text},
			 column_id = {format_id, parse_id},
			 column_lines = {format_lines, parse_lines};

void columns_put(struct store *store, const struct column *columns, size_t n, const void *obj)
{
	for (const struct column *c = columns; c < columns + n; c++) {
		const void *member = (const char *)obj + c->offset;
		cleanup_buf struct buf text = {0};

		if (c->kind->format != NULL)
			c->kind->format(member, &text);
		if (c->kind->format == NULL && *(const int64_t *)member >= 0)
			store_put_int(store, *(const int64_t *)member);
		else
			store_put_text(store, text.data);
	}
}

void columns_get(struct db_row *r, const struct column *columns, size_t n, void *obj)
{
	for (const struct column *c = columns; c < columns + n; c++, r->next++) {
		void *member = (char *)obj + c->offset;
		const char *text = (const char *)sqlite3_column_text(r->stmt, r->next);
		struct err err = {0};

		if (text == NULL)
			continue;
		if (c->kind->parse == NULL)
			*(int64_t *)member = sqlite3_column_int64(r->stmt, r->next);
		else if (c->kind->parse(text, member, &err) < 0)
			log_error("a row is not understood", "id",
				  (const char *)sqlite3_column_text(r->stmt, 0), "error",
				  err.message);
	}
}
