// SPDX-License-Identifier: Apache-2.0
#include "shell/builtins.h"
#include "base/mem.h"
#include "base/path.h"
#include "shell/alias.h"
#include "shell/session_root.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#define BUILTIN_USAGE 2 /* exit code of shells for a wrong option */
#define DIRS_MAX 60
#define BAD_NAME "`%s': not a valid identifier"

/* Adds "NAME: message" to stderr, NAME being the builtin's; returns status. */
__attribute__((format(printf, 3, 4))) static int fail(struct builtin_call *c, int status,
						      const char *fmt, ...)
{
	va_list ap;

	buf_addf(&c->err, "%s: ", c->argv->v[0]);
	va_start(ap, fmt);
	buf_addv(&c->err, fmt, ap);
	va_end(ap);
	buf_addc(&c->err, '\n');
	return status;
}

/* ---- variables, aliases, history ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The environment that a command would get, sorted by name. */
static void whole_env(const struct builtin_call *c, struct strv *out)
{
	const struct env_ask ask = {c->session_id, c->cwd, c->request, &c->memory->dropped};

	env_build(c->memory, &ask, out);
	qsort(out->v, out->n, sizeof(*out->v), by_text);
}

static int run_env(struct builtin_call *c)
{
	struct strv env = {0};

	whole_env(c, &env);
	for (size_t i = 0; i < env.n; i++)
		buf_addf(&c->out, "%s\n", env.v[i]);
	strv_done(&env);
	return 0;
}

/* declare -x NAME="value", with what is special inside double quotes escaped. */
static void add_declaration(struct buf *out, const char *entry)
{
	const size_t len = strcspn(entry, "=");

	buf_addf(out, "declare -x %.*s=\"", (int)len, entry);
	for (const char *p = entry + len + 1; *p != '\0'; p++) {
		if (strchr("\"\\$`", *p) != NULL)
			buf_addc(out, '\\');
		buf_addc(out, *p);
	}
	buf_adds(out, "\"\n");
}

static int run_export(struct builtin_call *c)
{
	int status = 0;

	if (c->first >= c->argv->n) {
		struct strv env = {0};

		whole_env(c, &env);
		for (size_t i = 0; i < env.n; i++)
			add_declaration(&c->out, env.v[i]);
		strv_done(&env);
	}
	for (size_t i = c->first; i < c->argv->n; i++) {
		const char *word = c->argv->v[i];
		const size_t len = strcspn(word, "=");
		cleanup_free char *name = mem_strndup(word, len);
		struct err err = {0};

		if (!env_name_valid(word, len))
			status = fail(c, 1, BAD_NAME, word);
		else if (c->option == 'n')
			strv_env_unset(&c->memory->env, name);
		else if (word[len] == '=' && env_set(c->memory, name, word + len + 1, &err) < 0)
			status = fail(c, 1, "%s: %s", name, err.message);
	}
	return status;
}

/* -f does nothing, because functions do not survive a script. */
static int run_unset(struct builtin_call *c)
{
	int status = 0;

	for (size_t i = c->first; i < c->argv->n && c->option != 'f'; i++) {
		if (!env_name_valid(c->argv->v[i], strlen(c->argv->v[i])))
			status = fail(c, 1, BAD_NAME, c->argv->v[i]);
		else
			strv_env_unset(&c->memory->env, c->argv->v[i]);
	}
	return status;
}

/* alias name='value', with ' inside as '\''. */
static void add_alias(struct buf *out, const char *name, size_t len, const char *value)
{
	buf_addf(out, "alias %.*s='", (int)len, name);
	for (const char *p = value; *p != '\0'; p++) {
		if (*p == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *p);
	}
	buf_adds(out, "'\n");
}

