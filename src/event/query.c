// SPDX-License-Identifier: Apache-2.0
#include "event/query.h"
#include "base/mem.h"
#include "base/yaml.h"

#define CHECK_EVERY 64	/* rows between two looks at the clock */
#define TYPES_MERGED 16 /* types that are read from an index, each in its own SELECT */
#define TIME_ROWS 10000 /* rows of a time range that is read through its index */

_Static_assert(EVENT_TYPE_COUNT <= 64, "a bit set of types is a uint64_t");

enum filter {
	BY_COMMAND = 1,
	BY_SESSION = 2,
	BY_AGENT = 4,
	BY_TYPE = 8,
	BY_FEW_TYPES = 16, /* with BY_TYPE */
	BY_DECISION = 32,  /* the effective one */
	BY_DENIAL = 64,	   /* with BY_DECISION */
	BY_RULE = 128,	   /* the decision of a rule */
	BY_TIME = 256,
	BY_SHORT_TIME = 512, /* with BY_TIME */
	WITHOUT_DENIED = 1024,
};

#define TIME "time_us >= :since AND time_us < :until"
#define SHORT_TIME "SELECT seq FROM events INDEXED BY events_time WHERE " TIME

/* The query uses the first row of which it has all filters. */
static const struct way {
	unsigned filters;
	const char *index, *where;
} ways[] = {
	{BY_COMMAND, " INDEXED BY events_command", "command_id = :command_id"},
	{BY_SHORT_TIME, "", "seq IN (" SHORT_TIME ")"},
	{BY_SESSION | BY_DENIAL, " INDEXED BY events_session_decision",
	 "session_id = :session_id AND decision = :decision"},
	{BY_SESSION | BY_FEW_TYPES, " INDEXED BY events_session_type", "session_id = :session_id"},
	{BY_SESSION | BY_DECISION, " INDEXED BY events_session_decision",
	 "session_id = :session_id AND decision = :decision"},
	{BY_SESSION, " INDEXED BY events_session", "session_id = :session_id"},
	{BY_DENIAL, " INDEXED BY events_decision", "decision = :decision"},
	{BY_FEW_TYPES, " INDEXED BY events_type", "1"},
	{BY_DECISION, " INDEXED BY events_decision", "decision = :decision"},
	{0, "", "1"},
};

/* Conditions on each row, unless the chosen way has checked them. */
static const struct {
	unsigned asked, seen;
	const char *text;
} parts[] = {
	{BY_COMMAND, BY_COMMAND, "command_id = :command_id"},
	{BY_SESSION, BY_SESSION, "session_id = :session_id"},
	{BY_AGENT, 0, "agent_id = :agent_id"},
	{BY_TIME, BY_SHORT_TIME, TIME},
	{BY_DECISION, BY_DECISION | BY_DENIAL, "decision = :decision"},
	{WITHOUT_DENIED, 0, "decision IS NOT 'deny'"},
	{BY_RULE, 0, "policy_decision = :decision"},
};

struct query_walk {
	sqlite3 *db;
	const struct event_query *q;
	const struct query_budget *budget; /* or NULL */
	const struct way *way;
	struct buf rest; /* a condition; empty: every row matches */
	uint64_t looked; /* rows */
	int64_t end_us;
};

static int cannot_read(sqlite3 *db, struct err *err)
{
	return err_set(err, E_UNAVAILABLE, sqlite3_db_filename(db, "main"),
		       "the database cannot be read: %s", sqlite3_errmsg(db));
}

/* ---- the statement ---- */

static unsigned filters_of(const struct event_query *q)
{
	const bool denial = q->decision != NULL && strcmp(q->decision, "deny") == 0;
	const bool done = denial || (q->decision != NULL && strcmp(q->decision, "allow") == 0);
	const bool few = q->types != 0 && __builtin_popcountll(q->types) <= TYPES_MERGED;

	return (q->command_id != NULL ? BY_COMMAND : 0) | (q->session_id != NULL ? BY_SESSION : 0) |
	       (q->agent_id != NULL ? BY_AGENT : 0) | (q->types != 0 ? BY_TYPE : 0) |
	       (few ? BY_FEW_TYPES : 0) | (denial ? BY_DENIAL : 0) | (done ? BY_DECISION : 0) |
	       (q->decision != NULL && !done ? BY_RULE : 0) |
	       (q->since_us != 0 || q->until_us != 0 ? BY_TIME : 0) |
	       (q->without_denied ? WITHOUT_DENIED : 0);
}

