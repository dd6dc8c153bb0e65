// SPDX-License-Identifier: Apache-2.0
/* Named sets: "@secrets" in a list means the items of a set file
 *
 *	version: 1
 *	name: secrets
 *	kind: paths
 *	items: ["/etc/shadow", ...]
 *
 * A missing set is an error in a rule that restricts. In a rule that allows, it allows nothing, and
 *a notice says so. */
#include "base/id.h"
#include "base/mem.h"
#include "policy/source.h"

static const char *const set_keys[] = {"version", "name", "description", "kind", "items", NULL};

static void check_head(struct loader *l, const struct yaml *set, const char *name, const char *kind)
{
	const struct yaml *version = yaml_get(set, "version"), *named = yaml_get(set, "name"),
			  *of = yaml_get(set, "kind");
	int64_t number = 0;

	for (size_t i = 0; i < set->n; i++) {
		size_t k = 0;

		while (set_keys[k] != NULL && strcmp(set_keys[k], set->item[i].key) != 0)
			k++;
		if (set_keys[k] == NULL)
			problem_unknown(&l->p, set->item[i].key_line, set->item[i].key_column,
					"key", set->item[i].key, set_keys);
	}
	if (version == NULL || (value_int(l, "version", version, &number) && number != 1))
		problem(&l->p, version != NULL ? version->line : 1,
			version != NULL ? version->column : 1, "'version: 1' is needed");
	if (named == NULL || named->kind != YAML_SCALAR || strcmp(named->text, name) != 0)
		problem(&l->p, named != NULL ? named->line : 1, named != NULL ? named->column : 1,
			"'name: %s' is needed, like the name of the file", name);
	if (of == NULL || of->kind != YAML_SCALAR || strcmp(of->text, kind) != 0)
		problem(&l->p, of != NULL ? of->line : 1, of != NULL ? of->column : 1,
			"'kind: %s' is needed where this set is used", kind);
}

static void read_set(struct loader *l, const char *name, const char *kind, const struct buf *text,
		     item_fn *add, struct source_rule *r)
{
	struct yaml *set = source_read(&l->p, text->data != NULL ? text->data : "", text->len);
	const struct yaml *items;

	if (set == NULL)
		return;
	if (set->kind != YAML_MAP) {
		problem(&l->p, set->line, set->column, "a set is a map of keys");
		yaml_free(set);
		return;
	}
	check_head(l, set, name, kind);
	items = yaml_get(set, "items");
	if (items == NULL || items->kind != YAML_LIST)
		problem(&l->p, 1, 1, "'items' must be a list");
	for (size_t i = 0; items != NULL && items->kind == YAML_LIST && i < items->n; i++) {
		const struct yaml *item = items->item[i].value;

		if (item->kind == YAML_SCALAR && item->text[0] == '@')
			problem(&l->p, item->line, item->column, "a set cannot contain a set");
		else
			add(l, item, r);
	}
	yaml_free(set);
}

void set_each(struct loader *l, const char *kind, const struct yaml *y, item_fn *add,
	      struct source_rule *r)
{
	const char *name = y->kind == YAML_SCALAR ? y->text + 1 : "", *back = l->p.file;
	cleanup_buf struct buf text = {0}, file = {0};
	struct err err = {0};
	int rc;

	if (y->kind != YAML_SCALAR || y->text[0] != '@') {
		add(l, y, r);
		return;
	}
	if (!id_valid(name)) {
		problem(&l->p, y->line, y->column, "'@%.64s' is not the name of a set", name);
		return;
	}
	rc = l->o->set != NULL ? l->o->set(name, &text, &file, l->o->set_arg, &err) : -E_NOT_FOUND;
	if (rc == 0) {
		l->p.file = file.data != NULL ? file.data : name;
		read_set(l, name, kind, &text, add, r);
		l->p.file = back;
	} else if (rc != -E_NOT_FOUND) {
		problem(&l->p, y->line, y->column, "%s", err.message);
	} else if (decision_permits(r->decision)) {
		notice(&l->p, y->line, y->column,
		       "the set '%s' does not exist (agentsh policy sets --refresh makes it): it "
		       "allows nothing",
		       name);
	} else {
		problem(&l->p, y->line, y->column, "%s",
			err.message[0] != '\0' ? err.message : "this policy has no sets");
	}
}
