// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/siphash.h - SipHash-2-4, a hash with a secret key, for kernel programs and processes alike.
 *
 * Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). */
#pragma once
#include <linux/types.h>

struct siphash {
	__u64 v0, v1, v2, v3;
};

#define SIPHASH_ROTATE(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))

static inline __attribute__((always_inline)) void siphash_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v1 = SIPHASH_ROTATE(s->v1, 13) ^ s->v0;
	s->v0 = SIPHASH_ROTATE(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = SIPHASH_ROTATE(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = SIPHASH_ROTATE(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = SIPHASH_ROTATE(s->v1, 17) ^ s->v2;
	s->v2 = SIPHASH_ROTATE(s->v2, 32);
}

static inline __attribute__((always_inline)) void siphash_start(struct siphash *s,
								const __u64 key[2])
{
	s->v0 = key[0] ^ 0x736f6d6570736575ULL;
	s->v1 = key[1] ^ 0x646f72616e646f6dULL;
	s->v2 = key[0] ^ 0x6c7967656e657261ULL;
	s->v3 = key[1] ^ 0x7465646279746573ULL;
}

/* Eight bytes, as a little-endian number. */
static inline __attribute__((always_inline)) void siphash_word(struct siphash *s, __u64 word)
{
	s->v3 ^= word;
	siphash_round(s);
	siphash_round(s);
	s->v0 ^= word;
}

/* The hash. rest: the last len % 8 bytes, as a little-endian number. */
static inline __attribute__((always_inline)) __u64 siphash_end(struct siphash *s, __u64 rest,
							       __u64 len)
{
	siphash_word(s, rest | len << 56);
	s->v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		siphash_round(s);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* The hash of bytes in memory, on a little-endian machine. */
static inline __u64 siphash(const __u64 key[2], const void *bytes, __u64 len)
{
	const char *at = bytes, *end = at + len / 8 * 8;
	struct siphash s;
	__u64 word;

	siphash_start(&s, key);
	for (; at < end; at += 8) {
		__builtin_memcpy(&word, at, 8);
		siphash_word(&s, word);
	}
	word = 0;
	__builtin_memcpy(&word, at, len % 8);
	return siphash_end(&s, word, len);
}
