// SPDX-License-Identifier: Apache-2.0
/* The life of the API process: greeting from the launcher, open the store, find the living
 * sessions, listen, stop. */
#include "api/handlers.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/http.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#define CONFIG_MAX (1024 * 1024)
#define OPEN_AGAIN_S 1
#define IDLE_TICK_MS 1000
#define LEAVE_S 1 /* how long a stopping server waits for clients that read slowly */

/* Ends the process; the launcher starts another one. */
static void fail(struct api *api, const char *what, const struct err *err)
{
	log_error(what, "error", err->message);
	api->failed = true;
	loop_stop(api->loop);
}

static int load_fd(int fd, const char *what, struct buf *out, struct err *err)
{
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, E_INTERNAL, what, "cannot rewind");
	return fdio_load(fd, CONFIG_MAX, out, err);
}

/* fd -1: no file. */
static int load_config(const struct api *api, int fd, struct config *out, struct err *err)
{
	cleanup_buf struct buf text = {0};
	struct config c = {0};
	int r = config_defaults(api->privileged ? CONFIG_SYSTEM : CONFIG_USER, &c, err);

	if (r == 0 && fd >= 0)
		r = load_fd(fd, "configuration", &text, err);
	if (r == 0 && fd >= 0)
		r = config_parse("configuration", text.data ? text.data : "", text.len, &c, NULL,
				 err);
	for (size_t i = 0; r == 0 && i < api->overrides.n; i++)
		r = config_override(api->overrides.v[i], &c, err);
	if (r == 0)
		*out = c;
	else
		config_done(&c);
	return r;
}

static int load_keys(struct api *api, int fd, struct err *err)
{
	cleanup_buf struct buf text = {0};
	struct api_keys keys = {0};
	int r = load_fd(fd, "keys", &text, err);

	if (r == 0)
		r = api_keys_parse("keys", text.data ? text.data : "", text.len, &keys, NULL, err);
	if (r == 0) {
		api_keys_done(&api->keys);
		api->keys = keys;
	}
	return r;
}

