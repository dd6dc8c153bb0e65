// SPDX-License-Identifier: Apache-2.0
/* wire/testkit/http_testkit.h - for tests: an HTTP server, its loop and its clients in one process.
 * Every function fails the running cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "wire/http.h"
#include <sys/socket.h>

struct fixture {
	struct loop *loop;
	struct http_server *server;
	int unix_fd, tcp_fd;
	struct buf log;		   /* what happened, for comparison */
	struct http_request *held; /* the last request that was not answered at once */
	void (*on_request)(struct fixture *f, struct http_request *req);
};

void fixture_start(struct fixture *f, const struct http_limits *limits,
		   void (*on_request)(struct fixture *f, struct http_request *req));
void fixture_stop(struct fixture *f);
/* A listening socket. */
int fixture_bind(const struct sockaddr *a, socklen_t len);
int fixture_connect(int listener);
void fixture_send(int fd, const char *text);
/* Runs the loop for a time, whatever happens. */
void fixture_run_ms(struct fixture *f, int ms);
void fixture_turn(struct fixture *f);
/* The loop must sleep while nothing happens. */
void fixture_assert_quiet(struct fixture *f);
/* Appends what the client has got, without waiting. 1: open, 0: closed by the server, -1: reset. */
int fixture_receive(int fd, struct buf *out);
/* Replaces the value of Date by "*", after a look at its form. */
void fixture_mask_date(struct buf *b);
/* Runs the loop until the client's bytes are exactly this (with Date masked), or gives up after 2
 * s. */
void fixture_expect(struct fixture *f, int fd, const char *want);
/* Runs the loop until the server has closed the connection in order, with nothing more to read. */
void fixture_expect_end(struct fixture *f, int fd);
void fixture_assert_log(struct fixture *f, const char *want);

/* A server that answers with the path, and what its answers look like. */
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
void say(struct http_request *req, const char *text);
void note_close(struct http_request *req, void *arg);
/* /hold… is kept until the test answers it; everything else is answered at once with its path. */
void serve(struct fixture *f, struct http_request *req);
void answer_held(struct fixture *f, const char *text);
