// SPDX-License-Identifier: Apache-2.0
/* config/testkit/config_testkit.h - the system's defaults as a test's state. */
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

int kit_open(void **state);
int kit_close(void **state);
#define KIT_TEST(name) cmocka_unit_test_setup_teardown(name, kit_open, kit_close)

int kit_parse(struct config *c, const char *text, struct buf *report, struct err *err);
