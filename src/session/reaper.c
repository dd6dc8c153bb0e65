// SPDX-License-Identifier: Apache-2.0
/* What time ends: sessions that are idle, too old or used up, and output that nobody may keep
 * longer. */
#include "base/log.h"
#include "session/internal.h"
#include "terminal/stream.h"

static bool idle(const struct session *s)
{
	const struct command *c;

	TAILQ_FOREACH (c, &s->commands, next)
		if (!c->over)
			return false;
	return true;
}

static bool past(int64_t since_us, int64_t limit_ms, int64_t now_us)
{
	return limit_ms > 0 && now_us - since_us >= limit_ms * 1000;
}

static bool used_up(int64_t used, int64_t limit)
{
	return limit > 0 && used >= limit;
}

/* Why a session must end; NULL: it may go on. */
static const char *reason(const struct session *s, int64_t now)
{
	const struct session_wish *c = &s->config;

	if (past(s->created_us, c->timeout_ms, now))
		return "its timeout has passed";
	if (past(s->last_activity_us, c->idle_timeout_ms, now) && idle(s))
		return "it was idle for its idle_timeout";
	if (used_up(s->totals.command_count, c->max_commands) && idle(s))
		return "it has had its max_commands";
	return NULL;
}

void sessions_reap(struct sessions *ss)
{
	const int64_t now = sessions_now(ss);
	struct session *s;

	TAILQ_FOREACH (s, &ss->all, all) {
		const char *why;

		if (!s->settled || s->over ||
		    (s->state != SESSION_READY && s->state != SESSION_BUSY))
			continue;
		why = reason(s, now);
		if (why == NULL)
			continue;
		log_info("session ends", "session_id", s->id, "reason", why);
		session_begin_stop(s, why, "");
	}
}

static bool has_name(const struct output_file file[3], const char *name)
{
	return strcmp(file[1].name, name) == 0 || strcmp(file[2].name, name) == 0;
}

/* What a command that is not over writes, or the next one will. */
static bool keep(const char *session, const char *name, void *arg)
{
	struct session *s = sessions_find(arg, session);
	const struct command *c;

	if (s == NULL)
		return false;
	TAILQ_FOREACH (c, &s->commands, next)
		if (has_name(c->file, name))
			return true;
	return has_name(s->spare, name);
}

void sessions_sweep_output(struct sessions *ss)
{
	const struct config *config = ss->deps.config;

	stream_sweep(ss->deps.output_dir, (uint64_t)config->output_quota, config->output_max_age_ms,
		     sessions_now(ss), keep, ss);
}

static void round_of(void *arg)
{
	struct sessions *ss = arg;

	sessions_reap(ss);
	sessions_sweep_output(ss);
	watch_after(ss->reaper, ss->deps.config->cleanup_interval_ms);
}

void reaper_start(struct sessions *ss)
{
	ss->reaper = watch_timer(ss->deps.base, round_of, ss);
	watch_after(ss->reaper, ss->deps.config->cleanup_interval_ms);
}

void reaper_again(struct sessions *ss)
{
	watch_after(ss->reaper, ss->deps.config->cleanup_interval_ms);
}

void reaper_stop(struct sessions *ss)
{
	watch_free(take(ss->reaper));
}
