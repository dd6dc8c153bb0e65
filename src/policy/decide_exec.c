// SPDX-License-Identifier: Apache-2.0
/* Decides commands.
 *
 * An exec has several files: the file that the kernel runs, the path that the caller named (maybe a
 * symbolic link to it), the script that it interprets, and interpreters that are scripts
 * themselves. A rule that denies, asks or redirects matches if any of these files matches, or the
 * name in argv[0], or the applet of a multi-call program: a link, a copy of a name or a wrapper
 * does not get around it.
 *
 * So does the path on the host of a file of the workspace.
 *
 * A rule that allows must not match by a name that the agent can choose. A bare name and the path
 * that the caller named count only in the system's directories, which a session cannot write. A
 * script counts only if its name cannot lead elsewhere when its interpreter opens it. argv[0]
 * counts only where it chooses the applet. A program that is not a plain file (memfd, deleted,
 * ld.so) matches only if the rule names its kind. A rule about arguments is over its limit if the
 * policy did not see all arguments.
 *
 * The built-in rule no-privilege is tried first: no program of a session can raise its privilege,
 * so programs made for it are denied with a reason, even by a policy that allows everything. */
#include "base/mem.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/regex.h"
#include "policy/snapshot.h"

enum file_name { PATH, CALLED, SCRIPT, CHAIN };
#define OWN_FILES (CHAIN + OP_EXEC_CHAIN_MAX)
#define FILES (2 * OWN_FILES)			   /* then the same by their paths on the host */
enum other_name { ZEROTH = FILES, APPLET, NAMES }; /* behind the names of the files */
#define ARGS_MAX ((size_t)192 * 1024)		   /* bytes of arguments that are compared */
#define ARGC_MAX 16384

/* The properties of an op that rules match. */
struct subject {
	const struct op *op;
	const char *path[FILES]; /* plain; NULL: none */
	bool system[FILES];	 /* lies in a directory of the system */
	const char *name[NAMES];
	bool trusted[NAMES]; /* may make a rule allow */
	bool unseen;	     /* has arguments that the policy cannot compare */
};

const char *const decide_system_dirs[] = {
	"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/", "/usr/local/sbin/", NULL};
static const char *const multi_call[] = {"busybox", "toybox", "coreutils"};

bool decide_in_system(const char *path)
{
	const size_t len = (size_t)(glob_name(path) - path);

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
	const char *name = op->exec.argc > 0 ? glob_name(op->exec.argv[0]) : "";

	return name + (name[0] == '-');
}

/* The program that an option of coreutils names; NULL if the argument is another option. */
static const char *coreutils_option(const char *arg)
{
	static const char *const option[] = {"--coreutils-prog=", "--coreutils-prog-shebang="};

	for (size_t i = 0; i < ARRAY_LEN(option); i++)
		if (strncmp(arg, option[i], strlen(option[i])) == 0)
			return arg + strlen(option[i]);
	return NULL;
}

/* A link that the agent made must not make a rule allow, nor must a script whose name can change.
 */
static bool may_allow(const struct subject *s, unsigned file)
{
	return file == PATH || (file == CALLED && s->system[CALLED]) ||
	       (file == SCRIPT && (s->op->exec.flags & OP_EXEC_LOOSE) == 0);
}

static void read_subject(const struct policy *p, const struct op *op, struct subject *s,
			 char real[OWN_FILES][POLICY_NAME_MAX])
{
	const char *file[OWN_FILES] = {
		[PATH] = op->exec.path, [CALLED] = op->exec.called, [SCRIPT] = op->exec.script};
	const bool multi = is_multi_call(glob_name(op->exec.path));
	const bool direct = multi && is_multi_call(zeroth(op));
	/* coreutils reads this option if argv[0] is not one of its own programs */
	const bool option =
		multi && op->exec.argc > 1 && coreutils_option(op->exec.argv[1]) != NULL;

	ensure(op->exec.nchain <= OP_EXEC_CHAIN_MAX);
	for (size_t i = 0; i < op->exec.nchain; i++)
		file[CHAIN + i] = op->exec.chain[i];
	*s = (struct subject){.op = op,
			      .unseen = (op->exec.flags & OP_EXEC_CUT) != 0 ||
					op->exec.argc > ARGC_MAX};
	for (size_t i = 1, bytes = 0; i < op->exec.argc && !s->unseen; i++) {
		bytes += strlen(op->exec.argv[i]) + 1;
		s->unseen = bytes > ARGS_MAX;
	}
	for (unsigned i = 0; i < OWN_FILES; i++) {
		if (file[i] == NULL)
			continue;
		s->name[i] = glob_name(file[i]);
		if (!glob_plain_path(file[i]))
			continue;
		s->path[i] = file[i];
		s->path[OWN_FILES + i] = policy_real_name(p, file[i], real[i]);
		s->system[i] = decide_in_system(file[i]);
		s->trusted[i] = s->system[i] && !multi && may_allow(s, i);
	}
	s->name[ZEROTH] = zeroth(op);
	s->trusted[ZEROTH] = multi && !direct && !option && s->system[PATH];
	s->trusted[APPLET] = direct && s->system[PATH];
	/* the applet is the first argument that is not the program's own name again */
	for (size_t i = 1; (direct || option) && i < op->exec.argc && s->name[APPLET] == NULL;
	     i++) {
		const char *named = coreutils_option(op->exec.argv[i]);
		const char *name = glob_name(named != NULL ? named : op->exec.argv[i]);

		if (!is_multi_call(name))
			s->name[APPLET] = name;
	}
}

