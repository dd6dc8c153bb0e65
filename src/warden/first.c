// SPDX-License-Identifier: Apache-2.0
#include "warden/first.h"
#include "base/mem.h"
#include "base/proc.h"
#include "exec/exec.h"
#include "gate/gate.h"
#include "shell/session_root.h"
#include "warden/core.h"
#include <errno.h>

/* The search is execvp's: ENOENT, ENOTDIR and EACCES go on with the next directory, EACCES is
 * remembered; a file that is no program the kernel knows is run by a shell. */
#define SHELL_OF_ODD_FILES "/bin/sh"
#define DEFAULT_PATH "/bin:/usr/bin"

/* Puts head in the place of argv[0]. */
static void put_before(struct strv *argv, const struct strv *head)
{
	struct strv v = {0};

	strv_copy(&v, head);
	for (size_t i = 1; i < argv->n; i++)
		strv_add(&v, argv->v[i]);
	strv_done(argv);
	*argv = v;
}

/* 0 or an errno. */
static int look_at(struct run *r, const char *path, struct exec_first **out)
{
	const struct exec_first_ask ask = {
		.path = path, .cwd = r->cwd, .argv = r->first_argv.v, .argc = r->first_argv.n};

	return exec_first_look(r->w->looker, &ask, out);
}

/* As the kernel's callers take a file that it does not know: the shell's script. */
static int look_by_shell(struct run *r, struct init_spawn *sp, const char *file)
{
	struct strv head = {0};

	strv_add(&head, SHELL_OF_ODD_FILES);
	strv_add(&head, file);
	put_before(&r->first_argv, &head);
	put_before(&sp->argv, &head);
	strv_done(&head);
	return look_at(r, SHELL_OF_ODD_FILES, &r->first);
}

static bool goes_on(int e)
{
	return e == ENOENT || e == EACCES || e == ENOTDIR || e == ENAMETOOLONG;
}

/* 0 or an errno. A search ends with a file that needs the shell, even if there is none. */
static int look(struct run *r, struct init_spawn *sp, const char *path)
{
	int e = look_at(r, path, &r->first);

	if (e == ENOEXEC) {
		e = look_by_shell(r, sp, path);
		if (goes_on(e))
			e = ENOEXEC;
	}
	return e;
}

static int search(struct run *r, struct init_spawn *sp)
{
	const char *dirs = strv_env_get(&sp->env, "PATH");
	bool refused = false;

	if (strchr(sp->path, '/') != NULL)
		return look(r, sp, sp->path);
	for (const char *dir = dirs != NULL ? dirs : DEFAULT_PATH;; dir++) {
		const size_t len = strcspn(dir, ":");
		cleanup_free char *path =
			mem_printf("%.*s%s%s", (int)len, dir, len > 0 ? "/" : "", sp->path);
		const int e = look(r, sp, path);

		if (!goes_on(e))
			return e;
		refused |= e == EACCES;
		dir += len;
		if (*dir == '\0')
			return refused ? EACCES : ENOENT;
	}
}

/* What the client wrote, without what we put before it. */
static void keep_argv(struct run *r, const struct init_spawn *sp)
{
	if (r->ask.script == NULL) {
		strv_copy(&r->first_argv, &sp->argv);
		return;
	}
	strv_add(&r->first_argv, sp->argv.v[0]);
	strv_add(&r->first_argv, "-c");
	strv_add(&r->first_argv, r->ask.script);
}

/* Without the agent, which the API child knows: a later hello may replace that string. */
static struct event event_of_first(const struct run *r)
{
	const struct op *op = exec_first_op(r->first);
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_exec,
			  .time_us = (uint64_t)r->wall_us,
			  .session_id = event_lend(r->w->args->session_id),
			  .command_id = r->ask.command_id,
			  .request_id = r->ask.request_id,
			  .count = 1,
			  .latency_us = r->first_us,
			  .exec_path = event_lend(op->exec.path),
			  .exec_cwd = r->cwd,
			  .exec_argv = {(char **)(uintptr_t)op->exec.argv, op->exec.argc}};

	gate_fill(r->w->gate, &r->verdict, &e);
	return e;
}

