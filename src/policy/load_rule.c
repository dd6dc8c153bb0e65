// SPDX-License-Identifier: Apache-2.0
/* Loads one rule of a policy file by a table of keys, each with its classes and its reader. */
#include "base/id.h"
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/regex.h"
#include "policy/source.h"
#include <stdio.h>

#define ON_FILE (1U << OP_FILE)
#define ON_EXEC (1U << OP_EXEC)
#define ON_NET (1U << OP_NET)
#define ON_ALL (ON_FILE | ON_EXEC | ON_NET)
#define MESSAGE_MAX 1024

static const char *const class_words[POLICY_RULE_CLASSES] = {"file", "command", "network"};
/* Decisions of the specification that this version does not have for files and connections. */
static const char *const later_words[] = {"redirect", "soft_delete", "hide", NULL};

static const char *text_of(const struct yaml *y)
{
	return y->kind == YAML_SCALAR ? y->text : "";
}

static void pattern_problem(struct loader *l, const struct yaml *y, const char *problem_text)
{
	problem(&l->p, y->line, y->column, "'%.100s': %s", text_of(y), problem_text);
}

/* Counts one more pattern; whether it is a text and the policy may still have it. */
static bool countable(struct loader *l, const struct yaml *y)
{
	const char *text;

	if (++l->patterns == POLICY_MAX_PATTERNS + 1)
		problem(&l->p, y->line, y->column, "more than %d patterns in a policy",
			POLICY_MAX_PATTERNS);
	return l->patterns <= POLICY_MAX_PATTERNS && value_text(l, "item", y, &text);
}

/* For a path that does not begin at the root, suggests what its author may have meant. */
static void add_path_to(struct loader *l, const struct yaml *y, struct strv *to)
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
		problem(&l->p, y->line, y->column, "'%.100s': %s (did you mean '%s%.100s'?)",
			y->text, wrong, forms[i].meant, y->text + strlen(forms[i].begin));
	} else if (wrong != NULL) {
		pattern_problem(l, y, wrong);
	} else if (pattern != NULL) {
		strv_add(to, pattern);
	}
}

static void add_path(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	add_path_to(l, y, &r->subject);
}

static void add_script(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	add_path_to(l, y, &r->scripts);
}

static void add_text_to(struct loader *l, const struct yaml *y, struct strv *to)
{
	const char *wrong;

	if (!countable(l, y))
		return;
	wrong = glob_check_text(y->text);
	if (wrong != NULL)
		pattern_problem(l, y, wrong);
	else
		strv_add(to, y->text);
}

/* On most machines /bin is a link to /usr/bin, and a program is known by its resolved path: a path
 * below such a link is added in both forms. */
static void add_command(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	static const char *const links[] = {"/bin/", "/sbin/", "/lib/", "/lib64/"};
	const size_t before = r->subject.n;

	if (strpbrk(text_of(y), "/$") == NULL) {
		add_text_to(l, y, &r->subject);
		return;
	}
	add_path_to(l, y, &r->subject);
	for (size_t i = 0; r->subject.n == before + 1 && i < ARRAY_LEN(links); i++)
		if (strncmp(r->subject.v[before], links[i], strlen(links[i])) == 0) {
			cleanup_free char *behind = mem_printf("/usr%s", r->subject.v[before]);

			strv_add(&r->subject, behind);
		}
}

static void add_args(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	add_text_to(l, y, &r->args);
}

static void add_regex(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	struct err err = {0};

	if (!countable(l, y))
		return;
	if (regex_check(y->text, &err) < 0)
		pattern_problem(l, y, err.message);
	else
		strv_add(&r->regex, y->text);
}

static void add_domain(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	char normal[DOMAIN_ROOM];
	struct op_address address;
	const char *wrong;

	if (!countable(l, y))
		return;
	wrong = domain_check(y->text, normal);
	if (wrong == NULL && op_address_parse(normal, &address))
		wrong = "this is an address, not a name: write it in 'cidrs'";
	if (wrong != NULL)
		pattern_problem(l, y, wrong);
	else
		strv_add(&r->subject, normal);
}

