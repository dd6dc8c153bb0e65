// SPDX-License-Identifier: Apache-2.0
/* Commands.
 *
 * An exec has several files: what the kernel runs, what the caller named (maybe a symbolic link to
 * it), the script that it interprets, and interpreters that are scripts themselves. A rule that
 * refuses, asks or redirects matches if any of them does, or the name in argv[0], or the applet of
 * a multi-call program: no link, copy of a name or wrapper leads around it. A rule that allows must
 * not be talked into it by a name that the agent can choose: a bare name counts only for files in
 * the system's directories, which a session cannot write; what the caller named counts only there;
 * a script only if its name cannot lead elsewhere when its interpreter opens it; argv[0] only where
 * it chooses the applet; and what is no plain file (memfd, deleted, ld.so) only if the rule has its
 * kind. A rule about arguments that were not all seen is over its limit.
 *
 * Before all rules comes the built-in one, no-privilege: no program of a session can raise its
 * privilege, so those that are for it are refused with a reason, also where all is allowed. */
#include "base/mem.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/regex.h"
#include "policy/snapshot.h"

enum { PATH, CALLED, SCRIPT, CHAIN };
#define FILES (CHAIN + OP_EXEC_CHAIN_MAX)
enum { ZEROTH = FILES, APPLET, NAMES }; /* behind the names of the files */
#define ARGS_MAX ((size_t)192 * 1024)	/* bytes of arguments that are compared */
#define ARGC_MAX 16384

/* What the matcher sees of an op. */
struct subject {
	const struct op *op;
	const char *path[FILES]; /* plain; NULL: none */
	bool system[FILES];	 /* lies in a directory of the system */
	const char *name[NAMES];
	bool trusted[NAMES]; /* may make a rule allow */
	bool unseen;	     /* has arguments that no pattern can be tried on */
};

const char *const decide_system_dirs[] = {
	"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/", "/usr/local/sbin/", NULL};
static const char *const multi_call[] = {"busybox", "toybox", "coreutils"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

bool decide_in_system(const char *path)
{
	const size_t len = (size_t)(base_name(path) - path);

	for (const char *const *dir = decide_system_dirs; *dir != NULL; dir++)
		if (strlen(*dir) == len && memcmp(*dir, path, len) == 0)
			return true;
	return false;
}

/* busybox and toybox answer to every name that begins with theirs. */
static bool is_multi_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(multi_call); i++)
		if (strncmp(multi_call[i], name, strlen(multi_call[i])) == 0)
			return true;
	return false;
}

/* argv[0] of a login shell begins with a dash. */
static const char *zeroth(const struct op *op)
{
	const char *name = op->exec.argc > 0 ? base_name(op->exec.argv[0]) : "";

	return name + (name[0] == '-');
}

/* The program that an option of coreutils names; NULL: the argument is no such option. */
static const char *coreutils_option(const char *arg)
{
	static const char *const option[] = {"--coreutils-prog=", "--coreutils-prog-shebang="};

	for (size_t i = 0; i < ARRAY_LEN(option); i++)
		if (strncmp(arg, option[i], strlen(option[i])) == 0)
			return arg + strlen(option[i]);
	return NULL;
}

/* What a multi-call program is asked to be: the first argument that is not its own name again;
 * NULL: nothing. */
static const char *applet(const struct op *op)
{
	for (size_t i = 1; i < op->exec.argc; i++) {
		const char *named = coreutils_option(op->exec.argv[i]);
		const char *name = base_name(named != NULL ? named : op->exec.argv[i]);

		if (!is_multi_call(name))
			return name;
	}
	return NULL;
}

static bool has_too_many(const struct op *op)
{
	size_t left = ARGS_MAX;

	if ((op->exec.flags & OP_EXEC_CUT) != 0 || op->exec.argc > ARGC_MAX)
		return true;
	for (size_t i = 1; i < op->exec.argc; i++) {
		const size_t len = strlen(op->exec.argv[i]) + 1;

		if (len > left)
			return true;
		left -= len;
	}
	return false;
}

/* A link that the agent made must not lend its name, a script not its own to another. */
static bool may_allow(const struct subject *s, unsigned file)
{
	switch (file) {
	case PATH:
		return true;
	case CALLED:
		return s->system[CALLED];
	case SCRIPT:
		return (s->op->exec.flags & OP_EXEC_LOOSE) == 0;
	default:
		return false;
	}
}

