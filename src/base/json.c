// SPDX-License-Identifier: Apache-2.0
/* json_parse checks the depth itself; jansson checks the rest. json_read goes over the table twice
 * and only checks in the first pass, so that a refused object leaves the struct as it was. */
#include "base/json.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>

#define MAX_DEPTH 64
#define PATH_LEN 128

/* Brackets inside strings do not count. */
static int check_depth(const char *text, size_t len, struct err *err)
{
	size_t line = 1, start = 0;
	bool string = false;
	unsigned depth = 0;

	for (size_t i = 0; i < len; i++) {
		const char c = text[i];

		if (c == '\n') {
			line++;
			start = i + 1;
		} else if (string && c == '\\') {
			i++;
		} else if (c == '"') {
			string = !string;
		} else if (!string && (c == '[' || c == '{')) {
			if (depth++ == MAX_DEPTH)
				return err_set(err, E_BAD_REQUEST, NULL,
					       "JSON at %zu:%zu: deeper than %d", line,
					       i - start + 1, MAX_DEPTH);
		} else if (!string && (c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return 0;
}

int json_parse(const char *text, size_t len, json_t **out, struct err *err)
{
	const int rc = check_depth(text, len, err);
	json_error_t e;
	json_t *root;

	if (rc < 0)
		return rc;
	root = json_loadb(text != NULL ? text : "", len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY,
			  &e);
	if (root == NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "JSON at %d:%d: %s", e.line, e.column,
			       json_error_code(&e) == json_error_null_character
				       ? "\\u0000 is not allowed"
				       : e.text);
	*out = root;
	return 0;
}

/* One pass over a table; path is the field being read, "a.b". */
struct pass {
	struct err *err;
	char path[PATH_LEN];
};

/* Reads value into at, or only checks it if at is NULL. */
typedef void read_fn(struct pass *p, const json_t *value, const struct json_field *row, void *at);

static void read_table(struct pass *p, const json_t *obj, const struct json_field *table,
		       char *out);

/* Appends to the path; returns its former length, where the caller cuts it afterwards. */
static size_t path_push(struct pass *p, const char *name)
{
	const size_t len = strlen(p->path);

	snprintf(p->path + len, sizeof(p->path) - len, "%s%s", len > 0 ? "." : "", name);
	return len;
}

static bool in_range(const struct json_field *row, int64_t v)
{
	return v >= row->min && v <= row->max;
}

static void read_str(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	const char *s = json_string_value(value);

	if (s == NULL)
		err_detail(p->err, p->path, "must be a string");
	else if (!in_range(row, (int64_t)json_string_length(value)))
		err_detail(p->err, p->path, "must have %" PRId64 " to %" PRId64 " bytes, has %zu",
			   row->min, row->max, json_string_length(value));
	else if (at != NULL) {
		free(*(char **)at);
		*(char **)at = mem_strdup(s);
	}
}

static void read_int(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	const int64_t v = json_integer_value(value);

	if (!json_is_integer(value))
		err_detail(p->err, p->path, "must be a whole number");
	else if (!in_range(row, v))
		err_detail(p->err, p->path, "must be %" PRId64 " to %" PRId64 ", is %" PRId64,
			   row->min, row->max, v);
	else if (at != NULL)
		*(int64_t *)at = v;
}

static void read_share(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	const char *s = json_string_value(value);
	int64_t v;

	if (s == NULL)
		read_int(p, value, row, at);
	else if (!json_share_parse(s, &v))
		err_detail(p->err, p->path, "must be a whole number or a share such as \"75%%\"");
	else if (at != NULL)
		*(int64_t *)at = v;
}

static void read_bool(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	if (!json_is_boolean(value))
		err_detail(p->err, p->path, "must be true or false");
	else if (at != NULL)
		*(bool *)at = json_is_true(value);
}

static void read_duration(struct pass *p, const json_t *value, const struct json_field *row,
			  void *at)
{
	const char *s = json_string_value(value);
	cleanup_buf struct buf min = {0}, max = {0};
	int64_t ms;

	if (s == NULL)
		err_detail(p->err, p->path, "must be a duration such as \"90s\" or \"5m\"");
	else if (json_duration_parse(s, &ms, NULL) < 0)
		err_detail(p->err, p->path, "not a duration: '%.64s'", s);
	else if (!in_range(row, ms)) {
		json_duration_format(&min, row->min);
		json_duration_format(&max, row->max);
		err_detail(p->err, p->path, "must be %s to %s", min.data, max.data);
	} else if (at != NULL)
		*(int64_t *)at = ms;
}

/* Both the count and the bytes are bounded, as in base/fields.h: a list that is accepted can be
 * packed. */
static void check_total(struct pass *p, const struct json_field *row, size_t count, size_t bytes)
{
	if ((int64_t)count > row->max || (int64_t)bytes > row->max)
		err_detail(p->err, p->path, "has more than %" PRId64 " bytes or items in all",
			   row->max);
}

/* Frees the former list and makes room for n strings; at NULL stays NULL. */
static struct strv *start_list(void *at, size_t n)
{
	struct strv *list = at;

	if (list == NULL)
		return NULL;
	strv_done(list);
	list->v = mem_alloc((n + 1) * sizeof(*list->v));
	return list;
}

/* An array of strings, or of ports as decimal strings. */
static void read_strv(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	const bool ports = row->kind == JSON_FIELD_PORTS;
	struct strv *list;
	size_t i, bytes = 0;
	json_t *item;

	if (!json_is_array(value)) {
		err_detail(p->err, p->path, "must be a list of %s", ports ? "ports" : "strings");
		return;
	}
	list = start_list(at, json_array_size(value));
	json_array_foreach(value, i, item)
	{
		const int64_t port = json_integer_value(item);

		bytes += json_string_length(item);
		if (ports ? port < 1 || port > 65535 : !json_is_string(item))
			err_detail(p->err, p->path, "item %zu must be a %s", i + 1,
				   ports ? "port, 1 to 65535" : "string");
		else if (list != NULL)
			list->v[list->n++] = ports ? mem_printf("%" PRId64, port)
						   : mem_strdup(json_string_value(item));
	}
	check_total(p, row, json_array_size(value), bytes);
}

static void read_env(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	struct strv *list;
	const char *name;
	size_t bytes = 0;
	json_t *item;

	if (!json_is_object(value)) {
		err_detail(p->err, p->path, "must be an object of strings");
		return;
	}
	list = start_list(at, json_object_size(value));
	json_object_foreach((json_t *)(uintptr_t)value, name, item)
	{
		size_t len;

		bytes += strlen(name) + 1 + json_string_length(item);
		if (list != NULL) {
			list->v[list->n++] =
				json_is_null(item)
					? mem_strdup(name)
					: mem_printf("%s=%s", name, json_string_value(item));
			continue;
		}
		len = path_push(p, name);
		if (name[0] == '\0' || strchr(name, '=') != NULL)
			err_detail(p->err, p->path, "not the name of a variable: '%.64s'", name);
		if (!json_is_string(item) &&
		    !(row->kind == JSON_FIELD_ENV_EDIT && json_is_null(item)))
			err_detail(p->err, p->path, "must be a string");
		p->path[len] = '\0';
	}
	check_total(p, row, json_object_size(value), bytes);
}

static void read_obj(struct pass *p, const json_t *value, const struct json_field *row, void *at)
{
	if (json_is_object(value))
		read_table(p, value, row->sub, at);
	else
		err_detail(p->err, p->path, "must be an object");
}

static read_fn *const readers[] = {
	[JSON_FIELD_STR] = read_str,	 [JSON_FIELD_INT] = read_int,
	[JSON_FIELD_BOOL] = read_bool,	 [JSON_FIELD_DURATION] = read_duration,
	[JSON_FIELD_STRV] = read_strv,	 [JSON_FIELD_ENV] = read_env,
	[JSON_FIELD_PORTS] = read_strv,	 [JSON_FIELD_OBJ] = read_obj,
	[JSON_FIELD_ANY] = NULL,	 [JSON_FIELD_ENV_EDIT] = read_env,
	[JSON_FIELD_SHARE] = read_share,
};

/* out NULL: only checks. obj is an object. */
static void read_table(struct pass *p, const json_t *obj, const struct json_field *table, char *out)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)obj, name, value)
	{
		const struct json_field *row = table;
		const size_t len = path_push(p, name);

		while (row->name != NULL && strcmp(row->name, name) != 0)
			row++;
		if (row->name == NULL) {
			err_detail(p->err, p->path, "unknown key");
		} else if (!json_is_null(value)) {
			if (readers[row->kind] != NULL)
				readers[row->kind](p, value, row,
						   out != NULL ? out + row->offset : NULL);
			if (out != NULL && row->seen != 0)
				*(bool *)(out + row->seen) = true;
		}
		p->path[len] = '\0';
	}
}

int json_read(const json_t *obj, const struct json_field *table, void *out, struct err *err)
{
	struct err own = {0};
	struct pass p = {.err = err != NULL ? err : &own};
	const unsigned before = p.err->ndetails;

	if (!json_is_object(obj))
		return err_set(err, E_BAD_REQUEST, NULL, "must be a JSON object");
	read_table(&p, obj, table, NULL);
	if (p.err->ndetails > before)
		return err_from_details(p.err, NULL);
	read_table(&p, obj, table, out);
	return 0;
}

void json_read_done(const struct json_field *table, void *out)
{
	for (; table->name != NULL; table++) {
		char *at = (char *)out + table->offset;

		switch (table->kind) {
		case JSON_FIELD_STR:
			free(*(char **)at);
			*(char **)at = NULL;
			break;
		case JSON_FIELD_STRV:
		case JSON_FIELD_ENV:
		case JSON_FIELD_ENV_EDIT:
		case JSON_FIELD_PORTS:
			strv_done((struct strv *)at);
			break;
		case JSON_FIELD_OBJ:
			json_read_done(table->sub, at);
			break;
		default:
			break;
		}
	}
}
