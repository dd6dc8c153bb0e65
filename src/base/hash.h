// SPDX-License-Identifier: Apache-2.0
/* base/hash.h - SHA-256 and hexadecimal. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define HASH_LEN 32
#define HASH_HEX (2 * HASH_LEN + 1)
/* Digest of the concatenation of two parts (either may be empty). */
void hash_sha256(uint8_t out[HASH_LEN], const void *a, size_t na, const void *b, size_t nb);
void hash_hex(char out[HASH_HEX], const uint8_t in[HASH_LEN]);
int hash_unhex(uint8_t *out, size_t n, const char *hex); /* exactly n bytes; 0 or -1 */
int hash_equal(const void *a, const void *b, size_t n);	 /* constant time; 1 if equal */
