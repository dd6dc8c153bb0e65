// SPDX-License-Identifier: Apache-2.0
#include "shell/alias.h"
#include "base/buf.h"
#include "base/mem.h"

int alias_set(struct shell_memory *m, const char *name, const char *value, struct err *err)
{
	const char *old = alias_get(m, name);
	size_t bytes = strlen(name) + strlen(value) + 2;
	struct strv words = {0};
	int r;

	/* The name must be one plain word of a shell. */
	if (name[0] == '\0' || strpbrk(name, " \t\n/$`'\"\\|&;()<>=") != NULL)
		return err_set(err, E_BAD_REQUEST, name, "`%s': invalid alias name", name);
	for (size_t i = 0; i < m->aliases.n; i++)
		bytes += strlen(m->aliases.v[i]) + 1;
	if (old != NULL)
		bytes -= strlen(name) + strlen(old) + 2;
	if (bytes > ALIAS_BYTES_MAX)
		return err_set(err, E_TOO_LARGE, NULL, "more than %d bytes of aliases",
			       ALIAS_BYTES_MAX);
	if (old == NULL && m->aliases.n >= ALIAS_MAX)
		return err_set(err, E_TOO_LARGE, NULL, "more than %d aliases", ALIAS_MAX);
	r = alias_split(value, &words, err);
	strv_done(&words);
	if (r == 0)
		strv_env_set(&m->aliases, name, value);
	return r;
}

const char *alias_get(const struct shell_memory *m, const char *name)
{
	return strv_env_get(&m->aliases, name);
}

bool alias_unset(struct shell_memory *m, const char *name)
{
	const bool had = alias_get(m, name) != NULL;

	strv_env_unset(&m->aliases, name);
	return had;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

/* One word from *p on into out; false if a quote does not close. */
static bool one_word(const char **p, struct buf *out)
{
	char quote = '\0';

	for (; **p != '\0' && (quote != '\0' || !blank(**p)); (*p)++) {
		const char c = **p;

		if (quote == '\0' && (c == '\'' || c == '"')) {
			quote = c;
		} else if (c == quote && quote != '\0') {
			quote = '\0';
		} else if (c == '\\' && quote != '\'' && (*p)[1] != '\0' &&
			   (quote == '\0' || strchr("\"\\$`", (*p)[1]) != NULL)) {
			(*p)++;
			buf_addc(out, **p);
		} else {
			buf_addc(out, c);
		}
	}
	return quote == '\0';
}

int alias_split(const char *value, struct strv *words, struct err *err)
{
	struct strv got = {0};

	for (const char *p = value;;) {
		cleanup_buf struct buf word = {0};

		while (blank(*p))
			p++;
		if (*p == '\0')
			break;
		buf_adds(&word, "");
		if (!one_word(&p, &word)) {
			strv_done(&got);
			return err_set(err, E_BAD_REQUEST, NULL, "a quote does not close");
		}
		strv_add(&got, word.data);
	}
	strv_done(words);
	*words = got;
	return 0;
}

void alias_expand(const struct shell_memory *m, struct strv *argv)
{
	struct strv seen = {0};

	while (argv->n > 0) {
		const char *value = alias_get(m, argv->v[0]);
		struct strv words = {0};

		if (value == NULL || strv_env_get(&seen, argv->v[0]) != NULL)
			break;
		strv_env_set(&seen, argv->v[0], "");
		if (alias_split(value, &words, NULL) < 0 || words.n == 0)
			break;
		for (size_t i = 1; i < argv->n; i++)
			strv_add(&words, argv->v[i]);
		strv_done(argv);
		*argv = words;
	}
	strv_done(&seen);
}
