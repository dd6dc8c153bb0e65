// SPDX-License-Identifier: Apache-2.0
/* policy/snapshot.h - the bytes of a compiled policy. Private to this folder.
 *
 * A snapshot is a head and arrays behind it; references are offsets. compile.c writes it, and
 * snapshot_open.c checks all of it before any other function reads it. The rules of a class have
 * the order in which they are tried: final rules first.
 *
 * Each class has a hash index from a property of an operation (a component of its path, a suffix of
 * its host, the name of its program) to the rules that require it. Rules that require no such
 * property have the key SNAPSHOT_ALWAYS. A collision of hashes does no harm: every candidate is
 * matched in full. */
#pragma once
#include "base/fnv.h"
#include "policy/cidr.h"
#include "policy/policy.h"

#define SNAPSHOT_MAGIC "agshpol3"
#define SNAPSHOT_NONE UINT32_MAX
#define SNAPSHOT_NO_PRIVILEGE (UINT32_MAX - 1) /* the built-in rule */

/* The words of a class of rules in a policy file. */
#define POLICY_RULE_CLASSES 3 /* OP_FILE, OP_EXEC, OP_NET */
struct rule_class {
	const char *section;	      /* "file_rules" */
	const char *word;	      /* below `default`: "files" */
	const char *name;	      /* "file": for messages */
	const char *subject;	      /* the key of its patterns: "paths" */
	const char *bits, *bit;	      /* the key of its bits: "operations", and one of them */
	const char *const *bit_words; /* NULL-ended; a "*" means all of them */
};
extern const struct rule_class rule_classes[POLICY_RULE_CLASSES];
extern const enum op_class rule_class_order[POLICY_RULE_CLASSES]; /* in which people read them */

/* Conditions of a rule. A rule matches if every condition that is set is true. */
enum condition {
	COND_PATHS = 1 << 0,
	COND_COMMANDS = 1 << 1,
	COND_SCRIPTS = 1 << 2,
	COND_ARGS = 1 << 3,
	COND_REGEX = 1 << 4,
	COND_KINDS = 1 << 5,
	COND_DOMAINS = 1 << 6,
	COND_CIDRS = 1 << 7,
	COND_PORTS = 1 << 8,
	COND_PROTOCOLS = 1 << 9,
	COND_FLAGS = 1 << 10,
	COND_ALL = (1 << 11) - 1,
};
#define COND_SUBJECT (COND_PATHS | COND_COMMANDS | COND_DOMAINS) /* a class has one of them */

struct port_range {
	uint16_t low, high;
};

struct snapshot_span {
	uint32_t at; /* index of the first */
	uint32_t n;
};
/* Arrays, each 8-byte aligned. */
enum snapshot_part {
	PART_RULES,    /* struct snapshot_rule, OP_FILE first, then OP_EXEC, OP_NET */
	PART_PATTERNS, /* uint32_t: offset of a text */
	PART_CIDRS,    /* struct cidr */
	PART_PORTS,    /* struct port_range */
	PART_SLOTS,    /* struct snapshot_slot */
	PART_POSTINGS, /* struct snapshot_posting */
	PART_TEXT,     /* bytes; strings end with NUL; the first is empty and means none */
	PARTS
};
extern const size_t snapshot_item_size[PARTS];
struct snapshot_rule {
	uint32_t name, message, redirect_to; /* texts */
	uint32_t line, column;
	uint8_t decision, final;
	uint8_t flags;	    /* of an exec rule; of a file rule: `hide` */
	uint8_t args_whole; /* of an exec rule; of a file rule: `existing_only` */
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
	struct snapshot_span rules; /* of PART_RULES */
	struct snapshot_span slots; /* of PART_SLOTS; n is 0 or a power of two */
	uint32_t fallback, line, column;
	uint32_t padding;
};
struct snapshot_place {
	uint64_t at; /* bytes from the beginning */
	uint64_t n;  /* items */
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
	uint64_t lengths[2][3]; /* of the address blocks in the index, as bits; [1] is IPv6 */
	struct limits limits;
	struct snapshot_place part[PARTS];
};

