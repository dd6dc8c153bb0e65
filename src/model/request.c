// SPDX-License-Identifier: Apache-2.0
/* A table reads the shape and the ranges; a few checks follow that a table cannot express. */
#include "model/request.h"
#include "base/mem.h"

#define PATH_LEN 4095
#define MAX_OUTPUT (10 * 1024 * 1024)
#define DEFAULT_OUTPUT 10000
#define DOMAIN_LEN 253
#define LABEL_LEN 63
#define LISTS_LEN (64 * 1024)
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

#define LABEL_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

#define SESSION(name) offsetof(struct session_request, name)

#define LIMIT_ROW(key, name, type, low, high) \
	{key,                                 \
	 JSON_FIELD_##type,                   \
	 SESSION(limits.value[LIMIT_##name]), \
	 low,                                 \
	 high,                                \
	 NULL,                                \
	 SESSION(limits.given[LIMIT_##name])},

static const struct json_field resource_rows[] = {
#define X(name, other, type, unit, low, high, ...) LIMIT_ROW(#name, name, type, low, high)
#define TWO(name, other, type, unit, low, high, ...) \
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
#define X(name, other, type, unit, low, high, ...) LIMIT_ROW(#name, name, type, 0, high)
	LIMIT_COUNTS(X){NULL},
#undef X
};

#define TIME(name, other, type, unit, low, high, ...) LIMIT_ROW(other, name, type, low, high)
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
	{"working_dir", JSON_FIELD_STR, SESSION(working_dir), 1, PATH_LEN},
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
	{"working_dir", JSON_FIELD_STR, SESSION(working_dir), 1, PATH_LEN},
	{"cwd", JSON_FIELD_STR, SESSION(working_dir), 1, PATH_LEN},
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

/* host.example, *.example, a final dot; letters, digits, '-' and '_' only (names of other scripts
 * as punycode). */
static bool domain_valid(const char *s)
{
	size_t len;

	if (strncmp(s, "*.", 2) == 0)
		s += 2;
	len = strlen(s);
	if (len > DOMAIN_LEN + (size_t)(len > 0 && s[len - 1] == '.'))
		return false;
	do {
		const size_t label = strspn(s, LABEL_CHARS);

		if (label == 0 || label > LABEL_LEN || s[0] == '-' || s[label - 1] == '-')
			return false;
		s += label;
	} while (*s++ == '.' && *s != '\0');
	return s[-1] == '\0' || s[-1] == '.';
}

static void check_domains(struct err *err, const char *field, const struct strv *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (!domain_valid(list->v[i]))
			err_detail(err, field, "item %zu is not a domain: '%.64s'", i + 1,
				   list->v[i]);
}

/* Dangerous names are removed later without an error; the others must be names. */
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

static bool given(const json_t *obj, const char *name)
{
	const json_t *value = json_object_get(obj, name);

	return value != NULL && !json_is_null(value);
}

static void check_alias(struct err *err, const json_t *obj, const char *place, const char *alias,
			const char *name)
{
	cleanup_free char *field = mem_printf("%s%s", place, alias);

	if (given(obj, alias) && given(obj, name))
		err_detail(err, field, "is another name of %s: give one of them", name);
}

/* The checks that a new session and a change have in common. Hands the request over, or frees it.
 */
static int finish(const json_t *obj, struct session_request *w, struct session_request *out,
		  struct err *err)
{
	const json_t *limits = json_object_get(obj, "resource_limits");
	int r;

	check_env(err, "environment", &w->environment);
	for (unsigned i = 0; i < LIMITS; i++)
		if (limit_rows[i].other != NULL)
			check_alias(err, limits, "resource_limits.", limit_rows[i].other,
				    limit_rows[i].name);
	r = err_from_details(err, NULL);
	if (r < 0)
		session_request_done(w);
	else
		*out = *w;
	return r;
}

int session_request_read(const json_t *obj, struct session_request *out, struct err *err)
{
	struct session_request w = {0};
	const int r = json_read(obj, session_request_fields, &w, err);

	if (r < 0)
		return r;
	check_id(err, "id", w.id);
	check_id(err, "agent_id", w.agent_id);
	check_id(err, "policy", w.policy);
	if (w.workspace != NULL && w.workspace[0] != '/')
		err_detail(err, "workspace", "must be an absolute path: '%.64s'", w.workspace);
	check_choice(err, "background", w.background, "end", "keep");
	check_domains(err, "network.allowed_domains", &w.allowed_domains);
	check_domains(err, "network.blocked_domains", &w.blocked_domains);
	return finish(obj, &w, out, err);
}

int session_patch_read(const json_t *obj, struct session_request *out, struct err *err)
{
	struct session_request w = {0};
	const int r = json_read(obj, session_patch_fields, &w, err);

	if (r < 0)
		return r;
	for (const struct json_field *row = session_patch_fields; row->name != NULL; row++)
		if (row->kind == JSON_FIELD_ANY && given(obj, row->name))
			err_detail(err, row->name, "cannot be changed");
	check_alias(err, obj, "", "cwd", "working_dir");
	split_unset(&w.environment, &w.unset);
	check_names(err, "environment", &w.unset);
	return finish(obj, &w, out, err);
}

void session_request_done(struct session_request *w)
{
	json_read_done(session_request_fields, w);
	strv_done(&w->unset);
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

#define EXEC(name) offsetof(struct exec_request, name)

const struct json_field run_request_fields[] = {
	{"session", JSON_FIELD_OBJ, 0, 0, 0, session_request_fields},
	{"command", JSON_FIELD_STR, EXEC(command), 1, PATH_LEN},
	{"script", JSON_FIELD_STR, EXEC(script), 0, REQUEST_SCRIPT_MAX},
	{"args", JSON_FIELD_STRV, EXEC(args), 0, REQUEST_ARGS_MAX},
	{"argv0", JSON_FIELD_STR, EXEC(argv0), 0, PATH_LEN},
	{"working_dir", JSON_FIELD_STR, EXEC(working_dir), 1, PATH_LEN},
	{"env", JSON_FIELD_ENV, EXEC(env), 0, REQUEST_ENV_MAX},
	{"stdin", JSON_FIELD_STR, EXEC(stdin_text), 0, BASE64_LEN(REQUEST_STDIN_MAX)},
	{"encoding", JSON_FIELD_STR, EXEC(encoding), 0, LISTS_LEN},
	{"timeout", JSON_FIELD_DURATION, EXEC(timeout_ms), 1, LIMIT_MS},
	{"command_id", JSON_FIELD_STR, EXEC(command_id), 0, LISTS_LEN},
	{"max_output_bytes", JSON_FIELD_INT, EXEC(max_output_bytes), 0, MAX_OUTPUT},
	{"queue", JSON_FIELD_BOOL, EXEC(queue)},
	{"detach", JSON_FIELD_BOOL, EXEC(detach)},
	{"stream_output", JSON_FIELD_BOOL, EXEC(stream_output)},
	{NULL},
};

static void decode_stdin(struct exec_request *w, struct err *err)
{
	cleanup_free char *text = take(w->stdin_text);
	cleanup_buf struct buf raw = {0};

	if (text == NULL)
		return;
	if (w->encoding == NULL || strcmp(w->encoding, "base64") != 0)
		buf_adds(&raw, text);
	else if (json_unbase64(&raw, text, strlen(text), NULL) < 0)
		err_detail(err, "stdin", "not base64");
	if (raw.len > REQUEST_STDIN_MAX)
		err_detail(err, "stdin", "has more than %d bytes", REQUEST_STDIN_MAX);
	else
		bytes_set(&w->stdin_data, raw.data, raw.len);
}

int exec_request_read(const json_t *obj, struct exec_request *out, struct err *err)
{
	struct exec_request w = {.queue = true, .max_output_bytes = DEFAULT_OUTPUT};
	int r;

	if (json_string_length(json_object_get(obj, "script")) > REQUEST_SCRIPT_MAX) {
		err_detail(err, "script",
			   "has more than %d bytes; write it to a file and execute that, or give "
			   "it to a shell as stdin",
			   REQUEST_SCRIPT_MAX);
		return err_from_details(err, NULL);
	}
	r = json_read(obj, exec_request_fields, &w, err);
	if (r < 0)
		return r;
	if ((w.command != NULL) == (w.script != NULL))
		err_detail(err, w.script != NULL ? "script" : "command",
			   "give either command or script");
	if (w.script != NULL && w.args.n > 0)
		err_detail(err, "args", "only a command has arguments");
	check_id(err, "command_id", w.command_id);
	check_choice(err, "encoding", w.encoding, "text", "base64");
	check_env(err, "env", &w.env);
	decode_stdin(&w, err);
	r = err_from_details(err, NULL);
	if (r < 0)
		exec_request_done(&w);
	else
		*out = w;
	return r;
}

void exec_request_done(struct exec_request *w)
{
	json_read_done(exec_request_fields, w);
	bytes_done(&w->stdin_data);
	*w = (struct exec_request){0};
}