/* Our stderr is the log: the launcher opens logging.output. */
static void set_log(struct api *api)
{
	enum log_level level = LOG_INFO;

	log_level_parse(api->config.log_level, &level);
	log_set(level, strcmp(api->config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT);
}

static struct http_limits http_limits_of(const struct api *api)
{
	const struct config *c = &api->config;
	struct http_limits limits = http_limits_default;

	limits.owner_uid = api->owner_uid;
	limits.max_body = (size_t)c->max_request_bytes;
	limits.max_connections = (unsigned)c->max_connections;
	return limits;
}

static struct sink_jsonl_config jsonl_of(const struct config *c, const char *path)
{
	return (struct sink_jsonl_config){path, (uint64_t)c->jsonl_max_bytes, c->jsonl_max_age_ms,
					  (unsigned)c->jsonl_keep};
}

/* Takes the listeners from the greeting; configuration and keys come before them. */
static int take_hello(struct api *api, struct launcher_hello *hello, struct link_msg *m,
		      struct err *err)
{
	size_t next = 0;
	int r;

	api->owner_uid = hello->owner_uid;
	api->auto_started = hello->auto_started;
	api->privileged = hello->privileged != 0;
	api->accept_loss = hello->accept_loss != 0;
	api->share_mb = (int64_t)hello->share_mb;
	api->overrides = hello->overrides;
	hello->overrides = (struct strv){0};
	r = load_config(api, hello->has_config && m->nfds > 0 ? m->fd[next++] : -1, &api->config,
			err);
	if (r == 0 && hello->has_keys && next < m->nfds)
		r = load_keys(api, m->fd[next++], err);
	if (r == 0 && (m->nfds - next != hello->listeners.n || hello->listeners.n > API_LISTENERS))
		r = err_set(err, E_INTERNAL, NULL, "the launcher sent %zu listeners for %zu names",
			    m->nfds - next, hello->listeners.n);
	for (; r == 0 && next < m->nfds; next++) {
		size_t i = api->nlisteners++;

		api->listener_kind[i] = strncmp(hello->listeners.v[i], "unix ", 5) == 0
						? LISTENER_UNIX
						: LISTENER_TCP;
		api->listener[i] = take_fd(m->fd[next]);
	}
	return r;
}

/* The address does not change: others borrow it. Settings that need a restart stay. */
static int take_config(struct api *api, int fd, struct err *err)
{
	struct http_limits limits;
	struct sink_jsonl_config lines;
	struct strv kept = {0};
	struct config c;
	int r = load_config(api, fd, &c, err);

	if (r < 0)
		return r;
	config_keep(&api->config, &c, &kept); /* the launcher logs their names */
	strv_done(&kept);
	config_done(&api->config);
	api->config = c;
	set_log(api);
	limits = http_limits_of(api);
	http_server_limit(api->http, &limits);
	lines = jsonl_of(&c, NULL);
	if (api->jsonl != NULL)
		sink_jsonl_limits(api->jsonl, &lines);
	return 0;
}

/* Descriptors: the log, the configuration, and the keys if there are any. */
static void on_hup(void *ctx, void *msg, struct link_msg *m)
{
	struct api *api = ctx;
	struct err err = {0};

	if (m->nfds > 0) /* rotated: write to the new file, and close the old one */
		dup2(m->fd[0], STDERR_FILENO);
	if (m->nfds > 1 && take_config(api, m->fd[1], &err) < 0)
		log_error("the configuration was not replaced", "error", err.message);
	if (m->nfds > 2 && load_keys(api, m->fd[2], &err) < 0)
		log_error("the keys were not replaced", "error", err.message);
	if (m->nfds == 2)
		api_keys_done(&api->keys);
	if (api->jsonl != NULL && sink_jsonl_reopen(api->jsonl, &err) < 0)
		log_error("the JSONL file cannot be reopened", "error", err.message);
	if (api->sessions != NULL)
		sessions_reconfigure(api->sessions);
	log_info("reloaded");
}

static void end_loop(void *arg)
{
	loop_stop(arg);
}

/* All sessions have ended; clients get their last answers. */
static void leave(void *arg)
{
	struct api *api = arg;

	api->leave_timer = watch_timer(api->loop, end_loop, api->loop);
	watch_after(api->leave_timer, LEAVE_S * 1000);
	http_server_on_quiet(api->http, end_loop, api->loop);
}

static void on_stop(void *ctx, void *msg, struct link_msg *m)
{
	struct api *api = ctx;

	if (api->stopping)
		return;
	api->stopping = true;
	http_server_drain(api->http);
	if (api->sessions != NULL)
		sessions_stop(api->sessions, leave, api);
	else
		leave(api);
}

/* ---- what comes before the store is open ---- */

struct held {
	STAILQ_ENTRY(held) link;
	struct link_msg m;
};

/* Passes a message to the sessions. Until the store is open, messages are held, with their
 * descriptors: a warden with an open link does not count as an orphan. */
static int on_other(void *ctx, struct link_msg *m, struct err *err)
{
	struct api *api = ctx;
	struct held *h;

	if (api->sessions != NULL)
		return sessions_on_launcher(api->sessions, m, err);
	h = mem_new(struct held);
	h->m = *m;
	h->m.data = mem_dup(m->data, m->len);
	m->nfds = 0;
	STAILQ_INSERT_TAIL(&api->held, h, link);
	return 0;
}

/* Passes held messages to the sessions, or drops them if the store was never opened. */
static void release(struct api *api)
{
	struct err err = {0};
	struct held *h;

	while ((h = STAILQ_FIRST(&api->held)) != NULL) {
		STAILQ_REMOVE_HEAD(&api->held, link);
		if (api->sessions != NULL && sessions_on_launcher(api->sessions, &h->m, &err) < 0)
			log_error("a message of the launcher is broken", "error", err.message);
		link_msg_done(&h->m);
		free((void *)(uintptr_t)h->m.data);
		free(h);
	}
}

static void listen_all(struct api *api)
{
	struct err err = {0};

	if (api->listening)
		return;
	api->listening = true;
	for (size_t i = 0; i < api->nlisteners; i++)
		if (http_server_listen(api->http, api->listener[i], (int)i, transport_plain, &err) <
		    0)
			fail(api, "cannot listen", &err);
}

static void on_ready(void *arg)
{
	struct api *api = arg;

	listen_all(api);
	api->idle_since_us = clock_mono_us(&clock_system);
	log_info("ready"); /* before the launcher reports it, so that readers find the line */
	peer_send(&api->launcher, MSG_launcher_ready, 0, &(struct msg_empty){0}, NULL, 0, NULL);
}

/* An auto-started server ends when it was not used for server.auto_idle. */
static void on_idle_tick(void *arg)
{
	struct api *api = arg;
	int64_t now = clock_mono_us(&clock_system);

	watch_after(api->idle_timer, IDLE_TICK_MS);
	if (api->idle_since_us == 0) /* not ready yet */
		return;
	if (api->sessions == NULL || sessions_live(api->sessions) > 0 ||
	    http_server_connections(api->http) > 0 || api->stopping)
		api->idle_since_us = now;
	else if (now - api->idle_since_us >= api->config.auto_idle_ms * 1000)
		peer_send(&api->launcher, MSG_launcher_idle, 0, &(struct msg_empty){0}, NULL, 0,
			  NULL);
}

static void count_event(const struct stored_event *e, void *arg)
{
	struct api *api = arg;
	const bool denied = e->decision != NULL && strcmp(e->decision, "deny") == 0;

	metrics_event(api->metrics, e->type, e->count, denied);
	if (e->type == EVENT_events_dropped)
		api->dropped += e->count;
	if (denied)
		metrics_add(api->metrics, METRIC_POLICY_VIOLATIONS, e->count);
}

static void close_store(struct api *api)
{
	if (api->jsonl != NULL)
		sink_jsonl_finish(api->jsonl);
	sink_jsonl_close(api->jsonl);
	store_close(api->store);
	if (api->output_dir >= 0)
		close(api->output_dir);
	api->jsonl = NULL;
	api->store = NULL;
	api->output_dir = -1;
}

static int open_store(struct api *api, struct err *err)
{
	const struct config *c = &api->config;
	cleanup_free char *db = c->events_db[0] ? mem_strdup(c->events_db)
						: mem_printf("%s/agentsh.db", c->base_dir);
	cleanup_free char *lines = c->jsonl_path[0] ? mem_strdup(c->jsonl_path)
						    : mem_printf("%s/events.jsonl", c->base_dir);
	cleanup_free char *output = mem_printf("%s/output", c->base_dir);
	const struct sink_jsonl_config jc = jsonl_of(c, lines);
	int r = fdio_mkdirs(output, 0700, err);

	if (r == 0)
		r = store_open(db, api->loop, &clock_system, api->accept_loss, &api->store, err);
	if (r == 0)
		store_add_sink(api->store, count_event, NULL, api);
	if (r == 0 && strcmp(lines, "none") != 0)
		r = sink_jsonl_open(api->store, &clock_system, &jc, &api->jsonl, err);
	if (r == 0)
		api->output_dir = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && api->output_dir < 0)
		r = err_errno(err, E_UNAVAILABLE, output, "cannot open");
	if (r < 0)
		close_store(api);
	return r;
}

