// SPDX-License-Identifier: Apache-2.0
/* command/results.h - the results of commands, until the API process has stored them.
 *
 * A result is sent when its last event is in the journal, and again to each new API process until
 * one acknowledges it. No result is dropped: past RESULTS_MAX no new command starts. */
#pragma once
#include "link/msg.h"
#include <stdbool.h>
#include <sys/queue.h>

#define RESULTS_MAX 256

struct result {
	TAILQ_ENTRY(result) next;
	struct warden_result msg; /* owned */
	uint32_t req;
	bool ready; /* its end is in the journal, ring_end is set */
	bool told;
	bool tell_started; /* to a new API child, while it is not ready */
};
TAILQ_HEAD(result_list, result);
struct results {
	struct result_list list; /* oldest first */
	unsigned n;
};

void results_init(struct results *rs);
void results_done(struct results *rs);
/* Takes the message's contents. The result is not ready. */
struct result *results_add(struct results *rs, struct warden_result *msg);
struct result *results_find(struct results *rs, const char *command_id); /* NULL if unknown */
void results_ack(struct results *rs, const struct strv *command_ids);	 /* an unknown id is fine */
/* The oldest that is ready and not told, or NULL. */
struct result *results_next(struct results *rs);
/* The oldest that is not ready and still to be told of as started, or NULL. */
struct result *results_next_unready(struct results *rs);
/* A new API child knows nothing. */
void results_tell_again(struct results *rs);
bool results_full(const struct results *rs);
