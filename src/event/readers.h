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
/* Everything is committed, or (committed false) cannot be: the asks that wait for that go on;
 * patient ones only in the first case. */
void readers_release(struct readers *r, bool committed);
/* Ends the threads; asks without an answer are dropped. NULL is fine. */
void readers_stop(struct readers *r);
