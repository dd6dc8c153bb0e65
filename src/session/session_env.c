// SPDX-License-Identifier: Apache-2.0
/* A new session's environment. It never has variables of the server's own environment (STA-4). */
#include "session/session_env.h"
#include "base/mem.h"
#include "model/request.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/* Defaults. A session gets those that are on the configuration's allow-list. */
static const char *const defaults[][2] = {
	{"PATH", default_path}, {"USER", "agent"}, {"LOGNAME", "agent"},
	{"LANG", "C.UTF-8"},	{"TERM", "dumb"},  {"TZ", "UTC"},
};

/* A name that ends in '*' allows all that begin with it. */
static bool allowed(const struct strv *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		const size_t n = strlen(list->v[i]);

		if (n > 0 && list->v[i][n - 1] == '*' ? strncmp(list->v[i], name, n - 1) == 0
						      : strcmp(list->v[i], name) == 0)
			return true;
	}
	return false;
}

static void set_all(struct strv *env, const struct strv *add)
{
	for (size_t i = 0; i < add->n; i++) {
		const size_t len = strcspn(add->v[i], "=");
		cleanup_free char *name = mem_strndup(add->v[i], len);

		if (add->v[i][len] == '=')
			strv_env_set(env, name, add->v[i] + len + 1);
	}
}

void session_env(const struct config *config, const struct strv *asked, struct strv *out)
{
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
		if (allowed(&config->env_allow, defaults[i][0]))
			strv_env_set(out, defaults[i][0], defaults[i][1]);
	set_all(out, &config->env_set);
	set_all(out, asked);
	request_env_strip(out);
}

void session_env_toolchains(struct strv *env, const struct strv *found)
{
	for (size_t i = 0; i < found->n; i++) {
		const size_t len = strcspn(found->v[i], "=");
		cleanup_free char *name = mem_strndup(found->v[i], len);
		const char *has = strv_env_get(env, name), *value = found->v[i] + len + 1;

		if (found->v[i][len] != '=')
			continue;
		if (has == NULL && strcmp(name, "PATH") != 0) {
			strv_env_set(env, name, value);
		} else if (has != NULL && strcmp(name, "PATH") == 0 &&
			   strcmp(has, default_path) == 0) {
			cleanup_free char *both = mem_printf("%s:%s", value, has);

			strv_env_set(env, name, both);
		}
	}
}

void env_format(const struct strv *env, struct jw *w)
{
	jw_obj(w);
	for (size_t i = 0; i < env->n; i++) {
		const size_t len = strcspn(env->v[i], "=");
		cleanup_free char *name = mem_strndup(env->v[i], len);

		jw_kstr(w, name, env->v[i] + len + (env->v[i][len] == '='));
	}
	jw_obj_end(w);
}

int env_parse(const char *json, void *env, struct err *err)
{
	/* The table reads members of an object, so the list becomes a member. */
	static const struct json_field rows[] = {{"env", JSON_FIELD_ENV, 0, 0, 2 * REQUEST_ENV_MAX},
						 {NULL}};
	json_t *doc = NULL, *outer;
	int r = json_parse(json, strlen(json), &doc, err);

	if (r < 0)
		return r;
	outer = json_pack("{s:o}", "env", doc);
	r = json_read(outer, rows, env, err);
	json_decref(outer);
	return r;
}
