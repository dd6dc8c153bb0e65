// SPDX-License-Identifier: Apache-2.0
/* fs/call_ring.h - reads the ring into which the kernel's program writes path calls of the session:
 * bpf/file_layout.h. One thread. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_ring;

/* Maps the ring; the descriptor is borrowed and readable while there are records. */
int call_ring_open(int map, struct call_ring **out, struct err *err);
void call_ring_free(struct call_ring *r); /* NULL is fine */
/* Hands over at most n records, the oldest first; returns how many. A record is borrowed for the
 * call. */
typedef void call_ring_fn(const void *record, size_t len, void *arg);
unsigned call_ring_read(struct call_ring *r, unsigned n, call_ring_fn *fn, void *arg);