void first_expect(struct run *r)
{
	r->first_event = event_of_first(r);
	if (r->w->execs == NULL)
		recorder_event(&r->w->recorder, &r->first_event, NULL, NULL);
}

static int deny(struct run *r, struct err *err)
{
	const struct op *op = exec_first_op(r->first);
	cleanup_buf struct buf reason = {0}, target = {0};
	struct event e = event_of_first(r);
	struct denial denial = {0};

	verdict_format_reason(&r->verdict, op, &reason);
	op_format_target(op, &target);
	gate_format_denial(r->w->gate, &r->verdict, op, err->policy, sizeof(err->policy));
	gate_fill_denial(r->w->gate, &r->verdict, op, &denial, &e);
	recorder_event(&r->w->recorder, &e, NULL, NULL);
	denial_done(&denial);
	return err_set(err, E_POLICY_DENIED, target.data, "rule '%s' denies %s: %s",
		       r->verdict.rule, target.data, reason.data != NULL ? reason.data : "");
}

/* It is there, but nobody could say what it is. */
static int deny_unread(const struct run *r, const char *path, struct err *err)
{
	static const struct verdict v = {.decision = DECISION_deny,
					 .effective = DECISION_deny,
					 .rule = "exec-control",
					 .why = "the program cannot be read",
					 .final = true};
	const struct op op = {.class = OP_EXEC, .exec = {.path = path}};

	gate_format_denial(r->w->gate, &v, &op, err->policy, sizeof(err->policy));
	return err_set(err, E_POLICY_DENIED, path,
		       "%s cannot be read, so that nobody could say what it is", path);
}

/* A directory that cannot be entered comes first, as it would at the exec. */
static int not_found(struct run *r, int e, struct first_way *way, struct err *err)
{
	if (proc_ending(r->w->args->init_pid))
		return err_set(err, E_SESSION_STOPPED, NULL, "the session ends: init died");
	errno = root_dir(r->w->root_fd, r->cwd);
	if (errno != 0)
		return err_errno(err, E_BAD_REQUEST, "working_dir", "cannot enter '%.256s'",
				 r->cwd);
	*way = (struct first_way){e, -1};
	return 0;
}

/* What is executed: the program that was decided on, or the one it is redirected to. */
static int choose(struct run *r, struct init_spawn *sp, struct first_way *way, struct err *err)
{
	const struct exec_first *f = r->first;
	struct exec_first_way by;
	int e;

	if (verdict_redirects(&r->verdict)) {
		e = look_at(r, r->verdict.target, &r->target);
		if (e != 0)
			return not_found(r, e, way, err);
		f = r->target;
	}
	if (exec_first_objection(f) != NULL && policy_restricts(gate_policy(r->w->gate), OP_EXEC)) {
		r->verdict = *exec_first_objection(f);
		return deny(r, err);
	}
	by = exec_first_way(f);
	free(sp->path);
	sp->path = mem_strdup(by.path);
	if (by.head->n > 0)
		put_before(&sp->argv, by.head);
	*way = (struct first_way){0, by.fd};
	return 0;
}

int first_decide(struct run *r, struct init_spawn *sp, struct first_way *way, struct err *err)
{
	const int64_t began = clock_mono_us(r->w->clock);
	int e;

	keep_argv(r, sp);
	e = search(r, sp);
	if (e == EPERM)
		return deny_unread(r, sp->path, err);
	if (e != 0)
		return not_found(r, e, way, err);
	gate_decide(r->w->gate, exec_first_op(r->first), &r->verdict);
	r->first_us = (uint64_t)(clock_mono_us(r->w->clock) - began);
	if (!verdict_allows(&r->verdict))
		return deny(r, err);
	return choose(r, sp, way, err);
}

void first_done(struct run *r)
{
	exec_first_free(r->first);
	exec_first_free(r->target);
	r->first = r->target = NULL;
	strv_done(&r->first_argv);
}
