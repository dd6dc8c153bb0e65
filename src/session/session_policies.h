// SPDX-License-Identifier: Apache-2.0
/* session/session_policies.h - the policies of the sessions, as the launcher sent them. */
#pragma once
#include "session/session.h"

struct policy;
/* The policy that the session began with, valid until the next call; NULL if it is not known. */
const struct policy *session_policy(struct session *s);
int session_policy_take(struct session *s, int fd, struct err *err); /* from the launcher */
void session_policy_save(struct session *s);
/* Whether the policy allows these variables. E_POLICY_DENIED, with its event. */
int session_policy_env(struct session *s, const struct strv *env, const char *request_id,
		       struct err *err);
/* The event of a request that asks for more than the policy gives. A session that is not made yet
 * has no id in it. */
void policy_violation(struct session *s, const char *request_id, const struct err *why);
/* The launcher refused a policy that is not in policies.selectable: err gets the denial. */
void denial_of_choice(const struct config *c, struct err *err);
peer_fn policies_on_launcher; /* ctx: sessions */
void policies_forget_waiters(struct sessions *ss);
void policies_close(struct sessions *ss);