static void choose_way(struct query_walk *w, unsigned filters)
{
	const char *before = "";

	w->way = ways;
	while ((w->way->filters & ~filters) != 0)
		w->way++;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if ((filters & parts[i].asked) != 0 && (w->way->filters & parts[i].seen) == 0) {
			buf_addf(&w->rest, "%s%s", before, parts[i].text);
			before = " AND ";
		}
	if ((filters & BY_TYPE) != 0 && (w->way->filters & BY_FEW_TYPES) == 0) {
		buf_addf(&w->rest, "%stype IN (", before);
		before = "";
		for (int t = 0; t < EVENT_TYPE_COUNT; t++)
			if (w->q->types >> t & 1) {
				buf_addf(&w->rest, "%s'%s'", before,
					 event_type_name((enum event_type)t));
				before = ",";
			}
		buf_adds(&w->rest, ")");
	}
}

/* One SELECT. The second column is what for a row that matches, and NULL for one that does not;
 * more columns follow it. */
static void add_select(const struct query_walk *w, const char *what, const char *more,
		       const char *type, struct buf *sql)
{
	buf_adds(sql, "SELECT seq, ");
	if (w->rest.len > 0)
		buf_addf(sql, "CASE WHEN %s THEN %s END%s", w->rest.data, what, more);
	else
		buf_addf(sql, "%s%s", what, more);
	buf_addf(sql, " FROM events%s WHERE %s AND seq > :after AND seq < :before", w->way->index,
		 w->way->where);
	if (type != NULL)
		buf_addf(sql, " AND type = '%s'", type);
}

/* Several types are merged: SQLite steps through one SELECT for each of them side by side. */
static void add_selects(const struct query_walk *w, const char *what, const char *more,
			struct buf *sql)
{
	const char *before = "";

	if ((w->way->filters & BY_FEW_TYPES) == 0) {
		add_select(w, what, more, NULL, sql);
		return;
	}
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (w->q->types >> t & 1) {
			buf_adds(sql, before);
			add_select(w, what, more, event_type_name((enum event_type)t), sql);
			before = " UNION ALL ";
		}
}

/* A parameter that the statement does not have is SQLITE_RANGE and changes nothing. */
static void bind_text(sqlite3_stmt *stmt, const char *name, const char *value)
{
	sqlite3_bind_text(stmt, sqlite3_bind_parameter_index(stmt, name), value, -1, SQLITE_STATIC);
}

static void bind_int(sqlite3_stmt *stmt, const char *name, int64_t value)
{
	sqlite3_bind_int64(stmt, sqlite3_bind_parameter_index(stmt, name), value);
}

static int prepare(const struct query_walk *w, const char *sql, sqlite3_stmt **stmt,
		   struct err *err)
{
	const struct event_query *q = w->q;

	if (sqlite3_prepare_v2(w->db, sql, -1, stmt, NULL) != SQLITE_OK)
		return cannot_read(w->db, err);
	bind_int(*stmt, ":after", q->after_seq < INT64_MAX ? (int64_t)q->after_seq : INT64_MAX);
	bind_int(*stmt, ":before", INT64_MAX);
	bind_text(*stmt, ":session_id", q->session_id);
	bind_text(*stmt, ":command_id", q->command_id);
	bind_text(*stmt, ":agent_id", q->agent_id);
	bind_text(*stmt, ":decision", q->decision);
	bind_int(*stmt, ":since", q->since_us);
	bind_int(*stmt, ":until", q->until_us != 0 ? q->until_us : INT64_MAX);
	return 0;
}

/* Ends a statement; last is the result of its last step. */
static int finish(const struct query_walk *w, sqlite3_stmt *stmt, int last, struct err *err)
{
	const int rc = last == SQLITE_ROW || last == SQLITE_DONE ? 0 : cannot_read(w->db, err);

	sqlite3_finalize(stmt);
	return rc;
}

/* Whether the time range has so few rows that they are looked up one by one. */
static int is_short(const struct query_walk *w, bool *is, struct err *err)
{
	cleanup_buf struct buf sql = {0};
	sqlite3_stmt *stmt = NULL;
	int rc;

	buf_addf(&sql, "SELECT count(*) FROM (" SHORT_TIME " LIMIT %d)", TIME_ROWS + 1);
	rc = prepare(w, sql.data, &stmt, err);
	if (rc < 0)
		return rc;
	rc = sqlite3_step(stmt);
	*is = rc == SQLITE_ROW && sqlite3_column_int(stmt, 0) <= TIME_ROWS;
	return finish(w, stmt, rc, err);
}

/* ---- the rows ---- */

/* Counts one more row. */
static bool is_spent(struct query_walk *w)
{
	const struct query_budget *b = w->budget;

	w->looked++;
	if (b == NULL)
		return false;
	if (w->looked >= b->rows)
		return true;
	return w->looked % CHECK_EVERY == 0 &&
	       (clock_mono_us(&clock_system) >= w->end_us ||
		(b->cancelled != NULL && atomic_load(b->cancelled)));
}

