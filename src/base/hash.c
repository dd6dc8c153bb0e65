// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/mem.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>

/* OpenSSL 3 looks an algorithm up by name at each use; the event chain hashes every event. */
static EVP_MD *sha256;

static void fetch(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	ensure(sha256 != NULL);
}

void hash_sha256(uint8_t out[HASH_LEN], const void *a, size_t na, const void *b, size_t nb)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	pthread_once(&once, fetch);
	ensure(ctx != NULL && EVP_DigestInit_ex2(ctx, sha256, NULL) == 1);
	ensure(na == 0 || EVP_DigestUpdate(ctx, a, na) == 1);
	ensure(nb == 0 || EVP_DigestUpdate(ctx, b, nb) == 1);
	ensure(EVP_DigestFinal_ex(ctx, out, NULL) == 1);
	EVP_MD_CTX_free(ctx);
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
	return CRYPTO_memcmp(a, b, n) == 0;
}
