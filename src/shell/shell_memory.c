// SPDX-License-Identifier: Apache-2.0
#include "shell/shell_memory.h"
#include "base/mem.h"
#include "model/request.h"
#include <ctype.h>

/* The warden or the shell sets these variables, not the session. */
static const char *const own[] = {
	"PWD", "OLDPWD", "_", "SHLVL", "AGENTSH_IN_SESSION", "AGENTSH_SESSION_ID"};
#define SHELL_PREFIX "__agentsh"

static bool is_own(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (strlen(own[i]) == len && memcmp(own[i], name, len) == 0)
			return true;
	return len >= strlen(SHELL_PREFIX) && memcmp(name, SHELL_PREFIX, strlen(SHELL_PREFIX)) == 0;
}

static size_t name_len(const char *entry)
{
	return strcspn(entry, "=");
}

static size_t env_bytes(const struct strv *env)
{
	size_t n = 0;

	for (size_t i = 0; i < env->n; i++)
		n += strlen(env->v[i]) + 1;
	return n;
}

/* Removes the variables that the policy drops, and with own_too those that the session does not
 * set. Adds each name that the policy drops once to dropped, which may be NULL. */
static void drop(const struct shell_memory *m, struct strv *env, bool own_too, struct strv *dropped)
{
	size_t kept = 0;

	for (size_t i = 0; i < env->n; i++) {
		const size_t len = name_len(env->v[i]);
		const bool drops = m->policy != NULL && policy_drops_env(m->policy, env->v[i], len);

		if (!drops && !(own_too && is_own(env->v[i], len))) {
			env->v[kept++] = env->v[i];
			continue;
		}
		env->v[i][len] = '\0';
		if (drops && dropped != NULL)
			strv_add_new(dropped, env->v[i]);
		free(env->v[i]);
	}
	if (env->n > 0)
		env->v[kept] = NULL;
	env->n = kept;
}

void shell_memory_init(struct shell_memory *m, const struct strv *env, const char *cwd,
		       size_t env_max)
{
	*m = (struct shell_memory){.env_max = env_max,
				   .home = mem_strdup(ENV_HOME),
				   .cwd = mem_strdup(cwd),
				   .history_base = 1};
	strv_copy(&m->env, env);
	request_env_strip(&m->env);
	drop(m, &m->env, true, NULL);
}

void shell_memory_bind(struct shell_memory *m, const struct policy *p)
{
	m->policy = p;
	drop(m, &m->env, false, &m->dropped);
}

void shell_memory_done(struct shell_memory *m)
{
	strv_done(&m->dropped);
	strv_done(&m->env);
	strv_done(&m->aliases);
	strv_done(&m->dirs);
	strv_done(&m->history);
	free(m->home);
	free(m->cwd);
	free(m->oldpwd);
	*m = (struct shell_memory){0};
}

void shell_memory_remember(struct shell_memory *m, const char *line)
{
	cleanup_free char *cut = mem_strndup(line, strnlen(line, HISTORY_LINE_MAX));

	if (m->history.n == HISTORY_MAX) {
		free(m->history.v[0]);
		memmove(m->history.v, m->history.v + 1, m->history.n * sizeof(*m->history.v));
		m->history.n--;
		m->history_base++;
	}
	strv_add(&m->history, cut);
}

