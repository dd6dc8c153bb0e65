// SPDX-License-Identifier: Apache-2.0
/* Reads answers from a blocking socket. The client trusts the content of an answer, but limits its
 * size. */
#include "base/denial.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include <errno.h>
#include <poll.h>
#include <strings.h>
#include <sys/param.h>
#include <sys/socket.h>

#define READ_SIZE 65536
#define MAX_LINE 8192

static size_t unread(const struct client *c)
{
	return c->in.len - c->in_at;
}

static void consume(struct client *c, size_t n)
{
	c->in_at += n;
	if (c->in_at < c->in.len)
		return;
	buf_clear(&c->in);
	c->in_at = 0;
}

static int malformed(const char *what, struct err *err)
{
	return err_set(err, E_UNAVAILABLE, NULL, "the server's answer is malformed: %s", what);
}

/* Waits for more bytes. Without `ended`, the end of the connection is an error. */
static int receive(struct client *c, bool *ended, struct err *err)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	ssize_t n;

	if (c->patience_ms > 0 && TEMP_FAILURE_RETRY(poll(&p, 1, c->patience_ms)) == 0)
		return err_set(err, E_UNAVAILABLE, NULL, "the server does not answer");
	buf_drop(&c->in, c->in_at);
	c->in_at = 0;
	buf_reserve(&c->in, READ_SIZE);
	n = TEMP_FAILURE_RETRY(recv(c->fd, c->in.data + c->in.len, READ_SIZE, 0));
	if (n == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "the connection to the server failed");
	if (n == 0 && ended == NULL)
		return err_set(err, E_UNAVAILABLE, NULL,
			       "the server closed the connection before its answer was complete");
	if (n == 0)
		*ended = true;
	c->in.len += (size_t)n;
	c->in.data[c->in.len] = '\0';
	return 0;
}

/* Waits until `mark` is unread; *len is the length up to and including it. */
static int wait_for(struct client *c, const char *mark, size_t max, size_t *len, struct err *err)
{
	size_t from = 0;

	for (;;) {
		const char *start = c->in.data + c->in_at;
		const char *at =
			unread(c) == 0 ? NULL
				       : memmem(start + from, unread(c) - from, mark, strlen(mark));
		int r;

		if (at != NULL) {
			*len = (size_t)(at - start) + strlen(mark);
			return 0;
		}
		if (unread(c) > max)
			return malformed("too long", err);
		from = unread(c) >= strlen(mark) ? unread(c) - strlen(mark) + 1 : 0;
		r = receive(c, NULL, err);
		if (r != 0)
			return r;
	}
}

static int parse_number(const char *s, int base, uint64_t *out)
{
	char *end;

	*out = strtoull(s, &end, base); /* UINT64_MAX if it is too large */
	return *out == UINT64_MAX || end == s || s[0] == '-' || s[0] == '+' || *end != '\0' ? -1
											    : 0;
}

/* Parses a head; text ends with an empty line. */
static int parse_head(char *text, struct answer_head *h)
{
	char *line = strsep(&text, "\n");
	uint64_t status;

	if (strncmp(line, "HTTP/1.", 7) != 0 || strlen(line) < 13 || line[8] != ' ')
		return -1;
	*h = (struct answer_head){.length = LENGTH_UNTIL_CLOSE, .keep = line[7] == '1'};
	line[12] = '\0';
	if (parse_number(line + 9, 10, &status) < 0 || status < 100)
		return -1;
	h->status = (int)status;
	while ((line = strsep(&text, "\n")) != NULL) {
		char *value = strchr(line, ':');

		line[strcspn(line, "\r")] = '\0';
		if (*line == '\0')
			continue;
		if (value == NULL)
			return -1;
		*value++ = '\0';
		value += strspn(value, " \t");
		if (strcasecmp(line, "Content-Length") == 0) {
			if (parse_number(value, 10, &h->length) < 0)
				return -1;
		} else if (strcasecmp(line, "Transfer-Encoding") == 0) {
			h->chunked = true;
			if (strcasecmp(value, "chunked") != 0)
				return -1;
		} else if (strcasecmp(line, "Connection") == 0 && strcasecmp(value, "close") == 0) {
			h->keep = false;
		}
	}
	return 0;
}

