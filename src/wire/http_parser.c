// SPDX-License-Identifier: Apache-2.0
/* Turns bytes into requests, and reads requests.
 *
 * The parser works by whole lines: it collects a line, bounded by its limit, and then checks it. So
 * the result does not depend on how the bytes were split. Only origin-form targets ("/path?query")
 * are accepted. */
#include "base/mem.h"
#include "wire/http_internal.h"
#include <ctype.h>
#include <fnmatch.h>
#include <strings.h>
#include <sys/param.h>

#define KEEP_BODY 65536 /* a body buffer larger than this is given back after its request */
#define MAX_SIZE_DIGITS 16
#define MAX_METHOD 16
#define MAX_EXTENSION 1024 /* bytes of chunk extensions in one body */

const struct http_limits http_limits_default = {
	.max_target = 8192,
	.max_header_bytes = 32768,
	.max_headers = 100,
	.max_body = 16 * 1024 * 1024,
	.header_timeout_ms = 10000,
	.idle_timeout_ms = 75000,
	.body_min_rate = 1024,
	.body_grace_ms = 5000,
	.max_connections = 1024,
	.max_pending_write = 64 * 1024 * 1024,
};

/* Sets of characters, besides letters and digits. */
#define TOKEN "!#$%&'*+-.^_`|~"
#define TARGET "!$%&'()*+,-./:;=?@_~"
#define HOST "!$%&'()*+,-.:;=[]_~"

/* Whether all n bytes are letters, digits or in others. */
static bool all_in(const char *s, size_t n, const char *others)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && (s[i] == '\0' || strchr(others, s[i]) == NULL))
			return false;
	return true;
}

bool http_is_value(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)s[i]) && s[i] != '\t')
			return false;
	return true;
}

/* The value of a hexadecimal digit, or -1. */
static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct http_parser *http_parser_new(const struct http_limits *limits)
{
	struct http_parser *p = mem_new(struct http_parser);

	p->limits = *limits;
	p->req.header = mem_alloc(p->limits.max_headers * sizeof(*p->req.header));
	buf_reserve(&p->req.body, 0);
	return p;
}

void http_parser_free(struct http_parser *p)
{
	if (p == NULL)
		return;
	buf_done(&p->req.head);
	buf_done(&p->req.body);
	buf_done(&p->extra);
	free(p->req.header);
	free(p);
}

static enum http_parse reject(struct http_parser *p, int status, const char *reason)
{
	p->phase = HTTP_PHASE_BAD;
	p->refusal = (struct http_refusal){status, reason};
	return HTTP_BAD;
}

static enum http_parse ready(struct http_parser *p)
{
	p->phase = HTTP_PHASE_READY;
	return HTTP_READY;
}

/* --- what a request says --- */

