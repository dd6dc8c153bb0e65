// SPDX-License-Identifier: Apache-2.0
/* policy_open checks every offset, count, text and pattern of a snapshot. It rejects a damaged
 * snapshot, so that deciding needs no checks. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/regex.h"
#include "policy/snapshot.h"
#include <stdio.h>

const size_t snapshot_item_size[PARTS] = {
	[PART_RULES] = sizeof(struct snapshot_rule),
	[PART_PATTERNS] = sizeof(uint32_t),
	[PART_CIDRS] = sizeof(struct cidr),
	[PART_PORTS] = sizeof(struct port_range),
	[PART_SLOTS] = sizeof(struct snapshot_slot),
	[PART_POSTINGS] = sizeof(struct snapshot_posting),
	[PART_TEXT] = 1,
};

static const char *const operations[] = {
#define X(name) #name,
	OP_FILE_LIST(X)
#undef X
		"*",
	NULL};
static const char *const kinds[] = {"memfd", "deleted", "loader", NULL};
static const char *const protocols[] = {"tcp", "udp", "icmp", NULL};

const struct rule_class rule_classes[POLICY_RULE_CLASSES] = {
	[OP_FILE] = {"file_rules", "files", "file", "paths", "operations", "operation", operations},
	[OP_EXEC] = {"command_rules", "commands", "command", "commands", "kinds", "kind", kinds},
	[OP_NET] = {"network_rules", "network", "network", "domains", "protocols", "protocol",
		    protocols},
};
const enum op_class rule_class_order[POLICY_RULE_CLASSES] = {OP_FILE, OP_NET, OP_EXEC};

static int damaged(struct err *err, const char *what)
{
	return err_set(err, E_BAD_REQUEST, NULL, "the policy snapshot is damaged: %s", what);
}

static bool span_ok(const struct snapshot_span *s, uint64_t n)
{
	return s->at <= n && s->n <= n - s->at;
}

static bool text_ok(const struct policy *p, uint32_t at)
{
	/* the byte before a text is the NUL of another text */
	return at < p->head->part[PART_TEXT].n && (at == 0 || p->text[at - 1] == '\0');
}

/* Returns what is wrong with a pattern, or NULL. */
typedef const char *check_fn(const char *text);

static const char *command_check(const char *text)
{
	return glob_is_path(text) ? glob_check_path(text) : glob_check_text(text);
}

static const char *domain_check_normal(const char *text)
{
	char normal[DOMAIN_ROOM];
	const char *wrong = domain_check(text, normal);

	return wrong == NULL && strcmp(text, normal) != 0 ? "not normal" : wrong;
}

/* check may be NULL. */
static COLD bool patterns_ok(const struct policy *p, const struct snapshot_span *s, check_fn *check)
{
	if (!span_ok(s, p->head->part[PART_PATTERNS].n))
		return false;
	for (uint32_t i = 0; check != NULL && i < s->n; i++)
		if (check(snapshot_pattern(p, s->at + i)) != NULL)
			return false;
	return true;
}

static COLD bool redirect_ok(const struct policy *p, const struct snapshot_rule *r)
{
	const char *to = snapshot_text(p, r->redirect_to);

	for (uint32_t i = 0; i < r->subject.n; i++)
		if (glob_fixed(snapshot_pattern(p, r->subject.at + i), NULL) == 0)
			return false;
	return r->bits == FILE_OPS && glob_plain_path(to) && to[1] != '\0' && strlen(to) < PATH_MAX;
}

static COLD bool rule_ok(const struct policy *p, unsigned class, const struct snapshot_rule *r)
{
	static check_fn *const subject[] = {[OP_FILE] = glob_check_path,
					    [OP_EXEC] = command_check,
					    [OP_NET] = domain_check_normal};
	const bool redirect = r->decision == DECISION_redirect;

	if (!text_ok(p, r->name) || !text_ok(p, r->message) || !text_ok(p, r->redirect_to) ||
	    r->decision >= DECISIONS || r->final > 1 || r->flags > 1 || r->args_whole > 1 ||
	    (r->conditions & ~(unsigned)COND_ALL) != 0 ||
	    (r->final && r->decision != DECISION_deny) || redirect != (r->redirect_to != 0) ||
	    (redirect && class == OP_NET) ||
	    (r->decision == DECISION_soft_delete &&
	     (class != OP_FILE || r->bits != 1U << OP_FILE_delete)) ||
	    (class == OP_FILE && (r->flags || r->args_whole) && r->decision != DECISION_deny))
		return false;
	if (!patterns_ok(p, &r->subject, subject[class]) ||
	    (redirect && class == OP_FILE && !redirect_ok(p, r)) ||
	    !patterns_ok(p, &r->scripts, glob_check_path) ||
	    !patterns_ok(p, &r->args, glob_check_text) || !patterns_ok(p, &r->regex, NULL) ||
	    !patterns_ok(p, &r->groups, flags_check_group) ||
	    !span_ok(&r->cidrs, p->head->part[PART_CIDRS].n) ||
	    !span_ok(&r->ports, p->head->part[PART_PORTS].n))
		return false;
	for (uint32_t i = 0; i < r->cidrs.n; i++)
		if (!cidr_valid(&p->cidrs[r->cidrs.at + i]))
			return false;
	return true;
}

