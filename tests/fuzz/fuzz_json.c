// SPDX-License-Identifier: Apache-2.0
/* A request's body: parsed, read by a table with every kind of field, its strings written again. */
#include "base/json.h"
#include "base/mem.h"

struct limits {
	int64_t pids, timeout_ms;
};
struct request {
	char *name;
	int64_t count, idle_ms;
	bool flag, seen;
	struct strv args, env, ports;
	struct limits limits;
};
static const struct json_field limit_rows[] = {
	{"pids_max", JSON_FIELD_INT, offsetof(struct limits, pids), 1, 100, NULL, 0},
	{"timeout", JSON_FIELD_DURATION, offsetof(struct limits, timeout_ms), 1, INT64_MAX, NULL,
	 0},
	{0},
};
static const struct json_field rows[] = {
	{"name", JSON_FIELD_STR, offsetof(struct request, name), 1, 32, NULL, 0},
	{"count", JSON_FIELD_INT, offsetof(struct request, count), -5, 5, NULL,
	 offsetof(struct request, seen)},
	{"flag", JSON_FIELD_BOOL, offsetof(struct request, flag), 0, 0, NULL, 0},
	{"idle", JSON_FIELD_DURATION, offsetof(struct request, idle_ms), 0, 86400000, NULL, 0},
	{"args", JSON_FIELD_STRV, offsetof(struct request, args), 0, 256, NULL, 0},
	{"env", JSON_FIELD_ENV, offsetof(struct request, env), 0, 256, NULL, 0},
	{"ports", JSON_FIELD_PORTS, offsetof(struct request, ports), 0, 0, NULL, 0},
	{"limits", JSON_FIELD_OBJ, offsetof(struct request, limits), 0, 0, limit_rows, 0},
	{"any", JSON_FIELD_ANY, 0, 0, 0, NULL, 0},
	{0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the bytes, what the writer makes of them is JSON. */
static void write_again(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf out = {0}, raw = {0};
	struct jw w = JW(&out);
	json_t *again = NULL;

	ensure(json_text_cut(data, size) <= size);
	jw_arr(&w);
	if (strcmp(jw_data(&w, data, size), "base64") == 0) {
		ensure(json_unbase64(&raw, out.data + 2, out.len - 3, NULL) == 0);
		ensure(raw.len == size && memcmp(raw.data, data, size) == 0);
	}
	json_unbase64(&raw, (const char *)data, size, NULL);
	jw_strn(&w, (const char *)data, memchr(data, 0, size) == NULL ? size : 0);
	jw_arr_end(&w);
	ensure(json_parse(out.data, out.len, &again, NULL) == 0);
	json_decref(again);
}

static void read_list_again(const struct request *w)
{
	int64_t ms = -1;
	cleanup_buf struct buf text = {0};

	ensure(w->count >= -5 && w->count <= 5);
	ensure(w->args.n <= 256 && w->env.n <= 256);
	json_duration_format(&text, w->limits.timeout_ms);
	ensure(json_duration_parse(text.data, &ms, NULL) == 0 && ms == w->limits.timeout_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request w = {0};
	struct err err = {0};
	json_t *root = NULL;

	if (size > 0)
		write_again(data, size);
	if (json_parse((const char *)data, size, &root, &err) < 0) {
		ensure(root == NULL && err.code == E_BAD_REQUEST);
		return 0;
	}
	if (json_read(root, rows, &w, &err) == 0)
		read_list_again(&w);
	json_read_done(rows, &w);
	json_decref(root);
	return 0;
}
