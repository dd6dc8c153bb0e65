// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/fake_warden_testkit.h"
#include "base/fdio.h"
#include <fcntl.h>
#include <stdio.h>

void kit_recv(struct link *l, enum msg_type type, void *obj, struct link_msg *m)
{
	struct err err = {0};

	if (link_recv(l, m, &err) != LINK_OK)
		fail_msg("no %s: %s", msg_row(type)->name, err.message);
	assert_string_equal(msg_row(m->type)->name, msg_row(type)->name);
	assert_int_equal(link_unpack(m, obj, &err), 0);
}

void kit_recv_nothing(struct link *l)
{
	struct link_msg m;

	assert_int_equal(link_recv(l, &m, NULL), LINK_AGAIN);
}

void kit_skip(struct link *l, enum msg_type type)
{
	char obj[MSG_STRUCT_MAX];
	struct link_msg m;

	kit_recv(l, type, obj, &m);
	msg_done(type, obj);
	link_msg_done(&m);
}

void fake_send(struct kit *k, struct fake *f, enum msg_type type, const void *obj)
{
	struct err err = {0};

	assert_int_equal(link_send(&f->link, type, 0, obj, NULL, 0, &err), 0);
	kit_turn(k);
}

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

struct fake *fake_new(struct kit *k, const char *id)
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

struct strv fake_rings(const struct fake *f)
{
	static char *names[] = {(char *)"warden", (char *)"test", NULL};

	return f->other != NULL ? (struct strv){names, 2} : (struct strv){0};
}

size_t fake_connect(struct fake *f, int fd[5])
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

const char kit_observe[] =
	"version: 1\nname: observe\ndefault: {files: allow, network: allow, commands: allow}\n";

int kit_policy(const char *yaml, char version[POLICY_VERSION_LEN + 1])
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

void fake_created(struct kit *k, struct fake *f)
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

void fake_state(struct kit *k, struct fake *f, const char *cwd, const struct strv *env)
{
	struct warden_state m = {
		.version = LINK_VERSION, .session_id = f->id, .cwd = (char *)cwd, .env = *env};

	fake_send(k, f, MSG_warden_state, &m);
}

void fake_greet(struct kit *k, struct fake *f)
{
	struct warden_hello hello;
	struct link_msg m;

	kit_recv(&f->link, MSG_warden_hello, &hello, &m);
	fake_state(k, f, hello.cwd, &hello.env);
	msg_done(MSG_warden_hello, &hello);
}

struct fake *kit_session(struct kit *k, const char *id)
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

void kit_found(struct kit *k, struct fake *f)
{
	const struct launcher_found m = {.session_id = f->id, .rings = fake_rings(f)};
	int fd[5];

	kit_tell(k, MSG_launcher_found, &m, fd, fake_connect(f, fd));
	close(fd[0]);
}

void fake_answer_hello(struct kit *k, struct fake *f)
{
	kit_skip(&f->link, MSG_warden_hello);
	kit_recv_nothing(&f->link);
	fake_state(k, f, "/workspace/now", &(struct strv){0});
	kit_skip(&f->link, MSG_warden_settings);
	kit_skip(&f->link, MSG_warden_patch);
}

void fake_answer_patch(struct kit *k, struct fake *f)
{
	fake_state(k, f, "/workspace/now", &(struct strv){0});
}

void fake_take_exec(struct fake *f)
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

void fake_event(struct fake *f, enum event_type type, const char *command, uint64_t *end)
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

void fake_start(struct kit *k, struct fake *f)
{
	uint64_t end;

	fake_event(f, EVENT_command_started, f->command, &end);
	fake_send(k, f, MSG_warden_started,
		  &(struct warden_started){
			  .command_id = f->command, .pid = 42, .time_us = KIT_START_US + 5});
}

struct warden_result fake_result(struct fake *f, int exit_code, const char *out)
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

void fake_finish(struct kit *k, struct fake *f, int exit_code, const char *out)
{
	const struct warden_result r = fake_result(f, exit_code, out);

	fake_send(k, f, MSG_warden_result, &r);
}

void fake_run(struct kit *k, struct fake *f, int exit_code, const char *out)
{
	fake_take_exec(f);
	fake_start(k, f);
	fake_finish(k, f, exit_code, out);
	kit_skip(&f->link, MSG_warden_ack);
}
