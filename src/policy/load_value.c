// SPDX-License-Identifier: Apache-2.0
/* Reads maps, texts, numbers, lists and variables of a policy file, and reports wrong ones. */
#include "base/id.h"
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/load.h"
#include <errno.h>
#include <stdio.h>

#define LINES_MAX 200 /* one more line counts the rest */
#define TEXT_LEN 400
#define CHOICES_MAX 20 /* a longer list is not shown */
#define KEYS_MAX 64    /* of a map */

/* ---- reports ---- */

__attribute__((format(printf, 5, 0))) static void add(struct problems *p, enum problem_level level,
						      unsigned line, unsigned column,
						      const char *fmt, va_list ap)
{
	static const char *const names[] = {"notice", "warning", "error"};
	char text[TEXT_LEN];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (level == PROBLEM_WARNING && p->strict)
		level = PROBLEM_ERROR;
	if (level == PROBLEM_ERROR && p->errors++ == 0)
		err_set(p->err, E_BAD_REQUEST, p->file, "%s:%u:%u: %s", p->file, line, column,
			text);
	if (p->out != NULL && p->shown < LINES_MAX)
		buf_addf(p->out, "%s:%u:%u: %s: %s\n", p->file, line, column, names[level], text);
	p->shown++;
}

void problem_add(struct problems *p, enum problem_level level, unsigned line, unsigned column,
		 const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(p, level, line, column, fmt, ap);
	va_end(ap);
}

void problem(struct loader *l, const struct yaml *y, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(&l->p, PROBLEM_ERROR, y->line, y->column, fmt, ap);
	va_end(ap);
}

/* " (did you mean 'x'?); choices: x, y" */
static void format_choices(const char *word, const char *const *known, struct buf *out)
{
	const char *near = yaml_suggest(word, known);
	size_t n = 0;

	if (near != NULL)
		buf_addf(out, " (did you mean '%s'?)", near);
	while (known[n] != NULL)
		n++;
	for (size_t i = 0; i < n && n <= CHOICES_MAX; i++)
		buf_addf(out, "%s%s", i == 0 ? "; choices: " : ", ", known[i]);
}

void problem_unknown(struct loader *l, const struct yaml *y, const char *what, const char *word,
		     const char *const *known)
{
	cleanup_buf struct buf choices = {0};

	format_choices(word, known, &choices);
	problem(l, y, "unknown %s '%.100s'%s", what, word, choices.len > 0 ? choices.data : "");
}

int policy_no_set(const struct strv *sets, const char *name, struct err *err)
{
	static const char *const none[] = {NULL};
	cleanup_buf struct buf choices = {0};

	format_choices(name, sets->n > 0 ? (const char *const *)sets->v : none, &choices);
	return err_set(err, E_NOT_FOUND, name, "no set '%s'%s", name,
		       choices.len > 0 ? choices.data : "");
}

int problems_done(struct problems *p)
{
	if (p->out != NULL && p->shown > LINES_MAX)
		buf_addf(p->out, "%s: and %u more\n", p->file, p->shown - LINES_MAX);
	return p->errors > 0 ? -E_BAD_REQUEST : 0;
}

/* ---- values ---- */

bool map_read(struct loader *l, const struct yaml *y, const char *form, const char *what,
	      const struct map_key *keys)
{
	const char *known[KEYS_MAX + 1] = {NULL};

	if (y->kind != YAML_MAP) {
		problem(l, y, "%s", form);
		return false;
	}
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml_item *item = &y->item[i];
		const struct yaml at = {.line = item->key_line, .column = item->key_column};
		const struct map_key *found = NULL;
		size_t n = 0;

		for (const struct map_key *key = keys; key->name != NULL; key++) {
			if (key->classes != 0 && (key->classes & 1U << l->class) == 0)
				continue;
			ensure(n < KEYS_MAX);
			known[n++] = key->name;
			if (strcmp(key->name, item->key) == 0)
				found = key;
		}
		if (found == NULL)
			problem_unknown(l, &at, what, item->key, known);
		else if (found->read != NULL)
			found->read(l, item, found);
	}
	return true;
}

const char *value_scalar(const struct yaml *y)
{
	return y->kind == YAML_SCALAR ? y->text : "";
}

bool value_text(struct loader *l, const char *key, const struct yaml *y)
{
	if (y->kind == YAML_SCALAR && (y->text[0] != '\0' || y->quoted))
		return true;
	problem(l, y, "'%s' must be a text", key);
	return false;
}

bool value_name(struct loader *l, const struct yaml *y, uint32_t *out)
{
	if (id_valid(value_scalar(y))) {
		*out = loader_text(l, y->text);
		return true;
	}
	problem(l, y, "'name' is made of letters, digits, '.', '_' and '-', at most 64");
	return false;
}

bool value_bool(struct loader *l, const char *key, const struct yaml *y, uint8_t *out)
{
	*out = strcmp(value_scalar(y), "true") == 0;
	if (!y->quoted && (*out || strcmp(value_scalar(y), "false") == 0))
		return true;
	problem(l, y, "'%s' must be true or false", key);
	return false;
}

bool value_number(struct loader *l, const char *key, const char *unit, const struct yaml *y,
		  int64_t *out)
{
	char *end = NULL;

	errno = 0;
	if (!y->quoted && value_scalar(y)[0] >= '0' && value_scalar(y)[0] <= '9')
		*out = strtoll(y->text, &end, 10);
	if (end != NULL && *end == '\0' && errno == 0)
		return true;
	problem(l, y, "'%s' must be a number%s%s%s", key, unit != NULL ? " of " : "",
		unit != NULL ? unit : "", unit != NULL ? ", without the unit" : "");
	return false;
}

bool value_list(struct loader *l, const char *key, const struct yaml *y)
{
	if (y->kind == YAML_LIST && y->n > 0)
		return true;
	if (y->kind == YAML_LIST)
		problem(l, y, "'%s' is an empty list: nothing would match", key);
	else if (value_scalar(y)[0] != '\0')
		problem(l, y, "'%s' must be a list: [%.100s]", key, y->text);
	else
		problem(l, y, "'%s' must be a list", key);
	return false;
}

bool value_decision(struct loader *l, const struct yaml *y, unsigned more, enum decision *out)
{
	const unsigned have = more | 1U << DECISION_allow | 1U << DECISION_deny |
			      1U << DECISION_approve | 1U << DECISION_log;
	const char *known[DECISIONS + 1] = {NULL};
	size_t n = 0;

	if (decision_parse(value_scalar(y), out) && have & 1U << *out)
		return true;
	for (unsigned d = 0; d < DECISIONS; d++)
		if (have & 1U << d)
			known[n++] = decision_name((enum decision)d);
	problem_unknown(l, y, "decision", value_scalar(y), known);
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
			problem(l, y, "'%.100s': '${' without '}'", y->text);
			return NULL;
		}
		name = mem_strndup(at + 2, (size_t)(end - at - 2));
		if (strcmp(name, "WORKSPACE") == 0) {
			value = l->o->workspace != NULL ? l->o->workspace : "/workspace";
		} else if (strcmp(name, "HOME") == 0) {
			value = l->o->home != NULL ? l->o->home : "/home/agent";
		} else {
			problem_unknown(l, y, "variable", name, known);
			return NULL;
		}
		buf_add(&out, p, (size_t)(at - p));
		escaped = mem_alloc(2 * strlen(value) + 1);
		glob_escape(value, escaped);
		buf_adds(&out, glob ? escaped : value);
		p = end + 1;
	}
}
