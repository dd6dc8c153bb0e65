// SPDX-License-Identifier: Apache-2.0
/* Loads one rule of a policy file by a table of keys. */
#include "base/mem.h"
#include "base/path.h"
#include "model/workspace_names.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/load.h"
#include "policy/regex.h"
#include <stdio.h>

#define MESSAGE_MAX 1024

/* Reports a pattern that is wrong; false if wrong is NULL. */
static bool pattern_wrong(struct loader *l, const struct yaml *y, const char *wrong)
{
	if (wrong != NULL)
		problem(l, y, "'%.100s': %s", value_scalar(y), wrong);
	return wrong != NULL;
}

/* Counts one more pattern; whether it is a text and the policy may still have it. */
static bool countable(struct loader *l, const struct yaml *y)
{
	if (++l->patterns == POLICY_MAX_PATTERNS + 1)
		problem(l, y, "more than %d patterns in a policy", POLICY_MAX_PATTERNS);
	return l->patterns <= POLICY_MAX_PATTERNS && value_text(l, "item", y);
}

static bool lies_in_workspace(const struct loader *l, const char *path)
{
	const char *root = l->o->workspace != NULL ? l->o->workspace : WORKSPACE_CANONICAL;

	return path_within(path, root) && strcmp(path, root) != 0;
}

/* A redirect replaces the part of a path that does not vary. */
static void check_redirected(struct loader *l, const struct yaml *y, const char *pattern)
{
	cleanup_free char *fixed = mem_alloc(strlen(pattern) + 1);

	if (l->class != OP_FILE || l->rule->decision != DECISION_redirect)
		return;
	glob_fixed(pattern, fixed);
	pattern_wrong(l, y,
		      lies_in_workspace(l, fixed)
			      ? NULL
			      : "a pattern of a redirect begins with a path below ${WORKSPACE}, "
				"without a special character in it");
}

/* For a path that does not begin at the root, suggests what its author may have meant. */
static void add_path(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	static const struct {
		const char *begin, *meant;
	} forms[] = {{"~/", "${HOME}/"}, {"./", "${WORKSPACE}/"}, {"", "**/"}};
	cleanup_free char *pattern = countable(l, y) ? value_expand(l, y, true) : NULL;
	const char *wrong = pattern != NULL ? glob_check_path(pattern) : NULL;
	unsigned i = 0;

	if (wrong != NULL && pattern[0] != '/' && strncmp(pattern, "**", 2) != 0) {
		while (strncmp(y->text, forms[i].begin, strlen(forms[i].begin)) != 0)
			i++;
		problem(l, y, "'%.100s': %s (did you mean '%s%.100s'?)", y->text, wrong,
			forms[i].meant, y->text + strlen(forms[i].begin));
	} else if (!pattern_wrong(l, y, wrong) && pattern != NULL) {
		check_redirected(l, y, pattern);
		loader_add_pattern(l, pattern, to);
	}
}

static void add_text(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	if (countable(l, y) && !pattern_wrong(l, y, glob_check_text(y->text)))
		loader_add_pattern(l, y->text, to);
}

/* On most machines /bin is a link to /usr/bin, and a program is known by its resolved path: a path
 * below such a link is added in both forms. */
static void add_command(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	static const char *const links[] = {"/bin/", "/sbin/", "/lib/", "/lib64/"};
	const uint32_t before = to->n, at = loader_items(l, PART_TEXT);

	if (strpbrk(value_scalar(y), "/$") == NULL) {
		add_text(l, y, to);
		return;
	}
	add_path(l, y, to);
	for (size_t i = 0; to->n == before + 1 && i < ARRAY_LEN(links); i++) {
		const char *path = l->part[PART_TEXT].data + at;
		cleanup_free char *behind = mem_printf("/usr%s", path);

		if (strncmp(path, links[i], strlen(links[i])) == 0)
			loader_add_pattern(l, behind, to);
	}
}

static void add_regex(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	struct err err = {0};

	if (countable(l, y) &&
	    !pattern_wrong(l, y, regex_check(y->text, &err) < 0 ? err.message : NULL))
		loader_add_pattern(l, y->text, to);
}

static void add_domain(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	char normal[DOMAIN_ROOM];
	struct op_address address;
	const char *wrong;

	if (!countable(l, y))
		return;
	wrong = domain_check(y->text, normal);
	if (wrong == NULL && op_address_parse(normal, &address))
		wrong = "this is an address, not a name: write it in 'cidrs'";
	if (!pattern_wrong(l, y, wrong))
		loader_add_pattern(l, normal, to);
}

