// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/fdio.h"
#include "gate/gate.h"
#include "policy/testkit/policy_testkit.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

static const char text[] = HEAD
	"command_rules:\n"
	"  - {name: no-id, commands: [id], decision: deny, final: true, message: \"not {path}\"}\n"
	"  - {name: list, commands: [ls], decision: allow}\n"
	"  - {name: print, commands: [cat], decision: allow}\n"
	"  - {name: other, commands: [who], decision: redirect, redirect_to: /bin/echo}\n"
	"  - {name: ask, commands: [rm], decision: approve, message: \"{path}?\"}\n"
	"  - {name: rest, commands: [\"*\"], decision: deny}\n";

static struct {
	struct gate *g;
	/* of the last event */
	unsigned settled;
	char decision[16], effective[16], rule[32], reason[64], json[1024], file[1024];
	char command_id[32], real_path[64], path[64], verified[16], loaded[64];
	uint32_t pid, type;
	uint64_t latency_us;
	bool denied, approved;
	char approval_id[ID_MAX + 1], error[64];
	/* the approver */
	unsigned asked, cancelled, deadlines;
	uint64_t last_asked, last_cancelled;
	/* the asker */
	atomic_uint wakes;
	sem_t woken;
	struct gate_case *resumed;
	pthread_t resumed_on;
	unsigned nresumed;
} t;

static void copy(char *out, size_t n, const char *s)
{
	snprintf(out, n, "%s", s != NULL ? s : "");
}

static void on_settled(void *arg, const struct gate_case *k, const struct gate_report *r,
		       const struct event *e)
{
	struct denial d = {.rule = e->policy_rule,
			   .reason = e->denied_reason,
			   .operation = e->denied_op,
			   .target = e->denied_target,
			   .final = e->denied_final != 0,
			   .alternatives = e->alternatives};
	cleanup_buf struct buf b = {0};

	t.settled++;
	copy(t.decision, sizeof(t.decision), e->policy_decision);
	copy(t.effective, sizeof(t.effective), e->decision);
	assert_string_equal(e->decision, e->policy_effective);
	copy(t.rule, sizeof(t.rule), e->policy_rule);
	copy(t.reason, sizeof(t.reason), e->denied_reason);
	copy(t.command_id, sizeof(t.command_id), e->command_id);
	copy(t.real_path, sizeof(t.real_path), e->real_path);
	copy(t.path, sizeof(t.path), e->exec_path != NULL ? e->exec_path : e->path);
	copy(t.verified, sizeof(t.verified), e->exec_verified);
	copy(t.loaded, sizeof(t.loaded), e->exec_loaded);
	t.pid = e->pid;
	t.type = e->type;
	t.latency_us = e->latency_us;
	t.denied = e->denied_op != NULL;
	t.approved = e->approved != 0;
	copy(t.approval_id, sizeof(t.approval_id), e->approval_id);
	copy(t.error, sizeof(t.error), e->denied_error);
	t.json[0] = '\0';
	if (e->path != NULL) {
		event_format(e, &b);
		copy(t.file, sizeof(t.file), b.data);
		buf_clear(&b);
	}
	if (t.denied) {
		denial_format(&d, &JW(&b));
		copy(t.json, sizeof(t.json), b.data);
	}
}

static void on_deadline(void *arg)
{
	t.deadlines++;
}

static int open_with(const struct policy_options *o)
{
	const int fd = memfd_create("policy", MFD_CLOEXEC);
	const struct gate_setup s = {fd, "session-1", on_settled, on_deadline, NULL};
	struct err err = {0};
	struct policy_kit k;

	memset(&t, 0, sizeof(t));
	sem_init(&t.woken, 0, 0);
	policy_kit_open(&k, text, o);
	assert_int_equal(fdio_write_all(fd, k.bytes.data, k.bytes.len), 0);
	assert_int_equal(gate_open(&s, &t.g, &err), 0);
	policy_kit_close(&k);
	return close(fd);
}

static int open_gate(void **state)
{
	return open_with(NULL);
}

static int close_gate(void **state)
{
	gate_close(t.g);
	return 0;
}

/* One operation of command cmd-1; the storage lives as long as the test. */
static struct gate_case *case_of(const char *path)
{
	static struct {
		struct op op;
		struct gate_case k;
	} cases[GATE_PENDING_MAX + 8];
	static size_t n;
	struct gate_case *k = &cases[n % ARRAY_LEN(cases)].k;
	struct op *op = &cases[n++ % ARRAY_LEN(cases)].op;

