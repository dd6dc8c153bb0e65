// SPDX-License-Identifier: Apache-2.0
/* Connections and lookups.
 *
 * A lookup has a name and neither address nor port. It is allowed where a connection to that name
 * can be: a rule that allows counts whatever its ports and blocks; a rule that refuses counts only
 * if it asks for nothing but the name. So what is denied by name is never looked up. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/snapshot.h"

static bool has_port(const struct policy *p, const struct snapshot_rule *r, uint16_t port)
{
	const struct port_range *at = &p->ports[r->ports.at];

	for (uint32_t i = 0; i < r->ports.n; i++)
		if (at[i].low <= port && port <= at[i].high)
			return true;
	return false;
}

static bool has_address(const struct policy *p, const struct snapshot_rule *r,
			const struct op_address *a)
{
	for (uint32_t i = 0; i < r->cidrs.n; i++)
		if (cidr_match(&p->cidrs[r->cidrs.at + i], a))
			return true;
	return false;
}

static enum match_result match_net(const struct policy *p, const struct snapshot_rule *r,
				   uint32_t pattern, const void *arg)
{
	const struct decide_net *n = arg;

	if (pattern != SNAPSHOT_NONE) {
		const char *text = snapshot_pattern(p, pattern);

		if (n->host != NULL ? !domain_match(text, n->host) : strcmp(text, "*") != 0)
			return MATCH_NO;
	}
	if (n->dns)
		return rule_is_for_lookups((enum decision)r->decision, r->conditions) ? MATCH_YES
										      : MATCH_NO;
	if ((r->conditions & COND_PORTS) && !has_port(p, r, n->port))
		return MATCH_NO;
	if ((r->conditions & COND_PROTOCOLS) && (r->bits & 1U << n->proto) == 0)
		return MATCH_NO;
	if ((r->conditions & COND_CIDRS) && !has_address(p, r, &n->address))
		return MATCH_NO;
	return MATCH_YES;
}

/* Looks the address up under every length that a block of the policy has. */
static void search_address(struct rule_search *s, const struct op_address *a)
{
	const struct snapshot_head *h = s->p->head;
	const uint64_t v4[3] = {h->bits4};
	const uint64_t *bits = a->family == 4 ? v4 : h->bits6;

	for (unsigned i = 0; i < 3; i++)
		for (uint64_t left = bits[i]; left != 0; left &= left - 1) {
			struct cidr c = {
				.family = a->family,
				.bits = (uint8_t)(i * 64 + (unsigned)__builtin_ctzll(left))};

			memcpy(c.byte, a->byte, sizeof(c.byte));
			cidr_mask(c.byte, c.bits);
			search_key(s, snapshot_hash_cidr(&c));
		}
}

struct rule_found decide_net(const struct policy *p, const struct decide_net *n)
{
	struct rule_search s = {.p = p,
				.class = OP_NET,
				.match = match_net,
				.arg = n,
				.best = {.rule = SNAPSHOT_NONE}};

	search_always(&s);
	for (const char *at = n->host; at != NULL; at = strchr(at, '.')) {
		at += at != n->host; /* behind the dot */
		search_key(&s, snapshot_hash(KEY_DOMAIN, at, strlen(at)));
	}
	if (n->address.family != 0)
		search_address(&s, &n->address);
	return s.best;
}
