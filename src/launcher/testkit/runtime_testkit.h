// SPDX-License-Identifier: Apache-2.0
/* launcher/testkit/runtime_testkit.h - a place for a server that is not there yet. */
#pragma once
#include "base/mem.h"
#include "launcher/runtime.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#define API_UID 61234

struct here {
	char dir[64];
	char socket[96], base[96], lock[112];
	struct config config;
};

int here_setup(void **state);
int here_teardown(void **state);
bool privileged(void);