int answer_head(struct client *c, struct answer_head *out, bool *began, struct err *err)
{
	do {
		cleanup_free char *text = NULL;
		size_t len;
		int r = wait_for(c, "\r\n\r\n", CLIENT_HEAD_MAX, &len, err);

		*began = *began || unread(c) != 0;
		if (r != 0)
			return r;
		text = mem_strndup(c->in.data + c->in_at, len);
		consume(c, len);
		if (parse_head(text, out) < 0)
			return malformed("its head", err);
	} while (out->status < 200 && out->status != 101);
	if (out->status == 101 || out->status == 204 || out->status == 304) {
		out->chunked = false;
		out->length = 0;
	}
	out->keep = out->keep && (out->chunked || out->length != LENGTH_UNTIL_CLOSE);
	return 0;
}

/* Passes n bytes on, or all bytes until the end of the connection. */
static int pass(struct client *c, uint64_t n, answer_sink_fn *sink, void *arg, struct err *err)
{
	const bool until_close = n == LENGTH_UNTIL_CLOSE;
	bool ended = false;
	int r = 0;

	while (r == 0 && n != 0 && !ended) {
		const size_t part = MIN(unread(c), n);

		r = part != 0 ? sink(c->in.data + c->in_at, part, arg, err)
			      : receive(c, until_close ? &ended : NULL, err);
		n -= part;
		consume(c, part);
	}
	return r;
}

/* Takes a line of the chunked framing; it stays in the buffer until more is received. */
static int take_line(struct client *c, char **line, struct err *err)
{
	size_t len;
	const int r = wait_for(c, "\r\n", MAX_LINE, &len, err);

	if (r != 0)
		return r;
	*line = c->in.data + c->in_at;
	(*line)[len - 2] = '\0';
	/* not consume(): the bytes must stay where they are */
	c->in_at += len;
	return 0;
}

static int pass_chunks(struct client *c, answer_sink_fn *sink, void *arg, struct err *err)
{
	uint64_t size = 1;
	char *line;
	int r = 0;

	while (r == 0 && size != 0) {
		r = take_line(c, &line, err);
		if (r != 0)
			break;
		line[strcspn(line, "; ")] = '\0';
		if (parse_number(line, 16, &size) < 0)
			return malformed("a chunk's size", err);
		r = pass(c, size, sink, arg, err);
		if (r == 0 && size != 0)
			r = take_line(c, &line, err);
		if (r == 0 && size != 0 && *line != '\0')
			return malformed("a chunk's end", err);
	}
	/* Skip trailers up to the empty line. */
	do {
		if (r == 0)
			r = take_line(c, &line, err);
	} while (r == 0 && *line != '\0');
	return r;
}

int answer_body(struct client *c, const struct answer_head *head, answer_sink_fn *sink, void *arg,
		struct err *err)
{
	return head->chunked ? pass_chunks(c, sink, arg, err)
			     : pass(c, head->length, sink, arg, err);
}

static enum err_code code_by_status(int status)
{
	for (unsigned i = E_OK + 1; i < E_CODES; i++)
		if (err_row((enum err_code)i)->http == status)
			return (enum err_code)i;
	return E_INTERNAL;
}

static const char *string_at(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s != NULL ? s : "";
}

static void read_denial(const json_t *policy, struct err *err)
{
	struct denial d = {.rule = mem_strdup(string_at(policy, "rule")),
			   .reason = mem_strdup(string_at(policy, "reason")),
			   .operation = mem_strdup(string_at(policy, "operation")),
			   .target = mem_strdup(string_at(policy, "target")),
			   .final = json_is_true(json_object_get(policy, "final"))};
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(policy, "alternatives"), i, one)
		strv_add(&d.alternatives, json_is_string(one) ? json_string_value(one) : "");
	denial_pack(&d, err->denial, sizeof(err->denial));
	denial_done(&d);
}

int answer_error(int status, const struct buf *body, struct err *err)
{
	const json_t *error, *policy, *one;
	json_auto_t *doc = NULL;
	size_t i;

	if (err != NULL)
		*err = (struct err){0};
	json_parse(body->data, body->len, &doc, NULL); /* if it fails, only the status counts */
	error = json_object_get(doc, "error");
	policy = json_object_get(error, "policy");
	json_array_foreach(json_object_get(error, "details"), i, one)
		err_detail(err, string_at(one, "field"), "%s", string_at(one, "problem"));
	if (err != NULL && json_is_object(policy))
		read_denial(policy, err);
	if (json_is_string(json_object_get(error, "code")))
		return err_set(err, err_code_by_name(string_at(error, "code")),
			       string_at(error, "subject"), "%s", string_at(error, "message"));
	return err_set(err, code_by_status(status), NULL, "the server answered with status %d",
		       status);
}
