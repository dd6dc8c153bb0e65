// SPDX-License-Identifier: Apache-2.0
/* launcher/policy_snapshots.h - compiled policies, by name. Private to launcher/. */
#pragma once
#include "config/config.h"
#include "launcher/check_run.h"

/* The policy, if a session has used it; borrowed until the loop goes on. */
struct checked *policies_find(const struct launcher *l, const char *name);
/* Fills ask with the files of these policies, those of all sets (texts) and the places of the view;
 * an ask for a session without namespaces has its workspace and its own places already. */
void policies_question(const struct launcher *l, const struct strv *names, bool texts,
		       struct check_ask *ask);
/* A session uses the policy from now on: takes the contents of c. Announced to the API child. */
struct checked *policies_add(struct launcher *l, struct checked *c);
/* Whether a client that is not an admin may choose this policy for a session. E_POLICY_DENIED. */
int policies_selectable(const struct config *c, const char *name, struct err *err);
/* Whether the policies exist that the configuration lists. E_BAD_REQUEST, with the place. */
int policies_check(const struct config *c, struct err *err);
/* Compiles the policies in use again. Changes and failures are announced to the API child. */
void policies_reload(struct launcher *l);
/* launcher_ask; fails only if the message cannot be read. */
void policies_ask(void *launcher, void *msg, struct link_msg *m);
void policies_free(struct launcher *l);
