// SPDX-License-Identifier: Apache-2.0
/* Asks before an operation and settles after it.
 *
 * An operation is done on the node that was decided, whatever it is called by then. A move between
 * the two is like a move after the operation, because no move may allow what was denied before. */
#include "base/clock.h"
#include "base/mem.h"
#include "fs/watch_state.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>

struct fs_watch *watch_new(struct fs *fs, const struct fs_watch_setup *s)
{
	struct fs_watch *w = mem_new(struct fs_watch);

	w->setup = *s;
	w->first = fs->tree[0].shown;
	w->unrestricted = !policy_restricts(gate_policy(s->gate), OP_FILE) && s->read_only.n == 0 &&
			  s->blocked.n == 0;
	w->redirects = policy_redirects(gate_policy(s->gate));
	pthread_rwlock_init(&w->moves, NULL);
	if (policy_spares(gate_policy(s->gate), NULL))
		w->made = made_dirs_new();
	w->park = watch_park_new(fs, s);
	return w;
}

void fs_watch_free(struct fs_watch *w)
{
	if (w == NULL)
		return;
	pthread_rwlock_destroy(&w->moves);
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
	struct file_redirect to;
	char real[PATH_MAX];
	const bool elsewhere = policy_redirect(gate_policy(fs->watch->setup.gate), w->at.path, &to);
	/* it goes back to where it was */
	const char *path = elsewhere ? to.path : w->at.path;
	struct trash_victim v = {.path = path,
				 .real_path = watch_real_path(fs, w->at.path, real),
				 .command_id = w->k.actor.command_id};
	const char *rest;
	const struct fs_tree *tree = fs_tree_of(fs, path, &rest);
	uint64_t id;
	int result;

	if (fs->setup.trash == NULL || v.real_path == NULL)
		return watch_refuse(w, &w->at, "file-control",
				    "there is no trash that could keep it", EACCES);
	v.tree = tree->shown;
	result = op_soft_delete(fs, q, &v, &id);
	if (result == TRASH_FULL)
		return watch_refuse(w, &w->at, "sandbox.trash.max_bytes",
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
	int result = watch_ask(fs, q, w);
	struct statx st;

	if (w->kind == FS_ACTOR_OWN)
		result = 0;
	else if (result == 0)
		result = watch_approve(fs, q, w);
	/* what is above the limit is refused if it would be an event; the rest is not counted */
	if (result == 0 && w->kind != FS_ACTOR_OWN && tally != NULL &&
	    w->need.event == WATCH_RECORDED && !tally_allows(tally, &w->k.actor))
		result = watch_refuse(w, &w->at, "limits.max_file_ops",
				      "the session has had as many operations as it may have",
				      EDQUOT);
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
	if (result == 0 && w->grant != 0)
		fs->watch->used[w->grant % ACTOR_GRANTS] = w->grant;
	if (result == 0 && (q->opcode == FUSE_OPEN || q->opcode == FUSE_OPENDIR ||
			    q->opcode == FUSE_CREATE || q->opcode == FUSE_TMPFILE))
		watch_remember_opener(fs, q, w, r);
	if (result == 0 && fs->watch->made != NULL)
		note_directory(fs, q, w, r);
	if (result == 0)
		after(q, w, r);
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

/* The kernel locks a directory only for changes by the same path. Where a directory has several, a
 * move waits until what was decided by the old ones is done. */
static void enter(struct fs_watch *w, const struct fs_request *q)
{
	if (!w->redirects)
		return;
	if (q->opcode == FUSE_RENAME || q->opcode == FUSE_RENAME2)
		pthread_rwlock_wrlock(&w->moves);
	else
		pthread_rwlock_rdlock(&w->moves);
}

static void leave(struct fs_watch *w)
{
	if (w->redirects)
		pthread_rwlock_unlock(&w->moves);
}

int watch_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	const struct fs_watch_setup *s = &fs->watch->setup;
	struct watched w;
	int result;

	switch (q->opcode) {
	case FUSE_RELEASE:
		return watch_release(fs, q, r, run);
	case FUSE_READ:
	case FUSE_WRITE:
		return watch_count_bytes(fs, q, r, run);
	case FUSE_COPY_FILE_RANGE:
	case FS_OP_COPY_FILE_RANGE_64:
		return watch_count_copied(fs, q, r, run);
	}
	if (!watch_need(q, &w.need)) {
		if (q->opcode != FUSE_READDIR && q->opcode != FUSE_READDIRPLUS)
			return run(fs, q, r);
		enter(fs->watch, q);
		result = run(fs, q, r);
		leave(fs->watch);
		return result;
	}
	w.begin_us = q->answered ? q->began_us : clock_mono_us(&clock_system);
	w.k = (struct gate_case){.op = &w.op};
	w.own = w.refused = w.silent = false;
	w.size = w.trash = w.grant = 0;
	w.at.set = 0;
	w.at.approve = w.to.approve = 0;
	w.kind = s->actor(s->arg, (uint32_t)q->pid, &w.k.actor);
	/* What agentsh changes, it changes for a command: see exec/attributes.h. */
	w.own = w.kind == FS_ACTOR_OWN && (w.need.ops & WATCH_CHANGES) != 0;
	if (w.own)
		w.kind = FS_ACTOR_UNKNOWN;
	enter(fs->watch, q);
	result = run_watched(fs, q, &w, r, run);
	leave(fs->watch);
	if (w.kind != FS_ACTOR_OWN)
		watch_settle(fs, q, &w, result);
	r->parked = result == FS_HELD;
	return r->parked ? 0 : result;
}