static void add_cidr(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	char fixed[CIDR_TEXT];
	struct cidr c;
	const char *wrong;

	if (!countable(l, y))
		return;
	wrong = cidr_parse(y->text, &c, fixed);
	if (wrong != NULL && fixed[0] != '\0') {
		problem(&l->p, y->line, y->column, "'%.60s': %s (did you mean '%s'?)", y->text,
			wrong, fixed);
		return;
	}
	if (wrong != NULL) {
		pattern_problem(l, y, wrong);
		return;
	}
	r->cidr = mem_resize(r->cidr, r->ncidr + 1, sizeof(*r->cidr));
	r->cidr[r->ncidr++] = c;
}

/* Reads a port number; -1 if the text is not one. */
static long port_number(const char *s, const char **end)
{
	long n = 0;

	*end = s;
	while (**end >= '0' && **end <= '9' && n <= UINT16_MAX)
		n = n * 10 + *(*end)++ - '0';
	return *end > s && n >= 1 && n <= UINT16_MAX ? n : -1;
}

static void add_port(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	const char *end;
	long low, high;

	if (!countable(l, y))
		return;
	low = high = port_number(y->text, &end);
	if (low > 0 && *end == '-')
		high = port_number(end + 1, &end);
	if (low < 0 || high < low || *end != '\0') {
		pattern_problem(l, y, "neither a port (1 to 65535) nor a range such as 8000-8999");
		return;
	}
	r->port = mem_resize(r->port, r->nport + 1, sizeof(*r->port));
	r->port[r->nport++] = (struct port_range){(uint16_t)low, (uint16_t)high};
}

static void add_operation(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	static const char *const known[] = {
#define X(name) #name,
		OP_FILE_LIST(X)
#undef X
			"*",
		NULL};
	enum op_file op;

	if (strcmp(text_of(y), "*") == 0)
		r->bits = (1U << OP_FILES) - 1;
	else if (op_file_parse(text_of(y), &op))
		r->bits |= 1U << op;
	else
		problem_unknown(&l->p, y->line, y->column, "operation", text_of(y), known);
}

static void add_protocol(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	static const char *const known[] = {"tcp", "udp", "icmp", NULL};
	enum op_proto proto;

	if (op_proto_parse(text_of(y), &proto))
		r->bits |= 1U << proto;
	else
		problem_unknown(&l->p, y->line, y->column, "protocol", text_of(y), known);
}

static void add_kind(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	static const char *const known[] = {"memfd", "deleted", "loader", NULL};

	for (unsigned i = 0; known[i] != NULL; i++)
		if (strcmp(text_of(y), known[i]) == 0) {
			r->bits |= 1U << i;
			return;
		}
	problem_unknown(&l->p, y->line, y->column, "kind", text_of(y), known);
}

static void read_name(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	if (!id_valid(text_of(y)))
		problem(&l->p, y->line, y->column,
			"'name' is made of letters, digits, '.', '_' and '-', at most 64");
	else if (strcmp(y->text, "default") == 0)
		problem(&l->p, y->line, y->column,
			"'default' is reserved: it names the decision where no rule matches");
	else
		r->name = mem_strdup(y->text);
}

static void read_message(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	const char *text, *p;

	if (!value_text(l, "message", y, &text))
		return;
	if (strlen(text) > MESSAGE_MAX) {
		problem(&l->p, y->line, y->column, "'message' is longer than %d bytes",
			MESSAGE_MAX);
		return;
	}
	for (p = strchr(text, '{'); p != NULL; p = strchr(p + 1, '{'))
		if (strncmp(p, "{path}", 6) != 0 && strncmp(p, "{args}", 6) != 0)
			warning(&l->p, y->line, y->column,
				"only {path} and {args} are filled in, not '%.20s'", p);
	r->message = mem_strdup(text);
}

static void read_final(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	if (value_bool(l, "final", y, &r->final) && r->final && r->decision != DECISION_deny)
		problem(&l->p, y->line, y->column, "only a deny can be final");
}

