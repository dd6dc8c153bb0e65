// SPDX-License-Identifier: Apache-2.0
#include "shell/builtins.h"
#include "base/mem.h"
#include "shell/alias.h"
#include <inttypes.h>
#include <stdarg.h>

int builtin_fail(struct builtin_call *c, int status, const char *fmt, ...)
{
	va_list ap;

	buf_addf(&c->err, "%s: ", c->argv->v[0]);
	va_start(ap, fmt);
	buf_addv(&c->err, fmt, ap);
	va_end(ap);
	buf_addc(&c->err, '\n');
	return status;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The environment that a command would get, sorted by name. */
static void whole_env(const struct builtin_call *c, struct strv *out)
{
	const struct env_ask ask = {c->session_id, c->cwd, c->request, &c->memory->dropped};

	env_build(c->memory, &ask, out);
	qsort(out->v, out->n, sizeof(*out->v), by_text);
}

static int run_env(struct builtin_call *c)
{
	struct strv env = {0};

	whole_env(c, &env);
	for (size_t i = 0; i < env.n; i++)
		buf_addf(&c->out, "%s\n", env.v[i]);
	strv_done(&env);
	return 0;
}

/* declare -x NAME="value", with what is special inside double quotes escaped. */
static void add_declaration(struct buf *out, const char *entry)
{
	const size_t len = strcspn(entry, "=");

	buf_addf(out, "declare -x %.*s=\"", (int)len, entry);
	for (const char *p = entry + len + 1; *p != '\0'; p++) {
		if (strchr("\"\\$`", *p) != NULL)
			buf_addc(out, '\\');
		buf_addc(out, *p);
	}
	buf_adds(out, "\"\n");
}

static int bad_name(struct builtin_call *c, const char *word)
{
	return builtin_fail(c, 1, "`%s': not a valid identifier", word);
}

/* Returns the index behind the options, or 0 after the message about one that is not in known.
 * *last is the last option letter, 0 without options. */
static size_t options(struct builtin_call *c, const char *known, char *last)
{
	const struct strv *argv = c->argv;
	size_t i = 1;

	*last = 0;
	for (; i < argv->n && argv->v[i][0] == '-' && argv->v[i][1] != '\0'; i++) {
		if (strcmp(argv->v[i], "--") == 0)
			return i + 1;
		for (const char *p = argv->v[i] + 1; *p != '\0'; p++) {
			*last = *p;
			if (strchr(known, *p) == NULL) {
				builtin_fail(c, BUILTIN_USAGE, "%s: invalid option", argv->v[i]);
				return 0;
			}
		}
	}
	return i;
}

static int run_export(struct builtin_call *c)
{
	char option;
	const size_t from = options(c, "pn", &option);
	int status = 0;

	if (from == 0)
		return BUILTIN_USAGE;
	if (from >= c->argv->n) {
		struct strv env = {0};

		whole_env(c, &env);
		for (size_t i = 0; i < env.n; i++)
			add_declaration(&c->out, env.v[i]);
		strv_done(&env);
	}
	for (size_t i = from; i < c->argv->n; i++) {
		const char *word = c->argv->v[i];
		const size_t len = strcspn(word, "=");
		cleanup_free char *name = mem_strndup(word, len);
		struct err err = {0};

		if (!env_name_valid(word, len))
			status = bad_name(c, word);
		else if (option == 'n')
			strv_env_unset(&c->memory->env, name);
		else if (word[len] == '=' && env_set(c->memory, name, word + len + 1, &err) < 0)
			status = builtin_fail(c, 1, "%s: %s", name, err.message);
	}
	return status;
}

/* -f does nothing, because functions do not survive a script. */
static int run_unset(struct builtin_call *c)
{
	char option;
	const size_t from = options(c, "vf", &option);
	int status = 0;

	if (from == 0)
		return BUILTIN_USAGE;
	for (size_t i = from; i < c->argv->n && option != 'f'; i++) {
		if (!env_name_valid(c->argv->v[i], strlen(c->argv->v[i])))
			status = bad_name(c, c->argv->v[i]);
		else
			strv_env_unset(&c->memory->env, c->argv->v[i]);
	}
	return status;
}

/* alias name='value', with ' inside as '\''. */
static void add_alias(struct buf *out, const char *name, size_t len, const char *value)
{
	buf_addf(out, "alias %.*s='", (int)len, name);
	for (const char *p = value; *p != '\0'; p++) {
		if (*p == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *p);
	}
	buf_adds(out, "'\n");
}

static int run_alias(struct builtin_call *c)
{
	struct strv *all = &c->memory->aliases;
	char option;
	const size_t from = options(c, "p", &option);
	int status = 0;

	if (from == 0)
		return BUILTIN_USAGE;
	if (all->n > 1)
		qsort(all->v, all->n, sizeof(*all->v), by_text);
	for (size_t i = 0; i < all->n && (option == 'p' || from >= c->argv->n); i++) {
		const size_t len = strcspn(all->v[i], "=");

		add_alias(&c->out, all->v[i], len, all->v[i] + len + 1);
	}
	for (size_t i = from; i < c->argv->n; i++) {
		const char *word = c->argv->v[i], *value;
		const size_t len = strcspn(word, "=");
		cleanup_free char *name = mem_strndup(word, len);
		struct err err = {0};

		if (word[len] == '=') {
			if (alias_set(c->memory, name, word + len + 1, &err) < 0)
				status = builtin_fail(c, 1, "%s", err.message);
		} else if ((value = alias_get(c->memory, name)) == NULL) {
			status = builtin_fail(c, 1, "%s: not found", name);
		} else {
			add_alias(&c->out, name, len, value);
		}
	}
	return status;
}

static int run_unalias(struct builtin_call *c)
{
	char option;
	const size_t from = options(c, "a", &option);
	int status = 0;

	if (from == 0)
		return BUILTIN_USAGE;
	if (option == 'a') {
		strv_done(&c->memory->aliases);
		return 0;
	}
	if (from >= c->argv->n)
		return builtin_fail(c, BUILTIN_USAGE, "usage: unalias [-a] name [name ...]");
	for (size_t i = from; i < c->argv->n; i++)
		if (!alias_unset(c->memory, c->argv->v[i]))
			status = builtin_fail(c, 1, "%s: not found", c->argv->v[i]);
	return status;
}

static int run_history(struct builtin_call *c)
{
	struct shell_memory *m = c->memory;
	char option;
	const size_t from = options(c, "c", &option);
	size_t first = 0;

	if (from == 0)
		return BUILTIN_USAGE;
	if (option == 'c') {
		strv_done(&m->history);
		m->history_base = 1;
		return 0;
	}
	if (from + 1 < c->argv->n)
		return builtin_fail(c, 1, "too many arguments");
	if (from < c->argv->n) {
		char *end;
		const unsigned long n = strtoul(c->argv->v[from], &end, 10);

		if (c->argv->v[from][0] < '0' || c->argv->v[from][0] > '9' || *end != '\0')
			return builtin_fail(c, 1, "%s: numeric argument required",
					    c->argv->v[from]);
		first = n < m->history.n ? m->history.n - n : 0;
	}
	for (size_t i = first; i < m->history.n; i++)
		buf_addf(&c->out, "%5" PRIu64 "  %s\n", m->history_base + i, m->history.v[i]);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(struct builtin_call *c);
	bool alone; /* only without arguments */
} table[] = {
	{"cd", builtin_cd, false},	 {"pwd", builtin_pwd, false},
	{"export", run_export, false},	 {"unset", run_unset, false},
	{"env", run_env, true},		 {"alias", run_alias, false},
	{"unalias", run_unalias, false}, {"history", run_history, false},
	{"pushd", builtin_pushd, false}, {"popd", builtin_popd, false},
};

static size_t find(const struct strv *argv)
{
	size_t i = 0;

	while (i < ARRAY_LEN(table) && (argv->n == 0 || strcmp(table[i].name, argv->v[0]) != 0))
		i++;
	return i;
}

bool builtin_is(const struct strv *argv)
{
	const size_t i = find(argv);

	return i < ARRAY_LEN(table) && (!table[i].alone || argv->n == 1);
}

int builtin_run(struct builtin_call *c)
{
	const size_t i = find(c->argv);

	ensure(i < ARRAY_LEN(table));
	return table[i].run(c);
}
