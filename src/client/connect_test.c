// SPDX-License-Identifier: Apache-2.0
/* Finding and starting servers. This program itself plays the server that is started: see
 * play_server. */
#include "base/fdio.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include "client/testkit/server_testkit.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define INHERITED 77 /* a descriptor of our caller that a started server must not keep */

/* --- the started server --- */

static void be_ready(int fd, const char *socket)
{
	dprintf(fd, "ready %s\n", socket);
	close(fd);
}

static int bad_surroundings(int ready)
{
	struct stat in, out, null;
	sigset_t mask;

	fstat(0, &in);
	fstat(1, &out);
	stat("/dev/null", &null);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	return in.st_rdev != null.st_rdev || out.st_rdev != null.st_rdev || getsid(0) != getpid() ||
	       fcntl(INHERITED, F_GETFD) >= 0 || fcntl(ready, F_GETFD) < 0 ||
	       sigismember(&mask, SIGUSR1) || signal(SIGUSR2, SIG_DFL) != SIG_DFL;
}

/* AGENTSH_TEST_PLAY is the part to play, AGENTSH_TEST_SOCKET the path to listen on. */
static int play_server(char **argv)
{
	const char *play = getenv("AGENTSH_TEST_PLAY"), *path = getenv("AGENTSH_TEST_SOCKET");
	const int ready = atoi(argv[3]);
	char request[1000];
	int listener, fd;

	/* A client must not become the server itself. */
	if (atoi(getenv("AGENTSH_TEST_PID")) == getpid())
		return 99;
	if (strcmp(play, "silent") == 0)
		return 1;
	if (strcmp(play, "chatty") == 0) {
		for (int i = 0; i < 100; i++)
			dprintf(2, "line %d\n", i);
		return 1;
	}
	dprintf(2, "playing %s\n", play);
	if (strcmp(argv[2], "--ready-fd") != 0 || bad_surroundings(ready)) {
		dprintf(2, "bad surroundings\n");
		return 1;
	}
	if (strcmp(play, "fail") == 0) {
		dprintf(2, "no room\n\n");
		return 1;
	}
	if (strcmp(play, "nonsense") == 0)
		return dprintf(ready, "hello\n") < 0;
	if (strcmp(play, "cut") == 0)
		return dprintf(ready, "ready /x") < 0;
	if (strcmp(play, "away") == 0) {
		be_ready(ready, path);
		return 0;
	}
	/* "late": the first one that is started ends before it can be asked. */
	if (strcmp(play, "late") == 0 && mkdir(getenv("AGENTSH_TEST_MARK"), 0700) == 0) {
		be_ready(ready, path);
		return 0;
	}
	unlink(path);
	listener = server_listen(path);
	be_ready(ready, path);
	fd = accept(listener, NULL, NULL);
	if (recv(fd, request, sizeof(request), 0) <= 0)
		return 1;
	return fdio_write_all(fd, "HTTP/1.1 204 X\r\n\r\n", 18) < 0;
}

/* --- tests --- */

static void set_play(const struct server *s, const char *play)
{
	char pid[16];

	setenv("AGENTSH_TEST_PLAY", play, 1);
	setenv("AGENTSH_TEST_SOCKET", s->socket, 1);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("AGENTSH_TEST_PID", pid, 1);
	unsetenv("AGENTSH_NO_AUTO");
}

static void clear_place(struct server *s)
{
	cleanup_free char *log = mem_printf("%s/agentsh-server.log", s->dir);

	unlink(log);
	unlink(s->socket);
	rmdir(s->dir);
}

