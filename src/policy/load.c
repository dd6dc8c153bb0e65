// SPDX-License-Identifier: Apache-2.0
/* The sections of a policy file. */
#include "policy/load.h"
#include "base/mem.h"

/* ---- parts ---- */

uint32_t loader_items(const struct loader *l, enum snapshot_part part)
{
	const size_t n = l->part[part].len / snapshot_item_size[part];

	ensure(n < UINT32_MAX);
	return (uint32_t)n;
}

uint32_t loader_text(struct loader *l, const char *s)
{
	const uint32_t at = loader_items(l, PART_TEXT);

	if (s == NULL || s[0] == '\0')
		return 0;
	buf_add(&l->part[PART_TEXT], s, strlen(s) + 1);
	return at;
}

void loader_add(struct loader *l, enum snapshot_part part, const void *item,
		struct snapshot_span *to)
{
	if (to->n++ == 0)
		to->at = loader_items(l, part);
	buf_add(&l->part[part], item, snapshot_item_size[part]);
}

void loader_add_pattern(struct loader *l, const char *s, struct snapshot_span *to)
{
	const uint32_t at = loader_text(l, s);

	loader_add(l, PART_PATTERNS, &at, to);
}

/* ---- sections ---- */

static void load_rules(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	const struct yaml *y = item->value;

	if (y->kind == YAML_SCALAR && y->text[0] == '\0')
		return; /* "file_rules:" without a value */
	l->class = (enum op_class)key->arg;
	if (y->kind != YAML_LIST)
		problem(l, y, "expected a list of rules");
	else if (y->n > POLICY_MAX_RULES)
		problem(l, y, "more than %d rules", POLICY_MAX_RULES);
	else
		for (size_t i = 0; i < y->n; i++)
			rule_load(l, y->item[i].value);
}

static void load_version(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	int64_t v;

	if (value_number(l, "version", NULL, item->value, &v) && v != 1)
		problem(l, item->value, "only version 1 is known");
}

static void load_name(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (value_name(l, item->value, &l->head.name) && l->o->name != NULL &&
	    strcmp(item->value->text, l->o->name) != 0)
		problem(l, item->value, "its name is '%s', not '%s'", item->value->text,
			l->o->name);
}

static void load_description(struct loader *l, const struct yaml_item *item,
			     const struct map_key *key)
{
	if (value_text(l, "description", item->value))
		l->head.description = loader_text(l, item->value->text);
}

static void load_fallback(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	struct snapshot_class *class = &l->head.class[key->arg];
	enum decision d;

	if (!value_decision(l, item->value, 0, &d))
		return;
	class->fallback = d;
	class->line = item->key_line;
	class->column = item->key_column;
}

static void load_default(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	static const struct map_key keys[] = {{"files", load_fallback, OP_FILE},
					      {"network", load_fallback, OP_NET},
					      {"commands", load_fallback, OP_EXEC},
					      {NULL}};

	map_read(l, item->value,
		 "'default' is a map: {files: deny, network: deny, commands: allow}", "class",
		 keys);
}

static bool read_limit(struct loader *l, const struct limit_row *row, const struct yaml *y,
		       int64_t *v)
{
	struct err err = {0};

	if (row->type == LIMIT_SHARE && json_share_parse(value_scalar(y), v))
		return true;
	if (row->type != LIMIT_DURATION)
		return value_number(l, row->name, row->unit, y, v);
	if (!value_text(l, row->name, y))
		return false;
	if (json_duration_parse(y->text, v, &err) == 0)
		return true;
	problem(l, y, "'%s': %s", row->name, err.message);
	return false;
}

static void load_limit(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	const struct limit_row *row = &limit_rows[key->arg];
	const struct yaml *y = item->value;
	int64_t v = 0;

	if (l->head.limits.given[key->arg]) {
		problem(l, y, "'%s' and '%s' are the same limit", row->name, row->other);
	} else if (row->by == LIMIT_BY_NOTHING) {
		problem(l, y, "'%s': nothing enforces this limit yet; leave it out", row->name);
	} else if (read_limit(l, row, y, &v)) {
		if ((v & JSON_SHARE) == 0 && (v < row->low || v > row->high))
			problem(l, y, "'%s' is %lld to %lld %s", row->name, (long long)row->low,
				(long long)row->high, row->unit);
		l->head.limits.value[key->arg] = v;
		l->head.limits.given[key->arg] = true;
	}
}

static void load_limits(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	struct map_key keys[2 * LIMITS + 1] = {0};
	size_t n = 0;

	for (unsigned i = 0; i < LIMITS; i++) {
		keys[n++] = (struct map_key){limit_rows[i].name, load_limit, i};
		if (limit_rows[i].other != NULL)
			keys[n++] = (struct map_key){limit_rows[i].other, load_limit, i};
	}
	map_read(l, item->value, "'resource_limits' is a map of limits", "limit", keys);
}

/* Reads names of variables; the last character of a name may be a star. */
static void load_names(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	struct snapshot_span *to = key->arg != 0 ? &l->head.env_allow : &l->head.env_deny;
	const struct yaml *y = item->value;

	l->head.has_env_allow |= key->arg;
	if (!value_list(l, key->name, y))
		return;
	for (size_t i = 0; i < y->n; i++) {
		const char *name = value_scalar(y->item[i].value);
		const size_t len = strlen(name), star = len > 0 && name[len - 1] == '*';

		if (len > 0 && (len == star || request_env_name(name, len - star)))
			loader_add_pattern(l, name, to);
		else
			problem(l, y->item[i].value,
				"not the name of a variable such as LANG or LC_*");
	}
}

