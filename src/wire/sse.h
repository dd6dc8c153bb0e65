// SPDX-License-Identifier: Apache-2.0
/* wire/sse.h - server-sent events: formatting, and parsing for the client. */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* id and name: one line each, or NULL. data is split at newlines (CR LF, LF and CR alike). */
void sse_format(struct buf *out, const char *id, const char *name, const char *data, size_t len);
void sse_comment(struct buf *out, const char *text); /* keep-alive */

struct sse_parser {
	struct buf line, data, name, id;
	bool after_cr, has_data;
};
typedef void sse_fn(const char *id, const char *name, const char *data, size_t len, void *arg);
/* Feeds bytes; calls fn per dispatched message. id is the last one seen ("" if none), name
 * "message" if none. -1 if a line or message is over 16 MiB. */
int sse_parse(struct sse_parser *p, const char *bytes, size_t n, sse_fn *fn, void *arg);
void sse_parser_done(struct sse_parser *p);
