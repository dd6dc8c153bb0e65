// SPDX-License-Identifier: Apache-2.0
#include "fs/opened_files.h"
#include "base/mem.h"
#include <fcntl.h>

/* An open file that may be read or written still. */
struct opened_file {
	struct actor_query who;
	uint32_t opens;		/* of its slot */
	uint32_t mapped;	/* reported */
	uint64_t read, written; /* reported */
	char path[];
};

struct opened_files {
	const struct file_slot *slots;
	opened_report_fn *fn;
	void *arg;
	struct opened_file *at[FILE_SLOTS_MAX]; /* owned; by slot */
};

struct opened_files *opened_files_new(const struct file_slot *slots, opened_report_fn *fn,
				      void *arg)
{
	struct opened_files *o = mem_new(struct opened_files);

	o->slots = slots;
	o->fn = fn;
	o->arg = arg;
	return o;
}

/* exact: the numbers are all that there will be, or all so far. */
static void report(const struct opened_files *o, struct opened_file *f,
		   const struct file_bytes *now, bool exact)
{
	const uint32_t mapped = now->mapped & ~f->mapped;
	const struct opened_report part[] = {
		{.op = OP_FILE_read,
		 .mapped = (mapped & FILE_MAPPED_READ) != 0,
		 .bytes = now->read - f->read},
		{.op = OP_FILE_write,
		 .mapped = (mapped & FILE_MAPPED_WRITE) != 0,
		 .bytes = now->written - f->written},
	};

	for (size_t i = 0; i < ARRAY_LEN(part); i++) {
		struct opened_report r = part[i];

		if (r.bytes == 0 && !r.mapped)
			continue;
		r.who = &f->who;
		r.path = f->path;
		r.has_bytes = exact && r.bytes > 0;
		o->fn(o->arg, &r);
	}
	f->mapped |= now->mapped;
	f->read = now->read;
	f->written = now->written;
}

void opened_files_add(struct opened_files *o, const struct file_call *call,
		      const struct actor_query *who, const char *path)
{
	struct opened_file *f, **at = &o->at[call->slot % FILE_SLOTS_MAX];

	if (*at != NULL && (*at)->opens == call->before.opens)
		report(o, *at, &call->before, call->exact != 0);
	free(take(*at));
	if (path == NULL)
		return;
	f = mem_alloc(sizeof(*f) + strlen(path) + 1);
	*f = (struct opened_file){.who = *who, .opens = call->before.opens + 1};
	strcpy(f->path, path);
	*at = f;
}

void opened_files_report(struct opened_files *o)
{
	for (size_t i = 0; i < FILE_SLOTS_MAX; i++) {
		const struct file_bytes *b = &o->slots[i].bytes;
		struct file_bytes now;

		if (o->at[i] == NULL)
			continue;
		now = (struct file_bytes){.read = __atomic_load_n(&b->read, __ATOMIC_RELAXED),
					  .written = __atomic_load_n(&b->written, __ATOMIC_RELAXED),
					  .mapped = __atomic_load_n(&b->mapped, __ATOMIC_RELAXED),
					  .opens = __atomic_load_n(&b->opens, __ATOMIC_ACQUIRE)};
		/* else the record of the next open has the numbers */
		if (now.opens == o->at[i]->opens)
			report(o, o->at[i], &now, true);
	}
}

void opened_files_free(struct opened_files *o)
{
	for (size_t i = 0; o != NULL && i < FILE_SLOTS_MAX; i++)
		free(o->at[i]);
	free(o);
}
