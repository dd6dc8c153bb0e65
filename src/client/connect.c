// SPDX-License-Identifier: Apache-2.0
/* Finds a server, or starts one. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "client/client_internal.h"
#include "config/config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define START_TRIES 3
#define LOG_MAX (1024 * 1024) /* a larger log is emptied */
#define READY_MAX 4096
#define READY_TIMEOUT_MS 30000
#define TAIL_MAX 300
static const char system_socket[] = "/run/agentsh/agentsh.sock";

static int open_named(const struct client_options *o, const char *name, struct client **out,
		      struct err *err)
{
	struct client *c = mem_new(struct client);
	int r = address_parse(name, &c->address, err);

	c->name = mem_strdup(name);
	c->api_key = mem_strdup(o->api_key);
	c->fd = -1;
	buf_reserve(&c->in, 0);
	if (r == 0)
		r = client_connect(c, err);
	if (r == 0)
		*out = c;
	else
		client_close(c);
	return r;
}

_Noreturn static void become_server(const char *program, int log, int ready)
{
	const int null = client_above_stdio(open("/dev/null", O_RDWR | O_CLOEXEC));
	struct sigaction fallback = {.sa_handler = SIG_DFL};
	sigset_t none;
	char number[16];

	log = client_above_stdio(log);
	ready = client_above_stdio(ready);
	setsid();
	if (dup2(null, 0) == -1 || dup2(null, 1) == -1 || dup2(log, 2) == -1 ||
	    fcntl(ready, F_SETFD, 0) == -1 || chdir("/") == -1)
		_exit(125);
	/* A reader of the caller's pipes must not wait for the server to end. */
	fdio_close_except(&ready, 1);
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &fallback, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	snprintf(number, sizeof(number), "%d", ready);
	execl(program, "agentsh-server", "--auto", "--ready-fd", number, NULL);
	dprintf(2, "%s: %s\n", program, strerror(errno));
	_exit(125);
}

/* Fails with the last lines that the log got since `from`. */
static int failed(const char *path, off_t from, const char *what, struct err *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[TAIL_MAX + 1] = "";
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		if (st.st_size - from > TAIL_MAX)
			from = st.st_size - TAIL_MAX;
		fdio_pread_full(fd, text, TAIL_MAX, (uint64_t)from);
	}
	for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
		text[n - 1] = '\0';
	return err_set(err, E_UNAVAILABLE, path, "%s: %s (log: %s)", what,
		       *text != '\0' ? text : "it logged nothing", path);
}

/* Reads until the end of the line or of the pipe; false if nothing comes in time. */
static bool read_ready(int fd, char *line, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0;
	ssize_t n = 1;

	line[0] = '\0';
	while (n > 0 && strchr(line, '\n') == NULL) {
		if (TEMP_FAILURE_RETRY(poll(&p, 1, READY_TIMEOUT_MS)) == 0)
			return false;
		n = TEMP_FAILURE_RETRY(read(fd, line + len, size - 1 - len));
		len += n > 0 ? (size_t)n : 0;
		line[len] = '\0';
	}
	return true;
}

/* Starts `program --auto --ready-fd N` in a session of its own, with its log in dir, and waits
 * until it is ready. *socket is where this server, or one that was faster, listens (the caller
 * frees it). Fails with E_UNAVAILABLE and the end of the log. */