static void read_subject(const struct op *op, struct subject *s)
{
	const char *file[FILES] = {
		[PATH] = op->exec.path, [CALLED] = op->exec.called, [SCRIPT] = op->exec.script};
	const bool multi = is_multi_call(base_name(op->exec.path));
	const bool direct = multi && is_multi_call(zeroth(op));
	/* coreutils obeys its option by any argv[0] that is no program of its own */
	const bool option =
		multi && op->exec.argc > 1 && coreutils_option(op->exec.argv[1]) != NULL;

	ensure(op->exec.nchain <= OP_EXEC_CHAIN_MAX);
	for (size_t i = 0; i < op->exec.nchain; i++)
		file[CHAIN + i] = op->exec.chain[i];
	*s = (struct subject){.op = op, .unseen = has_too_many(op)};
	for (unsigned i = 0; i < FILES; i++) {
		if (file[i] == NULL)
			continue;
		s->name[i] = base_name(file[i]);
		if (!glob_plain_path(file[i]))
			continue;
		s->path[i] = file[i];
		s->system[i] = decide_in_system(file[i]);
		s->trusted[i] = s->system[i] && !multi && may_allow(s, i);
	}
	s->name[ZEROTH] = zeroth(op);
	s->trusted[ZEROTH] = multi && !direct && !option && s->system[PATH];
	if (direct || option) {
		s->name[APPLET] = applet(op);
		s->trusted[APPLET] = direct && s->system[PATH];
	}
}

/* For the names of files and applets; argv[0] counts only where it chooses the applet. */
static bool raises_privilege(const struct subject *s)
{
	static const char *const raising[] = {"sudo", "su", "doas", "pkexec"};
	const bool multi = is_multi_call(s->name[PATH]);

	if ((s->op->exec.flags & OP_EXEC_SETID) != 0)
		return true;
	for (unsigned i = 0; i < NAMES; i++)
		for (size_t j = 0; j < ARRAY_LEN(raising); j++)
			if (s->name[i] != NULL && (i != ZEROTH || multi) &&
			    strcmp(s->name[i], raising[j]) == 0)
				return true;
	return false;
}

/* Which file or name it is; NAMES: none. */
static unsigned match_command(const char *pattern, const struct subject *s, bool permits)
{
	unsigned i;

	if (pattern[0] == '/' || strchr(pattern, '/') != NULL || strcmp(pattern, "**") == 0) {
		for (i = 0; i < FILES; i++)
			if (s->path[i] != NULL && (!permits || may_allow(s, i)) &&
			    glob_match_path(pattern, s->path[i]))
				return i;
		return NAMES;
	}
	for (i = 0; i < NAMES; i++)
		if (s->name[i] != NULL && (!permits || s->trusted[i]) &&
		    glob_match_text(pattern, s->name[i]))
			return i;
	return NAMES;
}

/* Whether a rule's groups say that something else stands for the letter, and it is given. */
static bool synonym_given(const struct policy *p, const struct snapshot_rule *r,
			  const struct flags_line *line, char letter)
{
	const char option[] = {'-', letter};

	for (uint32_t i = 0; i < r->groups.n; i++) {
		const char *group = snapshot_pattern(p, r->groups.at + i);

		if (flags_group_has(group, option, sizeof(option)) &&
		    flags_group_given(line, group))
			return true;
	}
	return false;
}

static bool match_letters(const struct policy *p, const struct snapshot_rule *r,
			  const struct flags_line *line, const char *letters, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!flags_letter_given(line, letters[i]) && !synonym_given(p, r, line, letters[i]))
			return false;
	return true;
}

static bool match_groups(const struct policy *p, const struct snapshot_rule *r,
			 const struct flags_line *line)
{
	for (uint32_t i = 0; i < r->groups.n; i++)
		if (!flags_group_given(line, snapshot_pattern(p, r->groups.at + i)))
			return false;
	return true;
}

static bool match_args(const struct policy *p, const struct snapshot_rule *r, const char *pattern,
		       const struct flags_line *line)
{
	const size_t letters = r->flags ? flags_letters(pattern) : 0;

	if (r->args_whole)
		return glob_match_joined(pattern, line->v, line->n);
	if (letters > 0)
		return match_letters(p, r, line, pattern + 1, letters);
	for (size_t i = 0; i < line->n; i++)
		if (glob_match_text(pattern, line->v[i]))
			return true;
	return glob_match_rests(pattern, line->v, line->n);
}

static bool any_args(const struct policy *p, const struct snapshot_rule *r,
		     const struct flags_line *line)
{
	for (uint32_t i = 0; i < r->args.n; i++)
		if (match_args(p, r, snapshot_pattern(p, r->args.at + i), line))
			return true;
	return false;
}

