// SPDX-License-Identifier: Apache-2.0
/* One table of options for all commands. An option may be written --name VALUE, --name=VALUE or,
 * as find does, -name VALUE; options of one letter may be grouped. */
#include "acmd/acmd.h"
#include "base/mem.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BIT(command) (1u << ACMD_##command)
#define EVERY ((1u << ACMD_COMMANDS) - 1)
#define PAGED (EVERY & ~BIT(acat))

static const struct {
	const char *name, *operands, *summary;
} commands[] = {
#define X(name, operands, summary) {#name, operands, summary},
	ACMD_LIST(X)
#undef X
};

enum option_value { HELP, FLAG, COUNT, TEXT, TYPES, SIZE, AGE, LINES };
static const struct option_row {
	const char *name;
	char letter;
	unsigned commands;
	enum option_value kind;
	size_t offset; /* in struct acmd_options */
	const char *value, *text;
} rows[] = {
#define AT(field) offsetof(struct acmd_options, field)
	{"all", 'a', BIT(als), FLAG, AT(all), "", "also names that begin with a dot"},
	{"recursive", 'R', BIT(als), FLAG, AT(recursive), "",
	 "also what lies in directories below"},
	{"long", 'l', BIT(als), FLAG, AT(long_form), "", "all attributes, as astat"},
	{"name", 0, BIT(afind), TEXT, AT(name), "GLOB", "the name matches: *, ?, [a-z]"},
	{"type", 0, BIT(afind), TYPES, AT(types), "TYPE",
	 "f, d, l, p, s, c or b; several with commas"},
	{"size", 0, BIT(afind), SIZE, AT(size), "[+-]N[kMG]",
	 "more than, less than or exactly N bytes"},
	{"mtime", 0, BIT(afind), AGE, AT(age), "+N|-N[smhd]",
	 "last changed longer ago than N, or since then; days without a unit"},
	{"depth", 0, BIT(als) | BIT(afind), COUNT, AT(depth), "N", "at most N levels"},
	{"depth", 0, BIT(adu), COUNT, AT(depth), "N",
	 "lists N levels (default 1); all are counted"},
	{"lines", 0, BIT(acat), LINES, AT(first), "A-B", "only these lines; also A- and A"},
	{"follow", 'L', BIT(astat), FLAG, AT(follow), "", "what a symbolic link leads to"},
	{"limit", 0, BIT(acat), COUNT, AT(limit), "N", "at most N bytes, up to 16 MiB"},
	{"offset", 0, BIT(acat), COUNT, AT(offset), "N", "begins at byte N"},
	{"limit", 0, PAGED, COUNT, AT(limit), "N", "at most N elements"},
	{"offset", 0, PAGED, COUNT, AT(offset), "N", "leaves out the first N elements"},
	{"help", 0, EVERY, HELP, 0, "", "this text"},
};

static bool read_count(const char *s, const char **end, uint64_t *out)
{
	uint64_t v = 0;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	*end = p;
	*out = v;
	return p > s && v <= INT64_MAX;
}

static bool read_types(const char *s, uint32_t *types)
{
	static const char letters[] = "fdlpscb";
	static const mode_t modes[] = {S_IFREG,	 S_IFDIR, S_IFLNK, S_IFIFO,
				       S_IFSOCK, S_IFCHR, S_IFBLK};

	for (;; s++) {
		const size_t len = strcspn(s, ",");
		size_t i = 0;

		while (i < ARRAY_LEN(modes) && !(len == 1 && letters[i] == s[0]) &&
		       (strlen(acmd_type(modes[i])) != len ||
			strncmp(acmd_type(modes[i]), s, len) != 0))
			i++;
		if (i == ARRAY_LEN(modes))
			return false;
		*types |= 1u << (modes[i] >> 12);
		s += len;
		if (*s == '\0')
			return true;
	}
}

/* [+-]N and a unit of these; the first has no letter of its own. */
static bool read_compare(const char *s, const char *letters, const uint64_t *units,
			 struct acmd_compare *out)
{
	const char *end, *unit;
	uint64_t v;

	out->given = true;
	out->sign = *s == '+' ? 1 : *s == '-' ? -1 : 0;
	if (!read_count(s + (out->sign != 0), &end, &v))
		return false;
	unit = *end != '\0' ? strchr(letters + 1, *end) : letters;
	return unit != NULL && (*end == '\0' || end[1] == '\0') &&
	       !__builtin_mul_overflow(v, units[unit - letters], &out->value);
}

static bool read_lines(const char *s, uint64_t *first, uint64_t *last)
{
	if (!read_count(s, &s, first) || *first == 0)
		return false;
	*last = *first;
	if (*s == '-' && s[1] == '\0')
		*last = UINT64_MAX;
	else if (*s == '-' && read_count(s + 1, &s, last))
		return *s == '\0' && *last >= *first;
	return *s == '\0' || *last == UINT64_MAX;
}