	*op = (struct op){.class = OP_EXEC, .exec = {.path = path}};
	*k = (struct gate_case){.op = op, .actor = {.pid = 7, .command_id = "cmd-1"}};
	return k;
}

static void settle(const struct gate_case *k, enum gate_outcome outcome)
{
	gate_settle(t.g, k, &(struct gate_report){.outcome = outcome, .latency_us = 5});
}

/* ---- one event ---- */

/* What the error of an initial exec says stands in the event of any. */
static void pol_4_a_denial_is_the_same_in_an_error_and_in_an_event(void **state)
{
	struct gate_case *k = case_of("/usr/bin/id");
	cleanup_buf struct buf error = {0};
	char packed[1024];

	assert_int_equal(gate_ask(t.g, k, NULL), GATE_DENY);
	gate_pack_denial(t.g, k, packed, sizeof(packed));
	denial_format_text(packed, &JW(&error));
	settle(k, GATE_REFUSED);
	assert_int_equal(t.settled, 1);
	assert_string_equal(t.json, error.data);
	assert_string_equal(t.effective, "deny");
	assert_string_equal(t.rule, "no-id");
	assert_string_equal(t.reason, "not /usr/bin/id");
	assert_string_equal(t.path, "/usr/bin/id");
	assert_string_equal(t.command_id, "cmd-1");
	assert_int_equal(t.pid, 7);
	assert_int_equal(t.type, EVENT_exec);
	assert_int_equal(t.latency_us, 5);
	assert_non_null(strstr(error.data, "\"final\":true,\"alternatives\":["));
}

static void pol_4_alternatives_are_left_out_where_they_do_not_fit(void **state)
{
	struct gate_case *k = case_of("/usr/bin/id");
	char whole[1024], less[1024], none[8];
	struct denial d;
	size_t len;

	gate_ask(t.g, k, NULL);
	gate_pack_denial(t.g, k, whole, sizeof(whole));
	len = strlen(whole);
	gate_pack_denial(t.g, k, less, len + 1);
	assert_string_equal(less, whole);
	gate_pack_denial(t.g, k, less, len);
	assert_true(denial_unpack(less, &d));
	assert_true(d.final);
	assert_string_equal(d.rule, "no-id");
	assert_int_equal(d.alternatives.n, 0);
	denial_done(&d);
	gate_pack_denial(t.g, k, none, sizeof(none));
	assert_string_equal(none, "");
}

static void pol_4_what_goes_ahead_has_no_denial(void **state)
{
	struct gate_case *k = case_of("/usr/bin/ls");

	assert_int_equal(gate_ask(t.g, k, NULL), GATE_ALLOW);
	settle(k, GATE_DONE);
	assert_string_equal(t.effective, "allow");
	assert_false(t.denied);
	assert_string_equal(t.real_path, "");
}

static void pol_2_the_event_of_a_redirect_says_what_runs(void **state)
{
	struct gate_case *k = case_of("/usr/bin/who");

	assert_int_equal(gate_ask(t.g, k, NULL), GATE_ALLOW);
	settle(k, GATE_DONE);
	assert_string_equal(t.decision, "redirect");
	assert_string_equal(t.effective, "allow");
	assert_string_equal(t.real_path, "/bin/echo");
}

/* The gate's own refusals have a rule of ours; one that comes after the decision keeps its rule. */
static void pol_4_what_cannot_be_enforced_is_refused_by_the_gate(void **state)
{
	struct gate_case *k = case_of("/usr/bin/ls");

	gate_ask(t.g, k, NULL);
	gate_settle(t.g, k,
		    &(struct gate_report){.outcome = GATE_MISMATCHED,
					  .verified = "stop",
					  .loaded = "/usr/bin/id"});
	assert_int_equal(t.type, EVENT_policy_violation);
	assert_string_equal(t.effective, "deny");
	assert_string_equal(t.rule, "list");
	assert_string_equal(t.reason, "another program than was decided on; killed");
	assert_string_equal(t.path, "/usr/bin/ls");
	assert_string_equal(t.loaded, "/usr/bin/id");
	assert_string_equal(t.verified, "stop");
	gate_settle(t.g, k,
		    &(struct gate_report){.outcome = GATE_MISMATCHED, .same_program = true});
	assert_string_equal(t.reason, "other arguments than were decided on; killed");
	gate_refuse(k, GATE_WHY_UNVERIFIABLE);
	assert_false(verdict_allows(&k->verdict));
	settle(k, GATE_REFUSED);
	assert_string_equal(t.rule, "exec-control");
	assert_string_equal(t.reason, "the decision cannot be held");
	assert_non_null(strstr(t.json, "\"final\":true"));
}

