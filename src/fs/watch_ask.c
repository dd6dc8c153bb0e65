// SPDX-License-Identifier: Apache-2.0
/* Decides a request before it is done: by the policy, by the lists of paths, and by an approver. */
#include "base/path.h"
#include "fs/watch_state.h"
#include <errno.h>
#include <string.h>

int watch_refuse(struct watched *w, const struct watch_place *p, const char *rule, const char *why,
		 int error)
{
	w->op.file.path = p->path;
	w->k.verdict = (struct verdict){.decision = DECISION_deny,
					.effective = DECISION_deny,
					.rule = rule,
					.why = why,
					.final = true};
	w->refused = true;
	return -error;
}

/* The verdict of the event is that of the operation that is denied, else of one that is to be
 * logged, else of the main one. makes: the name is to be made. */
static int ask_at(const struct fs_watch *watch, struct watched *w, struct watch_place *p,
		  unsigned ops, bool makes)
{
	const bool hidden = (p->set & POLICY_FILE_HIDDEN) != 0;
	unsigned denied = ops & p->set & POLICY_FILE_ALL;
	struct gate_case first = w->k;
	bool found = false;

	/* where the file system itself denies */
	if (p->error == -ENOENT && ops & p->set)
		return watch_refuse(w, p, "file-control", "its last name did not allow it", EACCES);
	if (p->set & SET_TOO_LONG)
		return watch_refuse(w, p, "file-control", "the path is too long to be decided",
				    EACCES);
	if (p->set & SET_BLOCKED)
		return watch_refuse(w, p, "filesystem.blocked_paths", "this path is blocked",
				    EACCES);
	if (p->set & SET_READ_ONLY && ops & WATCH_CHANGES)
		return watch_refuse(w, p, "filesystem.read_only_passthrough_paths",
				    "this path is read-only", EROFS);
	p->approve = gate_has_approver(watch->setup.gate) ? ops & POLICY_FILE_APPROVE(p->set) : 0;
	denied &= ~p->approve;
	ops &= ~p->approve;
	if (hidden && denied == 0)
		denied = WATCH_OP(stat);
	for (unsigned i = 0; i <= OP_FILES; i++) {
		const unsigned op = i == 0 ? w->need.main : i - 1;

		if (((denied != 0 ? denied : ops) & 1U << op) == 0)
			continue;
		w->op = (struct op){.class = OP_FILE, .file = {op, p->path}};
		if (gate_ask_file(watch->setup.gate, &w->k, &p->rules) == GATE_DENY) {
			w->refused = true;
			return hidden && !makes ? -ENOENT : -EACCES;
		}
		if (!found || w->k.verdict.decision == DECISION_log)
			first = w->k;
		found = true;
		if (first.verdict.decision == DECISION_log)
			break;
	}
	if (found)
		w->k = first;
	return 0;
}

static bool listed_below(const struct strv *list, const char *dir)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_within(list->v[i], dir))
			return true;
	return false;
}

static bool protected_below(const struct fs_watch *watch, const char *dir)
{
	struct file_redirect to;

	return listed_below(&watch->setup.blocked, dir) ||
	       listed_below(&watch->setup.read_only, dir) ||
	       (policy_redirect(gate_policy(watch->setup.gate), dir, &to) &&
		(listed_below(&watch->setup.blocked, to.path) ||
		 listed_below(&watch->setup.read_only, to.path)));
}

static enum decision decides(const struct fs_watch *watch, const struct watch_place *p)
{
	struct verdict v;

	policy_file_verdict(gate_policy(watch->setup.gate), &p->rules, OP_FILE_delete, false, &v);
	return v.decision;
}

/* The object must not gain anything by its new name, nor what is below it; a file that would be
 * kept in the trash must not become one that is deleted for good. Nothing that the session could
 * put below a directory may come to a place where it may not be made. */
static int compare(const struct fs_watch *watch, struct watched *w, const struct watch_place *from,
		   const struct watch_place *to)
{
	const struct policy *policy = gate_policy(watch->setup.gate);
	const uint32_t approvable = POLICY_FILE_APPROVE(from->set);
	const uint32_t never = from->set & ~approvable & POLICY_FILE_ALL;
	/* who approves the change of the name approves its new rules */
	const uint32_t lost = from->approve & 1U << w->need.main ? never : never | approvable;
	struct watch_place target;
	/* a redirected name denies at least as much as the one to which it leads */
	const struct watch_place *now =
		watch->redirects && watch_locate_target(watch, to, &target) ? &target : to;
	bool gains =
		(lost & ~now->set) != 0 || (never & POLICY_FILE_APPROVE(now->set)) != 0 ||
		(w->need.names == WATCH_MOVE && decides(watch, from) == DECISION_soft_delete &&
		 decides(watch, now) != DECISION_soft_delete && !(now->set & WATCH_OP(delete)));

	/* where another path leads, the table may not know yet that it is a directory */
	if (!gains && !watch->unrestricted && (from->directory || !from->known || watch->redirects))
		gains = protected_below(watch, from->path) ||
			policy_file_gains(policy, from->path, to->path, POLICY_FILE_ALL) ||
			policy_file_gains(policy, to->path, from->path, WATCH_OP(create));
	if (!gains)
		return 0;
	w->op.file.op = w->need.main;
	return watch_refuse(w, from, "file-control",
			    "the policy allows more at the new name than at the old one", EACCES);
}

