// SPDX-License-Identifier: Apache-2.0
/* policy/cidr.h - blocks of addresses, v4 and v6. Private to this folder. */
#pragma once
#include "model/op.h"

struct cidr {
	uint8_t family; /* 4, 6 */
	uint8_t bits;
	uint8_t byte[16]; /* zero behind bits */
};

/* "10.0.0.0/8", "fd00::/8", or an address alone. NULL, or what is wrong with it; fixed (at least
 * CIDR_TEXT) then has the block that was meant, or "". */
#define CIDR_TEXT 56
const char *cidr_parse(const char *s, struct cidr *out, char *fixed);
/* A v4-mapped v6 address as the v4 address it stands for; others as they are. */
struct op_address cidr_normal(const struct op_address *a);
/* a is normal. */
bool cidr_match(const struct cidr *c, const struct op_address *a);
bool cidr_covers(const struct cidr *a, const struct cidr *b);
/* Whether c is one that cidr_parse can give. */
bool cidr_valid(const struct cidr *c);
/* The first bits of an address of family, the rest zero. */
void cidr_mask(uint8_t byte[16], unsigned bits);
void cidr_format(const struct cidr *c, struct buf *out);