static void load_environment(struct loader *l, const struct yaml_item *item,
			     const struct map_key *key)
{
	static const struct map_key keys[] = {
		{"allow", load_names, 1}, {"deny", load_names, 0}, {NULL}};

	map_read(l, item->value, "'environment' is a map of 'allow' and 'deny'", "key", keys);
}

/* ---- the whole file ---- */

struct rule_name {
	const char *text;
	uint64_t place; /* line and column */
};

static int by_name(const void *a, const void *b)
{
	const struct rule_name *x = a, *y = b;
	const int order = strcmp(x->text, y->text);

	return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static void check_names(struct loader *l)
{
	cleanup_buf struct buf names = {0};
	struct rule_name *v;

	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++) {
		const struct snapshot_rule *r = (const void *)l->rules[c].data;

		for (size_t i = 0; i < l->rules[c].len / sizeof(*r); i++) {
			const struct rule_name name = {l->part[PART_TEXT].data + r[i].name,
						       (uint64_t)r[i].line << 32 | r[i].column};

			buf_add(&names, &name, sizeof(name));
		}
	}
	v = (void *)names.data;
	if (v == NULL)
		return;
	qsort(v, names.len / sizeof(*v), sizeof(*v), by_name);
	for (size_t i = 1; i < names.len / sizeof(*v); i++)
		if (v[i].text[0] != '\0' && strcmp(v[i - 1].text, v[i].text) == 0)
			problem_add(&l->p, PROBLEM_ERROR, (unsigned)(v[i].place >> 32),
				    (unsigned)v[i].place, "line %u already has a rule '%s'",
				    (unsigned)(v[i - 1].place >> 32), v[i].text);
}

static void load_top(struct loader *l, const struct yaml *y)
{
	static const struct map_key keys[] = {
		{"version", load_version},
		{"name", load_name},
		{"description", load_description},
		{"default", load_default},
		{"file_rules", load_rules, OP_FILE},
		{"network_rules", load_rules, OP_NET},
		{"command_rules", load_rules, OP_EXEC},
		{"resource_limits", load_limits},
		{"environment", load_environment},
		{NULL},
	};
	const struct yaml start = {.line = 1, .column = 1};

	if (!map_read(l, y, "a policy is a map of keys", "key", keys))
		return;
	if (yaml_get(y, "version") == NULL)
		problem(l, &start, "'version: 1' is needed");
	if (yaml_get(y, "name") == NULL)
		problem(l, &start, "'name' is needed");
	check_names(l);
}

static void tell_twice(const struct yaml_item *item, void *arg)
{
	const struct yaml at = {.line = item->key_line, .column = item->key_column};

	problem(arg, &at, YAML_TWICE, item->key);
}

struct yaml *source_read(struct loader *l, const char *text, size_t len)
{
	const struct yaml_twice twice = {tell_twice, l};
	const size_t file_len = strlen(l->p.file);
	struct yaml *y = NULL, place = {.line = 1, .column = 1};
	struct err why = {0};
	char *at = why.message;

	if (yaml_parse(l->p.file, text, len, &twice, &y, &why) == 0)
		return y;
	/* the parser's message is "FILE:LINE:COLUMN: TEXT" */
	if (strncmp(at, l->p.file, file_len) == 0 && at[file_len] == ':') {
		place.line = (unsigned)strtoul(at + file_len + 1, &at, 10);
		place.column = (unsigned)strtoul(at + (*at == ':'), &at, 10);
		at += strspn(at, ": ");
	}
	problem(l, &place, "%s", at);
	return NULL;
}

int policy_compile(const char *file, const char *text, size_t len, const struct policy_options *o,
		   struct buf *report, struct buf *out, struct err *err)
{
	struct err own = {0};
	struct loader l = {.o = o,
			   .p = {.file = file,
				 .out = report,
				 .err = err != NULL ? err : &own,
				 .strict = o->strict}};
	cleanup_buf struct buf bytes = {0};
	struct policy *p = NULL;
	struct yaml *y;
	int rc = 0;

	buf_addc(&l.part[PART_TEXT], '\0');
	l.head.class[OP_FILE].fallback = l.head.class[OP_NET].fallback = DECISION_deny;
	l.head.class[OP_EXEC].fallback = DECISION_allow;
	l.head.shadow = o->shadow;
	l.head.file = loader_text(&l, file);
	y = source_read(&l, text, len);
	if (y != NULL)
		load_top(&l, y);
	yaml_free(y);
	if (l.p.errors == 0) {
		snapshot_write(&l, &bytes);
		rc = policy_open(bytes.data, bytes.len, &p, l.p.err);
		if (rc == 0)
			policy_lint(p, &l.p);
		policy_close(p);
	}
	if (problems_done(&l.p) < 0)
		rc = -E_BAD_REQUEST;
	if (rc == 0)
		buf_add(out, bytes.data, bytes.len);
	for (unsigned i = 0; i < PARTS; i++)
		buf_done(&l.part[i]);
	for (unsigned i = 0; i < POLICY_RULE_CLASSES; i++)
		buf_done(&l.rules[i]);
	return rc;
}