static void pol_4_a_file_operation_has_an_event_of_its_kind(void **state)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_list, "/workspace"}};
	struct gate_case k = {.op = &op};

	assert_int_equal(gate_ask(t.g, &k, NULL), GATE_DENY);
	settle(&k, GATE_REFUSED);
	assert_int_equal(t.type, EVENT_dir_list);
	assert_string_equal(t.path, "/workspace");
	assert_string_equal(t.command_id, "");
}

static void fil_2_an_event_says_what_a_file_operation_did(void **state)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_write, "/workspace/a.py"}};
	struct gate_case k = {.op = &op};
	struct gate_report r = {.outcome = GATE_FAILED,
				.type = EVENT_file_xattr,
				.real_path = "/home/user/a.py",
				.to = "/workspace/b.py",
				.flags = "O_WRONLY|O_TRUNC",
				.error = ENOSPC,
				.has_bytes = true,
				.has_sizes = true,
				.file_type = "text/x-python",
				.size_before = 3,
				.count = 4};

	gate_settle(t.g, &k, &r);
	assert_non_null(strstr(t.file, "\"type\":\"file_xattr\""));
	assert_non_null(strstr(t.file, "\"count\":4,\"path\":\"/workspace/a.py\","
				       "\"real_path\":\"/home/user/a.py\",\"operation\":"
				       "{\"bytes\":0,\"to\":\"/workspace/b.py\","
				       "\"error\":\"ENOSPC\",\"flags\":"
				       "[\"O_WRONLY\",\"O_TRUNC\"]}"));
	assert_non_null(strstr(t.file, "\"metadata\":{\"file_type\":\"text/x-python\","
				       "\"file_size_before\":3,\"file_size_after\":0}"));
	r = (struct gate_report){
		.outcome = GATE_DONE, .bytes = 7, .has_bytes = true, .has_offset = true};
	gate_settle(t.g, &k, &r);
	assert_non_null(strstr(t.file, "\"type\":\"file_write\""));
	assert_non_null(strstr(t.file, "\"operation\":{\"bytes\":7,\"offset\":0},"));
	assert_null(strstr(t.file, "metadata"));
}

/* ---- approve ---- */

/* What `policy test` says and what is done is made by the same function. */
static void pol_2_an_approve_without_an_approver_is_a_denial(void **state)
{
	struct gate_case *k = case_of("/usr/bin/rm");
	struct verdict v;

	policy_decide(gate_policy(t.g), k->op, true, &v);
	assert_int_equal(v.effective, DECISION_approve);
	policy_decide(gate_policy(t.g), k->op, false, &v);
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.why, "no approver");
	assert_int_equal(gate_ask(t.g, k, NULL), GATE_DENY);
	settle(k, GATE_REFUSED);
	assert_string_equal(t.decision, "approve");
	assert_string_equal(t.effective, "deny");
	assert_string_equal(t.reason, "/usr/bin/rm? (no approver)");
	gate_decide(t.g, k->op, &v);
	assert_int_equal(v.effective, DECISION_deny);
}

static void on_ask(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
		   int64_t deadline_us)
{
	assert_ptr_equal(g, t.g);
	assert_int_equal(id, k->id);
	assert_true(k->op->class == OP_FILE || strcmp(k->op->exec.path, "/usr/bin/rm") == 0);
	assert_true(deadline_us > clock_mono_us(&clock_system));
	t.asked++;
	t.last_asked = id;
}

static void on_cancel(void *arg, uint64_t id)
{
	t.cancelled++;
	t.last_cancelled = id;
}

static void on_wake(void *arg)
{
	atomic_fetch_add(&t.wakes, 1);
	sem_post(&t.woken);
}

static void on_resume(struct gate_case *k, void *arg)
{
	assert_ptr_equal(arg, &t);
	assert_int_equal(k->id, 0);
	t.nresumed++;
	t.resumed = k;
	t.resumed_on = pthread_self();
}

static const struct gate_asker asker = {on_wake, NULL}, other_asker = {on_wake, NULL};
static const struct gate_waiter waiter = {&asker, on_resume, &t};

static int open_approver(void **state)
{
	const struct gate_approver a = {on_ask, on_cancel, NULL, 1000};

	open_with(NULL);
	gate_set_approver(t.g, &a);
	return 0;
}

