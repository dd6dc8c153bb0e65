// SPDX-License-Identifier: Apache-2.0
/* The sections of a policy file. */
#include "base/id.h"
#include "base/mem.h"
#include "policy/source.h"
#include <stdio.h>

static const struct {
	const char *name; /* of the section */
	const char *word; /* below `default` */
	enum op_class class;
	enum decision fallback;
} sections[POLICY_RULE_CLASSES] = {
	{"file_rules", "files", OP_FILE, DECISION_deny},
	{"network_rules", "network", OP_NET, DECISION_deny},
	{"command_rules", "commands", OP_EXEC, DECISION_allow},
};

static void load_rules(struct loader *l, const struct yaml *y, enum op_class class)
{
	if (y->kind == YAML_SCALAR && y->text[0] == '\0')
		return; /* "file_rules:" without a value */
	if (y->kind != YAML_LIST) {
		problem(&l->p, y->line, y->column, "expected a list of rules");
		return;
	}
	if (y->n > POLICY_MAX_RULES) {
		problem(&l->p, y->line, y->column, "more than %d rules", POLICY_MAX_RULES);
		return;
	}
	for (size_t i = 0; i < y->n; i++)
		rule_load(l, class, y->item[i].value);
}

static void load_version(struct loader *l, const struct yaml *y)
{
	int64_t v;

	if (value_int(l, "version", y, &v) && v != 1)
		problem(&l->p, y->line, y->column, "only version 1 is known");
}

static void load_name(struct loader *l, const struct yaml *y)
{
	if (y->kind != YAML_SCALAR || !id_valid(y->text))
		problem(&l->p, y->line, y->column,
			"'name' is made of letters, digits, '.', '_' and '-', at most 64");
	else
		l->to->name = mem_strdup(y->text);
}

static void load_description(struct loader *l, const struct yaml *y)
{
	const char *text;

	if (value_text(l, "description", y, &text))
		l->to->description = mem_strdup(text);
}

static void load_default(struct loader *l, const struct yaml *y)
{
	static const char *const words[] = {"files", "network", "commands", NULL};
	static const char *const known[] = {"allow", "deny", "approve", "log", NULL};

	if (y->kind != YAML_MAP) {
		problem(&l->p, y->line, y->column,
			"'default' is a map: {files: deny, network: deny, commands: allow}");
		return;
	}
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_item *item = &y->item[i];
		const char *word = item->value->kind == YAML_SCALAR ? item->value->text : "";
		enum decision d = DECISION_redirect;
		unsigned s = 0;

		while (s < POLICY_RULE_CLASSES && strcmp(sections[s].word, item->key) != 0)
			s++;
		if (s == POLICY_RULE_CLASSES) {
			problem_unknown(&l->p, item->key_line, item->key_column, "class", item->key,
					words);
			continue;
		}
		if (!decision_parse(word, &d) || d == DECISION_redirect) {
			problem_unknown(&l->p, item->value->line, item->value->column, "decision",
					word, known);
			continue;
		}
		l->to->fallback[sections[s].class] = d;
		l->to->line[sections[s].class] = item->key_line;
		l->to->column[sections[s].class] = item->key_column;
	}
}

static void load_limit(struct loader *l, const struct yaml *y, enum limit i)
{
	const struct limit_row *row = &limit_rows[i];
	struct limits *to = &l->to->limits;
	int64_t v = -1;
	struct err err = {0};
	const char *text;

	if (to->given[i]) {
		problem(&l->p, y->line, y->column, "'%s' and '%s' are the same limit", row->name,
			row->other);
		return;
	}
	if (row->by == LIMIT_BY_NOTHING) {
		problem(&l->p, y->line, y->column,
			"'%s': nothing enforces this limit yet; leave it out", row->name);
		return;
	}
	if (row->type == LIMIT_DURATION) {
		if (!value_text(l, row->name, y, &text))
			return;
		if (json_duration_parse(text, &v, &err) < 0) {
			problem(&l->p, y->line, y->column, "'%s': %s", row->name, err.message);
			return;
		}
	} else if (row->type == LIMIT_SHARE && y->kind == YAML_SCALAR &&
		   json_share_parse(y->text, &v)) {
		; /* a part of the machine */
	} else if (!value_number(l, row->name, row->unit, y, &v)) {
		return;
	}
	if ((v & JSON_SHARE) == 0 && (v < row->low || v > row->high)) {
		problem(&l->p, y->line, y->column, "'%s' is %lld to %lld %s", row->name,
			(long long)row->low, (long long)row->high, row->unit);
		return;
	}
	to->value[i] = v;
	to->given[i] = true;
}

