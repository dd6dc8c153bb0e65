// SPDX-License-Identifier: Apache-2.0
/* session/session_testkit.h - a test as the launcher and the wardens of a real registry: real
 * sockets, rings, database and loop, all in one process; the clock stands still until the test
 * moves it.
 *
 * Shared by the tests of this folder; every function fails the running cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/log.h"
#include "base/testkit/loop_testkit.h"
#include "event/journal.h"
#include "policy/policy.h"
#include "session/command_state.h"
#include "session/session_state.h"
#include "terminal/stream.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#define KIT_START_US INT64_C(1800000000000000)
#define KIT_WARDENS 8

/* A warden as the test plays it. */
struct fake {
	char id[ID_MAX + 1];
	struct link link; /* SIDE_WARDEN */
	struct journal *journal;
	int ring_fd, ack_fd;
	struct journal *other; /* with kit.two_rings: of another process of the session */
	int other_fd[2];       /* its ring and ack */
	/* the last exec */
	char command[ID_MAX + 1];
	int out[2];
};

struct kit {
	char dir[64];
	struct loop *loop;
	struct clock clock;
	struct config config;
	struct store *store;
	struct metrics *metrics;
	int output_dir;
	struct peer api; /* the launcher's link */
	struct link launcher;
	struct sessions *ss;
	struct caller who;
	bool two_rings;	    /* the next sessions have a ring 'test' as well */
	const char *policy; /* YAML of the next sessions' policy; NULL: kit_observe */
	char version[POLICY_VERSION_LEN + 1]; /* of the last one's */
	struct fake warden[KIT_WARDENS];
	size_t nwardens;
};

/* What a done function of a session told. */
struct told {
	unsigned n;
	struct err err; /* code E_OK: none */
	struct session *s;
};
/* What an observer saw. */
struct seen_by {
	unsigned started, output, done;
	uint64_t taken;
	struct err err;
	char id[ID_MAX + 1];
	struct buf answer, record;
};

static __attribute__((unused)) void kit_told(const struct err *err, struct session *s, void *arg)
{
	struct told *t = arg;

	t->n++;
	t->s = s;
	if (err != NULL)
		t->err = *err;
	assert_true((err == NULL) != (s == NULL));
}

static __attribute__((unused)) void kit_started(struct command *c, void *arg)
{
	((struct seen_by *)arg)->started++;
}

static __attribute__((unused)) void kit_output(struct command *c, void *arg)
{
	((struct seen_by *)arg)->output++;
}

static __attribute__((unused)) void kit_taken(struct command *c, uint64_t total, void *arg)
{
	((struct seen_by *)arg)->taken = total;
}

static __attribute__((unused)) void kit_done(const struct err *err, struct command *c, void *arg)
{
	struct seen_by *o = arg;

	o->done++;
	if (err != NULL) {
		o->err = *err;
		assert_null(c);
		return;
	}
	memcpy(o->id, command_id(c), strlen(command_id(c)) + 1);
	buf_clear(&o->answer);
	buf_clear(&o->record);
	command_format(c, &JW(&o->record));
	if (command_is_over(c))
		command_format_answer(c, NULL, &JW(&o->answer));
}

static __attribute__((unused)) struct command_observer kit_observer(struct seen_by *o)
{
	return (struct command_observer){.started = kit_started,
					 .output = kit_output,
					 .stdin_taken = kit_taken,
					 .done = kit_done,
					 .arg = o};
}

static __attribute__((unused)) void kit_seen_done(struct seen_by *o)
{
	buf_done(&o->answer);
	buf_done(&o->record);
	*o = (struct seen_by){0};
}

/* ---- the loop ---- */

/* What the API child's main does with its launcher's link. */
static int kit_on_launcher(void *arg, struct link_msg *m, struct err *err)
{
	struct kit *k = arg;

	return k->ss != NULL && m->type != MSG_launcher_hello ? sessions_on_launcher(k->ss, m, err)
							      : 0;
}

