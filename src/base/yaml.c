// SPDX-License-Identifier: Apache-2.0
#include "base/yaml.h"
#include "base/mem.h"
#include <yaml.h>

#define MAX_DEPTH 32
#define MAX_BYTES (4U * 1024 * 1024)
#define NO_ALIASES                                                             \
	"anchors and aliases are not supported (a value that begins with '*' " \
	"or '&' must be quoted)"

struct yaml_reader {
	const char *name, *text;
	size_t len;
	yaml_parser_t parser;
	yaml_event_t event; /* the one that is looked at; owned */
	unsigned depth;
	const struct yaml_twice *twice; /* NULL: a key that stands twice is an error */
	struct err *err;
};

static int refuse(struct yaml_reader *r, yaml_mark_t at, const char *what)
{
	return err_set(r->err, E_BAD_REQUEST, r->name, "%s:%zu:%zu: %s", r->name, at.line + 1,
		       at.column + 1, what);
}

/* For bytes that are not UTF-8, libyaml gives only an offset. */
static yaml_mark_t mark_of_offset(const struct yaml_reader *r, size_t offset)
{
	yaml_mark_t at = {0};

	for (size_t i = 0; i < offset && i < r->len; i++)
		if (r->text[i] == '\n') {
			at.line++;
			at.column = 0;
		} else if (((unsigned char)r->text[i] & 0xc0) != 0x80) {
			at.column++;
		}
	return at;
}

/* libyaml only reports that no token can begin with a tab. */
static bool at_tab(const struct yaml_reader *r, yaml_mark_t at)
{
	size_t i = 0;

	for (size_t line = 0; i < r->len && line < at.line; i++)
		line += r->text[i] == '\n';
	for (size_t column = 0; i < r->len && column < at.column; column++)
		do
			i++;
		while (i < r->len && ((unsigned char)r->text[i] & 0xc0) == 0x80);
	return i < r->len && r->text[i] == '\t';
}

/* Replaces r->event by the next. */
static int next(struct yaml_reader *r)
{
	yaml_event_delete(&r->event);
	if (yaml_parser_parse(&r->parser, &r->event))
		return 0;
	if (r->parser.error != YAML_READER_ERROR && at_tab(r, r->parser.problem_mark))
		return refuse(r, r->parser.problem_mark,
			      "a tab stands here: YAML is indented with spaces");
	if (r->parser.context != NULL && strcmp(r->parser.context, "while scanning an alias") == 0)
		return refuse(r, r->parser.context_mark,
			      "a value that begins with '*' must be quoted, such as '**/.env'");
	return refuse(r,
		      r->parser.error == YAML_READER_ERROR
			      ? mark_of_offset(r, r->parser.problem_offset)
			      : r->parser.problem_mark,
		      r->parser.problem != NULL ? r->parser.problem : "cannot be read");
}

static const struct {
	const char *tag;
	enum yaml_kind kind;
	bool quoted; /* the scalar is a string whatever it looks like */
} tags[] = {
	{"!", YAML_SCALAR, true},
	{YAML_STR_TAG, YAML_SCALAR, true},
	{YAML_INT_TAG, YAML_SCALAR, false},
	{YAML_FLOAT_TAG, YAML_SCALAR, false},
	{YAML_BOOL_TAG, YAML_SCALAR, false},
	{YAML_NULL_TAG, YAML_SCALAR, false},
	{YAML_SEQ_TAG, YAML_LIST, false},
	{YAML_MAP_TAG, YAML_MAP, false},
};

static int check_properties(struct yaml_reader *r, const yaml_char_t *anchor,
			    const yaml_char_t *tag, struct yaml *node)
{
	size_t i = 0;

	if (anchor != NULL)
		return refuse(r, r->event.start_mark, NO_ALIASES);
	if (tag == NULL)
		return 0;
	while (i < ARRAY_LEN(tags) &&
	       (tags[i].kind != node->kind || strcmp(tags[i].tag, (const char *)tag) != 0))
		i++;
	if (i == ARRAY_LEN(tags))
		return refuse(r, r->event.start_mark, "this tag is not supported here");
	node->quoted = tags[i].quoted;
	return 0;
}