static enum match_result any_regex(const struct policy *p, const struct snapshot_rule *r,
				   const char *const *v, size_t n)
{
	for (uint32_t i = 0; i < r->regex.n; i++) {
		const enum regex_result got = regexes_match_args(
			p->regexes, p->regex_of[r->regex.at + i], v, n, r->args_whole);

		if (got != REGEX_NO)
			return got == REGEX_YES ? MATCH_YES : MATCH_OVER;
	}
	return MATCH_NO;
}

static bool any_script(const struct policy *p, const struct snapshot_rule *r,
		       const struct subject *s, bool permits)
{
	for (unsigned f = SCRIPT; f < FILES; f++)
		for (uint32_t i = 0; s->path[f] != NULL && i < r->scripts.n; i++)
			if ((!permits || may_allow(s, f)) &&
			    glob_match_path(snapshot_pattern(p, r->scripts.at + i), s->path[f]))
				return true;
	return false;
}

static enum match_result match_line(const struct policy *p, const struct snapshot_rule *r,
				    const char *const *v, size_t n)
{
	const struct flags_line line = {v, n, !decision_permits((enum decision)r->decision)};

	if ((r->conditions & COND_FLAGS) && !match_groups(p, r, &line))
		return MATCH_NO;
	if ((r->conditions & (COND_ARGS | COND_REGEX)) == 0 ||
	    ((r->conditions & COND_ARGS) && any_args(p, r, &line)))
		return MATCH_YES;
	return (r->conditions & COND_REGEX) ? any_regex(p, r, v, n) : MATCH_NO;
}

/* The arguments of the program, among which those of a script come last. A rule for the whole line
 * means the script's if it names the script; one that restricts, either. Options of a script are
 * looked for among its own too, because those of its interpreter may end with "--". */
static enum match_result match_arguments(const struct policy *p, const struct snapshot_rule *r,
					 const struct subject *s, bool names_script)
{
	const size_t argc = s->op->exec.argc, own = op_exec_own(s->op);
	const char *const *v = s->op->exec.argv;
	const bool permits = decision_permits((enum decision)r->decision);
	enum match_result got = MATCH_NO;

	if (s->unseen)
		return MATCH_OVER;
	if (!(r->args_whole && permits && names_script))
		got = match_line(p, r, v + (argc > 0), argc - (argc > 0));
	if (got == MATCH_NO && (r->args_whole || r->flags) && own > 1 && own <= argc &&
	    (names_script || !permits))
		got = match_line(p, r, v + own, argc - own);
	return got;
}

static enum match_result match_exec(const struct policy *p, const struct snapshot_rule *r,
				    uint32_t pattern, const void *arg)
{
	const struct subject *s = arg;
	const bool permits = decision_permits((enum decision)r->decision);
	const unsigned flags = s->op->exec.flags & OP_EXEC_KINDS;
	unsigned which = PATH;

	if ((r->conditions & COND_KINDS) ? (flags & r->bits) == 0 : permits && flags != 0)
		return MATCH_NO;
	if (pattern != SNAPSHOT_NONE)
		which = match_command(snapshot_pattern(p, pattern), s, permits);
	if (which == NAMES)
		return MATCH_NO;
	if ((r->conditions & COND_SCRIPTS) && !any_script(p, r, s, permits))
		return MATCH_NO;
	if (r->conditions & (COND_ARGS | COND_REGEX | COND_FLAGS))
		return match_arguments(p, r, s, s->path[SCRIPT] != NULL && which != PATH);
	return MATCH_YES;
}

struct rule_found decide_exec(const struct policy *p, const struct op *op)
{
	struct subject subject;
	struct rule_search s = {.p = p,
				.class = OP_EXEC,
				.match = match_exec,
				.arg = &subject,
				.best = {.rule = SNAPSHOT_NONE}};

	read_subject(op, &subject);
	if (raises_privilege(&subject))
		return (struct rule_found){.rule = SNAPSHOT_NO_PRIVILEGE};
	if (p->regexes != NULL)
		regexes_begin(p->regexes);
	search_always(&s);
	for (unsigned i = 0; i < NAMES; i++)
		if (subject.name[i] != NULL)
			search_key(&s, snapshot_hash(KEY_NAME, subject.name[i],
						     strlen(subject.name[i])));
	for (unsigned i = 0; i < FILES; i++)
		if (subject.path[i] != NULL)
			search_path(&s, subject.path[i]);
	return s.best;
}
