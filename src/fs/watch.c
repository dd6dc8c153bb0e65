// SPDX-License-Identifier: Apache-2.0
/* Asks before an operation and settles after it.
 *
 * An operation is done on the node that was decided, whatever it is called by then. A move between
 * the two is like a move after the operation, because no move may allow what was denied before. */
#include "fs/watch.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "fs/fs_state.h"
#include "fs/made_dirs.h"
#include "model/file_type.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

/* Bits of a set beside those of the policy: the file system itself denies. */
#define SET_READ_ONLY (1U << 29)
#define SET_BLOCKED (1U << 30)
#define SET_TOO_LONG (1U << 31)

struct fs_watch {
	struct fs_watch_setup setup;
	bool unrestricted;	/* nothing can deny anything */
	struct made_dirs *made; /* NULL: no rule asks who made a directory */
	struct watch_park *park;
};

/* One name, and what may be done by it. */
struct watch_place {
	char path[PATH_MAX];
	int error; /* of node_path */
	bool known, directory;
	bool made;	     /* the session made the directory that has the name */
	struct node_key key; /* if it is a directory */
	struct file_rules rules;
	uint32_t set;	  /* what is denied: policy_file_set and SET_… */
	unsigned approve; /* operations of the request that only an approver can allow */
};

struct watched {
	struct watch_need need;
	struct watch_place at, to;
	struct op op;
	struct gate_case k;
	enum fs_actor kind;
	int64_t begin_us;
	bool own;	/* asked for by agentsh itself, for a command */
	bool refused;	/* k.verdict says why */
	bool silent;	/* no event */
	uint64_t size;	/* before O_TRUNC */
	uint64_t trash; /* the entry of what was kept; 0: nothing was */
};

/* What an open file remembers of its opener: RELEASE does not say who closes it. */
struct watch_file {
	struct actor actor;
	enum fs_actor kind;
	uint32_t tid;
	int flags; /* of the open */
	bool executes;
	bool made;			/* as in struct watch_place */
	_Atomic uint64_t read, written; /* by requests */
	_Atomic(const char *) type;	/* by its first bytes; NULL: not seen */
	uint64_t size;			/* before the open, if it is open for writing */
	char path[];			/* by which it was opened; "" of agentsh's own */
};

struct fs_watch *watch_new(struct fs *fs, const struct fs_watch_setup *s)
{
	struct fs_watch *w = mem_new(struct fs_watch);

	w->setup = *s;
	w->unrestricted = !policy_restricts(gate_policy(s->gate), OP_FILE) && s->read_only.n == 0 &&
			  s->blocked.n == 0;
	if (policy_spares(gate_policy(s->gate), NULL))
		w->made = made_dirs_new();
	w->park = watch_park_new(fs, s);
	return w;
}

void fs_watch_free(struct fs_watch *w)
{
	if (w != NULL)
		free(w->made);
	free(w);
}

void watch_drop_parked(struct fs_watch *w)
{
	watch_park_free(w->park);
	w->park = NULL;
}

bool watch_has_room(const struct fs_watch *w)
{
	return w->setup.has_room == NULL || w->setup.has_room(w->setup.arg);
}

bool watch_waits(struct fs *fs, const struct fs_request *q)
{
	const struct fs_watch_setup *s = &fs->watch->setup;
	struct watch_need need;
	struct actor actor;

	return !watch_has_room(fs->watch) && watch_need(q, &need) && need.event != WATCH_SILENT &&
	       s->actor(s->arg, (uint32_t)q->pid, &actor) != FS_ACTOR_OWN &&
	       watch_park(fs->watch->park, q);
}

bool watch_interrupt(struct fs *fs, uint64_t unique)
{
	return fs->watch != NULL && watch_park_interrupt(fs->watch->park, unique);
}

/* ---- names ---- */

static bool listed(const struct strv *list, const char *path)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_within(path, list->v[i]))
			return true;
	return false;
}

/* What may be done by the path. A path that is too long matches no rule for certain: everything is
 * denied by it, unless nothing is ever denied. */
static uint32_t decide_now(const struct fs_watch *w, const char *path, int error, bool made,
			   struct file_rules *rules)
{
	const struct policy *policy = gate_policy(w->setup.gate);

