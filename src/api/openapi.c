// SPDX-License-Identifier: Apache-2.0
/* GET /openapi.json: the rows of methods.c and the tables of shapes as an OpenAPI 3.1 document. */
#include "api/handlers.h"
#include "base/mem.h"
#include <ctype.h>

#define ID_PATTERN "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define NUMBER_PATTERN "^[0-9]{1,19}$"
#define DURATION_PATTERN "^(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
#define JSON_TYPE "application/json"

/* ---- schemas ---- */

static json_t *type_of(const char *type, bool nullable)
{
	return nullable ? json_pack("[s,s]", type, "null") : json_string(type);
}

static json_t *reference(const char *name)
{
	return json_pack("{s:s+}", "$ref", "#/components/schemas/", name);
}

static json_t *fields(const struct json_field *row, const char *required);

/* null means "not given" everywhere. */
static json_t *field(const struct json_field *row)
{
	switch (row->kind) {
	case JSON_FIELD_STR:
		return json_pack("{s:o,s:i,s:I}", "type", type_of("string", true), "minLength",
				 row->min > 0, "maxLength", (json_int_t)row->max);
	case JSON_FIELD_INT:
		return json_pack("{s:o,s:I,s:I}", "type", type_of("integer", true), "minimum",
				 (json_int_t)row->min, "maximum", (json_int_t)row->max);
	case JSON_FIELD_SHARE: /* a number, or a part of the machine */
		return json_pack("{s:[s,s,s],s:I,s:I,s:s}", "type", "integer", "string", "null",
				 "minimum", (json_int_t)row->min, "maximum", (json_int_t)row->max,
				 "pattern", "^([1-9][0-9]?|100)%$");
	case JSON_FIELD_DURATION:
		return json_pack("{s:o,s:s}", "type", type_of("string", true), "pattern",
				 DURATION_PATTERN);
	case JSON_FIELD_STRV:
		return json_pack("{s:o,s:{s:s}}", "type", type_of("array", true), "items", "type",
				 "string");
	case JSON_FIELD_PORTS:
		return json_pack("{s:o,s:{s:s,s:i,s:i}}", "type", type_of("array", true), "items",
				 "type", "integer", "minimum", 1, "maximum", 65535);
	case JSON_FIELD_ENV:
	case JSON_FIELD_ENV_EDIT:
		return json_pack("{s:o,s:{s:o}}", "type", type_of("object", true),
				 "additionalProperties", "type",
				 type_of("string", row->kind == JSON_FIELD_ENV_EDIT));
	case JSON_FIELD_OBJ: {
		json_t *obj = fields(row->sub, NULL);

		json_object_set_new(obj, "type", type_of("object", true));
		return obj;
	}
	case JSON_FIELD_BOOL:
	case JSON_FIELD_ANY:
		break;
	}
	return json_pack("{s:o}", "type", type_of("boolean", true));
}

/* Keys that exist only to be refused by name are left out. */
static json_t *fields(const struct json_field *row, const char *required)
{
	json_t *all = json_object();

	for (; row->name != NULL; row++)
		if (row->kind != JSON_FIELD_ANY)
			json_object_set_new(all, row->name, field(row));
	return json_pack("{s:s,s:o,s:o*,s:b}", "type", "object", "properties", all, "required",
			 required != NULL ? json_pack("[s]", required) : NULL,
			 "additionalProperties", false);
}

static json_t *shape_rows(const struct shape_row *rows);

/* Words, or names. */
static json_t *choices(const struct shape_row *row)
{
	json_t *list = json_array();
	const char *name;

	for (unsigned i = 0; row->of != NULL && (name = row->of(i)) != NULL; i++)
		json_array_append_new(list, json_string(name));
	for (const char *s = row->words; s != NULL && *s != '\0'; s += strspn(s, " ")) {
		json_array_append_new(list, json_stringn(s, strcspn(s, " ")));
		s += strcspn(s, " ");
	}
	return json_pack("{s:s,s:o}", "type", "string", "enum", list);
}

static json_t *plain(const struct shape_row *row)
{
	static const struct {
		const char *type, *key, *value;
	} kinds[SHAPE_KINDS] = {
		[SHAPE_STR] = {"string"},
		[SHAPE_ID] = {"string", "pattern", ID_PATTERN},
		[SHAPE_TIME] = {"string", "format", "date-time"},
		[SHAPE_DURATION] = {"string", "pattern", DURATION_PATTERN},
		[SHAPE_INT] = {"integer"},
		[SHAPE_NUM] = {"number"},
		[SHAPE_BOOL] = {"boolean"},
	};
	json_t *v = json_pack("{s:o}", "type",
			      type_of(kinds[row->kind].type, (row->flags & SHAPE_NULL) != 0));

	if (kinds[row->kind].key != NULL)
		json_object_set_new(v, kinds[row->kind].key, json_string(kinds[row->kind].value));
	return v;
}