static struct gate_case *wait_for(const char *path)
{
	struct gate_case *k = case_of(path);

	assert_int_equal(gate_ask(t.g, k, &waiter), GATE_PENDING);
	assert_true(k->id != 0);
	return k;
}

static void *answer_yes(void *arg)
{
	gate_answer(t.g, *(const uint64_t *)arg, true);
	return NULL;
}

/* POL-2: the answer comes from any thread, and the operation goes on on the thread that asked. */
static void pol_2_a_resume_runs_on_the_thread_that_asked(void **state)
{
	struct gate_case *k = wait_for("/usr/bin/rm");
	uint64_t id = k->id;
	pthread_t thread;

	assert_int_equal(t.asked, 1);
	assert_int_equal(t.deadlines, 1);
	gate_resume(t.g, &asker);
	assert_int_equal(t.nresumed, 0);
	assert_int_equal(pthread_create(&thread, NULL, answer_yes, &id), 0);
	sem_wait(&t.woken);
	pthread_join(thread, NULL);
	assert_int_equal(t.nresumed, 0);
	gate_resume(t.g, &other_asker);
	assert_int_equal(t.nresumed, 0);
	gate_resume(t.g, &asker);
	assert_int_equal(t.nresumed, 1);
	assert_ptr_equal(t.resumed, k);
	assert_true(pthread_equal(t.resumed_on, pthread_self()));
	assert_true(verdict_allows(&k->verdict));
	gate_answer(t.g, id, false); /* nothing waits by this number any more */
	gate_resume(t.g, &asker);
	assert_int_equal(t.nresumed, 1);
	settle(k, GATE_DONE);
	assert_string_equal(t.decision, "approve");
	assert_string_equal(t.effective, "allow");
	assert_true(t.approved);
	assert_true(strncmp(t.approval_id, "approval-", 9) == 0 && id_valid(t.approval_id));
	assert_string_equal(t.error, "");
	assert_int_equal(t.cancelled, 0);
}

static void pol_2_an_approver_says_no(void **state)
{
	struct gate_case *k = wait_for("/usr/bin/rm");

	gate_answer(t.g, k->id, false);
	gate_answer(t.g, k->id, true); /* the first answer counts */
	gate_resume(t.g, &asker);
	assert_int_equal(k->why, GATE_WHY_DISAPPROVED);
	settle(k, GATE_REFUSED);
	assert_string_equal(t.rule, "ask");
	assert_string_equal(t.reason, "/usr/bin/rm? (the approver said no)");
	assert_string_equal(t.error, "E_APPROVAL_DENIED");
	assert_string_equal(t.approval_id, k->approval_id);
}

/* POL-2: at its deadline and not before; the question is cancelled. */
static void pol_2_an_unanswered_operation_is_denied_at_its_deadline(void **state)
{
	struct gate_case *first = wait_for("/usr/bin/rm"), *second;
	const int64_t at = gate_expire(t.g, 0), asked_us = clock_mono_us(&clock_system);

	while (clock_mono_us(&clock_system) == asked_us)
		;
	second = wait_for("/usr/bin/rm");
	assert_int_equal(gate_expire(t.g, at - 1), at);
	assert_int_equal(t.wakes, 0);
	assert_true(gate_expire(t.g, at) > at);
	assert_int_equal(t.wakes, 1);
	assert_int_equal(t.last_cancelled, first->id);
	gate_resume(t.g, &asker);
	assert_ptr_equal(t.resumed, first);
	assert_int_equal(first->why, GATE_WHY_LATE);
	assert_false(verdict_allows(&first->verdict));
	gate_gone(t.g, second);
	assert_int_equal(gate_expire(t.g, 0), -1);
}

static struct gate_case *read_of(const char *path, const char *command_id)
{
	struct gate_case *k = case_of(path);
	struct op *op = (struct op *)(uintptr_t)k->op;

	*op = (struct op){.class = OP_FILE, .file = {OP_FILE_read, path}};
	snprintf(k->actor.command_id, sizeof(k->actor.command_id), "%s", command_id);
	return k;
}

