// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "policy/testkit/policy_testkit.h"
#include <fcntl.h>
#include <sys/stat.h>

struct runtime {
	char *top;
	struct strv dirs; /* first/, second/ */
};

static void put(const struct runtime *p, const char *name, const char *text)
{
	cleanup_free char *path = mem_printf("%s/%s", p->top, name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
}

static int set_up(void **state)
{
	static const char *const made[] = {"first/sets", "second/sets"};
	struct runtime *p = mem_new(struct runtime);
	char name[] = "/tmp/agentsh-policy-XXXXXX";

	p->top = mem_strdup(mkdtemp(name));
	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		cleanup_free char *path = mem_printf("%s/%s", p->top, made[i]);

		assert_int_equal(fdio_mkdirs(path, 0755, NULL), 0);
		path[strlen(path) - 5] = '\0';
		strv_add(&p->dirs, path);
	}
	put(p, "first/a.yaml", "version: 1\nname: a\ndescription: first\n");
	put(p, "second/a.yaml", "version: 1\nname: a\ndescription: second\n");
	put(p, "second/b.yaml",
	    "version: 1\nname: b\nfile_rules:\n  - {name: r, paths: ['@s'], decision: deny}\n");
	put(p, "second/c.yaml", "version: 1\nname: other\n");
	put(p, "second/.yaml", "");
	put(p, "second/no.txt", "");
	put(p, "first/sets/s.yaml", "version: 1\nname: s\nkind: paths\nitems: ['/x']\n");
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const made[] = {"first/a.yaml",
					   "second/a.yaml",
					   "second/b.yaml",
					   "second/c.yaml",
					   "second/.yaml",
					   "second/no.txt",
					   "first/sets/s.yaml",
					   "first/sets",
					   "second/sets",
					   "first",
					   "second",
					   "."};
	struct runtime *p = *state;

	for (size_t i = 0; i < ARRAY_LEN(made); i++) {
		cleanup_free char *path = mem_printf("%s/%s", p->top, made[i]);

		remove(path);
	}
	rmdir(p->top);
	strv_done(&p->dirs);
	free(p->top);
	free(p);
	return 0;
}

static void pol_7_the_first_directory_wins(void **state)
{
	const struct policy_options o = {0};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0};
	struct policy *p = NULL;
	struct err err = {0};

	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), 0);
	assert_int_equal(policy_open(bytes.data, bytes.len, &p, &err), 0);
	assert_string_equal(policy_description(p), "first");
	policy_close(p);
}

static void pol_1_sets_are_found_beside(void **state)
{
	const struct policy_options o = {0};
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, "/x"}};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0};
	struct policy *p = NULL;
	struct err err = {0};
	struct verdict v;

	assert_int_equal(policy_load(&at->dirs, "b", &o, NULL, &bytes, &err), 0);
	assert_int_equal(policy_open(bytes.data, bytes.len, &p, &err), 0);
	policy_decide(p, &op, false, &v);
	assert_string_equal(v.rule, "r");
	assert_non_null(strstr(v.file, "/second/b.yaml"));
	policy_close(p);
}

static void pol_5_a_set_that_is_not_there_is_proposed(void **state)
{
	const struct policy_options o = {0};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0}, report = {0};

	cleanup_free char *other = mem_printf("%s/second/sets/sets.yaml", at->top);

	put(at, "second/sets/sets.yaml", "version: 1\nname: sets\nkind: paths\nitems: []\n");
	put(at, "second/b.yaml",
	    "version: 1\nname: b\nfile_rules:\n  - {name: r, paths: ['@sett'], decision: deny}\n");
	assert_int_equal(policy_load(&at->dirs, "b", &o, &report, &bytes, NULL), -E_BAD_REQUEST);
	assert_non_null(strstr(report.data, "/second/b.yaml:4:23: error: no set 'sett' "
					    "(did you mean 'sets'?); choices: "));
	put(at, "second/b.yaml", "version: 1\nname: b\nname: b\n");
	buf_clear(&report);
	assert_int_equal(policy_load(&at->dirs, "b", &o, &report, &bytes, &(struct err){0}),
			 -E_BAD_REQUEST);
	assert_non_null(strstr(report.data, "/second/b.yaml:3:1: error: key 'name' stands here "
					    "twice\n"));
	unlink(other);
}

