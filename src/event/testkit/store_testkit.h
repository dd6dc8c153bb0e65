// SPDX-License-Identifier: Apache-2.0
/* event/testkit/store_testkit.h - a store in a directory of its own, with a loop and a clock that
 * stands still, for its tests. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/store_state.h"
#include "event/testkit/chain_testkit.h"

struct world {
	char dir[64], path[80];
	struct loop *loop;
	struct clock clock;
	struct store *store;
	struct buf heard; /* the calls of sinks and waiters, in order */
};

int world_setup(void **state);
int world_teardown(void **state);
void world_open(struct world *w);
void world_turn(struct world *w);
/* The turn's end, and the commit that would come a little later. */
void world_commit(struct world *w);
void world_written(struct world *w); /* until the writer's thread has nothing to do */
/* Nothing is committed by itself until the next commit, however slow the test is. */
void world_hold(struct world *w);
uint64_t world_put(struct world *w, const char *session); /* an event; returns its seq */
void world_put_meta(struct world *w, const char *key);	  /* a row of meta */
/* One number from the database as another process would see it. */
int64_t world_number(struct world *w, const char *sql);
/* Callbacks that add a word to the list of calls. */
void world_on_sink(const struct stored_event *e, void *data);
void world_on_done(void *data);
void world_on_commit(void *data);
void world_on_done_write_again(void *data);
/* Compares the words since the last call. */
void world_assert_heard(struct world *w, const char *want);
/* The chain is whole and ends with this event. */
void world_assert_chain(struct world *w, uint64_t last);
