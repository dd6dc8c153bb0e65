// SPDX-License-Identifier: Apache-2.0
/* warden/server_link.h - the link to the API child, which may be replaced at any time.
 *
 * No message is queued: a mark on the object (command, result, refusal) says that a message about
 * it is to be sent, and flush sends what the socket takes, in a legal order. A full socket
 * therefore costs no memory and never blocks. */
#pragma once
#include "base/err.h"
#include "base/loop.h"
#include "link/peer.h"
#include <sys/queue.h>

struct warden;
struct refused_command;

struct server_link {
	struct peer peer; /* closed: none */
	int guest_fd;	  /* connected, has not sent anything; -1: none */
	struct watch *guest_readable, *accepting;
	struct watch *orphan, *bell;
	int64_t rung_us; /* the last bell */
	bool hello;	 /* was said; its contents are the warden's settings */
	bool greeted;	 /* and init is ready: all may be told */
	bool tell_state, told_failure;
	uint32_t state_req;
	unsigned patches; /* states owed as answers */
	uint32_t patch_req;
	STAILQ_HEAD(, refused_command) refusals;
	unsigned nrefusals;
};
void server_link_open(struct warden *w);
void server_link_close(struct warden *w);
void server_link_hang_up(struct warden *w); /* the link broke; commands go on */

/* server_messages.c. Sends what is marked; true if nothing is left, or there is no link. */
bool server_link_flush(struct warden *w);
/* For struct commands. */
void server_link_refuse(void *warden, const char *command_id, uint32_t req, const struct err *err);
void server_link_drop_refusals(struct server_link *a);
