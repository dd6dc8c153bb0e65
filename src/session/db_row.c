// SPDX-License-Identifier: Apache-2.0
#include "session/db_row.h"
#include "base/id.h"
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

static void put_int(struct store *store, const void *member)
{
	store_put_int(store, *(const int64_t *)member);
}

static void get_int(struct db_row *r, void *member)
{
	*(int64_t *)member = row_int(r);
}

static void put_bool(struct store *store, const void *member)
{
	store_put_int(store, *(const bool *)member);
}

static void get_bool(struct db_row *r, void *member)
{
	*(bool *)member = row_int(r) != 0;
}

static void put_text(struct store *store, const void *member)
{
	store_put_text(store, *(char *const *)member);
}

static void get_text(struct db_row *r, void *member)
{
	*(char **)member = mem_strdup(row_text(r));
}

static void put_id(struct store *store, const void *member)
{
	store_put_text(store, member);
}

static void get_id(struct db_row *r, void *member)
{
	const char *id = row_text(r);

	if (id != NULL)
		memcpy(member, id, strnlen(id, ID_MAX));
}

static void put_lines(struct store *store, const void *member)
{
	const struct strv *list = member;
	cleanup_buf struct buf b = {0};

	for (size_t i = 0; i < list->n; i++)
		buf_addf(&b, "%s%s", i > 0 ? "\n" : "", list->v[i]);
	store_put_text(store, b.data);
}

static void get_lines(struct db_row *r, void *member)
{
	cleanup_free char *text = mem_strdup(row_text(r));
	char *save = NULL;

	for (char *line = text != NULL ? strtok_r(text, "\n", &save) : NULL; line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		strv_add(member, line);
}

const struct column_kind column_int = {put_int, get_int}, column_bool = {put_bool, get_bool},
			 column_text = {put_text, get_text}, column_id = {put_id, get_id},
			 column_lines = {put_lines, get_lines};

void columns_put(struct store *store, const struct column *columns, size_t n, const void *obj)
{
	for (size_t i = 0; i < n; i++)
		columns[i].kind->put(store, (const char *)obj + columns[i].offset);
}

void columns_get(struct db_row *r, const struct column *columns, size_t n, void *obj)
{
	for (size_t i = 0; i < n; i++)
		columns[i].kind->get(r, (char *)obj + columns[i].offset);
}