static void load_limits(struct loader *l, const struct yaml *y)
{
	const char *known[2 * LIMITS + 1];
	size_t n = 0;

	if (y->kind != YAML_MAP) {
		problem(&l->p, y->line, y->column, "'resource_limits' is a map of limits");
		return;
	}
	for (unsigned i = 0; i < LIMITS; i++) {
		known[n++] = limit_rows[i].name;
		if (limit_rows[i].other != NULL)
			known[n++] = limit_rows[i].other;
	}
	known[n] = NULL;
	for (size_t k = 0; k < y->n; k++) {
		const char *key = y->item[k].key;
		unsigned i = 0;

		while (i < LIMITS && strcmp(limit_rows[i].name, key) != 0 &&
		       (limit_rows[i].other == NULL || strcmp(limit_rows[i].other, key) != 0))
			i++;
		if (i < LIMITS)
			load_limit(l, y->item[k].value, (enum limit)i);
		else
			problem_unknown(&l->p, y->item[k].key_line, y->item[k].key_column, "limit",
					key, known);
	}
}

/* Reads names of variables; the last character of a name may be a star. */
static void load_names(struct loader *l, const char *key, const struct yaml *y, struct strv *out)
{
	if (!value_list(l, key, y))
		return;
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml *item = y->item[i].value;
		const size_t len = item->kind == YAML_SCALAR ? strlen(item->text) : 0;
		const size_t star = len > 0 && item->text[len - 1] == '*';

		if (len > 0 && (len == star || request_env_name(item->text, len - star)))
			strv_add(out, item->text);
		else
			problem(&l->p, item->line, item->column,
				"not the name of a variable such as LANG or LC_*");
	}
}

static void load_environment(struct loader *l, const struct yaml *y)
{
	static const char *const known[] = {"allow", "deny", NULL};

	if (y->kind != YAML_MAP) {
		problem(&l->p, y->line, y->column, "'environment' is a map of 'allow' and 'deny'");
		return;
	}
	for (size_t i = 0; i < y->n; i++)
		if (strcmp(y->item[i].key, "allow") == 0) {
			l->to->has_env_allow = true;
			load_names(l, "allow", y->item[i].value, &l->to->env_allow);
		} else if (strcmp(y->item[i].key, "deny") == 0) {
			load_names(l, "deny", y->item[i].value, &l->to->env_deny);
		} else {
			problem_unknown(&l->p, y->item[i].key_line, y->item[i].key_column, "key",
					y->item[i].key, known);
		}
}

static const struct {
	const char *name;
	void (*load)(struct loader *l, const struct yaml *y);
} keys[] = {
	{"version", load_version},	   {"name", load_name},
	{"description", load_description}, {"default", load_default},
	{"resource_limits", load_limits},  {"environment", load_environment},
};

static int by_name(const void *a, const void *b)
{
	const struct source_rule *x = *(const struct source_rule *const *)a,
				 *y = *(const struct source_rule *const *)b;
	const int order = strcmp(x->name, y->name);

	if (order != 0 || x->line != y->line)
		return order != 0 ? order : x->line < y->line ? -1 : 1;
	return (x->column > y->column) - (x->column < y->column);
}

