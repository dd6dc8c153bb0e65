// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOG_MAX (1024 * 1024) /* a larger log is emptied */
#define READY_MAX 4096
#define READY_TIMEOUT_MS 30000
#define TAIL_MAX 300

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

int client_start(const char *program, const char *dir, char **socket, struct err *err)
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
