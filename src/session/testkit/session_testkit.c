// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/session_testkit.h"
#include "base/fdio.h"
#include "base/log.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

char *kit_text(const char *s)
{
	return (char *)s;
}

void kit_told(const struct err *err, struct session *s, void *arg)
{
	struct told *t = arg;

	t->n++;
	t->s = s;
	if (err != NULL)
		t->err = *err;
	assert_true((err == NULL) != (s == NULL));
}

/* What the API child's main does with its launcher's link. */
static int kit_on_launcher(void *arg, struct link_msg *m, struct err *err)
{
	struct kit *k = arg;

	return k->ss != NULL && m->type != MSG_launcher_hello ? sessions_on_launcher(k->ss, m, err)
							      : 0;
}

static void kit_feed(void *arg)
{
	struct kit *k = arg;

	while (k->api.link.fd != -1 && peer_read(&k->api, NULL) == LINK_OK)
		;
}

static const struct peer_kind kit_kind = {
	.self = SIDE_API, .other = SIDE_LAUNCHER, .rest = kit_on_launcher, .readable = kit_feed};

void kit_turn(struct kit *k)
{
	for (int i = 0; i < 4; i++) {
		kit_feed(k);
		loop_settle(k->loop);
	}
	store_commit(k->store, NULL); /* which would come a little later */
}

static void kit_guard(void *arg)
{
	*(bool *)arg = true;
}

void kit_until(struct kit *k, const unsigned *what, unsigned n)
{
	bool over = false;
	struct watch *guard = watch_timer(k->loop, kit_guard, &over);

	watch_after(guard, 5000);
	while (*what < n && !over)
		loop_turn(k->loop);
	watch_free(guard);
	assert_false(over);
}

static char *kit_path(struct kit *k, const char *name)
{
	return mem_printf("%s/%s", k->dir, name);
}

void kit_open_sessions(struct kit *k)
{
	cleanup_free char *db = kit_path(k, "agentsh.db");
	struct err err = {0};
	int fd[2];

	assert_int_equal(store_open(db, k->loop, &k->clock, false, &k->store, &err), 0);
	assert_int_equal(link_pair(fd, &err), 0);
	assert_int_equal(fdio_nonblock(fd[1]), 0);
	assert_int_equal(peer_open(&k->api, &kit_kind, k->loop, fd[0], k, &err), 0);
	link_init(&k->launcher, fd[1], SIDE_LAUNCHER, SIDE_API);
	assert_int_equal(link_send(&k->launcher, MSG_launcher_hello, 0,
				   &(struct launcher_hello){.version = LINK_VERSION}, NULL, 0,
				   &err),
			 0);
	assert_int_equal(sessions_new(&(struct sessions_deps){.loop = k->loop,
							      .clock = &k->clock,
							      .config = &k->config,
							      .store = k->store,
							      .metrics = k->metrics,
							      .launcher = &k->api,
							      .output_dir = k->output_dir},
				      &k->ss, &err),
			 0);
	kit_feed(k);
}

void kit_close_sessions(struct kit *k)
{
	sessions_free(k->ss);
	k->ss = NULL;
	store_close(k->store);
	peer_close(&k->api);
	link_done(&k->launcher);
	for (size_t i = 0; i < k->nwardens; i++) {
		link_done(&k->warden[i].link);
		for (int j = 0; j < 2; j++)
			if (k->warden[i].out[j] >= 0)
				close(take_fd(k->warden[i].out[j]));
	}
	loop_settle(k->loop);
}

void kit_restart(struct kit *k)
{
	kit_close_sessions(k);
	kit_open_sessions(k);
}

void kit_tell(struct kit *k, enum msg_type type, const void *obj, const int *fds, size_t nfds)
{
	struct err err = {0};

	assert_int_equal(link_send(&k->launcher, type, 0, obj, fds, nfds, &err), 0);
	kit_turn(k);
}

void kit_found_all(struct kit *k)
{
	kit_tell(k, MSG_launcher_found_all, &(struct msg_empty){0}, NULL, 0);
}

int kit_setup(void **state)
{
	struct kit *k = mem_new(struct kit);
	cleanup_free char *output = NULL;
	struct err err = {0};

	log_init("test", LOG_ERROR, LOG_TEXT, 2);
	snprintf(k->dir, sizeof(k->dir), "/tmp/agentsh-session-XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	k->loop = loop_new(NULL, NULL);
	k->clock.fixed_us = KIT_START_US;
	assert_int_equal(config_defaults(CONFIG_SYSTEM, &k->config, &err), 0);
	assert_int_equal(config_override("policies.default=observe", &k->config, &err), 0);
	k->metrics = metrics_new();
	output = kit_path(k, "output");
	assert_int_equal(mkdir(output, 0700), 0);
	k->output_dir = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(k->output_dir >= 0);
	k->who = (struct caller){
		.agent_id = "agent-1", .role = ROLE_AGENT, .uid = 1000, .conn_fd = -1};
	snprintf(k->who.key, sizeof(k->who.key), "secret");
	snprintf(k->who.request_id, sizeof(k->who.request_id), "req-1");
	kit_open_sessions(k);
	kit_found_all(k);
	assert_true(sessions_ready(k->ss));
	*state = k;
	return 0;
}

static int kit_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

int kit_teardown(void **state)
{
	struct kit *k = *state;

	kit_close_sessions(k);
	for (size_t i = 0; i < k->nwardens; i++) {
		journal_close(k->warden[i].journal);
		close(k->warden[i].ring_fd);
		close(k->warden[i].ack_fd);
		if (k->warden[i].other == NULL)
			continue;
		journal_close(k->warden[i].other);
		close(k->warden[i].other_fd[0]);
		close(k->warden[i].other_fd[1]);
	}
	metrics_free(k->metrics);
	config_done(&k->config);
	close(k->output_dir);
	loop_free(k->loop);
	nftw(k->dir, kit_unlink, 8, FTW_DEPTH | FTW_PHYS);
	free(k);
	return 0;
}

struct session *kit_get(struct kit *k, const char *id)
{
	struct session *s = NULL;
	struct err err = {0};

	if (session_get(k->ss, &k->who, id, &s, &err) < 0)
		fail_msg("%s", err.message);
	return s;
}

const char *kit_state(struct kit *k, const char *id)
{
	return session_state_names[kit_get(k, id)->state];
}

struct session_request kit_request_of(const char *id)
{
	return (struct session_request){.id = kit_text(id), .workspace = kit_text("/srv/project")};
}

struct told kit_create(struct kit *k, const struct session_request *request)
{
	struct told t = {0};

	session_create(k->ss, &k->who, request, kit_told, &t);
	kit_turn(k);
	return t;
}

struct told kit_destroy(struct kit *k, const char *id)
{
	struct told t = {0};

	session_destroy(kit_get(k, id), &k->who, "asked for", kit_told, &t);
	kit_turn(k);
	return t;
}
