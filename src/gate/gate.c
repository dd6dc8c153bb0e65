// SPDX-License-Identifier: Apache-2.0
#include "gate/gate.h"
#include "base/mem.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CACHED 512 /* decisions */

struct gate {
	void *bytes;
	size_t len;
	struct policy *policy;
	struct policy_cache *cache;
};

int gate_open(int policy_fd, struct gate **out, struct err *err)
{
	struct gate g = {0};
	struct stat st;
	int r;

	if (fstat(policy_fd, &st) == -1)
		return err_set(err, E_ENFORCEMENT, "exec_policy", "the policy cannot be read");
	g.len = (size_t)st.st_size;
	g.bytes = mmap(NULL, g.len, PROT_READ, MAP_SHARED, policy_fd, 0);
	if (g.bytes == MAP_FAILED)
		return err_errno(err, E_ENFORCEMENT, "exec_policy", "cannot map the policy");
	r = policy_open(g.bytes, g.len, &g.policy, err);
	if (r < 0) {
		munmap(g.bytes, g.len);
		return r;
	}
	g.cache = policy_cache_new(CACHED);
	*out = mem_dup(&g, sizeof(g));
	return 0;
}

void gate_close(struct gate *g)
{
	if (g == NULL)
		return;
	policy_cache_free(g->cache);
	policy_close(g->policy);
	munmap(g->bytes, g->len);
	free(g);
}

const struct policy *gate_policy(const struct gate *g)
{
	return g->policy;
}

void gate_resolve(struct verdict *v, bool approver)
{
	if (v->effective != DECISION_approve || (approver && !v->shadow))
		return;
	v->effective = v->shadow ? DECISION_allow : DECISION_deny;
	v->why = v->shadow ? NULL : "no approver";
}

void gate_decide(struct gate *g, const struct op *op, struct verdict *v)
{
	policy_decide(g->policy, g->cache, op, v);
	gate_resolve(v, false);
}

void gate_fill(const struct gate *g, const struct verdict *v, struct event *e)
{
	e->decision = event_lend(decision_name(v->effective));
	e->policy_decision = event_lend(decision_name(v->decision));
	e->policy_effective = event_lend(decision_name(v->effective));
	e->policy_rule = event_lend(v->rule);
	e->policy_version = event_lend(policy_version(g->policy));
	if (verdict_redirects(v))
		e->real_path = event_lend(v->target);
}

/* The one place that knows all of it. */
static void tell(const struct gate *g, const struct verdict *v, const struct op *op,
		 struct denial *d)
{
	denial_init(d, v, op);
	policy_alternatives(g->policy, op, &d->alternatives);
}

void gate_fill_denial(const struct gate *g, const struct verdict *v, const struct op *op,
		      struct denial *d, struct event *e)
{
	if (verdict_allows(v))
		return;
	tell(g, v, op, d);
	e->denied_op = d->operation;
	e->denied_target = d->target;
	e->denied_reason = d->reason;
	e->denied_final = d->final;
	e->alternatives = d->alternatives;
}

static bool format(const struct denial *d, char *out, size_t size)
{
	cleanup_buf struct buf b = {0};

	denial_format(d, &JW(&b));
	if (b.len >= size)
		return false;
	memcpy(out, b.data, b.len + 1);
	return true;
}

void gate_format_denial(const struct gate *g, const struct verdict *v, const struct op *op,
			char *out, size_t size)
{
	struct denial d;

	out[0] = '\0';
	tell(g, v, op, &d);
	if (!format(&d, out, size)) {
		strv_done(&d.alternatives);
		format(&d, out, size);
	}
	denial_done(&d);
}
