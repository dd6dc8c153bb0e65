// SPDX-License-Identifier: Apache-2.0
/* exec/exec_testkit.h - a test as the warden of one guest: a forked child behind a small filter,
 * whose function makes the system calls that are looked at.
 *
 * The guest is a grandchild: the tracer of its own child would have its stops taken by waitpid in
 * another thread. The guest's exit status is the test's result of what happened inside; records are
 * copied as they come. Every function fails the running cmocka test, except in the guest, which
 * exits with 99. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "exec/exec.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KIT_TIMEOUT_S 60
#define KIT_RECORDS 64
#define KIT_BROKEN 99
#define KIT_NOT_RUN 98 /* the guest's exec came back */
#define KIT_KEY UINT64_C(0x123456789abcdef0)

struct kit_record {
	char path[256], called[256], script[256], argv[512], cwd[256], chain[512], ran[256];
	unsigned flags;
	enum decision decision;
	enum exec_outcome outcome;
	pid_t pid, ppid;
	size_t argc;
	bool cut;
	uint64_t latency_us;
};

static struct kit {
	char dir[64];
	struct exec_control *control;
	struct listener *listener;
	struct exec_control_ops ops;
	bool root_known; /* set by a test, with the root */
	int root;
	pid_t guest, keeper;  /* keeper: the guest's parent, ends as it does */
	int go;		      /* the guest starts when this is written */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t came;
	struct kit_record record[KIT_RECORDS];
	size_t nrecords;
	uint64_t parked, gone; /* the last id of each */
	pid_t first;	       /* is_first_exec says yes for it and KIT_KEY */
	const char *target;    /* of redirects */
	/* in the place of kit_decide, if a test sets it */
	uint64_t (*decide)(void *arg, const struct exec_attempt *req, struct verdict *out);
	int decided;
	uint64_t count[EXEC_OUTCOMES]; /* of records */
} kit = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

static inline const char *kit_path(const char *name)
{
	static char path[64][128];
	static unsigned next;
	char *p = path[next++ % 64];

	snprintf(p, sizeof(path[0]), "%s/%s", kit.dir, name);
	return p;
}

/* ---- the warden's side ---- */

static inline void kit_join(char *out, size_t n, const char *const *v, size_t count)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && len < n - 1; i++)
		len += (size_t)snprintf(out + len, n - len, "%s%s", i > 0 ? "|" : "", v[i]);
}

