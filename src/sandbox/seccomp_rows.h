// SPDX-License-Identifier: Apache-2.0
/* sandbox/seccomp_rows.h - how the rows of the tables are written; private to the tables. */
#pragma once
#include "sandbox/seccomp_table.h"
#include <asm/unistd.h>

#define CALL(name) #name, __NR_##name
#define VALUES(...)                                                       \
	sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), UINT32_MAX, \
	{                                                                 \
		__VA_ARGS__                                               \
	}
#define IS(arg, ...)                        \
	{                                   \
		arg, 0, VALUES(__VA_ARGS__) \
	}
#define IS_NOT(arg, ...)                    \
	{                                   \
		arg, 1, VALUES(__VA_ARGS__) \
	}
#define ANY_BIT(arg, bits)       \
	{                        \
		arg, 1, 1, bits, \
		{                \
			0        \
		}                \
	}
#define FIELD_IS(arg, bits, value) \
	{                          \
		arg, 0, 1, bits,   \
		{                  \
			value      \
		}                  \
	}
/* Behind other rows of its call. */
#define ALWAYS FIELD_IS(0, 0, 0)
#define SOCKET_TYPE 0xf
