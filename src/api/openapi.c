// SPDX-License-Identifier: Apache-2.0
/* GET /openapi.json: the rows of methods.c and the tables of shapes as an OpenAPI 3.1 document. */
#include "api/handlers.h"
#include "api/shape.h"
#include "base/mem.h"
#include <ctype.h>

#define ID_PATTERN "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
#define DURATION_PATTERN "^(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"
#define SCHEMA_REF "#/components/schemas/"

/* ---- schemas ---- */

static void write_type(struct jw *w, const char *type, bool nullable)
{
	jw_key(w, "type");
	if (!nullable) {
		jw_str(w, type);
		return;
	}
	jw_arr(w);
	jw_str(w, type);
	jw_str(w, "null");
	jw_arr_end(w);
}

static void write_ref(struct jw *w, const char *name)
{
	cleanup_free char *ref = mem_printf(SCHEMA_REF "%s", name);

	jw_kstr(w, "$ref", ref);
}

static void write_fields(struct jw *w, const struct json_field *row, const char *required);

static void write_items(struct jw *w, const char *type)
{
	jw_obj(w);
	jw_kstr(w, "type", type);
	jw_obj_end(w);
}

static void write_ports(struct jw *w)
{
	jw_key(w, "items");
	jw_obj(w);
	jw_kstr(w, "type", "integer");
	jw_kint(w, "minimum", 1);
	jw_kint(w, "maximum", 65535);
	jw_obj_end(w);
}

static void write_env(struct jw *w, bool removable)
{
	jw_key(w, "additionalProperties");
	jw_obj(w);
	write_type(w, "string", removable);
	jw_obj_end(w);
}

/* A number, or a part of the machine. */
static void write_share(struct jw *w, const struct json_field *row)
{
	jw_key(w, "type");
	jw_arr(w);
	jw_str(w, "integer");
	jw_str(w, "string");
	jw_str(w, "null");
	jw_arr_end(w);
	jw_kint(w, "minimum", row->min);
	jw_kint(w, "maximum", row->max);
	jw_kstr(w, "pattern", "^([1-9][0-9]?|100)%$");
}

/* null means "not given" everywhere. */
static void write_field(struct jw *w, const struct json_field *row)
{
	static const char *const types[] = {
		[JSON_FIELD_STR] = "string",	  [JSON_FIELD_INT] = "integer",
		[JSON_FIELD_BOOL] = "boolean",	  [JSON_FIELD_DURATION] = "string",
		[JSON_FIELD_STRV] = "array",	  [JSON_FIELD_ENV] = "object",
		[JSON_FIELD_PORTS] = "array",	  [JSON_FIELD_OBJ] = "object",
		[JSON_FIELD_ENV_EDIT] = "object",
	};

	if (row->kind == JSON_FIELD_SHARE) {
		write_share(w, row);
		return;
	}
	write_type(w, types[row->kind], true);
	if (row->kind == JSON_FIELD_STR) {
		jw_kint(w, "minLength", row->min > 0);
		jw_kint(w, "maxLength", row->max);
	} else if (row->kind == JSON_FIELD_INT) {
		jw_kint(w, "minimum", row->min);
		jw_kint(w, "maximum", row->max);
	} else if (row->kind == JSON_FIELD_DURATION) {
		jw_kstr(w, "pattern", DURATION_PATTERN);
	} else if (row->kind == JSON_FIELD_STRV) {
		jw_key(w, "items");
		write_items(w, "string");
	} else if (row->kind == JSON_FIELD_PORTS) {
		write_ports(w);
	} else if (row->kind == JSON_FIELD_OBJ) {
		write_fields(w, row->sub, NULL);
	} else if (row->kind != JSON_FIELD_BOOL) {
		write_env(w, row->kind == JSON_FIELD_ENV_EDIT);
	}
}

/* Keys that are only known to be refused by name are left out. */
static void write_fields(struct jw *w, const struct json_field *row, const char *required)
{
	jw_key(w, "properties");
	jw_obj(w);
	for (; row->name != NULL; row++) {
		if (row->kind == JSON_FIELD_ANY)
			continue;
		jw_key(w, row->name);
		jw_obj(w);
		write_field(w, row);
		jw_obj_end(w);
	}
	jw_obj_end(w);
	if (required != NULL) {
		jw_key(w, "required");
		jw_arr(w);
		jw_str(w, required);
		jw_arr_end(w);
	}
	jw_kbool(w, "additionalProperties", false);
}