static __attribute__((unused)) void kit_feed(void *arg)
{
	struct kit *k = arg;

	while (k->api.link.fd != -1 && peer_read(&k->api, NULL) == LINK_OK)
		;
}

static const struct peer_kind kit_kind = {
	.self = SIDE_API, .other = SIDE_LAUNCHER, .rest = kit_on_launcher, .readable = kit_feed};

/* Everything that can happen without time passing. */
static __attribute__((unused)) void kit_turn(struct kit *k)
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

/* Runs the loop until *what is at least n, for at most five seconds. */
static __attribute__((unused)) void kit_until(struct kit *k, const unsigned *what, unsigned n)
{
	bool over = false;
	struct watch *guard = watch_timer(k->loop, kit_guard, &over);

	watch_after(guard, 5000);
	while (*what < n && !over)
		loop_turn(k->loop);
	watch_free(guard);
	assert_false(over);
}

/* ---- up and down ---- */

static __attribute__((unused)) char *kit_path(struct kit *k, const char *name)
{
	return mem_printf("%s/%s", k->dir, name);
}

static __attribute__((unused)) void kit_open_sessions(struct kit *k)
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

/* As a killed server leaves it: what was committed stays, all links close. */
static __attribute__((unused)) void kit_close_sessions(struct kit *k)
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

static __attribute__((unused)) void kit_tell(struct kit *k, enum msg_type type, const void *obj,
					     const int *fds, size_t nfds)
{
	struct err err = {0};

	assert_int_equal(link_send(&k->launcher, type, 0, obj, fds, nfds, &err), 0);
	kit_turn(k);
}

static __attribute__((unused)) void kit_found_all(struct kit *k)
{
	kit_tell(k, MSG_launcher_found_all, &(struct msg_empty){0}, NULL, 0);
}

static __attribute__((unused)) int kit_setup(void **state)
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

static __attribute__((unused)) int kit_teardown(void **state)
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

/* ---- messages ---- */

/* The next message must be of this type; obj is to be freed with msg_done. */
static __attribute__((unused)) void kit_recv(struct link *l, enum msg_type type, void *obj,
					     struct link_msg *m)
{
	struct err err = {0};

	if (link_recv(l, m, &err) != LINK_OK)
		fail_msg("no %s: %s", msg_row(type)->name, err.message);
	assert_string_equal(msg_row(m->type)->name, msg_row(type)->name);
	assert_int_equal(link_unpack(m, obj, &err), 0);
}

static __attribute__((unused)) void kit_recv_nothing(struct link *l)
{
	struct link_msg m;

	assert_int_equal(link_recv(l, &m, NULL), LINK_AGAIN);
}

/* Receives and forgets one message of a type. */
static __attribute__((unused)) void kit_skip(struct link *l, enum msg_type type)
{
	char obj[MSG_STRUCT_MAX];
	struct link_msg m;

	kit_recv(l, type, obj, &m);
	msg_done(type, obj);
	link_msg_done(&m);
}

static __attribute__((unused)) void fake_send(struct kit *k, struct fake *f, enum msg_type type,
					      const void *obj)
{
	struct err err = {0};

	assert_int_equal(link_send(&f->link, type, 0, obj, NULL, 0, &err), 0);
	kit_turn(k);
}

/* ---- wardens ---- */

static struct journal *kit_journal(struct kit *k, const char *id, const char *name, int *ring_fd,
				   int *ack_fd)
{
	cleanup_free char *ring = mem_printf("%s/%s.%s"
					     "ring",
					     k->dir, id, name);
	cleanup_free char *ack = mem_printf("%s/%s.%s"
					    "ack",
					    k->dir, id, name);
	struct journal *j = NULL;

	assert_int_equal(journal_create(AT_FDCWD, ring, ack, 4 * JOURNAL_RING_DEFAULT, ring_fd,
					ack_fd, NULL),
			 0);
	assert_int_equal(journal_open(*ring_fd, *ack_fd, &j, NULL), 0);
	return j;
}

