// SPDX-License-Identifier: Apache-2.0
/* Random policies and operations: a slow matcher, written straight from the words of the rules and
 * knowing nothing of snapshots, indexes and caches, agrees with the function that decides, with a
 * cache and without. */
#include "policy/testkit/policy_testkit.h"

#define RULES 12
#define POLICIES 400
#define OPERATIONS 60

static uint32_t seed = 7;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

#define PICK(list) (list)[dice(ARRAY_LEN(list))]

static const char *const path_patterns[] = {
	"/w/**",  "/w/*",    "**/.env", "/w/a/*.c", "**",      "/w/a",	  "/etc/**", "**/x/**",
	"/w/?.c", "/w/[ab]", "/",	"**/*.c",   "/w/**/x", "/w/t/**", "/w/t/*",
};
static const char *const paths[] = {"/",	 "/w",	   "/w/a",     "/w/b",	 "/w/.env",
				    "/w/a/.env", "/etc/p", "/w/a/m.c", "/w/x/y", "/w/q.c",
				    "/w/a/b/x",	 "/x",	   "/.env",    "/w/t/x"};
static const char *const redirected[] = {"/w/a/**", "/w/a/*.c", "/w/x",
					 "/w/x/**", "/w/b/**",	"/w/a/b"};
static const char *const targets[] = {"/w/t", "/w/c", "/w/t/u", "/w/q.c"};
static const char *const commands[] = {"rm",  "ls",  "/usr/bin/ls", "/w/**",
				       "py*", "git", "/w/bin/x"};
static const char *const programs[] = {"/usr/bin/rm",  "/usr/bin/ls", "/w/ls",		 "/w/bin/x",
				       "/usr/bin/py3", "/bin/git",    "/usr/bin/busybox"};
static const char *const arg_patterns[] = {"install*", "-rf", "* x", "a", "-r *", "-fr*"};
static const char *const args[] = {"install", "-rf", "-r",  "-f",    "x",
				   "a",	      "--",  "-fr", "--rec", "--recursive"};
static const char *const domain_patterns[] = {"*", "a.example", "*.a.example", "*.example",
					      "b.test"};
static const char *const hosts[] = {"a.example", "X.A.example.", "example", "b.test", "c.b.test"};
static const char *const blocks[] = {"10.0.0.0/8", "10.1.0.0/16", "fd00::/8", "0.0.0.0/0", "::1"};
static const char *const addresses[] = {"10.1.2.3", "10.9.9.9", "8.8.8.8",
					"fd00::1",  "::1",	"::ffff:10.1.2.3"};

/* A rule in words. */
struct rule {
	enum decision decision;
	bool final, flags, whole, existing;
	unsigned groups;     /* of flags; 2: -f, too */
	unsigned operations; /* 0: all */
	unsigned n;	     /* of patterns */
	const char *pattern[3];
	unsigned nargs;
	const char *arg[2];
	bool kinds; /* memfd */
	const char *block;
	unsigned port, port_to; /* 0: none */
	const char *to;		/* of a redirect */
};
struct words {
	enum decision fallback;
	struct rule rule[RULES];
	unsigned n;
	enum op_class class;
};

/* --- the slow matcher --- */

static bool slow_text(const char *p, const char *pe, const char *t, const char *te)
{
	if (p == pe)
		return t == te;
	if (*p == '*')
		return slow_text(p + 1, pe, t, te) || (t < te && slow_text(p, pe, t + 1, te));
	if (t == te)
		return false;
	if (*p == '[') {
		const char *close = memchr(p, ']', (size_t)(pe - p));

		return memchr(p + 1, *t, (size_t)(close - p - 1)) != NULL &&
		       slow_text(close + 1, pe, t + 1, te);
	}
	return (*p == '?' || *p == *t) && slow_text(p + 1, pe, t + 1, te);
}

static bool slow_name(const char *p, const char *t)
{
	return slow_text(p, p + strlen(p), t, t + strlen(t));
}

static bool slow_path_parts(const char *p, const char *t)
{
	const size_t np = strcspn(p, "/"), nt = strcspn(t, "/");
	const char *next_p = p + np + (p[np] == '/'), *next_t = t + nt + (t[nt] == '/');

	if (*p == '\0')
		return *t == '\0';
	if (np == 2 && p[0] == '*' && p[1] == '*')
		return slow_path_parts(next_p, t) || (*t != '\0' && slow_path_parts(p, next_t));
	return *t != '\0' && slow_text(p, p + np, t, t + nt) && slow_path_parts(next_p, next_t);
}