static int run_alias(struct builtin_call *c)
{
	struct strv *all = &c->memory->aliases;
	int status = 0;

	if (all->n > 1)
		qsort(all->v, all->n, sizeof(*all->v), by_text);
	for (size_t i = 0; i < all->n && (c->option == 'p' || c->first >= c->argv->n); i++) {
		const size_t len = strcspn(all->v[i], "=");

		add_alias(&c->out, all->v[i], len, all->v[i] + len + 1);
	}
	for (size_t i = c->first; i < c->argv->n; i++) {
		const char *word = c->argv->v[i], *value;
		const size_t len = strcspn(word, "=");
		cleanup_free char *name = mem_strndup(word, len);
		struct err err = {0};

		if (word[len] == '=') {
			if (alias_set(c->memory, name, word + len + 1, &err) < 0)
				status = fail(c, 1, "%s", err.message);
		} else if ((value = strv_env_get(all, name)) == NULL) {
			status = fail(c, 1, "%s: not found", name);
		} else {
			add_alias(&c->out, name, len, value);
		}
	}
	return status;
}

static int run_unalias(struct builtin_call *c)
{
	int status = 0;

	if (c->option == 'a') {
		strv_done(&c->memory->aliases);
		return 0;
	}
	if (c->first >= c->argv->n)
		return fail(c, BUILTIN_USAGE, "usage: unalias [-a] name [name ...]");
	for (size_t i = c->first; i < c->argv->n; i++)
		if (strv_env_get(&c->memory->aliases, c->argv->v[i]) == NULL)
			status = fail(c, 1, "%s: not found", c->argv->v[i]);
		else
			strv_env_unset(&c->memory->aliases, c->argv->v[i]);
	return status;
}

static int run_history(struct builtin_call *c)
{
	struct shell_memory *m = c->memory;
	const char *word = c->first < c->argv->n ? c->argv->v[c->first] : NULL;
	size_t first = 0;

	if (c->option == 'c') {
		strv_done(&m->history);
		m->history_base = 1;
		return 0;
	}
	if (word != NULL) {
		char *end;
		const unsigned long n = strtoul(word, &end, 10);

		if (word[0] < '0' || word[0] > '9' || *end != '\0')
			return fail(c, 1, "%s: numeric argument required", word);
		first = n < m->history.n ? m->history.n - n : 0;
	}
	for (size_t i = first; i < m->history.n; i++)
		buf_addf(&c->out, "%5" PRIu64 "  %s\n", m->history_base + i, m->history.v[i]);
	return 0;
}

/* ---- directories ----
 *
 * Paths are logical as in shells: `..` takes away the part before it, symbolic links stay visible.
 * Whether a directory exists is checked in the session's tree. */

static const char *home(const struct builtin_call *c)
{
	const char *set = strv_env_get(&c->memory->env, "HOME");

	return set != NULL ? set : c->memory->home;
}

/* ~, ~/x, ~user, ~user/x; anything else, and an unknown user, stays as it is. */
static char *expand_tilde(const struct builtin_call *c, const char *word)
{
	const size_t len = strcspn(word, "/");
	cleanup_free char *user = NULL;

	if (word[0] != '~')
		return mem_strdup(word);
	if (len == 1)
		return mem_printf("%s%s", home(c), word + len);
	user = root_home_of(c->root_fd, word + 1, len - 1);
	return user != NULL ? mem_printf("%s%s", user, word + len) : mem_strdup(word);
}

/* Has the question answered, now or for the next run. */
static void ask(struct builtin_call *c, struct root_enter *q)
{
	struct root_enter *known = c->enter;

	if (known == NULL) {
		root_enter(c->root_fd, q);
	} else if (known->answered && known->physical == q->physical &&
		   strcmp(known->whole, q->whole) == 0 && strcmp(known->logical, q->logical) == 0) {
		q->errnum = known->errnum;
		q->real = mem_strdup(known->real);
	} else {
		root_enter_done(known);
		*known = *q;
		*q = (struct root_enter){.errnum = EAGAIN};
		c->asks = true;
	}
}

/* The logical path of a directory that may be entered, or NULL/errno. */
static char *enter(struct builtin_call *c, const char *path, bool physical)
{
	struct root_enter q = {.whole = root_join(c->cwd, path),
			       .logical = path_clean(c->cwd, path),
			       .physical = physical};
	char *target = NULL;
	int e = 0;

	if (path[0] == '\0') {
		target = mem_strdup(c->cwd);
	} else {
		ask(c, &q);
		e = q.errnum == 0 && strlen(q.logical) >= ENV_PATH_MAX ? ENAMETOOLONG : q.errnum;
		if (e == 0)
			target = physical ? take(q.real) : take(q.logical);
	}
	root_enter_done(&q);
	errno = e;
	return target;
}

