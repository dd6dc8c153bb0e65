// SPDX-License-Identifier: Apache-2.0
/* Unix sockets of a session: recorded, and refused by path. */
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/net_layout.h"
#include "bpf/testkit/programs_testkit.h"
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct rig {
	struct net_kit net;
	char dir[32];
};

static void rig_start(struct rig *rig)
{
	net_kit_start(&rig->net, &net_unix_image, &session_paths);
	strcpy(rig->dir, "/tmp/agentsh-unix-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	assert_int_equal(chdir(rig->dir), 0);
}

static void rig_end(struct rig *rig)
{
	unlink("s");
	unlink("d");
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(rig->dir), 0);
	net_kit_end(&rig->net);
}

/* The path with n bytes; an abstract name begins with a zero byte. */
static socklen_t name(struct sockaddr_un *a, const char *path, size_t n)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(a->sun_path, path, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static int server(int type, const char *path, size_t n)
{
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	const socklen_t len = name(&a, path, n);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static int reach(int type, const char *path, size_t n)
{
	cleanup_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	const socklen_t len = name(&a, path, n);

	if (type == SOCK_STREAM)
		return kid_errno(connect(fd, (struct sockaddr *)&a, len));
	return kid_errno(sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&a, len));
}

static int put_path(struct rig *rig, const char *path, size_t n, int32_t error)
{
	struct net_path key = {{0}};
	const struct net_rule rule = {.error = error};

	memcpy(key.text, path, n);
	return bpf_map_put(rig->net.rules, &key, &rule);
}

static void expect_call(struct rig *rig, uint8_t hook, const char *path, size_t n, int error)
{
	struct net_call seen;

	assert_int_equal(net_kit_read(&rig->net, &seen), 1);
	assert_int_equal(seen.hook, hook);
	assert_int_equal(seen.family, AF_UNIX);
	assert_int_equal(seen.error, error);
	assert_int_equal(seen.pid, getpid());
	assert_int_equal(seen.path_len, n);
	assert_memory_equal(seen.path, path, n);
}

static void net_8_unix_connects_are_recorded_and_refused_by_path(void **state)
{
	static const char abstract[] = "\0agentsh\0x";
	char longest[NET_PATH_LEN];
	struct rig rig;

	rig_start(&rig);
	cleanup_fd int stream = server(SOCK_STREAM, "s", 2);
	cleanup_fd int datagram = server(SOCK_DGRAM, "d", 2);
	cleanup_fd int hidden = server(SOCK_STREAM, abstract, sizeof(abstract));

	assert_true(stream >= 0 && datagram >= 0 && hidden >= 0);
	assert_int_equal(reach(SOCK_STREAM, "s", 2), 0);
	expect_call(&rig, NET_CONNECT, "s", 1, 0);
	assert_int_equal(reach(SOCK_DGRAM, "d", 1), 0);
	expect_call(&rig, NET_SENDMSG, "d", 1, 0);
	assert_int_equal(reach(SOCK_STREAM, abstract, sizeof(abstract)), 0);
	expect_call(&rig, NET_CONNECT, abstract, sizeof(abstract), 0);

	assert_int_equal(put_path(&rig, "s", 1, EACCES), 0);
	assert_int_equal(put_path(&rig, "d", 1, ECONNREFUSED), 0);
	assert_int_equal(put_path(&rig, abstract, sizeof(abstract), EPERM), 0);
	/* with and without the zero byte, and with other bytes after it */
	assert_int_equal(reach(SOCK_STREAM, "s", 1), EACCES);
	expect_call(&rig, NET_CONNECT, "s", 1, EACCES);
	assert_int_equal(reach(SOCK_STREAM, "s\0tail", 6), EACCES);
	expect_call(&rig, NET_CONNECT, "s", 1, EACCES);
	assert_int_equal(reach(SOCK_DGRAM, "d", 2), ECONNREFUSED);
	expect_call(&rig, NET_SENDMSG, "d", 1, ECONNREFUSED);
	assert_int_equal(reach(SOCK_STREAM, abstract, sizeof(abstract)), EPERM);
	expect_call(&rig, NET_CONNECT, abstract, sizeof(abstract), EPERM);
	/* another text for the same socket: the wall is the session's view */
	assert_int_equal(reach(SOCK_STREAM, "./s", 3), 0);
	expect_call(&rig, NET_CONNECT, "./s", 3, 0);

	memset(longest, 'x', sizeof(longest));
	assert_int_equal(reach(SOCK_STREAM, longest, sizeof(longest)), ENOENT);
	expect_call(&rig, NET_CONNECT, longest, sizeof(longest), 0);
	assert_int_equal(put_path(&rig, longest, sizeof(longest), EXDEV), 0);
	assert_int_equal(reach(SOCK_STREAM, longest, sizeof(longest)), EXDEV);
	assert_int_equal(reach(SOCK_STREAM, longest, sizeof(longest) - 1), ENOENT);
	rig_end(&rig);
}

static void net_8_other_namespaces_pass_unseen(void **state)
{
	struct rig rig;

	rig_start(&rig);
	cleanup_fd int stream = server(SOCK_STREAM, "s", 2);

	assert_true(stream >= 0);
	assert_int_equal(put_path(&rig, "s", 1, EACCES), 0);
	programs_kit_network();
	assert_int_equal(reach(SOCK_STREAM, "s", 2), 0);
	assert_int_equal(programs_kit_read(rig.net.calls, NULL, NULL), 0);
	rig_end(&rig);
}

static void net_8_full_maps_of_paths_and_records(void **state)
{
	const int tries = 4 * NET_CALLS_BYTES / (int)sizeof(struct net_call);
	const struct net_path zeros = {{0}};
	struct net_rule dropped;
	struct rig rig;
	int n;

	rig_start(&rig);
	for (n = 1; n < NET_PATHS_MAX; n++) {
		char text[16];

		snprintf(text, sizeof(text), "p%d", n);
		assert_int_equal(put_path(&rig, text, strlen(text), EACCES), 0);
	}
	assert_int_equal(put_path(&rig, "s", 1, EACCES), -E2BIG);
	for (int i = 0; i < tries; i++)
		assert_int_equal(reach(SOCK_STREAM, "p7", 2), EACCES);
	assert_int_equal(bpf_map_get(rig.net.rules, &zeros, &dropped), 0);
	n = programs_kit_read(rig.net.calls, NULL, NULL);
	assert_in_range(n, 1, tries - 1);
	assert_int_equal(n + (int)dropped.count, tries);
	rig_end(&rig);
}

static void net_8_a_damaged_object_is_refused(void **state)
{
	programs_kit_damage(&net_unix_image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(net_8_unix_connects_are_recorded_and_refused_by_path),
		cmocka_unit_test(net_8_other_namespaces_pass_unseen),
		cmocka_unit_test(net_8_full_maps_of_paths_and_records),
		cmocka_unit_test(net_8_a_damaged_object_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
