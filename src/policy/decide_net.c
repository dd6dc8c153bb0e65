// SPDX-License-Identifier: Apache-2.0
/* Decides connections and lookups.
 *
 * A lookup has a name and neither address nor port. It is allowed if a connection to that name can
 * be allowed: an allow rule counts with any ports and blocks; a deny rule counts only if the name
 * is its only condition. So a name that is denied is never looked up. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/snapshot.h"

struct decide_net {
	const char *host; /* normal form, or NULL */
	struct op_address address;
	uint16_t port;
	enum op_proto proto;
	bool dns; /* a lookup: no address and no port yet */
};

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
		return rule_is_for_lookups(r) ? MATCH_YES : MATCH_NO;
	if (((r->conditions & COND_PORTS) && !snapshot_has_port(p, r, n->port)) ||
	    ((r->conditions & COND_PROTOCOLS) && (r->bits & 1U << n->proto) == 0))
		return MATCH_NO;
	for (uint32_t i = 0; i < r->cidrs.n; i++)
		if (cidr_match(&p->cidrs[r->cidrs.at + i], &n->address))
			return MATCH_YES;
	return (r->conditions & COND_CIDRS) ? MATCH_NO : MATCH_YES;
}

/* A host that is an address stands for that address. An address is searched under every length that
 * a block of the policy has. */
const char *decide_net(struct rule_search s, const struct op *op, struct rule_found *out)
{
	const struct snapshot_head *h = s.p->head;
	struct decide_net n = {.dns = op->class == OP_DNS};
	const char *host = n.dns ? op->dns.name : op->net.host;
	char room[DOMAIN_ROOM];
	struct op_address literal;

	if (!n.dns) {
		n.address = op->net.address;
		n.port = op->net.port;
		n.proto = op->net.proto;
	}
	if (host != NULL && host[0] != '\0') {
		const bool named = domain_normal(host, room);

		if (!op_address_parse(named ? room : host, &literal))
			n.host = room;
		else if (n.address.family == 0)
			n.address = literal;
		if (n.host != NULL && !named)
			return "not a host name";
	}
	n.address = cidr_normal(&n.address);
	s.match = match_net;
	s.arg = &n;
	search_key(&s, SNAPSHOT_ALWAYS);
	for (const char *at = n.host; at != NULL; at = strchr(at, '.')) {
		at += at != n.host; /* behind the dot */
		search_key(&s, snapshot_hash(KEY_DOMAIN, at, strlen(at)));
	}
	for (unsigned i = 0; n.address.family != 0 && i < 3; i++) {
		uint64_t left = h->lengths[n.address.family == 6][i];

		for (; left != 0; left &= left - 1) {
			struct cidr c = {
				.family = n.address.family,
				.bits = (uint8_t)(i * 64 + (unsigned)__builtin_ctzll(left))};

			memcpy(c.byte, n.address.byte, sizeof(c.byte));
			cidr_mask(c.byte, c.bits);
			search_key(&s, snapshot_hash_cidr(&c));
		}
	}
	*out = s.best;
	return NULL;
}
