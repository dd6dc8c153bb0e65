// SPDX-License-Identifier: Apache-2.0
/* base/utf8.h - one UTF-8 character (RFC 3629: no surrogates, nothing overlong, at most U+10FFFF).
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Length of the character at p of n > 0 bytes; 0 if it is not a character; -1 if the n bytes are
 * the beginning of one. */
static inline int utf8_char(const uint8_t *p, size_t n)
{
	const uint8_t c = p[0];
	const int len = c < 0x80   ? 1
			: c < 0xc2 ? 0
			: c < 0xe0 ? 2
			: c < 0xf0 ? 3
			: c < 0xf5 ? 4
				   : 0;
	const uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	const uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;

	if (len > 1 && n > 1 && (p[1] < low || p[1] > high))
		return 0;
	for (int i = 2; i < len && (size_t)i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return (size_t)len > n ? -1 : len;
}