static bool read_value(const struct option_row *row, const char *s, struct acmd_options *o)
{
	static const uint64_t bytes[] = {1, 1, 1 << 10, 1 << 20, 1 << 30};
	static const uint64_t seconds[] = {86400, 1, 60, 3600, 86400};
	void *at = (char *)o + row->offset;
	const char *end;

	switch (row->kind) {
	case COUNT:
		o->limited |= at == &o->limit;
		return read_count(s, &end, at) && *end == '\0' &&
		       (*(uint64_t *)at > 0 || at == &o->offset);
	case TEXT:
		*(const char **)at = s;
		return true;
	case TYPES:
		return read_types(s, at);
	case SIZE:
		return read_compare(s, " ckMG", bytes, at);
	case AGE:
		return read_compare(s, " smhd", seconds, at) && o->age.sign != 0;
	case LINES:
		return read_lines(s, &o->first, &o->last);
	default:
		*(bool *)at = true;
		return true;
	}
}

static const struct option_row *find_row(const struct acmd *a, const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((rows[i].commands & 1u << a->command) != 0 &&
		    ((strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) ||
		     (len == 1 && rows[i].letter == name[0])))
			return &rows[i];
	return NULL;
}

static int unknown(const struct acmd *a, const char *word, struct err *err)
{
	return err_set(err, E_BAD_REQUEST, word, "%s has no option '%s': see %s --help",
		       commands[a->command].name, word, commands[a->command].name);
}

/* A word that begins with a dash, and maybe the one behind it. */
static int read_option(struct acmd *a, char ***next, struct err *err)
{
	const char *word = *(*next)++, *name = word + 1 + (word[1] == '-');
	const size_t len = strcspn(name, "=");
	const struct option_row *row = find_row(a, name, len);
	const char *value = name[len] == '=' ? name + len + 1 : NULL;

	if (row == NULL && word[1] != '-') {
		for (; *name != '\0'; name++) {
			row = find_row(a, name, 1);
			if (row == NULL || row->letter == 0)
				return unknown(a, word, err);
			read_value(row, NULL, &a->o);
		}
		return 0;
	}
	if (row == NULL)
		return unknown(a, word, err);
	if (row->kind == HELP)
		return 1;
	if (row->kind == FLAG && value != NULL)
		return err_set(err, E_BAD_REQUEST, word, "--%s takes no value", row->name);
	if (row->kind != FLAG && value == NULL && (value = **next) != NULL)
		(*next)++;
	if (row->kind != FLAG && value == NULL)
		return err_set(err, E_BAD_REQUEST, word, "--%s needs a value: %s", row->name,
			       row->value);
	if (!read_value(row, value, &a->o))
		return err_set(err, E_BAD_REQUEST, value, "--%s %s: '%s' is not %s", row->name,
			       row->value, value,
			       row->kind != COUNT	   ? "of this form"
			       : row->offset == AT(offset) ? "a number"
							   : "a number above 0");
	return 0;
}

int acmd_parse(struct acmd *a, int argc, char **argv, struct err *err)
{
	const char *name = acmd_base(argc > 0 ? argv[0] : "");
	char **next = argv + (argc > 0);
	bool options = true;
	int r = 0;

	while (a->command < ACMD_COMMANDS && strcmp(commands[a->command].name, name) != 0)
		a->command++;
	if (a->command == ACMD_COMMANDS)
		return err_set(err, E_BAD_REQUEST, name,
			       "no command '%s': call this program by the name of one", name);
	a->o = (struct acmd_options){
		.depth = a->command == ACMD_adu ? 1 : UINT64_MAX, .first = 1, .last = UINT64_MAX};
	a->operand = next;
	while (r == 0 && *next != NULL) {
		if (options && strcmp(*next, "--") == 0) {
			options = false;
			next++;
		} else if (options && **next == '-' && (*next)[1] != '\0') {
			r = read_option(a, &next, err);
		} else {
			a->operand[a->n++] = *next++;
		}
	}
	if (r != 0)
		return r;
	if (strstr(commands[a->command].operands, "...") == NULL &&
	    a->n > (commands[a->command].operands[0] != '\0'))
		return err_set(err, E_BAD_REQUEST, a->operand[a->n - 1],
			       "%s takes %s: '%s' is too much", name,
			       a->command == ACMD_aps ? "no operand" : "one path",
			       a->operand[a->n - 1]);
	if (a->n == 0 && (a->command == ACMD_acat || a->command == ACMD_astat))
		return err_set(err, E_BAD_REQUEST, NULL, "%s needs a path", name);
	return 0;
}

void acmd_help(struct acmd *a)
{
	buf_addf(&a->text, "usage: %s [OPTIONS]%s%s\n%s The answer is JSON.\n\noptions:\n",
		 commands[a->command].name, commands[a->command].operands[0] != '\0' ? " " : "",
		 commands[a->command].operands, commands[a->command].summary);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char head[64];

		if ((rows[i].commands & 1u << a->command) == 0)
			continue;
		snprintf(head, sizeof(head), "--%s%s%s%s%c", rows[i].name,
			 rows[i].value[0] != '\0' ? " " : "", rows[i].value,
			 rows[i].letter != '\0' ? ", -" : "",
			 rows[i].letter != '\0' ? rows[i].letter : ' ');
		buf_addf(&a->text, "  %-22s  %s\n", head, rows[i].text);
	}
}