/* POL-2: an approver has so many questions at a time. */
static void pol_2_no_more_than_the_cap_wait(void **state)
{
	struct gate_case *waiting[GATE_REQUESTS_MAX], *k = case_of("/usr/bin/rm");

	for (size_t i = 0; i < GATE_REQUESTS_MAX; i++)
		waiting[i] = wait_for("/usr/bin/rm");
	assert_int_equal(gate_ask(t.g, k, &waiter), GATE_DENY);
	assert_int_equal(k->why, GATE_WHY_FULL);
	assert_int_equal(t.asked, GATE_REQUESTS_MAX);
	gate_gone(t.g, waiting[0]);
	assert_int_equal(gate_ask(t.g, k, &waiter), GATE_PENDING);
	gate_gone(t.g, k);
	for (size_t i = 1; i < GATE_REQUESTS_MAX; i++)
		gate_gone(t.g, waiting[i]);
	assert_int_equal(t.cancelled, GATE_REQUESTS_MAX + 1);
}

/* POL-2: equal operations of a command share a question, and no more than so many wait for it. */
static void pol_2_equal_operations_share_a_question(void **state)
{
	struct gate_case *same[GATE_PENDING_MAX - 1], *k, *other;

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		same[i] = read_of("/workspace/secret", "cmd-1");
		assert_int_equal(gate_hold(t.g, same[i], &waiter), GATE_PENDING);
	}
	assert_int_equal(t.asked, 1);
	other = read_of("/workspace/secret", "cmd-2");
	assert_int_equal(gate_hold(t.g, other, &waiter), GATE_PENDING);
	assert_int_equal(t.asked, 2);
	k = read_of("/workspace/secret", "cmd-1");
	assert_int_equal(gate_hold(t.g, k, &waiter), GATE_DENY);
	assert_int_equal(k->why, GATE_WHY_FULL);
	/* the question stays as long as one of them waits */
	assert_true(gate_gone(t.g, same[0]));
	assert_int_equal(t.cancelled, 0);
	gate_answer(t.g, same[1]->id, true);
	gate_resume(t.g, &asker);
	assert_int_equal(t.nresumed, ARRAY_LEN(same) - 1);
	assert_true(verdict_allows(&same[1]->verdict));
	assert_true(other->id != 0);
	gate_gone(t.g, other);
	assert_int_equal(t.cancelled, 1);
}