static void pol_7_names_are_listed_once(void **state)
{
	struct runtime *at = *state;
	struct strv names = {0};

	policy_list(&at->dirs, false, &names);
	assert_int_equal(names.n, 3);
	assert_string_equal(names.v[0], "a");
	assert_string_equal(names.v[2], "c");
	strv_done(&names);
	policy_list(&at->dirs, true, &names);
	assert_int_equal(names.n, 1);
	strv_done(&names);
	policy_list(&(const struct strv){0}, false, &names);
	assert_int_equal(names.n, 0);
}

static void pol_7_what_is_not_there_is_named(void **state)
{
	const struct policy_options o = {0};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0};
	struct err err = {0};

	assert_int_equal(policy_load(&at->dirs, "z", &o, NULL, &bytes, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "no policy 'z'; there is 'a', 'b', 'c'");
	assert_int_equal(policy_load(&at->dirs, "../first/a", &o, NULL, &bytes, &err),
			 -E_BAD_REQUEST);
	assert_int_equal(policy_load(&at->dirs, "c", &o, NULL, &bytes, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "its name is 'other', not 'c'"));
	assert_int_equal(bytes.len, 0);
	assert_null(policy_find_file(&at->dirs, true, "a"));
}

static void pol_7_a_file_that_others_can_write_is_refused(void **state)
{
	static const mode_t modes[] = {0664, 0646};
	const struct policy_options o = {0};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0};
	cleanup_free char *path = policy_find_file(&at->dirs, false, "a");
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		assert_int_equal(chmod(path, modes[i]), 0);
		assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), -E_FORBIDDEN);
	}
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), 0);
	assert_int_equal(chmod(at->dirs.v[0], 0777), 0);
	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), -E_FORBIDDEN);
	assert_int_equal(chmod(at->dirs.v[0], 01777), 0);
	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), 0);
	assert_int_equal(chmod(at->dirs.v[0], 0755), 0);
	assert_int_equal(policy_load_file(&at->dirs, at->top, &o, NULL, &bytes, &err),
			 -E_FORBIDDEN);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), -E_FORBIDDEN);
	}
}

/* One that cannot be read is not passed over for the next, which may be wider. */
static void pol_7_a_file_that_cannot_be_read_hides_the_next(void **state)
{
	const struct policy_options o = {0};
	struct runtime *at = *state;
	cleanup_buf struct buf bytes = {0}, report = {0};
	cleanup_free char *path = policy_find_file(&at->dirs, false, "a");
	cleanup_free char *set = policy_find_file(&at->dirs, true, "s");
	struct err err = {0};

	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), -E_NOT_FOUND);
	assert_non_null(strstr(err.message, "/first/a.yaml"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(policy_load(&at->dirs, "a", &o, NULL, &bytes, &err), 0);
	assert_int_equal(unlink(set), 0);
	assert_int_equal(symlink("nowhere", set), 0);
	put(at, "second/b.yaml",
	    "version: 1\nname: b\nfile_rules:\n  - {name: r, paths: ['@s'], decision: allow}\n");
	assert_int_equal(policy_load(&at->dirs, "b", &o, &report, &bytes, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(report.data, ":4:23: error: cannot read the set "));
}

static void pol_7_shipped_directories_come_last(void **state)
{
	struct strv d;

	policy_dirs_init(&d, "/etc/x");
	assert_int_equal(d.n, 3);
	assert_string_equal(d.v[0], "/etc/x");
	assert_string_equal(d.v[2], AGENTSH_DATADIR "/policies");
	strv_done(&d);
	policy_dirs_init(&d, "");
	assert_int_equal(d.n, 2);
	strv_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pol_7_the_first_directory_wins, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pol_1_sets_are_found_beside, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pol_5_a_set_that_is_not_there_is_proposed, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(pol_7_names_are_listed_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pol_7_what_is_not_there_is_named, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(pol_7_a_file_that_others_can_write_is_refused,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(pol_7_a_file_that_cannot_be_read_hides_the_next,
						set_up, tear_down),
		cmocka_unit_test(pol_7_shipped_directories_come_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