/* Whether a comma-separated list holds the token (case-insensitive). */
static bool list_has(const char *list, const char *token)
{
	const size_t len = strlen(token);

	while (list != NULL && *list != '\0') {
		list += strspn(list, ", \t");
		if (strcspn(list, ", \t") == len && strncasecmp(list, token, len) == 0)
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

const char *http_method(const struct http_request *req)
{
	return req->head.data + req->method;
}

const char *http_path(const struct http_request *req)
{
	return req->head.data + req->path;
}

const char *http_query(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->nquery; i++)
		if (strcmp(req->head.data + req->query[i].name, name) == 0)
			return req->head.data + req->query[i].value;
	return NULL;
}

const char *http_query_name(const struct http_request *req, size_t i)
{
	return i < req->nquery ? req->head.data + req->query[i].name : NULL;
}

const char *http_header(const struct http_request *req, const char *name)
{
	for (size_t i = 0; i < req->nheaders; i++)
		if (strcasecmp(req->head.data + req->header[i].name, name) == 0)
			return req->head.data + req->header[i].value;
	return NULL;
}

const char *http_body(const struct http_request *req, size_t *len)
{
	*len = req->body.len;
	return req->body.data;
}

bool http_wants_upgrade(const struct http_request *req, const char *protocol)
{
	return !req->version_1_0 && list_has(http_header(req, "Connection"), "upgrade") &&
	       list_has(http_header(req, "Upgrade"), protocol);
}

int http_fd(const struct http_request *req)
{
	return req->conn->io->fd;
}

int http_tag(const struct http_request *req)
{
	return req->conn->tag;
}

uint32_t http_uid(const struct http_request *req)
{
	return req->conn->uid;
}

void http_hooks(struct http_request *req, http_hook_fn *gone, http_hook_fn *drained, void *arg)
{
	req->gone = gone;
	req->drained = drained;
	req->hook_arg = arg;
}

/* --- lines --- */

/* Moves input up to and including LF behind `to`; the line in `to` begins at start and may have max
 * bytes. READY: it is whole, and a string that ends where its CRLF was. */
static enum http_parse take_line(struct http_parser *p, struct buf *to, size_t start, size_t max,
				 struct http_refusal too_long)
{
	const char *lf = memchr(p->in, '\n', p->n);
	const size_t part = lf != NULL ? (size_t)(lf - p->in) + 1 : p->n;

	if (part > max - (to->len - start))
		return reject(p, too_long.status, too_long.reason);
	buf_add(to, p->in, part);
	p->in += part;
	p->n -= part;
	if (lf == NULL)
		return HTTP_MORE;
	if (to->len - start < 2 || to->data[to->len - 2] != '\r')
		return reject(p, 400, "a line must end with CRLF");
	to->data[to->len - 2] = '\0';
	return HTTP_READY;
}

/* --- the request line --- */

/* Decodes a string in place. False for a malformed escape, for NUL, and for a slash in a path: a
 * proxy in front of us would see another path. */
static bool unescape(char *s, bool in_query)
{
	char *to = s;

	for (; *s != '\0'; s++, to++) {
		*to = *s == '+' && in_query ? ' ' : *s;
		if (*s != '%')
			continue;
		if (hex(s[1]) < 0 || hex(s[2]) < 0)
			return false;
		*to = (char)(hex(s[1]) << 4 | hex(s[2]));
		if (*to == '\0' || (*to == '/' && !in_query))
			return false;
		s += 2;
	}
	*to = '\0';
	return true;
}

static const char *add_parameter(struct http_request *req, char *name)
{
	char *value = strchr(name, '=');

	if (value != NULL)
		*value++ = '\0';
	else
		value = name + strlen(name);
	if (*name == '\0')
		return "a query parameter without name";
	if (!unescape(name, true) || !unescape(value, true))
		return "a malformed escape in the query";
	if (http_query(req, name) != NULL)
		return "a query parameter is given twice";
	if (req->nquery == HTTP_MAX_QUERY)
		return "too many query parameters";
	req->query[req->nquery++] = (struct http_pair){(size_t)(name - req->head.data),
						       (size_t)(value - req->head.data)};
	return NULL;
}

/* Decodes the target at offset at of head into path and query. NULL, or why it is refused. */
static const char *parse_target(struct http_request *req, size_t at)
{
	char *path = req->head.data + at;
	char *query = strchr(path, '?');
	const char *problem;
	char *one;

	if (*path != '/')
		return "the target must be a path";
	if (query != NULL)
		*query++ = '\0';
	if (!unescape(path, false))
		return "a malformed escape in the path";
	req->path = at;
	while ((one = strsep(&query, "&")) != NULL) {
		if (*one == '\0')
			continue;
		problem = add_parameter(req, one);
		if (problem != NULL)
			return problem;
	}
	return NULL;
}

static enum http_parse parse_request_line(struct http_parser *p, size_t len)
{
	struct http_request *req = &p->req;
	char *method = req->head.data + p->line;
	char *target = memchr(method, ' ', len);
	const char *problem;
	char *version;

	if (target == NULL || target == method || target - method > MAX_METHOD ||
	    !all_in(method, (size_t)(target - method), TOKEN))
		return reject(p, 400, "malformed method");
	*target++ = '\0';
	version = memchr(target, ' ', len - (size_t)(target - method));
	if (version == NULL)
		return reject(p, 400, "malformed request line");
	*version++ = '\0';
	/* The version may hide a NUL that would end it early. */
	if (strlen(version) != len - (size_t)(version - method) ||
	    fnmatch("HTTP/[0-9].[0-9]", version, 0) != 0)
		return reject(p, 400, "malformed HTTP version");
	if ((size_t)(version - target) - 1 > p->limits.max_target)
		return reject(p, 414, "the target is too long");
	if (!all_in(target, (size_t)(version - target) - 1, TARGET))
		return reject(p, 400, "a character of the target must be percent-encoded");
	req->version_1_0 = strcmp(version, "HTTP/1.0") == 0;
	if (!req->version_1_0 && strcmp(version, "HTTP/1.1") != 0)
		return reject(p, 505, "only HTTP/1.0 and HTTP/1.1 are supported");
	req->method = p->line;
	req->is_head = strcmp(method, "HEAD") == 0;
	problem = parse_target(req, (size_t)(target - req->head.data));
	if (problem != NULL)
		return reject(p, 400, problem);
	p->line = req->head.len;
	p->phase = HTTP_PHASE_HEADERS;
	return HTTP_MORE;
}

static enum http_parse feed_line(struct http_parser *p)
{
	struct buf *head = &p->req.head;
	/* method SP target SP "HTTP/1.1" CRLF */
	const size_t max = MAX_METHOD + 1 + p->limits.max_target + 1 + 8 + 2;
	enum http_parse r;

	p->started = true;
	r = take_line(p, head, p->line, max,
		      (struct http_refusal){414, "the request line is too long"});
	if (r != HTTP_READY)
		return r;
	if (head->len - p->line > 2)
		return parse_request_line(p, head->len - p->line - 2);
	if (p->skipped)
		return reject(p, 400, "empty request line");
	p->skipped = true;
	p->line = head->len;
	return HTTP_MORE;
}

/* --- headers and trailers --- */

/* Cuts the line s of len bytes, which ends with NUL. NULL, or why it is refused. */
static const char *cut_field(char *s, size_t len, char **value)
{
	char *colon = memchr(s, ':', len);
	char *end = s + len;

	if (*s == ' ' || *s == '\t')
		return "folded header lines are refused";
	if (colon == NULL || colon == s)
		return "a header line without name";
	if (colon[-1] == ' ' || colon[-1] == '\t')
		return "white space before the colon of a header";
	if (!all_in(s, (size_t)(colon - s), TOKEN))
		return "a bad character in a header's name";
	if (!http_is_value(colon + 1, (size_t)(end - colon) - 1))
		return "a bad character in a header's value";
	*colon++ = '\0';
	while (*colon == ' ' || *colon == '\t')
		colon++;
	while (end > colon && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	*value = colon;
	return NULL;
}

/* Takes one line of headers or trailers within their common limits, and cuts it into name and
 * value. READY with value NULL: it was the empty line that ends them. */
static enum http_parse take_field(struct http_parser *p, struct buf *to, size_t start, char **value)
{
	const size_t before = to->len;
	const size_t max = p->limits.max_header_bytes - p->header_bytes + (before - start);
	enum http_parse r = take_line(p, to, start, max,
				      (struct http_refusal){431, "the headers are too long"});
	const char *problem;

	p->header_bytes += to->len - before;
	*value = NULL;
	if (r != HTTP_READY || to->len - start == 2)
		return r;
	if (p->header_lines++ == p->limits.max_headers)
		return reject(p, 431, "too many headers");
	problem = cut_field(to->data + start, to->len - start - 2, value);
	return problem != NULL ? reject(p, 400, problem) : HTTP_READY;
}

static enum http_parse parse_length(struct http_parser *p, const char *s)
{
	size_t n = 0;

	if (*s == '\0')
		return reject(p, 400, "malformed Content-Length");
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '9')
			return reject(p, 400, "malformed Content-Length");
		/* Beyond the limit the value no longer matters, only that the rest are digits. */
		if (n <= p->limits.max_body)
			n = n * 10 + (size_t)(*s - '0');
	}
	if (n > p->limits.max_body)
		return reject(p, 413, "the body is too large");
	if (n == 0)
		return ready(p);
	p->left = n;
	p->phase = HTTP_PHASE_BODY;
	return HTTP_MORE;
}

