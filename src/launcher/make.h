// SPDX-License-Identifier: Apache-2.0
/* launcher/make.h - a request for a session, and the session that it becomes. Private to launcher/.
 */
#pragma once
#include "base/hash.h"
#include "launcher/check_run.h"
#include "launcher/entries.h"
#include "launcher/requester.h"
#include "sandbox/sandbox.h"

/* What the plans of this server's sessions have in common; owned by the caller. */
void make_recipe(const struct launcher *l, struct sandbox_plan *out);
/* A request for a session that was accepted. */
struct creation {
	struct check_job job;
	struct launcher_create ask; /* owned */
	struct requester who;	    /* proven */
	uint32_t req;
	int64_t asked_by; /* when the API child that asks was started */
	/* Of a session without namespaces: where its directories will be; owned, else NULL. */
	char *workspace, *own_dir, *home; /* home NULL: not kept */
	struct checked *policy;		  /* borrowed */
	struct err uncovered;		  /* what the policy does not cover of the request */
	char hash[HASH_HEX];		  /* of what the policy must cover; "": nothing */
};
/* launcher_create: answers by launcher_created or launcher_refused, now or later. m's descriptors
 * stay the caller's. */
void admit_session(void *launcher, void *msg, struct link_msg *m);
/* Forks the stub; launcher_created follows. The session is not made if it fails. */
int make_session(struct launcher *l, const struct creation *c, struct err *err);
/* Reads the stub's reports; answers once they end, or if the warden is dead. */
void make_finish(void *session_entry);
/* The API child that asked has gone. */
void make_abandon(struct session_entry *w);
