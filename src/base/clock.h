// SPDX-License-Identifier: Apache-2.0
/* base/clock.h - time is handed in, so that tests own it. */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct clock {
	bool system;
	/* For tests: without system all three clocks show fixed_us, the wall clock stepped_us
	 * later. */
	int64_t fixed_us, stepped_us;
};
extern const struct clock clock_system;
int64_t clock_mono_us(const struct clock *c);
int64_t clock_wall_us(const struct clock *c);
/* CLOCK_BOOTTIME: for ages and deadlines across a suspend. It cannot be stepped. */
int64_t clock_boot_us(const struct clock *c);
/* "2026-01-02T03:04:05.678901Z"; with_us false gives whole seconds. */
void clock_format(struct buf *out, int64_t wall_us, bool with_us);
/* RFC 3339 (any offset) to wall microseconds; 0 or -1. */
int clock_parse(const char *s, int64_t *wall_us);