static int count_in_log(const struct server *s, const char *text)
{
	cleanup_free char *path = mem_printf("%s/agentsh-server.log", s->dir);
	cleanup_buf struct buf b = {0};
	int n = 0;

	assert_int_equal(fdio_load_path(path, 2000000, &b, NULL), 0);
	for (const char *at = b.data; (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

static void assert_answers(struct client *c)
{
	const struct client_call call = {.method = "GET", .path = "/"};
	cleanup_buf struct buf body = {0};
	struct err err = {0};

	assert_int_equal(client_call(c, &call, &body, &err), 0);
	assert_int_equal(body.len, 0);
}

static void cli_1_a_server_is_started_if_none_runs(void **state)
{
	const struct client_options o = {0};
	struct client_places places = {.program = "/proc/self/exe"};
	struct client *c = NULL;
	struct err err = {0};
	sigset_t usr1;
	struct server s;

	server_place(&s);
	set_play(&s, "ok");
	places.sockets[0] = s.socket;
	places.dir = s.dir;
	assert_int_equal(dup2(1, INHERITED), INHERITED);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	signal(SIGUSR2, SIG_IGN);
	if (client_open_at(&o, &places, &c, &err) < 0)
		fail_msg("%s", err.message);
	sigprocmask(SIG_UNBLOCK, &usr1, NULL);
	signal(SIGUSR2, SIG_DFL);
	assert_int_equal(err.code, E_OK);
	assert_answers(c);
	client_close(c);
	close(INHERITED);
	assert_true(wait(NULL) > 0);
	clear_place(&s);
}

/* The directory is made, for this user alone; a missing program cannot be executed. */
static void cli_1_a_start_makes_its_directory(void **state)
{
	const struct client_options o = {0};
	struct client_places places = {.program = "/nowhere/agentsh-server"};
	cleanup_free char *dir = NULL, *log = NULL;
	struct client *c = NULL;
	struct err err = {0};
	struct server s;
	struct stat st;

	server_place(&s);
	set_play(&s, "ok");
	dir = mem_printf("%s/new", s.dir);
	log = mem_printf("%s/agentsh-server.log", dir);
	places.sockets[0] = s.socket;
	places.dir = dir;
	assert_int_equal(client_open_at(&o, &places, &c, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "/nowhere/agentsh-server: No such file"));
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, geteuid() == 0 ? 0755 : 0700);
	assert_int_equal(stat(log, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	unlink(log);
	rmdir(dir);
	clear_place(&s);
}

static void cli_1_a_failed_start_shows_the_log(void **state)
{
	static const struct {
		const char *play, *want;
	} rows[] = {
		{"fail", "the server did not start: playing fail\nno room (log: "},
		{"nonsense", "the server did not start: playing nonsense (log: "},
		{"cut", "the server did not start: playing cut (log: "},
		{"silent", "the server did not start: it logged nothing (log: "},
		/* The last 300 bytes. */
		{"chatty", "the server did not start:  62\nline 63\n"},
	};
	const struct client_options o = {0};
	struct client_places places = {.program = "/proc/self/exe"};
	struct server s;

	server_place(&s);
	places.sockets[0] = s.socket;
	places.dir = s.dir;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct client *c = NULL;
		struct err err = {0};

		set_play(&s, rows[i].play);
		assert_int_equal(client_open_at(&o, &places, &c, &err), -E_UNAVAILABLE);
		/* Only what this start has written. */
		err.message[strlen(rows[i].want)] = '\0';
		assert_string_equal(err.message, rows[i].want);
		assert_null(c);
	}
	clear_place(&s);
}

static void cli_1_a_server_that_goes_at_once_is_started_again(void **state)
{
	const struct client_options o = {0};
	struct client_places places = {.program = "/proc/self/exe"};
	cleanup_free char *mark = NULL;
	struct client *c = NULL;
	struct err err = {0};
	struct server s;

	server_place(&s);
	places.sockets[0] = s.socket;
	places.dir = s.dir;
	mark = mem_printf("%s/mark", s.dir);
	setenv("AGENTSH_TEST_MARK", mark, 1);
	set_play(&s, "late");
	assert_int_equal(client_open_at(&o, &places, &c, &err), 0);
	assert_int_equal(count_in_log(&s, "playing late"), 2);
	assert_answers(c);
	client_close(c);
	rmdir(mark);
	unlink(s.socket);
	/* But not for ever. */
	set_play(&s, "away");
	assert_int_equal(client_open_at(&o, &places, &c, &err), -E_UNAVAILABLE);
	assert_int_equal(count_in_log(&s, "playing away"), 3);
	clear_place(&s);
}

static void cli_1_a_large_log_is_begun_anew(void **state)
{
	const struct client_options o = {0};
	struct client_places places = {.program = "/proc/self/exe"};

	for (int over = 0; over < 2; over++) {
		struct client *c = NULL;
		struct err err = {0};
		struct server s;
		struct stat st;

		server_place(&s);
		cleanup_free char *log = mem_printf("%s/agentsh-server.log", s.dir);

		places.sockets[0] = s.socket;
		places.dir = s.dir;
		close(creat(log, 0600));
		assert_int_equal(truncate(log, 1024 * 1024 + over), 0);
		set_play(&s, "fail");
		assert_int_equal(client_open_at(&o, &places, &c, &err), -E_UNAVAILABLE);
		assert_non_null(strstr(err.message, "no room"));
		assert_int_equal(stat(log, &st), 0);
		assert_int_equal(st.st_size > 1024 * 1024, over == 0);
		clear_place(&s);
	}
}

static void no_content(struct http_request *req, void *arg)
{
	http_reply(req, 204, NULL, NULL, 0, NULL);
}

/* A socket that is missing, one without a listener, then the right one. */
static void cli_1_a_running_server_is_found(void **state)
{
	const struct client_options o = {.no_auto = true};
	struct client_places places = {.program = "/nowhere"};
	cleanup_free char *stale = NULL;
	struct client *c = NULL;
	struct err err = {0};
	struct server s;

	server_start(&s, no_content);
	stale = mem_printf("%s/stale", s.dir);
	close(server_listen(stale));
	places.dir = s.dir;
	places.sockets[0] = "/nowhere/sock";
	places.sockets[1] = stale;
	assert_int_equal(client_open_at(&o, &places, &c, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "(looked at /nowhere/sock and /tmp/"));
	assert_non_null(strstr(err.message, "--server"));
	places.sockets[0] = stale;
	places.sockets[1] = s.socket;
	err = (struct err){0};
	assert_int_equal(client_open_at(&o, &places, &c, &err), 0);
	assert_int_equal(err.code, E_OK);
	assert_answers(c);
	client_close(c);
	unlink(stale);
	server_stop(&s);
}

static void cli_1_no_auto_starts_nothing(void **state)
{
	const struct client_options may = {0}, may_not = {.no_auto = true};
	struct client_places places = {.sockets = {"/nowhere/sock"}, .program = "/proc/self/exe"};
	struct client *c = NULL;
	struct err err = {0};
	struct server s;

	server_place(&s);
	places.dir = s.dir;
	set_play(&s, "ok");
	assert_int_equal(client_open_at(&may_not, &places, &c, &err), -E_UNAVAILABLE);
	setenv("AGENTSH_NO_AUTO", "1", 1);
	assert_int_equal(client_open_at(&may, &places, &c, &err), -E_UNAVAILABLE);
	unsetenv("AGENTSH_NO_AUTO");
	/* Not even a log. */
	assert_int_equal(rmdir(s.dir), 0);
}

static void cli_1_a_named_server_is_the_only_one(void **state)
{
	struct client *c = NULL;
	struct err err = {0};
	struct server s;

	server_start(&s, no_content);
	setenv("AGENTSH_SERVER", s.socket, 1);
	assert_int_equal(client_open(&(struct client_options){0}, &c, &err), 0);
	assert_answers(c);
	client_close(c);
	c = NULL;
	/* The flag goes before the variable, and nothing is started instead. */
	assert_int_equal(client_open(&(struct client_options){.server = "/nowhere/sock"}, &c, &err),
			 -E_UNAVAILABLE);
	assert_string_equal(err.message, "no server at /nowhere/sock: No such file or directory");
	assert_int_equal(client_open(&(struct client_options){.server = "x"}, &c, &err),
			 -E_BAD_REQUEST);
	assert_null(c);
	unsetenv("AGENTSH_SERVER");
	server_stop(&s);
}

/* A normal user's own server is at XDG_RUNTIME_DIR/agentsh; needs another uid than root's. */
static void cli_1_the_users_server_is_found(void **state)
{
	struct server s;
	pid_t pid;
	int status;

	server_start(&s, no_content);
	if (chmod(s.dir, 0700) < 0 || (geteuid() == 0 && chown(s.dir, 1000, 1000) < 0))
		fail();
	pid = server_fork();
	if (pid == 0) {
		cleanup_free char *sub = mem_printf("%s/agentsh", s.dir);
		cleanup_free char *path = mem_printf("%s/agentsh.sock", sub);
		struct client *c = NULL;
		struct err err = {0};
		int r;

		if (geteuid() == 0 &&
		    (chmod(s.socket, 0666) < 0 || setresgid(1000, 1000, 1000) < 0 ||
		     setresuid(1000, 1000, 1000) < 0))
			_exit(2);
		unsetenv("AGENTSH_SERVER");
		setenv("XDG_RUNTIME_DIR", s.dir, 1);
		setenv("HOME", "/", 1);
		mkdir(sub, 0700);
		r = symlink(s.socket, path);
		r = r < 0 ? r : client_open(&(struct client_options){.no_auto = true}, &c, &err);
		unlink(path);
		rmdir(sub);
		if (r == 0 && strcmp(c->address.path, path) != 0)
			r = -1;
		client_close(c);
		_exit(r == 0 ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	server_stop(&s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_a_server_is_started_if_none_runs),
		cmocka_unit_test(cli_1_a_start_makes_its_directory),
		cmocka_unit_test(cli_1_a_failed_start_shows_the_log),
		cmocka_unit_test(cli_1_a_server_that_goes_at_once_is_started_again),
		cmocka_unit_test(cli_1_a_large_log_is_begun_anew),
		cmocka_unit_test(cli_1_a_running_server_is_found),
		cmocka_unit_test(cli_1_no_auto_starts_nothing),
		cmocka_unit_test(cli_1_a_named_server_is_the_only_one),
		cmocka_unit_test(cli_1_the_users_server_is_found),
	};

	if (argc == 4 && strcmp(argv[1], "--auto") == 0)
		return play_server(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
