// SPDX-License-Identifier: Apache-2.0
/* event/fold.h - repeats of an event become a count.
 *
 * The first event of its kind is recorded at once. Equal ones that follow it within the delay are
 * gathered and recorded as one event with their count and the sum of their bytes. Events are equal
 * if they differ only in time, latency, bytes, offset and sizes. Any thread. */
#pragma once
#include "base/clock.h"
#include "event/recorder.h"

struct fold;

/* Both are borrowed. */
struct fold *fold_new(struct recorder *r, const struct clock *clock);
void fold_free(struct fold *f); /* records what is gathered; NULL is fine */
/* size: most repeats in an event; 0 or 1 records every event by itself. delay: longest time that a
 * repeat waits. */
void fold_set(struct fold *f, unsigned size, int64_t delay_us);
/* Strings are borrowed. True: it is gathered, and fold_flush is to be called. */
bool fold_event(struct fold *f, const struct event *e);
/* Records what has waited long enough, or all. Returns when the next will have, on the monotonic
 * clock; -1: nothing waits. */
int64_t fold_flush(struct fold *f, bool all);