static void add_cidr(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	char fixed[CIDR_TEXT];
	struct cidr c;
	const char *wrong;

	if (!countable(l, y))
		return;
	wrong = cidr_parse(y->text, &c, fixed);
	if (wrong != NULL && fixed[0] != '\0')
		problem(l, y, "'%.60s': %s (did you mean '%s'?)", y->text, wrong, fixed);
	else if (!pattern_wrong(l, y, wrong))
		loader_add(l, PART_CIDRS, &c, to);
}

/* Reads a port number; -1 if the text is not one. */
static long port_number(const char *s, char **end)
{
	const long n = *s >= '0' && *s <= '9' ? strtol(s, end, 10) : 0;

	return n >= 1 && n <= UINT16_MAX ? n : -1;
}

static void add_port(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	struct port_range range;
	char *end = NULL;
	long low, high;

	if (!countable(l, y))
		return;
	low = high = port_number(y->text, &end);
	if (low > 0 && *end == '-')
		high = port_number(end + 1, &end);
	range = (struct port_range){(uint16_t)low, (uint16_t)high};
	if (low < 0 || high < low || *end != '\0')
		pattern_wrong(l, y, "neither a port (1 to 65535) nor a range such as 8000-8999");
	else
		loader_add(l, PART_PORTS, &range, to);
}

/* An operation, a kind or a protocol. */
static void add_bit(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	const struct rule_class *c = &rule_classes[l->class];
	unsigned i = 0;

	while (c->bit_words[i] != NULL && strcmp(c->bit_words[i], value_scalar(y)) != 0)
		i++;
	if (c->bit_words[i] == NULL)
		problem_unknown(l, y, c->bit, value_scalar(y), c->bit_words);
	else
		l->rule->bits |= c->bit_words[i][0] == '*' ? (1U << i) - 1 : 1U << i;
}

static void add_group(struct loader *l, const struct yaml *y, struct snapshot_span *to)
{
	cleanup_buf struct buf group = {0};

	if (y->kind != YAML_LIST || y->n == 0) {
		problem(l, y,
			"'flags' is true or a list of groups; a command needs one option of each: "
			"[[\"-r\", \"--recursive\"], [\"-f\", \"--force\"]]");
		return;
	}
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml *option = y->item[i].value;

		if (!countable(l, option) || pattern_wrong(l, option, flags_check(option->text)))
			return;
		buf_addf(&group, "%s%s", i > 0 ? " " : "", option->text);
	}
	loader_add_pattern(l, group.data, to);
}

/* ---- keys ---- */

static void read_name(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (value_name(l, item->value, &l->rule->name) && strcmp(item->value->text, "default") == 0)
		problem(l, item->value,
			"'default' is reserved: it names the decision where no rule matches");
}

static void read_message(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	const struct yaml *y = item->value;

	if (!value_text(l, "message", y))
		return;
	if (strlen(y->text) > MESSAGE_MAX)
		problem(l, y, "'message' is longer than %d bytes", MESSAGE_MAX);
	for (const char *p = strchr(y->text, '{'); p != NULL; p = strchr(p + 1, '{'))
		if (strncmp(p, "{path}", 6) != 0 && strncmp(p, "{args}", 6) != 0)
			problem_add(&l->p, PROBLEM_WARNING, y->line, y->column,
				    "only {path} and {args} are filled in, not '%.20s'", p);
	l->rule->message = loader_text(l, y->text);
}

static void read_final(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (value_bool(l, "final", item->value, &l->rule->final) && l->rule->final &&
	    l->rule->decision != DECISION_deny)
		problem(l, item->value, "only a deny can be final");
}

static void read_hide(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (value_bool(l, "hide", item->value, &l->rule->flags) && l->rule->flags &&
	    l->rule->decision != DECISION_deny)
		problem(l, item->value, "only a deny can hide");
}

static void read_existing(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (value_bool(l, "existing_only", item->value, &l->rule->args_whole) &&
	    l->rule->args_whole && l->rule->decision != DECISION_deny)
		problem(l, item->value, "only a deny can be for what existed");
}

static void read_whole(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	value_bool(l, "args_whole", item->value, &l->rule->args_whole);
}

