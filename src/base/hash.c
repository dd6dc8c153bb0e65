// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/mem.h"
#include <nettle/memops.h>
#include <nettle/sha2.h>

/* Of nettle, since it is small: to load and relocate libcrypto takes each process over a
 * millisecond. */
void hash_sha256(uint8_t out[HASH_LEN], const void *a, size_t na, const void *b, size_t nb)
{
	struct sha256_ctx ctx;

	sha256_init(&ctx);
	if (na > 0)
		sha256_update(&ctx, na, a);
	if (nb > 0)
		sha256_update(&ctx, nb, b);
	sha256_digest(&ctx, HASH_LEN, out);
}

void hash_hex(char out[HASH_HEX], const uint8_t in[HASH_LEN])
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < HASH_LEN; i++) {
		out[2 * i] = digit[in[i] >> 4];
		out[2 * i + 1] = digit[in[i] & 15];
	}
	out[2 * HASH_LEN] = '\0';
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int hash_unhex(uint8_t *out, size_t n, const char *hex)
{
	if (strlen(hex) != 2 * n)
		return -1;
	for (size_t i = 0; i < 2 * n; i++)
		if (nibble(hex[i]) < 0)
			return -1;
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
	return 0;
}

int hash_equal(const void *a, const void *b, size_t n)
{
	return memeql_sec(a, b, n);
}
