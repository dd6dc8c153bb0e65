// SPDX-License-Identifier: Apache-2.0
/* Reading events back on the loop, the check of the chain, names of types. */
#include "base/mem.h"
#include "base/yaml.h"
#include "event/query.h"
#include "event/store_state.h"

int store_query(struct store *s, const struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total, struct err *err)
{
	struct event_page page;
	int rc;

	store_apply(s);
	rc = query_run(s->db, q, NULL, total != NULL, fn, arg, &page, err);
	if (rc == 0 && total != NULL)
		*total = page.total;
	return rc;
}

int store_verify(struct store *s, uint64_t *bad, struct err *err)
{
	sqlite3_stmt *stmt = store_stmt(s, "SELECT seq, body, hash FROM events ORDER BY seq");
	uint8_t hash[HASH_LEN] = {0};
	uint64_t seq = 0, wrong = 0;
	int rc = SQLITE_ROW;

	while (wrong == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const void *body = sqlite3_column_blob(stmt, 1);
		const void *stored = sqlite3_column_blob(stmt, 2);

		hash_sha256(hash, hash, HASH_LEN, body, (size_t)sqlite3_column_bytes(stmt, 1));
		seq++;
		if ((uint64_t)sqlite3_column_int64(stmt, 0) != seq ||
		    sqlite3_column_bytes(stmt, 2) != HASH_LEN ||
		    memcmp(hash, stored, HASH_LEN) != 0)
			wrong = seq;
	}
	sqlite3_reset(stmt);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return err_set(err, E_UNAVAILABLE, s->path, "the database cannot be read: %s",
			       sqlite3_errmsg(s->db));
	*bad = wrong;
	return 0;
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