static inline bool kit_ends(const char *s, const char *end)
{
	const size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* evil and expr are denied, held waits, other is redirected, watched is logged, memory and deleted
 * files are denied. */
static inline uint64_t kit_decide(void *arg, const struct exec_attempt *req, struct verdict *out)
{
	static uint64_t last;
	const char *path = req->op.exec.script != NULL ? req->op.exec.script : req->op.exec.path;

	*out = (struct verdict){DECISION_allow, DECISION_allow, .rule = "test"};
	pthread_mutex_lock(&kit.lock);
	kit.decided++;
	if (kit_ends(path, "/held"))
		kit.parked = ++last;
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
	if (kit_ends(path, "/held"))
		return last;
	if (kit_ends(path, "/evil") || kit_ends(path, "/expr") ||
	    kit_ends(req->op.exec.path, "/evil") ||
	    (req->op.exec.flags & (OP_EXEC_MEMFD | OP_EXEC_DELETED)) != 0)
		out->decision = out->effective = DECISION_deny;
	else if (kit_ends(path, "/other"))
		out->decision = DECISION_redirect, out->target = kit.target;
	else if (kit_ends(path, "/watched"))
		out->decision = DECISION_log;
	return 0;
}

static inline void kit_record(void *arg, const struct exec_record *rec)
{
	const struct op *op = &rec->req->op;
	struct kit_record *r;

	pthread_mutex_lock(&kit.lock);
	kit.count[rec->outcome]++;
	if (kit.nrecords < KIT_RECORDS) {
		r = &kit.record[kit.nrecords++];
		*r = (struct kit_record){.flags = op->exec.flags,
					 .decision = rec->verdict->decision,
					 .outcome = rec->outcome,
					 .pid = rec->req->pid,
					 .ppid = rec->req->ppid,
					 .argc = op->exec.argc,
					 .cut = rec->req->argv_cut,
					 .latency_us = rec->latency_us};
		snprintf(r->path, sizeof(r->path), "%s", op->exec.path);
		snprintf(r->called, sizeof(r->called), "%s",
			 op->exec.called ? op->exec.called : "");
		snprintf(r->script, sizeof(r->script), "%s",
			 op->exec.script ? op->exec.script : "");
		snprintf(r->cwd, sizeof(r->cwd), "%s", rec->req->cwd ? rec->req->cwd : "");
		snprintf(r->ran, sizeof(r->ran), "%s", rec->ran ? rec->ran : "");
		kit_join(r->argv, sizeof(r->argv), op->exec.argv, op->exec.argc);
		kit_join(r->chain, sizeof(r->chain), rec->req->chain, rec->req->nchain);
	}
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static inline void kit_gone(void *arg, uint64_t pending)
{
	pthread_mutex_lock(&kit.lock);
	kit.gone = pending;
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static inline bool kit_first(void *arg, pid_t pid, uint64_t key)
{
	return pid == kit.first && key == KIT_KEY;
}

/* Waits until *value is at least n; the program's alarm is the limit. */
static inline void kit_wait_u64(const uint64_t *value, uint64_t n)
{
	pthread_mutex_lock(&kit.lock);
	while (*value < n)
		pthread_cond_wait(&kit.came, &kit.lock);
	pthread_mutex_unlock(&kit.lock);
}

static inline void kit_resume(uint64_t pending, enum decision d)
{
	exec_control_resume(kit.control, pending, &(struct verdict){d, d, .rule = "person"});
}

/* ---- the guest ---- */

#define KIT_LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define KIT_IS(nr, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), (no))
#define KIT_ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))

/* execve and execveat are told; clone3 does not exist. */
static inline int kit_filter(void)
{
	static const struct sock_filter code[] = {
		KIT_LOAD(offsetof(struct seccomp_data, nr)),
		KIT_IS(SYS_execve, 3, 0),
		KIT_IS(SYS_execveat, 2, 0),
		KIT_IS(SYS_clone3, 2, 0),
		KIT_ANSWER(SECCOMP_RET_ALLOW),
		KIT_ANSWER(SECCOMP_RET_USER_NOTIF),
		KIT_ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
	};
	const struct sock_fprog prog = {ARRAY_LEN(code), (struct sock_filter *)(uintptr_t)code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(
		SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
}

typedef int kit_guest_fn(void *arg); /* runs in the guest; its result is the exit status */

/* What guests print would spoil the report. */
static inline void kit_silence(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
}

/* In the guest: waits for a child; its exit status, or 128 + its signal. */
static inline int kit_status(pid_t pid)
{
	int status;

	if (pid == -1 || waitpid(pid, &status, __WALL) != pid)
		return KIT_BROKEN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline _Noreturn void kit_be_keeper(int sock, kit_guest_fn *fn, void *arg)
{
	const pid_t pid = fork();
	int listener;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (pid != 0) {
		close(sock);
		_exit(kit_status(pid));
	}
	listener = kit_filter();
	kit.guest = getpid();
	kit_silence();
	if (listener < 0 || fdio_send(sock, &kit.guest, sizeof(pid), &listener, 1) < 0)
		_exit(KIT_BROKEN);
	close(listener);
	if (read(sock, &c, 1) != 1)
		_exit(KIT_BROKEN);
	_exit(fn(arg));
}

/* Starts the guest and the exec thread; the guest waits for kit_go. */
static inline void kit_start(kit_guest_fn *fn, void *arg)
{
	struct listener_handler handler;
	int sock[2], listener = -1;
	size_t nfds = 1;

	kit.ops = (struct exec_control_ops){.decide = kit.decide != NULL ? kit.decide : kit_decide,
					    .record = kit_record,
					    .gone = kit_gone,
					    .is_first_exec = kit_first,
					    .root = kit.root_known ? kit.root : -1};
	kit.nrecords = 0;
	kit.parked = kit.gone = 0;
	kit.decided = 0;
	memset(kit.count, 0, sizeof(kit.count));
	kit.first = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	kit.keeper = fork();
	assert_int_not_equal(kit.keeper, -1);
	if (kit.keeper == 0)
		kit_be_keeper(sock[1], fn, arg);
	close(sock[1]);
	assert_int_equal(fdio_recv(sock[0], &kit.guest, sizeof(pid_t), &listener, &nfds, NULL),
			 sizeof(pid_t));
	assert_int_equal(nfds, 1);
	kit.go = sock[0];
	assert_int_equal(exec_control_open(&kit.ops, &kit.control, NULL), 0);
	handler = exec_control_handler(kit.control);
	assert_int_equal(listener_start(&handler, 1, listener, &kit.listener, NULL), 0);
}

static inline void kit_stop(void)
{
	listener_stop(take(kit.listener));
	exec_control_close(take(kit.control));
}

static inline void kit_go(void)
{
	assert_int_equal(write(kit.go, "g", 1), 1);
}

/* Waits for the guest; its exit status or 128 + its signal. */
static inline int kit_wait(void)
{
	const int status = kit_status(kit.keeper);

	close(kit.go);
	return status;
}

static inline int kit_end(void)
{
	const int status = kit_wait();

	kit_stop();
	return status;
}

/* From start to end; the thread is stopped, all records have come. */
static inline int kit_run(kit_guest_fn *fn, void *arg)
{
	kit_start(fn, arg);
	kit_go();
	return kit_end();
}

/* ---- files ---- */

static inline void kit_copy(const char *from, const char *name, mode_t mode)
{
	cleanup_buf struct buf b = {0};
	cleanup_fd int fd = -1;

	assert_int_equal(fdio_load_path(from, 16 << 20, &b, NULL), 0);
	unlink(kit_path(name));
	fd = open(kit_path(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, b.data, b.len), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static inline void kit_write(const char *name, const char *text, mode_t mode)
{
	cleanup_fd int fd = open(kit_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

/* good, held, other and watched end with 0; evil with 1. */
static inline int kit_prepare(void **state)
{
	alarm(KIT_TIMEOUT_S);
	snprintf(kit.dir, sizeof(kit.dir), "/tmp/agentsh-exec-XXXXXX");
	if (mkdtemp(kit.dir) == NULL)
		return -1;
	kit_copy("/usr/bin/true", "good", 0755);
	kit_copy("/usr/bin/true", "held", 0755);
	kit_copy("/usr/bin/false", "other", 0755);
	kit_copy("/usr/bin/true", "watched", 0755);
	kit_copy("/usr/bin/false", "evil", 0755);
	return 0;
}

/* As another user whom nothing of the system belongs to; the tests run on as it. For main(). */
#define KIT_UID 1000
static inline int kit_become_user(void)
{
	if (geteuid() != 0)
		return 0;
	if (setresgid(KIT_UID, KIT_UID, KIT_UID) < 0 || setresuid(KIT_UID, KIT_UID, KIT_UID) < 0)
		return -1;
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static inline int kit_clean(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", kit.dir);

	return system(command);
}
