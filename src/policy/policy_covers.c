// SPDX-License-Identifier: Apache-2.0
/* What a policy says about many operations at once: about all that a client's request asks for, and
 * about a whole directory tree.
 *
 * A client's request can only narrow the policy. The policy decides every connection in any case;
 * policy_covers rejects a request that could never be allowed, so that the client learns it at
 * once. */
#include "base/mem.h"
#include "policy/cidr.h"
#include "policy/domain.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define VARIABLES_SHOWN 20
#define WHAT_SHOWN 100
#define BELOW "/**"

/* Whether the policy can allow a connection to every name of the pattern. As for a lookup, a deny
 * rule counts only if the name is its only condition. */
static bool domain_within(const struct policy *p, const char *domain)
{
	const struct snapshot_class *c = &p->head->class[OP_NET];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_NET, i);
		const bool lets = policy_permits(p, r->decision);
		bool covers = !(r->conditions & COND_DOMAINS), meets = covers;

		if (covers && (r->conditions & COND_CIDRS))
			continue; /* about addresses, not names */
		for (uint32_t k = 0; k < r->subject.n; k++) {
			const char *pattern = snapshot_pattern(p, r->subject.at + k);

			covers |= domain_covers(pattern, domain);
			meets |= domain_overlaps(pattern, domain);
		}

		if (lets && covers)
			return true;
		if (!lets && meets && !(r->conditions & (COND_CIDRS | COND_PORTS | COND_PROTOCOLS)))
			return false;
	}
	return policy_permits(p, c->fallback);
}

static bool any_name_meets(const struct policy *p, const struct snapshot_rule *r,
			   const char *domain)
{
	for (uint32_t k = 0; k < r->subject.n; k++)
		if (domain_overlaps(snapshot_pattern(p, r->subject.at + k), domain))
			return true;
	return (r->conditions & COND_DOMAINS) == 0;
}

/* Whether the rule has a block in which block lies (all of it), or that lies in block. */
static bool any_block_meets(const struct policy *p, const struct snapshot_rule *r,
			    const struct cidr *block, bool all)
{
	for (uint32_t k = 0; k < r->cidrs.n; k++) {
		const struct cidr *c = &p->cidrs[r->cidrs.at + k];

		if (cidr_covers(c, block) || (!all && cidr_covers(block, c)))
			return true;
	}
	return (r->conditions & COND_CIDRS) == 0;
}

bool policy_restricts_loopback(const struct policy *p)
{
	static const struct cidr v4 = {.family = 4, .bits = 8, .byte = {127}},
				 v6 = {.family = 6, .bits = 128, .byte = {[15] = 1}};
	const struct snapshot_class *c = &p->head->class[OP_NET];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_NET, i);
		const bool lets = policy_permits(p, r->decision);

		if (!lets && any_name_meets(p, r, "localhost") &&
		    (any_block_meets(p, r, &v4, false) || any_block_meets(p, r, &v6, false)))
			return true;
		if (lets && (r->conditions & ~COND_CIDRS) == 0 &&
		    any_block_meets(p, r, &v4, true) && any_block_meets(p, r, &v6, true))
			return false;
	}
	return !policy_permits(p, c->fallback);
}

static bool port_within(const struct policy *p, uint16_t port)
{
	const struct snapshot_class *c = &p->head->class[OP_NET];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_NET, i);

		if ((r->conditions & COND_PORTS) && !snapshot_has_port(p, r, port))
			continue;
		if (policy_permits(p, r->decision))
			return true;
		if (r->conditions == COND_PORTS)
			return false;
	}
	return policy_permits(p, c->fallback);
}

static bool in_list(const struct policy *p, const struct snapshot_span *list, const char *name,
		    size_t len)
{
	for (uint32_t i = 0; i < list->n; i++) {
		const char *pattern = snapshot_pattern(p, list->at + i);
		const size_t n = strlen(pattern), star = n > 0 && pattern[n - 1] == '*';

		if ((star ? len >= n - 1 : len == n) && memcmp(pattern, name, n - star) == 0)
			return true;
	}
	return false;
}

