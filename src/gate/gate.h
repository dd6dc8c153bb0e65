// SPDX-License-Identifier: Apache-2.0
/* gate/gate.h - the narrow waist: an operation goes in, a verdict and the parts of its event come
 * out.
 *
 * A gate belongs to one thread; each thread that asks opens its own on the same snapshot. */
#pragma once
#include "base/err.h"
#include "model/event.h"
#include "policy/policy.h"

struct gate;

/* Maps a sealed snapshot; the descriptor is borrowed. */
int gate_open(int policy_fd, struct gate **out, struct err *err);
void gate_close(struct gate *g); /* NULL is fine */
const struct policy *gate_policy(const struct gate *g);

/* What an approve of the policy comes to: an allow in shadow mode; else an approve where there is
 * an approver, and a denial where there is none. Everything else stays as it is. */
void gate_resolve(struct verdict *v, bool approver);
void gate_decide(struct gate *g, const struct op *op, struct verdict *v);
/* decision, policy_… of the event; strings are borrowed from the verdict and the gate. */
void gate_fill(const struct gate *g, const struct verdict *v, struct event *e);
/* denied_… and alternatives of the event of a denial, borrowed from *d; nothing for what goes
 * ahead. *d is the caller's to zero and to give to denial_done. */
void gate_fill_denial(const struct gate *g, const struct verdict *v, const struct op *op,
		      struct denial *d, struct event *e);
/* The denial as a JSON object that fits into size bytes, for struct err's `policy`; sentences about
 * what is allowed instead are left out where they do not fit. */
void gate_format_denial(const struct gate *g, const struct verdict *v, const struct op *op,
			char *out, size_t size);