static __attribute__((unused)) struct fake *fake_new(struct kit *k, const char *id)
{
	struct fake *f = &k->warden[k->nwardens++];

	assert_true(k->nwardens <= KIT_WARDENS);
	*f = (struct fake){.out = {-1, -1}, .link = {.fd = -1}};
	snprintf(f->id, sizeof(f->id), "%s", id);
	f->journal = kit_journal(k, id, "", &f->ring_fd, &f->ack_fd);
	if (k->two_rings)
		f->other = kit_journal(k, id, "test-", &f->other_fd[0], &f->other_fd[1]);
	return f;
}

/* The names of its rings, where there is more than one. */
static __attribute__((unused)) struct strv fake_rings(const struct fake *f)
{
	static char *names[] = {(char *)"warden", (char *)"test", NULL};

	return f->other != NULL ? (struct strv){names, 2} : (struct strv){0};
}

/* A new link to it; the API child's ends of link and rings. Returns how many they are. */
static __attribute__((unused)) size_t fake_connect(struct fake *f, int fd[5])
{
	int pair[2];
	struct err err = {0};

	assert_int_equal(link_pair(pair, &err), 0);
	assert_int_equal(fdio_nonblock(pair[1]), 0);
	link_done(&f->link);
	link_init(&f->link, pair[1], SIDE_WARDEN, SIDE_API);
	fd[0] = pair[0];
	fd[1] = f->ring_fd;
	fd[2] = f->ack_fd;
	memcpy(fd + 3, f->other_fd, sizeof(f->other_fd));
	return f->other != NULL ? 5 : 3;
}

static const char kit_observe[] =
	"version: 1\nname: observe\ndefault: {files: allow, network: allow, commands: allow}\n";

