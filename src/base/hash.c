// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/mem.h"
#include <nettle/base16.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

/* nettle is small: to load and relocate libcrypto takes each process over a millisecond. */
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
	base16_encode_update(out, HASH_LEN, in);
	out[2 * HASH_LEN] = '\0';
}

int hash_unhex(uint8_t *out, size_t n, const char *hex)
{
	struct base16_decode_ctx ctx;
	size_t len = n;

	if (strlen(hex) != 2 * n || strspn(hex, "0123456789abcdefABCDEF") != 2 * n)
		return -1;
	base16_decode_init(&ctx);
	ensure(base16_decode_update(&ctx, &len, out, 2 * n, hex) && len == n);
	return 0;
}

int hash_equal(const void *a, const void *b, size_t n)
{
	return memeql_sec(a, b, n);
}