/* The schema of one value. A reference cannot be nullable by itself. */
static json_t *value(const struct shape_row *row)
{
	switch (row->kind) {
	case SHAPE_OBJ:
		if (row->shape->name == NULL)
			return shape_rows(row->shape->rows);
		if ((row->flags & SHAPE_NULL) == 0)
			return reference(row->shape->name);
		return json_pack("{s:[o,{s:s}]}", "anyOf", reference(row->shape->name), "type",
				 "null");
	case SHAPE_REQUEST:
		return fields(row->request, NULL);
	case SHAPE_MAP:
		return json_pack("{s:s,s:{s:s}}", "type", "object", "additionalProperties", "type",
				 "string");
	case SHAPE_WORD:
	case SHAPE_NAME:
		return choices(row);
	default:
		return plain(row);
	}
}

static json_t *shape_rows(const struct shape_row *rows)
{
	json_t *all = json_object(), *required = json_array();

	for (const struct shape_row *row = rows; row->name != NULL; row++) {
		json_t *v = value(row);

		if ((row->flags & SHAPE_LIST) != 0)
			v = json_pack("{s:s,s:o}", "type", "array", "items", v);
		json_object_set_new(all, row->name, v);
		if ((row->flags & SHAPE_MAYBE) == 0)
			json_array_append_new(required, json_string(row->name));
	}
	return json_pack("{s:s,s:o,s:o}", "type", "object", "properties", all, "required",
			 required);
}

/* ---- operations ---- */

static void add_parameter(json_t *list, const char *name, size_t len, const char *in,
			  const char *pattern)
{
	json_array_append_new(list, json_pack("{s:s%,s:s,s:b,s:{s:s,s:s*}}", "name", name, len,
					      "in", in, "required", strcmp(in, "path") == 0,
					      "schema", "type", "string", "pattern", pattern));
}

static json_t *parameters(const struct method *m)
{
	json_t *list = json_array();

	for (const char *s = m->path; (s = strchr(s, '{')) != NULL; s++)
		add_parameter(list, s + 1, strcspn(s + 1, "}"), "path", ID_PATTERN);
	for (const char *s = m->params; *s != '\0'; s += strspn(s, " ")) {
		const size_t len = strcspn(s, " ");
		const bool number = (len == 5 && strncmp(s, "limit", 5) == 0) ||
				    (len == 6 && strncmp(s, "offset", 6) == 0);

		add_parameter(list, s, len, isupper((unsigned char)*s) ? "header" : "query",
			      number ? NUMBER_PATTERN : NULL);
		s += len;
	}
	add_parameter(list, "X-Request-Id", strlen("X-Request-Id"), "header", ID_PATTERN);
	return list;
}

/* shape NULL: no named shape. */
static json_t *content(const char *type, const char *shape)
{
	return json_pack("{s:{s:o}}", type, "schema",
			 shape != NULL
				 ? reference(shape)
				 : json_pack("{s:s}", "type",
					     strcmp(type, JSON_TYPE) == 0 ? "object" : "string"));
}

static void add_answers(json_t *all, const struct method *m)
{
	for (size_t i = 0; i < ARRAY_LEN(m->answers) && m->answers[i].status != 0; i++) {
		const struct shape_answer *a = &m->answers[i];
		const char *name = a->shape != NULL ? a->shape->name : NULL;
		cleanup_free char *status = mem_printf("%d", a->status);
		json_t *body = name != NULL || a->type != NULL
				       ? content(a->type != NULL ? a->type : JSON_TYPE, name)
				       : NULL;

		json_object_set_new(all, status,
				    json_pack("{s:s,s:o*}", "description",
					      name != NULL ? name : m->rpc, "content", body));
	}
}

static json_t *roles(unsigned set)
{
	json_t *list = json_array();

	for (unsigned bit = 0; set >> bit != 0; bit++)
		if ((set >> bit & 1) != 0)
			json_array_append_new(list, json_string(role_name((enum role)bit)));
	return list;
}

