// SPDX-License-Identifier: Apache-2.0
/* policy/cidr.h - blocks of addresses, v4 and v6. Private to this folder. */
#pragma once
#include "model/op.h"

struct cidr {
	uint8_t family; /* 4, 6 */
	uint8_t bits;
	uint8_t byte[16]; /* zero behind bits */
};

/* Parses "10.0.0.0/8", "fd00::/8", or an address alone. Returns NULL or what is wrong; fixed (at
 * least CIDR_TEXT) then has the block that the author may have meant, or "". */
#define CIDR_TEXT 56
const char *cidr_parse(const char *s, struct cidr *out, char *fixed);
/* Turns a v4-mapped v6 address into its v4 address; returns other addresses unchanged. */
struct op_address cidr_normal(const struct op_address *a);
/* a is normal. */
bool cidr_match(const struct cidr *c, const struct op_address *a);
bool cidr_covers(const struct cidr *a, const struct cidr *b);
/* Whether cidr_parse can give c. */
bool cidr_valid(const struct cidr *c);
/* Keeps the first bits of an address and sets the others to zero. */
void cidr_mask(uint8_t byte[16], unsigned bits);
void cidr_format(const struct cidr *c, struct buf *out);
