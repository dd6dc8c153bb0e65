// SPDX-License-Identifier: Apache-2.0
/* event/writer.h - a thread that carries out one job at a time for the loop.
 *
 * What the job uses belongs to the thread from writer_begin until writer_wait returns, and to the
 * loop at all other times: the job itself needs no lock. All functions are the loop's. */
#pragma once
#include "base/err.h"
#include <stdbool.h>

struct loop;
struct writer;
typedef void writer_fn(void *arg);

/* job runs on the thread; done is called on the loop after each job, once for several if the loop
 * was slow. path is for messages. */
int writer_start(const char *path, struct loop *loop, writer_fn *job, writer_fn *done, void *arg,
		 struct writer **out, struct err *err);
void writer_begin(struct writer *w); /* no job runs */
bool writer_idle(struct writer *w);
void writer_wait(struct writer *w); /* until no job runs */
void writer_stop(struct writer *w); /* the same, and ends the thread; NULL is fine */
