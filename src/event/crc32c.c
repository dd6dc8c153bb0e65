// SPDX-License-Identifier: Apache-2.0
#include "event/crc32c.h"
#include <string.h>

/* Four bits at a time: small enough to be read, and only for processors without the instruction. */
uint32_t crc32c_plain(uint32_t crc, const void *p, size_t n)
{
	static const uint32_t nibble[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const uint8_t *s = p;

	crc = ~crc;
	for (size_t i = 0; i < n; i++) {
		crc = nibble[(crc ^ s[i]) & 15] ^ (crc >> 4);
		crc = nibble[(crc ^ (uint32_t)(s[i] >> 4)) & 15] ^ (crc >> 4);
	}
	return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *p,
							       size_t n)
{
	const uint8_t *s = p;
	uint64_t wide = ~crc, word;

	for (; n >= sizeof(word); s += sizeof(word), n -= sizeof(word)) {
		memcpy(&word, s, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	crc = (uint32_t)wide;
	for (; n > 0; s++, n--)
		crc = __builtin_ia32_crc32qi(crc, *s);
	return ~crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_sse42(crc, p, n);
#endif
	return crc32c_plain(crc, p, n);
}