/* Whether the postings name rules of the class in their order, and patterns of these rules. */
static COLD bool postings_ok(const struct policy *p, unsigned class, const struct snapshot_span *s)
{
	const struct snapshot_class *c = &p->head->class[class];

	if (!span_ok(s, p->head->part[PART_POSTINGS].n))
		return false;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct snapshot_posting *at = &p->postings[s->at + i];
		const struct snapshot_rule *r;

		if (at->rule >= c->rules.n || (i > 0 && at->rule < at[-1].rule))
			return false;
		r = snapshot_rule(p, class, at->rule);
		if (at->pattern != SNAPSHOT_NONE &&
		    (at->pattern < r->subject.at || at->pattern - r->subject.at >= r->subject.n))
			return false;
		if (class == OP_FILE && at->pattern == SNAPSHOT_NONE)
			return false;
	}
	return true;
}

static COLD const char *check_all(const struct policy *p)
{
	const struct snapshot_head *h = p->head;
	const uint64_t n = h->part[PART_TEXT].n;

	if (n == 0 || p->text[0] != '\0' || p->text[n - 1] != '\0' || !text_ok(p, h->name) ||
	    !text_ok(p, h->description) || !text_ok(p, h->file))
		return "its texts";
	for (uint64_t i = 0; i < h->part[PART_PATTERNS].n; i++)
		if (!text_ok(p, p->patterns[i]))
			return "its texts";
	if (!patterns_ok(p, &h->env_allow, NULL) || !patterns_ok(p, &h->env_deny, NULL))
		return "its variables";
	for (unsigned i = 0; i < LIMITS; i++)
		if (h->limits.value[i] < 0 || ((const uint8_t *)h->limits.given)[i] > 1)
			return "its limits";
	if (h->lengths[0][0] >> 33 != 0 || h->lengths[0][1] != 0 || h->lengths[0][2] != 0 ||
	    h->lengths[1][2] > 1)
		return "lengths of address blocks";
	for (unsigned k = 0; k < POLICY_RULE_CLASSES; k++) {
		const struct snapshot_class *c = &h->class[k];

		if (!span_ok(&c->rules, h->part[PART_RULES].n))
			return "the rules of a class";
		if (c->fallback >= DECISIONS || c->fallback == DECISION_redirect)
			return "a default";
		for (uint32_t i = 0; i < c->rules.n; i++)
			if (!rule_ok(p, k, snapshot_rule(p, k, i)))
				return "a rule";
		if (!span_ok(&c->slots, h->part[PART_SLOTS].n) ||
		    (c->slots.n & (c->slots.n - 1)) != 0)
			return "an index";
		for (uint32_t i = 0; i < c->slots.n; i++)
			if (!postings_ok(p, k, &p->slots[c->slots.at + i].postings))
				return "an entry of an index";
	}
	return NULL;
}

static COLD int add_regexes(struct policy *p, struct err *err)
{
	const struct snapshot_class *c = &p->head->class[OP_EXEC];
	int rc = 0;

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_span *s = &snapshot_rule(p, OP_EXEC, i)->regex;

		if (s->n > 0 && p->regexes == NULL)
			p->regexes = regexes_new(p->head->part[PART_PATTERNS].n);
		for (uint32_t k = s->at; rc == 0 && k < s->at + s->n; k++)
			rc = regexes_add(p->regexes, k, snapshot_pattern(p, k), err);
	}
	return rc;
}

static COLD void note_redirects(struct policy *p)
{
	for (uint32_t i = 0; i < p->head->class[OP_FILE].rules.n; i++)
		if (snapshot_rule(p, OP_FILE, i)->decision == DECISION_redirect) {
			p->redirect = mem_grow(p->redirect, p->redirects, sizeof(*p->redirect));
			p->redirect[p->redirects++] = i;
		}
}