static int start_sessions(struct api *api, struct err *err)
{
	const int r = sessions_new(&(struct sessions_deps){.loop = api->loop,
							   .clock = &clock_system,
							   .config = &api->config,
							   .store = api->store,
							   .metrics = api->metrics,
							   .launcher = &api->launcher,
							   .output_dir = api->output_dir,
							   .share_mb = api->share_mb},
				   &api->sessions, err);

	if (r < 0)
		return r;
	sessions_on_ready(api->sessions, on_ready, api);
	release(api);
	return 0;
}

/* Opens the store and starts the sessions. If the disk is full, it tries again later. */
static int open_or_wait(struct api *api, struct err *err)
{
	const bool waiting = api->no_store.code != E_OK;
	int r = open_store(api, err);

	if (r == -E_RESOURCE_LIMIT) {
		api->no_store = *err;
		if (!waiting)
			log_error("the database cannot be opened: every request is refused until "
				  "it can",
				  "error", err->message);
		listen_all(api);
		watch_after(api->open_timer, OPEN_AGAIN_S * 1000);
		return 0;
	}
	if (r == 0)
		r = start_sessions(api, err);
	if (r == 0 && waiting)
		log_info("the database is open");
	return r;
}

static void on_open_again(void *arg)
{
	struct api *api = arg;
	struct err err = {0};

	if (!api->stopping && open_or_wait(api, &err) < 0)
		fail(api, "cannot open the database", &err);
}

