// SPDX-License-Identifier: Apache-2.0
/* The part of base/json.h that reads base64. nettle does it; static programs link without this
 * file.
 */
#include "base/json.h"
#include <nettle/base64.h>

/* nettle skips white space: then the result is too short for the text. */
int json_unbase64(struct buf *out, const char *s, size_t n, struct err *err)
{
	const size_t padding = n < 2 || s[n - 1] != '=' ? 0 : s[n - 2] == '=' ? 2 : 1;
	size_t len = BASE64_DECODE_LENGTH(n);
	struct base64_decode_ctx ctx;

	buf_reserve(out, len);
	base64_decode_init(&ctx);
	if (n % 4 != 0 ||
	    !base64_decode_update(&ctx, &len, (uint8_t *)out->data + out->len, n, s) ||
	    !base64_decode_final(&ctx) || len != n / 4 * 3 - padding) {
		out->data[out->len] = '\0';
		return err_set(err, E_BAD_REQUEST, NULL, "not base64");
	}
	out->len += len;
	out->data[out->len] = '\0';
	return 0;
}
