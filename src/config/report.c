// SPDX-License-Identifier: Apache-2.0
#include "config/report.h"
#include <stdio.h>

#define LINE_LEN 512

void report_add(struct report *r, unsigned line, unsigned column, const char *fmt, ...)
{
	char text[LINE_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (r->count == 0)
		err_set(r->err, E_BAD_REQUEST, r->name, "%s:%u:%u: %s", r->name, line, column,
			text);
	if (r->out != NULL && r->count < REPORT_MAX)
		buf_addf(r->out, "%s:%u:%u: %s\n", r->name, line, column, text);
	r->count++;
}

void report_unknown(struct report *r, const struct yaml_item *item, const char *shown,
		    const char *near)
{
	report_add(r, item->key_line, item->key_column, "unknown key '%.100s'%s%s%s", shown,
		   near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
		   near != NULL ? "'?)" : "");
}

int report_done(struct report *r)
{
	if (r->out != NULL && r->count > REPORT_MAX)
		buf_addf(r->out, "%s: and %u more\n", r->name, r->count - REPORT_MAX);
	return r->count > 0 ? -E_BAD_REQUEST : 0;
}