	policy_decide_file(policy, error == 0 ? path : w->setup.shown, made, rules);
	if (w->unrestricted)
		return 0;
	if (error != 0)
		return SET_TOO_LONG | POLICY_FILE_ALL;
	if (listed(&w->setup.blocked, path))
		return SET_BLOCKED | POLICY_FILE_ALL;
	return policy_file_set(policy, rules) |
	       (listed(&w->setup.read_only, path) ? SET_READ_ONLY | WATCH_CHANGES : 0);
}

/* The decision that a thread made last is often the next one: a LOOKUP asks and then enters the
 * name. */
static uint32_t decide(const struct fs_watch *w, const char *path, int error, bool made,
		       struct file_rules *rules)
{
	static _Thread_local struct {
		const struct fs_watch *watch;
		struct file_rules rules;
		uint32_t set;
		bool made;
		char path[PATH_MAX];
	} last;

	if (error != 0)
		return decide_now(w, path, error, made, rules);
	if (last.watch != w || last.made != made || strcmp(last.path, path) != 0) {
		last.set = decide_now(w, path, 0, made, &last.rules);
		last.watch = w;
		last.made = made;
		strcpy(last.path, path);
	}
	*rules = last.rules;
	return last.set;
}

/* With the lock: an object without a name is decided by the path by which it was opened, else by
 * the set of its last name. */
static void locate_nameless(const struct fs_watch *w, const struct node *n, const char *name,
			    struct watch_place *p)
{
	const struct fs_handle *h = name == NULL ? n->handles : NULL;

	while (h != NULL && (h->file == NULL || h->file->path[0] == '\0'))
		h = h->next;
	if (h != NULL) {
		strcpy(p->path, h->file->path);
		p->made = h->file->made;
		p->error = 0;
	} else if (w->unrestricted || (name == NULL && !n->directory)) {
		p->set = n->set;
	} else {
		p->error = -ESTALE;
	}
}

/* Finds the path of a node, or of a name in it. -ESTALE: it has no path; the kernel looks the name
 * up again. */
static int locate(struct fs *fs, uint64_t node, const char *name, struct watch_place *p)
{
	const size_t len = strlen(fs->watch->setup.shown);
	const struct node *n, *child, *dir;

	memcpy(p->path, fs->watch->setup.shown, len);
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	p->error =
		n == NULL ? -ESTALE : node_path(fs->nodes, n, name, p->path + len, PATH_MAX - len);
	child = n != NULL && name != NULL ? node_child(fs->nodes, n, name) : n;
	p->known = child != NULL;
	p->directory = child != NULL && child->directory;
	if (p->directory)
		node_key(fs->nodes, child, &p->key);
	dir = name != NULL || n == NULL || n->names == NULL ? n : node_parent(fs->nodes, n->names);
	p->made = dir != NULL && made_dirs_have(fs->watch->made, fs->nodes, dir);
	if (p->error == -ENOENT)
		locate_nameless(fs->watch, n, name, p);
	pthread_mutex_unlock(&fs->lock);
	if (p->error == -ESTALE)
		return -ESTALE;
	if (p->error == -ENOENT)
		decide(fs->watch, p->path, p->error, p->made, &p->rules);
	else
		p->set = decide(fs->watch, p->path, p->error, p->made, &p->rules);
	return 0;
}

/* TMPFILE has no name; it is decided as if it had this one. */
#define TMPFILE_NAME "#tmpfile"

uint32_t watch_set(const struct fs *fs, const struct node *dir, const char *name)
{
	const char *shown = fs->watch->setup.shown;
	const size_t len = strlen(shown);
	struct file_rules rules;
	char path[PATH_MAX];
	int error;

	if (fs->watch->unrestricted)
		return 0;
	memcpy(path, shown, len + 1);
	error = node_path(fs->nodes, dir, name != NULL ? name : TMPFILE_NAME, path + len,
			  sizeof(path) - len);
	return decide(fs->watch, path, error, made_dirs_have(fs->watch->made, fs->nodes, dir),
		      &rules);
}

/* ---- asking ---- */