static void add_group(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	cleanup_buf struct buf group = {0};

	if (y->kind != YAML_LIST || y->n == 0) {
		problem(&l->p, y->line, y->column,
			"'flags' is true or a list of groups; a command needs one option of each: "
			"[[\"-r\", \"--recursive\"], [\"-f\", \"--force\"]]");
		return;
	}
	for (size_t i = 0; i < y->n; i++) {
		const struct yaml *option = y->item[i].value;
		const char *wrong;

		if (!countable(l, option))
			return;
		wrong = flags_check(option->text);
		if (wrong == NULL && strlen(option->text) > FLAGS_OPTION_MAX)
			wrong = "the option is too long";
		if (wrong != NULL) {
			pattern_problem(l, option, wrong);
			return;
		}
		buf_addf(&group, "%s%s", i > 0 ? " " : "", option->text);
	}
	strv_add(&r->groups, group.data);
}

static void read_flags(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	if (y->kind != YAML_LIST) {
		value_bool(l, "flags", y, &r->flags);
		return;
	}
	if (!value_list(l, "flags", y))
		return;
	r->flags = true;
	r->conditions |= COND_FLAGS;
	for (size_t i = 0; i < y->n; i++)
		add_group(l, y->item[i].value, r);
}

static void read_whole(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	value_bool(l, "args_whole", y, &r->args_whole);
}

static void read_redirect(struct loader *l, const struct yaml *y, struct source_rule *r)
{
	const char *text;

	if (!value_text(l, "redirect_to", y, &text))
		return;
	if (r->decision != DECISION_redirect) {
		problem(&l->p, y->line, y->column, "'redirect_to' needs 'decision: redirect'");
		return;
	}
	r->redirect_to = value_expand(l, y, false);
	if (r->redirect_to != NULL && !glob_plain_path(r->redirect_to))
		pattern_problem(l, y, "expected the absolute path of a program");
}

static const struct rule_key {
	const char *name;
	unsigned classes;
	unsigned condition; /* a rule with the key has it */
	item_fn *item;	    /* reads an item of a list */
	void (*read)(struct loader *l, const struct yaml *y, struct source_rule *r);
	const char *set; /* the kind of sets that the list may name */
} rule_keys[] = {
	{"name", ON_ALL, 0, NULL, read_name, NULL},
	{"decision", ON_ALL, 0, NULL, NULL, NULL}, /* read before the others */
	{"final", ON_ALL, 0, NULL, read_final, NULL},
	{"message", ON_ALL, 0, NULL, read_message, NULL},
	{"paths", ON_FILE, COND_PATHS, add_path, NULL, "paths"},
	{"operations", ON_FILE, 0, add_operation, NULL, NULL},
	{"domains", ON_NET, COND_DOMAINS, add_domain, NULL, "domains"},
	{"cidrs", ON_NET, COND_CIDRS, add_cidr, NULL, NULL},
	{"ports", ON_NET, COND_PORTS, add_port, NULL, NULL},
	{"protocols", ON_NET, COND_PROTOCOLS, add_protocol, NULL, NULL},
	{"commands", ON_EXEC, COND_COMMANDS, add_command, NULL, "commands"},
	{"args_pattern", ON_EXEC, COND_ARGS, add_args, NULL, NULL},
	{"args_regex", ON_EXEC, COND_REGEX, add_regex, NULL, NULL},
	{"args_whole", ON_EXEC, 0, NULL, read_whole, NULL},
	{"flags", ON_EXEC, 0, NULL, read_flags, NULL},
	{"scripts", ON_EXEC, COND_SCRIPTS, add_script, NULL, "paths"},
	{"kinds", ON_EXEC, COND_KINDS, add_kind, NULL, NULL},
	{"redirect_to", ON_EXEC, 0, NULL, read_redirect, NULL},
};

static bool is_one_of(const char *word, const char *const *list)
{
	while (*list != NULL && strcmp(*list, word) != 0)
		list++;
	return *list != NULL;
}

static void read_decision(struct loader *l, const struct yaml *y, enum op_class class,
			  struct source_rule *r)
{
	static const char *const known[] = {"allow", "deny", "approve", "log", NULL};
	static const char *const exec_known[] = {"allow", "deny",     "approve",
						 "log",	  "redirect", NULL};
	const char *const *words = class == OP_EXEC ? exec_known : known;

	if (is_one_of(text_of(y), words))
		decision_parse(y->text, &r->decision);
	else if (!is_one_of(text_of(y), later_words))
		problem_unknown(&l->p, y->line, y->column, "decision", text_of(y), words);
	else if (class == OP_EXEC)
		problem(&l->p, y->line, y->column, "'%s' is not a decision for commands", y->text);
	else
		problem(&l->p, y->line, y->column,
			"'%s' needs the workspace, which this version does not have", y->text);
}

