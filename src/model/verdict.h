// SPDX-License-Identifier: Apache-2.0
/* model/verdict.h - the decision of the policy about one operation, and its rule.
 *
 * Strings are borrowed from the policy that decided and live as long as it. */
#pragma once
#include "base/denial.h"
#include "model/op.h"
#include <stdbool.h>

/* clang-format off */
#define DECISION_LIST(X) X(allow) X(deny) X(approve) X(log) X(redirect) X(soft_delete)
/* clang-format on */
enum decision {
#define X(name) DECISION_##name,
	DECISION_LIST(X)
#undef X
		DECISIONS
};

struct verdict {
	enum decision decision; /* as the rule has it */
	/* What is done: allow (also for log, redirect and soft_delete), deny, or approve: the
	 * approver is asked, and the gate turns its answer into one of the others. */
	enum decision effective;
	const char *rule;    /* its name; "default" if no rule matched */
	const char *message; /* the rule's text with {path} and {args}, or NULL */
	const char *why;     /* of a denial: "no approver", "no rule allows it"; else NULL */
	const char *file;    /* of the rule; NULL for a built-in default */
	unsigned line, column;
	const char *target; /* absolute path of the program, for redirect; else NULL */
	bool final;	    /* a deny that no other rule can change */
	bool shadow;	    /* an approve that is let through, because approvals only watch */
	bool cached;
};

const char *decision_name(enum decision d);
bool decision_parse(const char *name, enum decision *out); /* false: unknown */
static inline bool verdict_allows(const struct verdict *v)
{
	return v->effective == DECISION_allow;
}
/* Whether target runs instead of the program. */
static inline bool verdict_redirects(const struct verdict *v)
{
	return v->decision == DECISION_redirect && verdict_allows(v);
}
/* The reason as text for a person: the message with {path} and {args} filled in, else why. */
void verdict_format_reason(const struct verdict *v, const struct op *op, struct buf *out);
/* Does not fill alternatives: policy_alternatives does. */
void denial_init(struct denial *d, const struct verdict *v, const struct op *op);