static int refuse(struct watched *w, const struct watch_place *p, const char *rule, const char *why,
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
		return refuse(w, p, "file-control", "its last name did not allow it", EACCES);
	if (p->set & SET_TOO_LONG)
		return refuse(w, p, "file-control", "the path is too long to be decided", EACCES);
	if (p->set & SET_BLOCKED)
		return refuse(w, p, "filesystem.blocked_paths", "this path is blocked", EACCES);
	if (p->set & SET_READ_ONLY && ops & WATCH_CHANGES)
		return refuse(w, p, "filesystem.read_only_passthrough_paths",
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
	bool gains = (lost & ~to->set) != 0 || (never & POLICY_FILE_APPROVE(to->set)) != 0 ||
		     (w->need.names == WATCH_MOVE && decides(watch, from) == DECISION_soft_delete &&
		      decides(watch, to) != DECISION_soft_delete && !(to->set & WATCH_OP(delete)));

	if (!gains && !watch->unrestricted && (from->directory || !from->known))
		gains = listed_below(&watch->setup.blocked, from->path) ||
			listed_below(&watch->setup.read_only, from->path) ||
			policy_file_gains(policy, from->path, to->path, POLICY_FILE_ALL) ||
			policy_file_gains(policy, to->path, from->path, WATCH_OP(create));
	if (!gains)
		return 0;
	w->op.file.op = w->need.main;
	return refuse(w, from, "file-control",
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
		r = locate(fs, link->oldnodeid, NULL, &w->at);
		if (r == 0)
			r = locate(fs, q->node, q->name[0], &w->to);
	} else {
		r = locate(fs, q->node, q->name[0], &w->at);
		if (r == 0)
			r = locate(fs, move->newdir, q->name[1], &w->to);
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

static int ask(struct fs *fs, const struct fs_request *q, struct watched *w)
{
	const char *name = q->opcode == FUSE_TMPFILE	  ? TMPFILE_NAME
			   : w->need.names == WATCH_ENTRY ? q->name[0]
							  : NULL;
	int r;

	w->op = (struct op){.class = OP_FILE, .file = {w->need.main, w->at.path}};
	if (w->need.names == WATCH_MOVE || w->need.names == WATCH_LINK)
		return ask_two(fs, q, w);
	r = locate(fs, q->node, name, &w->at);
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

/* The operations that only an approver can allow. FS_HELD: it is asked, and the request is parked.
 */
static int approve(struct fs *fs, const struct fs_request *q, struct watched *w)
{
	const struct fs_watch *watch = fs->watch;
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
	w->k.also = ops & ~(1U << w->op.file.op);
	if (q->answered && (q->why != 0 || file_grant_covers(&q->granted, &need)))
		why = (enum gate_why)q->why;
	else if (!can_wait(q) && !w->own && watch->setup.granted != NULL &&
		 watch->setup.granted(watch->setup.arg, (uint32_t)q->pid, &need))
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

/* ---- settling ---- */

/* The path on the host; NULL: it is not known, or too long. */
static const char *real_path(const struct fs_watch *w, const char *path, char out[PATH_MAX])
{
	return w->setup.real != NULL && path != NULL &&
			       snprintf(out, PATH_MAX, "%s%s", w->setup.real,
					path + strlen(w->setup.shown)) < PATH_MAX
		       ? out
		       : NULL;
}

static void record(const struct fs_watch *w, struct gate_case *k, enum fs_actor kind, uint32_t tid,
		   struct gate_report *r)
{
	char real[PATH_MAX];

	r->real_path = real_path(w, k->op->file.path, real);
	if (kind == FS_ACTOR_UNKNOWN) {
		w->setup.late(w->setup.arg, tid, k, r);
		return;
	}
	if (w->setup.tally != NULL)
		tally_settled(w->setup.tally, k, r);
	gate_settle(w->setup.gate, k, r);
}

static void settle(struct fs *fs, const struct fs_request *q, struct watched *w, int result)
{
	const bool two = w->need.names == WATCH_MOVE || w->need.names == WATCH_LINK;
	char flags[OPEN_FLAGS_MAX], entry[32];
	struct gate_report r = {.outcome = w->refused	? GATE_REFUSED
					   : result < 0 ? GATE_FAILED
							: GATE_DONE,
				.latency_us =
					(uint64_t)(clock_mono_us(&clock_system) - w->begin_us),
				.type = w->need.type,
				.error = -result,
				.to = two			  ? w->to.path
				      : q->opcode == FUSE_SYMLINK ? q->name[1]
								  : NULL};

	/* ESTALE: the kernel looks again and asks again; the others are run again */
	if (w->silent || w->need.event == WATCH_SILENT || result == -ESTALE ||
	    result == FS_MUST_WAIT || result == FS_HELD || (result == -EINTR && q->may_wait) ||
	    (w->need.event == WATCH_DENIALS && !w->refused))
		return;
	if (two && w->op.file.path == w->to.path)
		r.to = NULL;
	if (w->trash != 0) {
		snprintf(entry, sizeof(entry), "trash/%" PRIu64, w->trash);
		r.type = EVENT_file_soft_deleted;
		r.to = entry;
	}
	if (w->need.opens) {
		open_flags_format(w->need.flags, flags);
		r.flags = flags;
	}
	record(fs->watch, &w->k, w->kind, (uint32_t)q->pid, &r);
}

/* What was seen when it was closed. */
struct watch_end {
	bool passed;   /* the kernel read and wrote it by itself */
	bool counted;  /* and it has counted all bytes; else those of requests alone are known */
	uint64_t size; /* if it was open for writing */
	const char *type;
	struct file_bytes bytes;
};

/* One read and one write event per open file, when it is closed. A number of bytes that is not
 * known is absent, not 0. */
static void settle_file(struct fs *fs, const struct watch_file *f, const struct watch_end *e)
{
	const struct fs_watch *w = fs->watch;
	const int mode = f->flags & O_ACCMODE;
	const bool may_read = mode == O_RDONLY || (e->passed && mode != O_WRONLY);
	const bool may_write = e->passed && mode != O_RDONLY;
	struct file_rules rules;
	const struct {
		enum op_file op;
		uint64_t bytes;
		bool mapped, perhaps;
	} part[] = {
		{OP_FILE_read, e->bytes.read, e->bytes.mapped & FILE_MAPPED_READ,
		 may_read && !f->executes},
		{OP_FILE_write, e->bytes.written, e->bytes.mapped & FILE_MAPPED_WRITE, may_write},
	};

	policy_decide_file(gate_policy(w->setup.gate), f->path, f->made, &rules);
	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		const struct op op = {.class = OP_FILE, .file = {part[i].op, f->path}};
		struct gate_case k = {.op = &op, .actor = f->actor};
		struct gate_report r = {.outcome = GATE_DONE,
					.has_bytes = part[i].bytes > 0,
					.bytes = part[i].bytes,
					.mapped = part[i].mapped,
					.file_type = e->type,
					.has_sizes = part[i].op == OP_FILE_write,
					.size_before = f->size,
					.size_after = e->size};

		if (part[i].bytes == 0 && !part[i].mapped && (e->counted || !part[i].perhaps))
			continue;
		gate_ask_file(w->setup.gate, &k, &rules);
		/* it was decided by the open */
		k.verdict.effective = DECISION_allow;
		record(w, &k, f->kind, f->tid, &r);
	}
}

/* ---- around an operation ---- */

/* The kernel does not keep attributes that a caller may not know: fs_enter_locked does the same. */
static void after(const struct fs_request *q, struct watched *w, struct fs_reply *r)
{
	const bool looked = q->opcode == FUSE_LOOKUP;
	const bool shown = q->opcode == FUSE_GETATTR || q->opcode == FUSE_SETATTR;
	struct fuse_attr_out *attr = r->out;
	struct fuse_entry_out *entry = r->out;

	if (shown && w->at.set & WATCH_OP(stat))
		attr->attr_valid = attr->attr_valid_nsec = 0;
	if (!looked || w->kind == FS_ACTOR_OWN || entry->nodeid == 0)
		return;
	/* a directory: on the way to something else, as far as one can tell */
	w->silent = S_ISDIR(entry->attr.mode) || w->at.set & WATCH_OP(stat);
	if ((w->at.set & (WATCH_OP(stat) | WATCH_OP(open))) == (WATCH_OP(stat) | WATCH_OP(open)))
		/* Nothing is open by this name, so that a size of 0 does no harm. With another
		 * owner the kernel would refuse some operations by itself, without an event. */
		entry->attr = (struct fuse_attr){.ino = entry->attr.ino,
						 .mode = entry->attr.mode & (S_IFMT | 0777),
						 .nlink = entry->attr.nlink,
						 .uid = entry->attr.uid,
						 .gid = entry->attr.gid};
}

static void remember_opener(struct fs *fs, const struct fs_request *q, const struct watched *w,
			    struct fs_reply *r)
{
	const bool made = q->opcode == FUSE_CREATE || q->opcode == FUSE_TMPFILE;
	struct fs_open_out *out =
		(void *)((char *)r->out + (made ? sizeof(struct fuse_entry_out) : 0));
	const char *path = w->kind == FS_ACTOR_OWN ? "" : w->at.path;
	struct fs_handle *h = handle_get(fs, out->fh);
	struct watch_file *f = mem_alloc(sizeof(*f) + strlen(path) + 1);
	struct stat st;

	/* a listing shows agentsh hidden names, so that it is not kept for others */
	if (q->opcode == FUSE_OPENDIR && w->kind == FS_ACTOR_OWN)
		out->open_flags = 0;
	f->size = w->size;
	if ((w->need.flags & O_ACCMODE) != O_RDONLY && !(w->need.flags & O_TRUNC) &&
	    fstat(h->fd, &st) == 0)
		f->size = (uint64_t)st.st_size;
	f->actor = w->k.actor;
	f->kind = w->kind;
	f->tid = (uint32_t)q->pid;
	f->flags = w->need.flags;
	f->executes = (w->need.ops & WATCH_OP(execute)) != 0;
	f->made = w->at.made;
	strcpy(f->path, path);
	pthread_mutex_lock(&fs->lock);
	h->file = f;
	pthread_mutex_unlock(&fs->lock);
	if (fs->watch->setup.tally != NULL && w->need.opens)
		tally_opened(fs->watch->setup.tally, &w->k.actor);
}

/* The kernel sent CREATE because it knew of no such file. Where a file may be made and not
 * truncated, one that exists by now is not touched: the kernel looks again. */
static int create_only(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	struct fuse_create_in in = *(const struct fuse_create_in *)q->arg;
	struct fs_request only = *q;
	int result;

	in.flags |= O_EXCL;
	only.arg = &in;
	result = run(fs, &only, r);
	return result == -EEXIST ? -ESTALE : result;
}

/* Keeps the list of directories that the session made. */
static void note_directory(struct fs *fs, const struct fs_request *q, const struct watched *w,
			   const struct fs_reply *r)
{
	const struct fuse_entry_out *entry = r->out;
	struct made_dirs *made = fs->watch->made;
	const bool moves = q->opcode == FUSE_RENAME ||
			   (q->opcode == FUSE_RENAME2 &&
			    !(((const struct fuse_rename2_in *)q->arg)->flags & RENAME_EXCHANGE));
	const struct watch_place *gone = q->opcode == FUSE_RMDIR ? &w->at
					 : moves && w->to.known	 ? &w->to
								 : NULL;
	const struct node *n;

	pthread_mutex_lock(&fs->lock);
	if (gone != NULL && gone->directory)
		made_dirs_remove(made, &gone->key);
	n = q->opcode == FUSE_MKDIR ? node_get(fs->nodes, entry->nodeid) : NULL;
	if (n != NULL && policy_spares(gate_policy(fs->watch->setup.gate), w->at.path))
		made_dirs_add(made, fs->nodes, n);
	pthread_mutex_unlock(&fs->lock);
}

/* Deletes a file and keeps it in the session's trash. */
static int soft_delete(struct fs *fs, const struct fs_request *q, struct watched *w,
		       struct fs_reply *r, fs_op_fn *run)
{
	char real[PATH_MAX];
	struct trash_victim v = {.path = w->at.path,
				 .real_path = real_path(fs->watch, w->at.path, real),
				 .command_id = w->k.actor.command_id};
	uint64_t id;
	int result;

	if (fs->setup.trash == NULL || v.real_path == NULL)
		return refuse(w, &w->at, "file-control", "there is no trash that could keep it",
			      EACCES);
	result = op_soft_delete(fs, q, &v, &id);
	if (result == TRASH_FULL)
		return refuse(w, &w->at, "sandbox.trash.max_bytes",
			      "the session's trash has no room for it", EDQUOT);
	if (result == TRASH_NOT_KEPT)
		return run(fs, q, r);
	if (result == 0)
		w->trash = id;
	return result;
}

static int run_watched(struct fs *fs, const struct fs_request *q, struct watched *w,
		       struct fs_reply *r, fs_op_fn *run)
{
	struct tally *tally = fs->watch->setup.tally;
	int result = ask(fs, q, w);
	struct statx st;

	if (w->kind == FS_ACTOR_OWN)
		result = 0;
	else if (result == 0)
		result = approve(fs, q, w);
	/* what is above the limit is refused if it would be an event; the rest is not counted */
	if (result == 0 && w->kind != FS_ACTOR_OWN && tally != NULL &&
	    w->need.event == WATCH_RECORDED && !tally_allows(tally, &w->k.actor))
		result = refuse(w, &w->at, "limits.max_file_ops",
				"the session has had as many operations as it may have", EDQUOT);
	if (result == 0 && q->opcode == FUSE_OPEN && w->need.flags & O_TRUNC &&
	    backing_stat(fs, q->node, &st) == 0)
		w->size = st.stx_size;
	if (result == 0 && q->opcode == FUSE_CREATE && w->at.set & WATCH_OP(truncate) &&
	    w->kind != FS_ACTOR_OWN &&
	    (((const struct fuse_create_in *)q->arg)->flags & (O_TRUNC | O_EXCL)) == O_TRUNC)
		result = create_only(fs, q, r, run);
	else if (result == 0 && q->opcode == FUSE_UNLINK && w->kind != FS_ACTOR_OWN &&
		 w->k.verdict.decision == DECISION_soft_delete)
		result = soft_delete(fs, q, w, r, run);
	else if (result == 0)
		result = run(fs, q, r);
	if (result == 0 && (q->opcode == FUSE_OPEN || q->opcode == FUSE_OPENDIR ||
			    q->opcode == FUSE_CREATE || q->opcode == FUSE_TMPFILE))
		remember_opener(fs, q, w, r);
	if (result == 0 && fs->watch->made != NULL)
		note_directory(fs, q, w, r);
	if (result == 0)
		after(q, w, r);
	return result;
}

/* By name and first bytes. */
static const char *type_of(struct fs *fs, uint64_t node, const struct fs_handle *h)
{
	const struct watch_file *f = h->file;
	const char *type = f->type != NULL ? f->type : file_type(f->path, NULL, 0);
	cleanup_fd int other = -1;
	char first[FILE_TYPE_BYTES];
	ssize_t n;

	if (f->type != NULL)
		return type;
	n = pread(h->fd, first, sizeof(first), 0);
	if (n < 0 && type == NULL && (f->flags & O_ACCMODE) == O_WRONLY) {
		other = backing_open(fs, node, O_RDONLY | O_NONBLOCK);
		n = other >= 0 ? pread(other, first, sizeof(first), 0) : -1;
	}
	return n > 0 ? file_type(f->path, first, (size_t)n) : type;
}

static void look_at_end(struct fs *fs, uint64_t node, const struct fs_handle *h,
			struct watch_end *e)
{
	const struct watch_file *f = h->file;
	struct stat st;

	e->passed = h->backing_id > 0;
	e->counted = byte_slots_has(fs->setup.slots, h->number);
	if (f == NULL || f->kind == FS_ACTOR_OWN)
		return;
	if (e->counted)
		byte_slots_read(fs->setup.slots, h->number, &e->bytes);
	else
		e->bytes = (struct file_bytes){.read = f->read, .written = f->written};
	if ((f->flags & O_ACCMODE) != O_RDONLY && fstat(h->fd, &st) == 0)
		e->size = (uint64_t)st.st_size;
	if (e->bytes.read > 0 || e->bytes.written > 0 || e->bytes.mapped != 0)
		e->type = type_of(fs, node, h);
	else
		e->type = file_type(f->path, NULL, 0);
}

static int release(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	struct fs_handle *h = handle_get(fs, ((const struct fuse_release_in *)q->arg)->fh);
	struct watch_file *f = NULL;
	struct watch_end end = {0};
	int result;

	if (h != NULL) {
		look_at_end(fs, q->node, h, &end);
		pthread_mutex_lock(&fs->lock);
		f = h->file;
		h->file = NULL;
		pthread_mutex_unlock(&fs->lock);
	}
	result = run(fs, q, r);
	if (f != NULL && f->kind != FS_ACTOR_OWN)
		settle_file(fs, f, &end);
	if (f != NULL && fs->watch->setup.tally != NULL)
		tally_closed(fs->watch->setup.tally, &f->actor);
	if (f != NULL && fs->watch->setup.news != NULL)
		fs->watch->setup.news(fs->watch->setup.arg);
	free(f);
	return result;
}

/* READ and WRITE were decided by the open; they are counted. */
static int count_bytes(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	const bool reads = q->opcode == FUSE_READ;
	const struct fuse_read_in *in = q->arg; /* begins like fuse_write_in */
	struct fs_handle *h = handle_get(fs, in->fh);
	struct watch_file *f = h != NULL ? h->file : NULL;
	int result = run(fs, q, r);
	uint64_t n;

	if (f == NULL || result < 0)
		return result;
	n = reads ? r->len : ((const struct fuse_write_out *)r->out)->size;
	if (in->offset == 0 && n > 0 && f->type == NULL)
		f->type = file_type(f->path, reads ? r->out : q->data, n);
	*(reads ? &f->read : &f->written) += n;
	return result;
}

static int count_copied(struct fs *fs, const struct fs_request *q, struct fs_reply *r,
			fs_op_fn *run)
{
	const struct fuse_copy_file_range_in *in = q->arg;
	const struct fs_handle *from = handle_get(fs, in->fh_in), *to = handle_get(fs, in->fh_out);
	int result = run(fs, q, r);
	const uint64_t n = q->opcode == FUSE_COPY_FILE_RANGE
				   ? ((const struct fuse_write_out *)r->out)->size
				   : ((const struct fs_copy_file_range_out *)r->out)->bytes_copied;

	if (result == 0 && from->file != NULL)
		from->file->read += n;
	if (result == 0 && to->file != NULL)
		to->file->written += n;
	return result;
}

/* Pages of a mapping are written by the kernel, for the one who opened the file. */
void watch_full(struct fs *fs, const struct fs_request *q, const struct fs_handle *h)
{
	const struct fs_watch_setup *s = &fs->watch->setup;
	struct actor actor;

	if (s->tally == NULL)
		return;
	if (s->actor(s->arg, (uint32_t)q->pid, &actor) != FS_ACTOR_COMMAND && h != NULL &&
	    h->file != NULL)
		actor = h->file->actor;
	tally_over(s->tally, &actor, TALLY_max_disk_mb);
	if (s->news != NULL)
		s->news(s->arg);
}

int watch_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	const struct fs_watch_setup *s = &fs->watch->setup;
	struct watched w;
	int result;

	switch (q->opcode) {
	case FUSE_RELEASE:
		return release(fs, q, r, run);
	case FUSE_READ:
	case FUSE_WRITE:
		return count_bytes(fs, q, r, run);
	case FUSE_COPY_FILE_RANGE:
	case FS_OP_COPY_FILE_RANGE_64:
		return count_copied(fs, q, r, run);
	}
	if (!watch_need(q, &w.need))
		return run(fs, q, r);
	w.begin_us = q->answered ? q->began_us : clock_mono_us(&clock_system);
	w.k = (struct gate_case){.op = &w.op};
	w.own = w.refused = w.silent = false;
	w.size = w.trash = 0;
	w.at.set = 0;
	w.at.approve = w.to.approve = 0;
	w.kind = s->actor(s->arg, (uint32_t)q->pid, &w.k.actor);
	/* What agentsh changes, it changes for a command: see exec/attributes.h. */
	w.own = w.kind == FS_ACTOR_OWN && (w.need.ops & WATCH_CHANGES) != 0;
	if (w.own)
		w.kind = FS_ACTOR_UNKNOWN;
	result = run_watched(fs, q, &w, r, run);
	if (w.kind != FS_ACTOR_OWN)
		settle(fs, q, &w, result);
	r->parked = result == FS_HELD;
	return r->parked ? 0 : result;
}

enum watch_shown watch_shown(struct fs *fs, const struct fs_handle *dir, uint64_t node,
			     const char *name)
{
	const struct node *n;
	uint32_t set = POLICY_FILE_HIDDEN;

	if (fs->watch == NULL || fs->watch->unrestricted || dir->file == NULL ||
	    dir->file->kind == FS_ACTOR_OWN)
		return WATCH_ATTRIBUTES;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL)
		set = watch_set(fs, n, name);
	pthread_mutex_unlock(&fs->lock);
	return set & POLICY_FILE_HIDDEN ? WATCH_NOTHING
	       : set & WATCH_OP(stat)	? WATCH_NAME
					: WATCH_ATTRIBUTES;
}

bool watch_allows(const struct fs *fs, const char *path, unsigned ops)
{
	struct file_rules rules;

	return fs->watch == NULL ||
	       (decide(fs->watch, path, 0, false, &rules) & (ops | POLICY_FILE_HIDDEN)) == 0;
}

struct gate *watch_gate(const struct fs *fs)
{
	return fs->watch->setup.gate;
}

const char *watch_root(const struct fs *fs)
{
	return fs->watch->setup.shown;
}
