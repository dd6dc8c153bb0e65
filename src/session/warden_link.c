// SPDX-License-Identifier: Apache-2.0
/* The link to one warden: its messages, in order, and the server's. */
#include "base/log.h"
#include "session/command_events.h"
#include "session/drain.h"
#include "session/sessions.h"
#include "session/trash_entries.h"

#define READ_TURN 64   /* messages of one warden in a row */
#define HELLO_MS 30000 /* for a warden's first state */
#define GONE_MS 250    /* the link ends first; the launcher sends the reason of the end */

static void send_fds(struct session *s, enum msg_type type, const void *obj, const int *fds,
		     size_t nfds)
{
	if (!s->ss->freeing)
		peer_send(&s->warden, type, 0, obj, fds, nfds, NULL);
}

void warden_send(struct session *s, enum msg_type type, const void *obj)
{
	send_fds(s, type, obj, NULL, 0);
}

void warden_send_acks(struct session *s)
{
	struct warden_acks acks = {s->acks};

	if (s->acks.n > 0)
		warden_send(s, MSG_warden_ack, &acks);
	strv_done(&s->acks);
}

static const struct peer_kind warden_kind;

/* ---- hello ---- */

static void hello_overdue(void *arg)
{
	session_over(arg, "its warden does not answer");
}

static void say_hello(struct session *s)
{
	const struct config *config = s->ss->deps.config;
	struct warden_hello hello = {
		.version = LINK_VERSION,
		.env = s->env,
		.cwd = s->cwd,
		.shell = config->shell,
		.orphan_timeout_ms = (uint64_t)config->orphan_timeout_ms,
		.command_timeout_ms = (uint64_t)s->config.limits.value[LIMIT_command_timeout],
		.output_quota = (uint64_t)config->output_command_quota,
		.env_max = REQUEST_ENV_MAX,
		.full_ring_drops = strcmp(config->full_ring, "drop") == 0,
		.keep_background =
			s->config.background != NULL && strcmp(s->config.background, "keep") == 0,
		.agent_id = s->agent_id,
		.event_batch_size = (uint32_t)config->fuse_event_batch_size,
		.event_batch_ms = (uint32_t)config->fuse_event_batch_ms,
		.max_file_ops = (uint64_t)s->config.limits.value[LIMIT_max_file_ops],
		.trash_max_bytes = (uint64_t)config->trash_max_bytes,
		.trash_max_age_ms = (uint64_t)config->trash_max_age_ms,
		.max_disk_mb = (uint64_t)s->config.limits.value[LIMIT_max_disk_mb],
	};

	warden_send(s, MSG_warden_hello, &hello);
	s->expects = EXPECT_HELLO;
	session_after(s, HELLO_MS, hello_overdue);
}

