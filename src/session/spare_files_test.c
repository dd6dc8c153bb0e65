// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

static bool has_file(struct kit *k, const char *name)
{
	cleanup_free char *out = mem_printf("s1/%s.out", name),
			  *err = mem_printf("s1/%s.err", name);

	return faccessat(k->output_dir, out, F_OK, 0) == 0 ||
	       faccessat(k->output_dir, err, F_OK, 0) == 0;
}

static const struct output_file *spare(struct kit *k)
{
	return kit_get(k, "s1")->spare;
}

static void exe_1_the_next_files_are_made_ahead(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0};
	char name[ID_MAX + 1];

	kit_submit(k, "s1", &request, &a);
	assert_int_equal(spare(k)[1].fd, -1);
	fake_run(k, f, 0, "text");
	memcpy(name, spare(k)[1].name, sizeof(name));
	assert_memory_equal(name, "out-", 4);
	assert_true(has_file(k, name));
	kit_submit(k, "s1", &request, &b);
	assert_string_equal(kit_get(k, "s1")->running->file[1].name, name);
	fake_run(k, f, 0, "out");
	assert_at(&b.answer, "result.stdout", "out");
	assert_string_not_equal(spare(k)[1].name, name);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void assert_output(struct kit *k, const char *id, const char *text)
{
	struct command *c = NULL;
	cleanup_buf struct buf raw = {0};
	struct err err = {0};
	uint64_t next = 0;

	assert_int_equal(command_get(k->ss, &k->who, kit_get(k, "s1"), id, &c, &err), 0);
	assert_int_equal(command_follow(c, 1, 0, 100, &raw, &next, &err), 0);
	assert_string_equal(raw.data != NULL ? raw.data : "", text);
}

/* EXE-3: an empty file serves the next command. The output in it is not that of the first command.
 */
static void exe_3_an_empty_file_is_the_next_commands(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0};
	struct output_file file[3];

	kit_submit(k, "s1", &request, &a);
	memcpy(file, kit_get(k, "s1")->running->file, sizeof(file));
	fake_run(k, f, 0, "");
	for (int i = 1; i <= 2; i++) {
		assert_string_equal(spare(k)[i].name, file[i].name);
		assert_int_equal(spare(k)[i].fd, file[i].fd);
	}
	kit_submit(k, "s1", &request, &b);
	fake_run(k, f, 0, "secret");
	assert_output(k, a.id, "");
	assert_output(k, b.id, "secret");
	assert_string_not_equal(spare(k)[1].name, file[1].name);
	assert_string_equal(spare(k)[2].name, file[2].name);
	/* the row knows where it is */
	kit_close_sessions(k);
	kit_open_sessions(k);
	kit_found_all(k);
	assert_output(k, a.id, "");
	assert_output(k, b.id, "secret");
	kit_seen_done(&a);
	kit_seen_done(&b);
}

/* EXE-3: what it leaves running may still write. */
static void exe_3_the_files_of_a_command_with_a_background_are_not_passed_on(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	char *kept[] = {(char *)"kept 5 sleep", NULL};
	struct warden_result r;
	char name[ID_MAX + 1];

	kit_submit(k, "s1", &request, &o);
	memcpy(name, kit_get(k, "s1")->running->file[1].name, sizeof(name));
	fake_take_exec(f);
	fake_start(k, f);
	r = fake_result(f, 0, "");
	r.background = (struct strv){kept, 1};
	fake_send(k, f, MSG_warden_result, &r);
	assert_int_equal(o.done, 1);
	assert_string_not_equal(spare(k)[1].name, name);
	kit_skip(&f->link, MSG_warden_ack);
	kit_seen_done(&o);
}

static void exe_3_the_files_of_no_command_go_with_the_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	const struct timespec then[2] = {{1000, 0}, {1000, 0}};
	char name[3][ID_MAX + 1];

	kit_submit(k, "s1", &request, &o);
	fake_run(k, f, 0, "");
	for (int i = 1; i <= 2; i++) {
		memcpy(name[i], spare(k)[i].name, sizeof(name[i]));
		assert_int_equal(futimens(spare(k)[i].fd, then), 0);
	}
	sessions_sweep_output(k->ss);
	assert_true(has_file(k, name[1]));
	assert_true(has_file(k, name[2]));
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	kit_turn(k);
	link_done(&f->link);
	kit_turn(k);
	assert_false(has_file(k, name[1]));
	assert_false(has_file(k, name[2]));
	kit_seen_done(&o);
}

/* A process that has no descriptor left. */
struct numbers {
	int fd[1024];
	size_t n;
	struct rlimit old;
};

static struct numbers take_all(rlim_t limit)
{
	struct numbers all = {.n = 0};
	struct rlimit few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all.old), 0);
	few = (struct rlimit){.rlim_cur = limit, .rlim_max = all.old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (all.n < ARRAY_LEN(all.fd) && (all.fd[all.n] = fcntl(2, F_DUPFD_CLOEXEC, 3)) != -1)
		all.n++;
	return all;
}

static void release(struct numbers *all)
{
	while (all->n > 0)
		close(all->fd[--all->n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all->old), 0);
}

/* Without a descriptor left, those that wait for other sessions' next commands are there for one
 * that has come. */
static void exe_1_files_made_ahead_give_way_to_a_command(void **state)
{
	static const char *const ids[] = {"s1", "s2", "s3"};
	struct kit *k = *state;
	const struct exec_request request = kit_request("true");
	struct seen_by o[4] = {0};
	struct fake *f[3];
	struct numbers all;

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		f[i] = kit_session(k, ids[i]);
		kit_submit(k, ids[i], &request, &o[i]);
		fake_run(k, f[i], 0, "");
	}
	spare_drop(kit_get(k, "s1"));
	assert_int_not_equal(kit_get(k, "s2")->spare[1].fd, -1);
	all = take_all(512);
	kit_submit(k, "s1", &request, &o[3]);
	release(&all);
	assert_int_equal(o[3].err.code, E_OK);
	for (size_t i = 1; i < ARRAY_LEN(ids); i++)
		assert_int_equal(kit_get(k, ids[i])->spare[1].fd, -1);
	fake_run(k, f[0], 0, "ran");
	assert_at(&o[3].answer, "result.stdout", "ran");
	/* and to what one has written */
	spare_fill(kit_get(k, "s2"));
	all = take_all(512);
	assert_output(k, o[3].id, "ran");
	release(&all);
	assert_int_equal(kit_get(k, "s2")->spare[1].fd, -1);
	for (size_t i = 0; i < ARRAY_LEN(o); i++)
		kit_seen_done(&o[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_the_next_files_are_made_ahead),
		TEST(exe_1_files_made_ahead_give_way_to_a_command),
		TEST(exe_3_an_empty_file_is_the_next_commands),
		TEST(exe_3_the_files_of_a_command_with_a_background_are_not_passed_on),
		TEST(exe_3_the_files_of_no_command_go_with_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