static int no_dir(struct builtin_call *c, const char *word)
{
	return fail(c, 1, "%s: %s", word, strerror(errno));
}

static int run_cd(struct builtin_call *c)
{
	const char *word = c->first < c->argv->n ? c->argv->v[c->first] : "~";
	const bool back = strcmp(word, "-") == 0;
	cleanup_free char *path = NULL;
	cleanup_free char *target = NULL;

	if (back && c->memory->oldpwd == NULL)
		return fail(c, 1, "OLDPWD not set");
	path = back ? mem_strdup(c->memory->oldpwd) : expand_tilde(c, word);
	target = enter(c, path, c->option == 'P');
	if (target == NULL)
		return no_dir(c, path);
	env_chdir(c->memory, target);
	if (back)
		buf_addf(&c->out, "%s\n", target);
	return 0;
}

static int run_pwd(struct builtin_call *c)
{
	const bool physical = c->option == 'P';
	cleanup_free char *real = physical ? enter(c, c->cwd, true) : NULL;

	if (physical && real == NULL)
		return fail(c, 1, "error retrieving current directory: %s", strerror(errno));
	buf_addf(&c->out, "%s\n", real != NULL ? real : c->cwd);
	return 0;
}

/* The home directory is shown as ~. */
static void add_dir(struct builtin_call *c, const char *dir)
{
	const char *h = home(c);
	const size_t n = strlen(h);

	if (n > 1 && strncmp(dir, h, n) == 0 && (dir[n] == '/' || dir[n] == '\0'))
		buf_addf(&c->out, "~%s", dir + n);
	else
		buf_adds(&c->out, dir);
}

static void show_stack(struct builtin_call *c)
{
	const struct strv *dirs = &c->memory->dirs;

	add_dir(c, c->memory->cwd);
	for (size_t i = dirs->n; i > 0; i--) {
		buf_addc(&c->out, ' ');
		add_dir(c, dirs->v[i - 1]);
	}
	buf_addc(&c->out, '\n');
}

/* +N counts from the current directory, -N from the bottom. False: not such a number. */
static bool stack_index(const struct builtin_call *c, const char *word, size_t *index)
{
	const size_t all = c->memory->dirs.n + 1;
	char *end;
	unsigned long n;

	if ((word[0] != '+' && word[0] != '-') || word[1] < '0' || word[1] > '9')
		return false;
	n = strtoul(word + 1, &end, 10);
	if (*end != '\0' || n >= all)
		return false;
	*index = word[0] == '+' ? n : all - 1 - n;
	return true;
}

/* The stack with the current directory as its last element. Owned by the caller. */
static void whole_stack(const struct builtin_call *c, struct strv *out)
{
	strv_copy(out, &c->memory->dirs);
	strv_add(out, c->memory->cwd);
}

/* Moves to the stack's last element if it can be entered; takes the stack either way. */
static int move_to_top(struct builtin_call *c, struct strv *stack)
{
	cleanup_free char *target = NULL;
	int status = 0;
	char *top;

	ensure(stack->n > 0);
	top = stack->v[stack->n - 1];
	target = enter(c, top, false);
	if (target == NULL) {
		status = no_dir(c, top);
	} else {
		strv_done(&c->memory->dirs);
		free(top);
		stack->v[--stack->n] = NULL;
		c->memory->dirs = *stack;
		*stack = (struct strv){0};
		if (strcmp(target, c->memory->cwd) != 0)
			env_chdir(c->memory, target);
		show_stack(c);
	}
	strv_done(stack);
	return status;
}