static enum http_parse parse_framing(struct http_parser *p)
{
	const char *length = http_header(&p->req, "Content-Length");
	const char *coding = http_header(&p->req, "Transfer-Encoding");

	if (coding == NULL && length != NULL)
		return parse_length(p, length);
	if (coding == NULL)
		return ready(p);
	if (p->req.version_1_0)
		return reject(p, 400, "Transfer-Encoding in HTTP/1.0");
	if (length != NULL)
		return reject(p, 400, "Content-Length with Transfer-Encoding");
	if (strcasecmp(coding, "chunked") != 0)
		return reject(p, 501, "the only transfer coding is chunked");
	p->phase = HTTP_PHASE_CHUNK_SIZE;
	return HTTP_MORE;
}

/* Appends a string of head to head itself. */
static void append_own(struct buf *head, size_t at)
{
	const size_t len = strlen(head->data + at);

	buf_reserve(head, len);
	buf_add(head, head->data + at, len);
}

/* Appends the values of all later headers of this name; takes those out of the list. */
static void join_one(struct http_request *req, size_t first)
{
	size_t n = first + 1, joined = 0;

	for (size_t i = n; i < req->nheaders; i++) {
		if (strcasecmp(req->head.data + req->header[first].name,
			       req->head.data + req->header[i].name) != 0) {
			req->header[n++] = req->header[i];
			continue;
		}
		if (joined == 0) {
			joined = req->head.len;
			append_own(&req->head, req->header[first].value);
		}
		buf_adds(&req->head, ", ");
		append_own(&req->head, req->header[i].value);
	}
	req->nheaders = n;
	if (joined == 0)
		return;
	buf_addc(&req->head, '\0');
	req->header[first].value = joined;
}

