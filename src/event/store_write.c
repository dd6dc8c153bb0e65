// SPDX-License-Identifier: Apache-2.0
/* Writes are noted as bytes, in memory and in the redo file alike, and carried out later. */
#include "base/log.h"
#include "base/mem.h"
#include "event/schema.h"
#include "event/store_state.h"

#define BYTES_KEPT (512 * 1024) /* memory that stays for the next writes */

enum value_kind { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB };

/* In front of a value's bytes. */
struct value {
	uint32_t kind, len;
};

/* ---- noted ---- */

void store_put(struct store *s, const char *sql)
{
	ensure(s->loop != NULL);
	if (s->nops == s->room) {
		s->room = s->room > 0 ? s->room * 2 : 64;
		s->ops = mem_resize(s->ops, s->room, sizeof(*s->ops));
	}
	s->ops[s->nops] = (struct store_op){sql, s->bytes.len, 0};
	buf_add(&s->bytes, sql, strlen(sql) + 1);
}

static void put_value(struct store *s, enum value_kind kind, const void *p, size_t len)
{
	const struct value v = {kind, (uint32_t)len};

	ensure(len < UINT32_MAX);
	buf_add(&s->bytes, &v, sizeof(v));
	buf_add(&s->bytes, p, len);
}

void store_put_text(struct store *s, const char *text)
{
	if (text != NULL)
		put_value(s, VALUE_TEXT, text, strlen(text));
	else
		put_value(s, VALUE_NULL, "", 0);
}

void store_put_int(struct store *s, int64_t v)
{
	put_value(s, VALUE_INT, &v, sizeof(v));
}

void store_put_blob(struct store *s, const void *p, size_t n)
{
	if (p != NULL)
		put_value(s, VALUE_BLOB, p, n);
	else
		put_value(s, VALUE_NULL, "", 0);
}

uint64_t store_put_end(struct store *s)
{
	struct store_op *op = &s->ops[s->nops++];

	op->len = s->bytes.len - op->at;
	if (!s->spilled)
		s->spilled = !redo_add(s->redo, s->bytes.data + op->at, op->len);
	store_turn(s);
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

void store_forget_writes(struct store *s)
{
	s->number += s->nops;
	s->nops = s->applied = 0;
	s->spilled = false;
	if (s->bytes.cap > BYTES_KEPT)
		buf_done(&s->bytes);
	buf_clear(&s->bytes);
}

/* ---- carried out ---- */

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

/* Runs one write by its statement; the values follow its text. A write that breaks a constraint is
 * left out. */
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
		return store_fail(s);
	return 0;
}

void store_roll_back(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->in_transaction = false;
	s->applied = 0;
}

int store_apply(struct store *s)
{
	int rc = 0;

	/* A read that meets an I/O error makes SQLite roll back, too. */
	if (s->in_transaction && sqlite3_get_autocommit(s->db)) {
		s->in_transaction = false;
		s->applied = 0;
	}
	if (!s->in_transaction && s->applied < s->nops) {
		sqlite3_stmt *begin = store_cached(s, "BEGIN");

		s->in_transaction = sqlite3_step(begin) == SQLITE_DONE;
		sqlite3_reset(begin);
		rc = s->in_transaction ? 0 : store_fail(s);
	}
	while (rc == 0 && s->applied < s->nops) {
		const struct store_op *op = &s->ops[s->applied++];
		const size_t text = op->sql != NULL ? strlen(op->sql) + 1 : 0;

		if (text > 0)
			rc = run(s, store_cached(s, op->sql), s->bytes.data + op->at + text,
				 op->len - text);
	}
	if (rc < 0)
		store_roll_back(s);
	return rc;
}

/* ---- what the last process left ---- */

