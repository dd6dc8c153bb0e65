// SPDX-License-Identifier: Apache-2.0
/* The HTTP parser: the verdict on a stream of bytes must not depend on how it was split.
 *
 * The first byte is the seed of the splits, the rest is the stream. */
#include "base/mem.h"
#include "wire/http.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {
	.max_target = 64,
	.max_header_bytes = 512,
	.max_headers = 8,
	.max_body = 256,
};

/* Everything that a request tells. */
static void note_request(const struct http_request *req, struct buf *out)
{
	static const char *const names[] = {"Host",	  "Content-Length", "Transfer-Encoding",
					    "Connection", "Upgrade",	    "Expect",
					    "X"};
	const char *body;
	size_t len;

	buf_addf(out, "[%s %s", http_method(req), http_path(req));
	ensure(http_path(req)[0] == '/');
	for (size_t i = 0; http_query_name(req, i) != NULL; i++)
		buf_addf(out, "?%s=%s", http_query_name(req, i),
			 http_query(req, http_query_name(req, i)));
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = http_header(req, names[i]);

		if (value != NULL)
			buf_addf(out, "|%s:%s", names[i], value);
	}
	body = http_body(req, &len);
	ensure(len <= limits.max_body && body[len] == '\0');
	buf_addf(out, "|%d|", http_wants_upgrade(req, "p/1"));
	buf_add(out, body, len);
	buf_adds(out, "]");
}

/* Feeds pieces of 1 to 16 bytes by seed, or the whole for seed 0; *used tells where the last
 * request ended. */
static void run(const uint8_t *data, size_t size, uint32_t seed, struct buf *out, size_t *used)
{
	struct http_parser *p = http_parser_new(&limits);
	enum http_parse r = HTTP_MORE;
	size_t at = 0;

	*used = 0;
	while (at < size && r != HTTP_BAD) {
		size_t piece = size - at, took;
		uint8_t *copy;

		if (seed != 0) {
			seed = seed * 1103515245U + 12345U;
			piece = 1 + (seed >> 16) % 16 < piece ? 1 + (seed >> 16) % 16 : piece;
		}
		copy = mem_dup(data + at, piece);
		r = http_parser_feed(p, copy, piece, &took);
		free(copy);
		ensure(took <= piece && (r != HTTP_MORE || took == piece));
		at += took;
		if (r != HTTP_READY)
			continue;
		*used = at;
		note_request(http_parser_request(p), out);
		http_parser_next(p);
	}
	if (r == HTTP_BAD) {
		const struct http_refusal *why = http_parser_refusal(p);

		ensure(why->status >= 400 && why->status <= 505);
		buf_addf(out, "<%d %s>", why->status, why->reason);
	}
	http_parser_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf whole = {0}, split = {0};
	size_t whole_used, split_used;

	if (size < 2)
		return 0;
	buf_reserve(&whole, 0);
	buf_reserve(&split, 0);
	run(data + 1, size - 1, 0, &whole, &whole_used);
	run(data + 1, size - 1, data[0] + 1U, &split, &split_used);
	ensure(whole_used == split_used);
	ensure(whole.len == split.len && memcmp(whole.data, split.data, whole.len) == 0);
	return 0;
}
