// SPDX-License-Identifier: Apache-2.0
/* link/testkit/link_testkit.h - two ends of a link, frames made by hand, and a count of open
 * descriptors. Every function fails the running cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "link/link.h"

/* The head as the wire has it; the test machines are little-endian. */
struct wire_head {
	uint32_t magic;
	uint16_t version, type;
	uint32_t req, len, flags, reserved;
};
struct wire_head good_head(enum msg_type type, size_t len);
/* Sends a frame made by hand, with nfds copies of fd. */
void raw_send(int sock, const struct wire_head *h, const void *payload, size_t len, int fd,
	      size_t nfds);

struct pair {
	struct link a, b;
};
/* a is `from`, b is `to`, both in the given state. */
void pair_open(struct pair *p, enum link_side from, enum link_side to, enum link_state at);
void pair_close(struct pair *p);

/* A test with these as setup and teardown fails if it leaves a descriptor open. */
int remember_fds(void **state);
int no_fd_leaked(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, remember_fds, no_fd_leaked)
