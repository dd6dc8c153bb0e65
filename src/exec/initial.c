// SPDX-License-Identifier: Apache-2.0
/* A command's initial exec comes from our own program, which no process of the session may read or
 * trace. The warden resolves its program from outside, before there is a process. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "exec/exec_thread.h"
#include "exec/image.h"
#include "exec/program_cache.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* The search is execvp's: ENOENT, ENOTDIR and EACCES go on with the next directory, EACCES is
 * remembered; a file of an unknown format is run by a shell. */
#define SHELL_OF_ODD_FILES "/bin/sh"
#define DEFAULT_PATH "/bin:/usr/bin"

struct exec_initial {
	struct exec_looker *looker; /* borrowed */
	struct gate *gate;	    /* borrowed; NULL: not asked yet */
	char *cwd;
	struct strv argv;	     /* what the policy sees */
	bool by_shell;		     /* argv[0] and argv[1] have taken the place of argv[0] */
	bool unreadable;	     /* it is there, and cannot be read */
	struct image program;	     /* what is asked for */
	struct exec_initial *target; /* what that is redirected to; NULL: not looked for */
	int64_t began_us;
	uint64_t latency_us; /* until the answer */
	struct gate_case k;
};

/* ---- finding ---- */

/* 0 or an errno. */
static int look_at(struct exec_initial *i, const char *path, struct image *out)
{
	const struct image_name name = {.path = path, .dirfd = AT_FDCWD, .cwd = i->cwd};
	const struct args args = {.v = i->argv.v, .n = i->argv.n, .argc = i->argv.n};

	return program_cache_resolve(i->looker, &name, &args, out);
}

static bool goes_on(int e)
{
	return e == ENOENT || e == EACCES || e == ENOTDIR || e == ENAMETOOLONG;
}

/* 0 or an errno. A search ends with a file that needs the shell, even without a shell. */
static int look(struct exec_initial *i, const char *path)
{
	char *const head[] = {(char[]){SHELL_OF_ODD_FILES}, (char *)(uintptr_t)path};
	int e = look_at(i, path, &i->program);

	if (e != ENOEXEC)
		return e;
	args_replace_first(&i->argv, head, ARRAY_LEN(head));
	i->by_shell = true;
	e = look_at(i, SHELL_OF_ODD_FILES, &i->program);
	return goes_on(e) ? ENOEXEC : e;
}

static int search(struct exec_initial *i, const struct exec_initial_ask *ask)
{
	bool refused = false;

	if (ask->exact)
		return look_at(i, ask->path, &i->program);
	if (strchr(ask->path, '/') != NULL)
		return look(i, ask->path);
	for (const char *dir = ask->search != NULL ? ask->search : DEFAULT_PATH;; dir++) {
		const size_t len = strcspn(dir, ":");
		cleanup_free char *path =
			mem_printf("%.*s%s%s", (int)len, dir, len > 0 ? "/" : "", ask->path);
		const int e = look(i, path);

		if (!goes_on(e))
			return e;
		refused |= e == EACCES;
		dir += len;
		if (*dir == '\0')
			return refused ? EACCES : ENOENT;
	}
}

int exec_initial_find(struct exec_looker *l, const struct exec_initial_ask *ask,
		      struct exec_initial **out)
{
	struct exec_initial *i = mem_new(struct exec_initial);
	int e;

	i->looker = l;
	i->program.fd = -1;
	i->began_us = clock_mono_us(&clock_system);
	i->cwd = mem_strdup(ask->cwd);
	strv_copy(&i->argv, ask->argv);
	e = search(i, ask);
	if (e == EPERM && !ask->exact) {
		i->unreadable = true;
		i->program.called = mem_strdup(ask->path);
		i->program.op = (struct op){.class = OP_EXEC, .exec = {.path = i->program.called}};
		e = 0;
	}
	if (e != 0) {
		exec_initial_free(i);
		return e;
	}
	i->k = (struct gate_case){
		.op = &i->program.op, .request_id = ask->request_id, .initial = true};
	snprintf(i->k.actor.command_id, sizeof(i->k.actor.command_id), "%s",
		 ask->command_id != NULL ? ask->command_id : "");
	*out = i;
	return 0;
}

void exec_initial_adopt(struct exec_initial *i, struct exec_looker *l)
{
	i->looker = l;
}

void exec_initial_redirect(struct exec_initial *i, struct exec_initial *target)
{
	i->target = target;
}

struct exec_initial_ask exec_initial_target(const struct exec_initial *i)
{
	return (struct exec_initial_ask){
		.path = i->k.verdict.target, .cwd = i->cwd, .exact = true, .argv = &i->argv};
}

void exec_initial_free(struct exec_initial *i)
{
	if (i == NULL)
		return;
	if (i->gate != NULL)
		gate_gone(i->gate, &i->k);
	image_done(&i->program);
	exec_initial_free(i->target);
	strv_done(&i->argv);
	free(i->cwd);
	free(i);
}

const struct op *exec_initial_op(const struct exec_initial *i)
{
	return &i->program.op;
}

const char *exec_initial_request(const struct exec_initial *i)
{
	return i->k.request_id != NULL ? i->k.request_id : "";
}

/* ---- deciding ---- */

enum gate_answer exec_initial_decide(struct exec_initial *i, struct gate *g,
				     const struct gate_waiter *waiter)
{
	i->gate = g;
	if (!i->unreadable)
		return gate_ask(g, &i->k, waiter);
	gate_refuse(&i->k, GATE_WHY_UNREADABLE_FILE);
	return GATE_DENY;
}