bool env_name_valid(const char *name, size_t len)
{
	if (len == 0 || isdigit((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	return true;
}

bool env_put(struct strv *env, const char *name, const char *value, size_t max, size_t most)
{
	const char *old = strv_env_get(env, name);
	const size_t before = env_bytes(env) - (old != NULL ? strlen(name) + strlen(old) + 2 : 0);

	if (before + strlen(name) + strlen(value) + 2 > max || (old == NULL && env->n >= most))
		return false;
	strv_env_set(env, name, value);
	return true;
}

int env_set(struct shell_memory *m, const char *name, const char *value, struct err *err)
{
	if (is_own(name, strlen(name)) || request_env_dangerous(name, strlen(name)))
		return 0;
	if (m->policy != NULL && policy_drops_env(m->policy, name, strlen(name))) {
		strv_add_new(&m->dropped, name);
		return 0;
	}
	if (!env_put(&m->env, name, value, m->env_max, ENV_VARS_MAX))
		return err_set(err, E_TOO_LARGE, name,
			       "the environment would have more than %zu bytes or %d variables",
			       m->env_max, ENV_VARS_MAX);
	return 0;
}

void env_chdir(struct shell_memory *m, const char *path)
{
	char *cwd = mem_strdup(path);

	free(m->oldpwd);
	m->oldpwd = m->cwd;
	m->cwd = cwd;
}

static void set_entry(struct strv *env, const char *entry)
{
	cleanup_free char *name = mem_strndup(entry, name_len(entry));

	if (entry[name_len(entry)] == '=')
		strv_env_set(env, name, entry + name_len(entry) + 1);
}

void env_build(const struct shell_memory *m, const struct env_ask *ask, struct strv *out)
{
	strv_copy(out, &m->env);
	if (ask->request != NULL && ask->request->n > 0) {
		for (size_t i = 0; i < ask->request->n; i++)
			set_entry(out, ask->request->v[i]);
		request_env_strip(out);
		drop(m, out, true, ask->dropped);
	}
	if (strv_env_get(out, "HOME") == NULL)
		strv_env_set(out, "HOME", m->home);
	strv_add(out, "AGENTSH_IN_SESSION=1");
	strv_env_set(out, "AGENTSH_SESSION_ID", ask->session_id);
	strv_env_set(out, "PWD", ask->cwd);
	if (m->oldpwd != NULL)
		strv_env_set(out, "OLDPWD", m->oldpwd);
}

/* Adds the entries of a that b lacks, or has with another value. */
static void differing(const struct strv *a, const struct strv *b, struct strv *out)
{
	for (size_t i = 0; i < a->n; i++) {
		const size_t len = name_len(a->v[i]);
		cleanup_free char *name = mem_strndup(a->v[i], len);
		const char *other = strv_env_get(b, name);

		if (!is_own(name, len) && (other == NULL || strcmp(other, a->v[i] + len + 1) != 0))
			strv_add(out, a->v[i]);
	}
}

void env_changes(const struct strv *before, const struct strv *after, struct strv *names)
{
	struct strv changed = {0};

	differing(after, before, &changed);
	differing(before, after, &changed);
	for (size_t i = 0; i < changed.n; i++) {
		changed.v[i][name_len(changed.v[i])] = '\0';
		strv_add_new(names, changed.v[i]);
	}
	strv_done(&changed);
}

int env_apply(struct shell_memory *m, const struct strv *given, struct strv *captured,
	      struct err *err)
{
	struct strv set = {0}, env = {0};
	const char *now, *then;

	if (captured->n > ENV_VARS_MAX)
		return err_set(err, E_TOO_LARGE, NULL, "more than %d variables", ENV_VARS_MAX);
	request_env_strip(captured);
	drop(m, captured, false, &m->dropped);
	strv_copy(&env, &m->env);
	for (size_t i = 0; i < given->n; i++) {
		const size_t len = name_len(given->v[i]);
		cleanup_free char *name = mem_strndup(given->v[i], len);

		if (!is_own(name, len) && strv_env_get(captured, name) == NULL)
			strv_env_unset(&env, name);
	}
	differing(captured, given, &set);
	for (size_t i = 0; i < set.n; i++)
		set_entry(&env, set.v[i]);
	strv_done(&set);
	if (env_bytes(&env) > m->env_max) {
		strv_done(&env);
		return err_set(err, E_TOO_LARGE, NULL, "environment of more than %zu bytes",
			       m->env_max);
	}
	strv_done(&m->env);
	m->env = env;
	now = strv_env_get(captured, "OLDPWD");
	then = strv_env_get(given, "OLDPWD");
	if (now != NULL && now[0] == '/' && strlen(now) < ENV_PATH_MAX &&
	    (then == NULL || strcmp(now, then) != 0)) {
		free(m->oldpwd);
		m->oldpwd = mem_strdup(now);
	}
	return 0;
}
