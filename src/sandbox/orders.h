// SPDX-License-Identifier: Apache-2.0
/* sandbox/orders.h - how a stub, which has prepared a sandbox, is told of its session.
 *
 * It is the launcher's fork, with the launcher's power, and reads nothing but what the launcher
 * sends. It gives its power up for good before it executes the warden. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "sandbox/sandbox.h"
#include <stdbool.h>
#include <sys/types.h>

/* What a stub waits with. */
struct waiting {
	int sock;   /* from where the orders come */
	int userns; /* owned; goes with ORDERS_READY; -1: none */
	struct sandbox_prepared init;
};

struct orders {
	char *session_id;
	struct bytes plan; /* packed */
	struct strv walls;
	uint32_t api_uid, log_level, log_format;
};
enum orders_fd {
	ORDERS_LISTEN,
	ORDERS_API,
	ORDERS_TREE,
	ORDERS_RING,
	ORDERS_ACK,
	ORDERS_POLICY,
	ORDERS_REPORT, /* for a report; its end without an error in one is the success */
	ORDERS_LOCK,   /* held until the session can be found */
	ORDERS_FDS
};
struct orders_report {
	pid_t init_pid; /* > 0: init was started */
	struct err err; /* code != 0: the end */
};
/* What is said before there are orders. */
#define ORDERS_READY 'r'
#define ORDERS_FAILED 'f'

/* Launcher. o->plan is made from the plan; view may be NULL. */
int orders_send(int sock, struct orders *o, const struct sandbox_plan *plan,
		const int fd[ORDERS_FDS], const struct sandbox_trees *view, struct err *err);
/* Stub: waits (saying READY when init is), binds init and becomes the session's user. Only returns
 * when it is; else the process ends. When it is ready its name is ORDERS_NAME. fd stay open, but
 * for what was used up: TREE and LOCK. */
#define ORDERS_NAME "agentsh-waiting"
void orders_obey(const struct waiting *w, struct orders *o, int fd[ORDERS_FDS]);
/* Says why it cannot wait, when it is asked; or, behind orders_obey, why it cannot be a warden. */
_Noreturn void orders_refuse(int sock, const struct err *why);
_Noreturn void orders_give_up(int report_fd, const struct err *why);

/* n messages with a tree each, or without. trees_send: -1/errno; NULL: all without. */
int trees_send(int sock, const struct sandbox_trees *t, size_t n);
int trees_receive(int sock, size_t n, struct sandbox_trees *out, struct err *err);

/* fdio_recv of one byte. A peer that closed with something unread makes a receive fail in front of
 * what it had sent: only the second end is the end. */
ssize_t orders_recv(int sock, char *byte, int *fd, size_t *nfds);