/* Joins repeated headers, so that names are unique. */
static void join_headers(struct http_request *req)
{
	for (size_t i = 0; i < req->nheaders; i++)
		join_one(req, i);
}

static enum http_parse parse_head(struct http_parser *p)
{
	struct http_request *req = &p->req;
	const char *host, *expect, *connection;

	join_headers(req);
	host = http_header(req, "Host");
	expect = http_header(req, "Expect");
	connection = http_header(req, "Connection");
	if (host == NULL && !req->version_1_0)
		return reject(p, 400, "Host is missing");
	if (host != NULL && !all_in(host, strlen(host), HOST))
		return reject(p, 400, "malformed Host");
	if (expect != NULL && strcasecmp(expect, "100-continue") != 0)
		return reject(p, 417, "the only expectation is 100-continue");
	req->expects_continue = expect != NULL && !req->version_1_0;
	req->keep_alive = req->version_1_0 ? list_has(connection, "keep-alive")
					   : !list_has(connection, "close");
	return parse_framing(p);
}

static enum http_parse feed_headers(struct http_parser *p)
{
	struct http_request *req = &p->req;
	char *value;
	const enum http_parse r = take_field(p, &req->head, p->line, &value);

	if (r != HTTP_READY)
		return r;
	if (value == NULL)
		return parse_head(p);
	req->header[req->nheaders++] =
		(struct http_pair){p->line, (size_t)(value - req->head.data)};
	p->line = req->head.len;
	return HTTP_MORE;
}

static enum http_parse feed_trailers(struct http_parser *p)
{
	static const char *const framing[] = {"Content-Length", "Transfer-Encoding", "Host"};
	char *value;
	const enum http_parse r = take_field(p, &p->extra, 0, &value);

	if (r != HTTP_READY)
		return r;
	if (value == NULL)
		return ready(p);
	for (size_t i = 0; i < ARRAY_LEN(framing); i++)
		if (strcasecmp(p->extra.data, framing[i]) == 0)
			return reject(p, 400, "this header is not allowed as a trailer");
	buf_clear(&p->extra);
	return HTTP_MORE;
}

/* --- bodies --- */

static enum http_parse feed_body(struct http_parser *p)
{
	const size_t n = MIN(p->n, p->left);

