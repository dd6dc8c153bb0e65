// SPDX-License-Identifier: Apache-2.0
/* cd, pwd, pushd and popd. Paths are logical as in shells: `..` takes away the part before it,
 * symbolic links stay visible. Whether a directory exists is checked in the session's tree. */
#include "base/mem.h"
#include "shell/builtins.h"
#include "shell/session_root.h"
#include <errno.h>
#include <stdio.h>

#define DIRS_MAX 60

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

/* The logical path of a directory that may be entered, or NULL/errno. */
static char *enter(const struct builtin_call *c, const char *path, bool physical)
{
	cleanup_free char *whole = root_join(c->cwd, path);
	cleanup_free char *logical = root_tidy(whole);
	int e;

	if (path[0] == '\0')
		return mem_strdup(c->cwd);
	/* `missing/..` does not lead here. */
	e = root_dir(c->root_fd, whole);
	if (e == 0)
		e = root_dir(c->root_fd, logical);
	if (e == 0 && strlen(logical) >= ENV_PATH_MAX)
		e = ENAMETOOLONG;
	errno = e;
	if (e != 0)
		return NULL;
	return physical ? root_real(c->root_fd, logical) : take(logical);
}

static int no_dir(struct builtin_call *c, const char *word)
{
	return builtin_fail(c, 1, "%s: %s", word, strerror(errno));
}

/* Reads -L, -P and --; returns the index of the first operand, or 0 after the message about a wrong
 * option. */
static size_t link_options(struct builtin_call *c, bool *physical)
{
	size_t i = 1;

	*physical = false;
	for (; i < c->argv->n; i++) {
		const char *word = c->argv->v[i];

		if (strcmp(word, "--") == 0)
			return i + 1;
		if (word[0] != '-' || word[1] == '\0')
			break;
		if (strcmp(word, "-L") != 0 && strcmp(word, "-P") != 0) {
			builtin_fail(c, BUILTIN_USAGE, "%s: invalid option", word);
			return 0;
		}
		*physical = word[1] == 'P';
	}
	return i;
}

int builtin_cd(struct builtin_call *c)
{
	bool physical;
	const size_t at = link_options(c, &physical);
	const char *word = at < c->argv->n ? c->argv->v[at] : "~";
	const bool back = strcmp(word, "-") == 0;
	cleanup_free char *path = NULL;
	cleanup_free char *target = NULL;

	if (at == 0)
		return BUILTIN_USAGE;
	if (at + 1 < c->argv->n)
		return builtin_fail(c, 1, "too many arguments");
	if (back && c->memory->oldpwd == NULL)
		return builtin_fail(c, 1, "OLDPWD not set");
	path = back ? mem_strdup(c->memory->oldpwd) : expand_tilde(c, word);
	target = enter(c, path, physical);
	if (target == NULL)
		return no_dir(c, path);
	env_chdir(c->memory, target);
	if (back)
		buf_addf(&c->out, "%s\n", target);
	return 0;
}

int builtin_pwd(struct builtin_call *c)
{
	bool physical;
	const size_t at = link_options(c, &physical);
	cleanup_free char *real = NULL;

	if (at == 0)
		return BUILTIN_USAGE;
	if (physical)
		real = root_real(c->root_fd, c->cwd);
	if (physical && real == NULL)
		return builtin_fail(c, 1, "error retrieving current directory: %s",
				    strerror(errno));
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

/* +N counts from the current directory, -N from the bottom. False: not of that form, or out of
 * range. */
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

/* The stack with the current directory as its last element, to be turned and cut. Owned by the
 * caller. */
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

int builtin_pushd(struct builtin_call *c)
{
	const struct strv *dirs = &c->memory->dirs;
	struct strv stack = {0}, turned = {0};
	cleanup_free char *path = NULL;
	cleanup_free char *target = NULL;
	size_t index;

	if (c->argv->n > 2)
		return builtin_fail(c, 1, "too many arguments");
	if (c->argv->n == 1) {
		char *top;

		if (dirs->n == 0)
			return builtin_fail(c, 1, "no other directory");
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
		return builtin_fail(c, 1, "directory stack full");
	strv_add(&c->memory->dirs, c->memory->cwd);
	env_chdir(c->memory, target);
	show_stack(c);
	return 0;
}

int builtin_popd(struct builtin_call *c)
{
	struct strv *dirs = &c->memory->dirs;
	struct strv stack = {0};
	size_t index = 0;

	if (c->argv->n > 2)
		return builtin_fail(c, 1, "too many arguments");
	if (dirs->n == 0)
		return builtin_fail(c, 1, "directory stack empty");
	if (c->argv->n == 2 && !stack_index(c, c->argv->v[1], &index))
		return builtin_fail(c, 1, "%s: invalid argument", c->argv->v[1]);
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
