// SPDX-License-Identifier: Apache-2.0
/* A process beside init runs in a child of the test; the test is its warden. */
#include "base/clock.h"
#include "base/fdio.h"
#include "policy/testkit/policy_testkit.h"
#include "process/process_self.h"
#include <fcntl.h>
#include <sys/wait.h>

#define STRANGER 4194304 /* over every pid */

static const struct process_row row = {
	"unit", "unit-process",	    "the unit process", PROCESS_BESIDE, PROCESS_NEEDS_NOTHING,
	true,	PROCESS_BESIDE_ARGS};

/* ---- in the process ---- */

static void on_found(const struct actor *actor, void *arg)
{
	struct process_self *p = arg;
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, "/workspace/a"}};
	struct gate_case k = {.op = &op, .actor = *actor};

	if (gate_ask(p->gate, &k, NULL) == GATE_ALLOW)
		gate_settle(p->gate, &k, &(struct gate_report){.outcome = GATE_DONE});
}

static int open_program(struct process_self *p, struct err *err)
{
	const struct actor_query q = {.id = STRANGER, .asked_us = clock_mono_us(&clock_system)};

	process_find(p, &q, on_found, p);
	return 0;
}

static int refuse(struct process_self *p, struct err *err)
{
	return err_set(err, E_UNAVAILABLE, NULL, "no device");
}

static void close_program(struct process_self *p)
{
}

static void settle_one(struct process_self *p)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, "/workspace/a"}};
	struct gate_case k = {.op = &op, .actor = {.pid = 7, .spawn = 3, .command_id = "cmd-1"}};

	gate_ask(p->gate, &k, NULL);
	gate_settle(p->gate, &k, &(struct gate_report){.outcome = GATE_DONE});
}

/* New settings make it do things, as other threads would. */
static void act(struct process_self *p, const struct process_settings *s)
{
	for (uint64_t i = 0; i < s->max_file_ops; i++)
		settle_one(p);
	process_tell_limit(p, &(struct process_limit){.command_id = (char *)"cmd-1",
						      .limit = (char *)"max_file_ops",
						      .value = s->max_file_ops});
}

static int open_quietly(struct process_self *p, struct err *err)
{
	return 0;
}

static const struct process_program busy = {
	.open = open_quietly, .close = close_program, .settings = act};
static const struct process_program good = {open_program, close_program};
static const struct process_program bad = {refuse, close_program};

/* ---- in the test ---- */

struct fixture {
	struct link link;
	struct actor_table *actors;
	struct journal_reader *reader;
	pid_t pid;
};

