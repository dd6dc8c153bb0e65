// SPDX-License-Identifier: Apache-2.0
/* Records operations after they were done or refused. */
#include "base/clock.h"
#include "base/mem.h"
#include "fs/watch_state.h"
#include "model/file_type.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static void record(const struct fs *fs, struct gate_case *k, enum fs_actor kind, uint32_t tid,
		   struct gate_report *r)
{
	const struct fs_watch *w = fs->watch;
	char real[PATH_MAX];

	r->real_path = watch_real_path(fs, k->op->file.path, real);
	if (kind == FS_ACTOR_UNKNOWN) {
		w->setup.late(w->setup.arg, tid, k, r);
		return;
	}
	if (w->setup.tally != NULL)
		tally_settled(w->setup.tally, k, r);
	gate_settle(w->setup.gate, k, r);
}

void watch_settle(struct fs *fs, const struct fs_request *q, struct watched *w, int result)
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
	if (result < 0 && fs->watch->setup.failed != NULL)
		fs->watch->setup.failed(fs->watch->setup.arg, (uint32_t)q->pid, result);
	record(fs, &w->k, w->kind, (uint32_t)q->pid, &r);
}

void watch_settle_file(struct fs *fs, const struct watch_file *f, const struct watch_end *e)
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
		record(fs, &k, f->kind, f->tid, &r);
	}
}