/* Compares the names of files and applets; argv[0] counts only where it chooses the applet. */
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

/* Returns the index of the file (below OWN_FILES) or name that matches, or NAMES. */
static unsigned match_command(const char *pattern, const struct subject *s, bool permits)
{
	unsigned i;

	if (glob_is_path(pattern)) {
		for (i = 0; i < FILES; i++)
			if (s->path[i] != NULL && (!permits || may_allow(s, i)) &&
			    glob_match_path(pattern, s->path[i]))
				return i % OWN_FILES;
		return NAMES;
	}
	for (i = 0; i < NAMES; i++)
		if (s->name[i] != NULL && (!permits || s->trusted[i]) &&
		    glob_match_text(pattern, s->name[i]))
			return i;
	return NAMES;
}

/* Whether a group of the rule has the letter and the command line has an option of that group. */
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

static bool match_args(const struct policy *p, const struct snapshot_rule *r, const char *pattern,
		       const struct flags_line *line)
{
	const size_t letters = r->flags ? flags_letters(pattern) : 0;

	if (r->args_whole)
		return glob_match_joined(pattern, line->v, line->n);
	if (letters > 0) {
		for (size_t i = 1; i <= letters; i++)
			if (!flags_letter_given(line, pattern[i]) &&
			    !synonym_given(p, r, line, pattern[i]))
				return false;
		return true;
	}
	for (size_t i = 0; i < line->n; i++)
		if (glob_match_text(pattern, line->v[i]))
			return true;
	return glob_match_rests(pattern, line->v, line->n);
}

static enum match_result match_line(const struct policy *p, const struct snapshot_rule *r,
				    const char *const *v, size_t n)
{
	const struct flags_line line = {v, n, !decision_permits(r->decision)};

	for (uint32_t i = 0; i < r->groups.n; i++)
		if (!flags_group_given(&line, snapshot_pattern(p, r->groups.at + i)))
			return MATCH_NO;
	if ((r->conditions & (COND_ARGS | COND_REGEX)) == 0)
		return MATCH_YES;
	for (uint32_t i = 0; i < r->args.n; i++)
		if (match_args(p, r, snapshot_pattern(p, r->args.at + i), &line))
			return MATCH_YES;
	for (uint32_t i = 0; i < r->regex.n; i++) {
		const enum regex_result got =
			regexes_match(p->regexes, r->regex.at + i, v, n, r->args_whole);

		if (got != REGEX_NO)
			return got == REGEX_YES ? MATCH_YES : MATCH_OVER;
	}
	return MATCH_NO;
}

/* The arguments of a script come last among those of its interpreter. A rule for the whole line
 * means the script's arguments if it names the script; a rule that restricts means either. Options
 * of a script are looked for among its own too, because those of its interpreter may end with "--".
 */
static enum match_result match_exec(const struct policy *p, const struct snapshot_rule *r,
				    uint32_t pattern, const void *arg)
{
	const struct subject *s = arg;
	const bool permits = decision_permits(r->decision);
	const unsigned flags = s->op->exec.flags & OP_EXEC_KINDS;
	const char *const *v = s->op->exec.argv;
	const size_t argc = s->op->exec.argc, own = op_exec_own(s->op);
	enum match_result got = MATCH_NO;
	unsigned which = PATH;
	bool script = !(r->conditions & COND_SCRIPTS), names_script;

	if ((r->conditions & COND_KINDS) ? (flags & r->bits) == 0 : permits && flags != 0)
		return MATCH_NO;
	if (pattern != SNAPSHOT_NONE)
		which = match_command(snapshot_pattern(p, pattern), s, permits);
	if (which == NAMES)
		return MATCH_NO;
	for (unsigned f = SCRIPT; f < FILES && !script; f++)
		for (uint32_t i = 0;
		     f % OWN_FILES >= SCRIPT && s->path[f] != NULL && i < r->scripts.n; i++)
			script |=
				(!permits || may_allow(s, f)) &&
				glob_match_path(snapshot_pattern(p, r->scripts.at + i), s->path[f]);
	if (!script || !(r->conditions & (COND_ARGS | COND_REGEX | COND_FLAGS)))
		return script ? MATCH_YES : MATCH_NO;
	if (s->unseen)
		return MATCH_OVER;
	names_script = s->path[SCRIPT] != NULL && which != PATH;
	if (!(r->args_whole && permits && names_script))
		got = match_line(p, r, v + (argc > 0), argc - (argc > 0));
	if (got == MATCH_NO && (r->args_whole || r->flags) && own > 1 && own <= argc &&
	    (names_script || !permits))
		got = match_line(p, r, v + own, argc - own);
	return got;
}

struct rule_found decide_exec(struct rule_search s, const struct op *op)
{
	char real[OWN_FILES][POLICY_NAME_MAX];
	struct subject subject;

	read_subject(s.p, op, &subject, real);
	if (raises_privilege(&subject))
		return (struct rule_found){.rule = SNAPSHOT_NO_PRIVILEGE};
	if (s.p->regexes != NULL)
		regexes_begin(s.p->regexes);
	s.match = match_exec;
	s.arg = &subject;
	search_key(&s, SNAPSHOT_ALWAYS);
	for (unsigned i = 0; i < NAMES; i++)
		if (subject.name[i] != NULL)
			search_key(&s, snapshot_hash(KEY_NAME, subject.name[i],
						     strlen(subject.name[i])));
	for (unsigned i = 0; i < FILES; i++)
		if (subject.path[i] != NULL)
			search_path(&s, subject.path[i]);
	return s.best;
}
