// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/hash.h"
#include "base/mem.h"
#include "launcher/requester.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#define PEER_UID 1000
#define PEER_GID 1234
#define API_UID 64998
#define SESSION_UID 64999

struct here {
	char dir[64], socket[96];
	struct config config;
	struct runtime place;
};

static bool root(void)
{
	return geteuid() == 0;
}

static int setup(void **state)
{
	struct here *h = mem_new(struct here);

	snprintf(h->dir, sizeof(h->dir), "/tmp/agentsh-who-XXXXXX");
	if (mkdtemp(h->dir) == NULL || chmod(h->dir, 0755) < 0)
		return -1;
	snprintf(h->socket, sizeof(h->socket), "%s/agentsh.sock", h->dir);
	h->config.unix_socket = h->socket;
	h->config.http_addr = (char *)(uintptr_t) "127.0.0.1:0";
	h->config.run_as = (char *)(uintptr_t) "caller";
	h->config.api_uid = API_UID;
	h->config.session_uids = (struct uid_range){SESSION_UID, SESSION_UID + 9};
	*state = h;
	if (runtime_open(&h->config, root(), &h->place, NULL) < 0)
		return -1;
	return runtime_listen(&h->config, root(), &h->place, NULL);
}

static int teardown(void **state)
{
	struct here *h = *state;
	int r;

	runtime_done(&h->place);
	r = rmdir(h->dir);
	free(h);
	return r;
}

static int connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The accepted end of a connection that another process made as uid and gid; it lives until the end
 * is closed. */
