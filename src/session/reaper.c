// SPDX-License-Identifier: Apache-2.0
/* The reaper: ends sessions that are idle, too old or used up, and removes old output. */
#include "base/fdio.h"
#include "base/log.h"
#include "session/command_state.h"
#include "session/db_row.h"
#include "session/sessions.h"
#include "session/trash_entries.h"
#include "terminal/stream.h"
#include <inttypes.h>
#include <malloc.h>

static bool past(int64_t since_us, int64_t limit_ms, int64_t now_us)
{
	return limit_ms > 0 && now_us - since_us >= limit_ms * 1000;
}

const char *session_used_up(const struct session *s, struct err *err)
{
	const struct {
		enum limit limit;
		int64_t had;
		const char *reason, *what;
	} rows[] = {
		{LIMIT_max_commands, s->totals.command_count, "it has had its max_commands",
		 "commands"},
		{LIMIT_max_file_ops, s->totals.file_ops, "it has had its max_file_ops",
		 "operations on files"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const int64_t most = s->config.limits.value[rows[i].limit];

		if (most > 0 && rows[i].had >= most) {
			err_set(err, E_RESOURCE_LIMIT, s->id,
				"session '%s' has had its %" PRId64 " %s (%s)", s->id, most,
				rows[i].what, limit_rows[rows[i].limit].field);
			return rows[i].reason;
		}
	}
	return NULL;
}

/* Why a session must end; NULL: it may go on. */
static const char *reason(const struct session *s, int64_t now)
{
	const struct session_request *c = &s->config;

	if (past(s->created_boot_us, c->limits.value[LIMIT_session_timeout], now))
		return "its timeout has passed";
	if (past(s->active_boot_us, c->limits.value[LIMIT_idle_timeout], now) && session_is_idle(s))
		return "it was idle for its idle_timeout";
	return session_is_idle(s) ? session_used_up(s, NULL) : NULL;
}

void sessions_reap(struct sessions *ss)
{
	const int64_t now = sessions_boot(ss);
	struct session *s;

	TAILQ_FOREACH (s, &ss->all, all) {
		const char *why;

		if (s->phase != SESSION_SETTLED ||
		    (s->state != SESSION_READY && s->state != SESSION_BUSY))
			continue;
		why = reason(s, now);
		if (why == NULL)
			continue;
		log_info("session ends", "session_id", s->id, "reason", why);
		session_begin_stop(s, why, "");
	}
}

/* ---- the wall clock ---- */

#define STEADY_US (INT64_C(3600) * 1000000)
#define AGREES_US (INT64_C(60) * 1000000)
#define AGE_ANY (INT64_MAX / 1000) /* no file is older */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_LEN 36

/* "" if it cannot be read. */
static void read_boot_id(char out[BOOT_ID_LEN + 1])
{
	cleanup_buf struct buf id = {0};

	out[0] = '\0';
	if (fdio_load_path(BOOT_ID, 64, &id, NULL) == 0)
		sscanf(id.data, "%36s", out);
}

static void load_steadiness(struct sessions *ss)
{
	struct db_row r = row_read(ss->deps.store, "SELECT value FROM meta WHERE key='wall_clock'");
	char now[BOOT_ID_LEN + 1], then[BOOT_ID_LEN + 1];
	long long ahead, since;

	read_boot_id(now);
	ss->wall_ahead_us = INT64_MAX / 2; /* not known */
	if (row_next(&r, NULL) > 0) {
		const char *text = row_text(&r);

		if (text != NULL && sscanf(text, "%36s %lld %lld", then, &ahead, &since) == 3 &&
		    strcmp(then, now) == 0 && since <= sessions_boot(ss)) {
			ss->wall_ahead_us = ahead;
			ss->steady_since_us = since;
		}
	}
	sqlite3_reset(r.stmt);
}

static void save_steadiness(struct sessions *ss)
{
	cleanup_free char *text = NULL;
	char id[BOOT_ID_LEN + 1];

	read_boot_id(id);
	text = mem_printf("%s %lld %lld", id, (long long)ss->wall_ahead_us,
			  (long long)ss->steady_since_us);
	store_put(ss->deps.store,
		  "INSERT OR REPLACE INTO meta(key, value) VALUES('wall_clock', ?)");
	store_put_text(ss->deps.store, text);
	store_put_end(ss->deps.store);
}

bool sessions_wall_is_steady(struct sessions *ss)
{
	const int64_t now = sessions_boot(ss), ahead = sessions_now(ss) - now;

	if (ahead > ss->wall_ahead_us + AGREES_US || ahead < ss->wall_ahead_us - AGREES_US) {
		ss->wall_ahead_us = ahead;
		ss->steady_since_us = now;
		save_steadiness(ss);
	}
	return now - ss->steady_since_us >= STEADY_US;
}

/* ---- output ---- */

static bool has_name(const struct output_file file[3], const char *name)
{
	return strcmp(file[1].name, name) == 0 || strcmp(file[2].name, name) == 0;
}

/* Keeps the files of commands that are not over, and those that wait for the next command. */
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

	stream_sweep(ss->deps.output_dir, (uint64_t)config->output_quota,
		     sessions_wall_is_steady(ss) ? config->output_max_age_ms : AGE_ANY,
		     sessions_now(ss), keep, ss);
}

/* The memory of many sessions that have ended does not stay with the process. */
static void give_back(struct sessions *ss)
{
	if (!ss->trim_due)
		return;
	ss->trim_due = false;
	store_trim(ss->deps.store);
	malloc_trim(0);
}

static void round_of(void *arg)
{
	struct sessions *ss = arg;

	sessions_reap(ss);
	sessions_sweep_output(ss);
	trash_sweep(ss);
	give_back(ss);
	reaper_again(ss);
}

int reaper_start(struct sessions *ss, struct err *err)
{
	load_steadiness(ss);
	sessions_wall_is_steady(ss);
	ss->reaper = watch_boot_timer(ss->deps.loop, round_of, ss);
	if (ss->reaper == NULL)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot create a timer (timerfd)");
	reaper_again(ss);
	return 0;
}

void reaper_again(struct sessions *ss)
{
	watch_after(ss->reaper, (uint64_t)ss->deps.config->cleanup_interval_ms);
}