static void write_rows(struct jw *w, const struct shape_row *rows);

/* Words, or names. */
static void write_choices(struct jw *w, const struct shape_row *row)
{
	const char *name;

	jw_kstr(w, "type", "string");
	jw_key(w, "enum");
	jw_arr(w);
	for (unsigned i = 0; row->of != NULL && (name = row->of(i)) != NULL; i++)
		jw_str(w, name);
	for (const char *s = row->words; s != NULL && *s != '\0'; s += strspn(s, " ")) {
		jw_strn(w, s, strcspn(s, " "));
		s += strcspn(s, " ");
	}
	jw_arr_end(w);
}

static void write_plain(struct jw *w, const struct shape_row *row)
{
	static const struct {
		const char *type, *key, *value;
	} plain[SHAPE_KINDS] = {
		[SHAPE_STR] = {"string"},
		[SHAPE_ID] = {"string", "pattern", ID_PATTERN},
		[SHAPE_TIME] = {"string", "format", "date-time"},
		[SHAPE_DURATION] = {"string", "pattern", DURATION_PATTERN},
		[SHAPE_INT] = {"integer"},
		[SHAPE_NUM] = {"number"},
		[SHAPE_BOOL] = {"boolean"},
	};

	write_type(w, plain[row->kind].type, (row->flags & SHAPE_NULL) != 0);
	if (plain[row->kind].key != NULL)
		jw_kstr(w, plain[row->kind].key, plain[row->kind].value);
}

/* The members of one value's schema. A reference cannot be nullable by itself. */
static void write_value(struct jw *w, const struct shape_row *row)
{
	const bool named = row->kind == SHAPE_OBJ && row->shape->name != NULL;

	if (named && (row->flags & SHAPE_NULL) != 0) {
		jw_key(w, "anyOf");
		jw_arr(w);
		jw_obj(w);
		write_ref(w, row->shape->name);
		jw_obj_end(w);
		write_items(w, "null");
		jw_arr_end(w);
	} else if (named) {
		write_ref(w, row->shape->name);
	} else if (row->kind == SHAPE_OBJ) {
		write_rows(w, row->shape->rows);
	} else if (row->kind == SHAPE_REQUEST) {
		jw_kstr(w, "type", "object");
		write_fields(w, row->request, NULL);
	} else if (row->kind == SHAPE_MAP) {
		jw_kstr(w, "type", "object");
		write_env(w, false);
	} else if (row->kind == SHAPE_WORD || row->kind == SHAPE_NAME) {
		write_choices(w, row);
	} else {
		write_plain(w, row);
	}
}

static void write_row(struct jw *w, const struct shape_row *row)
{
	jw_key(w, row->name);
	jw_obj(w);
	if ((row->flags & SHAPE_LIST) != 0) {
		jw_kstr(w, "type", "array");
		jw_key(w, "items");
		jw_obj(w);
	}
	write_value(w, row);
	if ((row->flags & SHAPE_LIST) != 0)
		jw_obj_end(w);
	jw_obj_end(w);
}

static void write_rows(struct jw *w, const struct shape_row *rows)
{
	jw_kstr(w, "type", "object");
	jw_key(w, "properties");
	jw_obj(w);
	for (const struct shape_row *row = rows; row->name != NULL; row++)
		write_row(w, row);
	jw_obj_end(w);
	jw_key(w, "required");
	jw_arr(w);
	for (const struct shape_row *row = rows; row->name != NULL; row++)
		if ((row->flags & SHAPE_MAYBE) == 0)
			jw_str(w, row->name);
	jw_arr_end(w);
}

/* ---- operations ---- */

static void write_parameter(struct jw *w, const char *name, const char *in, const char *pattern)
{
	jw_obj(w);
	jw_kstr(w, "name", name);
	jw_kstr(w, "in", in);
	jw_kbool(w, "required", strcmp(in, "path") == 0);
	jw_key(w, "schema");
	jw_obj(w);
	jw_kstr(w, "type", "string");
	if (pattern != NULL)
		jw_kstr(w, "pattern", pattern);
	jw_obj_end(w);
	jw_obj_end(w);
}

