// SPDX-License-Identifier: Apache-2.0
/* Commands.
 *
 * An exec has up to three files: what the kernel runs, what the caller named (maybe a symbolic
 * link to it), and the script that it interprets. A rule that refuses, asks or redirects matches if
 * any of them does, or the name in argv[0], or the applet of a multi-call program: no link, copy
 * of a name or wrapper leads around it. A rule that allows must not be talked into it by a name
 * that the agent can choose: a bare name counts only for files in the system's directories, which
 * a session cannot write; what the caller named counts only there; argv[0] only where it chooses
 * the applet; and what is no plain file (memfd, deleted, ld.so) only if the rule has its kind. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/regex.h"
#include "policy/snapshot.h"

#define FILES 3 /* path, called, script */
#define NAMES 5 /* of the files, argv[0], the applet */

/* What the matcher sees of an op. */
struct subject {
	const struct op *op;
	const char *path[FILES]; /* plain; NULL: none */
	bool system[FILES];	 /* lies in a directory of the system */
	const char *name[NAMES];
	bool trusted[NAMES]; /* may make a rule allow */
};

static const char *const system_dirs[] = {"/usr/bin/", "/bin/",		  "/usr/sbin/",
					  "/sbin/",    "/usr/local/bin/", "/usr/local/sbin/"};
static const char *const multi_call[] = {"busybox", "toybox", "coreutils"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static bool in_system(const char *path)
{
	const size_t len = (size_t)(base_name(path) - path);

	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (strlen(system_dirs[i]) == len && memcmp(system_dirs[i], path, len) == 0)
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

static void read_subject(const struct op *op, struct subject *s)
{
	const char *file[FILES] = {op->exec.path, op->exec.called, op->exec.script};
	const bool multi = is_multi_call(base_name(op->exec.path));
	const bool direct = multi && is_multi_call(zeroth(op));
	/* coreutils obeys its option by any argv[0] that is no program of its own */
	const bool option =
		multi && op->exec.argc > 1 && coreutils_option(op->exec.argv[1]) != NULL;

	*s = (struct subject){.op = op};
	for (unsigned i = 0; i < FILES; i++) {
		if (file[i] == NULL)
			continue;
		s->name[i] = base_name(file[i]);
		if (!glob_plain_path(file[i]))
			continue;
		s->path[i] = file[i];
		s->system[i] = in_system(file[i]);
		s->trusted[i] = s->system[i] && !multi;
	}
	s->name[3] = zeroth(op);
	s->trusted[3] = multi && !direct && !option && s->system[0];
	if (direct || option) {
		s->name[4] = applet(op);
		s->trusted[4] = direct && s->system[0];
	}
}

static bool match_command(const char *pattern, const struct subject *s, bool permits)
{
	if (pattern[0] == '/' || strchr(pattern, '/') != NULL || strcmp(pattern, "**") == 0) {
		for (unsigned i = 0; i < FILES; i++)
			/* a link that the agent made must not lend its name */
			if (s->path[i] != NULL && (!permits || i != 1 || s->system[i]) &&
			    glob_match_path(pattern, s->path[i]))
				return true;
		return false;
	}
	for (unsigned i = 0; i < NAMES; i++)
		if (s->name[i] != NULL && (!permits || s->trusted[i]) &&
		    glob_match_text(pattern, s->name[i]))
			return true;
	return false;
}

/* "-rf": a dash and letters, nothing else. */
static bool is_cluster(const char *s)
{
	if (*s++ != '-' || *s == '\0')
		return false;
	while ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9'))
		s++;
	return *s == '\0';
}

/* Whether the flag is given in one of the arguments, alone or among others, before "--". */
static bool has_flag(const char *const *v, size_t n, char flag)
{
	for (size_t i = 0; i < n && strcmp(v[i], "--") != 0; i++)
		if (v[i][0] == '-' && v[i][1] != '-' && v[i][1] != '\0' &&
		    strchr(v[i] + 1, flag) != NULL)
			return true;
	return false;
}

static bool match_flags(const char *pattern, const char *const *v, size_t n)
{
	if (!is_cluster(pattern))
		return false;
	for (pattern++; *pattern != '\0'; pattern++)
		if (!has_flag(v, n, *pattern))
			return false;
	return true;
}

static bool match_args(const char *pattern, const struct snapshot_rule *r, const char *const *v,
		       size_t n)
{
	if (r->args_whole)
		return glob_match_joined(pattern, v, n);
	if (r->flags && match_flags(pattern, v, n))
		return true;
	for (size_t i = 0; i < n; i++)
		if (glob_match_text(pattern, v[i]) || glob_match_joined(pattern, v + i, n - i))
			return true;
	return false;
}

static bool any_args(const struct policy *p, const struct snapshot_rule *r, const char *const *v,
		     size_t n)
{
	for (uint32_t i = 0; i < r->args.n; i++)
		if (match_args(snapshot_pattern(p, r->args.at + i), r, v, n))
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
		       const struct subject *s)
{
	for (uint32_t i = 0; s->path[2] != NULL && i < r->scripts.n; i++)
		if (glob_match_path(snapshot_pattern(p, r->scripts.at + i), s->path[2]))
			return true;
	return false;
}

static enum match_result match_exec(const struct policy *p, const struct snapshot_rule *r,
				    uint32_t pattern, const void *arg)
{
	const struct subject *s = arg;
	const bool permits = decision_permits((enum decision)r->decision);
	const size_t n = s->op->exec.argc > 0 ? s->op->exec.argc - 1 : 0;
	const char *const *v = n > 0 ? s->op->exec.argv + 1 : NULL;
	const unsigned all = OP_EXEC_MEMFD | OP_EXEC_DELETED | OP_EXEC_LOADER;

	if ((r->conditions & COND_KINDS) ? (s->op->exec.flags & r->bits) == 0
					 : permits && (s->op->exec.flags & all) != 0)
		return MATCH_NO;
	if (pattern != SNAPSHOT_NONE && !match_command(snapshot_pattern(p, pattern), s, permits))
		return MATCH_NO;
	if ((r->conditions & COND_SCRIPTS) && !any_script(p, r, s))
		return MATCH_NO;
	if ((r->conditions & COND_ARGS) && any_args(p, r, v, n))
		return MATCH_YES;
	if (r->conditions & COND_REGEX)
		return any_regex(p, r, v, n);
	return (r->conditions & COND_ARGS) ? MATCH_NO : MATCH_YES;
}

struct found decide_exec(const struct policy *p, const struct op *op)
{
	struct subject subject;
	struct search s = {.p = p,
			   .class = OP_EXEC,
			   .match = match_exec,
			   .arg = &subject,
			   .best = {.rule = SNAPSHOT_NONE}};

	read_subject(op, &subject);
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