static void read_redirect(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	const struct yaml *y = item->value;
	cleanup_free char *path = NULL;

	if (!value_text(l, "redirect_to", y))
		return;
	if (l->rule->decision != DECISION_redirect) {
		problem(l, y, "'redirect_to' needs 'decision: redirect'");
		return;
	}
	path = value_expand(l, y, false);
	if (path != NULL && l->class == OP_EXEC && !glob_plain_path(path))
		pattern_wrong(l, y, "expected the absolute path of a program");
	if (path != NULL && l->class == OP_FILE &&
	    (!glob_plain_path(path) || !lies_in_workspace(l, path) || strlen(path) >= PATH_MAX))
		pattern_wrong(l, y, "expected an absolute path below ${WORKSPACE}");
	l->rule->redirect_to = loader_text(l, path);
}

static void read_list(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	struct snapshot_span *to = (void *)((char *)l->rule + key->list);
	const struct yaml *y = item->value;

	l->rule->conditions |= key->arg;
	if (!value_list(l, key->name, y))
		return;
	for (size_t i = 0; i < y->n; i++)
		if (key->set != NULL)
			set_each(l, key->set, y->item[i].value, key->item, to);
		else
			key->item(l, y->item[i].value, to);
}

static void read_flags(struct loader *l, const struct yaml_item *item, const struct map_key *key)
{
	if (item->value->kind != YAML_LIST) {
		value_bool(l, "flags", item->value, &l->rule->flags);
		return;
	}
	l->rule->flags = true;
	read_list(l, item, key);
}

#define ON_FILE (1U << OP_FILE)
#define ON_EXEC (1U << OP_EXEC)
#define ON_NET (1U << OP_NET)
#define TO(member) offsetof(struct snapshot_rule, member)
static const struct map_key rule_keys[] = {
	{"name", read_name},
	{"decision"}, /* read before the others */
	{"final", read_final},
	{"message", read_message},
	{"paths", read_list, COND_PATHS, ON_FILE, add_path, TO(subject), "paths"},
	{"operations", read_list, 0, ON_FILE, add_bit},
	{"hide", read_hide, 0, ON_FILE},
	{"existing_only", read_existing, 0, ON_FILE},
	{"domains", read_list, COND_DOMAINS, ON_NET, add_domain, TO(subject), "domains"},
	{"cidrs", read_list, COND_CIDRS, ON_NET, add_cidr, TO(cidrs)},
	{"ports", read_list, COND_PORTS, ON_NET, add_port, TO(ports)},
	{"protocols", read_list, COND_PROTOCOLS, ON_NET, add_bit},
	{"commands", read_list, COND_COMMANDS, ON_EXEC, add_command, TO(subject), "commands"},
	{"args_pattern", read_list, COND_ARGS, ON_EXEC, add_text, TO(args)},
	{"args_regex", read_list, COND_REGEX, ON_EXEC, add_regex, TO(regex)},
	{"args_whole", read_whole, 0, ON_EXEC},
	{"flags", read_flags, COND_FLAGS, ON_EXEC, add_group, TO(groups)},
	{"scripts", read_list, COND_SCRIPTS, ON_EXEC, add_path, TO(scripts), "paths"},
	{"kinds", read_list, COND_KINDS, ON_EXEC, add_bit},
	{"redirect_to", read_redirect, 0, ON_EXEC | ON_FILE},
	{NULL},
};

static void read_decision(struct loader *l, const struct yaml *y)
{
	static const unsigned more[POLICY_RULE_CLASSES] = {
		[OP_FILE] = 1U << DECISION_soft_delete | 1U << DECISION_redirect,
		[OP_EXEC] = 1U << DECISION_redirect,
	};
	const char *word = value_scalar(y);
	const bool hide = strcmp(word, "hide") == 0;
	enum decision d;

	if (l->class == OP_FILE && hide)
		problem(l, y, "'hide' is a key: write 'decision: deny' and 'hide: true'");
	else if (l->class != OP_FILE && (hide || strcmp(word, "soft_delete") == 0))
		problem(l, y, "'%s' is not a decision for %s", word,
			l->class == OP_EXEC ? "commands" : "connections");
	else if (l->class == OP_NET && strcmp(word, "redirect") == 0)
		problem(l, y, "'%s' is not a decision of this version for connections", word);
	else if (value_decision(l, y, more[l->class], &d))
		l->rule->decision = (uint8_t)d;
}

static const char *pattern_of(const struct loader *l, uint32_t i)
{
	return l->part[PART_TEXT].data + ((const uint32_t *)(void *)l->part[PART_PATTERNS].data)[i];
}

