// SPDX-License-Identifier: Apache-2.0
/* Writes are carried out: by statements that stay prepared, in transactions of one batch, and at a
 * start from the redo files.
 *
 * The connection has one user at a time: the writer's thread from the hand-over of a batch to its
 * end, else the loop. */
#include "base/log.h"
#include "base/mem.h"
#include "event/schema.h"
#include "event/store_state.h"

/* Notes why the database cannot be written. */
static int fail(struct store *s)
{
	return err_set(&s->why, E_UNAVAILABLE, s->path, "%s",
		       sqlite3_errcode(s->db) != SQLITE_OK ? sqlite3_errmsg(s->db)
							   : "the transaction was rolled back");
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
void store_roll_back(struct store *s)
{
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	s->in_transaction = false;
	s->sent.applied = 0;
	/* Only a read carries these out: then the loop has the connection. */
	if (s->now.applied > 0)
		s->now.applied = 0;
}

/* Carries out the waiting writes of a batch in a transaction, and begins one if none is open. */
static int apply(struct store *s, struct store_batch *b)
{
	int rc = 0;

	if (!s->in_transaction && b->applied < b->nops) {
		rc = step(s, cached(s, "BEGIN"));
		s->in_transaction = rc == 0;
	}
	while (rc == 0 && b->applied < b->nops) {
		const struct store_op *op = &b->ops[b->applied++];
		const size_t text = op->sql != NULL ? strlen(op->sql) + 1 : 0;

		if (text > 0)
			rc = run(s, cached(s, op->sql), b->bytes.data + op->at + text,
				 op->len - text);
	}
	return rc;
}

/* SQLite also rolls back when a read meets an I/O error. */
static void check_transaction(struct store *s)
{
	if (s->in_transaction && sqlite3_get_autocommit(s->db))
		store_roll_back(s);
}

void store_apply(struct store *s)
{
	int rc;

	store_settle(s);
	check_transaction(s);
	rc = apply(s, &s->sent);
	if (rc == 0)
		rc = apply(s, &s->now);
	if (rc < 0) {
		store_roll_back(s);
		store_note_failure(s);
	}
}

int store_write(struct store *s)
{
	sqlite3_stmt *commit = cached(s, "COMMIT");
	int rc;

	check_transaction(s);
	rc = apply(s, &s->sent);
	if (rc == 0)
		rc = store_set_generation(s, redo_generation(s->sent.redo));
	if (rc == 0)
		rc = step(s, commit);
	if (rc < 0)
		store_roll_back(s);
	s->in_transaction = false;
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

int store_set_generation(struct store *s, uint64_t n)
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
		rc = err_set(err, schema_code(s->db), s->path, "the database cannot be written: %s",
			     s->why.message);
	sqlite3_finalize(stmt);
	return rc;
}

static int found(const void *p, size_t n, void *arg, struct err *err)
{
	return 1;
}

/* Part of what was written and reported is lost. */
static int damaged(struct store *s, const struct redo *r, const char *how, struct err *err)
{
	if (!s->lossy)
		return err_set(err, E_UNAVAILABLE, s->path,
			       "'%s' %s, and with it the last writes; to go on without "
			       "them, start the server once with --accept-loss",
			       redo_path(r), how);
	log_error("the last writes to the database are lost in part", "database", s->path, "cause",
		  how);
	return 0;
}

/* Carries out one file. *whole: it was not damaged. */
static int replay_file(struct store *s, const struct redo *r, bool *whole, struct err *err)
{
	int rc = sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK
			 ? redo_each(r, run_again, s, err)
			 : schema_failed(s->db, s->path, "write", err);

	*whole = rc == 0;
	if (rc == -E_CONFLICT)
		rc = damaged(s, r, "is damaged", err);
	if (rc == 0 && (store_set_generation(s, redo_generation(r)) < 0 ||
			sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK))
		rc = schema_failed(s->db, s->path, "write", err);
	if (rc < 0)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

/* The file of a generation, if it has records; 0: of any that is newer than after. */
static const struct redo *find_file(const struct store *s, uint64_t generation, uint64_t after)
{
	const struct redo *files[] = {s->now.redo, s->sent.redo};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		const uint64_t n = redo_generation(files[i]);

		if ((generation != 0 ? n == generation : n > after) &&
		    redo_each(files[i], found, NULL, NULL) != 0)
			return files[i];
	}
	return NULL;
}

int store_replay(struct store *s, struct err *err)
{
	uint64_t newest = redo_generation(s->now.redo), last;
	const struct redo *r;
	bool tables, whole = true;
	int rc = get_generation(s, &last, &tables, err);

	if (redo_generation(s->sent.redo) > newest)
		newest = redo_generation(s->sent.redo);
	while (rc == 0 && tables && whole && (r = find_file(s, last + 1, 0)) != NULL) {
		rc = replay_file(s, r, &whole, err);
		last++;
	}
	/* The loss of a damaged file has been accepted with all that followed it. */
	if (rc == 0 && whole && (r = find_file(s, 0, last)) != NULL) {
		if (tables)
			rc = damaged(s, r, "belongs to another state of the database", err);
		else
			log_error("the writes in the redo file belong to another database, and "
				  "are lost",
				  "database", s->path);
	}
	if (rc < 0)
		return rc;
	redo_begin(s->now.redo, (newest > last ? newest : last) + 1);
	redo_begin(s->sent.redo, 0);
	return 0;
}