static int read_node(struct yaml_reader *r, struct yaml **out);

static int read_scalar(struct yaml_reader *r, struct yaml *node)
{
	const char *value = (const char *)r->event.data.scalar.value;
	const size_t len = r->event.data.scalar.length;

	if (memchr(value, '\0', len) != NULL)
		return refuse(r, r->event.start_mark, "NUL inside a scalar");
	node->quoted = r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	node->text = mem_strndup(value, len);
	return check_properties(r, r->event.data.scalar.anchor, r->event.data.scalar.tag, node);
}

static struct yaml_item *add_item(struct yaml *node)
{
	node->item = mem_grow(node->item, node->n, sizeof(*node->item));
	node->item[node->n] = (struct yaml_item){0};
	return &node->item[node->n++];
}

static int read_list(struct yaml_reader *r, struct yaml *node)
{
	int rc = check_properties(r, r->event.data.sequence_start.anchor,
				  r->event.data.sequence_start.tag, node);

	while (rc == 0 && (rc = next(r)) == 0 && r->event.type != YAML_SEQUENCE_END_EVENT)
		rc = read_node(r, &add_item(node)->value);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct yaml_item *x = *(const struct yaml_item *const *)a,
			       *y = *(const struct yaml_item *const *)b;
	const int order = strcmp(x->key, y->key);

	return order != 0 ? order : (x > y) - (x < y);
}

static void drop_item(struct yaml_item *item)
{
	free(item->key);
	yaml_free(item->value);
}

/* Reports the marked items and removes them. */
static int tell_twice(struct yaml_reader *r, struct yaml *node, const bool *marked)
{
	size_t kept = 0;

	for (size_t i = 0; i < node->n; i++) {
		struct yaml_item *item = &node->item[i];

		if (!marked[i]) {
			node->item[kept++] = *item;
			continue;
		}
		if (r->twice == NULL)
			return err_set(r->err, E_BAD_REQUEST, r->name, "%s:%u:%u: " YAML_TWICE,
				       r->name, item->key_line, item->key_column, item->key);
		r->twice->fn(item, r->twice->arg);
		drop_item(item);
	}
	node->n = kept;
	return 0;
}

/* Sorted, because a file may have hundreds of thousands of keys. */
static int check_duplicates(struct yaml_reader *r, struct yaml *node)
{
	cleanup_free const struct yaml_item **sorted =
		mem_resize(NULL, node->n, sizeof(struct yaml_item *));
	cleanup_free bool *marked = NULL;

	for (size_t i = 0; i < node->n; i++)
		sorted[i] = &node->item[i];
	qsort(sorted, node->n, sizeof(*sorted), by_key);
	for (size_t i = 1; i < node->n; i++) {
		if (strcmp(sorted[i - 1]->key, sorted[i]->key) != 0)
			continue;
		if (marked == NULL)
			marked = mem_alloc(node->n * sizeof(*marked));
		marked[sorted[i] - node->item] = true;
	}
	return marked != NULL ? tell_twice(r, node, marked) : 0;
}

static int read_map(struct yaml_reader *r, struct yaml *node)
{
	int rc = check_properties(r, r->event.data.mapping_start.anchor,
				  r->event.data.mapping_start.tag, node);

	while (rc == 0 && (rc = next(r)) == 0 && r->event.type != YAML_MAPPING_END_EVENT) {
		struct yaml_item *item = add_item(node);
		struct yaml key = {.kind = YAML_SCALAR};

		if (r->event.type == YAML_ALIAS_EVENT)
			return refuse(r, r->event.start_mark, NO_ALIASES);
		if (r->event.type != YAML_SCALAR_EVENT)
			return refuse(r, r->event.start_mark, "a key must be a scalar");
		item->key_line = (unsigned)r->event.start_mark.line + 1;
		item->key_column = (unsigned)r->event.start_mark.column + 1;
		rc = read_scalar(r, &key);
		item->key = key.text;
		if (rc == 0)
			rc = next(r);
		if (rc == 0)
			rc = read_node(r, &item->value);
	}
	return rc == 0 ? check_duplicates(r, node) : rc;
}

