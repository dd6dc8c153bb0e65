// SPDX-License-Identifier: Apache-2.0
/* client/testkit/server_testkit.h - a server in a forked child, at a unix socket in a directory of
 * its own. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "wire/http.h"
#include <sys/types.h>

struct server {
	char dir[64], socket[96];
	pid_t pid;
};

/* The child's loop, for timers; the argument of on_request. */
struct server_child {
	struct loop *loop;
};

/* Makes the directory and chooses the socket. */
void server_place(struct server *s);
/* Returns a listener at the path, or -1. */
int server_listen(const char *path);
/* Like fork; the child ends with its parent. */
pid_t server_fork(void);
/* Serves with wire's server in a child. */
void server_start(struct server *s, http_request_fn *on_request);
void server_stop(struct server *s);
