// SPDX-License-Identifier: Apache-2.0
/* Reads values of a policy file: texts, numbers, lists, variables. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/source.h"
#include <errno.h>

bool value_text(struct loader *l, const char *key, const struct yaml *y, const char **out)
{
	if (y->kind != YAML_SCALAR || (y->text[0] == '\0' && !y->quoted)) {
		problem(&l->p, y->line, y->column, "'%s' must be a text", key);
		return false;
	}
	*out = y->text;
	return true;
}

bool value_bool(struct loader *l, const char *key, const struct yaml *y, bool *out)
{
	const bool plain = y->kind == YAML_SCALAR && !y->quoted;

	if (!plain || (strcmp(y->text, "true") != 0 && strcmp(y->text, "false") != 0)) {
		problem(&l->p, y->line, y->column, "'%s' must be true or false", key);
		return false;
	}
	*out = y->text[0] == 't';
	return true;
}

bool value_number(struct loader *l, const char *key, const char *unit, const struct yaml *y,
		  int64_t *out)
{
	char *end = NULL;
	long long v = 0;

	if (y->kind == YAML_SCALAR && !y->quoted && y->text[0] >= '0' && y->text[0] <= '9') {
		errno = 0;
		v = strtoll(y->text, &end, 10);
	}
	if (end == NULL || *end != '\0' || errno != 0) {
		problem(&l->p, y->line, y->column, "'%s' must be a number%s%s%s", key,
			unit != NULL ? " of " : "", unit != NULL ? unit : "",
			unit != NULL ? ", without the unit" : "");
		return false;
	}
	*out = v;
	return true;
}

bool value_int(struct loader *l, const char *key, const struct yaml *y, int64_t *out)
{
	return value_number(l, key, NULL, y, out);
}

bool value_list(struct loader *l, const char *key, const struct yaml *y)
{
	if (y->kind == YAML_LIST && y->n > 0)
		return true;
	if (y->kind == YAML_SCALAR && y->text[0] != '\0')
		problem(&l->p, y->line, y->column, "'%s' must be a list: [%.100s]", key, y->text);
	else if (y->kind == YAML_LIST)
		problem(&l->p, y->line, y->column, "'%s' is an empty list: nothing would match",
			key);
	else
		problem(&l->p, y->line, y->column, "'%s' must be a list", key);
	return false;
}

char *value_expand(struct loader *l, const struct yaml *y, bool glob)
{
	static const char *const known[] = {"WORKSPACE", "HOME", NULL};
	cleanup_buf struct buf out = {0};
	const char *p = y->text;

	buf_reserve(&out, strlen(p));
	for (;;) {
		const char *at = strstr(p, "${"), *end = at != NULL ? strchr(at, '}') : NULL;
		cleanup_free char *name = NULL, *escaped = NULL;
		const char *value;

		if (at == NULL) {
			buf_adds(&out, p);
			return buf_take(&out);
		}
		if (end == NULL) {
			problem(&l->p, y->line, y->column, "'%.100s': '${' without '}'", y->text);
			return NULL;
		}
		name = mem_strndup(at + 2, (size_t)(end - at - 2));
		if (strcmp(name, "WORKSPACE") == 0) {
			value = l->o->workspace != NULL ? l->o->workspace : "/workspace";
		} else if (strcmp(name, "HOME") == 0) {
			value = l->o->home != NULL ? l->o->home : "/home/agent";
		} else {
			problem_unknown(&l->p, y->line, y->column, "variable", name, known);
			return NULL;
		}
		buf_add(&out, p, (size_t)(at - p));
		escaped = mem_alloc(2 * strlen(value) + 1);
		glob_escape(value, escaped);
		buf_adds(&out, glob ? escaped : value);
		p = end + 1;
	}
}