/* A compiled policy as the launcher passes it on. */
static int kit_policy(const char *yaml, char version[POLICY_VERSION_LEN + 1])
{
	cleanup_buf struct buf bytes = {0};
	struct err err = {0};
	struct policy *p;
	int fd;

	if (policy_compile("p.yaml", yaml, strlen(yaml), &(struct policy_options){0}, NULL, &bytes,
			   &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(policy_open(bytes.data, bytes.len, &p, &err), 0);
	snprintf(version, POLICY_VERSION_LEN + 1, "%s", policy_version(p));
	policy_close(p);
	fd = fdio_sealed("policy", bytes.data, bytes.len);
	assert_true(fd >= 0);
	return fd;
}

static __attribute__((unused)) void fake_created(struct kit *k, struct fake *f)
{
	char *walls[] = {(char *)"mount_namespace\tup\town root", NULL};
	struct launcher_created m = {
		.session_id = f->id,
		.workspace = (char *)"/srv/real",
		.policy_name = (char *)"observe",
		.policy_version = k->version,
		.owner_uid = 1000,
		.walls = {walls, 1},
		.rings = fake_rings(f),
	};
	int fd[6];
	const size_t n = fake_connect(f, fd);

	fd[n] = kit_policy(k->policy != NULL ? k->policy : kit_observe, k->version);
	kit_tell(k, MSG_launcher_created, &m, fd, n + 1);
	close(fd[0]);
	close(fd[n]);
}

static __attribute__((unused)) void fake_state(struct kit *k, struct fake *f, const char *cwd,
					       const struct strv *env)
{
	struct warden_state m = {
		.version = LINK_VERSION, .session_id = f->id, .cwd = (char *)cwd, .env = *env};

	fake_send(k, f, MSG_warden_state, &m);
}

/* A warden's first hello and its answer with the same environment. */
static __attribute__((unused)) void fake_greet(struct kit *k, struct fake *f)
{
	struct warden_hello hello;
	struct link_msg m;

	kit_recv(&f->link, MSG_warden_hello, &hello, &m);
	fake_state(k, f, hello.cwd, &hello.env);
	msg_done(MSG_warden_hello, &hello);
}

/* A session from the request to its first state. */
static __attribute__((unused)) struct fake *kit_session(struct kit *k, const char *id)
{
	struct session_request request = {.id = (char *)id, .workspace = (char *)"/srv/project"};
	struct told t = {0};
	struct fake *f;

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	assert_int_equal(t.n, 0);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, id);
	fake_created(k, f);
	fake_greet(k, f);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	return f;
}

static __attribute__((unused)) struct session *kit_get(struct kit *k, const char *id)
{
	struct session *s = NULL;
	struct err err = {0};

	if (session_get(k->ss, &k->who, id, &s, &err) < 0)
		fail_msg("%s", err.message);
	return s;
}

static __attribute__((unused)) const char *kit_state(struct kit *k, const char *id)
{
	return session_state_name(kit_get(k, id)->state);
}

/* ---- commands ---- */

static __attribute__((unused)) struct exec_request kit_request(const char *command)
{
	return (struct exec_request){
		.command = (char *)command, .max_output_bytes = 10000, .queue = true};
}

static __attribute__((unused)) struct command *kit_submit(struct kit *k, const char *session,
							  const struct exec_request *request,
							  struct seen_by *o)
{
	const struct command_observer obs = kit_observer(o);
	struct command *c;

	command_submit(kit_get(k, session), &k->who, &(struct command_ask){.request = request},
		       &obs, &c);
	kit_turn(k);
	return c;
}

/* Takes an exec: its command's id and output files are the warden's now. */
static __attribute__((unused)) void fake_take_exec(struct fake *f)
{
	struct warden_exec x;
	struct link_msg m;

	kit_recv(&f->link, MSG_warden_exec, &x, &m);
	snprintf(f->command, sizeof(f->command), "%s", x.command_id);
	for (int i = 0; i < 2; i++) {
		if (f->out[i] >= 0)
			close(f->out[i]);
		f->out[i] = take_fd(m.fd[i]);
	}
	msg_done(MSG_warden_exec, &x);
	link_msg_done(&m);
}

static __attribute__((unused)) void fake_event(struct fake *f, enum event_type type,
					       const char *command, uint64_t *end)
{
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = type,
			  .time_us = KIT_START_US + 5,
			  .count = 1,
			  .command_id = (char *)command};
	struct err err = {0};

	if (type == EVENT_command_finished) {
		e.has_exit = 1;
		e.exit_code = 7;
		e.duration_us = 1500;
	}
	assert_int_equal(journal_append(f->journal, &e, end, &err), 0);
}

static __attribute__((unused)) void fake_start(struct kit *k, struct fake *f)
{
	uint64_t end;

	fake_event(f, EVENT_command_started, f->command, &end);
	fake_send(k, f, MSG_warden_started,
		  &(struct warden_started){
			  .command_id = f->command, .pid = 42, .time_us = KIT_START_US + 5});
}

/* The result of the command that was taken last: an exit code and what it wrote. */
static __attribute__((unused)) struct warden_result fake_result(struct fake *f, int exit_code,
								const char *out)
{
	struct warden_result r = {.command_id = f->command,
				  .exit_code = (uint32_t)exit_code,
				  .started_us = KIT_START_US + 5,
				  .finished_us = KIT_START_US + 2005,
				  .duration_us = 2000,
				  .cpu_us = 890,
				  .maxrss_kb = 2048,
				  .stdout_bytes = strlen(out),
				  .stdout_kept = strlen(out),
				  .cwd = (char *)"/workspace"};

	for (const char *p = out; *p != '\0'; p++)
		r.stdout_lines += *p == '\n';
	if (f->out[0] >= 0)
		assert_int_equal(fdio_write_all(f->out[0], out, strlen(out)), 0);
	fake_event(f, EVENT_command_finished, f->command, &r.ring_end);
	return r;
}

static __attribute__((unused)) void fake_finish(struct kit *k, struct fake *f, int exit_code,
						const char *out)
{
	const struct warden_result r = fake_result(f, exit_code, out);

	fake_send(k, f, MSG_warden_result, &r);
}