/* upgrade: the row for an upgrade of the request, or NULL. A credential is needed on TCP only: on
 * the unix socket the kernel identifies the caller. */
static json_t *operation(const struct method *m, const struct method *upgrade)
{
	static const char *const kinds[] = {"unary", "server stream", "bidirectional"};
	json_t *answers = json_object(), *body = NULL;

	add_answers(answers, m);
	if (upgrade != NULL)
		add_answers(answers, upgrade);
	json_object_set_new(answers, "default",
			    json_pack("{s:s}", "$ref", "#/components/responses/Error"));
	if (m->body != NULL)
		body = json_pack("{s:b,s:o}", "required", !m->body->optional, "content",
				 content(JSON_TYPE, m->body->name));
	return json_pack(
		"{s:s,s:o,s:o*,s:o,s:o,s:o,s:[s,s*],s:[s*,s*]}", "operationId", m->rpc,
		"parameters", parameters(m), "requestBody", body, "responses", answers, "security",
		m->roles != 0 ? json_pack("[{},{s:[]},{s:[]}]", "bearer", "key") : json_array(),
		"x-roles", roles(m->roles), "x-kinds", kinds[m->kind],
		upgrade != NULL ? kinds[upgrade->kind] : NULL, "x-listeners",
		(m->listeners & LISTENER_UNIX) != 0 ? "unix" : NULL,
		(m->listeners & LISTENER_TCP) != 0 ? "tcp" : NULL);
}

static void add_operation(json_t *paths, const char *path, const struct method *m,
			  const struct method *upgrade)
{
	json_t *at = json_object_get(paths, path);
	cleanup_free char *verb = mem_strdup(m->verb);

	for (char *c = verb; *c != '\0'; c++)
		*c = (char)(*c | 0x20);
	if (at == NULL)
		json_object_set_new(paths, path, at = json_object());
	json_object_set_new(at, verb, operation(m, upgrade));
}

/* The bidirectional row of a path stands right before the row that it upgrades. */
static json_t *operations(const struct api *api)
{
	json_t *paths = json_object();
	const struct method *upgrade = NULL;

	for (size_t i = 0; i < api->nmethods; i++) {
		const struct method *m = &api->methods[i];

		if (m->kind != BIDIRECTIONAL)
			add_operation(paths, m->path, m, upgrade);
		upgrade = m->kind == BIDIRECTIONAL ? m : NULL;
	}
	if (api->config.metrics_enabled)
		add_operation(paths, api->config.metrics_path, &api_metrics_method, NULL);
	return paths;
}

/* ---- the document ---- */

/* Adds the shape and the named shapes in it. */
static void add_schema(json_t *schemas, const struct shape *shape)
{
	if (shape->name != NULL && json_object_get(schemas, shape->name) != NULL)
		return;
	if (shape->name != NULL)
		json_object_set_new(schemas, shape->name, shape_rows(shape->rows));
	for (const struct shape_row *row = shape->rows; row->name != NULL; row++)
		if (row->kind == SHAPE_OBJ)
			add_schema(schemas, row->shape);
}

void api_openapi(struct call *call)
{
	const struct api *api = call->api;
	json_t *schemas = json_object(), *doc;
	char *text;

	add_schema(schemas, &shape_error);
	for (size_t i = 0; i < api->nmethods; i++) {
		const struct method *m = &api->methods[i];

		for (size_t k = 0; k < ARRAY_LEN(m->answers); k++)
			if (m->answers[k].shape != NULL)
				add_schema(schemas, m->answers[k].shape);
		if (m->body != NULL)
			json_object_set_new(schemas, m->body->name,
					    fields(m->body->fields, m->body->required));
	}
	doc = json_pack(
		"{s:s,s:{s:s,s:s},s:o,s:{s:o,s:{s:{s:s,s:o}},s:{s:{s:s,s:s},s:{s:s,s:s,s:s}}"
		"}}",
		"openapi", "3.1.0", "info", "title", "agentsh", "version", AGENTSH_VERSION, "paths",
		operations(api), "components", "schemas", schemas, "responses", "Error",
		"description", "What went wrong", "content", content(JSON_TYPE, shape_error.name),
		"securitySchemes", "bearer", "type", "http", "scheme", "bearer", "key", "type",
		"apiKey", "in", "header", "name", "X-API-Key");
	text = json_dumps(doc, JSON_COMPACT);
	ensure(text != NULL);
	buf_adds(&call->reply, text);
	free(text);
	json_decref(doc);
	call_reply(call, 200);
}
