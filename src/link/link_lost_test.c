// SPDX-License-Identifier: Apache-2.0
/* A receiver that has no descriptor left. */
#include "base/mem.h"
#include "link/testkit/link_testkit.h"
#include <fcntl.h>
#include <sys/resource.h>

static void ses_8_a_message_without_room_for_its_descriptors_is_lost_alone(void **state)
{
	cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct warden_exec exec = {0};
	const int fds[2] = {fd, fd};
	struct rlimit old, none;
	struct err err = {0};
	struct link_msg m;
	struct pair p;

	pair_open(&p, SIDE_API, SIDE_WARDEN, LINK_OPEN);
	for (uint32_t req = 1; req <= 2; req++)
		assert_int_equal(link_send(&p.a, MSG_warden_exec, req, &exec, fds, 2, &err),
				 LINK_OK);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_LOST);
	assert_non_null(strstr(err.message, "RLIMIT_NOFILE"));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(link_recv(&p.b, &m, &err), LINK_OK);
	assert_int_equal(m.req, 2);
	assert_int_equal(m.nfds, 2);
	link_msg_done(&m);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_a_message_without_room_for_its_descriptors_is_lost_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