static int accept_from(const struct here *h, uid_t uid, gid_t gid)
{
	char byte;
	const pid_t pid = fork();

	if (pid == 0) {
		int fd;

		if (root() && (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
			_exit(1);
		fd = connect_to(h->socket);
		(void)!read(fd, &byte, 1);
		_exit(0);
	}
	for (;;) {
		const int fd = accept4(h->place.unix_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 || errno != EAGAIN)
			return fd;
		sched_yield();
	}
}

static void reap(void)
{
	int status;

	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void api_3_the_peer_of_our_socket_is_who_connected(void **state)
{
	const struct here *h = *state;
	struct requester who = {0};
	struct err err = {0};
	const int fd = accept_from(h, PEER_UID, PEER_GID);

	assert_true(fd >= 0);
	assert_int_equal(requester_connected(&h->place, root(), fd, &who, &err), 0);
	assert_int_equal(who.uid, root() ? PEER_UID : geteuid());
	assert_int_equal(who.gid, root() ? PEER_GID : getegid());
	assert_int_equal(who.admin, !root());
	close(fd);
	reap();
}

static void refused(const struct here *h, int fd)
{
	struct requester who = {7, 7};
	struct err err = {0};

	assert_int_equal(requester_connected(&h->place, root(), fd, &who, &err),
			 -E_UNAUTHENTICATED);
	assert_int_equal(who.uid, 7);
	if (fd >= 0)
		close(fd);
}

static void api_3_no_other_descriptor_is_a_proof(void **state)
{
	const struct here *h = *state;
	int pair[2];

	refused(h, -1);
	refused(h, open("/dev/null", O_RDWR | O_CLOEXEC));
	refused(h, fcntl(h->place.unix_fd, F_DUPFD_CLOEXEC, 3));
	refused(h, fcntl(h->place.tcp_fd, F_DUPFD_CLOEXEC, 3));
	refused(h, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	refused(h, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	refused(h, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	refused(h, pair[0]);
	refused(h, pair[1]);
	/* The client's end: its SO_PEERCRED is the process that called listen, which may be root's.
	 */
	refused(h, connect_to(h->socket));
	close(accept4(h->place.unix_fd, NULL, NULL, SOCK_CLOEXEC));
}

/* The end of a connection that was accepted by another listener. */
static int accept_elsewhere(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	cleanup_fd int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_fd int c = -1;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(l, 1), 0);
	c = connect_to(path);
	return accept4(l, NULL, NULL, SOCK_CLOEXEC);
}

static void api_3_a_connection_to_another_socket_is_no_proof(void **state)
{
	const struct here *h = *state;
	cleanup_free char *other = mem_printf("%s/other.sock", h->dir);
	cleanup_free char *longer = mem_printf("%sx", h->socket);

	refused(h, accept_elsewhere(other));
	refused(h, accept_elsewhere(longer));
	unlink(other);
	unlink(longer);
}

/* In a mount namespace of its own a process can bind our path a second time: the name is the same,
 * the inode is not. */
static void api_3_our_address_alone_is_no_proof(void **state)
{
	const struct here *h = *state;
	int pair[2], fd, status;
	size_t nfds = 1;
	char byte;
	pid_t pid;

	if (!root())
		skip();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", h->dir, "tmpfs", 0, NULL) < 0)
			_exit(2);
		fd = accept_elsewhere(h->socket);
		_exit(fd < 0 || fdio_send(pair[1], "x", 1, &fd, 1) < 0);
	}
	close(pair[1]);
	assert_int_equal(fdio_recv(pair[0], &byte, 1, &fd, &nfds, NULL), 1);
	close(pair[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* Without the inode it would pass. */
	struct requester who;
	assert_int_equal(requester_connected(&h->place, false, fd, &who, NULL), 0);
	assert_int_equal(who.uid, 0);
	assert_true(who.admin);
	refused(h, fd);
}

static void api_3_a_tcp_connection_of_ours_is_told_from_others(void **state)
{
	struct here *h = *state;
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	cleanup_fd int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_fd int s = -1;
	int tcp;

	assert_int_equal(getsockname(h->place.tcp_fd, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(connect(c, (struct sockaddr *)&a, len), 0);
	s = accept4(h->place.tcp_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(s >= 0);
	assert_true(requester_by_tcp(&h->place, s));
	assert_false(requester_by_tcp(&h->place, c));
	assert_false(requester_by_tcp(&h->place, h->place.tcp_fd));
	assert_false(requester_by_tcp(&h->place, h->place.unix_fd));
	assert_false(requester_by_tcp(&h->place, -1));
	tcp = h->place.tcp_fd;
	h->place.tcp_fd = -1;
	assert_false(requester_by_tcp(&h->place, s));
	h->place.tcp_fd = tcp;
}

static void api_3_a_key_speaks_for_its_uid(void **state)
{
	struct api_key rows[2] = {{.uid = 4000000000U}, {.uid = 0}};
	const struct api_keys keys = {rows, 2};
	struct bytes key = {(uint8_t *)(uintptr_t) "secret-b", 8};
	struct requester who = {7, 7};
	struct err err = {0};

	hash_sha256(rows[0].sha256, "secret-a", 8, NULL, 0);
	hash_sha256(rows[1].sha256, "secret-b", 8, NULL, 0);
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), 0);
	assert_int_equal(who.uid, 0);
	assert_int_equal(who.gid, 0);
	key.data = (uint8_t *)(uintptr_t) "secret-a";
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), 0);
	assert_int_equal(who.uid, 4000000000U);
	assert_int_equal(who.gid, 4000000000U); /* not in the user database */
	assert_false(who.admin);
	rows[0].uid = UINT32_MAX;
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), -E_FORBIDDEN);
	rows[0].uid = 5;
	rows[0].role = ROLE_APPROVER;
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), -E_FORBIDDEN);
	rows[0].role = ROLE_ADMIN;
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), 0);
	assert_int_equal(who.uid, 5);
	assert_true(who.admin);
	key.len = 7;
	assert_int_equal(requester_has_key(&keys, &key, &who, &err), -E_UNAUTHENTICATED);
	assert_int_equal(requester_has_key(&(struct api_keys){0}, &key, &who, &err),
			 -E_UNAUTHENTICATED);
}

