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
#define KIT_NOT_RUN 98	      /* the guest's exec came back */
#define KIT_ANSWER_MS 3600000 /* the approver's time: no test waits for its end */

struct kit_record {
	char path[256], called[256], script[256], argv[512], cwd[256], chain[512], ran[256];
	unsigned flags;
	enum decision decision;
	enum gate_outcome outcome;
	bool initial;
	char command_id[ID_MAX + 1];
	pid_t pid, ppid;
	size_t argc;
	bool cut;
	uint64_t latency_us;
};

static struct kit {
	char dir[64];
	struct exec_control *control;
	struct listener *listener;
	struct gate *gate;
	struct actor_table *actors;
	bool root_known; /* set by a test, with the root */
	int root;
	pid_t guest, keeper;  /* keeper: the guest's parent, ends as it does */
	int go;		      /* the guest starts when this is written */
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t came;
	struct kit_record record[KIT_RECORDS];
	size_t nrecords;
	uint64_t parked, gone; /* the last id that the approver was asked, and lost */
	const char *target;    /* of redirects */
	const char *rules;     /* in the place of those of the kit, if a test sets it */
	void (*on_ask)(void);  /* on the listener's thread, while an exec is being decided */
	uint64_t count[GATE_OUTCOMES]; /* of records */
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

/* A sealed snapshot of a policy with these rules. */
static inline int kit_policy(const char *rules)
{
	cleanup_free char *text = mem_printf("version: 1\nname: test\ndefault: {files: allow, "
					     "network: allow, commands: allow}\ncommand_rules:\n%s",
					     rules);
	const struct policy_options o = {0};
	cleanup_buf struct buf bytes = {0}, report = {0};
	struct err err = {0};

	if (policy_compile("test.yaml", text, strlen(text), &o, &report, &bytes, &err) < 0)
		fail_msg("%s", report.data);
	return fdio_sealed("policy", bytes.data, bytes.len);
}

/* evil and expr are denied, held waits, other is redirected, watched is logged, memory and deleted
 * files are denied. */
static inline char *kit_rules(void)
{
	return mem_printf("  - {name: no, commands: [evil, expr], decision: deny}\n"
			  "  - {name: nameless, kinds: [memfd, deleted], decision: deny}\n"
			  "  - {name: held, commands: [held], decision: approve}\n"
			  "  - {name: other, commands: [%s/other], decision: redirect, "
			  "redirect_to: %s}\n"
			  "  - {name: watched, commands: [%s/watched], decision: log}\n",
			  kit.dir, kit.target != NULL ? kit.target : "/usr/bin/true", kit.dir);
}

static inline void kit_record(void *arg, const struct gate_case *k, const struct gate_report *rep,
			      const struct event *e)
{
	const struct op *op = k->op;
	struct kit_record *r;

	pthread_mutex_lock(&kit.lock);
	if (!k->initial)
		kit.count[rep->outcome]++;
	if (kit.nrecords < KIT_RECORDS) {
		r = &kit.record[kit.nrecords++];
		*r = (struct kit_record){.flags = op->exec.flags & ~(unsigned)OP_EXEC_CUT,
					 .decision = k->verdict.decision,
					 .outcome = rep->outcome,
					 .initial = k->initial,
					 .pid = (pid_t)e->pid,
					 .ppid = (pid_t)e->exec_ppid,
					 .argc = op->exec.argc,
					 .cut = (op->exec.flags & OP_EXEC_CUT) != 0,
					 .latency_us = e->latency_us};
		snprintf(r->command_id, sizeof(r->command_id), "%s", k->actor.command_id);
		snprintf(r->path, sizeof(r->path), "%s", e->exec_path);
		snprintf(r->called, sizeof(r->called), "%s",
			 op->exec.called ? op->exec.called : "");
		snprintf(r->script, sizeof(r->script), "%s",
			 op->exec.script ? op->exec.script : "");
		snprintf(r->cwd, sizeof(r->cwd), "%s", e->exec_cwd ? e->exec_cwd : "");
		snprintf(r->ran, sizeof(r->ran), "%s", rep->ran ? rep->ran : "");
		kit_join(r->argv, sizeof(r->argv), op->exec.argv, op->exec.argc);
		kit_join(r->chain, sizeof(r->chain), op->exec.chain, op->exec.nchain);
	}
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static inline void kit_note(uint64_t *what, uint64_t id)
{
	pthread_mutex_lock(&kit.lock);
	*what = id;
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static inline void kit_ask(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
			   int64_t deadline_us)
{
	if (kit.on_ask != NULL)
		kit.on_ask();
	kit_note(&kit.parked, id);
}

static inline void kit_cancel(void *arg, uint64_t id)
{
	kit_note(&kit.gone, id);
}

static inline void kit_deadline(void *arg)
{
}

static inline void kit_open_gate(gate_sink_fn *sink, const char *rules)
{
	const struct gate_setup s = {kit_policy(rules), NULL, sink, kit_deadline, NULL};
	const struct gate_approver a = {kit_ask, kit_cancel, NULL, KIT_ANSWER_MS};

	assert_int_equal(gate_open(&s, &kit.gate, NULL), 0);
	gate_set_approver(kit.gate, &a);
	assert_int_equal(actor_table_open(&kit.actors, NULL), 0);
	close(s.policy_fd);
}

static inline void kit_close_gate(void)
{
	gate_close(take(kit.gate));
	actor_table_close(take(kit.actors));
}

/* Waits until *value is at least n; the program's alarm is the limit. */
static inline void kit_wait_u64(const uint64_t *value, uint64_t n)
{
	pthread_mutex_lock(&kit.lock);
	while (*value < n)
		pthread_cond_wait(&kit.came, &kit.lock);
	pthread_mutex_unlock(&kit.lock);
}

/* An initial exec that the policy has let go, to be expected. */
static inline struct exec_initial *kit_initial(struct exec_looker *l, const char *command_id)
{
	char *argv[] = {(char[]){"true"}};
	const struct strv v = {argv, 1};
	const struct exec_initial_ask ask = {
		.path = "/usr/bin/true", .cwd = "/", .argv = &v, .command_id = command_id};
	struct exec_initial *i = NULL;

	assert_int_equal(exec_initial_find(l, &ask, &i), 0);
	assert_int_equal(exec_initial_decide(i, kit.gate, NULL), GATE_ALLOW);
	return i;
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

/* Starts the guest and the listener thread; the guest waits for kit_go. */
static inline void kit_start(kit_guest_fn *fn, void *arg)
{
	cleanup_free char *rules = kit_rules();
	struct exec_setup setup = {.root = kit.root_known ? kit.root : -1, .helper = ""};
	struct listener_handler handler;
	int sock[2], listener = -1;
	size_t nfds = 1;

	kit.nrecords = 0;
	kit.parked = kit.gone = 0;
	memset(kit.count, 0, sizeof(kit.count));
	kit_open_gate(kit_record, kit.rules != NULL ? kit.rules : rules);
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
	setup.gate = kit.gate;
	setup.actors = kit.actors;
	assert_int_equal(exec_control_open(&setup, &kit.control, NULL), 0);
	handler = exec_control_handler(kit.control);
	assert_int_equal(listener_start(&handler, 1, listener, &kit.listener, NULL), 0);
}

static inline void kit_stop(void)
{
	listener_stop(take(kit.listener));
	exec_control_close(take(kit.control));
	kit_close_gate();
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
