// SPDX-License-Identifier: Apache-2.0
/* base/yaml.h - a YAML document as a tree with exact positions (libyaml below). Aliases, tags
 * beyond the core ones, more than one document, duplicate keys, depth over 32 and over 4 MB are
 * refused with file:line:column. */
#pragma once
#include "base/err.h"
#include <stddef.h>

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };
struct yaml_item;
struct yaml {
	enum yaml_kind kind;
	unsigned line, column;	/* from 1 */
	char *text;		/* SCALAR, owned */
	bool quoted;		/* SCALAR was quoted: "123" is a string */
	struct yaml_item *item; /* LIST, MAP */
	size_t n;
};
struct yaml_item {
	char *key; /* MAP, owned */
	unsigned key_line, key_column;
	struct yaml *value;
};
/* For each key that stands in its map already; the item is left out, and reading goes on. */
#define YAML_TWICE "key '%.64s' stands here twice"
struct yaml_twice {
	void (*fn)(const struct yaml_item *item, void *arg);
	void *arg;
};
/* name stands before line and column in messages. An empty file is an empty map; a byte order mark
 * is skipped. twice NULL: a key that stands twice is an error. The result is owned (yaml_free). */
int yaml_parse(const char *name, const char *text, size_t len, const struct yaml_twice *twice,
	       struct yaml **out, struct err *err);
/* NULL is fine. libyaml exports a function of this name, hence another symbol. */
void yaml_free(struct yaml *y) __asm__("agentsh_yaml_free");
const struct yaml *yaml_get(const struct yaml *map, const char *key); /* NULL if absent or no map */
/* The closest of the NULL-ended candidates (NULL is an empty list) by edit distance (<= 3, and
 * under half its length), else NULL. */
const char *yaml_suggest(const char *word, const char *const *candidates);