static void settle(const struct exec_initial *i, const struct gate_case *k,
		   enum gate_outcome outcome)
{
	const struct workspace_names *names = i->looker->workspace;
	cleanup_free char *cwd = names != NULL ? workspace_canonical(names, i->cwd) : NULL;
	const struct gate_report r = {.outcome = outcome,
				      .latency_us = i->latency_us,
				      .cwd = cwd != NULL ? cwd : i->cwd,
				      .argv = i->program.op.exec.argv,
				      .argc = i->program.op.exec.argc,
				      .verified = k->actor.pid != 0 ? "initial" : NULL};

	gate_settle(i->gate, k, &r);
}

void exec_initial_settle(const struct exec_initial *i, pid_t pid, pid_t ppid)
{
	struct gate_case k = i->k;

	k.actor.pid = pid;
	k.actor.ppid = ppid;
	settle(i, &k, GATE_DONE);
}

void exec_initial_gone(struct exec_initial *i)
{
	gate_gone(i->gate, &i->k);
	gate_refuse(&i->k, GATE_WHY_GONE);
	i->latency_us = (uint64_t)(clock_mono_us(&clock_system) - i->began_us);
	settle(i, &i->k, GATE_REFUSED);
}

static int deny(struct exec_initial *i, struct err *err)
{
	const enum err_code code = gate_error(i->k.why);
	cleanup_buf struct buf reason = {0}, target = {0};

	settle(i, &i->k, GATE_REFUSED);
	gate_pack_denial(i->gate, &i->k, err->denial, sizeof(err->denial));
	verdict_format_reason(&i->k.verdict, i->k.op, &reason);
	op_format_target(i->k.op, &target);
	if (i->unreadable)
		return err_set(err, code, target.data,
			       "%s cannot be read, so the policy cannot decide about it",
			       target.data);
	return err_set(err, code, target.data, "rule '%s' denies %s: %s", i->k.verdict.rule,
		       target.data, reason.data != NULL ? reason.data : "");
}

/* Whether the path, or a directory above it in its tree, is not shown. */
static bool is_hidden(const struct policy *policy, const char *tree, const char *path)
{
	const char *end = path + strlen(tree);

	while (*end != '\0') {
		cleanup_free char *part = NULL;
		struct file_rules rules;

		end = strchrnul(end + 1, '/');
		part = mem_strndup(path, (size_t)(end - path));
		policy_decide_file(policy, part, false, &rules);
		if (policy_file_set(policy, &rules) & POLICY_FILE_HIDDEN)
			return true;
	}
	return false;
}

/* What the file server cannot decide: a program is started by its descriptor, so that the kernel
 * looks up no directory, and of a script the interpreter is started with it, so that the kernel
 * does not open it to execute it. 0, an errno, or a denial. What the session itself made is not
 * known here: rules with existing_only match. */
static int decide_files(struct exec_initial *i, const struct image *im, struct err *err)
{
	const struct policy *policy = gate_policy(i->gate);
	const unsigned needs = 1U << OP_FILE_execute | 1U << OP_FILE_open;

	for (size_t k = 0; k < im->canonical.n; k++) {
		const char *path = im->canonical.v[k];
		const char *tree = workspace_served(i->looker->workspace, path);
		struct file_rules rules;
		uint32_t set;

		if (tree == NULL)
			continue;
		if (is_hidden(policy, tree, path))
			return ENOENT;
		policy_decide_file(policy, path, false, &rules);
		set = policy_file_set(policy, &rules);
		if ((set & needs) == 0 || k + 1 == im->canonical.n)
			continue;
		policy_file_verdict(policy, &rules,
				    set & 1U << OP_FILE_execute ? OP_FILE_execute : OP_FILE_open,
				    false, &i->k.verdict);
		return deny(i, err);
	}
	return 0;
}

bool exec_loads_any(const struct policy *policy, const struct workspace_names *names)
{
	const bool files = names != NULL && names->served.n > 0;

	return !policy_restricts(policy, OP_EXEC) && !(files && policy_restricts(policy, OP_FILE));
}

int exec_initial_apply(struct exec_initial *i, char **path, struct strv *argv, int *fd,
		       struct err *err)
{
	const bool redirects = verdict_redirects(&i->k.verdict);
	const struct exec_initial_ask target = exec_initial_target(i);
	const struct image *im = &i->program;

	i->latency_us = (uint64_t)(clock_mono_us(&clock_system) - i->began_us);
	if (!verdict_allows(&i->k.verdict))
		return deny(i, err);
	if (redirects) {
		const int e =
			i->target == NULL ? exec_initial_find(i->looker, &target, &i->target) : 0;

		if (e != 0)
			return e;
		im = &i->target->program;
	}
	if (im->swappable && !exec_loads_any(gate_policy(i->gate), i->looker->workspace)) {
		gate_refuse(&i->k, GATE_WHY_REPLACEABLE);
		return deny(i, err);
	}
	if (i->looker->workspace != NULL && i->looker->workspace->served.n > 0) {
		const int e = decide_files(i, im, err);

		if (e != 0)
			return e;
	}
	if (i->by_shell)
		args_replace_first(argv, i->argv.v, 2);
	if (!im->fixed && im->head.n > 0)
		args_replace_first(argv, im->head.v, im->head.n);
	free(*path);
	*path = mem_strdup(!im->fixed && im->head.n > 0 ? im->head.v[0] : im->called);
	*fd = im->fixed || im->program_immutable ? -1 : im->fd;
	return 0;
}
