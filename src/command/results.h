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
	struct warden_result msg; /* owned; of a refusal only command_id is set */
	struct err *refusal;	  /* owned; NULL: the command was started */
	uint32_t req;
	bool recorded;	    /* its end is in the journal, and ring_end is set */
	unsigned unsettled; /* processes that have not confirmed that their events of it are in */
	bool ready;	    /* both; or it is a refusal */
	bool told;
	bool tell_started; /* to a new API child, while it is not ready */
};
struct results {
	TAILQ_HEAD(, result) list; /* oldest first */
	unsigned n, refusals;
};

void results_init(struct results *rs);
void results_done(struct results *rs);
/* Takes the message's contents. The result is not ready. */
struct result *results_add(struct results *rs, struct warden_result *msg);
/* Its end is in the journal up to this position. */
void result_recorded(struct result *r, uint64_t ring_end);
/* One process has confirmed; m is taken. */
void result_settled(struct result *r, struct process_settled *m);
/* A process reports that the command met a limit: it is the reason if the command failed. */
void result_limited(struct result *r, const char *message);
bool results_unsettled(const struct results *rs); /* some wait for processes */
void results_settle_all(struct results *rs);	  /* no process is waited for any longer */
struct result *results_find(struct results *rs, const char *command_id); /* NULL if unknown */
void results_ack(struct results *rs, const struct strv *command_ids);	 /* an unknown id is fine */
/* The command did not start. A refusal is sent once: to the API child that is linked now or,
 * without one, to the next. */
void results_refuse(struct results *rs, const char *command_id, uint32_t req,
		    const struct err *err);
/* The oldest about which a message is due, or NULL: its result if it is ready, else its start. */
struct result *results_next(struct results *rs);
void results_told(struct results *rs, struct result *r); /* the message was sent */
/* The API child is gone: refusals that were for it are dropped. */
void results_unlinked(struct results *rs);
/* There is a new API child. */
void results_tell_again(struct results *rs);
bool results_full(const struct results *rs);
