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

	if (fstat(policy_fd, &st) < 0 || st.st_size <= 0)
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

void gate_decide(struct gate *g, const struct op *op, struct verdict *v)
{
	policy_decide(g->policy, g->cache, op, v);
}

static char *lent(const char *s)
{
	return (char *)s;
}

void gate_fill(const struct gate *g, const struct verdict *v, struct event *e)
{
	e->decision =
		lent(decision_name(v->effective == DECISION_deny ? DECISION_deny : DECISION_allow));
	e->policy_decision = lent(decision_name(v->decision));
	e->policy_effective = lent(decision_name(v->effective));
	e->policy_rule = lent(v->rule);
	e->policy_version = lent(policy_version(g->policy));
}

static bool format(const struct verdict *v, const struct op *op, const struct strv *alternatives,
		   char *out, size_t size)
{
	cleanup_buf struct buf b = {0};

	verdict_format_denial(v, op, alternatives, &JW(&b));
	if (b.len >= size)
		return false;
	memcpy(out, b.data, b.len + 1);
	return true;
}

void gate_format_denial(const struct gate *g, const struct verdict *v, const struct op *op,
			char *out, size_t size)
{
	struct strv alternatives = {0};

	out[0] = '\0';
	policy_alternatives(g->policy, op, &alternatives);
	if (!format(v, op, &alternatives, out, size))
		format(v, op, NULL, out, size);
	strv_done(&alternatives);
}
