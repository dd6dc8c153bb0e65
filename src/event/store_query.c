// SPDX-License-Identifier: Apache-2.0
/* Reading events back: filters, the check of the chain, names of types. */
#include "base/mem.h"
#include "base/yaml.h"
#include "event/store_state.h"

_Static_assert(EVENT_TYPE_COUNT <= 64, "a bit set of types is a uint64_t");

/* " AND type IN ('exec','file_open')" */
static void add_types(struct buf *sql, uint64_t types)
{
	const char *before = " AND type IN ('";

	if (types == 0)
		return;
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (types >> t & 1) {
			buf_addf(sql, "%s%s", before, event_type_name((enum event_type)t));
			before = "','";
		}
	buf_adds(sql, "')");
}

/* One filter is the way in, the narrowest; "+" keeps the planner from the indexes of the others. */
static void add_where(struct buf *sql, const struct event_query *q)
{
	const bool command = q->command_id != NULL, session = q->session_id != NULL;
	const bool done = q->decision != NULL &&
			  (strcmp(q->decision, "allow") == 0 || strcmp(q->decision, "deny") == 0);
	const struct {
		bool asked, other;
		const char *text;
	} part[] = {
		{command, false, "command_id = :command_id"},
		{session, command, "session_id = :session_id"},
		{q->agent_id != NULL, false, "agent_id = :agent_id"},
		{done, false, "decision = :decision"},
		{q->decision != NULL && !done, false,
		 "instr(body, '\"decision\":\"' || :decision || '\",\"effective_decision\"') > 0"},
		{q->since_us != 0, command || session, "time_us >= :since"},
		{q->until_us != 0, command || session, "time_us < :until"},
	};

	buf_adds(sql, " WHERE seq > :after");
	for (size_t i = 0; i < ARRAY_LEN(part); i++)
		if (part[i].asked)
			buf_addf(sql, " AND %s%s", part[i].other ? "+" : "", part[i].text);
	add_types(sql, q->types);
}

static void bind_text(sqlite3_stmt *stmt, const char *name, const char *value)
{
	const int i = sqlite3_bind_parameter_index(stmt, name);

	if (i > 0)
		sqlite3_bind_text(stmt, i, value, -1, SQLITE_STATIC);
}

static void bind_int(sqlite3_stmt *stmt, const char *name, int64_t value)
{
	const int i = sqlite3_bind_parameter_index(stmt, name);

	if (i > 0)
		sqlite3_bind_int64(stmt, i, value);
}

static int prepare(struct store *s, const struct event_query *q, const char *sql,
		   sqlite3_stmt **stmt, struct err *err)
{
	if (sqlite3_prepare_v2(s->db, sql, -1, stmt, NULL) != SQLITE_OK)
		return err_set(err, E_UNAVAILABLE, s->path, "the database cannot be read: %s",
			       sqlite3_errmsg(s->db));
	bind_int(*stmt, ":after", q->after_seq < INT64_MAX ? (int64_t)q->after_seq : INT64_MAX);
	bind_text(*stmt, ":session_id", q->session_id);
	bind_text(*stmt, ":command_id", q->command_id);
	bind_text(*stmt, ":agent_id", q->agent_id);
	bind_text(*stmt, ":decision", q->decision);
	bind_int(*stmt, ":since", q->since_us);
	bind_int(*stmt, ":until", q->until_us);
	bind_int(*stmt, ":limit", q->limit != 0 ? (int64_t)q->limit : -1);
	bind_int(*stmt, ":offset", q->offset);
	return 0;
}

/* Steps to the end with fn for each row; finalizes. */
static int each(struct store *s, sqlite3_stmt *stmt, store_row_fn *fn, void *arg, struct err *err)
{
	int rc;

	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
		fn((uint64_t)sqlite3_column_int64(stmt, 0),
		   (const char *)sqlite3_column_text(stmt, 1),
		   (size_t)sqlite3_column_bytes(stmt, 1), arg);
	rc = rc == SQLITE_DONE ? 0
			       : err_set(err, E_UNAVAILABLE, s->path,
					 "the database cannot be read: %s", sqlite3_errmsg(s->db));
	sqlite3_finalize(stmt);
	return rc;
}