static void write_parameters(struct jw *w, const struct method *m)
{
	static const char *const numbers[] = {"limit", "offset"};

	jw_key(w, "parameters");
	jw_arr(w);
	for (const char *s = m->path; (s = strchr(s, '{')) != NULL; s++) {
		cleanup_free char *name = mem_strndup(s + 1, strcspn(s + 1, "}"));

		write_parameter(w, name, "path", ID_PATTERN);
	}
	for (const char *s = m->params; *s != '\0'; s += strspn(s, " ")) {
		cleanup_free char *name = mem_strndup(s, strcspn(s, " "));
		bool number = false;

		for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
			number |= strcmp(name, numbers[i]) == 0;
		write_parameter(w, name, isupper((unsigned char)*name) ? "header" : "query",
				number ? "^[0-9]{1,19}$" : NULL);
		s += strcspn(s, " ");
	}
	write_parameter(w, "X-Request-Id", "header", ID_PATTERN);
	jw_arr_end(w);
}

static void write_content(struct jw *w, const char *type, const char *schema)
{
	jw_key(w, "content");
	jw_obj(w);
	jw_key(w, type);
	jw_obj(w);
	jw_key(w, "schema");
	jw_obj(w);
	if (schema != NULL)
		write_ref(w, schema);
	else
		jw_kstr(w, "type", strcmp(type, "application/json") == 0 ? "object" : "string");
	jw_obj_end(w);
	jw_obj_end(w);
	jw_obj_end(w);
}

static void write_answers(struct jw *w, const struct method *m)
{
	for (size_t i = 0; i < ARRAY_LEN(m->answers) && m->answers[i].status != 0; i++) {
		const struct shape_answer *a = &m->answers[i];
		cleanup_free char *status = mem_printf("%d", a->status);

		jw_key(w, status);
		jw_obj(w);
		jw_kstr(w, "description", a->shape != NULL ? a->shape->name : m->rpc);
		if (a->shape != NULL || a->type != NULL)
			write_content(w, a->type != NULL ? a->type : "application/json",
				      a->shape != NULL ? a->shape->name : NULL);
		jw_obj_end(w);
	}
}

/* The row that an upgrade of this one's requests asks for, or NULL: one operation has both. */
static const struct method *upgrade_of(const struct api *api, const struct method *m)
{
	for (size_t i = 0; i < api->nmethods; i++)
		if (api->methods[i].kind == BIDIRECTIONAL &&
		    strcmp(m->verb, api->methods[i].verb) == 0 &&
		    strcmp(m->path, api->methods[i].path) == 0)
			return &api->methods[i];
	return NULL;
}

static void write_responses(struct jw *w, const struct method *m, const struct method *upgrade)
{
	jw_key(w, "responses");
	jw_obj(w);
	write_answers(w, m);
	if (upgrade != NULL)
		write_answers(w, upgrade);
	jw_key(w, "default");
	jw_obj(w);
	jw_kstr(w, "$ref", "#/components/responses/Error");
	jw_obj_end(w);
	jw_obj_end(w);
}

/* What OpenAPI has no word for. */
static void write_extensions(struct jw *w, const struct method *m, const struct method *upgrade)
{
	static const char *const kinds[] = {"unary", "server stream", "bidirectional"};
	static const char *const listeners[] = {"unix", "tcp"}; /* by bit */

	jw_key(w, "x-kinds");
	jw_arr(w);
	jw_str(w, kinds[m->kind]);
	if (upgrade != NULL)
		jw_str(w, kinds[upgrade->kind]);
	jw_arr_end(w);
	jw_key(w, "x-listeners");
	jw_arr(w);
	for (size_t i = 0; i < ARRAY_LEN(listeners); i++)
		if ((m->listeners & 1u << i) != 0)
			jw_str(w, listeners[i]);
	jw_arr_end(w);
}

