// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_session.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fs/recorded_calls.h"
#include "gate/tally.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#define SETTLE_MS 50 /* a result waits so long for RELEASE, which the kernel sends late */

/* A command of which the result waits. */
struct ending {
	STAILQ_ENTRY(ending) next;
	int64_t until_us;
	char command_id[ID_MAX + 1];
};

struct fs_session {
	struct process_self *p;
	struct tally *tally;
	uint64_t max[TALLY_LIMITS];
	atomic_uint late;    /* events that wait for their actor */
	atomic_bool awaited; /* the loop waits for files to be closed */
	/* the loop's */
	STAILQ_HEAD(, ending) endings;
	struct watch *ends;
	/* of the endings; one of them may be NULL */
	struct fs *fs;
	const struct recorded_calls *calls;
};

void fs_session_late(struct fs_session *s)
{
	atomic_fetch_add(&s->late, 1);
}

void fs_session_settled(struct fs_session *s, const struct gate_case *k,
			const struct gate_report *r)
{
	tally_settled(s->tally, k, r);
	atomic_fetch_sub(&s->late, 1);
	fs_session_news(s);
}

void fs_session_recorded(struct fs_session *s, const struct gate_case *k,
			 const struct gate_report *r)
{
	tally_noticed(s->tally, k, r);
	/* no rule and no list says why: the error is what explains it */
	if (r->outcome == GATE_REFUSED && k->verdict.rule != NULL &&
	    strcmp(k->verdict.rule, EVENT_KERNEL_RULE) == 0)
		tally_failed(s->tally, &k->actor, r->error, k->op->file.path);
	fs_session_news(s);
}

void fs_session_news(struct fs_session *s)
{
	if (atomic_load(&s->awaited) || tally_has_over(s->tally))
		process_wake(s->p);
}

void fs_session_named(struct fs_session *s)
{
	atomic_fetch_sub(&s->late, 1);
	fs_session_news(s);
}

/* ---- the loop ---- */

static void tell_settled(struct fs_session *s, const struct ending *e)
{
	struct process_settled m = {.command_id = (char *)e->command_id};
	struct fs_counts c = {0};

	if (s->fs != NULL)
		fs_counts(s->fs, &c);
	m.fuse = (struct fuse_counts){c.requests, c.request_us, c.parked, c.cache_hits};
	m.failed_errno = (uint32_t)tally_forget(s->tally, e->command_id, &m.failed_path);
	if (m.failed_errno == ENOENT && s->fs != NULL)
		fs_similar(s->fs, m.failed_path, &m.similar);
	else if (m.failed_errno == ENOENT)
		recorded_calls_similar(s->calls, m.failed_path, &m.similar);
	process_tell_settled(s->p, &m);
	free(m.failed_path);
	strv_done(&m.similar);
}

static void look_at_endings(void *arg)
{
	struct fs_session *s = arg;
	const int64_t now = clock_mono_us(&clock_system);
	struct ending *e;

	atomic_store(&s->awaited, !STAILQ_EMPTY(&s->endings));
	/* one after the other: they wait for the same time */
	while ((e = STAILQ_FIRST(&s->endings)) != NULL) {
		if (e->until_us > now &&
		    (atomic_load(&s->late) > 0 || tally_open_files(s->tally, e->command_id) > 0)) {
			watch_after(s->ends, (uint64_t)(e->until_us - now) / 1000 + 1);
			return;
		}
		STAILQ_REMOVE_HEAD(&s->endings, next);
		tell_settled(s, e);
		free(e);
	}
	atomic_store(&s->awaited, false);
}

/* Before a result: the warden then knows why its command failed. */
static void tell_limits(struct fs_session *s)
{
	static const char *const names[TALLY_LIMITS] = {
		[TALLY_max_file_ops] = "max_file_ops",
		[TALLY_max_disk_mb] = "max_disk_mb",
	};
	char command_id[ID_MAX + 1];
	enum tally_limit limit;

	while (tally_next_over(s->tally, command_id, &limit))
		process_tell_limit(s->p, &(struct process_limit){.command_id = command_id,
								 .limit = (char *)names[limit],
								 .value = s->max[limit]});
}

void fs_session_settle(struct fs_session *s, struct fs *fs, const struct recorded_calls *calls,
		       const char *command_id)
{
	struct ending *e = mem_new(struct ending);

	tell_limits(s);
	s->fs = fs;
	s->calls = calls;
	e->until_us = clock_mono_us(&clock_system) + SETTLE_MS * 1000;
	snprintf(e->command_id, sizeof(e->command_id), "%s", command_id);
	STAILQ_INSERT_TAIL(&s->endings, e, next);
	look_at_endings(s);
}

void fs_session_woken(struct fs_session *s)
{
	tell_limits(s);
	look_at_endings(s);
}

void fs_session_settings(struct fs_session *s, const struct process_settings *settings)
{
	tally_limit(s->tally, settings->max_file_ops);
	s->max[TALLY_max_file_ops] = settings->max_file_ops;
	s->max[TALLY_max_disk_mb] = settings->max_disk_mb;
}

/* ---- the session ---- */

struct fs_session *fs_session_new(struct process_self *p)
{
	struct fs_session *s = mem_new(struct fs_session);

	s->p = p;
	s->tally = tally_new();
	STAILQ_INIT(&s->endings);
	s->ends = watch_timer(p->loop, look_at_endings, s);
	return s;
}

struct tally *fs_session_tally(struct fs_session *s)
{
	return s->tally;
}

void fs_session_free(struct fs_session *s)
{
	struct ending *e;

	if (s == NULL)
		return;
	while ((e = STAILQ_FIRST(&s->endings)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->endings, next);
		free(e);
	}
	watch_free(s->ends);
	tally_free(s->tally);
	free(s);
}
