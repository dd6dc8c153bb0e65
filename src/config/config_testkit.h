// SPDX-License-Identifier: Apache-2.0
/* config/config_testkit.h - the system's defaults as a test's state. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "config/config.h"

static inline int kit_open(void **state)
{
	struct config *c = mem_new(struct config);

	*state = c;
	return config_defaults(CONFIG_SYSTEM, c, NULL);
}

static inline int kit_close(void **state)
{
	config_done(*state);
	free(*state);
	return 0;
}

#define KIT_TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

static inline int kit_parse(struct config *c, const char *text, struct buf *report, struct err *err)
{
	return config_parse("c.yaml", text, strlen(text), c, report, err);
}
