// SPDX-License-Identifier: Apache-2.0
/* The API child: it starts without privilege, gets everything by its link, and is started again
 * when it dies. The end of its link tells it of the launcher's end. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>

#define FAST_US 1000000
#define FAST_MAX 5
#define AGAIN_MAX_MS 32000

static void on_again(void *arg)
{
	struct launcher *l = arg;
	struct err err = {0};

	if (l->stopping || api_child_start(l, &err) == 0)
		return;
	log_error("cannot start the API child", "error", err.message);
	watch_after(l->api.again, 1000);
}

/* Starts the API child again: at once, or later if it died early several times in a row. */
static void restart(struct launcher *l, bool fast)
{
	struct api_child *api = &l->api;
	const bool came_up = l->ready || l->alive > 0;
	unsigned late;

	if (came_up)
		api->fast_deaths = fast ? api->fast_deaths + 1 : 0;
	late = api->fast_deaths < FAST_MAX ? 0 : api->fast_deaths - FAST_MAX + 1;
	/* It has never listened and no session lives; or the next command starts a server anyway.
	 */
	if (!came_up || (late > 0 && l->auto_start)) {
		l->status = err_row(E_UNAVAILABLE)->exit;
		launcher_stop(l, came_up ? "the API child does not stay"
					 : "the API child cannot start");
		return;
	}
	watch_after(api->again, late == 0 ? 0 : late > 5 ? AGAIN_MAX_MS : 500U << late);
}

static void on_death(void *arg)
{
	struct launcher *l = arg;
	const bool fast = clock_mono_us(&clock_system) - l->api.started_us < FAST_US;
	siginfo_t si = {0};
	char reason[64];
	struct session_entry *w, *next;

	if (!child_ended(&l->api.child, &si))
		return;
	death_reason("it", &si, reason, sizeof(reason));
	log_write(l->stopping ? LOG_INFO : LOG_WARN, "the API child ended", "reason", reason, NULL);
	api_link_end(l);
	for (w = TAILQ_FIRST(&l->entries); w != NULL; w = next) {
		next = TAILQ_NEXT(w, next);
		if (w->making != NULL)
			make_abandon(w);
	}
	if (!l->stopping)
		restart(l, fast);
	if (l->stopping) {
		entries_kill(l);
		launcher_maybe_end(l);
	}
}

static int sealed(const char *name, const struct buf *text)
{
	return fdio_sealed(name, text->data, text->len);
}

/* A descriptor that cannot be had makes api_link_post fail, which ends the child. */
static void greet(struct launcher *l)
{
	const struct settings *s = &l->settings;
	struct launcher_hello hello = {
		.version = LINK_VERSION,
		.privileged = l->privileged,
		.auto_started = l->auto_start,
		.accept_loss = l->accept_loss && !l->ready,
		.owner_uid = l->owner_uid,
		.state_dir = mem_strdup(s->config.base_dir),
		.runtime_dir = mem_strdup(l->place.runtime),
		.has_config = s->has_config,
		.has_keys = s->has_keys,
		.share_mb = (uint64_t)l->groups.share_mb,
	};
	cleanup_free char *unix_name = mem_printf("unix %s", l->place.socket);
	size_t n = 0;
	int fd[4];

	strv_copy(&hello.overrides, &l->source.overrides);
	for (size_t i = 0; i < s->kept.n; i++)
		strv_add(&hello.overrides, s->kept.v[i]);
	if (s->has_config)
		fd[n++] = sealed("config", &s->config_text);
	if (s->has_keys)
		fd[n++] = sealed("keys", &s->keys_text);
	strv_add(&hello.listeners, unix_name);
	fd[n++] = fcntl(l->place.unix_fd, F_DUPFD_CLOEXEC, 3);
	if (l->place.tcp_fd != -1) {
		cleanup_free char *tcp_name = mem_printf("tcp %s", l->place.http);

		strv_add(&hello.listeners, tcp_name);
		fd[n++] = fcntl(l->place.tcp_fd, F_DUPFD_CLOEXEC, 3);
	}
	l->api.telling = true;
	api_link_post(l, MSG_launcher_hello, 0, &hello, fd, n);
	api_link_kick(l);
}

int api_child_connect(struct launcher *l, int fd, struct err *err)
{
	struct session_entry *w;
	const int r = api_link_start(l, fd, err);

	TAILQ_FOREACH (w, &l->entries, next)
		w->told = false;
	if (r == 0)
		greet(l);
	return r;
}

int api_child_start(struct launcher *l, struct err *err)
{
	struct api_child *api = &l->api;
	cleanup_fd int link = -1;
	int r = child_start(&api->child, l, "agentsh-api", l->programs.fd[PROGRAM_API],
			    l->settings.config.api_uid, &link, err);

	api->started_us = clock_mono_us(&clock_system);
	if (api->again == NULL)
		api->again = watch_timer(l->loop, on_again, l);
	if (r == 0)
		r = child_watch(&api->child, l->loop, on_death, l, err);
	if (r < 0) {
		child_end(&api->child, NULL);
		return r;
	}
	return api_child_connect(l, take_fd(link), err);
}

void api_child_hup(struct launcher *l)
{
	/* The log, the configuration (an empty one holds its place), the keys if there are any. */
	const int fd[] = {fcntl(l->log_fd, F_DUPFD_CLOEXEC, 3),
			  sealed("config", &l->settings.config_text),
			  l->settings.has_keys ? sealed("keys", &l->settings.keys_text) : -1};

	api_link_post(l, MSG_launcher_hup, 0, &(struct msg_empty){0}, fd,
		      l->settings.has_keys ? 3 : 2);
}