	buf_add(&p->req.body, p->in, n);
	p->in += n;
	p->n -= n;
	p->left -= n;
	if (p->left > 0)
		return HTTP_MORE;
	if (p->phase == HTTP_PHASE_BODY)
		return ready(p);
	p->phase = HTTP_PHASE_CHUNK_END;
	return HTTP_MORE;
}

static enum http_parse feed_chunk_size(struct http_parser *p)
{
	const enum http_parse r =
		take_line(p, &p->extra, 0, MAX_SIZE_DIGITS + MAX_EXTENSION + 2,
			  (struct http_refusal){400, "the chunk extensions are too long"});
	const char *s = p->extra.data;
	const size_t len = p->extra.len - 2;
	size_t digits = 0;
	uint64_t size = 0;

	if (r != HTTP_READY)
		return r;
	while (hex(s[digits]) >= 0) {
		if (digits == MAX_SIZE_DIGITS)
			return reject(p, 400, "a chunk size with too many digits");
		size = size << 4 | (uint64_t)hex(s[digits++]);
	}
	if (digits == 0 || (digits < len && s[digits] != ';'))
		return reject(p, 400, "malformed chunk size");
	if (!http_is_value(s + digits, len - digits))
		return reject(p, 400, "a bad character in a chunk extension");
	p->extension_bytes += len - digits;
	if (p->extension_bytes > MAX_EXTENSION)
		return reject(p, 400, "the chunk extensions are too long");
	if (size > p->limits.max_body - p->req.body.len)
		return reject(p, 413, "the body is too large");
	p->left = size;
	p->phase = size > 0 ? HTTP_PHASE_CHUNK_DATA : HTTP_PHASE_TRAILERS;
	buf_clear(&p->extra);
	return HTTP_MORE;
}

static enum http_parse feed_chunk_end(struct http_parser *p)
{
	const enum http_parse r = take_line(
		p, &p->extra, 0, 2, (struct http_refusal){400, "a chunk longer than its size"});

	if (r != HTTP_READY)
		return r;
	buf_clear(&p->extra);
	p->phase = HTTP_PHASE_CHUNK_SIZE;
	return HTTP_MORE;
}

static enum http_parse (*const feeders[])(struct http_parser *p) = {
	[HTTP_PHASE_LINE] = feed_line,	       [HTTP_PHASE_HEADERS] = feed_headers,
	[HTTP_PHASE_BODY] = feed_body,	       [HTTP_PHASE_CHUNK_SIZE] = feed_chunk_size,
	[HTTP_PHASE_CHUNK_DATA] = feed_body,   [HTTP_PHASE_CHUNK_END] = feed_chunk_end,
	[HTTP_PHASE_TRAILERS] = feed_trailers,
};

enum http_parse http_parser_feed(struct http_parser *p, const void *data, size_t n, size_t *used)
{
	enum http_parse r = HTTP_MORE;

	*used = 0;
	if (p->phase == HTTP_PHASE_READY)
		return HTTP_READY;
	if (p->phase == HTTP_PHASE_BAD)
		return HTTP_BAD;
	p->in = data;
	p->n = n;
	while (r == HTTP_MORE && p->n > 0)
		r = feeders[p->phase](p);
	*used = n - p->n;
	return r;
}

struct http_request *http_parser_request(struct http_parser *p)
{
	ensure(p->phase == HTTP_PHASE_READY);
	return &p->req;
}

void http_parser_next(struct http_parser *p)
{
	struct http_request *req = &p->req;

	ensure(p->phase == HTTP_PHASE_READY);
	buf_clear(&req->head);
	buf_clear(&req->body);
	buf_clear(&p->extra);
	if (req->body.cap > KEEP_BODY) {
		buf_done(&req->body);
		buf_reserve(&req->body, 0);
	}
	*req = (struct http_request){
		.conn = req->conn, .head = req->head, .body = req->body, .header = req->header};
	*p = (struct http_parser){.limits = p->limits, .req = *req, .extra = p->extra};
}

const struct http_refusal *http_parser_refusal(const struct http_parser *p)
{
	return &p->refusal;
}
