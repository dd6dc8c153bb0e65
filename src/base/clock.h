// SPDX-License-Identifier: Apache-2.0
/* base/clock.h - time is handed in, so that tests own it. */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

struct clock {
	int64_t (*mono_us)(const struct clock *c);
	int64_t (*wall_us)(const struct clock *c);
	int64_t fixed_us; /* for tests: both functions NULL means this value */
};
extern const struct clock clock_system;
int64_t clock_mono_us(const struct clock *c);
int64_t clock_wall_us(const struct clock *c);
/* "2026-01-02T03:04:05.678901Z"; with_us false gives whole seconds. */
void clock_format(struct buf *out, int64_t wall_us, bool with_us);
/* RFC 3339 (any offset) to wall microseconds; 0 or -1. */
int clock_parse(const char *s, int64_t *wall_us);
