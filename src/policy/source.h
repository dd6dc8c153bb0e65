// SPDX-License-Identifier: Apache-2.0
/* policy/source.h - a policy file in memory. The loader fills it, the linter checks it and the
 * compiler turns it into a snapshot. Private to this folder. */
#pragma once
#include "base/yaml.h"
#include "policy/cidr.h"
#include "policy/policy.h"

#define POLICY_MAX_RULES 100000	   /* of a class */
#define POLICY_MAX_PATTERNS 500000 /* of a policy, with those of its sets */
#define POLICY_RULE_CLASSES 3	   /* OP_FILE, OP_EXEC, OP_NET */

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
struct source_rule {
	char *name, *message, *redirect_to; /* owned */
	unsigned line, column;
	enum decision decision;
	bool final, args_whole;
	bool flags;	     /* a pattern like -rf* is for short options: see flags.h */
	unsigned conditions; /* enum condition */
	uint32_t bits;	     /* operations of a file rule, kinds of a command, protocols */
	struct strv subject; /* paths, commands or domains */
	struct strv scripts, args, regex;
	struct strv groups; /* of options; a command needs one of each group: see flags.h */
	struct cidr *cidr;  /* owned */
	size_t ncidr;
	struct port_range *port; /* owned */
	size_t nport;
};
struct source_rules {
	struct source_rule *v; /* owned */
	size_t n;
};
struct source {
	char *file, *name, *description; /* owned */
	enum decision fallback[POLICY_RULE_CLASSES];
	unsigned line[POLICY_RULE_CLASSES], column[POLICY_RULE_CLASSES]; /* 0: not written */
	struct source_rules rules[POLICY_RULE_CLASSES];
	struct limits limits;
	struct strv env_allow, env_deny;
	bool has_env_allow;
};

/* Collects every problem of a policy and its sets in one pass. */
struct problems {
	const char *file; /* the file that is read now */
	struct buf *out;  /* borrowed, may be NULL */
	struct err *err;  /* gets the first error; may be NULL */
	bool strict;	  /* warnings count as errors */
	unsigned shown, errors;
};
void problem(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void warning(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A warning that strict does not make an error: it is about the machine, not about the file. */
void notice(struct problems *p, unsigned line, unsigned column, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Reports a word that is not in the NULL-ended list, and suggests the nearest word of the list. */
void problem_unknown(struct problems *p, unsigned line, unsigned column, const char *what,
		     const char *word, const char *const *known);
int problems_done(struct problems *p); /* 0, or -E_BAD_REQUEST if there was an error */

/* The state of loading one policy. */

struct loader {
	const struct policy_options *o;
	struct problems p;
	struct source *to;
	size_t patterns; /* so far, against POLICY_MAX_PATTERNS */
};

/* load.c: parses a YAML file and reports every problem of its form; NULL if it cannot be parsed. */
struct yaml *source_read(struct problems *p, const char *text, size_t len);

/* load_rule.c */
void rule_load(struct loader *l, enum op_class class, const struct yaml *y);
void rule_done(struct source_rule *r);

/* load_value.c: each function reports a wrong value and then returns false. */
bool value_text(struct loader *l, const char *key, const struct yaml *y, const char **out);
bool value_bool(struct loader *l, const char *key, const struct yaml *y, bool *out);
bool value_int(struct loader *l, const char *key, const struct yaml *y, int64_t *out);
/* Like value_int; the report names the unit ("MB"). */
bool value_number(struct loader *l, const char *key, const char *unit, const struct yaml *y,
		  int64_t *out);
bool value_list(struct loader *l, const char *key, const struct yaml *y);
/* Replaces ${NAME}; with glob, escapes the values for a pattern. Returns NULL after a report. */
char *value_expand(struct loader *l, const struct yaml *y, bool glob);

/* sets.c: calls add for y or, if y is "@name", for each item of that set. kind is the kind that the
 * set must have ("paths", "domains", "commands"). */
typedef void item_fn(struct loader *l, const struct yaml *item, struct source_rule *r);
void set_each(struct loader *l, const char *kind, const struct yaml *y, item_fn *add,
	      struct source_rule *r);

/* lint.c: warnings about rules that cannot take effect. */
void source_lint(struct loader *l);

/* compile.c */
void source_compile(const struct source *s, const struct policy_options *o, struct buf *out);

/* A permissive rule lets the operation go ahead. Names of programs match fewer files for such a
 * rule than for the others: see decide_exec.c. */
static inline bool decision_permits(enum decision d)
{
	return d == DECISION_allow || d == DECISION_log;
}

/* Whether a network rule whose name matches counts for a lookup: see decide_net.c. */
static inline bool rule_is_for_lookups(enum decision d, unsigned conditions)
{
	const unsigned beside = conditions & (COND_CIDRS | COND_PORTS | COND_PROTOCOLS);

	if (!decision_permits(d))
		/* an approve rule for a port decides whether the agent reaches the name */
		return beside == 0 || (d == DECISION_approve && !(beside & COND_CIDRS));
	return (conditions & COND_DOMAINS) != 0 || !(beside & COND_CIDRS);
}