static bool slow_path(const char *p, const char *t)
{
	return slow_path_parts(p + (*p == '/'), t + 1);
}

static bool slow_file(const struct rule *r, const struct op *op)
{
	if (r->operations != 0 && (r->operations & 1U << op->file.op) == 0)
		return false;
	if (r->existing && op->file.made)
		return false;
	for (unsigned i = 0; i < r->n; i++)
		if (slow_path(r->pattern[i], op->file.path))
			return true;
	return false;
}

static bool permits(const struct rule *r)
{
	return r->decision == DECISION_allow || r->decision == DECISION_log;
}

static const char *last_part(const char *path)
{
	return strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
}

static bool of_system(const char *path)
{
	return strncmp(path, "/usr/bin/", 9) == 0 || strncmp(path, "/bin/", 5) == 0;
}

static bool slow_command(const struct rule *r, const char *pattern, const struct op *op)
{
	const char *zero = op->exec.argc > 0 ? last_part(op->exec.argv[0]) : "";
	const bool multi = strcmp(last_part(op->exec.path), "busybox") == 0;
	const char *applet = multi && strcmp(zero, "busybox") == 0
				     ? (op->exec.argc > 1 ? op->exec.argv[1] : NULL)
				     : zero;
	const char *called = op->exec.called;

	if (strchr(pattern, '/') != NULL)
		return slow_path(pattern, op->exec.path) ||
		       (called != NULL && slow_path(pattern, called) &&
			(!permits(r) || of_system(called)));
	if (!permits(r))
		return slow_name(pattern, last_part(op->exec.path)) || slow_name(pattern, zero) ||
		       (called != NULL && slow_name(pattern, last_part(called))) ||
		       (multi && applet != NULL && slow_name(pattern, applet));
	if (multi)
		return of_system(op->exec.path) && applet != NULL && slow_name(pattern, applet);
	return (of_system(op->exec.path) && slow_name(pattern, last_part(op->exec.path))) ||
	       (called != NULL && of_system(called) && slow_name(pattern, last_part(called)));
}

static void join(const struct op *op, size_t from, char *out)
{
	*out = '\0';
	for (size_t i = from; i < op->exec.argc; i++)
		sprintf(out + strlen(out), "%s%s", i > from ? " " : "", op->exec.argv[i]);
}

static bool slow_flag(const struct op *op, char flag)
{
	for (size_t i = 1; i < op->exec.argc && strcmp(op->exec.argv[i], "--") != 0; i++)
		if (op->exec.argv[i][0] == '-' && op->exec.argv[i][1] != '-' &&
		    strchr(op->exec.argv[i], flag) != NULL)
			return true;
	return false;
}

/* "-r -R --recursive" or "-f". */
static bool slow_group(const struct rule *r, const struct op *op, bool f)
{
	if (slow_flag(op, f ? 'f' : 'r') || (!f && slow_flag(op, 'R')))
		return true;
	for (size_t i = 1; !f && i < op->exec.argc && strcmp(op->exec.argv[i], "--") != 0; i++)
		if (strcmp(op->exec.argv[i], "--recursive") == 0 ||
		    (!permits(r) && strcmp(op->exec.argv[i], "--rec") == 0))
			return true;
	return false;
}

/* Short options that a pattern of a rule with flags stands for. */
static bool slow_letter(const struct rule *r, const struct op *op, char letter)
{
	return slow_flag(op, letter) ||
	       (r->groups > (letter == 'f') && slow_group(r, op, letter == 'f'));
}

static bool slow_args(const struct rule *r, const struct op *op)
{
	char joined[256];

	if ((r->groups > 0 && !slow_group(r, op, false)) ||
	    (r->groups > 1 && !slow_group(r, op, true)))
		return false;

	for (unsigned k = 0; k < r->nargs; k++) {
		if (r->whole) {
			join(op, 1, joined);
			if (slow_name(r->arg[k], joined))
				return true;
			continue;
		}
		if ((r->flags || r->groups > 0) && r->arg[k][0] == '-') {
			if (slow_letter(r, op, 'r') &&
			    (strchr(r->arg[k], 'f') == NULL || slow_letter(r, op, 'f')))
				return true;
			continue;
		}
		for (size_t i = 1; i < op->exec.argc; i++) {
			join(op, i, joined);
			if (slow_name(r->arg[k], op->exec.argv[i]) || slow_name(r->arg[k], joined))
				return true;
		}
	}
	return r->nargs == 0;
}