static int run_pushd(struct builtin_call *c)
{
	const struct strv *dirs = &c->memory->dirs;
	struct strv stack = {0}, turned = {0};
	cleanup_free char *path = NULL;
	cleanup_free char *target = NULL;
	size_t index;

	if (c->argv->n == 1) {
		char *top;

		if (dirs->n == 0)
			return fail(c, 1, "no other directory");
		whole_stack(c, &stack);
		top = stack.v[stack.n - 1];
		stack.v[stack.n - 1] = stack.v[stack.n - 2];
		stack.v[stack.n - 2] = top;
		return move_to_top(c, &stack);
	}
	if (stack_index(c, c->argv->v[1], &index)) {
		whole_stack(c, &stack);
		for (size_t i = 0; i < stack.n; i++)
			strv_add(&turned, stack.v[(i + stack.n - index) % stack.n]);
		strv_done(&stack);
		return move_to_top(c, &turned);
	}
	path = expand_tilde(c, c->argv->v[1]);
	target = enter(c, path, false);
	if (target == NULL)
		return no_dir(c, path);
	if (dirs->n >= DIRS_MAX)
		return fail(c, 1, "directory stack full");
	strv_add(&c->memory->dirs, c->memory->cwd);
	env_chdir(c->memory, target);
	show_stack(c);
	return 0;
}

static int run_popd(struct builtin_call *c)
{
	struct strv *dirs = &c->memory->dirs;
	struct strv stack = {0};
	size_t index = 0;

	if (dirs->n == 0)
		return fail(c, 1, "directory stack empty");
	if (c->argv->n == 2 && !stack_index(c, c->argv->v[1], &index))
		return fail(c, 1, "%s: invalid argument", c->argv->v[1]);
	if (index > 0) {
		const size_t at = dirs->n - index;

		free(dirs->v[at]);
		memmove(&dirs->v[at], &dirs->v[at + 1], (dirs->n - at) * sizeof(*dirs->v));
		dirs->n--;
		show_stack(c);
		return 0;
	}
	strv_copy(&stack, dirs);
	return move_to_top(c, &stack);
}

/* ---- running ---- */

static const struct {
	const char *name;
	int (*run)(struct builtin_call *c);
	const char *options; /* letters; NULL: none are looked for */
	size_t most;	     /* operands */
} table[] = {
	{"cd", run_cd, "LP", 1},
	{"pwd", run_pwd, "LP", SIZE_MAX},
	{"export", run_export, "pn", SIZE_MAX},
	{"unset", run_unset, "vf", SIZE_MAX},
	{"env", run_env, NULL, 0},
	{"alias", run_alias, "p", SIZE_MAX},
	{"unalias", run_unalias, "a", SIZE_MAX},
	{"history", run_history, "c", 1},
	{"pushd", run_pushd, NULL, 1},
	{"popd", run_popd, NULL, 1},
};

static size_t find(const struct strv *argv)
{
	size_t i = 0;

	while (i < ARRAY_LEN(table) && (argv->n == 0 || strcmp(table[i].name, argv->v[0]) != 0))
		i++;
	return i;
}

bool builtin_is(const struct strv *argv)
{
	const size_t i = find(argv);

	return i < ARRAY_LEN(table) && (table[i].most > 0 || argv->n == 1);
}

/* Sets first and option. False after the message about an option that is not in known. */
static bool read_options(struct builtin_call *c, const char *known)
{
	const struct strv *argv = c->argv;

	for (; c->first < argv->n; c->first++) {
		const char *word = argv->v[c->first];
		size_t good;

		if (word[0] != '-' || word[1] == '\0')
			break;
		if (strcmp(word, "--") == 0) {
			c->first++;
			break;
		}
		good = strspn(word + 1, known);
		if (word[1 + good] != '\0') {
			fail(c, BUILTIN_USAGE, "%s: invalid option", word);
			return false;
		}
		c->option = word[good];
	}
	return true;
}

int builtin_run(struct builtin_call *c)
{
	const size_t i = find(c->argv);

	ensure(i < ARRAY_LEN(table));
	c->first = 1;
	c->option = '\0';
	if (table[i].options != NULL && !read_options(c, table[i].options))
		return BUILTIN_USAGE;
	if (c->argv->n > c->first && c->argv->n - c->first > table[i].most)
		return fail(c, 1, "too many arguments");
	return table[i].run(c);
}
