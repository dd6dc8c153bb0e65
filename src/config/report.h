// SPDX-License-Identifier: Apache-2.0
/* config/report.h - every problem of a file in one pass: lines "file:line:column: message", the
 * first one also as the error. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/yaml.h"

#define REPORT_MAX 100 /* lines; the last one counts the rest */

struct report {
	const char *name; /* of the file */
	struct buf *out;  /* borrowed, may be NULL */
	struct err *err;  /* borrowed, may be NULL */
	unsigned count;
};

void report_add(struct report *r, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Reports an unknown key, with a suggestion if near is not NULL. */
void report_unknown(struct report *r, const struct yaml_item *item, const char *shown,
		    const char *near);
/* 0, or -E_BAD_REQUEST if anything was reported. */
int report_done(struct report *r);
