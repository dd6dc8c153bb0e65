// SPDX-License-Identifier: Apache-2.0
#include "warden/first.h"
#include "base/mem.h"
#include "exec/exec.h"
#include "gate/gate.h"
#include "sandbox/spawn.h"
#include "warden/core.h"
#include <errno.h>

/* As the kernel takes a file that it does not know: the shell's script. */
static int look_by_shell(struct run *r, const char *file)
{
	struct exec_first_ask ask = {.root_fd = r->w->root_fd, .path = SPAWN_SHELL, .cwd = r->cwd};
	struct strv v = {0};

	strv_add(&v, SPAWN_SHELL);
	strv_add(&v, file);
	for (size_t i = 1; i < r->first_argv.n; i++)
		strv_add(&v, r->first_argv.v[i]);
	strv_done(&r->first_argv);
	r->first_argv = v;
	ask.argv = v.v;
	ask.argc = v.n;
	return exec_first_look(&ask, &r->first);
}

/* 0 or an errno. */
static int look(struct run *r, const char *path)
{
	const struct exec_first_ask ask = {.root_fd = r->w->root_fd,
					   .path = path,
					   .cwd = r->cwd,
					   .argv = r->first_argv.v,
					   .argc = r->first_argv.n};
	const int e = exec_first_look(&ask, &r->first);

	return e == ENOEXEC ? look_by_shell(r, path) : e;
}

/* Along PATH, as the leader's child will search. */
static int search(struct run *r, const struct init_spawn *sp)
{
	const char *dirs = strv_env_get(&sp->env, "PATH");
	int e = ENOENT;

	if (!sp->search || strchr(sp->path, '/') != NULL)
		return look(r, sp->path);
	for (const char *dir = dirs != NULL ? dirs : SPAWN_PATH;; dir++) {
		const size_t len = strcspn(dir, ":");
		cleanup_free char *path =
			mem_printf("%.*s%s%s", (int)len, dir, len > 0 ? "/" : "", sp->path);

		e = look(r, path);
		if (e != ENOENT && e != EACCES && e != ENOTDIR)
			return e;
		dir += len;
		if (*dir == '\0')
			return e;
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

static char *lent(const char *s)
{
	return (char *)s;
}

void first_record(struct run *r)
{
	struct warden *w = r->w;
	const struct op *op;
	struct event e;

	if (r->first == NULL)
		return;
	op = exec_first_op(r->first);
	e = (struct event){.schema = EVENT_SCHEMA,
			   .type = EVENT_exec,
			   .time_us = (uint64_t)r->wall_us,
			   .session_id = lent(w->args->session_id),
			   .command_id = r->ask.command_id,
			   .agent_id = w->settings.agent_id,
			   .request_id = r->ask.request_id,
			   .pid = (uint32_t)r->pid,
			   .count = 1,
			   .latency_us = r->first_us,
			   .exec_path = lent(op->exec.path),
			   .exec_cwd = r->cwd,
			   .exec_argv = {(char **)(uintptr_t)op->exec.argv, op->exec.argc},
			   .exec_ppid = (uint32_t)r->root.pid};
	gate_fill(w->gate, &r->verdict, &e);
	record_event(&w->record, &e, NULL, NULL);
}

static int deny(struct run *r, struct err *err)
{
	const struct op *op = exec_first_op(r->first);
	cleanup_buf struct buf reason = {0};

	verdict_format_reason(&r->verdict, op, &reason);
	gate_format_denial(r->w->gate, &r->verdict, op, err->policy, sizeof(err->policy));
	first_record(r);
	return err_set(err, E_POLICY_DENIED, op->exec.path, "rule '%s' denies %s: %s",
		       r->verdict.rule, op->exec.path, reason.data != NULL ? reason.data : "");
}

int first_decide(struct run *r, struct init_spawn *sp, struct err *err)
{
	const int64_t began = clock_mono_us(r->w->clock);
	int e;

	keep_argv(r, sp);
	e = search(r, sp);
	if (e == EPERM)
		return err_set(err, E_POLICY_DENIED, sp->path,
			       "%s cannot be read, so that nobody "
			       "could say what it is",
			       sp->path);
	if (e != 0)
		return 0;
	gate_decide(r->w->gate, exec_first_op(r->first), &r->verdict);
	r->first_us = (uint64_t)(clock_mono_us(r->w->clock) - began);
	if (!verdict_allows(&r->verdict))
		return deny(r, err);
	if (r->verdict.effective == DECISION_redirect) {
		free(sp->path);
		sp->path = mem_strdup(r->verdict.target);
		sp->search = 0;
	}
	return 0;
}

void first_done(struct run *r)
{
	exec_first_free(r->first);
	r->first = NULL;
	strv_done(&r->first_argv);
}
