// SPDX-License-Identifier: Apache-2.0
#include "policy/cidr.h"
#include "base/mem.h"
#include <stdio.h>

#define MAPPED_BITS 96
#define SYNTAX "not an address block such as 10.0.0.0/8 or fd00::/8"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

void cidr_mask(uint8_t byte[16], unsigned bits)
{
	for (unsigned i = 0; i < 16; i++, bits -= bits < 8 ? bits : 8)
		if (bits < 8)
			byte[i] &= (uint8_t)(0xff00U >> bits);
}

struct op_address cidr_normal(const struct op_address *a)
{
	struct op_address v4 = {.family = 4};

	if (a->family != 6 || memcmp(a->byte, mapped, sizeof(mapped)) != 0)
		return *a;
	memcpy(v4.byte, a->byte + sizeof(mapped), 4);
	return v4;
}

/* Reads the number behind the slash; -1 if it is not a number up to most. */
static int parse_bits(const char *s, unsigned most)
{
	const size_t digits = strspn(s, "0123456789");
	const unsigned long n = strtoul(s, NULL, 10);

	if (digits == 0 || s[digits] != '\0' || (s[0] == '0' && digits > 1) || n > most)
		return -1;
	return (int)n;
}

void cidr_format(const struct cidr *c, struct buf *out)
{
	struct op_address a = {.family = c->family};

	memcpy(a.byte, c->byte, sizeof(a.byte));
	op_address_format(&a, out);
	buf_addf(out, "/%u", c->bits);
}

const char *cidr_parse(const char *s, struct cidr *out, char *fixed)
{
	const char *slash = strchr(s, '/');
	const size_t n = slash != NULL ? (size_t)(slash - s) : strlen(s);
	char text[CIDR_TEXT];
	struct op_address a;
	struct cidr c = {0};
	int bits;

	fixed[0] = '\0';
	if (n >= sizeof(text))
		return SYNTAX;
	memcpy(text, s, n);
	text[n] = '\0';
	if (!op_address_parse(text, &a))
		return SYNTAX;
	bits = slash == NULL ? (a.family == 4 ? 32 : 128)
			     : parse_bits(slash + 1, a.family == 4 ? 32 : 128);
	if (bits < 0)
		return a.family == 4 ? "the number behind '/' must be 0 to 32"
				     : "the number behind '/' must be 0 to 128";
	if (a.family == 6 && bits >= MAPPED_BITS && cidr_normal(&a).family == 4) {
		a = cidr_normal(&a);
		bits -= MAPPED_BITS;
	}
	c.family = a.family;
	c.bits = (uint8_t)bits;
	memcpy(c.byte, a.byte, sizeof(c.byte));
	cidr_mask(c.byte, c.bits);
	if (memcmp(c.byte, a.byte, sizeof(c.byte)) != 0) {
		cleanup_buf struct buf shown = {0};

		cidr_format(&c, &shown);
		snprintf(fixed, CIDR_TEXT, "%s", shown.data);
		return "bits behind the length of the block are set";
	}
	*out = c;
	return NULL;
}

bool cidr_valid(const struct cidr *c)
{
	struct cidr copy = *c;

	if ((c->family != 4 && c->family != 6) || c->bits > (c->family == 4 ? 32 : 128))
		return false;
	cidr_mask(copy.byte, copy.bits);
	return memcmp(copy.byte, c->byte, sizeof(copy.byte)) == 0;
}

bool cidr_match(const struct cidr *c, const struct op_address *a)
{
	const unsigned whole = c->bits / 8, rest = c->bits % 8;

	return c->family == a->family && memcmp(c->byte, a->byte, whole) == 0 &&
	       (rest == 0 || ((c->byte[whole] ^ a->byte[whole]) & (0xff00U >> rest) & 0xffU) == 0);
}

bool cidr_covers(const struct cidr *a, const struct cidr *b)
{
	struct op_address first = {.family = b->family};

	memcpy(first.byte, b->byte, sizeof(first.byte));
	return a->bits <= b->bits && cidr_match(a, &first);
}
