// SPDX-License-Identifier: Apache-2.0
/* A table reads the shape and the ranges, then a few checks look at what a table cannot say. A form
 * is the request followed by what is needed only while it is read. */
#include "model/request.h"
#include "base/mem.h"

#define PATH_LEN 4095
#define MAX_OUTPUT (10 * 1024 * 1024)
#define DEFAULT_OUTPUT 10000
#define DOMAIN_LEN 253
#define LABEL_LEN 63
#define LISTS_LEN (64 * 1024)
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

struct session_form {
	struct session_request w;
	char *cwd;
	bool has_working_dir, has_cwd;
};
_Static_assert(offsetof(struct session_form, w) == 0, "a form is read as its request");

#define SESSION(name) offsetof(struct session_form, w.name)
#define FORM(name) offsetof(struct session_form, name)

#define LIMIT_ROW(key, name, type, low, high) \
	{key,                                 \
	 JSON_FIELD_##type,                   \
	 SESSION(limits.value[LIMIT_##name]), \
	 low,                                 \
	 high,                                \
	 NULL,                                \
	 SESSION(limits.given[LIMIT_##name])},

static const struct json_field resource_rows[] = {
#define X(number, name, other, type, unit, low, high, ...) LIMIT_ROW(#name, name, type, low, high)
#define TWO(number, name, other, type, unit, low, high, ...) \
	LIMIT_ROW(#name, name, type, low, high) LIMIT_ROW(other, name, type, low, high)
	LIMIT_RESOURCES(X, TWO){NULL},
#undef X
#undef TWO
};

static const struct json_field network_rows[] = {
	{"allowed_domains", JSON_FIELD_STRV, SESSION(allowed_domains), 0, LISTS_LEN},
	{"blocked_domains", JSON_FIELD_STRV, SESSION(blocked_domains), 0, LISTS_LEN},
	{"allowed_ports", JSON_FIELD_PORTS, SESSION(allowed_ports), 0, 65535},
	{NULL},
};

static const struct json_field count_rows[] = {
#define X(number, name, other, type, unit, low, high, ...) LIMIT_ROW(#name, name, type, 0, high)
	LIMIT_COUNTS(X){NULL},
#undef X
};

#define TIME(number, name, other, type, unit, low, high, ...) \
	LIMIT_ROW(other, name, type, low, high)
#define ENVIRONMENT(kind)                                                            \
	{                                                                            \
		"environment", kind, SESSION(environment), 0, REQUEST_ENV_MAX, NULL, \
			SESSION(has_environment)                                     \
	}
#define SUBTABLES                                                    \
	{"resource_limits", JSON_FIELD_OBJ, 0, 0, 0, resource_rows}, \
	{                                                            \
		"limits", JSON_FIELD_OBJ, 0, 0, 0, count_rows        \
	}

const struct json_field session_request_fields[] = {
	{"id", JSON_FIELD_STR, SESSION(id), 0, LISTS_LEN},
	{"agent_id", JSON_FIELD_STR, SESSION(agent_id), 0, LISTS_LEN},
	{"workspace", JSON_FIELD_STR, SESSION(workspace), 1, PATH_LEN},
	{"policy", JSON_FIELD_STR, SESSION(policy), 0, LISTS_LEN},
	LIMIT_TIMES(TIME){"background", JSON_FIELD_STR, SESSION(background), 0, LISTS_LEN},
	SUBTABLES,
	{"network", JSON_FIELD_OBJ, 0, 0, 0, network_rows},
	ENVIRONMENT(JSON_FIELD_ENV),
	{NULL},
};

const struct json_field session_patch_fields[] = {
	LIMIT_TIMES(TIME) SUBTABLES,
	ENVIRONMENT(JSON_FIELD_ENV_EDIT),
	{"working_dir", JSON_FIELD_STR, SESSION(working_dir), 1, PATH_LEN, NULL,
	 FORM(has_working_dir)},
	{"cwd", JSON_FIELD_STR, FORM(cwd), 1, PATH_LEN, NULL, FORM(has_cwd)},
	{"id", JSON_FIELD_ANY},
	{"agent_id", JSON_FIELD_ANY},
	{"workspace", JSON_FIELD_ANY},
	{"policy", JSON_FIELD_ANY},
	{"background", JSON_FIELD_ANY},
	{"network", JSON_FIELD_ANY},
	{NULL},
};

static void check_id(struct err *err, const char *field, const char *id)
{
	if (id != NULL && !id_valid(id))
		err_detail(err, field, "must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}: '%.64s'", id);
}

static void check_choice(struct err *err, const char *field, const char *value, const char *a,
			 const char *b)
{
	if (value != NULL && strcmp(value, a) != 0 && strcmp(value, b) != 0)
		err_detail(err, field, "must be %s or %s, is '%.64s'", a, b, value);
}

static bool label_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '_';
}

/* host.example, *.example, a final dot; letters, digits, '-' and '_' only (names of other scripts
 * as punycode). */
static bool domain_valid(const char *s)
{
	size_t len, label = 0;

	if (strncmp(s, "*.", 2) == 0)
		s += 2;
	len = strlen(s);
	if (len > 0 && s[len - 1] == '.')
		len--;
	if (len == 0 || len > DOMAIN_LEN || s[len - 1] == '.' || s[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] != '.') {
			if (!label_char(s[i]) || ++label > LABEL_LEN || (label == 1 && s[i] == '-'))
				return false;
			continue;
		}
		if (label == 0 || s[i - 1] == '-')
			return false;
		label = 0;
	}
	return true;
}

static void check_domains(struct err *err, const char *field, const struct strv *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (!domain_valid(list->v[i]))
			err_detail(err, field, "item %zu is not a domain: '%.64s'", i + 1,
				   list->v[i]);
}

/* Dangerous names go without a word, as on every way in; the others must be names. */
static void check_names(struct err *err, const char *field, const struct strv *env)
{
	for (size_t i = 0; i < env->n; i++) {
		const size_t len = strcspn(env->v[i], "=");

		if (!request_env_name(env->v[i], len) && !request_env_dangerous(env->v[i], len))
			err_detail(err, field, "not the name of a variable: '%.*s'",
				   (int)(len < LABEL_LEN ? len : LABEL_LEN), env->v[i]);
	}
}

static void check_env(struct err *err, const char *field, struct strv *env)
{
	check_names(err, field, env);
	request_env_strip(env);
}

/* Moves the names without a value to a list of their own. */
static void split_unset(struct strv *env, struct strv *unset)
{
	size_t kept = 0;

	for (size_t i = 0; i < env->n; i++) {
		if (strchr(env->v[i], '=') != NULL) {
			env->v[kept++] = env->v[i];
			continue;
		}
		strv_add(unset, env->v[i]);
		free(env->v[i]);
	}
	if (env->n > 0)
		env->v[kept] = NULL;
	env->n = kept;
}

static void check_alias(struct err *err, const char *alias, const char *name, bool both)
{
	if (both)
		err_detail(err, alias, "is another name of %s: give one of them", name);
}

static bool given(const json_t *obj, const char *name)
{
	const json_t *value = json_object_get(obj, name);

	return value != NULL && !json_is_null(value);
}

static void check_resources(const json_t *obj, struct err *err)
{
	const json_t *in = json_object_get(obj, "resource_limits");

	for (unsigned i = 0; i < LIMITS; i++) {
		const struct limit_row *row = &limit_rows[i];

		if (row->other != NULL && given(in, row->name) && given(in, row->other)) {
			cleanup_free char *alias = mem_printf("resource_limits.%s", row->other);

			check_alias(err, alias, row->name, true);
		}
	}
}

/* Hands the request over, or tells what is wrong and frees it. */
static int finish(struct session_form *f, const struct json_field *rows,
		  struct session_request *out, struct err *err)
{
	const int r = err_from_details(err, NULL);

	if (r < 0)
		json_read_done(rows, f);
	else
		*out = f->w;
	return r;
}

int session_request_read(const json_t *obj, struct session_request *out, struct err *err)
{
	struct session_form f = {0};
	struct err own = {0};
	int r;

	if (err == NULL)
		err = &own;
	r = json_read(obj, session_request_fields, &f, err);
	if (r < 0)
		return r;
	check_id(err, "id", f.w.id);
	check_id(err, "agent_id", f.w.agent_id);
	check_id(err, "policy", f.w.policy);
	if (f.w.workspace != NULL && f.w.workspace[0] != '/')
		err_detail(err, "workspace", "must be an absolute path: '%.64s'", f.w.workspace);
	check_choice(err, "background", f.w.background, "end", "keep");
	check_domains(err, "network.allowed_domains", &f.w.allowed_domains);
	check_domains(err, "network.blocked_domains", &f.w.blocked_domains);
	check_env(err, "environment", &f.w.environment);
	check_resources(obj, err);
	return finish(&f, session_request_fields, out, err);
}

int session_patch_read(const json_t *obj, struct session_request *out, struct err *err)
{
	struct session_form f = {0};
	struct err own = {0};
	int r;

	if (err == NULL)
		err = &own;
	r = json_read(obj, session_patch_fields, &f, err);
	if (r < 0)
		return r;
	for (const struct json_field *row = session_patch_fields; row->name != NULL; row++)
		if (row->kind == JSON_FIELD_ANY && given(obj, row->name))
			err_detail(err, row->name, "cannot be changed");
	check_alias(err, "cwd", "working_dir", f.has_cwd && f.has_working_dir);
	split_unset(&f.w.environment, &f.w.unset);
	check_names(err, "environment", &f.w.unset);
	check_env(err, "environment", &f.w.environment);
	check_resources(obj, err);
	r = finish(&f, session_patch_fields, out, err);
	if (r < 0)
		strv_done(&f.w.unset);
	if (r == 0 && f.has_cwd)
		out->working_dir = f.cwd;
	return r;
}

void session_request_done(struct session_request *w)
{
	struct session_form f = {.w = *w};

	json_read_done(session_request_fields, &f);
	strv_done(&w->unset);
	free(w->working_dir);
	*w = (struct session_request){0};
}

static void format_env(const struct strv *env, struct jw *jw)
{
	jw_obj(jw);
	for (size_t i = 0; i < env->n; i++) {
		const size_t len = strcspn(env->v[i], "=");
		cleanup_free char *name = mem_strndup(env->v[i], len);

		jw_kstr(jw, name, env->v[i] + len + (env->v[i][len] == '='));
	}
	jw_obj_end(jw);
}

static void format_list(const struct strv *list, bool numbers, struct jw *jw)
{
	jw_arr(jw);
	for (size_t i = 0; i < list->n; i++) {
		if (numbers)
			jw_raw(jw, list->v[i], strlen(list->v[i]));
		else
			jw_str(jw, list->v[i]);
	}
	jw_arr_end(jw);
}

static void format_number(const struct json_field *row, int64_t v, bool given, struct jw *jw)
{
	if (v < row->min || (v == 0 && !given))
		jw_null(jw);
	else if (row->kind == JSON_FIELD_DURATION)
		jw_duration_ms(jw, v);
	else
		jw_share(jw, v);
}

static void format_rows(const struct session_request *w, const struct json_field *rows,
			struct jw *jw)
{
	jw_obj(jw);
	for (const struct json_field *row = rows; row->name != NULL; row++) {
		const void *at = (const char *)w + row->offset;
		const bool given = rows == count_rows ||
				   (row->seen != 0 && *(const bool *)((const char *)w + row->seen));

		/* another name of the value before */
		if (row > rows && row->kind != JSON_FIELD_OBJ && row->offset == row[-1].offset)
			continue;
		jw_key(jw, row->name);
		if (row->kind == JSON_FIELD_OBJ)
			format_rows(w, row->sub, jw);
		else if (row->kind == JSON_FIELD_ENV)
			format_env(at, jw);
		else if (row->kind == JSON_FIELD_STRV || row->kind == JSON_FIELD_PORTS)
			format_list(at, row->kind == JSON_FIELD_PORTS, jw);
		else if (row->kind == JSON_FIELD_STR)
			jw_str(jw, *(char *const *)at);
		else
			format_number(row, *(const int64_t *)at, given, jw);
	}
	jw_obj_end(jw);
}

void session_request_format(const struct session_request *w, struct jw *jw)
{
	format_rows(w, session_request_fields, jw);
}

struct exec_form {
	struct exec_request w;
	char *text, *encoding; /* of stdin */
};

#define EXEC(name) offsetof(struct exec_form, w.name)

const struct json_field exec_request_fields[] = {
	{"command", JSON_FIELD_STR, EXEC(command), 1, PATH_LEN},
	{"script", JSON_FIELD_STR, EXEC(script), 0, REQUEST_SCRIPT_MAX},
	{"args", JSON_FIELD_STRV, EXEC(args), 0, REQUEST_ARGS_MAX},
	{"argv0", JSON_FIELD_STR, EXEC(argv0), 0, PATH_LEN},
	{"working_dir", JSON_FIELD_STR, EXEC(working_dir), 1, PATH_LEN},
	{"env", JSON_FIELD_ENV, EXEC(env), 0, REQUEST_ENV_MAX},
	{"stdin", JSON_FIELD_STR, offsetof(struct exec_form, text), 0,
	 BASE64_LEN(REQUEST_STDIN_MAX)},
	{"encoding", JSON_FIELD_STR, offsetof(struct exec_form, encoding), 0, LISTS_LEN},
	{"timeout", JSON_FIELD_DURATION, EXEC(timeout_ms), 1, LIMIT_MS},
	{"command_id", JSON_FIELD_STR, EXEC(command_id), 0, LISTS_LEN},
	{"max_output_bytes", JSON_FIELD_INT, EXEC(max_output_bytes), 0, MAX_OUTPUT},
	{"queue", JSON_FIELD_BOOL, EXEC(queue)},
	{"detach", JSON_FIELD_BOOL, EXEC(detach)},
	{"stream_output", JSON_FIELD_BOOL, EXEC(stream_output)},
	{NULL},
};

static void decode_stdin(struct exec_form *f, struct err *err)
{
	cleanup_buf struct buf raw = {0};
	struct err why = {0};

	if (f->text == NULL)
		return;
	if (f->encoding == NULL || strcmp(f->encoding, "base64") != 0)
		buf_adds(&raw, f->text);
	else if (json_unbase64(&raw, f->text, strlen(f->text), &why) < 0)
		err_detail(err, "stdin", "%.150s", why.message);
	if (raw.len > REQUEST_STDIN_MAX)
		err_detail(err, "stdin", "has more than %d bytes", REQUEST_STDIN_MAX);
	else
		bytes_set(&f->w.stdin_data, raw.data, raw.len);
}

static void check_exec(struct exec_form *f, struct err *err)
{
	if (f->w.command != NULL && f->w.script != NULL)
		err_detail(err, "script", "give either command or script");
	if (f->w.command == NULL && f->w.script == NULL)
		err_detail(err, "command", "give either command or script");
	if (f->w.script != NULL && f->w.args.n > 0)
		err_detail(err, "args", "only a command has arguments");
	check_id(err, "command_id", f->w.command_id);
	check_choice(err, "encoding", f->encoding, "text", "base64");
	check_env(err, "env", &f->w.env);
	decode_stdin(f, err);
}

int exec_request_read(const json_t *obj, struct exec_request *out, struct err *err)
{
	struct exec_form f = {.w = {.queue = true, .max_output_bytes = DEFAULT_OUTPUT}};
	struct err own = {0};
	int r;

	if (err == NULL)
		err = &own;
	if (json_string_length(json_object_get(obj, "script")) > REQUEST_SCRIPT_MAX) {
		err_detail(err, "script",
			   "has more than %d bytes; write it to a file and execute that, or give "
			   "it to a shell as stdin",
			   REQUEST_SCRIPT_MAX);
		return err_from_details(err, NULL);
	}
	r = json_read(obj, exec_request_fields, &f, err);
	if (r == 0) {
		check_exec(&f, err);
		r = err_from_details(err, NULL);
	}
	free(take(f.text));
	free(take(f.encoding));
	if (r < 0)
		exec_request_done(&f.w);
	else
		*out = f.w;
	return r;
}

void exec_request_done(struct exec_request *w)
{
	struct exec_form f = {.w = *w};

	json_read_done(exec_request_fields, &f);
	bytes_done(&f.w.stdin_data);
	*w = (struct exec_request){0};
}
