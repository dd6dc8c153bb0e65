// SPDX-License-Identifier: Apache-2.0
/* policy/snapshot.h - the bytes of a compiled policy. Private to this folder.
 *
 * A snapshot is a head and arrays behind it; references are offsets. compile.c writes it, and
 * snapshot_open.c checks all of it before any other function reads it. The rules of a class have
 * the order in which they are tried: final rules first.
 *
 * Each class has a hash index from a property of an operation (a component of its path, a suffix of
 * its host, the name of its program) to the rules that require it, and a list of the rules that
 * require no such property. A collision of hashes does no harm: every candidate is matched in full.
 */
#pragma once
#include "policy/cidr.h"
#include "policy/source.h"

#define SNAPSHOT_MAGIC "agshpol2"
#define SNAPSHOT_NONE UINT32_MAX
#define SNAPSHOT_NO_PRIVILEGE (UINT32_MAX - 1) /* the built-in rule */

struct snapshot_span {
	uint32_t at; /* index of the first */
	uint32_t n;
};
extern const size_t snapshot_item_size[]; /* by enum snapshot_part */
enum snapshot_part {			  /* arrays, each 8-byte aligned */
		     PART_RULES,    /* struct snapshot_rule, OP_FILE first, then OP_EXEC, OP_NET */
		     PART_PATTERNS, /* uint32_t: offset of a text */
		     PART_CIDRS,    /* struct cidr */
		     PART_PORTS,    /* struct port_range */
		     PART_SLOTS,    /* struct snapshot_slot */
		     PART_POSTINGS, /* struct snapshot_posting */
		     PART_TEXT, /* bytes; strings end with NUL; the first is empty and means none */
		     PARTS
};
struct snapshot_rule {
	uint32_t name, message, redirect_to; /* texts */
	uint32_t line, column;
	uint8_t decision, final, flags, args_whole;
	uint32_t conditions;
	uint32_t bits; /* operations, kinds or protocols; a network rule has no kinds */
	/* of PART_PATTERNS: subject is paths, commands or domains */
	struct snapshot_span subject, scripts, args, regex, groups;
	struct snapshot_span cidrs, ports;
};
struct snapshot_slot {
	uint32_t hash;
	struct snapshot_span postings; /* n 0: the slot is empty */
};
struct snapshot_posting {
	uint32_t rule;	  /* of its class */
	uint32_t pattern; /* of PART_PATTERNS, SNAPSHOT_NONE: the rule as a whole */
};
struct snapshot_class {
	struct snapshot_span rules;  /* of PART_RULES */
	struct snapshot_span slots;  /* of PART_SLOTS; n is 0 or a power of two */
	struct snapshot_span always; /* of PART_POSTINGS */
	uint32_t fallback, line, column;
	uint32_t padding;
};
struct snapshot_head {
	char magic[8];
	uint64_t size;		  /* of the whole snapshot */
	uint8_t digest[HASH_LEN]; /* of all that follows */
	uint32_t shadow;
	uint32_t name, description, file; /* texts */
	struct snapshot_class class[POLICY_RULE_CLASSES];
	struct snapshot_span env_allow, env_deny; /* of PART_PATTERNS */
	uint32_t has_env_allow, padding;
	uint64_t bits4, bits6[3]; /* lengths of the address blocks that the index has */
	int64_t limit[LIMITS];	  /* by number; -1: not set */
	struct {
		uint64_t at; /* bytes from the beginning */
		uint64_t n;  /* items */
	} part[PARTS];
};

/* Kinds of keys of the index. */
enum snapshot_key {
	KEY_COMPONENT = 'c',
	KEY_ENDING = 'e', /* of the last component: its last dot and the characters after it */
	KEY_NAME = 'n',
	KEY_DOMAIN = 'd',
	KEY_CIDR = 'i'
};
static inline uint32_t snapshot_hash(enum snapshot_key kind, const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t h = 2166136261U ^ (uint32_t)kind;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 16777619U;
	return h ^ h >> 15;
}
static inline uint32_t snapshot_hash_cidr(const struct cidr *c)
{
	return snapshot_hash(KEY_CIDR, c, sizeof(*c));
}

/* An opened snapshot: pointers to its parts. */
struct regexes;
struct policy {
	const struct snapshot_head *head; /* borrowed */
	const struct snapshot_rule *rules;
	const uint32_t *patterns;
	const struct cidr *cidrs;
	const struct port_range *ports;
	const struct snapshot_slot *slots;
	const struct snapshot_posting *postings;
	const char *text;
	struct regexes *regexes; /* owned; NULL without any */
	uint32_t *regex_of;	 /* owned: the index of a pattern in regexes */
	struct limits limits;
	char version[POLICY_VERSION_LEN];
};

static inline const char *snapshot_text(const struct policy *p, uint32_t at)
{
	return p->text + at;
}
static inline const char *snapshot_pattern(const struct policy *p, uint32_t i)
{
	return p->text + p->patterns[i];
}
static inline bool snapshot_has_port(const struct policy *p, const struct snapshot_rule *r,
				     uint16_t port)
{
	for (const struct port_range *at = &p->ports[r->ports.at], *end = at + r->ports.n; at < end;
	     at++)
		if (at->low <= port && port <= at->high)
			return true;
	return false;
}
static inline const struct snapshot_rule *snapshot_rule(const struct policy *p, unsigned class,
							uint32_t i)
{
	return &p->rules[p->head->class[class].rules.at + i];
}

/* Whether an operation with this decision goes ahead. */
static inline bool policy_permits(const struct policy *p, enum decision d)
{
	return d == DECISION_allow || d == DECISION_log ||
	       (d == DECISION_approve && p->head->shadow != 0);
}

/* The result of a search. */
struct rule_found {
	uint32_t rule; /* of its class; SNAPSHOT_NONE: none matched; SNAPSHOT_NO_PRIVILEGE */
	bool over;     /* a pattern of that rule was over its limit */
};

/* The search offers the candidates of an index entry in the order of trial until one matches. */
enum match_result { MATCH_NO, MATCH_YES, MATCH_OVER };
typedef enum match_result candidate_fn(const struct policy *p, const struct snapshot_rule *r,
				       uint32_t pattern, const void *arg);
struct rule_search {
	const struct policy *p;
	enum op_class class;
	candidate_fn *match;
	const void *arg;
	struct rule_found best;
};
void search_always(struct rule_search *s);
void search_key(struct rule_search *s, uint32_t hash);
void search_path(struct rule_search *s, const char *path); /* a plain path */

/* Each fills s.match and s.arg and runs the search. decide_net returns why it denies, or NULL. */
struct rule_found decide_exec(struct rule_search s, const struct op *op);
const char *decide_net(struct rule_search s, const struct op *op, struct rule_found *out);

extern const char *const decide_system_dirs[]; /* NULL-ended; each ends with a slash */
/* Whether the file lies directly in one of them. */
bool decide_in_system(const char *path);

/* policy_show.c: "a, b and 3 more", of which at most `most` are named. */
void snapshot_format_patterns(const struct policy *p, const struct snapshot_span *s, uint32_t most,
			      struct buf *out);

/* cache.c */
bool cache_get(struct policy_cache *c, const struct policy *p, const struct op *op,
	       struct rule_found *out);
/* Stores the result for the op of the last cache_get. */
void cache_put(struct policy_cache *c, const struct rule_found *f);
