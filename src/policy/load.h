// SPDX-License-Identifier: Apache-2.0
/* policy/load.h - loading a policy file. The loader reads YAML and writes the parts of a snapshot;
 * compile.c orders the rules, adds the index and joins the parts. Private to this folder. */
#pragma once
#include "base/yaml.h"
#include "policy/snapshot.h"

#define POLICY_MAX_RULES 100000	   /* of a class */
#define POLICY_MAX_PATTERNS 500000 /* of a policy, with those of its sets */

/* Collects every problem of a policy and its sets in one pass. */
struct problems {
	const char *file; /* the file that is read now */
	struct buf *out;  /* borrowed, may be NULL */
	struct err *err;  /* gets the first error; may be NULL */
	bool strict;	  /* warnings count as errors */
	unsigned shown, errors;
};
/* A notice is a warning that strict does not make an error: it is about the machine, not about the
 * file. */
enum problem_level { PROBLEM_NOTICE, PROBLEM_WARNING, PROBLEM_ERROR };
void problem_add(struct problems *p, enum problem_level level, unsigned line, unsigned column,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
int problems_done(struct problems *p); /* 0, or -E_BAD_REQUEST if there was an error */

/* The state of loading one policy. */
struct loader {
	const struct policy_options *o;
	struct problems p;
	struct snapshot_head head;
	struct buf part[PARTS];		       /* without rules, slots and postings */
	struct buf rules[POLICY_RULE_CLASSES]; /* struct snapshot_rule, in the order of the file */
	size_t patterns;		       /* so far, against POLICY_MAX_PATTERNS */
	enum op_class class;		       /* of the rules that are read now */
	struct snapshot_rule *rule;	       /* that is read now */
};
/* Reports an error at the place of y. */
void problem(struct loader *l, const struct yaml *y, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Reports a word that is not in the NULL-ended list, and suggests the nearest word of the list. */
void problem_unknown(struct loader *l, const struct yaml *y, const char *what, const char *word,
		     const char *const *known);

/* A key of a map. */
struct map_key;
typedef void key_fn(struct loader *l, const struct yaml_item *item, const struct map_key *key);
typedef void item_fn(struct loader *l, const struct yaml *y, struct snapshot_span *to);
struct map_key {
	const char *name;
	key_fn *read; /* may be NULL */
	unsigned arg; /* for read: a class, a limit or a condition of rules */
	/* of a rule */
	unsigned classes; /* that have the key, as bits; 0: all */
	item_fn *item;	  /* reads an item of the list */
	size_t list;	  /* offset of the span in struct snapshot_rule that gets the items */
	const char *set;  /* the kind of sets that the list may name */
};
/* Reads a map by its keys, which end with a NULL name. For reports, form says what y must be, and
 * what is the word for a key. False: y is not a map. */
bool map_read(struct loader *l, const struct yaml *y, const char *form, const char *what,
	      const struct map_key *keys);

/* load.c: parses a YAML file and reports every problem of its form; NULL if it cannot be parsed. */
struct yaml *source_read(struct loader *l, const char *text, size_t len);

/* load_rule.c: reads a rule of l->class. */
void rule_load(struct loader *l, const struct yaml *y);

/* load_value.c: each value_ function reports a wrong value and then returns false. */
const char *value_scalar(const struct yaml *y); /* its text; "" for a list or map */
bool value_text(struct loader *l, const char *key, const struct yaml *y);
/* Reads the value of a key `name`. */
bool value_name(struct loader *l, const struct yaml *y, uint32_t *out);
bool value_bool(struct loader *l, const char *key, const struct yaml *y, uint8_t *out);
/* unit: for the report ("MB"), or NULL. */
bool value_number(struct loader *l, const char *key, const char *unit, const struct yaml *y,
		  int64_t *out);
bool value_list(struct loader *l, const char *key, const struct yaml *y);
/* more: decisions (bits 1 << DECISION_…) beyond those that everything has. */
bool value_decision(struct loader *l, const struct yaml *y, unsigned more, enum decision *out);
/* Replaces ${NAME}; with glob, escapes the values for a pattern. Returns NULL after a report. */
char *value_expand(struct loader *l, const struct yaml *y, bool glob);

/* Appends to the parts. An empty or missing text is 0. */
uint32_t loader_items(const struct loader *l, enum snapshot_part part);
uint32_t loader_text(struct loader *l, const char *s);
void loader_add(struct loader *l, enum snapshot_part part, const void *item,
		struct snapshot_span *to);
void loader_add_pattern(struct loader *l, const char *s, struct snapshot_span *to);

/* sets.c: calls add for y or, if y is "@name", for each item of that set. kind is the kind that the
 * set must have ("paths", "domains", "commands"). */
void set_each(struct loader *l, const char *kind, const struct yaml *y, item_fn *add,
	      struct snapshot_span *to);

/* compile.c: appends the snapshot to out. */
void snapshot_write(struct loader *l, struct buf *out);

/* lint.c: warnings about rules that cannot take effect. */
void policy_lint(const struct policy *p, struct problems *out);
