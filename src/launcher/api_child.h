// SPDX-License-Identifier: Apache-2.0
/* launcher/api_child.h - the API child and its link. Private to launcher/. */
#pragma once
#include "launcher/child.h"
#include "link/peer.h"

struct launcher;

struct api_child {
	struct child child;
	struct peer peer; /* closed while there is no child */
	struct watch *again;
	bool telling; /* sessions are still to be announced, and found_all */
	bool stop_told;
	int64_t started_us;
	unsigned fast_deaths; /* in a row */
};

int api_child_start(struct launcher *l, struct err *err);
/* Greets the API child at the other end of the link (taken). */
int api_child_connect(struct launcher *l, int fd, struct err *err);
void api_child_hup(struct launcher *l);

void api_link_stop(struct launcher *l);
/* Sends a message, or queues it; the struct's owned parts and the descriptors are taken. Without a
 * link it is dropped. */
void api_link_post(struct launcher *l, enum msg_type type, uint32_t req, void *obj, const int *fds,
		   size_t nfds);
/* Sends in the next turn what the child must still get. */
void api_link_kick(struct launcher *l);
void api_link_refuse(struct launcher *l, uint32_t req, const char *id, const struct err *why);
