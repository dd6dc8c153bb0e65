// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/http.h"

static const struct http_limits small = {
	.max_target = 40,
	.max_header_bytes = 200,
	.max_headers = 5,
	.max_body = 20,
};

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define CHUNKED GET HOST "Transfer-Encoding: chunked\r\n\r\n"
#define X10 "xxxxxxxxxx"
#define X50 X10 X10 X10 X10 X10
#define X250 X50 X50 X50 X50 X50
#define X1000 X250 X250 X250 X250

struct row {
	const char *name, *bytes;
	size_t len;
	int status; /* 0: it is not refused */
};
#define ROW(name, bytes, status)                       \
	{                                              \
		name, bytes, sizeof(bytes) - 1, status \
	}

/* Every reject branch of the parser, each boundary from its outer side. */
static const struct row bad_rows[] = {
	/* lines */
	ROW("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
	ROW("bare LF as first byte", "\n", 400),
	ROW("bare LF after a header", GET "Host: a\n\r\n", 400),
	ROW("bare LF instead of the empty line", GET HOST "\n", 400),
	ROW("CR inside a line", GET "Host: a\rb\r\n\r\n", 400),
	ROW("CR CR LF", GET "Host: a\r\r\n\r\n", 400),
	ROW("two empty lines before the request", "\r\n\r\n", 400),
	/* request line */
	ROW("no space", "GET\r\n", 400),
	ROW("no method", " / HTTP/1.1\r\n", 400),
	ROW("method of 17 characters", "ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\n", 400),
	ROW("bad character in the method", "G(T / HTTP/1.1\r\n", 400),
	ROW("NUL in the method", "G\0T / HTTP/1.1\r\n", 400),
	ROW("no version", "GET /\r\n", 400),
	ROW("empty version", "GET / \r\n", 400),
	ROW("two spaces", "GET  / HTTP/1.1\r\n", 400),
	ROW("space behind the version", "GET / HTTP/1.1 \r\n", 400),
	ROW("NUL behind the version", "GET / HTTP/1.1\0\r\n", 400),
	ROW("tab as separator", "GET\t/\tHTTP/1.1\r\n", 400),
	ROW("target of 41 bytes", "GET /" X10 X10 X10 X10 " HTTP/1.1\r\n", 414),
	ROW("endless request line", "GET /" X250, 414),
	ROW("request line over its bound with LF", "GET /" X50 X10 X10 " HTTP/1.1\r\n", 414),
	ROW("control byte in the target", "GET /\x01 HTTP/1.1\r\n", 400),
	ROW("NUL in the target", "GET /\0 HTTP/1.1\r\n", 400),
	ROW("DEL in the target", "GET /\x7f HTTP/1.1\r\n", 400),
	ROW("raw UTF-8 in the target", "GET /\xc3\xa4 HTTP/1.1\r\n", 400),
	ROW("fragment", "GET /#a HTTP/1.1\r\n", 400),
	ROW("quote in the target", "GET /\" HTTP/1.1\r\n", 400),
	ROW("empty target", "GET  HTTP/1.1\r\n", 400),
	ROW("absolute target", "GET http://a/ HTTP/1.1\r\n", 400),
	ROW("authority as target", "CONNECT a:80 HTTP/1.1\r\n", 400),
	ROW("asterisk", "OPTIONS * HTTP/1.1\r\n", 400),
	ROW("escape cut off", "GET /%4 HTTP/1.1\r\n", 400),
	ROW("escape without digits", "GET /% HTTP/1.1\r\n", 400),
	ROW("escape with a bad first digit", "GET /%g0 HTTP/1.1\r\n", 400),
	ROW("escape with a bad second digit", "GET /%0G HTTP/1.1\r\n", 400),
	ROW("escape with an underscore", "GET /%4_ HTTP/1.1\r\n", 400),
	ROW("escaped NUL in the path", "GET /%00 HTTP/1.1\r\n", 400),
	ROW("escaped slash in the path", "GET /a%2Fb HTTP/1.1\r\n", 400),
	ROW("escaped NUL in a parameter", "GET /?a=%00 HTTP/1.1\r\n", 400),
	ROW("bad escape in a parameter's name", "GET /?%zz=1 HTTP/1.1\r\n", 400),
	ROW("parameter without name", "GET /?=1 HTTP/1.1\r\n", 400),
	ROW("parameter twice", "GET /?a=1&b=2&a=3 HTTP/1.1\r\n", 400),
	ROW("parameter twice by escape", "GET /?a=1&%61=1 HTTP/1.1\r\n", 400),
	ROW("HTTP/0.9", "GET / HTTP/0.9\r\n", 505),
	ROW("HTTP/1.2", "GET / HTTP/1.2\r\n", 505),
	ROW("HTTP/2.0", "PRI / HTTP/2.0\r\n", 505),
	ROW("HTTP/9.9", "GET / HTTP/9.9\r\n", 505),
	ROW("version in lower case", "GET / http/1.1\r\n", 400),
	ROW("version with a letter", "GET / HTTP/a.1\r\n", 400),
	ROW("version with a slash before zero", "GET / HTTP//.1\r\n", 400),
	ROW("version with a colon behind nine", "GET / HTTP/1.:\r\n", 400),
	ROW("version with a bad minor", "GET / HTTP/1./\r\n", 400),
	ROW("version without dot", "GET / HTTP/11\r\n", 400),
	ROW("version of one digit", "GET / HTTP/2\r\n", 400),
	ROW("version too long", "GET / HTTP/1.10\r\n", 400),
	/* headers */
	ROW("folded by space", GET "Host: a\r\n b\r\n\r\n", 400),
	ROW("folded by tab", GET "Host: a\r\n\tb\r\n\r\n", 400),
	ROW("first header folded", GET " Host: a\r\n\r\n", 400),
	ROW("space before the colon", GET "Host : a\r\n\r\n", 400),
	ROW("tab before the colon", GET "Host\t: a\r\n\r\n", 400),
	ROW("no colon", GET "Host\r\n\r\n", 400),
	ROW("no name", GET ": a\r\n\r\n", 400),
	ROW("space inside a name", GET "Ho st: a\r\n\r\n", 400),
	ROW("NUL in a name", GET "Ho\0st: a\r\n\r\n", 400),
	ROW("high byte in a name", GET "H\xf6st: a\r\n\r\n", 400),
	ROW("NUL in a value", GET "Host: a\0b\r\n\r\n", 400),
	ROW("control byte in a value", GET HOST "X: \x1f\r\n\r\n", 400),
	ROW("DEL in a value", GET HOST "X: \x7f\r\n\r\n", 400),
	ROW("six headers", GET HOST "A: 1\r\nB: 2\r\nC: 3\r\nX: 4\r\nE: 5\r\n\r\n", 431),
	ROW("201 bytes of headers", GET HOST "A: " X50 X50 X50 X10 X10 X10 "12345\r\n\r\n", 431),
	ROW("endless header", GET HOST "A: " X250, 431),
	ROW("Host is missing", GET "\r\n", 400),
	ROW("Host is missing among others", GET "Hos: a\r\nHosts: a\r\n\r\n", 400),
	ROW("Host twice", GET HOST HOST "\r\n", 400),
	ROW("Host twice, other case", GET HOST "hOST: a\r\n\r\n", 400),
	ROW("Host twice in 1.0", "GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400),
	ROW("space in Host", GET "Host: a b\r\n\r\n", 400),
	ROW("path in Host", GET "Host: a/b\r\n\r\n", 400),
	ROW("user in Host", GET "Host: u@a\r\n\r\n", 400),
	ROW("Expect of something else", GET HOST "Expect: 200-ok\r\n\r\n", 417),
	ROW("Expect twice", GET HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", 417),
	/* framing */
	ROW("Content-Length twice", GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
	    400),
	ROW("two Content-Lengths that differ",
	    GET HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
	ROW("Content-Length list", GET HOST "Content-Length: 1, 1\r\n\r\na", 400),
	ROW("empty Content-Length", GET HOST "Content-Length:\r\n\r\n", 400),
	ROW("Content-Length with plus", GET HOST "Content-Length: +1\r\n\r\na", 400),
	ROW("negative Content-Length", GET HOST "Content-Length: -1\r\n\r\na", 400),
	ROW("hexadecimal Content-Length", GET HOST "Content-Length: 0x1\r\n\r\na", 400),
	ROW("Content-Length with space", GET HOST "Content-Length: 1 1\r\n\r\na", 400),
	ROW("Content-Length with a character below 0", GET HOST "Content-Length: 1/\r\n\r\n", 400),
	ROW("Content-Length with a character above 9", GET HOST "Content-Length: 1:\r\n\r\n", 400),
	ROW("body of 21 bytes", GET HOST "Content-Length: 21\r\n\r\n", 413),
	ROW("Content-Length that overflows",
	    GET HOST "Content-Length: 99999999999999999999999999999999999\r\n\r\n", 413),
	ROW("Content-Length that wraps to 1",
	    GET HOST "Content-Length: 18446744073709551617\r\n\r\na", 413),
	ROW("large and malformed Content-Length", GET HOST "Content-Length: 999999x\r\n\r\n", 400),
	ROW("Content-Length and chunked",
	    GET HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
	ROW("chunked and Content-Length",
	    GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
	ROW("chunked in 1.0",
	    "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
	ROW("gzip", GET HOST "Transfer-Encoding: gzip\r\n\r\n", 501),
	ROW("gzip, chunked", GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
	ROW("chunked twice", GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501),
	ROW("chunked on two lines",
	    GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
	ROW("identity", GET HOST "Transfer-Encoding: identity\r\n\r\n", 501),
	ROW("xchunked", GET HOST "Transfer-Encoding: xchunked\r\n\r\n", 501),
	ROW("chunked with a comma", GET HOST "Transfer-Encoding: chunked,\r\n\r\n", 501),
	ROW("empty coding", GET HOST "Transfer-Encoding:\r\n\r\n", 501),
	/* chunks */
	ROW("empty chunk size", CHUNKED "\r\n", 400),
	ROW("chunk size with 0x", CHUNKED "0x1\r\na\r\n", 400),
	ROW("chunk size with sign", CHUNKED "-1\r\n", 400),
	ROW("chunk size with space", CHUNKED "1 \r\na\r\n", 400),
	ROW("space before the chunk size", CHUNKED " 1\r\na\r\n", 400),
	ROW("letter beyond f", CHUNKED "g\r\n", 400),
	ROW("character before a", CHUNKED "`\r\n", 400),
	ROW("character before 0", CHUNKED "/\r\n", 400),
	ROW("character behind 9", CHUNKED ":\r\n", 400),
	ROW("bare LF after the chunk size", CHUNKED "1\na\r\n0\r\n\r\n", 400),
	ROW("17 digits", CHUNKED "00000000000000001\r\na\r\n", 400),
	ROW("17 digits that wrap to 1", CHUNKED "10000000000000001\r\na\r\n", 400),
	ROW("largest chunk", CHUNKED "ffffffffffffffff\r\n", 413),
	ROW("chunk of 21 bytes", CHUNKED "15\r\n", 413),
	ROW("chunks of 21 bytes together", CHUNKED "14\r\n" X10 X10 "\r\n1\r\n", 413),
	ROW("second chunk that wraps", CHUNKED "1\r\na\r\nffffffffffffffff\r\n", 413),
	ROW("control byte in an extension", CHUNKED "1;\x01\r\na\r\n", 400),
	ROW("NUL behind the chunk size", CHUNKED "1\0\r\na\r\n", 400),
	ROW("extension without semicolon", CHUNKED "1,a\r\na\r\n", 400),
	ROW("extension of 1025 bytes", CHUNKED "1;" X1000 X10 X10 "wxyz\r\n", 400),
	ROW("endless extension", CHUNKED "1;" X1000 X250, 400),
	ROW("extensions too long together", CHUNKED "1;" X1000 "\r\na\r\n1;" X10 X10 "abc\r\nb\r\n",
	    400),
	ROW("chunk longer than its size", CHUNKED "1\r\nab\r\n", 400),
	ROW("bare LF after a chunk", CHUNKED "1\r\na\n0\r\n\r\n", 400),
	ROW("other byte and LF after a chunk", CHUNKED "1\r\nab\n0\r\n\r\n", 400),
	ROW("three bytes after a chunk", CHUNKED "1\r\nabcd", 400),
	/* trailers */
	ROW("bare LF in the trailers", CHUNKED "0\r\n\n", 400),
	ROW("bare LF after a trailer", CHUNKED "0\r\nA: b\n\r\n", 400),
	ROW("folded trailer", CHUNKED "0\r\n a\r\n\r\n", 400),
	ROW("trailer without colon", CHUNKED "0\r\nabc\r\n\r\n", 400),
	ROW("Content-Length as trailer", CHUNKED "0\r\nContent-Length: 1\r\n\r\n", 400),
	ROW("Transfer-Encoding as trailer", CHUNKED "0\r\ntransfer-encoding: chunked\r\n\r\n", 400),
	ROW("Host as trailer", CHUNKED "0\r\nHost: b\r\n\r\n", 400),
	ROW("too many trailers", CHUNKED "0\r\nA: 1\r\nB: 1\r\nC: 1\r\nX: 1\r\n\r\n", 431),
	ROW("201 bytes with trailers", CHUNKED "0\r\nA: " X50 X50 X50 "12345\r\n\r\n", 431),
	ROW("endless trailer", CHUNKED "0\r\nA: " X50 X50 X50 X10 "12", 431),
};

/* The inner side of each boundary. */
static const struct row good_rows[] = {
	ROW("one empty line before the request", "\r\n" GET HOST "\r\n", 0),
	ROW("method of 16 characters", "ABCDEFGHIJKLMNOP / HTTP/1.1\r\n" HOST "\r\n", 0),
	ROW("target of 40 bytes", "GET /" X10 X10 X10 "123456789 HTTP/1.1\r\n" HOST "\r\n", 0),
	ROW("five headers", GET HOST "A: 1\r\nB: 2\r\nC: 3\r\nX: 4\r\n\r\n", 0),
	ROW("200 bytes of headers", GET HOST "A: " X50 X50 X50 X10 X10 X10 "1234\r\n\r\n", 0),
	ROW("high bytes in a value", GET HOST "X: \x80\xff\r\n\r\n", 0),
	ROW("Host with port and brackets", GET "Host: [::1]:80\r\n\r\n", 0),
	ROW("empty Host", GET "Host:\r\n\r\n", 0),
	ROW("1.0 without Host", "GET / HTTP/1.0\r\n\r\n", 0),
	ROW("empty body", GET HOST "Content-Length: 0\r\n\r\n", 0),
	ROW("body of 20 bytes", GET HOST "Content-Length: 020\r\n\r\n" X10 X10, 0),
	ROW("Chunked in upper case", GET HOST "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n", 0),
	ROW("16 digits", CHUNKED "0000000000000001\r\na\r\n0\r\n\r\n", 0),
	ROW("chunks of 20 bytes", CHUNKED "a\r\n" X10 "\r\nA\r\n" X10 "\r\n0\r\n\r\n", 0),
	ROW("chunk size f", CHUNKED "f\r\n" X10 "12345\r\n0\r\n\r\n", 0),
	ROW("chunk size F", CHUNKED "F\r\n" X10 "12345\r\n0\r\n\r\n", 0),
	ROW("chunk size 9", CHUNKED "9\r\n123456789\r\n0\r\n\r\n", 0),
	ROW("extension of 1024 bytes", CHUNKED "1;" X1000 X10 X10 "xyz\r\na\r\n0\r\n\r\n", 0),
	ROW("longest line of a chunk size",
	    CHUNKED "0000000000000001;" X1000 X10 X10 "xyz\r\na\r\n0\r\n\r\n", 0),
	ROW("trailers", CHUNKED "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", 0),
	ROW("trailers up to 200 bytes", CHUNKED "0\r\nA: " X50 X50 X50 "1234\r\n\r\n", 0),
	ROW("expectation", GET HOST "Expect: 100-CONTINUE\r\n\r\n", 0),
	ROW("expectation in 1.0", "GET / HTTP/1.0\r\nExpect: 100-Continue\r\n\r\n", 0),
};

/* Feeds in pieces of `piece` bytes until something is decided. */
static enum http_parse feed(struct http_parser *p, const char *bytes, size_t len, size_t piece,
			    size_t *used)
{
	enum http_parse r = HTTP_MORE;

	*used = 0;
	while (r == HTTP_MORE && *used < len) {
		const size_t n = len - *used < piece ? len - *used : piece;
		/* A copy of exactly n bytes lets ASan see any read beyond them. */
		char *copy = mem_dup(bytes + *used, n);
		size_t took;

		r = http_parser_feed(p, copy, n, &took);
		free(copy);
		assert_true(took <= n);
		assert_true(r != HTTP_MORE || took == n);
		*used += took;
	}
	return r;
}

static const char valid[] =
	"POST /v/a%20b?x=1&y HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
	"X-Two: 1\r\nx-tWO: 2\r\n\r\n2;q\r\nhi\r\n1\r\n!\r\n0\r\nT: t\r\n\r\n";

static void assert_is_valid(const struct http_request *req)
{
	size_t len;

	assert_string_equal(http_method(req), "POST");
	assert_string_equal(http_path(req), "/v/a b");
	assert_string_equal(http_query(req, "x"), "1");
	assert_string_equal(http_query(req, "y"), "");
	assert_null(http_query(req, "z"));
	/* Nor is anything found behind the last one. */
	assert_null(http_query(req, "POST"));
	assert_null(http_header(req, "POST"));
	assert_string_equal(http_header(req, "HOST"), "h");
	assert_string_equal(http_header(req, "X-Two"), "1, 2");
	assert_null(http_header(req, "T"));
	assert_string_equal(http_body(req, &len), "hi!");
	assert_int_equal(len, 3);
}

static void check_row(const struct row *row, size_t piece, bool behind)
{
	struct http_parser *p = http_parser_new(&small);
	const size_t prefix = behind ? sizeof(valid) - 1 : 0, total = prefix + row->len;
	char *bytes = mem_alloc(total);
	size_t used = 0, again;
	enum http_parse r;

	memcpy(bytes, valid, prefix);
	memcpy(bytes + prefix, row->bytes, row->len);
	if (behind) {
		assert_int_equal(feed(p, bytes, total, piece, &used), HTTP_READY);
		assert_int_equal(used, prefix);
		assert_is_valid(http_parser_request(p));
		http_parser_next(p);
	}
	r = feed(p, bytes + used, total - used, piece, &again);
	if (r != (row->status != 0 ? HTTP_BAD : HTTP_READY) ||
	    http_parser_refusal(p)->status != row->status)
		fail_msg("%s (pieces of %zu%s): result %d status %d (%s)", row->name, piece,
			 behind ? ", behind another" : "", r, http_parser_refusal(p)->status,
			 http_parser_refusal(p)->reason != NULL ? http_parser_refusal(p)->reason
								: "");
	if (r == HTTP_BAD) {
		assert_non_null(http_parser_refusal(p)->reason);
		assert_int_equal(http_parser_feed(p, valid, 1, &again), HTTP_BAD);
		assert_int_equal(again, 0);
	} else {
		assert_int_equal(again, row->len);
		assert_int_equal(http_parser_feed(p, "x", 1, &again), HTTP_READY);
		assert_int_equal(again, 0);
		assert_non_null(http_parser_request(p));
	}
	http_parser_free(p);
	free(bytes);
}

static void check_rows(const struct row *rows, size_t n)
{
	static const size_t pieces[] = {SIZE_MAX, 1, 7};

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < ARRAY_LEN(pieces); k++) {
			check_row(&rows[i], pieces[k], false);
			check_row(&rows[i], pieces[k], true);
		}
}

static void api_1_every_malformed_request_is_refused(void **state)
{
	check_rows(bad_rows, ARRAY_LEN(bad_rows));
}

static void api_1_every_boundary_is_accepted_from_inside(void **state)
{
	check_rows(good_rows, ARRAY_LEN(good_rows));
}

/* No proper prefix of a good request is decided. */
static void api_1_a_cut_request_waits_for_more(void **state)
{
	for (size_t n = 0; n < sizeof(valid) - 1; n++) {
		struct http_parser *p = http_parser_new(&small);
		size_t used;

		assert_int_equal(feed(p, valid, n, SIZE_MAX, &used), HTTP_MORE);
		assert_int_equal(used, n);
		http_parser_free(p);
	}
}

static struct http_request *parse(struct http_parser *p, const char *bytes)
{
	size_t used;

	assert_int_equal(http_parser_feed(p, bytes, strlen(bytes), &used), HTTP_READY);
	assert_int_equal(used, strlen(bytes));
	return http_parser_request(p);
}

static void api_1_targets_are_decoded(void **state)
{
	struct http_parser *p = http_parser_new(&http_limits_default);
	cleanup_buf struct buf all = {0};
	struct http_request *req;

	req = parse(
		p,
		"GET /a%2Db+c/%C3%a4?q=1+2%2F3&&n%61me=%3D%26&flag& HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_string_equal(http_path(req), "/a-b+c/\xc3\xa4");
	assert_string_equal(http_query(req, "q"), "1 2/3");
	assert_string_equal(http_query(req, "name"), "=&");
	for (size_t i = 0; http_query_name(req, i) != NULL; i++)
		buf_addf(&all, "%s;", http_query_name(req, i));
	assert_string_equal(all.data, "q;name;flag;");
	assert_string_equal(http_query(req, "flag"), "");
	http_parser_next(p);
	req = parse(p, "GET /? HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_null(http_query_name(req, 0));
	http_parser_free(p);
}

static void api_1_the_number_of_parameters_is_bounded(void **state)
{
	for (int n = 32; n <= 33; n++) {
		struct http_parser *p = http_parser_new(&http_limits_default);
		cleanup_buf struct buf b = {0};
		size_t used;

		buf_adds(&b, "GET /?");
		for (int i = 0; i < n; i++)
			buf_addf(&b, "p%d=%d&", i, i);
		buf_adds(&b, " HTTP/1.1\r\nHost: a\r\n\r\n");
		assert_int_equal(http_parser_feed(p, b.data, b.len, &used),
				 n == 32 ? HTTP_READY : HTTP_BAD);
		assert_int_equal(http_parser_refusal(p)->status, n == 32 ? 0 : 400);
		http_parser_free(p);
	}
}

static void api_1_headers_are_trimmed_and_joined(void **state)
{
	struct http_parser *p = http_parser_new(&http_limits_default);
	struct http_request *req;

	req = parse(p, GET
		    "Host: a\r\nA: \t one two \t\r\nB:x\r\na:\r\nC:\t\r\nA: three\r\nb: y\r\n\r\n");
	assert_string_equal(http_header(req, "a"), "one two, , three");
	assert_string_equal(http_header(req, "B"), "x, y");
	assert_string_equal(http_header(req, "c"), "");
	assert_string_equal(http_header(req, "host"), "a");
	assert_null(http_header(req, "d"));
	http_parser_free(p);
}

static void api_1_an_upgrade_is_recognised(void **state)
{
	static const struct {
		const char *head;
		bool wants;
	} rows[] = {
		{GET HOST "Connection: Upgrade\r\nUpgrade: p/1\r\n\r\n", true},
		{GET HOST "Connection: keep-alive, UPGRADE\r\nUpgrade: x, P/1\r\n\r\n", true},
		{GET HOST "Connection: ,\tupgrade \r\nUpgrade: p/1\r\n\r\n", true},
		{GET HOST "Connection: upgraded\r\nUpgrade: p/1\r\n\r\n", false},
		{GET HOST "Connection: upgrad\r\nUpgrade: p/1\r\n\r\n", false},
		{GET HOST "Connection: Upgrade\r\nUpgrade: p/2\r\n\r\n", false},
		{GET HOST "Connection: Upgrade\r\n\r\n", false},
		{GET HOST "Upgrade: p/1\r\n\r\n", false},
		{"GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: p/1\r\n\r\n", false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_parser *p = http_parser_new(&http_limits_default);

		assert_int_equal(http_wants_upgrade(parse(p, rows[i].head), "p/1"), rows[i].wants);
		http_parser_free(p);
	}
}

/* A large body must not stay with an idle connection, and must not leak into the next request. */
static void api_1_a_body_ends_with_its_request(void **state)
{
	struct http_parser *p = http_parser_new(&http_limits_default);
	cleanup_buf struct buf b = {0};
	struct http_request *req;
	size_t len;

	buf_adds(&b, "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
	for (int i = 0; i < 200000; i++)
		buf_addc(&b, 'x');
	req = parse(p, b.data);
	assert_non_null(http_body(req, &len));
	assert_int_equal(len, 200000);
	http_parser_next(p);
	req = parse(p, GET HOST "\r\n");
	assert_string_equal(http_body(req, &len), "");
	assert_int_equal(len, 0);
	http_parser_free(p);
	http_parser_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_every_malformed_request_is_refused),
		cmocka_unit_test(api_1_every_boundary_is_accepted_from_inside),
		cmocka_unit_test(api_1_a_cut_request_waits_for_more),
		cmocka_unit_test(api_1_targets_are_decoded),
		cmocka_unit_test(api_1_the_number_of_parameters_is_bounded),
		cmocka_unit_test(api_1_headers_are_trimmed_and_joined),
		cmocka_unit_test(api_1_an_upgrade_is_recognised),
		cmocka_unit_test(api_1_a_body_ends_with_its_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