static const struct {
	yaml_event_type_t event;
	enum yaml_kind kind;
	int (*read)(struct yaml_reader *r, struct yaml *node);
} kinds[] = {
	{YAML_SCALAR_EVENT, YAML_SCALAR, read_scalar},
	{YAML_SEQUENCE_START_EVENT, YAML_LIST, read_list},
	{YAML_MAPPING_START_EVENT, YAML_MAP, read_map},
};

/* Reads the node that begins with r->event. *out is set even on failure; its owner frees it. */
static int read_node(struct yaml_reader *r, struct yaml **out)
{
	size_t i = 0;
	int rc;

	while (i < ARRAY_LEN(kinds) && kinds[i].event != r->event.type)
		i++;
	if (i == ARRAY_LEN(kinds))
		return refuse(r, r->event.start_mark, NO_ALIASES);
	if (r->depth == MAX_DEPTH)
		return refuse(r, r->event.start_mark, "nested too deeply");
	*out = mem_new(struct yaml);
	(*out)->kind = kinds[i].kind;
	(*out)->line = (unsigned)r->event.start_mark.line + 1;
	(*out)->column = (unsigned)r->event.start_mark.column + 1;
	r->depth++;
	rc = kinds[i].read(r, *out);
	r->depth--;
	return rc;
}

static int read_stream(struct yaml_reader *r, struct yaml **root)
{
	int rc = next(r); /* the start of the stream */

	if (rc == 0)
		rc = next(r);
	if (rc == 0 && r->event.type == YAML_DOCUMENT_START_EVENT) {
		if ((rc = next(r)) == 0 && (rc = read_node(r, root)) == 0 && (rc = next(r)) == 0)
			rc = next(r);
		if (rc == 0 && r->event.type != YAML_STREAM_END_EVENT)
			return refuse(r, r->event.start_mark, "a second document");
	}
	if (rc == 0 && (*root == NULL || ((*root)->kind == YAML_SCALAR && !(*root)->quoted &&
					  (*root)->text[0] == '\0'))) {
		yaml_free(*root);
		*root = mem_new(struct yaml);
		**root = (struct yaml){.kind = YAML_MAP, .line = 1, .column = 1};
	}
	return rc;
}

int yaml_parse(const char *name, const char *text, size_t len, const struct yaml_twice *twice,
	       struct yaml **out, struct err *err)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct yaml_reader r = {.name = name, .text = text, .len = len, .twice = twice, .err = err};
	struct yaml *root = NULL;
	int rc;

	if (r.len > MAX_BYTES)
		return err_set(err, E_TOO_LARGE, name, "%s:1:1: larger than %u bytes", name,
			       MAX_BYTES);
	/* libyaml counts it as a column, so that the keys of the first line would be deeper. */
	if (r.len >= strlen(bom) && memcmp(r.text, bom, strlen(bom)) == 0) {
		r.text += strlen(bom);
		r.len -= strlen(bom);
	}
	ensure(yaml_parser_initialize(&r.parser));
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const yaml_char_t *)(r.text != NULL ? r.text : ""),
				     r.len);
	rc = read_stream(&r, &root);
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (rc < 0)
		yaml_free(root);
	else
		*out = root;
	return rc;
}

void yaml_free(struct yaml *y)
{
	if (y == NULL)
		return;
	for (size_t i = 0; i < y->n; i++)
		drop_item(&y->item[i]);
	free(y->item);
	free(y->text);
	free(y);
}

const struct yaml *yaml_get(const struct yaml *map, const char *key)
{
	if (map == NULL || map->kind != YAML_MAP)
		return NULL;
	for (size_t i = 0; i < map->n; i++)
		if (strcmp(map->item[i].key, key) == 0)
			return map->item[i].value;
	return NULL;
}