/* POL-2: other paths, operations and commands are other questions. */
static void pol_2_other_operations_are_other_questions(void **state)
{
	struct gate_case *k[] = {read_of("/a", "cmd-1"), read_of("/b", "cmd-1"),
				 read_of("/a", "cmd-2"), read_of("/a", "cmd-1"),
				 read_of("/a", "cmd-1"), read_of("/a", "cmd-1")};

	k[3]->to = "/b";
	k[4]->also = 1U << OP_FILE_write;
	((struct op *)(uintptr_t)k[5]->op)->file.op = OP_FILE_write;
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		assert_int_equal(gate_hold(t.g, k[i], &waiter), GATE_PENDING);
		assert_int_equal(t.asked, i + 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		gate_gone(t.g, k[i]);
}

/* POL-2: a process that passes its operations on asks about each. */
static void pol_2_each_operation_is_passed_on(void **state)
{
	const struct gate_approver a = {on_ask, on_cancel, NULL, 1000, true};
	struct gate_case *k[GATE_REQUESTS_MAX + 1];

	gate_set_approver(t.g, &a);
	for (size_t i = 0; i < ARRAY_LEN(k); i++) {
		k[i] = read_of("/a", "cmd-1");
		assert_int_equal(gate_hold(t.g, k[i], &waiter), GATE_PENDING);
	}
	assert_int_equal(t.asked, ARRAY_LEN(k));
	gate_answer_why(t.g, k[1]->id, GATE_WHY_FULL, "approval-1");
	assert_string_equal(k[1]->approval_id, "approval-1");
	gate_resume(t.g, &asker);
	assert_ptr_equal(t.resumed, k[1]);
	assert_int_equal(k[1]->why, GATE_WHY_FULL);
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		gate_gone(t.g, k[i]);
}

/* POL-2: an asker that dies is not resumed, also if the answer is there. */
static void pol_2_what_is_gone_is_cancelled(void **state)
{
	struct gate_case *k = wait_for("/usr/bin/rm"), *answered = wait_for("/usr/bin/rm");
	const uint64_t id = k->id;

	gate_answer(t.g, answered->id, true);
	gate_gone(t.g, k);
	assert_int_equal(t.last_cancelled, id);
	gate_gone(t.g, k);
	gate_gone(t.g, answered);
	assert_int_equal(t.cancelled, 1);
	assert_int_equal(k->why, GATE_WHY_GONE);
	assert_int_equal(answered->why, GATE_WHY_GONE);
	gate_resume(t.g, &asker);
	assert_int_equal(t.nresumed, 0);
}

static void pol_2_the_end_of_a_command_ends_what_it_waits_for(void **state)
{
	struct gate_case *k = wait_for("/usr/bin/rm");

	gate_command_over(t.g, "cmd-2");
	assert_int_equal(t.wakes, 0);
	gate_command_over(t.g, "cmd-1");
	assert_int_equal(t.cancelled, 1);
	gate_resume(t.g, &asker);
	assert_ptr_equal(t.resumed, k);
	assert_int_equal(k->why, GATE_WHY_GONE);
	assert_false(verdict_allows(&k->verdict));
}

/* An operation that cannot wait is denied, although there is an approver. */
static void pol_2_who_cannot_wait_is_denied(void **state)
{
	struct gate_case *k = case_of("/usr/bin/rm");

	assert_int_equal(gate_ask(t.g, k, NULL), GATE_DENY);
	assert_string_equal(k->verdict.why, "no approver");
	assert_int_equal(gate_ask(t.g, case_of("/usr/bin/ls"), &waiter), GATE_ALLOW);
	assert_int_equal(gate_ask(t.g, case_of("/usr/bin/id"), &waiter), GATE_DENY);
	assert_int_equal(t.asked, 0);
}

static void pol_2_an_approve_in_shadow_mode_goes_ahead(void **state)
{
	const struct policy_options shadow = {.shadow = true};
	struct gate_case *k = case_of("/usr/bin/rm");

	gate_close(t.g);
	open_with(&shadow);
	for (int approver = 0; approver < 2; approver++) {
		if (approver)
			gate_set_approver(t.g, &(struct gate_approver){on_ask, on_cancel, NULL, 1});
		assert_int_equal(gate_ask(t.g, k, &waiter), GATE_ALLOW);
		settle(k, GATE_DONE);
		assert_string_equal(t.decision, "approve");
		assert_string_equal(t.effective, "allow");
		assert_false(t.denied);
		assert_false(t.approved);
	}
}

static void pol_4_a_gate_needs_a_policy(void **state)
{
	const int fd = memfd_create("policy", MFD_CLOEXEC);
	struct gate_setup s = {.policy_fd = -1};
	struct gate *g = NULL;
	struct err err = {0};

	assert_int_equal(gate_open(&s, &g, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "exec_policy");
	s.policy_fd = fd;
	assert_int_equal(gate_open(&s, &g, &err), -E_ENFORCEMENT);
	assert_int_equal(fdio_write_all(fd, "x", 1), 0);
	assert_true(gate_open(&s, &g, &err) < 0);
	assert_null(g);
	close(fd);
}

int main(void)
{
#define PLAIN(f) cmocka_unit_test_setup_teardown(f, open_gate, close_gate)
#define ASKED(f) cmocka_unit_test_setup_teardown(f, open_approver, close_gate)
	const struct CMUnitTest tests[] = {
		PLAIN(pol_4_a_denial_is_the_same_in_an_error_and_in_an_event),
		PLAIN(pol_4_alternatives_are_left_out_where_they_do_not_fit),
		PLAIN(pol_4_what_goes_ahead_has_no_denial),
		PLAIN(pol_2_the_event_of_a_redirect_says_what_runs),
		PLAIN(pol_4_what_cannot_be_enforced_is_refused_by_the_gate),
		PLAIN(pol_4_a_file_operation_has_an_event_of_its_kind),
		PLAIN(fil_2_an_event_says_what_a_file_operation_did),
		PLAIN(pol_2_an_approve_without_an_approver_is_a_denial),
		PLAIN(pol_2_an_approve_in_shadow_mode_goes_ahead),
		ASKED(pol_2_a_resume_runs_on_the_thread_that_asked),
		ASKED(pol_2_an_approver_says_no),
		ASKED(pol_2_an_unanswered_operation_is_denied_at_its_deadline),
		ASKED(pol_2_no_more_than_the_cap_wait),
		ASKED(pol_2_equal_operations_share_a_question),
		ASKED(pol_2_other_operations_are_other_questions),
		ASKED(pol_2_each_operation_is_passed_on),
		ASKED(pol_2_what_is_gone_is_cancelled),
		ASKED(pol_2_the_end_of_a_command_ends_what_it_waits_for),
		ASKED(pol_2_who_cannot_wait_is_denied),
		cmocka_unit_test(pol_4_a_gate_needs_a_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
