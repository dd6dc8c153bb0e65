// SPDX-License-Identifier: Apache-2.0
#include "shell/alias.h"
#include "base/buf.h"
#include "base/mem.h"

#define BLANKS " \t\n"

/* Adds the words by blanks, '…', "…" and backslash. False: a quote does not close. */
static bool split(const char *p, struct strv *words)
{
	for (p += strspn(p, BLANKS); *p != '\0'; p += strspn(p, BLANKS)) {
		cleanup_buf struct buf word = {0};
		char quote = '\0';

		buf_adds(&word, "");
		for (; *p != '\0' && (quote != '\0' || strchr(BLANKS, *p) == NULL); p++) {
			if (quote == '\0' && (*p == '\'' || *p == '"')) {
				quote = *p;
				continue;
			}
			if (*p == quote) {
				quote = '\0';
				continue;
			}
			if (*p == '\\' && quote != '\'' && p[1] != '\0' &&
			    (quote == '\0' || strchr("\"\\$`", p[1]) != NULL))
				p++;
			buf_addc(&word, *p);
		}
		if (quote != '\0')
			return false;
		strv_add(words, word.data);
	}
	return true;
}

int alias_set(struct shell_memory *m, const char *name, const char *value, struct err *err)
{
	struct strv words = {0};
	bool closed;

	/* The name must be one plain word of a shell. */
	if (name[0] == '\0' || strpbrk(name, " \t\n/$`'\"\\|&;()<>=") != NULL)
		return err_set(err, E_BAD_REQUEST, name, "`%s': invalid alias name", name);
	closed = split(value, &words);
	strv_done(&words);
	if (!closed)
		return err_set(err, E_BAD_REQUEST, NULL, "a quote does not close");
	if (!env_put(&m->aliases, name, value, ALIAS_BYTES_MAX, ALIAS_MAX))
		return err_set(err, E_TOO_LARGE, NULL, "more than %d aliases or %d bytes of them",
			       ALIAS_MAX, ALIAS_BYTES_MAX);
	return 0;
}

void alias_expand(const struct shell_memory *m, struct strv *argv)
{
	struct strv seen = {0};

	while (argv->n > 0) {
		const char *value = strv_env_get(&m->aliases, argv->v[0]);
		struct strv words = {0};

		if (value == NULL || strv_has(&seen, argv->v[0]))
			break;
		strv_add(&seen, argv->v[0]);
		split(value, &words);
		if (words.n == 0)
			break;
		for (size_t i = 1; i < argv->n; i++)
			strv_add(&words, argv->v[i]);
		strv_done(argv);
		*argv = words;
	}
	strv_done(&seen);
}