/* Reports a redirect of files that leads to what it redirects itself. */
static void check_loop(struct loader *l, const struct yaml *y)
{
	const struct snapshot_rule *r = l->rule;
	const char *to = l->part[PART_TEXT].data + r->redirect_to;
	const uint32_t end = r->subject.at + r->subject.n;

	for (uint32_t i = r->subject.at; i < end; i++) {
		const char *from = pattern_of(l, i);
		const char *rest = glob_component(from, glob_fixed(from, NULL));
		cleanup_free char *led = mem_alloc(2 * strlen(to) + strlen(rest) + 2);

		glob_escape(to, led);
		if (*rest != '\0')
			strcat(strcat(led, "/"), rest);
		for (uint32_t k = r->subject.at; k < end; k++)
			if (glob_path_overlaps(pattern_of(l, k), led)) {
				problem(l, y, "'%.100s': this rule redirects what is there itself",
					to);
				return;
			}
	}
}

/* Checks that the keys of a rule fit together. */
static void check_whole(struct loader *l, const struct yaml *y)
{
	static const struct {
		unsigned one_of;
		const char *words;
	} needed[POLICY_RULE_CLASSES] = {
		[OP_FILE] = {COND_PATHS, "'paths'"},
		[OP_EXEC] = {COND_COMMANDS | COND_SCRIPTS | COND_KINDS,
			     "'commands', 'scripts' or 'kinds'"},
		[OP_NET] = {COND_DOMAINS | COND_CIDRS | COND_PORTS | COND_PROTOCOLS,
			    "'domains', 'cidrs', 'ports' or 'protocols'"},
	};
	const struct snapshot_rule *r = l->rule;
	const bool letters = l->class == OP_EXEC && r->flags && !(r->conditions & COND_FLAGS);
	uint32_t i = 0;

	while (i < r->args.n && flags_letters(pattern_of(l, r->args.at + i)) == 0)
		i++;
	if ((r->conditions & needed[l->class].one_of) == 0)
		problem(l, y, "a %s rule needs %s", rule_classes[l->class].name,
			needed[l->class].words);
	if (r->decision == DECISION_redirect && yaml_get(y, "redirect_to") == NULL)
		problem(l, y, "a redirect needs 'redirect_to'");
	else if (r->decision == DECISION_redirect && l->class == OP_FILE && r->redirect_to != 0)
		check_loop(l, yaml_get(y, "redirect_to"));
	if ((letters || (r->args_whole && l->class == OP_EXEC)) &&
	    (r->conditions & (COND_ARGS | COND_REGEX)) == 0)
		problem(l, y, "'flags: true' and 'args_whole' need 'args_pattern' or 'args_regex'");
	else if (letters && r->args_whole)
		problem(l, y, "'flags: true' and 'args_whole' exclude each other");
	else if (letters && i == r->args.n)
		problem_add(&l->p, PROBLEM_WARNING, y->line, y->column,
			    "'flags: true' has no effect: it is for patterns of a dash and "
			    "letters, such as '-rf*'");
}

void rule_load(struct loader *l, const struct yaml *y)
{
	struct snapshot_rule r = {.line = y->line, .column = y->column, .decision = DECISION_deny};
	const struct yaml *decision = yaml_get(y, "decision");
	char what[32];

	l->rule = &r;
	if (decision != NULL)
		read_decision(l, decision);
	snprintf(what, sizeof(what), "key of a %s rule", rule_classes[l->class].name);
	if (!map_read(l, y, "a rule is a map of keys", what, rule_keys))
		return;
	if (decision == NULL)
		problem(l, y, "a rule needs 'decision'");
	if (yaml_get(y, "name") == NULL)
		problem(l, y, "a rule needs 'name'");
	if (l->class == OP_FILE && yaml_get(y, "operations") == NULL)
		r.bits = (1U << OP_FILES) - 1;
	if (r.decision == DECISION_soft_delete && r.bits != 1U << OP_FILE_delete)
		problem(l, y, "'soft_delete' is a way to delete: write 'operations: [delete]'");
	if (l->class == OP_FILE && r.decision == DECISION_redirect && r.bits != FILE_OPS)
		problem(l, yaml_get(y, "operations"),
			"'redirect' is for all operations, because a name leads to one file: leave "
			"out 'operations'");
	if (l->class == OP_FILE && r.flags && r.bits != (1U << OP_FILES) - 1)
		problem(l, y, "'hide' is for all operations: leave out 'operations'");
	check_whole(l, y);
	buf_add(&l->rules[l->class], &r, sizeof(r));
}