/* exec, start and end in one go; the acknowledgement is taken. */
static __attribute__((unused)) void fake_run(struct kit *k, struct fake *f, int exit_code,
					     const char *out)
{
	fake_take_exec(f);
	fake_start(k, f);
	fake_finish(k, f, exit_code, out);
	kit_skip(&f->link, MSG_warden_ack);
}

/* ---- looking ---- */

/* The value at a path such as "result.exit_code" as text; strings without quotes. Owned. */
static __attribute__((unused)) char *kit_at(const struct buf *json, const char *path)
{
	cleanup_free char *copy = mem_strdup(path);
	json_t *doc = NULL;
	const json_t *at;
	char *save = NULL, *text;

	assert_non_null(json->data);
	assert_int_equal(json_parse(json->data, json->len, &doc, NULL), 0);
	at = doc;
	for (char *key = strtok_r(copy, ".", &save); key != NULL; key = strtok_r(NULL, ".", &save))
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key))
				       : json_object_get(at, key);
	if (at == NULL)
		fail_msg("no %s in %s", path, json->data);
	if (json_is_string(at)) {
		text = mem_strdup(json_string_value(at));
	} else {
		char *dumped = json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT);

		text = mem_strdup(dumped);
		free(dumped);
	}
	json_decref(doc);
	return text;
}

#define assert_at(json, path, expected)                      \
	do {                                                 \
		cleanup_free char *at_ = kit_at(json, path); \
		assert_string_equal(at_, expected);          \
	} while (0)

static void kit_list_event(uint64_t seq, enum event_type type, const char *json, size_t len,
			   void *arg)
{
	const struct buf one = {.data = (char *)json, .len = len};
	struct buf *out = arg;

	if (out->len > 0)
		buf_addc(out, ' ');
	buf_adds(out, event_type_name(type));
	if (type == EVENT_session_state) {
		cleanup_free char *to = kit_at(&one, "state.to");

		buf_addf(out, ":%s", to);
	}
}

/* The types of a session's events in order: "session_created session_state:ready …". Owned. */
static __attribute__((unused)) char *kit_events(struct kit *k, const char *session)
{
	const struct event_query q = {.session_id = session};
	struct buf out = {0};
	struct err err = {0};

	assert_int_equal(store_query(k->store, &q, kit_list_event, &out, NULL, &err), 0);
	return buf_take(&out);
}

#define assert_events(k, session, expected)                          \
	do {                                                         \
		cleanup_free char *events_ = kit_events(k, session); \
		assert_string_equal(events_, expected);              \
	} while (0)

/* The first column of a command's row. sql: a literal. Owned. */
static __attribute__((unused)) char *kit_row(struct kit *k, const char *id, const char *sql)
{
	sqlite3_stmt *st = store_stmt(k->store, sql);
	char *text;

	sqlite3_bind_text(st, 1, id, -1, SQLITE_STATIC);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	text = mem_strdup((const char *)sqlite3_column_text(st, 0));
	sqlite3_reset(st);
	return text;
}

#define assert_row(k, id, expected)                                              \
	do {                                                                     \
		cleanup_free char *state_ =                                      \
			kit_row(k, id, "SELECT state FROM commands WHERE id=?"); \
		assert_string_equal(state_, expected);                           \
	} while (0)

#define KIT_HASH_A ((const uint8_t *)"0123456789abcdef0123456789abcdef")
#define KIT_HASH_B ((const uint8_t *)"0123456789abcdef0123456789abcdeX")

/* true, with an Idempotency-Key. */
static __attribute__((unused)) struct command *kit_submit_key(struct kit *k, const char *session,
							      const char *key, const uint8_t *hash,
							      struct seen_by *o)
{
	const struct exec_request request = kit_request("true");
	const struct command_observer obs = kit_observer(o);
	struct command *c;

	command_submit(kit_get(k, session), &k->who,
		       &(struct command_ask){
			       .request = &request, .idempotency_key = key, .body_hash = hash},
		       &obs, &c);
	kit_turn(k);
	return c;
}
