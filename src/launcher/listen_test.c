// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

struct here {
	char dir[64], socket[96];
	struct config config;
	struct runtime place;
};

static int setup(void **state)
{
	struct here *h = mem_new(struct here);

	snprintf(h->dir, sizeof(h->dir), "/tmp/agentsh-listen-XXXXXX");
	if (mkdtemp(h->dir) == NULL)
		return -1;
	snprintf(h->socket, sizeof(h->socket), "%s/agentsh.sock", h->dir);
	h->config.unix_socket = h->socket;
	h->config.http_addr = (char *)(uintptr_t) "";
	*state = h;
	return runtime_open(&h->config, false, &h->place, NULL);
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

static int connect_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	return connect(fd, (const struct sockaddr *)&a, sizeof(a));
}

static void api_3_the_socket_is_for_everybody_or_for_one(void **state)
{
	struct here *h = *state;
	struct err err = {0};
	struct stat st;

	assert_int_equal(runtime_listen(&h->config, false, &h->place, &err), 0);
	assert_int_equal(stat(h->socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_ino, h->place.socket_ino);
	assert_int_equal(connect_unix(h->socket), 0);
	assert_int_equal(h->place.tcp_fd, -1);
	assert_null(h->place.http);
	close(h->place.unix_fd);
	h->place.unix_fd = -1;
	/* A dead server's socket is replaced. */
	assert_int_equal(runtime_listen(&h->config, true, &h->place, &err), 0);
	assert_int_equal(stat(h->socket, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(connect_unix(h->socket), 0);
}

static void api_3_what_is_not_a_socket_is_not_removed(void **state)
{
	struct here *h = *state;
	struct err err = {0};

	close(open(h->socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(runtime_listen(&h->config, true, &h->place, &err), -E_CONFLICT);
	assert_string_equal(err.subject, h->socket);
	assert_int_equal(unlink(h->socket), 0);
}

/* Its clients would never find it again. */
static void api_3_a_living_programs_socket_is_not_removed(void **state)
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
	struct here *h = *state;
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", h->socket);
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		cleanup_fd int fd = socket(AF_UNIX, types[i] | SOCK_CLOEXEC, 0);
		struct err err = {0};

		assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
		assert_true(types[i] == SOCK_DGRAM || listen(fd, 1) == 0);
		assert_int_equal(runtime_listen(&h->config, true, &h->place, &err), -E_CONFLICT);
		assert_non_null(strstr(err.message, "another program's socket"));
		assert_int_equal(h->place.unix_fd, -1);
		assert_int_equal(unlink(h->socket), 0); /* it was still there */
	}
}

/* The process that called listen is dead; one that has the descriptor lives on. */
static void ses_8_a_killed_servers_child_does_not_keep_the_socket(void **state)
{
	struct here *h = *state;
	struct err err = {0};
	int pair[2], status = -1;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct runtime p = RUNTIME_NONE;

		if (runtime_open(&h->config, false, &p, &err) < 0 ||
		    runtime_listen(&h->config, false, &p, &err) < 0)
			_exit(1);
		_exit(fdio_send(pair[1], "x", 1, &p.unix_fd, 1) < 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pair[1]); /* what was sent keeps the socket listening */
	assert_int_equal(connect_unix(h->socket), 0);
	assert_int_equal(runtime_listen(&h->config, false, &h->place, &err), 0);
	close(pair[0]);
}

static void api_3_the_end_removes_our_socket_and_no_other(void **state)
{
	struct here *h = *state;
	struct err err = {0};
	struct runtime second = RUNTIME_NONE;

	assert_int_equal(runtime_listen(&h->config, false, &h->place, &err), 0);
	assert_int_equal(unlink(h->socket), 0);
	assert_int_equal(runtime_open(&h->config, false, &second, &err), 0);
	/* Held open, so that the file system does not give the same inode again. */
	assert_int_equal(runtime_listen(&h->config, false, &second, &err), 0);
	h->place.socket_ino = second.socket_ino + 1;
	runtime_done(&h->place);
	assert_int_equal(connect_unix(h->socket), 0);
	runtime_done(&second);
	assert_int_equal(access(h->socket, F_OK), -1);
}

static void cfg_1_a_path_that_fits_and_one_that_does_not(void **state)
{
	struct here *h = *state;
	const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	struct config c = h->config;
	struct err err = {0};
	char path[200];

	memset(path, 'x', sizeof(path));
	memcpy(path, h->socket, strlen(h->socket));
	path[most] = '\0';
	c.unix_socket = path;
	runtime_done(&h->place);
	assert_int_equal(runtime_open(&c, false, &h->place, &err), 0);
	assert_int_equal(runtime_listen(&c, false, &h->place, &err), 0);
	runtime_done(&h->place);
	path[most] = 'x';
	path[most + 1] = '\0';
	assert_int_equal(runtime_open(&c, false, &h->place, &err), 0);
	assert_int_equal(runtime_listen(&c, false, &h->place, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "server.unix_socket");
}

static void api_3_tcp_listens_on_loopback_and_says_where(void **state)
{
	static const struct {
		const char *addr, *prefix;
	} rows[] = {
		{"127.0.0.1:0", "127.0.0.1:"},
		{"127.255.255.254:0", "127.255.255.254:"},
		{"[::1]:0", "[::1]:"},
	};
	struct here *h = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};

		h->config.http_addr = (char *)(uintptr_t)rows[i].addr;
		if (runtime_listen(&h->config, false, &h->place, &err) < 0) {
			assert_string_equal(rows[i].addr, "[::1]:0"); /* no IPv6 here */
			assert_int_equal(err.code, E_UNAVAILABLE);
			continue;
		}
		assert_memory_equal(h->place.http, rows[i].prefix, strlen(rows[i].prefix));
		assert_true(atoi(h->place.http + strlen(rows[i].prefix)) > 0);
		close(h->place.tcp_fd);
		close(h->place.unix_fd);
		free(take(h->place.http));
		h->place.tcp_fd = -1;
	}
	h->place.unix_fd = -1;
	assert_int_equal(unlink(h->socket), 0);
}

static void api_3_other_tcp_addresses_are_refused(void **state)
{
	static const char *const rows[] = {
		"0.0.0.0:0",
		"126.255.255.255:0",
		"128.0.0.1:0",
		"192.168.1.1:80",
		"[::]:0",
		"[::2]:80",
		"127.0.0.1",
		"127.0.0.1:",
		":80",
		"127.0.0.1:65536",
		"127.0.0.1:1x",
		"example.org:80",
		"[::1:80",
		"127.0.0.1:-1",
		"127.0.0.1: 1",
		"[127.0.0.1]:80",
		"::1:80",
		"localhost:1",
		"[]:1",
		"1234567890123456789012345678901234567890123456789012345678901234567890:80",
	};
	struct here *h = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};

		h->config.http_addr = (char *)(uintptr_t)rows[i];
		assert_int_equal(runtime_listen(&h->config, false, &h->place, &err),
				 -E_BAD_REQUEST);
		assert_string_equal(err.subject, "server.http_addr");
		assert_int_equal(h->place.tcp_fd, -1);
		assert_int_equal(access(h->socket, F_OK), -1);
	}
}

static void api_3_a_port_in_use_is_named(void **state)
{
	struct here *h = *state;
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(a);
	cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_free char *addr = NULL;
	struct err err = {0};

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	addr = mem_printf("127.0.0.1:%u", ntohs(a.sin_port));
	h->config.http_addr = addr;
	assert_int_equal(runtime_listen(&h->config, false, &h->place, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, addr));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(api_3_the_socket_is_for_everybody_or_for_one),
		T(api_3_what_is_not_a_socket_is_not_removed),
		T(api_3_a_living_programs_socket_is_not_removed),
		T(ses_8_a_killed_servers_child_does_not_keep_the_socket),
		T(api_3_the_end_removes_our_socket_and_no_other),
		T(cfg_1_a_path_that_fits_and_one_that_does_not),
		T(api_3_tcp_listens_on_loopback_and_says_where),
		T(api_3_other_tcp_addresses_are_refused),
		T(api_3_a_port_in_use_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
