// SPDX-License-Identifier: Apache-2.0
/* wire/http_conn_testkit.h - a server that answers with the path, and what its answers look like.
 */
#pragma once
#include "wire/http_fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define OK(body, len)                                                                    \
	"HTTP/1.1 200 OK\r\nDate: *\r\nContent-Type: text/plain\r\nContent-Length: " len \
	"\r\n\r\n" body
#define OK_CLOSE(body, len)                                                              \
	"HTTP/1.1 200 OK\r\nDate: *\r\nContent-Type: text/plain\r\nContent-Length: " len \
	"\r\nConnection: close\r\n\r\n" body
#define BAD(status, text)                                                               \
	"HTTP/1.1 " status " " text "\r\nDate: *\r\nContent-Type: application/json\r\n" \
	"Content-Length: 11\r\nConnection: close\r\n\r\n{\"bad\":" status "}"

static inline void say(struct http_request *req, const char *text)
{
	http_reply(req, 200, "text/plain", text, strlen(text), NULL);
}

static inline void note_close(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	buf_addf(&f->log, "closed %s;", http_path(req));
	f->held = NULL;
}

/* /hold… is kept until the test answers it; everything else is answered at once with its path. */
static inline void serve(struct fixture *f, struct http_request *req)
{
	buf_addf(&f->log, "%s;", http_path(req));
	if (strncmp(http_path(req), "/hold", 5) != 0) {
		say(req, http_path(req));
		return;
	}
	assert_null(f->held);
	f->held = req;
	http_on_close(req, note_close, f);
}

static inline void answer_held(struct fixture *f, const char *text)
{
	struct http_request *req = f->held;

	assert_non_null(req);
	f->held = NULL;
	say(req, text);
}
