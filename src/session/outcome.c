// SPDX-License-Identifier: Apache-2.0
/* What a command left, to JSON and back by one table. */
#include "session/outcome.h"
#include <string.h>

#define TEXT_MAX (64 * 1024)
#define LISTS_MAX (1024 * 1024)

#define ROW(name, kind, member, max)                                              \
	{                                                                         \
		name, JSON_FIELD_##kind, offsetof(struct outcome, member), 0, max \
	}
#define STR(member) ROW(#member, STR, member, TEXT_MAX)
#define STRV(member) ROW(#member, STRV, member, LISTS_MAX)
#define INT(name, member) ROW(name, INT, member, INT64_MAX)
static const struct json_field rows[] = {
	ROW("refused", BOOL, refused, 0),
	STR(error_code),
	STR(error_message),
	STR(error_path),
	STR(error_policy),
	STR(request_id),
	STRV(similar),
	STR(working_dir),
	STR(capture),
	STRV(env_changed),
	STRV(background),
	STRV(warnings),
	INT("duration_us", duration_us),
	INT("cpu_us", cpu_us),
	INT("maxrss_kb", maxrss_kb),
	INT("read_bytes", read_bytes),
	INT("write_bytes", write_bytes),
	INT("stdout_kept", extent[1].kept),
	INT("stderr_kept", extent[2].kept),
	INT("file", ops.seen[SEEN_FILE]),
	INT("network", ops.seen[SEEN_NETWORK]),
	INT("exec", ops.seen[SEEN_EXEC]),
	INT("blocked", ops.seen[SEEN_BLOCKED]),
	INT("file_read", ops.file_read),
	INT("file_written", ops.file_written),
	INT("net_connections", ops.net.connections),
	INT("net_dns_queries", ops.net.dns_queries),
	INT("net_sent", ops.net.sent),
	INT("net_received", ops.net.received),
	INT("net_blocked", ops.net.blocked),
	ROW("net_destinations", STRV, ops.net.destinations, LISTS_MAX),
	{NULL},
};

void outcome_done(struct outcome *o)
{
	json_read_done(rows, o);
	*o = (struct outcome){0};
}

/* Nothing and none are left out: they are what a reader gets for what is missing. */
static void format_field(const struct json_field *row, const void *at, struct jw *w)
{
	const struct strv *list = at;

	if (row->kind == JSON_FIELD_BOOL && *(const bool *)at)
		jw_kbool(w, row->name, true);
	if (row->kind == JSON_FIELD_STR && *(char *const *)at != NULL)
		jw_kstr(w, row->name, *(char *const *)at);
	if (row->kind == JSON_FIELD_INT && *(const int64_t *)at != 0)
		jw_kint(w, row->name, *(const int64_t *)at);
	if (row->kind == JSON_FIELD_STRV && list->n > 0)
		jw_kstrv(w, row->name, list);
}

void outcome_format(const void *outcome, struct buf *out)
{
	struct jw w = JW(out);

	jw_obj(&w);
	for (const struct json_field *row = rows; row->name != NULL; row++)
		format_field(row, (const char *)outcome + row->offset, &w);
	jw_obj_end(&w);
}

int outcome_parse(const char *json, void *outcome, struct err *err)
{
	json_t *doc = NULL;
	int r = json_parse(json, strlen(json), &doc, err);

	if (r < 0)
		return r;
	r = json_read(doc, rows, outcome, err);
	json_decref(doc);
	return r;
}