/* Gives the rows of the page; sets all members of page besides those of the count. *full: the limit
 * is reached at page->next. */
static int give(struct query_walk *w, store_row_fn *fn, void *arg, struct event_page *page,
		bool *full, struct err *err)
{
	const size_t most = w->budget != NULL ? w->budget->bytes : SIZE_MAX;
	cleanup_buf struct buf sql = {0};
	sqlite3_stmt *stmt = NULL;
	size_t bytes = 0;
	unsigned given = 0;
	int rc;

	add_selects(w, "body", ", type", &sql);
	buf_addf(&sql, " ORDER BY seq%s", w->q->newest_first ? " DESC" : "");
	rc = prepare(w, sql.data, &stmt, err);
	if (rc < 0)
		return rc;
	page->skip = w->q->offset;
	while (!*full && !page->partial && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		page->next = (uint64_t)sqlite3_column_int64(stmt, 0);
		if (sqlite3_column_type(stmt, 1) != SQLITE_NULL) {
			const char *json = (const char *)sqlite3_column_text(stmt, 1);
			const size_t len = (size_t)sqlite3_column_bytes(stmt, 1);
			const int type =
				event_type_by_name((const char *)sqlite3_column_text(stmt, 2));

			page->total++;
			if (page->skip > 0) {
				page->skip--;
			} else {
				/* A newer version may have written types that this one lacks. */
				fn(page->next, type < 0 ? EVENT_unknown : (enum event_type)type,
				   json, len, arg);
				bytes += len;
				*full = ++given == w->q->limit;
			}
		}
		page->partial = !*full && (is_spent(w) || bytes > most);
	}
	page->total_exact = !*full && !page->partial;
	if (page->total_exact) /* all was seen */
		page->next = page->skip = 0;
	return finish(w, stmt, rc, err);
}

/* Counts the rows behind the last one that was given. */
static int count_rest(struct query_walk *w, struct event_page *page, struct err *err)
{
	const uint64_t given = page->total,
		       most = w->budget != NULL ? w->budget->counted : UINT64_MAX;
	cleanup_buf struct buf sql = {0};
	sqlite3_stmt *stmt = NULL;
	bool spent = false;
	int rc;

	add_selects(w, "1", "", &sql);
	rc = prepare(w, sql.data, &stmt, err);
	if (rc < 0)
		return rc;
	rc = SQLITE_ROW;
	bind_int(stmt, w->q->newest_first ? ":before" : ":after", (int64_t)page->next);
	while (!spent && page->total <= most && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		page->total += sqlite3_column_type(stmt, 1) != SQLITE_NULL;
		spent = is_spent(w);
	}
	page->total_exact = rc == SQLITE_DONE;
	if (page->total_exact && page->total == given)
		page->next = 0;
	if (!page->total_exact && page->total > most)
		page->total = given > most ? given : most;
	return finish(w, stmt, rc, err);
}

int query_run(sqlite3 *db, const struct event_query *q, const struct query_budget *budget,
	      bool count, store_row_fn *fn, void *arg, struct event_page *page, struct err *err)
{
	struct query_walk w = {.db = db, .q = q, .budget = budget};
	struct event_page got = {0};
	unsigned filters = filters_of(q);
	bool full = false, is = false;
	int rc = 0;

	if (budget != NULL)
		w.end_us = clock_mono_us(&clock_system) + budget->us;
	if ((filters & BY_TIME) != 0)
		rc = is_short(&w, &is, err);
	if (rc == 0) {
		choose_way(&w, filters | (is ? BY_SHORT_TIME : 0));
		rc = give(&w, fn, arg, &got, &full, err);
	}
	if (rc == 0 && full && count)
		rc = count_rest(&w, &got, err);
	if (rc == 0)
		*page = got;
	buf_done(&w.rest);
	return rc;
}

int event_types_parse(const char *s, uint64_t *types, struct err *err)
{
	static const char *const names[] = {
#define X(name, number, class) #name,
		EVENT_TYPES(X)
#undef X
			NULL};
	uint64_t set = 0;

	while (*s != '\0') {
		const size_t n = strcspn(s, ",");
		cleanup_free char *word = mem_strndup(s, n);
		const int t = event_type_by_name(word);

		if (t < 0 || (s[n] == ',' && s[n + 1] == '\0')) {
			const char *near = t < 0 ? yaml_suggest(word, names) : NULL;

			return err_set(err, E_BAD_REQUEST, "type", "unknown event type '%s'%s%s%s",
				       t < 0 ? word : "", near != NULL ? " (did you mean " : "",
				       near != NULL ? near : "", near != NULL ? "?)" : "");
		}
		set |= 1ULL << t;
		s += n + (s[n] == ',');
	}
	*types = set;
	return 0;
}
