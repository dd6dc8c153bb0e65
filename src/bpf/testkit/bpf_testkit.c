// SPDX-License-Identifier: Apache-2.0
#include "bpf/testkit/bpf_testkit.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "bpf/exec_sessions.h"
#include "bpf/siphash.h"
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 16

void bpf_kit_load(struct exec_check *check)
{
	struct err err = {0};

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	if (exec_check_load(&exec_check_image, check, &err) < 0) {
		print_message("# skipped: %s\n", err.message);
		skip();
	}
}

/* fork, with the child in new namespaces. */
static pid_t fork_into(int namespaces)
{
	return (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
}

/* A process of the session: says who it is, receives "PATH\0ARG\0…", executes. */
static _Noreturn void execute(int sock)
{
	static char text[1 << 20];
	char *argv[ARGS_MAX] = {0};
	ssize_t n = send(sock, "", 1, 0) == 1 ? recv(sock, text, sizeof(text), 0) : -1;
	char *at = text;

	for (size_t i = 0; at < text + n && i < ARGS_MAX; i++, at += strlen(at) + 1)
		argv[i] = at;
	if (n > 0)
		execv(argv[0], argv + 1);
	_exit(125);
}

static _Noreturn void init_main(int sock)
{
	bool nested;

	while (recv(sock, &nested, sizeof(nested), 0) == sizeof(nested)) {
		pid_t pid = fork_into(nested ? CLONE_NEWPID : 0);
		int status = -1;

		if (pid == 0)
			execute(sock);
		waitpid(pid, &status, 0);
		send(sock, &status, sizeof(status), 0);
	}
	_exit(0);
}

void bpf_kit_start(struct bpf_kit_session *s)
{
	const int on = 1, size = 2 << 20;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)), 0);
	*s = (struct bpf_kit_session){
		.init = fork_into(CLONE_NEWPID), .sock = pair[0], .wants = -1};
	if (s->init == 0) {
		/* holds nothing of the check */
		fdio_close_except(&pair[1], 1);
		init_main(pair[1]);
	}
	assert_true(s->init > 0);
	close(pair[1]);
}

void bpf_kit_add(struct bpf_kit_session *s, const struct exec_check *check)
{
	struct err err = {0};

	int maps[SESSION_FDS];

	if (exec_sessions_add(check, s->init, false, maps, &err) < 0)
		fail_msg("%s", err.message);
	s->wants = maps[SESSION_FD_WANTS];
}

pid_t bpf_kit_fork(struct bpf_kit_session *s, bool nested)
{
	char byte, control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct ucred who;

	assert_int_equal(send(s->sock, &nested, sizeof(nested), 0), sizeof(nested));
	assert_int_equal(recvmsg(s->sock, &m, 0), 1);
	assert_non_null(CMSG_FIRSTHDR(&m));
	memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(who));
	return who.pid;
}

static void join(struct buf *out, const char *const argv[])
{
	for (size_t i = 0; argv[i] != NULL; i++)
		buf_add(out, argv[i], strlen(argv[i]) + 1);
}

int bpf_kit_exec(struct bpf_kit_session *s, const char *path, const char *const argv[])
{
	cleanup_buf struct buf text = {0};
	int status;

	buf_add(&text, path, strlen(path) + 1);
	join(&text, argv);
	assert_int_equal(send(s->sock, text.data, text.len, 0), text.len);
	assert_int_equal(recv(s->sock, &status, sizeof(status), 0), sizeof(status));
	return status;
}

void bpf_kit_end(struct bpf_kit_session *s)
{
	mem_cleanup_fd(&s->sock);
	mem_cleanup_fd(&s->wants);
	kill(s->init, SIGKILL);
	assert_int_equal(waitpid(s->init, NULL, 0), s->init);
}

void bpf_kit_want(struct exec_want *want, const char *path, const char *const argv[])
{
	cleanup_buf struct buf text = {0};
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	join(&text, argv);
	*want = (struct exec_want){
		.state = EXEC_COMPARE,
		.decided = {.ino = st.st_ino,
			    .dev = EXEC_DEV(major(st.st_dev), minor(st.st_dev)),
			    .argv_len = text.len},
	};
	assert_int_equal(getrandom(want->hash_key, sizeof(want->hash_key), 0),
			 sizeof(want->hash_key));
	want->argv_hash = siphash(want->hash_key, text.data, text.len);
	memccpy(want->decided_path, path, '\0', sizeof(want->decided_path) - 1);
}