void warden_tell_settings(struct session *s)
{
	const struct config *config = s->ss->deps.config;
	enum log_level level = LOG_INFO;
	struct warden_settings m = {
		.orphan_timeout_ms = (uint64_t)config->orphan_timeout_ms,
		.output_quota = (uint64_t)config->output_command_quota,
		.full_ring_drops = strcmp(config->full_ring, "drop") == 0,
		.event_batch_size = (uint32_t)config->fuse_event_batch_size,
		.event_batch_ms = (uint32_t)config->fuse_event_batch_ms,
		.trash_max_bytes = (uint64_t)config->trash_max_bytes,
		.trash_max_age_ms = (uint64_t)config->trash_max_age_ms,
	};
	const int log = STDERR_FILENO;

	log_level_parse(config->log_level, &level);
	m.log_level = level;
	m.log_format = strcmp(config->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT;
	s->settings_due = false;
	send_fds(s, MSG_warden_settings, &m, &log, 1);
}

/* Greets the warden of an earlier API process. The warden answers the empty patch after all
 * messages that the hello makes it send. The journal is read now: the warden sent the bell for its
 * records to the earlier process. */
static void greeted_again(struct session *s)
{
	struct warden_patch nothing = {
		.command_timeout_ms = (uint64_t)s->config.limits.value[LIMIT_command_timeout]};

	warden_tell_settings(s);
	warden_send(s, MSG_warden_patch, &nothing);
	s->expects = EXPECT_SETTLED;
	if (!s->unclaimed)
		session_drain(s, NULL);
}

int warden_attach(struct session *s, const struct strv *rings, int *fd, size_t nfds,
		  struct err *err)
{
	int r;

	r = peer_open(&s->warden, &warden_kind, s->ss->deps.loop, take_fd(fd[0]), s, err);
	if (r == 0)
		r = session_open_rings(s, rings, fd + 1, nfds - 1, err);
	if (r == 0)
		say_hello(s);
	return r;
}

/* ---- what it says ---- */

/* After a reconnection the warden may report an older number. */
static uint64_t grown(uint64_t *last, uint64_t now)
{
	const uint64_t n = now > *last ? now - *last : 0;

	*last += n;
	return n;
}

static void count_execs(struct session *s, const struct exec_counts *now)
{
	struct metrics *m = s->ss->deps.metrics;
	struct exec_counts *last = &s->execs;

	metrics_execs(m, METRIC_EXEC_VERIFIED, grown(&last->verified, now->verified));
	metrics_execs(m, METRIC_EXEC_REFUSED, grown(&last->refused, now->refused));
	metrics_execs(m, METRIC_EXEC_MISMATCHED, grown(&last->mismatched, now->mismatched));
	metrics_execs(m, METRIC_EXEC_FAILED, grown(&last->failed, now->failed));
}

static void count_fuse(struct session *s, const struct fuse_counts *now)
{
	struct metrics *m = s->ss->deps.metrics;
	struct fuse_counts *last = &s->fuse;

	metrics_add(m, METRIC_FUSE_REQUESTS, grown(&last->requests, now->requests));
	metrics_add(m, METRIC_FUSE_REQUEST_US, grown(&last->request_us, now->request_us));
	metrics_add(m, METRIC_FUSE_PARKED, grown(&last->parked, now->parked));
	metrics_add(m, METRIC_FUSE_CACHE_HITS, grown(&last->cache_hits, now->cache_hits));
}

/* The warden has sent its whole state. */
static void settled(struct session *s)
{
	struct command *c;

	s->phase = SESSION_SETTLED;
	watch_stop(s->timer);
	if (s->unclaimed || s->state == SESSION_STOPPING) {
		session_send_end(s);
	} else {
		TAILQ_FOREACH (c, &s->commands, next)
			if (c->phase == COMMAND_UNKNOWN) { /* the warden does not have it */
				command_recall_life(c);
				command_end_unknown(c, "the server stopped");
			}
	}
	sessions_check_ready(s->ss);
}

static void on_state(void *ctx, void *msg, struct link_msg *m)
{
	struct session *s = ctx;
	struct warden_state *now = msg;
	const enum session_expects expected = s->expects;
	cleanup_free char *old_cwd = NULL;

	if (now->session_id == NULL || strcmp(now->session_id, s->id) != 0) {
		session_over(s, "its warden sent the state of another session");
		return;
	}
	if (expected == EXPECT_NOTHING)
		return;
	s->expects = EXPECT_NOTHING;
	old_cwd = mem_strdup(s->cwd);
	if (now->cwd != NULL) {
		mem_replace(&s->cwd, take(now->cwd));
	}
	strv_done(&s->env);
	s->env = now->env;
	now->env = (struct strv){0};
	s->env_dirty = true;
	/* An earlier server has counted these. */
	if (expected == EXPECT_HELLO)
		s->execs = now->execs;
	count_execs(s, &now->execs);
	if (expected == EXPECT_PATCH) {
		session_patched(s, old_cwd);
	} else if (expected == EXPECT_SETTLED) {
		settled(s);
	} else {
		session_take_walls(s, &now->walls);
		if (s->state == SESSION_CREATING && !session_same_dir(s, s->cwd, old_cwd))
			strv_add_new(&s->capped, "working_dir");
		if (s->state == SESSION_CREATING)
			session_on_ready(s);
		else
			greeted_again(s);
	}
}

static void on_result(void *ctx, void *msg, struct link_msg *m)
{
	struct warden_result *result = msg;

	count_execs(ctx, &result->execs);
	count_fuse(ctx, &result->fuse);
	command_on_result(ctx, result);
}

static void gone_overdue(void *arg)
{
	session_over(arg, "its warden ended without a reason");
}

/* Results may still arrive: the session ends when the link does. */
static void on_failed(void *ctx, void *msg, struct link_msg *m)
{
	struct session *s = ctx;
	const struct warden_failed *failed = msg;

	mem_replace(&s->hint,
		    mem_strdup(failed->reason != NULL ? failed->reason : "its warden failed"));
	session_after(s, STOP_MS, gone_overdue);
}

/* Handles one message; false if none is there, or the link has ended. */
static bool read_one(struct session *s)
{
	struct err err = {0};
	const enum link_status status = peer_read(&s->warden, &err);

	if (status == LINK_OK || status == LINK_AGAIN)
		return status == LINK_OK;
	watch_stop(s->warden.readable);
	if (status != LINK_EOF) {
		log_error("a warden breaks the protocol", "session_id", s->id, "error",
			  err.message);
		session_over(s, "its warden broke the protocol");
	} else if (s->hint != NULL || s->state == SESSION_STOPPING) {
		session_over(s, "its warden ended");
	} else { /* the launcher sends the reason shortly after the end of the link */
		session_after(s, GONE_MS, gone_overdue);
	}
	return false;
}

/* One message a turn: most arrive alone, and a second read would cost a system call. */
static void on_readable(void *arg)
{
	struct session *s = session_ref(arg);

	read_one(s);
	session_unref(s);
}

static const struct peer_row warden_rows[] = {
	{MSG_warden_state, on_state},
	{MSG_warden_started, command_on_started},
	{MSG_warden_refused, command_on_refused},
	{MSG_warden_output, command_on_output},
	{MSG_warden_result, on_result},
	{MSG_warden_taken, command_on_taken},
	{MSG_warden_failed, on_failed},
	{MSG_warden_bell, session_on_bell},
	{MSG_warden_restored, session_on_restored},
};
static const struct peer_kind warden_kind = {.self = SIDE_API,
					     .other = SIDE_WARDEN,
					     .rows = warden_rows,
					     .n = ARRAY_LEN(warden_rows),
					     .readable = on_readable};

void warden_read(struct session *s)
{
	session_ref(s);
	for (int i = 0; i < READ_TURN && session_is_linked(s) && read_one(s); i++)
		;
	session_unref(s);
}