static int start_server(const char *program, const char *dir, char **socket, struct err *err)
{
	cleanup_free char *path = mem_printf("%s/agentsh-server.log", dir);
	cleanup_fd int log = -1, in = -1, out = -1;
	char line[READY_MAX], *end;
	struct stat st;
	off_t from;
	int fds[2], r;
	pid_t pid;

	/* every user may reach the system's socket; only its owner may reach a user's */
	r = fdio_mkdirs(dir, geteuid() == 0 ? 0755 : 0700, err);
	if (r != 0)
		return r;
	log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (log == -1 || fstat(log, &st) == -1 || (st.st_size > LOG_MAX && ftruncate(log, 0) == -1))
		return err_errno(err, E_UNAVAILABLE, path, "cannot write %s", path);
	from = lseek(log, 0, SEEK_END);

	if (pipe2(fds, O_CLOEXEC) == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot make a pipe");
	in = fds[0];
	out = fds[1];
	pid = fork();
	if (pid == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot start %s", program);
	if (pid == 0)
		become_server(program, log, out);
	close(take_fd(out));
	if (!read_ready(in, line, sizeof(line)))
		return failed(path, from, "the server did not become ready in time", err);
	end = strchr(line, '\n');
	if (end != NULL && strncmp(line, "ready /", 7) == 0) {
		*end = '\0';
		*socket = mem_strdup(line + 6);
		return 0;
	}
	/* The server has usually ended now. This process does not wait for one that lives on. */
	waitpid(pid, NULL, WNOHANG);
	return failed(path, from, "the server did not start", err);
}

/* If two servers start at once, one gets the lock, and the other names the socket of the first. A
 * server that was idle may end before it gets the call; it releases the lock, so that the next try
 * starts another one. */
static int start_one(const struct client_options *o, const struct client_places *places,
		     struct client **out, struct err *err)
{
	cleanup_free char *program = mem_strdup(places->program);
	int r = program != NULL ? 0 : proc_sibling("agentsh-server", &program, err);

	for (int i = 0; i < START_TRIES; i++) {
		cleanup_free char *socket = NULL;

		if (r == 0)
			r = start_server(program, places->dir, &socket, err);
		if (r != 0)
			return r;
		if (places->only && strcmp(socket, places->sockets[0]) != 0)
			return err_set(err, E_CONFLICT, socket,
				       "the server at %s already uses the data directory of "
				       "AGENTSH_CONFIG: use that server (AGENTSH_SERVER=%s), or "
				       "set another sessions.base_dir",
				       socket, socket);
		if (open_named(o, socket, out, NULL) == 0)
			return 0;
	}
	return err_set(err, E_UNAVAILABLE, NULL,
		       "servers were started, but none answers: see %s/agentsh-server.log",
		       places->dir);
}

int client_open_at(const struct client_options *o, const struct client_places *places,
		   struct client **out, struct err *err)
{
	cleanup_buf struct buf looked = {0};

	for (const char *const *s = places->sockets; *s != NULL; s++) {
		/* A missing socket, or one without a listener: the server does not run. */
		if (open_named(o, *s, out, NULL) == 0)
			return 0;
		buf_addf(&looked, "%s%s", looked.len != 0 ? " and " : "", *s);
	}
	if (o->no_auto || getenv("AGENTSH_NO_AUTO") != NULL)
		return err_set(
			err, E_UNAVAILABLE, NULL,
			"no server is running (looked at %s): start one with 'agentsh server', "
			"or name one with --server or AGENTSH_SERVER",
			looked.data);
	return start_one(o, places, out, err);
}

int client_open(const struct client_options *o, struct client **out, struct err *err)
{
	const bool root = geteuid() == 0;
	const char *name = o->server != NULL ? o->server : getenv("AGENTSH_SERVER");
	const char *file = getenv("AGENTSH_CONFIG");
	struct client_places places = {.sockets = {system_socket}};
	cleanup_free char *dir = NULL, *path = NULL;
	cleanup_config struct config config = {0};
	struct err problem = {0};
	int r;

	if (name != NULL && *name != '\0')
		return open_named(o, name, out, err);
	places.only = file != NULL && *file != '\0';
	if (config_defaults(root ? CONFIG_SYSTEM : CONFIG_USER, &config, &problem) != 0) {
		/* Without an own runtime directory only the system's server is left. */
		if (!places.only && open_named(o, system_socket, out, NULL) == 0)
			return 0;
		return err_set(err, problem.code, problem.subject, "%s", problem.message);
	}
	if (places.only) {
		/* a server that is started has another working directory */
		path = realpath(file, NULL);
		if (path == NULL)
			return err_errno(err, E_BAD_REQUEST, file, "AGENTSH_CONFIG: cannot open %s",
					 file);
		setenv("AGENTSH_CONFIG", path, 1);
		r = config_load(path, &config, NULL, err);
		if (r < 0)
			return r;
	}

	places.sockets[0] = config.unix_socket;
	places.sockets[1] = root || places.only ? NULL : system_socket;
	places.dir = dir = config_runtime_dir(&config);
	return client_open_at(o, &places, out, err);
}