/* A credential is needed on TCP; on the Unix socket the kernel tells who asks. */
static void write_security(struct jw *w, const struct method *m)
{
	static const char *const schemes[] = {NULL, "bearer", "key"};

	jw_key(w, "security");
	jw_arr(w);
	for (size_t i = 0; m->roles != 0 && i < ARRAY_LEN(schemes); i++) {
		jw_obj(w);
		if (schemes[i] != NULL) {
			jw_key(w, schemes[i]);
			jw_arr(w);
			jw_arr_end(w);
		}
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_key(w, "x-roles");
	jw_arr(w);
	for (enum role r = ROLE_AGENT; r <= ROLE_ADMIN; r++)
		if ((m->roles & 1u << r) != 0)
			jw_str(w, role_name(r));
	jw_arr_end(w);
}

static void write_operation(struct jw *w, const struct api *api, const struct method *m)
{
	const struct method *upgrade = upgrade_of(api, m);
	cleanup_free char *verb = mem_strdup(m->verb);

	for (char *c = verb; *c != '\0'; c++)
		*c = (char)(*c | 0x20);
	jw_key(w, verb);
	jw_obj(w);
	jw_kstr(w, "operationId", m->rpc);
	write_parameters(w, m);
	if (m->body != NULL) {
		jw_key(w, "requestBody");
		jw_obj(w);
		jw_kbool(w, "required", !m->body->optional);
		write_content(w, "application/json", m->body->name);
		jw_obj_end(w);
	}
	write_responses(w, m, upgrade);
	write_security(w, m);
	write_extensions(w, m, upgrade);
	jw_obj_end(w);
}

static void write_paths(struct jw *w, const struct api *api)
{
	const struct method *rows = api->methods;
	struct method metrics = api_metrics_method;

	jw_key(w, "paths");
	jw_obj(w);
	for (size_t i = 0; i < api->nmethods; i++) {
		size_t first = 0;

		while (strcmp(rows[first].path, rows[i].path) != 0)
			first++;
		if (first < i)
			continue;
		jw_key(w, rows[i].path);
		jw_obj(w);
		for (size_t j = i; j < api->nmethods; j++)
			if (rows[j].kind != BIDIRECTIONAL &&
			    strcmp(rows[j].path, rows[i].path) == 0)
				write_operation(w, api, &rows[j]);
		jw_obj_end(w);
	}
	if (api->config.metrics_enabled) {
		metrics.path = api->config.metrics_path;
		jw_key(w, metrics.path);
		jw_obj(w);
		write_operation(w, api, &metrics);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

/* ---- the document ---- */

static void write_schemas(struct jw *w)
{
	jw_key(w, "schemas");
	jw_obj(w);
	for (size_t i = 0; api_shapes[i] != NULL; i++) {
		jw_key(w, api_shapes[i]->name);
		jw_obj(w);
		write_rows(w, api_shapes[i]->rows);
		jw_obj_end(w);
	}
	for (size_t i = 0; api_bodies[i] != NULL; i++) {
		jw_key(w, api_bodies[i]->name);
		jw_obj(w);
		jw_kstr(w, "type", "object");
		write_fields(w, api_bodies[i]->fields, api_bodies[i]->required);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

static void write_scheme(struct jw *w, const char *name, const char *const pairs[][2])
{
	jw_key(w, name);
	jw_obj(w);
	for (; pairs[0][0] != NULL; pairs++)
		jw_kstr(w, pairs[0][0], pairs[0][1]);
	jw_obj_end(w);
}

static void write_components(struct jw *w)
{
	static const char *const bearer[][2] = {{"type", "http"}, {"scheme", "bearer"}, {NULL}};
	static const char *const key[][2] = {
		{"type", "apiKey"}, {"in", "header"}, {"name", "X-API-Key"}, {NULL}};

	jw_key(w, "components");
	jw_obj(w);
	write_schemas(w);
	jw_key(w, "responses");
	jw_obj(w);
	jw_key(w, "Error");
	jw_obj(w);
	jw_kstr(w, "description", "What went wrong");
	write_content(w, "application/json", shape_error.name);
	jw_obj_end(w);
	jw_obj_end(w);
	jw_key(w, "securitySchemes");
	jw_obj(w);
	write_scheme(w, "bearer", bearer);
	write_scheme(w, "key", key);
	jw_obj_end(w);
	jw_obj_end(w);
}

void api_openapi_format(const struct api *api, struct buf *out)
{
	struct jw w = JW(out);

	jw_obj(&w);
	jw_kstr(&w, "openapi", "3.1.0");
	jw_key(&w, "info");
	jw_obj(&w);
	jw_kstr(&w, "title", "agentsh");
	jw_kstr(&w, "version", AGENTSH_VERSION);
	jw_obj_end(&w);
	write_paths(&w, api);
	write_components(&w);
	jw_obj_end(&w);
}

void api_openapi(struct call *call)
{
	api_openapi_format(call->api, &call->reply);
	call_reply(call, 200);
}
