// SPDX-License-Identifier: Apache-2.0
/* base/loop_testkit.h - ways in which tests run a loop. */
#pragma once
#include "base/loop.h"

static inline void loop_kit_nothing(void *arg)
{
}

static inline void loop_kit_end(void *arg)
{
	loop_stop(arg);
}

/* One turn that does not sleep. */
static inline void loop_pass(struct loop *l)
{
	struct watch *now = watch_timer(l, loop_kit_nothing, NULL);

	watch_after(now, 0);
	loop_turn(l);
	watch_free(now);
}

/* What is ready, and what follows from it. */
static inline void loop_settle(struct loop *l)
{
	for (int i = 0; i < 8; i++)
		loop_pass(l);
}

/* Runs until somebody stops it, for at most so long. */
static inline void loop_run_ms(struct loop *l, unsigned ms)
{
	struct watch *end = watch_timer(l, loop_kit_end, l);

	watch_after(end, ms);
	loop_run(l);
	watch_free(end);
}