static void check_names(struct loader *l)
{
	const struct source *s = l->to;
	const size_t most = s->rules[0].n + s->rules[1].n + s->rules[2].n;
	cleanup_free const struct source_rule **sorted =
		mem_resize(NULL, most + 1, sizeof(struct source_rule *));
	size_t n = 0;

	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++)
		for (size_t i = 0; i < s->rules[c].n; i++)
			if (s->rules[c].v[i].name != NULL)
				sorted[n++] = &s->rules[c].v[i];
	qsort(sorted, n, sizeof(*sorted), by_name);
	for (size_t i = 1; i < n; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
			problem(&l->p, sorted[i]->line, sorted[i]->column,
				"line %u already has a rule '%s'", sorted[i - 1]->line,
				sorted[i]->name);
}

static void load_top(struct loader *l, const struct yaml *y)
{
	static const char *const known[] = {
		"version",	 "name",	  "description",     "default",	    "file_rules",
		"network_rules", "command_rules", "resource_limits", "environment", NULL};

	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_item *item = &y->item[i];
		size_t k = 0, s = 0;

		while (k < ARRAY_LEN(keys) && strcmp(keys[k].name, item->key) != 0)
			k++;
		while (s < ARRAY_LEN(sections) && strcmp(sections[s].name, item->key) != 0)
			s++;
		if (k < ARRAY_LEN(keys))
			keys[k].load(l, item->value);
		else if (s < ARRAY_LEN(sections))
			load_rules(l, item->value, sections[s].class);
		else
			problem_unknown(&l->p, item->key_line, item->key_column, "key", item->key,
					known);
	}
	if (yaml_get(y, "version") == NULL)
		problem(&l->p, 1, 1, "'version: 1' is needed");
	if (yaml_get(y, "name") == NULL)
		problem(&l->p, 1, 1, "'name' is needed");
	check_names(l);
}

static void tell_twice(const struct yaml_item *item, void *arg)
{
	problem(arg, item->key_line, item->key_column, YAML_TWICE, item->key);
}

struct yaml *source_read(struct problems *p, const char *text, size_t len)
{
	const struct yaml_twice twice = {tell_twice, p};
	const struct yaml_text in = {text, len, &twice};
	const size_t file_len = strlen(p->file);
	struct yaml *y = NULL;
	struct err why = {0};
	unsigned long line = 1, column = 1;
	char *at = why.message;

	if (yaml_parse_telling(p->file, &in, &y, &why) == 0)
		return y;
	/* the parser's message is "FILE:LINE:COLUMN: TEXT" */
	if (strncmp(at, p->file, file_len) == 0 && at[file_len] == ':') {
		line = strtoul(at + file_len + 1, &at, 10);
		column = strtoul(at + (*at == ':'), &at, 10);
		at += strspn(at, ": ");
	}
	problem(p, (unsigned)line, (unsigned)column, "%s", at);
	return NULL;
}

int policy_compile(const char *file, const char *text, size_t len, const struct policy_options *o,
		   struct buf *report, struct buf *out, struct err *err)
{
	struct source s = {.file = mem_strdup(file)};
	struct err own = {0};
	struct loader l = {.o = o,
			   .p = {.file = file,
				 .out = report,
				 .err = err != NULL ? err : &own,
				 .strict = o->strict},
			   .to = &s};
	struct yaml *y;
	int rc;

	for (unsigned i = 0; i < POLICY_RULE_CLASSES; i++)
		s.fallback[sections[i].class] = sections[i].fallback;
	y = source_read(&l.p, text, len);
	if (y != NULL && y->kind == YAML_MAP)
		load_top(&l, y);
	else if (y != NULL)
		problem(&l.p, y->line, y->column, "a policy is a map of keys");
	yaml_free(y);
	if (l.p.errors == 0)
		source_lint(&l);
	rc = problems_done(&l.p);
	if (rc == 0)
		source_compile(&s, o, out);
	free(s.file);
	free(s.name);
	free(s.description);
	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++) {
		for (size_t i = 0; i < s.rules[c].n; i++)
			rule_done(&s.rules[c].v[i]);
		free(s.rules[c].v);
	}
	strv_done(&s.env_allow);
	strv_done(&s.env_deny);
	return rc;
}
