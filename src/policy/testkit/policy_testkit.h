// SPDX-License-Identifier: Apache-2.0
/* policy/testkit/policy_testkit.h - policies from text, and decisions in one line. */
#pragma once
#include "base/mem.h"
#include "policy/policy.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define HEAD "version: 1\nname: t\n" /* of a policy file */

struct policy_kit {
	struct buf bytes;
	struct policy *p;
	struct policy *cached; /* the same policy with a cache */
};
/* o may be NULL. Fails the test if the text does not compile. */
void policy_kit_open(struct policy_kit *k, const char *text, const struct policy_options *o);
void policy_kit_close(struct policy_kit *k);

/* Each decides without a cache, with an empty cache and with one that has the decision, and fails
 * the test if the verdicts differ. An approver can be asked. */
struct verdict policy_kit_decide(struct policy_kit *k, const struct op *op);
struct verdict policy_kit_file(struct policy_kit *k, const char *kind, const char *path);
/* line: argv, with single spaces; called may be NULL. */
struct verdict policy_kit_exec(struct policy_kit *k, const char *path, const char *called,
			       const char *line);
/* host and address may be NULL. */
struct verdict policy_kit_net(struct policy_kit *k, const char *host, const char *address,
			      uint16_t port);
struct verdict policy_kit_dns(struct policy_kit *k, const char *name);
