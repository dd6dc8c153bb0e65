// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/record_testkit.h"

char *kit_at(const struct buf *json, const char *path)
{
	cleanup_free char *copy = mem_strdup(path);
	json_t *doc = NULL;
	const json_t *at;
	char *save = NULL, *text;

	assert_non_null(json->data);
	assert_int_equal(json_parse(json->data, json->len, &doc, NULL), 0);
	at = doc;
	for (char *key = strtok_r(copy, ".", &save); key != NULL; key = strtok_r(NULL, ".", &save))
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key))
				       : json_object_get(at, key);
	if (at == NULL)
		fail_msg("no %s in %s", path, json->data);
	if (json_is_string(at)) {
		text = mem_strdup(json_string_value(at));
	} else {
		char *dumped = json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT);

		text = mem_strdup(dumped);
		free(dumped);
	}
	json_decref(doc);
	return text;
}

static void kit_list_event(uint64_t seq, enum event_type type, const char *json, size_t len,
			   void *arg)
{
	const struct buf one = {.data = (char *)json, .len = len};
	struct buf *out = arg;

	if (out->len > 0)
		buf_addc(out, ' ');
	buf_adds(out, event_type_name(type));
	if (type == EVENT_session_state) {
		cleanup_free char *to = kit_at(&one, "state.to");

		buf_addf(out, ":%s", to);
	}
}

char *kit_events(struct kit *k, const char *session)
{
	const struct event_query q = {.session_id = session};
	struct buf out = {0};
	struct err err = {0};

	assert_int_equal(store_query(k->store, &q, kit_list_event, &out, NULL, &err), 0);
	return buf_take(&out);
}

char *kit_row(struct kit *k, const char *id, const char *sql)
{
	sqlite3_stmt *st = store_stmt(k->store, sql);
	char *text;

	sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	text = mem_strdup((const char *)sqlite3_column_text(st, 0));
	sqlite3_reset(st);
	return text;
}

struct buf kit_command_record(struct kit *k, const char *id)
{
	struct buf b = {0};
	struct command *c = NULL;

	assert_int_equal(command_get(k->ss, &k->who, NULL, id, &c, NULL), 0);
	command_format(c, &JW(&b));
	return b;
}

struct buf kit_command_answer(struct kit *k, const char *id)
{
	struct buf b = {0};
	struct command *c = NULL;

	assert_int_equal(command_get(k->ss, &k->who, NULL, id, &c, NULL), 0);
	command_format_answer(c, NULL, &JW(&b));
	return b;
}

struct buf kit_session_record(struct kit *k, const char *id)
{
	struct buf b = {0};

	session_format(kit_get(k, id), &JW(&b));
	return b;
}
