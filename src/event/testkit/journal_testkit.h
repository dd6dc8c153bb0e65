// SPDX-License-Identifier: Apache-2.0
/* event/testkit/journal_testkit.h - a journal with both its sides, for the tests of either. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "event/journal.h"
#include "event/journal_layout.h"

#define PAIR_SIZE JOURNAL_RING_MIN

/* Both sides of one journal, and the events that the reader read. */
struct pair {
	char dir[64], ring[80], ack[80];
	int ring_fd, ack_fd;
	struct journal *j;
	struct journal_reader *r;
	uint64_t seen;
	uint64_t next;	   /* op_offset that must come */
	uint64_t last_pos; /* of the last event */
	uint64_t dropped;
	size_t last_path; /* length */
};

int pair_setup(void **state);
int pair_teardown(void **state);
int pair_again(void **state); /* starts the pair's files anew */
void pair_reader_open(struct pair *p);
void pair_producer_open(struct pair *p);
bool pair_on_event(const struct event *e, uint64_t pos, void *arg);
int pair_drain(struct pair *p, unsigned max);
/* Appends the event number n with a path of this length. */
int pair_append(struct pair *p, uint64_t n, size_t path);
/* Bytes in the ring of an event of pair_append. */
size_t pair_record_size(size_t path);
/* Appends until exactly `left` bytes of the lap are left; returns the number of the next event. */
uint64_t pair_fill_to(struct pair *p, uint64_t n, uint64_t left);
void pair_set_u64(int fd, off_t at, uint64_t v);