COLD const char *snapshot_check_head(const void *bytes, size_t len, size_t head_size,
				     const struct snapshot_place *part)
{
	const size_t from = offsetof(struct snapshot_head, shadow);
	const struct snapshot_head *h = bytes;
	size_t at = head_size;
	uint8_t digest[HASH_LEN];

	if (h->size != len)
		return "its size";
	hash_sha256(digest, (const char *)bytes + from, len - from, NULL, 0);
	if (!hash_equal(digest, h->digest, sizeof(digest)))
		return "its digest";
	for (unsigned i = 0; i < PARTS; i++) {
		if (part[i].at != at || part[i].n >= UINT32_MAX ||
		    part[i].n > (len - at) / snapshot_item_size[i])
			return "the place of a part";
		at += (part[i].n * snapshot_item_size[i] + 7) & ~(size_t)7;
		if (at > len)
			return "the size of a part";
	}
	return at == len ? NULL : "its size";
}

static COLD const char *check_head(const struct snapshot_head *h, size_t len)
{
	if (len < sizeof(*h))
		return "it is too short";
	if (memcmp(h->magic, SNAPSHOT_MAGIC, sizeof(h->magic)) != 0)
		return "it is of another version";
	return snapshot_check_head(h, len, sizeof(*h), h->part);
}

int policy_open(const void *bytes, size_t len, struct policy **out, struct err *err)
{
	const bool old = snapshot_is_old(bytes, len);
	const struct snapshot_head *h;
	const char *wrong, *base;
	char *renewed = NULL;
	struct policy *p;
	char hex[HASH_HEX];
	int rc;

	if ((uintptr_t)bytes % 8 != 0)
		return damaged(err, "its alignment");
	wrong = old ? snapshot_renew(bytes, len, &renewed) : check_head(bytes, len);
	if (wrong != NULL)
		return damaged(err, wrong);
	base = old ? renewed : bytes;
	h = (const void *)base;
	p = mem_new(struct policy);
	*p = (struct policy){.head = h,
			     .renewed = renewed,
			     .rules = (const void *)(base + h->part[PART_RULES].at),
			     .patterns = (const void *)(base + h->part[PART_PATTERNS].at),
			     .cidrs = (const void *)(base + h->part[PART_CIDRS].at),
			     .ports = (const void *)(base + h->part[PART_PORTS].at),
			     .slots = (const void *)(base + h->part[PART_SLOTS].at),
			     .postings = (const void *)(base + h->part[PART_POSTINGS].at),
			     .text = base + h->part[PART_TEXT].at};
	wrong = check_all(p);
	rc = wrong != NULL ? damaged(err, wrong) : add_regexes(p, err);
	if (rc < 0) {
		policy_close(p);
		return rc;
	}
	note_redirects(p);
	hash_hex(hex, p->head->digest);
	snprintf(p->version, sizeof(p->version), "sha256:%s", hex);
	*out = p;
	return 0;
}

void policy_close(struct policy *p)
{
	if (p == NULL)
		return;
	regexes_free(p->regexes);
	cache_free(p->cache);
	free(p->redirect);
	free(p->renewed);
	free(p->real);
	free(p);
}

const char *policy_name(const struct policy *p)
{
	return snapshot_text(p, p->head->name);
}

const char *policy_version(const struct policy *p)
{
	return p->version;
}

const char *policy_description(const struct policy *p)
{
	return snapshot_text(p, p->head->description);
}

size_t policy_rules(const struct policy *p, enum op_class class)
{
	return p->head->class[class == OP_DNS ? OP_NET : class].rules.n;
}

bool policy_restricts(const struct policy *p, enum op_class class)
{
	const unsigned c = class == OP_DNS ? OP_NET : class;

	if (!decision_permits(p->head->class[c].fallback))
		return true;
	for (uint32_t i = 0; i < p->head->class[c].rules.n; i++)
		if (!decision_permits(snapshot_rule(p, c, i)->decision))
			return true;
	return false;
}

bool policy_soft_deletes(const struct policy *p)
{
	for (uint32_t i = 0; i < p->head->class[OP_FILE].rules.n; i++)
		if (snapshot_rule(p, OP_FILE, i)->decision == DECISION_soft_delete)
			return true;
	return false;
}

const struct limits *policy_limits(const struct policy *p)
{
	return &p->head->limits;
}