static void take_count(uint64_t n, const char *json, size_t len, void *arg)
{
	*(uint64_t *)arg = n;
}

int store_query(struct store *s, const struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total, struct err *err)
{
	cleanup_buf struct buf where = {0}, sql = {0};
	sqlite3_stmt *stmt = NULL;
	uint64_t n = 0;
	int rc = 0;

	store_apply(s);
	add_where(&where, q);
	if (total != NULL) {
		buf_addf(&sql, "SELECT count(*), '' FROM events%s", where.data);
		rc = prepare(s, q, sql.data, &stmt, err);
		if (rc == 0)
			rc = each(s, stmt, take_count, &n, err);
	}
	if (rc < 0)
		return rc;
	buf_clear(&sql);
	buf_addf(&sql, "SELECT seq, body FROM events%s ORDER BY seq%s LIMIT :limit OFFSET :offset",
		 where.data, q->newest_first ? " DESC" : "");
	rc = prepare(s, q, sql.data, &stmt, err);
	if (rc == 0)
		rc = each(s, stmt, fn, arg, err);
	if (rc == 0 && total != NULL)
		*total = n;
	return rc;
}

/* True if the row is what must follow the chain, which moves on. */
static bool follows(struct chain *chain, sqlite3_stmt *row)
{
	const uint64_t seq = (uint64_t)sqlite3_column_int64(row, 0);
	const void *body = sqlite3_column_blob(row, 1), *stored = sqlite3_column_blob(row, 2);
	const int len = sqlite3_column_bytes(row, 1), hash_len = sqlite3_column_bytes(row, 2);
	uint8_t hash[HASH_LEN];

	hash_sha256(hash, chain->hash, HASH_LEN, body, (size_t)len);
	chain->seq++;
	memcpy(chain->hash, hash, HASH_LEN);
	return seq == chain->seq && hash_len == HASH_LEN && memcmp(hash, stored, HASH_LEN) == 0;
}

int store_verify(struct store *s, uint64_t *bad, struct err *err)
{
	sqlite3_stmt *stmt = store_stmt(s, "SELECT seq, body, hash FROM events ORDER BY seq");
	struct chain chain = {0};
	uint64_t wrong = 0;
	int rc = SQLITE_ROW;

	while (wrong == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
		if (!follows(&chain, stmt))
			wrong = chain.seq;
	sqlite3_reset(stmt);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return err_set(err, E_UNAVAILABLE, s->path, "the database cannot be read: %s",
			       sqlite3_errmsg(s->db));
	*bad = wrong;
	return 0;
}

static int unknown_type(const char *word, struct err *err)
{
	static const char *const names[] = {
#define X(name) #name,
		EVENT_TYPES(X)
#undef X
			NULL};
	const char *close = yaml_suggest(word, names);

	if (close != NULL)
		return err_set(err, E_BAD_REQUEST, "type",
			       "unknown event type '%s' (did you mean %s?)", word, close);
	return err_set(err, E_BAD_REQUEST, "type", "unknown event type '%s'", word);
}

int event_types_parse(const char *s, uint64_t *types, struct err *err)
{
	uint64_t set = 0;

	while (*s != '\0') {
		const size_t n = strcspn(s, ",");
		cleanup_free char *word = mem_strndup(s, n);
		const int t = event_type_by_name(word);

		if (t < 0 || (s[n] == ',' && s[n + 1] == '\0'))
			return unknown_type(t < 0 ? word : "", err);
		set |= 1ULL << t;
		s += n + (s[n] == ',');
	}
	*types = set;
	return 0;
}