/* rule: the part of the policy; field: the part of the request. */
static int refuse(const struct policy *p, const char *rule, const char *field, const char *asked,
		  struct err *err)
{
	static char reason[] = "beyond the policy: what a session asks for only narrows it";
	char what[WHAT_SHOWN + 1] = "";
	struct denial d = {
		.rule = (char *)rule, .reason = reason, .operation = (char *)field, .target = what};
	cleanup_buf struct buf variables = {0};

	if (err == NULL)
		return -E_POLICY_DENIED;
	strncat(what, asked, WHAT_SHOWN);
	if (strcmp(rule, "environment") != 0) {
		policy_alternatives(p, &(struct op){.class = OP_NET}, &d.alternatives);
	} else if (p->head->env_allow.n > 0) {
		buf_adds(&variables, "variables ");
		snapshot_format_patterns(p, &p->head->env_allow, VARIABLES_SHOWN, &variables);
		strv_add(&d.alternatives, variables.data);
	}
	denial_pack(&d, err->denial, sizeof(err->denial));
	strv_done(&d.alternatives);
	err_detail(err, field, "'%s' is beyond the policy", what);
	return err_set(err, E_POLICY_DENIED, what, "%s: '%s' is beyond the policy '%s'", field,
		       what, policy_name(p));
}

int policy_narrow_env(const struct policy *p, const struct strv *env, struct err *err)
{
	for (size_t i = 0; i < env->n; i++) {
		const size_t len = strcspn(env->v[i], "=");
		cleanup_free char *name = mem_strndup(env->v[i], len);

		if (in_list(p, &p->head->env_deny, name, len) ||
		    (p->head->has_env_allow && !in_list(p, &p->head->env_allow, name, len)))
			return refuse(p, "environment", "environment", name, err);
	}
	return 0;
}

bool policy_drops_env(const struct policy *p, const char *name, size_t len)
{
	return !policy_permits(p, p->head->class[OP_EXEC].fallback) &&
	       request_env_loads_code(name, len) && !in_list(p, &p->head->env_allow, name, len);
}

int policy_covers(const struct policy *p, const struct session_request *w, struct err *err)
{
	char normal[DOMAIN_ROOM];

	for (size_t i = 0; i < w->allowed_domains.n; i++) {
		const char *domain = w->allowed_domains.v[i], *wrong = domain_check(domain, normal);

		if (wrong != NULL)
			return err_set(err, E_BAD_REQUEST, domain,
				       "network.allowed_domains: '%.100s': %s", domain, wrong);
		if (!domain_within(p, normal))
			return refuse(p, "network_rules", "network.allowed_domains", domain, err);
	}
	for (size_t i = 0; i < w->allowed_ports.n; i++) {
		const char *port = w->allowed_ports.v[i];

		if (!port_within(p, (uint16_t)strtoul(port, NULL, 10)))
			return refuse(p, "network_rules", "network.allowed_ports", port, err);
	}
	return policy_narrow_env(p, &w->environment, err);
}

bool policy_denies_tree(const struct policy *p, enum op_file op, const char *dir)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];
	cleanup_free char *tree = mem_alloc(2 * strlen(dir) + sizeof(BELOW));

	glob_escape(strcmp(dir, "/") == 0 ? "" : dir, tree);
	strcat(tree, BELOW);
	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, i);
		bool covers = false, meets = false;

		if ((r->bits & 1U << op) == 0)
			continue;
		for (uint32_t k = 0; k < r->subject.n; k++) {
			const char *pattern = snapshot_pattern(p, r->subject.at + k);

			covers |= glob_path_covers(pattern, tree);
			meets |= glob_path_overlaps(pattern, tree);
		}

		if (meets && policy_permits(p, r->decision))
			return false;
		if (covers && !r->args_whole)
			return true;
	}
	return false;
}
