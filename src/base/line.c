// SPDX-License-Identifier: Apache-2.0
#include "base/line.h"
#include "base/json.h"
#include <string.h>

void line_add_word(struct buf *out, const char *word, size_t most)
{
	if (word[0] != '\0' && strpbrk(word, " \t\n\"'\\$`|&;()<>*?[]{}~#!") == NULL) {
		buf_adds(out, word);
		return;
	}
	buf_addc(out, '\'');
	for (const char *p = word; *p != '\0' && out->len <= most; p++) {
		if (*p == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *p);
	}
	buf_addc(out, '\'');
}

char *line_of(const struct strv *argv, const char *script)
{
	struct buf b = {0};

	if (script != NULL)
		buf_add(&b, script, strnlen(script, LINE_BYTES + 1));
	for (size_t i = 0; script == NULL && i < argv->n && b.len <= LINE_BYTES; i++) {
		if (i > 0)
			buf_addc(&b, ' ');
		line_add_word(&b, argv->v[i], LINE_BYTES);
	}
	if (b.len > LINE_BYTES) {
		b.len = json_text_cut(b.data, LINE_BYTES);
		buf_adds(&b, "…");
	}
	return buf_take(&b);
}
