// SPDX-License-Identifier: Apache-2.0
/* api/testkit/api_testkit.h - the API in front of a real registry of sessions: real sockets, HTTP,
 * store and loop in one process; the test plays the clients, the launcher and the wardens. Every
 * function fails the running cmocka test. */
#pragma once
#include "api/handlers.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include "wire/http.h"
#include <errno.h>
#include <sys/socket.h>

#define RIG_MOMENTS 400 /* of 5 ms: then a test fails */

enum rig_listener { ON_UNIX, ON_TCP };

struct rig {
	struct kit *k;
	struct api api;
};

/* What a client has got. */
struct got {
	int fd;
	struct buf raw;	 /* as it came, the head included */
	struct buf body; /* behind the head, without chunks */
	int status;	 /* 0: no head yet */
	bool closed;	 /* the server closed the connection */
	bool whole;	 /* the answer has ended */
};

/* ---- up and down ---- */

void rig_serve(struct rig *r, http_request_fn *on_request);
int rig_setup(void **state);
int rig_teardown(void **state);

/* ---- clients ---- */

struct got rig_connect(struct rig *r, enum rig_listener on);
void got_done(struct got *g);
#define cleanup_got __attribute__((cleanup(got_done)))
void rig_put(struct got *g, const void *p, size_t n);
/* Sends a request: "GET /path", header lines (or NULL), a JSON body (or NULL). */
void rig_ask(struct got *g, const char *what, const char *headers, const char *body);
const char *got_header(const struct got *g, const char *name, char out[256]);
void rig_read(struct got *g);
/* Runs the loop and reads. */
void rig_turn(struct rig *r, struct got *g);
/* Lets the loop work for a moment, timers included. */
void rig_moment(struct rig *r, struct got *g);
/* Runs the loop until the answer has ended. */
void rig_finish(struct rig *r, struct got *g);
/* Runs the loop until the body has this text. */
void rig_expect(struct rig *r, struct got *g, const char *text);
/* A whole call over TCP with the key of an agent ("" or NULL: none). HEAD has a head only. */
struct got rig_call(struct rig *r, const char *who, const char *what, const char *body);

#define assert_call(r, who, what, body_, status_, code_)                                \
	do {                                                                            \
		cleanup_got struct got g_ = rig_call(r, who, what, body_);              \
		if (g_.status != (status_))                                             \
			fail_msg("%s: %d, not %d: %s", what, g_.status, (int)(status_), \
				 g_.body.data);                                         \
		if (*(code_) != '\0')                                                   \
			assert_at(&g_.body, "error.code", code_);                       \
	} while (0)

/* ---- metrics ---- */

long rig_metric(struct rig *r, const char *name);
