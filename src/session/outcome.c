// SPDX-License-Identifier: Apache-2.0
/* What a command left, to JSON and back by one table. */
#include "session/outcome.h"

#define TEXT_MAX (64 * 1024)
#define LISTS_MAX (1024 * 1024)

#define STR(name)                                                                  \
	{                                                                          \
#name, JSON_FIELD_STR, offsetof(struct outcome, name), 0, TEXT_MAX \
	}
#define INT(name)                                                                   \
	{                                                                           \
#name, JSON_FIELD_INT, offsetof(struct outcome, name), 0, INT64_MAX \
	}
#define STRV(name)                                                                   \
	{                                                                            \
#name, JSON_FIELD_STRV, offsetof(struct outcome, name), 0, LISTS_MAX \
	}
static const struct json_field rows[] = {
	{"refused", JSON_FIELD_BOOL, offsetof(struct outcome, refused)},
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
	INT(duration_us),
	INT(cpu_us),
	INT(maxrss_kb),
	INT(read_bytes),
	INT(write_bytes),
	INT(stdout_kept),
	INT(stderr_kept),
	INT(file),
	INT(network),
	INT(exec),
	INT(blocked),
	{"net_connections", JSON_FIELD_INT, offsetof(struct outcome, net.connections), 0,
	 INT64_MAX},
	{"net_dns_queries", JSON_FIELD_INT, offsetof(struct outcome, net.dns_queries), 0,
	 INT64_MAX},
	{"net_sent", JSON_FIELD_INT, offsetof(struct outcome, net.sent), 0, INT64_MAX},
	{"net_received", JSON_FIELD_INT, offsetof(struct outcome, net.received), 0, INT64_MAX},
	{"net_blocked", JSON_FIELD_INT, offsetof(struct outcome, net.blocked), 0, INT64_MAX},
	{"net_destinations", JSON_FIELD_STRV, offsetof(struct outcome, net.destinations), 0,
	 LISTS_MAX},
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

void outcome_format(const struct outcome *o, struct buf *out)
{
	struct jw w = JW(out);

	jw_obj(&w);
	for (const struct json_field *row = rows; row->name != NULL; row++)
		format_field(row, (const char *)o + row->offset, &w);
	jw_obj_end(&w);
}

int outcome_parse(const char *json, struct outcome *o, struct err *err)
{
	json_t *doc = NULL;
	int r = json_parse(json, strlen(json), &doc, err);

	if (r < 0)
		return r;
	r = json_read(doc, rows, o, err);
	json_decref(doc);
	return r;
}