#define SNAPSHOT_ALWAYS 0 /* a key of the index */
/* Kinds of the other keys. */
enum snapshot_key {
	KEY_COMPONENT = 'c',
	KEY_ENDING = 'e', /* of the last component: its last dot and the characters after it */
	KEY_NAME = 'n',
	KEY_DOMAIN = 'd',
	KEY_CIDR = 'i'
};
static inline uint32_t snapshot_hash(enum snapshot_key kind, const void *p, size_t n)
{
	const uint32_t h = fnv32(FNV32 ^ (uint32_t)kind, p, n);

	return h ^ h >> 15;
}
static inline uint32_t snapshot_hash_cidr(const struct cidr *c)
{
	return snapshot_hash(KEY_CIDR, c, sizeof(*c));
}

/* An opened snapshot: pointers to its parts. */
struct regexes;
struct cache;
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
	struct cache *cache;	 /* owned; may be NULL */
	uint32_t *redirect;	 /* owned: the redirects among the file rules, in their order */
	uint32_t redirects;
	char *real;    /* owned: the workspace's path on the host; or NULL */
	char *renewed; /* owned: bytes instead of those of the previous version; or NULL */
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

/* A permissive rule lets the operation go ahead. Names of programs match fewer files for such a
 * rule than for the others: see decide_exec.c. */
static inline bool decision_permits(enum decision d)
{
	return d == DECISION_allow || d == DECISION_log;
}

/* Whether a file rule also matches by the path on the host: see policy_name_workspace. */
static inline bool rule_has_host_name(const struct snapshot_rule *r)
{
	return !decision_permits(r->decision) && r->decision != DECISION_redirect;
}

/* Whether a network rule whose name matches counts for a lookup: see decide_net.c. */
static inline bool rule_is_for_lookups(const struct snapshot_rule *r)
{
	const unsigned beside = r->conditions & (COND_CIDRS | COND_PORTS | COND_PROTOCOLS);

	if (!decision_permits(r->decision))
		/* an approve rule for a port decides whether the agent reaches the name */
		return beside == 0 || (r->decision == DECISION_approve && !(beside & COND_CIDRS));
	return (r->conditions & COND_DOMAINS) != 0 || !(beside & COND_CIDRS);
}

/* What is done for a decision: allow (also for log, redirect and soft_delete), deny, or approve: an
 * approver is asked first. */
enum decision policy_effect(const struct policy *p, enum decision d, bool approver);
/* Whether an operation with this decision goes ahead without an approver. */
static inline bool policy_permits(const struct policy *p, enum decision d)
{
	return policy_effect(p, d, false) == DECISION_allow;
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
void search_key(struct rule_search *s, uint32_t hash);
void search_path(struct rule_search *s, const char *path); /* a plain path */

/* Each fills s.match and s.arg and runs the search. decide_net returns why it denies, or NULL. */
struct rule_found decide_exec(struct rule_search s, const struct op *op);
const char *decide_net(struct rule_search s, const struct op *op, struct rule_found *out);

/* The verdict of a rule that was found, or of the default. */
void decide_conclude(const struct policy *p, enum op_class class, const struct rule_found *f,
		     bool approver, struct verdict *v);
/* policy_decide_file without a look at redirects; again is 0. */
void decide_file_plain(const struct policy *p, const char *path, bool made, struct file_rules *out);
#define DECIDE_NOT_PLAIN "not a plain absolute path"
void decide_refuse(struct verdict *v, const char *why); /* what cannot be decided */

extern const char *const decide_system_dirs[]; /* NULL-ended; each ends with a slash */
/* Whether the file lies directly in one of them. */
bool decide_in_system(const char *path);

/* policy_show.c: "a, b and 3 more", of which at most `most` are named. */
void snapshot_format_patterns(const struct policy *p, const struct snapshot_span *s, uint32_t most,
			      struct buf *out);

/* snapshot_open.c: checks the size, the digest and the places of the parts behind a head of this
 * size. NULL, or what is wrong. */
const char *snapshot_check_head(const void *bytes, size_t len, size_t head_size,
				const struct snapshot_place *part);

/* snapshot_old.c */
bool snapshot_is_old(const void *bytes, size_t len);
/* Makes a snapshot of this version with the digest of the old one. NULL, or what is wrong. */
const char *snapshot_renew(const void *bytes, size_t len, char **out);

/* cache.c */
bool cache_get(struct cache *c, const struct op *op, struct rule_found *out);
/* Stores the result for the op of the last cache_get. */
void cache_put(struct cache *c, const struct rule_found *f);
void cache_free(struct cache *c); /* NULL is fine */
