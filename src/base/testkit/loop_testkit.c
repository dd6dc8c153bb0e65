// SPDX-License-Identifier: Apache-2.0
#include "base/testkit/loop_testkit.h"

void loop_kit_nothing(void *arg)
{
}

static void end_loop(void *arg)
{
	loop_stop(arg);
}

void loop_pass(struct loop *l)
{
	struct watch *now = watch_timer(l, loop_kit_nothing, NULL);

	watch_after(now, 0);
	loop_turn(l);
	watch_free(now);
}

void loop_settle(struct loop *l)
{
	for (int i = 0; i < 8; i++)
		loop_pass(l);
}

void loop_run_ms(struct loop *l, unsigned ms)
{
	struct watch *end = watch_timer(l, end_loop, l);

	watch_after(end, ms);
	loop_run(l);
	watch_free(end);
}
