// SPDX-License-Identifier: Apache-2.0
/* event/ring_heads.h - how far the other processes of a session have written their rings.
 *
 * The warden maps the first page of each such ring, read-only. Where a command ends in them goes to
 * the API process as a list of "NAME POSITION". */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/process_table.h"
#include <stdbool.h>

struct ring_page;
struct ring_heads {
	struct {
		const char *name; /* borrowed */
		const struct ring_page *page;
		uint64_t seen; /* its head when it was last looked at */
		uint64_t rung; /* the bell has rung for all events before this position */
	} ring[PROCESS_RINGS];
	size_t n;
};
/* name must outlive h. Takes the descriptor. */
int ring_heads_add(struct ring_heads *h, const char *name, int ring_fd, struct err *err);
void ring_heads_close(struct ring_heads *h);
/* Looks at every head; true if the bell has not rung for all events. */
bool ring_heads_look(struct ring_heads *h);
void ring_heads_rung(struct ring_heads *h); /* it has rung for the heads that were seen last */
/* The list of the heads that were seen last; replaces out. */
void ring_heads_format(const struct ring_heads *h, struct strv *out);
/* The position of a name in a list; UINT64_MAX: the name is not in it. */
uint64_t ring_heads_find(const struct strv *list, const char *name);
