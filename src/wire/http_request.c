// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "wire/http_internal.h"
#include <strings.h>

/* Decodes a string in place. False for a malformed escape, for NUL, and for a slash in a path: a
 * proxy in front of us would see another path. */
static bool unescape(char *s, bool in_query)
{
	char *to = s;

	for (; *s != '\0'; s++, to++) {
		*to = *s == '+' && in_query ? ' ' : *s;
		if (*s != '%')
			continue;
		if (http_hex(s[1]) < 0 || http_hex(s[2]) < 0)
			return false;
		*to = (char)(http_hex(s[1]) << 4 | http_hex(s[2]));
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

const char *http_request_target(struct http_request *req, size_t at)
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

void http_request_join(struct http_request *req)
{
	for (size_t i = 0; i < req->nheaders; i++)
		join_one(req, i);
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

bool http_list_has(const char *list, const char *token)
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

bool http_wants_upgrade(const struct http_request *req, const char *protocol)
{
	return !req->version_1_0 && http_list_has(http_header(req, "Connection"), "upgrade") &&
	       http_list_has(http_header(req, "Upgrade"), protocol);
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
