// SPDX-License-Identifier: Apache-2.0
/* event/readers.h - two threads that answer queries of events, so that the loop does not.
 *
 * Each thread has a read-only connection, which sees committed rows only: an ask waits on the loop
 * until the writes before it are committed. The threads start with the first ask. Callers take
 * turns (fair queueing): many asks of one caller delay one ask of another by one answer at most. */
#pragma once
#include "event/store.h"

struct readers;
int readers_new(const char *path, struct loop *loop, struct readers **out, struct err *err);
/* Writes up to this number are committed: the asks that wait for them go on. failing: so do those
 * that are not patient. */
void readers_release(struct readers *r, uint64_t committed, bool failing);
/* Ends the threads; asks without an answer are dropped. NULL is fine. */
void readers_stop(struct readers *r);
