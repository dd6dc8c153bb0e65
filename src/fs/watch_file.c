// SPDX-License-Identifier: Apache-2.0
/* Open files: who opened them, and what was read and written by the time they are closed. */
#include "base/fdio.h"
#include "base/mem.h"
#include "fs/watch_state.h"
#include "model/file_type.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void watch_remember_opener(struct fs *fs, const struct fs_request *q, const struct watched *w,
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

int watch_release(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
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
		watch_settle_file(fs, f, &end);
	if (f != NULL && fs->watch->setup.tally != NULL)
		tally_closed(fs->watch->setup.tally, &f->actor);
	if (f != NULL && fs->watch->setup.news != NULL)
		fs->watch->setup.news(fs->watch->setup.arg);
	free(f);
	return result;
}

/* READ and WRITE were decided by the open; they are counted. */
int watch_count_bytes(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
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

int watch_count_copied(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
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