static void start(struct fixture *f, const struct process_program *program)
{
	char dir[] = "/tmp/agentsh-process-XXXXXX";
	struct process_args args = {.session_id = "session-1", .log_level = 3};
	struct strv argv = {0};
	struct err err = {0};
	struct policy_kit kit;
	int pair[2];

	assert_non_null(mkdtemp(dir));
	policy_kit_open(&kit, HEAD "default: {files: allow, network: deny, commands: deny}\n",
			NULL);
	args.policy_fd = fdio_sealed("policy", kit.bytes.data, kit.bytes.len);
	policy_kit_close(&kit);
	const int at = open(dir, O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(journal_create(at, "ring", "ack", JOURNAL_RING_MIN, &args.ring_fd,
					&args.ack_fd, &err),
			 0);
	unlinkat(at, "ring", 0);
	unlinkat(at, "ack", 0);
	close(at);
	rmdir(dir);
	assert_int_equal(link_pair(pair, &err), 0);
	args.link_fd = pair[1];
	process_args_format(&row, &args, &argv);
	f->pid = fork();
	if (f->pid == 0) {
		close(pair[0]);
		_exit(process_run(&row, program, (int)argv.n, argv.v));
	}
	strv_done(&argv);
	close(pair[1]);
	close(args.policy_fd);
	link_init(&f->link, pair[0], SIDE_WARDEN, SIDE_PROCESS);
	assert_int_equal(journal_reader_open(args.ring_fd, args.ack_fd, "unit", &f->reader, &err),
			 0);
	assert_int_equal(actor_table_open(&f->actors, &err), 0);
	const int table = actor_table_fd(f->actors);
	assert_int_equal(
		link_send(&f->link, MSG_process_hello, 0, &(struct msg_empty){0}, &table, 1, NULL),
		LINK_OK);
}

/* Its exit status, after the link was closed. */
static int finish(struct fixture *f)
{
	int status;

	link_done(&f->link);
	assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
	assert_true(WIFEXITED(status));
	actor_table_close(f->actors);
	journal_reader_close(f->reader);
	return WEXITSTATUS(status);
}

static uint32_t receive(struct fixture *f, enum msg_type type, void *msg)
{
	struct link_msg m;

	assert_int_equal(link_recv(&f->link, &m, NULL), LINK_OK);
	assert_int_equal(m.type, type);
	assert_int_equal(link_unpack(&m, msg, NULL), 0);
	return m.req;
}

static bool on_event(const struct event *e, uint64_t pos, void *arg)
{
	assert_int_equal(e->type, EVENT_file_read);
	assert_string_equal(e->command_id, "cmd-1");
	assert_string_equal(e->session_id, "session-1");
	assert_int_equal(e->pid, 7);
	return true;
}

/* SBX-6: the process asks the warden for an actor that its table does not have, and the event is in
 * the ring when the bell comes. */
static void sbx_6_a_process_asks_records_and_rings(void **state)
{
	struct process_actor actor = {.pid = 7, .spawn = 3, .command_id = (char *)"cmd-1"};
	struct process_ask ask;
	struct process_ready ready;
	struct msg_empty empty;
	struct fixture f;

	start(&f, &good);
	const uint32_t req = receive(&f, MSG_process_ask, &ask);
	assert_int_equal(ask.id, STRANGER);
	receive(&f, MSG_process_ready, &ready);
	assert_int_equal(link_send(&f.link, MSG_process_actor, req, &actor, NULL, 0, NULL),
			 LINK_OK);
	receive(&f, MSG_process_bell, &empty);
	assert_int_equal(journal_drain(f.reader, 2, on_event, NULL, NULL), 1);
	assert_int_equal(finish(&f), 0);
}

struct heard {
	unsigned events, operations;
};

static bool on_folded(const struct event *e, uint64_t pos, void *arg)
{
	struct heard *h = arg;

	h->events++;
	h->operations += e->count;
	return true;
}

/* FIL-5: repeats are folded as the settings say. Before the process confirms the end of a command,
 * all that it did is in the ring. */
static void fil_5_a_process_folds_and_settles(void **state)
{
	static const struct {
		unsigned size, events;
	} rows[] = {{0, 10}, {1, 10}, {4, 4}, {100, 2}};
	struct process_settings settings = {
		.log_level = 3, .event_batch_ms = 3600000, .max_file_ops = 10};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct process_limit limit;
		struct process_settled settled;
		struct process_ready ready;
		struct msg_empty empty;
		struct heard heard = {0};
		struct fixture f;
		struct link_msg m;

		start(&f, &busy);
		receive(&f, MSG_process_ready, &ready);
		settings.event_batch_size = rows[i].size;
		assert_int_equal(
			link_send(&f.link, MSG_process_settings, 0, &settings, NULL, 0, NULL),
			LINK_OK);
		receive(&f, MSG_process_limit, &limit);
		assert_string_equal(limit.command_id, "cmd-1");
		assert_int_equal(limit.value, 10);
		msg_done(MSG_process_limit, &limit);
		receive(&f, MSG_process_bell, &empty);
		assert_int_equal(link_send(&f.link, MSG_process_settle, 0,
					   &(struct process_settle){.command_id = (char *)"cmd-1"},
					   NULL, 0, NULL),
				 LINK_OK);
		while (link_recv(&f.link, &m, NULL) == LINK_OK && m.type == MSG_process_bell)
			;
		assert_int_equal(m.type, MSG_process_settled);
		assert_int_equal(link_unpack(&m, &settled, NULL), 0);
		assert_string_equal(settled.command_id, "cmd-1");
		assert_null(settled.failed_path);
		msg_done(MSG_process_settled, &settled);
		while (journal_drain(f.reader, 100, on_folded, &heard, NULL) > 0)
			;
		assert_int_equal(heard.operations, 10);
		assert_int_equal(heard.events, rows[i].events);
		assert_int_equal(finish(&f), 0);
	}
}

/* SES-8: a process that cannot start says why, and ends. */
static void ses_8_a_process_that_cannot_open_says_why(void **state)
{
	struct process_failed failed;
	struct fixture f;

	start(&f, &bad);
	receive(&f, MSG_process_failed, &failed);
	assert_string_equal(failed.message, "no device");
	msg_done(MSG_process_failed, &failed);
	assert_int_equal(finish(&f), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_6_a_process_asks_records_and_rings),
		cmocka_unit_test(fil_5_a_process_folds_and_settles),
		cmocka_unit_test(ses_8_a_process_that_cannot_open_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
