// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ID64 "a234567890123456789012345678901234567890123456789012345678901234"

struct here {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct here *h = mem_new(struct here);

	snprintf(h->path, sizeof(h->path), "/tmp/agentsh-files-XXXXXX");
	if (mkdtemp(h->path) == NULL)
		return -1;
	h->fd = open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct here *h = *state;
	const int r = rmdir(h->path);

	close(h->fd);
	free(h);
	return r;
}

static void ses_8_a_name_says_whose_it_is_and_what(void **state)
{
	static const struct {
		const char *name, *id;
		enum session_file kind;
	} rows[] = {
		{"a.sock", "a", FILE_SOCK},	 {"a.ring", "a", FILE_RING},
		{"a.ack", "a", FILE_ACK},	 {"a.meta", "a", FILE_META},
		{"a.new", "a", FILE_NEW},	 {"a.ring.sock", "a.ring", FILE_SOCK},
		{ID64 ".ring", ID64, FILE_RING},
	};
	static const char *const wrong[] = {
		".",	    "..",	"a",	       ".sock",	  "a.",
		"a.sock.",  "a.ring-",	"a.ring-init", "a.socks", "-a.sock",
		"a b.sock", "a/b.sock", ID64 "5.ring", "a.SOCK",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char id[ID_MAX + 1], name[SESSION_FILE_NAME_MAX];

		assert_true(session_files_parse(rows[i].name, id));
		assert_string_equal(id, rows[i].id);
		session_files_name(name, id, rows[i].kind);
		assert_string_equal(name, rows[i].name);
	}
	for (unsigned i = 0; i < SESSION_FILES; i++) {
		char id[ID_MAX + 1], name[SESSION_FILE_NAME_MAX];

		session_files_name(name, ID64, (enum session_file)i);
		assert_true(session_files_parse(name, id));
		assert_string_equal(id, ID64);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char id[ID_MAX + 1];

		assert_false(session_files_parse(wrong[i], id));
	}
}

static void touch(int dir, const char *name)
{
	const int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static bool exists(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void ses_8_a_dead_session_keeps_ring_and_record_until_all_goes(void **state)
{
	static const char *const kinds[] = {"s.sock", "s.ring", "s.ack", "s.meta", "s.new"};
	const struct here *h = *state;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		assert_false(session_files_any(h->fd, "s"));
		touch(h->fd, kinds[i]);
		assert_true(session_files_any(h->fd, "s"));
		unlinkat(h->fd, kinds[i], 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		touch(h->fd, kinds[i]);
	touch(h->fd, "t.ring");
	session_files_remove(h->fd, "s", false);
	assert_false(exists(h->fd, "s.sock") || exists(h->fd, "s.new"));
	assert_true(exists(h->fd, "s.ring") && exists(h->fd, "s.ack") && exists(h->fd, "s.meta"));
	session_files_remove(h->fd, "s", true);
	assert_false(session_files_any(h->fd, "s"));
	assert_true(session_files_any(h->fd, "t"));
	session_files_remove(h->fd, "t", true);
}

static void ses_8_the_rings_that_are_there_are_handed_on(void **state)
{
	const struct here *h = *state;
	struct strv names = {0};
	int fd[RINGS_FDS];

	assert_int_equal(session_files_rings(h->fd, "s", &names, fd), 0);
	touch(h->fd, "s.ring");
	assert_int_equal(session_files_rings(h->fd, "s", &names, fd), 0);
	assert_int_equal(names.n, 0);
	touch(h->fd, "s.ack");
	/* Other rings are not needed: the version before did not make them. */
	assert_int_equal(session_files_rings(h->fd, "s", &names, fd), 2);
	assert_int_equal(names.n, 1);
	assert_string_equal(names.v[0], MAIN_PROCESS->name);
	assert_int_equal(fcntl(fd[0], F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(fd[1], F_GETFL) & O_ACCMODE, O_RDWR);
	close(fd[0]);
	close(fd[1]);
	strv_done(&names);
	session_files_remove(h->fd, "s", true);
}

static void ses_8_a_link_in_the_place_of_a_file_is_not_followed(void **state)
{
	const struct here *h = *state;

	assert_int_equal(symlinkat("/etc/passwd", h->fd, "s.ring"), 0);
	assert_int_equal(session_files_open(h->fd, "s", FILE_RING, O_RDONLY), -1);
	assert_int_equal(errno, ELOOP);
	assert_true(session_files_any(h->fd, "s"));
	session_files_remove(h->fd, "s", true);
}

/* However long the directory's path and the id are. */
static void ses_8_a_session_socket_is_bound_and_reached(void **state)
{
	const struct here *h = *state;
	cleanup_fd int fd = -1;
	cleanup_fd int conn = -1;

	assert_int_equal(session_files_connect(h->fd, ID64), -1);
	assert_int_equal(errno, ENOENT);
	fd = session_files_bind(h->fd, ID64);
	assert_true(fd >= 0);
	assert_int_equal(session_files_bind(h->fd, ID64), -1);
	assert_int_equal(session_files_connect(h->fd, ID64), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(listen(fd, 1), 0);
	conn = session_files_connect(h->fd, ID64);
	assert_true(conn >= 0);
	assert_int_equal(fcntl(conn, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fcntl(conn, F_GETFD), FD_CLOEXEC);
	session_files_remove(h->fd, ID64, false);
}

static void ses_8_a_warden_that_does_not_accept_does_not_stop_us(void **state)
{
	const struct here *h = *state;
	cleanup_fd int fd = session_files_bind(h->fd, "s");
	cleanup_fd int a = -1;
	cleanup_fd int b = -1;

	assert_int_equal(listen(fd, 0), 0);
	a = session_files_connect(h->fd, "s");
	b = session_files_connect(h->fd, "s");
	assert_true(a >= 0);
	assert_int_equal(b, -1);
	assert_int_equal(errno, EAGAIN);
	session_files_remove(h->fd, "s", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_a_name_says_whose_it_is_and_what),
		cmocka_unit_test_setup_teardown(ses_8_the_rings_that_are_there_are_handed_on, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			ses_8_a_dead_session_keeps_ring_and_record_until_all_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_link_in_the_place_of_a_file_is_not_followed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_session_socket_is_bound_and_reached, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			ses_8_a_warden_that_does_not_accept_does_not_stop_us, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