static int start(struct api *api, struct err *err)
{
	const struct http_limits limits = http_limits_of(api);
	int r;

	api->metrics = metrics_new();
	metrics_add(api->metrics, METRIC_API_RESTARTS, 1);
	api->http = http_server_new(api->loop, &limits, api_on_request, api_on_bad, api);
	api->open_timer = watch_timer(api->loop, on_open_again, api);
	r = open_or_wait(api, err);
	if (r < 0)
		return r;
	if (api->auto_started) {
		api->idle_timer = watch_timer(api->loop, on_idle_tick, api);
		watch_after(api->idle_timer, IDLE_TICK_MS);
	}
	return 0;
}

static void on_hello(void *ctx, void *msg, struct link_msg *m)
{
	struct api *api = ctx;
	struct err err = {0};
	int r = take_hello(api, msg, m, &err);

	if (r == 0) {
		set_log(api);
		r = start(api, &err);
	}
	if (r < 0)
		fail(api, "cannot start", &err);
}

static void on_launcher(void *arg)
{
	struct api *api = arg;
	enum link_status status;
	struct err err = {0};

	while ((status = peer_read(&api->launcher, &err)) == LINK_OK || status == LINK_LOST)
		if (status == LINK_LOST) /* the request that waits for it has a deadline */
			log_error("a message of the launcher is lost", "error", err.message);
		else if (api->failed)
			return;
	if (status == LINK_BROKEN)
		fail(api, "the launcher's link is broken", &err);
	else if (status == LINK_EOF)
		loop_stop(api->loop); /* the wardens go on */
}

static void finish(struct api *api)
{
	if (api->sessions != NULL)
		sessions_abandon(
			api->sessions); /* the commands go on: their clients did not leave */
	http_server_free(api->http);
	sessions_free(api->sessions);
	call_resume_all(api);
	api->sessions = NULL;
	release(api);
	close_store(api);
	metrics_free(api->metrics);
	watch_free(api->open_timer);
	watch_free(api->idle_timer);
	watch_free(api->leave_timer);
	peer_close(&api->launcher);
	loop_free(api->loop);
	for (size_t i = 0; i < api->nlisteners; i++)
		close(api->listener[i]);
	api_keys_done(&api->keys);
	config_done(&api->config);
	strv_done(&api->overrides);
}

int api_main(int link_fd)
{
	static const struct peer_row rows[] = {{MSG_launcher_hello, on_hello},
					       {MSG_launcher_stop, on_stop},
					       {MSG_launcher_hup, on_hup}};
	static const struct peer_kind kind = {.self = SIDE_API,
					      .other = SIDE_LAUNCHER,
					      .rows = rows,
					      .n = ARRAY_LEN(rows),
					      .rest = on_other,
					      .readable = on_launcher};
	struct api api = {.output_dir = -1,
			  .methods = api_methods,
			  .nmethods = api_nmethods,
			  .held = STAILQ_HEAD_INITIALIZER(api.held),
			  .launcher = PEER_CLOSED,
			  .loop = loop_new(NULL, NULL)};
	struct err err = {0};

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	log_init("agentsh-api", LOG_INFO, LOG_TEXT, STDERR_FILENO);
	if (api.loop == NULL) {
		log_error("cannot start: there is no epoll", "error", strerror(errno));
		return 1;
	}
	if (peer_open(&api.launcher, &kind, api.loop, link_fd, &api, &err) == 0) {
		loop_run(api.loop);
	} else {
		log_error("cannot start", "error", err.message);
		api.failed = true;
	}
	finish(&api);
	return api.failed ? 1 : 0;
}
