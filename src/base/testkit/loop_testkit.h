// SPDX-License-Identifier: Apache-2.0
/* base/testkit/loop_testkit.h - ways in which tests run a loop. */
#pragma once
#include "base/loop.h"

/* A timer or watch that does nothing. */
void loop_kit_nothing(void *arg);

/* One turn that does not sleep. */
void loop_pass(struct loop *l);

/* Runs what is ready, and what follows from it. */
void loop_settle(struct loop *l);

/* Runs until loop_stop(), but not longer than ms. */
void loop_run_ms(struct loop *l, unsigned ms);
