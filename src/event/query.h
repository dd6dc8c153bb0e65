// SPDX-License-Identifier: Apache-2.0
/* event/query.h - runs one query of events on one connection, within a budget.
 *
 * Any thread that owns the connection. The first fitting index is the way to the rows, in the order
 * of seq; all other filters are looked at row by row, so that every row counts for the budget. */
#pragma once
#include "event/store.h"
#include <stdatomic.h>

#define QUERY_ROWS 50000
#define QUERY_US 40000
#define QUERY_BYTES (4 * 1024 * 1024) /* of bodies in one answer */
#define QUERY_COUNTED 10000

struct query_budget {
	uint64_t rows;
	int64_t us;
	size_t bytes;
	uint64_t counted;	      /* matches; a total above it is not exact */
	const atomic_bool *cancelled; /* set by any thread */
};

/* Calls fn for each match in order of seq. budget NULL: none. count: page->total is wanted. Fails
 * with E_UNAVAILABLE if the database cannot be read; page is then untouched. */
int query_run(sqlite3 *db, const struct event_query *q, const struct query_budget *budget,
	      bool count, store_row_fn *fn, void *arg, struct event_page *page, struct err *err);