static int again(const void *p, size_t n, void *arg, struct err *err)
{
	struct store *s = arg;
	const char *sql = p;
	const size_t text = strnlen(sql, n);
	sqlite3_stmt *stmt = NULL;
	int rc;

	if (text == n || sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
		return err_set(err, schema_code(s->db), s->path,
			       "what was not yet in the database '%s' cannot be brought there: %s",
			       s->path, text == n ? "it is damaged" : sqlite3_errmsg(s->db));
	rc = run(s, stmt, sql + text + 1, n - text - 1);
	if (rc < 0)
		rc = err_set(err, schema_code(s->db), s->path, "%s", s->failed.message);
	sqlite3_finalize(stmt);
	return rc;
}

/* The last generation that the database took in, and whether it has tables yet. */
static int generation(struct store *s, uint64_t *n, bool *tables, struct err *err)
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
	/* No such table is SQLITE_ERROR; any other error leaves open what was taken in. */
	if (rc != SQLITE_ROW && rc != SQLITE_DONE && (rc != SQLITE_ERROR || *tables))
		rc = err_set(err, schema_code(s->db), s->path, "cannot read the database '%s': %s",
			     s->path, sqlite3_errmsg(s->db));
	else
		rc = 0;
	sqlite3_finalize(stmt);
	return rc;
}

int store_take_in(struct store *s)
{
	sqlite3_stmt *stmt = store_cached(s, "REPLACE INTO meta(key, value)"
					     " VALUES('generation', ?1)");
	const struct value v = {VALUE_INT, sizeof(int64_t)};
	const uint64_t n = redo_generation(s->redo);
	char bytes[sizeof(v) + sizeof(n)];

	memcpy(bytes, &v, sizeof(v));
	memcpy(bytes + sizeof(v), &n, sizeof(n));
	return run(s, stmt, bytes, sizeof(bytes));
}

static int cannot_write(struct store *s, struct err *err)
{
	return err_set(err, schema_code(s->db), s->path, "the database '%s' cannot be written: %s",
		       s->path, sqlite3_errmsg(s->db));
}

/* Part of what was written and reported is lost. */
static int damaged(struct store *s, const char *how, struct err *err)
{
	if (!s->lossy)
		return err_set(err, E_UNAVAILABLE, s->path,
			       "'%s-redo' %s, and with it what was not yet in the database; to go "
			       "on without that, start the server once with --accept-loss",
			       s->path, how);
	log_error("what was not yet in the database is lost in part", "database", s->path, "cause",
		  how);
	return 0;
}

static int found(const void *p, size_t n, void *arg, struct err *err)
{
	return 1;
}

int store_redo(struct store *s, struct err *err)
{
	const uint64_t left = redo_generation(s->redo);
	uint64_t last;
	bool tables;
	int rc = generation(s, &last, &tables, err);

	if (rc < 0)
		return rc;
	if (tables && left == last + 1) {
		rc = sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK
			     ? redo_each(s->redo, again, s, err)
			     : cannot_write(s, err);
		if (rc == -E_CONFLICT)
			rc = damaged(s, "is damaged", err);
		if (rc == 0 && (store_take_in(s) < 0 ||
				sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK))
			rc = cannot_write(s, err);
		if (rc < 0)
			sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	} else if (left > last && redo_each(s->redo, found, NULL, NULL) != 0 && tables)
		rc = damaged(s, "belongs to another state of the database", err);
	else if (left > last && redo_each(s->redo, found, NULL, NULL) != 0)
		log_error("what was to be added to the database belongs to another one, and is "
			  "lost",
			  "database", s->path);
	if (rc == 0)
		redo_begin(s->redo, (left > last ? left : last) + 1);
	return rc;
}

int store_follow(struct store *s, struct err *err)
{
	const uint64_t before = redo_generation(s->redo) - 1;
	char sql[96];
	uint64_t last;
	bool tables;
	const int rc = generation(s, &last, &tables, err);

	if (rc < 0 || last == before)
		return rc;
	sqlite3_snprintf(sizeof(sql), sql,
			 "REPLACE INTO meta(key, value) VALUES('generation', %lld)",
			 (long long)before);
	if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return cannot_write(s, err);
	return 0;
}