static void sbx_1_for_whom_a_session_acts(void **state)
{
	struct here *h = *state;
	static const struct {
		const char *run_as;
		struct requester who, owner;
		int result;
		struct session_identity id; /* its own, and that of its files */
	} rows[] = {
		{"caller", {1000, 100}, {1000, 100}, 0, {{1000, 100}, {1000, 100}}},
		{"caller", {1000, 100}, {2000, 200}, 0, {{1000, 100}, {1000, 100}}},
		{"caller", {1000, 100}, {0, 0}, 0, {{1000, 100}, {1000, 100}}},
		{"caller", {0, 0}, {0, 0}, 0, {{0, 0}, {0, 0}}},
		{"caller", {0, 0}, {1000, 100}, 0, {{0, 0}, {1000, 100}}},
		{"owner", {1000, 100}, {1000, 5}, 0, {{1000, 100}, {1000, 100}}},
		{"owner",
		 {1000, 100},
		 {4000000000U, 5},
		 0,
		 {{4000000000U, 4000000000U}, {4000000000U, 4000000000U}}},
		{"owner", {1000, 100}, {0, 0}, 0, {{0, 0}, {0, 0}}},
		{"owner",
		 {0, 0},
		 {4000000000U, 5},
		 0,
		 {{4000000000U, 4000000000U}, {4000000000U, 4000000000U}}},
		{"owner", {1000, 100}, {API_UID, 5}, -E_FORBIDDEN, {{0}, {0}}},
		{"owner", {1000, 100}, {SESSION_UID + 9, 5}, -E_FORBIDDEN, {{0}, {0}}},
		{"caller", {API_UID, API_UID}, {1000, 100}, -E_FORBIDDEN, {{0}, {0}}},
		{"caller", {SESSION_UID, SESSION_UID}, {1000, 100}, -E_FORBIDDEN, {{0}, {0}}},
		{"caller", {SESSION_UID + 9, 1}, {1000, 100}, -E_FORBIDDEN, {{0}, {0}}},
		{"owner", {API_UID, API_UID}, {1000, 100}, -E_FORBIDDEN, {{0}, {0}}},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct session_identity id = {0};
		struct err err = {0};

		h->config.run_as = (char *)(uintptr_t)rows[i].run_as;
		assert_int_equal(
			identity_choose(true, &h->config, rows[i].who, rows[i].owner, &id, &err),
			rows[i].result);
		assert_int_equal(id.self.uid, rows[i].id.self.uid);
		assert_int_equal(id.self.gid, rows[i].id.self.gid);
		assert_int_equal(id.files.uid, rows[i].id.files.uid);
		assert_int_equal(id.files.gid, rows[i].id.files.gid);
	}
}

static void sbx_5_a_users_server_serves_that_user_only(void **state)
{
	const struct here *h = *state;
	struct requester who = {geteuid(), 5}, owner = {0, 0};
	struct session_identity id = {0};
	struct err err = {0};

	assert_int_equal(identity_choose(false, &h->config, who, owner, &id, &err), 0);
	assert_int_equal(id.self.uid, geteuid());
	assert_int_equal(id.self.gid, getegid());
	assert_int_equal(id.files.uid, geteuid());
	who.uid = geteuid() + 1;
	assert_int_equal(identity_choose(false, &h->config, who, owner, &id, &err), -E_FORBIDDEN);
}

static void sbx_1_the_owner_is_what_the_caller_can_see(void **state)
{
	const struct here *h = *state;
	const struct requester caller = {PEER_UID, PEER_GID};
	cleanup_free char *closed = mem_printf("%s/closed", h->dir);
	cleanup_free char *inner = mem_printf("%s/closed/inner", h->dir);
	struct requester owner = requester_owns(h->dir, root(), caller);
	struct stat st;

	assert_int_equal(stat(h->dir, &st), 0);
	assert_int_equal(owner.uid, st.st_uid);
	assert_int_equal(owner.gid, st.st_gid);
	assert_int_equal(requester_owns("/nowhere/at/all", root(), caller).uid, PEER_UID);
	if (!root())
		return;
	assert_int_equal(mkdir(closed, 0700), 0);
	assert_int_equal(mkdir(inner, 0755), 0);
	assert_int_equal(requester_owns(inner, true, caller).uid, PEER_UID);
	/* Afterwards we see with our own eyes again. */
	assert_int_equal(requester_owns(inner, true, (struct requester){0, 0}).uid, 0);
	assert_int_equal(rmdir(inner), 0);
	assert_int_equal(rmdir(closed), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(api_3_the_peer_of_our_socket_is_who_connected),
		T(api_3_no_other_descriptor_is_a_proof),
		T(api_3_a_connection_to_another_socket_is_no_proof),
		T(api_3_our_address_alone_is_no_proof),
		T(api_3_a_tcp_connection_of_ours_is_told_from_others),
		T(api_3_a_key_speaks_for_its_uid),
		T(sbx_1_for_whom_a_session_acts),
		T(sbx_5_a_users_server_serves_that_user_only),
		T(sbx_1_the_owner_is_what_the_caller_can_see),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
