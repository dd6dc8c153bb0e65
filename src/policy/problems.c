// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "policy/source.h"
#include <stdio.h>
#include <string.h>

#define LINES_MAX 200 /* one more line counts the rest */
#define TEXT_LEN 400
#define CHOICES_MAX 20 /* a longer list is not shown */

/* level: "error", "warning", or "notice", which --strict does not count as an error. */
__attribute__((format(printf, 5, 0))) static void add(struct problems *p, const char *level,
						      unsigned line, unsigned column,
						      const char *fmt, va_list ap)
{
	char text[TEXT_LEN];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (strcmp(level, "error") == 0 && p->errors++ == 0)
		err_set(p->err, E_BAD_REQUEST, p->file, "%s:%u:%u: %s", p->file, line, column,
			text);
	if (p->out != NULL && p->shown < LINES_MAX)
		buf_addf(p->out, "%s:%u:%u: %s: %s\n", p->file, line, column, level, text);
	p->shown++;
}

void problem(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(p, "error", line, column, fmt, ap);
	va_end(ap);
}

void warning(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(p, p->strict ? "error" : "warning", line, column, fmt, ap);
	va_end(ap);
}

void notice(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(p, "notice", line, column, fmt, ap);
	va_end(ap);
}

void problem_unknown(struct problems *p, unsigned line, unsigned column, const char *what,
		     const char *word, const char *const *known)
{
	const char *near = yaml_suggest(word, known);
	cleanup_buf struct buf choices = {0};
	size_t n = 0;

	while (known[n] != NULL)
		n++;
	for (size_t i = 0; i < n && n <= CHOICES_MAX; i++)
		buf_addf(&choices, "%s%s", i == 0 ? "; choices: " : ", ", known[i]);
	problem(p, line, column, "unknown %s '%.100s'%s%s%s%s", what, word,
		near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
		near != NULL ? "'?)" : "", choices.len > 0 ? choices.data : "");
}

int problems_done(struct problems *p)
{
	if (p->out != NULL && p->shown > LINES_MAX)
		buf_addf(p->out, "%s: and %u more\n", p->file, p->shown - LINES_MAX);
	return p->errors > 0 ? -E_BAD_REQUEST : 0;
}