static int ask_two(struct fs *fs, const struct fs_request *q, struct watched *w)
{
	const struct fuse_link_in *link = q->arg;
	const struct fuse_rename2_in *move = q->arg; /* begins like fuse_rename_in */
	const bool exchange = q->opcode == FUSE_RENAME2 && move->flags & RENAME_EXCHANGE;
	unsigned to_ops = w->need.to_ops;
	int r;

	if (q->opcode == FUSE_LINK) {
		r = watch_locate(fs, link->oldnodeid, NULL, &w->at);
		if (r == 0)
			r = watch_locate(fs, q->node, q->name[0], &w->to);
	} else {
		r = watch_locate(fs, q->node, q->name[0], &w->at);
		if (r == 0)
			r = watch_locate(fs, move->newdir, q->name[1], &w->to);
	}
	if (r < 0)
		return r;
	if (exchange)
		to_ops = w->need.ops;
	else if (w->to.known && w->need.names == WATCH_MOVE)
		to_ops |= w->to.directory ? WATCH_OP(delete) : policy_replace_ops(w->to.set);
	r = ask_at(fs->watch, w, &w->to, to_ops, !exchange);
	if (r == 0)
		r = ask_at(fs->watch, w, &w->at, w->need.ops, false);
	if (r == 0)
		r = compare(fs->watch, w, &w->at, &w->to);
	if (r == 0 && exchange)
		r = compare(fs->watch, w, &w->to, &w->at);
	return r;
}

int watch_ask(struct fs *fs, const struct fs_request *q, struct watched *w)
{
	const char *name = q->opcode == FUSE_TMPFILE	  ? WATCH_TMPFILE_NAME
			   : w->need.names == WATCH_ENTRY ? q->name[0]
							  : NULL;
	int r;

	w->op = (struct op){.class = OP_FILE, .file = {w->need.main, w->at.path}};
	if (w->need.names == WATCH_MOVE || w->need.names == WATCH_LINK)
		return ask_two(fs, q, w);
	r = watch_locate(fs, q->node, name, &w->at);
	if (r < 0)
		return r;
	/* access() of a directory: a change is decided by the name that it makes */
	if (q->opcode == FUSE_ACCESS && w->at.directory)
		w->need.ops = w->need.ops & WATCH_OP(read) ? WATCH_OP(list) : 0;
	r = ask_at(fs->watch, w, &w->at, w->need.ops, w->need.makes);
	if (r == 0 && q->opcode == FUSE_LOOKUP)
		gate_ask_file(fs->watch->setup.gate, &w->k, &w->at.rules);
	return r;
}

/* ---- an approver ---- */

/* So much of the path of a held request is looked at again when it goes on. The kernel sends these
 * without a lock of the directory; see docs/architecture/fs.md. */
static bool can_wait(const struct fs_request *q)
{
	return q->opcode == FUSE_OPEN || q->opcode == FUSE_OPENDIR || q->opcode == FUSE_TMPFILE;
}

/* Asked about before the call: see gate/file_grant.h. */
static bool was_granted(struct fs_watch *watch, const struct fs_request *q, struct watched *w,
			struct file_grant *need)
{
	if (can_wait(q) || w->own || watch->setup.granted == NULL ||
	    !watch->setup.granted(watch->setup.arg, (uint32_t)q->pid, need) ||
	    watch->used[need->serial % ACTOR_GRANTS] == need->serial)
		return false;
	w->grant = need->serial;
	strcpy(w->k.approval_id, need->approval_id);
	return true;
}

int watch_approve(struct fs *fs, const struct fs_request *q, struct watched *w)
{
	struct fs_watch *watch = fs->watch;
	const bool two = w->need.names == WATCH_MOVE || w->need.names == WATCH_LINK;
	struct file_grant need = {.ops = w->at.approve, .to_ops = two ? w->to.approve : 0};
	const struct watch_place *p = need.ops != 0 ? &w->at : &w->to;
	const unsigned ops = need.ops | need.to_ops;
	enum gate_why why = GATE_WHY_UNASKED;

	/* access() asks whether the operation may be tried */
	if (ops == 0 || w->need.event == WATCH_SILENT)
		return 0;
	file_grant_name(&need, w->at.path, two ? w->to.path : NULL);
	w->op.file.op = (enum op_file)__builtin_ctz(p->approve);
	w->op.file.path = p->path;
	gate_ask_file(watch->setup.gate, &w->k, &p->rules);
	w->op.file.path = w->at.path;
	w->k.to = two ? w->to.path : NULL;
	w->k.at_to = p == &w->to;
	w->k.also = ops & ~(1U << w->op.file.op);
	if (q->answered)
		strcpy(w->k.approval_id, q->granted.approval_id);
	if (q->answered && (q->why != 0 || file_grant_covers(&q->granted, &need)))
		why = (enum gate_why)q->why;
	else if (was_granted(watch, q, w, &need))
		why = GATE_WHY_POLICY;
	else if (!q->answered && can_wait(q) && !w->own) {
		if (watch_park_hold(watch->park, q, &w->k))
			return FS_HELD;
		why = w->k.why;
	}
	if (why == GATE_WHY_POLICY) {
		gate_approve(&w->k);
		w->op.file.op = w->need.main;
		return 0;
	}
	gate_refuse(&w->k, why);
	w->refused = true;
	return why == GATE_WHY_INTERRUPTED ? -EINTR : -EACCES;
}