static void read_key(struct loader *l, const struct yaml_item *item, enum op_class class,
		     struct source_rule *r)
{
	const char *known[ARRAY_LEN(rule_keys) + 1] = {NULL};
	const struct rule_key *key = NULL;
	const struct yaml *y = item->value;
	char what[32];

	for (size_t i = 0, n = 0; i < ARRAY_LEN(rule_keys); i++) {
		if ((rule_keys[i].classes & 1U << class) == 0)
			continue;
		known[n++] = rule_keys[i].name;
		if (strcmp(rule_keys[i].name, item->key) == 0)
			key = &rule_keys[i];
	}
	if (key == NULL) {
		snprintf(what, sizeof(what), "key of a %s rule", class_words[class]);
		problem_unknown(&l->p, item->key_line, item->key_column, what, item->key, known);
		return;
	}
	r->conditions |= key->condition;
	if (key->read != NULL)
		key->read(l, y, r);
	if (key->item == NULL || !value_list(l, key->name, y))
		return;
	for (size_t i = 0; i < y->n; i++)
		if (key->set != NULL)
			set_each(l, key->set, y->item[i].value, key->item, r);
		else
			key->item(l, y->item[i].value, r);
}

/* Checks that the keys of a rule fit together. */
static void check_whole(struct loader *l, enum op_class class, const struct source_rule *r)
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
	const bool letters = r->flags && !(r->conditions & COND_FLAGS);
	size_t i = 0;

	while (i < r->args.n && flags_letters(r->args.v[i]) == 0)
		i++;

	if ((r->conditions & needed[class].one_of) == 0)
		problem(&l->p, r->line, r->column, "a %s rule needs %s", class_words[class],
			needed[class].words);
	if (r->decision == DECISION_redirect && r->redirect_to == NULL)
		problem(&l->p, r->line, r->column, "a redirect needs 'redirect_to'");
	if (((letters || r->args_whole) && (r->conditions & (COND_ARGS | COND_REGEX)) == 0))
		problem(&l->p, r->line, r->column,
			"'flags: true' and 'args_whole' need 'args_pattern' or 'args_regex'");
	else if (letters && r->args_whole)
		problem(&l->p, r->line, r->column,
			"'flags: true' and 'args_whole' exclude each other");
	else if (letters && i == r->args.n)
		warning(&l->p, r->line, r->column,
			"'flags: true' has no effect: it is for patterns of a dash and letters, "
			"such as '-rf*'");
}

void rule_load(struct loader *l, enum op_class class, const struct yaml *y)
{
	struct source_rules *rules = &l->to->rules[class];
	struct source_rule *r;
	const struct yaml *decision = yaml_get(y, "decision");

	if (y->kind != YAML_MAP) {
		problem(&l->p, y->line, y->column, "a rule is a map of keys");
		return;
	}
	/* the array grows when n is a power of two */
	if ((rules->n & (rules->n - 1)) == 0)
		rules->v = mem_resize(rules->v, rules->n > 0 ? rules->n * 2 : 1, sizeof(*rules->v));
	r = &rules->v[rules->n++];
	*r = (struct source_rule){.line = y->line, .column = y->column, .decision = DECISION_deny};
	if (decision != NULL)
		read_decision(l, decision, class, r);
	else
		problem(&l->p, y->line, y->column, "a rule needs 'decision'");
	for (size_t i = 0; i < y->n; i++)
		read_key(l, &y->item[i], class, r);
	if (yaml_get(y, "name") == NULL)
		problem(&l->p, y->line, y->column, "a rule needs 'name'");
	if (class == OP_FILE && yaml_get(y, "operations") == NULL)
		r->bits = (1U << OP_FILES) - 1;
	check_whole(l, class, r);
}

void rule_done(struct source_rule *r)
{
	free(r->name);
	free(r->message);
	free(r->redirect_to);
	strv_done(&r->subject);
	strv_done(&r->scripts);
	strv_done(&r->args);
	strv_done(&r->regex);
	strv_done(&r->groups);

	free(r->cidr);
	free(r->port);
}
