// SPDX-License-Identifier: Apache-2.0
/* Named sets: "@secrets" in a list means the items of a set file
 *
 *	version: 1
 *	name: secrets
 *	kind: paths
 *	items: ["/etc/shadow", ...]
 *
 * A missing set is an error in a rule that restricts. In a rule that allows, it allows nothing, and
 * a notice says so. */
#include "base/id.h"
#include "base/mem.h"
#include "policy/load.h"

static void need(struct loader *l, const struct yaml *set, const char *key, const char *value,
		 const char *why)
{
	const struct yaml *y = yaml_get(set, key);

	if (y == NULL || strcmp(value_scalar(y), value) != 0)
		problem(l, y != NULL ? y : set, "'%s: %s' is needed%s", key, value, why);
}

static void read_set(struct loader *l, const char *name, const char *kind, const struct yaml *set,
		     item_fn *add, struct snapshot_span *to)
{
	static const struct map_key keys[] = {{"version"}, {"name"},  {"description"},
					      {"kind"},	   {"items"}, {NULL}};
	const struct yaml *items = yaml_get(set, "items");

	if (!map_read(l, set, "a set is a map of keys", "key", keys))
		return;
	need(l, set, "version", "1", "");
	need(l, set, "name", name, ", like the name of the file");
	need(l, set, "kind", kind, " where this set is used");
	if (items == NULL || items->kind != YAML_LIST) {
		problem(l, set, "'items' must be a list");
		return;
	}
	for (size_t i = 0; i < items->n; i++)
		if (value_scalar(items->item[i].value)[0] == '@')
			problem(l, items->item[i].value, "a set cannot contain a set");
		else
			add(l, items->item[i].value, to);
}

void set_each(struct loader *l, const char *kind, const struct yaml *y, item_fn *add,
	      struct snapshot_span *to)
{
	const char *name = value_scalar(y) + 1, *back = l->p.file;
	cleanup_buf struct buf text = {0}, file = {0};
	struct err err = {0};
	struct yaml *set;
	int rc;

	if (name[-1] != '@') {
		add(l, y, to);
		return;
	}
	if (!id_valid(name)) {
		problem(l, y, "'@%.64s' is not the name of a set", name);
		return;
	}
	rc = l->o->set != NULL ? l->o->set(name, &text, &file, l->o->set_arg, &err)
			       : err_set(&err, E_NOT_FOUND, name, "this policy has no sets");
	if (rc == 0) {
		l->p.file = file.data != NULL ? file.data : name;
		set = source_read(l, text.data != NULL ? text.data : "", text.len);
		if (set != NULL)
			read_set(l, name, kind, set, add, to);
		yaml_free(set);
		l->p.file = back;
	} else if (rc == -E_NOT_FOUND && decision_permits(l->rule->decision)) {
		problem_add(&l->p, PROBLEM_NOTICE, y->line, y->column,
			    "the set '%s' does not exist (agentsh policy sets --refresh makes it): "
			    "it allows nothing",
			    name);
	} else {
		problem(l, y, "%s", err.message);
	}
}
