// SPDX-License-Identifier: Apache-2.0
/* base/fnv.h - FNV-1a, for hash tables and fingerprints. An attacker can make collisions. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define FNV32 UINT32_C(0x811c9dc5)
#define FNV64 UINT64_C(0xcbf29ce484222325)

/* Continues from the hash of the bytes before; FNV32 or FNV64 starts. */
static inline uint32_t fnv32(uint32_t h, const void *p, size_t n)
{
	for (const uint8_t *b = p; n > 0; b++, n--)
		h = (h ^ *b) * UINT32_C(0x01000193);
	return h;
}
static inline uint64_t fnv64(uint64_t h, const void *p, size_t n)
{
	for (const uint8_t *b = p; n > 0; b++, n--)
		h = (h ^ *b) * UINT64_C(0x100000001b3);
	return h;
}