static bool slow_exec(const struct rule *r, const struct op *op)
{
	bool found = r->n == 0;

	if (r->kinds ? op->exec.flags == 0 : permits(r) && op->exec.flags != 0)
		return false;
	for (unsigned i = 0; i < r->n; i++)
		found |= slow_command(r, r->pattern[i], op);
	return found && slow_args(r, op);
}

static bool slow_domain(const char *pattern, const char *host)
{
	char name[64];
	size_t len = strlen(host);

	for (size_t i = 0; i <= len; i++)
		name[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
	if (len > 0 && name[len - 1] == '.')
		name[--len] = '\0';
	if (strcmp(pattern, "*") == 0)
		return true;
	if (pattern[0] != '*')
		return strcmp(pattern, name) == 0;
	return len >= strlen(pattern) && strcmp(name + len - strlen(pattern) + 1, pattern + 1) == 0;
}

static bool slow_block(const char *block, const struct op_address *a)
{
	char text[64];
	struct op_address base, at = *a;
	unsigned bits;

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(block, "/"), block);
	assert_true(op_address_parse(text, &base));
	bits = strchr(block, '/') != NULL ? (unsigned)atoi(strchr(block, '/') + 1) : 128;
	if (at.family == 6 && memcmp(at.byte, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0) {
		memmove(at.byte, at.byte + 12, 4);
		at.family = 4;
	}
	if (at.family != base.family)
		return false;
	for (unsigned i = 0; i < bits; i++)
		if (((at.byte[i / 8] ^ base.byte[i / 8]) >> (7 - i % 8) & 1) != 0)
			return false;
	return true;
}

static bool slow_net(const struct rule *r, const struct op *op)
{
	const char *host = op->class == OP_DNS ? op->dns.name : op->net.host;
	bool found = r->n == 0;

	for (unsigned i = 0; i < r->n; i++)
		found |= host != NULL ? slow_domain(r->pattern[i], host)
				      : strcmp(r->pattern[i], "*") == 0;
	if (!found)
		return false;
	if (op->class == OP_DNS) {
		if (permits(r))
			return r->n > 0 || r->block == NULL;
		return r->block == NULL && (r->port == 0 || r->decision == DECISION_approve);
	}
	return (r->port == 0 || (op->net.port >= r->port && op->net.port <= r->port_to)) &&
	       (r->block == NULL ||
		(op->net.address.family != 0 && slow_block(r->block, &op->net.address)));
}

/* The index of the first rule that matches, final ones before all others; -1: none. */
static int slow_decide(const struct words *w, const struct op *op)
{
	for (int final = 1; final >= 0; final--)
		for (unsigned i = 0; i < w->n; i++)
			if (w->rule[i].final == final &&
			    (w->class == OP_FILE   ? slow_file(&w->rule[i], op)
			     : w->class == OP_EXEC ? slow_exec(&w->rule[i], op)
						   : slow_net(&w->rule[i], op)))
				return (int)i;
	return -1;
}

/* Whether the rules redirect the path itself: the first redirect that decides an operation. */
static const struct rule *slow_redirect(const struct words *w, const char *path)
{
	struct op op = {.class = OP_FILE, .file = {.path = path, .made = true}};
	int best = -1;

	for (op.file.op = 0; op.file.op < OP_FILES; op.file.op++) {
		const int i = slow_decide(w, &op);

		if (i >= 0 && w->rule[i].decision == DECISION_redirect && (best < 0 || i < best))
			best = i;
	}
	return best >= 0 ? &w->rule[best] : NULL;
}

/* The fixed part of the first pattern that matches, cut off the path. */
static const char *slow_rest(const struct rule *r, const char *path)
{
	unsigned i = 0;
	size_t fixed;

	while (!slow_path(r->pattern[i], path))
		i++;
	fixed = strcspn(r->pattern[i], "*");
	while (r->pattern[i][fixed] != '\0' && r->pattern[i][fixed] != '/')
		fixed--;
	return strlen(path) < fixed ? "" : path + fixed;
}

/* Where the path leads; false: nowhere else. */
static bool slow_target(const struct words *w, const char *path, char *out)
{
	char part[64];

	snprintf(part, sizeof(part), "%s", path);
	for (size_t n = strlen(part); n > 0; n = (size_t)(strrchr(part, '/') - part)) {
		const struct rule *r;

		part[n] = '\0';
		r = slow_redirect(w, part);
		if (r == NULL)
			continue;
		sprintf(out, "%s%s%s", r->to, slow_rest(r, part), path + n);
		return true;
	}
	return false;
}

static int slow_rank(enum decision d)
{
	static const enum decision order[] = {DECISION_allow,	DECISION_redirect,
					      DECISION_log,	DECISION_soft_delete,
					      DECISION_approve, DECISION_deny};
	int i = 0;

	while (order[i] != d)
		i++;
	return i;
}

static enum decision decision_of(const struct words *w, int rule)
{
	return rule >= 0 ? w->rule[rule].decision : w->fallback;
}

/* With both names of a path that is redirected. */
static int slow_decide_both(const struct words *w, const struct op *op, enum decision *decision)
{
	const int at = slow_decide(w, op);
	char target[128], parent[128], of_parent[128];
	struct op other = *op;
	enum decision there;
	int then;

	*decision = decision_of(w, at);
	if (w->class != OP_FILE || strcmp(op->file.path, "/") == 0 ||
	    !slow_target(w, op->file.path, target))
		return at;
	snprintf(parent, sizeof(parent), "%.*s",
		 (int)(last_part(op->file.path) - op->file.path - 1), op->file.path);
	if (!slow_target(w, parent, of_parent))
		strcpy(of_parent, parent);
	sprintf(of_parent + strlen(of_parent), "/%s", last_part(op->file.path));
	other.file.path = target;
	other.file.made = op->file.made && strcmp(of_parent, target) == 0;
	then = slow_decide(w, &other);
	there = decision_of(w, then);
	if (there == DECISION_redirect)
		there = DECISION_deny;
	if (slow_rank(there) <= slow_rank(*decision))
		return at;
	*decision = there;
	return then;
}

/* --- random policies --- */

static struct rule random_rule(enum op_class class)
{
	static const enum decision decisions[] = {DECISION_allow, DECISION_deny, DECISION_approve,
						  DECISION_log};
	struct rule r = {.decision = PICK(decisions)};

	r.final = r.decision == DECISION_deny && dice(3) == 0;
	r.n = 1 + dice(3);
	for (unsigned i = 0; i < r.n; i++)
		r.pattern[i] = class == OP_FILE	  ? PICK(path_patterns)
			       : class == OP_EXEC ? PICK(commands)
						  : PICK(domain_patterns);
	if (class == OP_FILE && dice(2) == 0)
		r.operations = 1 + dice((1U << OP_FILES) - 1);
	r.existing = class == OP_FILE && r.decision == DECISION_deny && dice(2) == 0;
	if (class == OP_FILE && dice(4) == 0) {
		r = (struct rule){
			.decision = DECISION_redirect, .n = 1 + dice(2), .to = PICK(targets)};
		for (unsigned i = 0; i < r.n; i++)
			r.pattern[i] = PICK(redirected);
	}
	if (class == OP_EXEC) {
		r.nargs = dice(3);
		for (unsigned i = 0; i < r.nargs; i++)
			r.arg[i] = PICK(arg_patterns);
		r.flags = r.nargs > 0 && dice(2) == 0;
		r.whole = r.nargs > 0 && !r.flags && dice(3) == 0;
		r.groups = r.flags ? 0 : dice(3);
		r.kinds = dice(5) == 0;
		if (r.kinds && dice(2) == 0)
			r.n = 0;
	}
	if (class == OP_NET) {
		r.block = dice(3) == 0 ? PICK(blocks) : NULL;
		r.port = dice(3) == 0 ? 80 : 0;
		r.port_to = r.port + dice(2);
		if ((r.block != NULL || r.port != 0) && dice(2) == 0)
			r.n = 0;
	}
	return r;
}

static void write_list(struct buf *out, const char *key, const char *const *v, unsigned n)
{
	if (n == 0)
		return;
	buf_addf(out, "    %s: [", key);
	for (unsigned i = 0; i < n; i++)
		buf_addf(out, "%s'%s'", i > 0 ? ", " : "", v[i]);
	buf_adds(out, "]\n");
}

static void write_rule(const struct rule *r, enum op_class class, unsigned i, struct buf *out)
{
	static const char *const key[] = {"paths", "commands", "domains"};

	buf_addf(out, "  - name: r%u\n    decision: %s\n", i, decision_name(r->decision));
	if (r->final)
		buf_adds(out, "    final: true\n");
	if (r->to != NULL)
		buf_addf(out, "    redirect_to: %s\n", r->to);
	write_list(out, key[class], r->pattern, r->n);
	write_list(out, "args_pattern", r->arg, r->nargs);
	write_list(out, "cidrs", &r->block, r->block != NULL);
	if (r->flags)
		buf_adds(out, "    flags: true\n");
	if (r->groups > 0)
		buf_addf(out, "    flags: [[-r, -R, --recursive]%s]\n",
			 r->groups > 1 ? ", [-f]" : "");
	if (r->whole)
		buf_adds(out, "    args_whole: true\n");
	if (r->existing)
		buf_adds(out, "    existing_only: true\n");
	if (r->kinds)
		buf_adds(out, "    kinds: [memfd]\n");
	if (r->port != 0)
		buf_addf(out, "    ports: [%u-%u]\n", r->port, r->port_to);
	if (r->operations == 0)
		return;
	buf_adds(out, "    operations: [");
	for (unsigned o = 0, n = 0; o < OP_FILES; o++)
		if (r->operations & 1U << o)
			buf_addf(out, "%s%s", n++ > 0 ? ", " : "", op_file_name((enum op_file)o));
	buf_adds(out, "]\n");
}

static void write_policy(const struct words *w, struct buf *out)
{
	static const char *const section[] = {"file_rules", "command_rules", "network_rules"};
	static const char *const word[] = {"files", "commands", "network"};

	buf_addf(out, HEAD "default: {%s: %s}\n%s:\n", word[w->class], decision_name(w->fallback),
		 section[w->class]);
	for (unsigned i = 0; i < w->n; i++)
		write_rule(&w->rule[i], w->class, i, out);
}

static struct op random_op(enum op_class class, const char **argv)
{
	struct op op = {.class = class};

	if (class == OP_FILE) {
		op.file.op = (enum op_file)dice(OP_FILES);
		op.file.path = PICK(paths);
		op.file.made = dice(2) == 0;
	} else if (class == OP_EXEC) {
		op.exec.path = PICK(programs);
		op.exec.called = dice(2) == 0 ? PICK(programs) : NULL;
		op.exec.flags = dice(6) == 0 ? OP_EXEC_MEMFD : 0;
		op.exec.argv = argv;
		op.exec.argc = dice(5);
		for (size_t i = 0; i < op.exec.argc; i++)
			argv[i] = i == 0 || dice(6) == 0 ? last_part(PICK(programs)) : PICK(args);
	} else if (dice(3) == 0) {
		op.class = OP_DNS;
		op.dns.name = PICK(hosts);
	} else {
		op.net.host = dice(3) > 0 ? PICK(hosts) : NULL;
		op.net.port = (uint16_t)(79 + dice(4));
		if (dice(3) > 0)
			assert_true(op_address_parse(PICK(addresses), &op.net.address));
	}
	return op;
}

static unsigned matched, unmatched;

static void check_policy(const struct words *w)
{
	cleanup_buf struct buf text = {0};
	const struct policy_options options = {.workspace = "/w"};
	struct policy_kit k;

	write_policy(w, &text);
	policy_kit_open(&k, text.data, &options);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		const char *argv[8];
		const struct op op = random_op(w->class, argv);
		enum decision decision;
		const int want = slow_decide_both(w, &op, &decision);
		const struct verdict v = policy_kit_decide(&k, &op);
		char name[16] = "default";

		if (want >= 0)
			snprintf(name, sizeof(name), "r%d", want);
		if (strcmp(v.rule, name) != 0) {
			cleanup_buf struct buf target = {0};

			op_format_target(&op, &target);
			op_format_args(&op, &target);
			fail_msg("%s\n%s: %s, not %s", text.data, target.data, v.rule, name);
		}
		assert_int_equal(v.decision, decision);
		matched += want >= 0;
		unmatched += want < 0;
	}
	policy_kit_close(&k);
}

static void check_class(enum op_class class)
{
	matched = unmatched = 0;
	for (unsigned i = 0; i < POLICIES; i++) {
		struct words w = {.class = class,
				  .n = 1 + dice(RULES),
				  .fallback = dice(2) == 0 ? DECISION_allow : DECISION_deny};

		for (unsigned r = 0; r < w.n; r++)
			w.rule[r] = random_rule(class);
		check_policy(&w);
	}
	assert_in_range(matched, 1000, POLICIES * OPERATIONS);
	assert_in_range(unmatched, 1000, POLICIES * OPERATIONS);
}

static void pol_6_files_agree_with_the_words(void **state)
{
	check_class(OP_FILE);
}

static void pol_6_commands_agree_with_the_words(void **state)
{
	check_class(OP_EXEC);
}

static void pol_6_connections_agree_with_the_words(void **state)
{
	check_class(OP_NET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_6_files_agree_with_the_words),
		cmocka_unit_test(pol_6_commands_agree_with_the_words),
		cmocka_unit_test(pol_6_connections_agree_with_the_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
