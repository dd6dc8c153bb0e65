// SPDX-License-Identifier: Apache-2.0
#include "exec/testkit/exec_testkit.h"
#include "base/proc.h"
#include "bpf/exec_sessions.h"

#define KIT_UID 1000
#define KIT_LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define KIT_IS(nr, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (nr), (yes), (no))
#define KIT_ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))

struct kit kit = {.check = {.fd = {-1, -1, -1, -1, -1}},
		  .lock = PTHREAD_MUTEX_INITIALIZER,
		  .came = PTHREAD_COND_INITIALIZER};

const char *kit_path(const char *name)
{
	static char path[64][128];
	static unsigned next;
	char *p = path[next++ % 64];

	snprintf(p, sizeof(path[0]), "%s/%s", kit.dir, name);
	return p;
}

void kit_join(char *out, size_t n, const char *const *v, size_t count)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < count && len < n - 1; i++)
		len += (size_t)snprintf(out + len, n - len, "%s%s", i > 0 ? "|" : "", v[i]);
}

bool kit_ends(const char *s, const char *end)
{
	const size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* A sealed snapshot of a policy with these rules. */
static int kit_policy(const char *rules)
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
static char *kit_rules(void)
{
	return mem_printf("  - {name: no, commands: [evil, expr], decision: deny}\n"
			  "  - {name: nameless, kinds: [memfd, deleted], decision: deny}\n"
			  "  - {name: held, commands: [held], decision: approve}\n"
			  "  - {name: other, commands: [%s/other], decision: redirect, "
			  "redirect_to: %s}\n"
			  "  - {name: watched, commands: [%s/watched], decision: log}\n",
			  kit.dir, kit.target != NULL ? kit.target : "/usr/bin/true", kit.dir);
}

void kit_record(void *arg, const struct gate_case *k, const struct gate_report *rep,
		const struct event *e)
{
	const struct op *op = k->op;
	struct actor_reader *reader = actor_reader_new(kit.actors);
	const bool own = actor_reader_is_own(reader, gettid());
	struct kit_record *r;

	actor_reader_free(reader);
	pthread_mutex_lock(&kit.lock);
	if (!k->initial)
		kit.count[rep->outcome]++;
	if (kit.nrecords < KIT_RECORDS) {
		r = &kit.record[kit.nrecords++];
		*r = (struct kit_record){.flags = op->exec.flags & ~(unsigned)OP_EXEC_CUT,
					 .decision = k->verdict.decision,
					 .outcome = rep->outcome,
					 .initial = k->initial,
					 .own = own,
					 .pid = (pid_t)e->pid,
					 .ppid = (pid_t)e->exec_ppid,
					 .argc = op->exec.argc,
					 .cut = (op->exec.flags & OP_EXEC_CUT) != 0,
					 .latency_us = e->latency_us,
					 .type = (enum event_type)e->type};
		snprintf(r->verified, sizeof(r->verified), "%s",
			 e->exec_verified ? e->exec_verified : "");
		snprintf(r->loaded, sizeof(r->loaded), "%s", e->exec_loaded ? e->exec_loaded : "");
		snprintf(r->reason, sizeof(r->reason), "%s",
			 e->denied_reason ? e->denied_reason : "");
		snprintf(r->command_id, sizeof(r->command_id), "%s", k->actor.command_id);
		snprintf(r->path, sizeof(r->path), "%s", e->exec_path);
		snprintf(r->called, sizeof(r->called), "%s",
			 op->exec.called ? op->exec.called : "");
		snprintf(r->script, sizeof(r->script), "%s",
			 op->exec.script ? op->exec.script : "");
		snprintf(r->cwd, sizeof(r->cwd), "%s", e->exec_cwd ? e->exec_cwd : "");
		kit_join(r->argv, sizeof(r->argv), op->exec.argv, op->exec.argc);
		kit_join(r->chain, sizeof(r->chain), op->exec.chain, op->exec.nchain);
	}
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static void kit_note(uint64_t *what, uint64_t id)
{
	pthread_mutex_lock(&kit.lock);
	*what = id;
	pthread_cond_broadcast(&kit.came);
	pthread_mutex_unlock(&kit.lock);
}

static void kit_ask(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
		    int64_t deadline_us)
{
	if (kit.on_ask != NULL)
		kit.on_ask();
	kit_note(&kit.parked, id);
}

static void kit_cancel(void *arg, uint64_t id)
{
	kit_note(&kit.gone, id);
}

static void kit_deadline(void *arg)
{
}

void kit_open_gate(gate_sink_fn *sink, const char *rules)
{
	const struct gate_setup s = {kit_policy(rules), NULL, sink, kit_deadline, NULL};
	const struct gate_approver a = {kit_ask, kit_cancel, NULL, KIT_ANSWER_MS};

	assert_int_equal(gate_open(&s, &kit.gate, NULL), 0);
	gate_set_approver(kit.gate, &a);
	assert_int_equal(actor_table_open(&kit.actors, NULL), 0);
	close(s.policy_fd);
}

void kit_close_gate(void)
{
	gate_close(take(kit.gate));
	actor_table_close(take(kit.actors));
}

void kit_wait_u64(const uint64_t *value, uint64_t n)
{
	pthread_mutex_lock(&kit.lock);
	while (*value < n)
		pthread_cond_wait(&kit.came, &kit.lock);
	pthread_mutex_unlock(&kit.lock);
}

struct exec_initial *kit_initial(struct exec_looker *l, const char *command_id)
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

/* execve and execveat send a notification; clone3 fails as on an old kernel. */
static int kit_filter(void)
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

/* What guests print would spoil the report. */
static void kit_silence(void)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
}

int kit_status(pid_t pid)
{
	int status;

	if (pid == -1 || waitpid(pid, &status, __WALL) != pid)
		return KIT_BROKEN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int give_up_root(void)
{
	return setresuid(KIT_UID, KIT_UID, KIT_UID) < 0 ? -1 : prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* In a PID namespace of its own, where the keeper is process 1. */
static pid_t fork_keeper(void)
{
	struct err err = {0};
	pid_t pid;

	if (!kit.by_kernel)
		return fork();
	if (kit.is_user)
		assert_int_equal(seteuid(0), 0);
	if (kit.check.fd[CHECK_LINK] < 0 &&
	    (geteuid() != 0 || exec_check_load(&exec_check_image, &kit.check, &err) < 0)) {
		print_message("# skipped: %s\n",
			      err.message[0] != '\0' ? err.message : "needs root");
		kit_close_gate();
		skip();
	}
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	return pid;
}

/* The kernel checks the guest's execs from now on. */
static void register_guest(void)
{
	struct err err = {0};
	int maps[SESSION_FDS];

	if (exec_sessions_add(&kit.check, kit.keeper, false, maps, &err) < 0)
		fail_msg("%s", err.message);
	kit.wants_fd = maps[SESSION_FD_WANTS];
	kit.link_fd = fcntl(kit.check.fd[CHECK_LINK], F_DUPFD_CLOEXEC, 0);
	kit.wants = exec_wants_open(kit.wants_fd, kit.link_fd);
	if (kit.is_user) {
		assert_int_equal(seteuid(KIT_UID), 0);
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	}
}

_Noreturn void kit_be_keeper(int sock, kit_guest_fn *fn, void *arg)
{
	const pid_t pid = fork();
	int listener;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (pid != 0) {
		close(sock);
		_exit(kit_status(pid));
	}
	if ((kit.is_user && give_up_root() < 0) || (kit.enter != NULL && kit.enter() != 0))
		_exit(KIT_BROKEN);
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

static void own(void *actors)
{
	actor_table_own(actors, gettid());
}

static void disown(void *actors)
{
	actor_table_disown(actors, gettid());
}

void kit_start(kit_guest_fn *fn, void *arg)
{
	cleanup_free char *rules = kit_rules();
	struct exec_setup setup = {.helper = ""};
	struct listener_handler handler;
	cleanup_free pid_t *children = NULL;
	int sock[2], listener = -1;
	size_t nfds = 1;
	char root[32];

	kit.nrecords = 0;
	kit.parked = kit.gone = 0;
	memset(kit.count, 0, sizeof(kit.count));
	kit_open_gate(kit_record, kit.rules != NULL ? kit.rules : rules);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock), 0);
	kit.keeper = fork_keeper();
	assert_int_not_equal(kit.keeper, -1);
	if (kit.keeper == 0)
		kit_be_keeper(sock[1], fn, arg);
	close(sock[1]);
	assert_int_equal(fdio_recv(sock[0], &kit.guest, sizeof(pid_t), &listener, &nfds, NULL),
			 sizeof(pid_t));
	assert_int_equal(nfds, 1);
	if (kit.by_kernel)
		register_guest();
	/* The guest sent its id as it sees it. */
	assert_int_equal(proc_children(kit.keeper, &children), 1);
	kit.guest = children[0];
	kit.go = sock[0];
	snprintf(root, sizeof(root), "/proc/%d/root", kit.guest);
	kit.root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	setup.root = kit.root;
	setup.gate = kit.gate;
	setup.actors = kit.actors;
	setup.wants = kit.wants;
	if (kit.far)
		setup.walker = kit.walker = walker_new(own, disown, kit.actors);
	assert_int_equal(exec_control_open(&setup, &kit.control, NULL), 0);
	handler = exec_control_handler(kit.control);
	assert_int_equal(listener_start(&handler, 1, listener, &kit.listener, NULL), 0);
}

void kit_stop(void)
{
	listener_stop(take(kit.listener));
	for (enum gate_outcome o = 0; o < GATE_OUTCOMES; o++)
		kit.outcome[o] = exec_control_count(kit.control, o);
	exec_control_close(take(kit.control));
	exec_wants_close(take(kit.wants));
	assert_true(walker_free(take(kit.walker)));
	close(kit.root);
	kit_close_gate();
}

void kit_go(void)
{
	assert_int_equal(write(kit.go, "g", 1), 1);
}

int kit_wait(void)
{
	const int status = kit_status(kit.keeper);

	close(kit.go);
	return status;
}

int kit_end(void)
{
	const int status = kit_wait();

	kit_stop();
	return status;
}

int kit_run(kit_guest_fn *fn, void *arg)
{
	kit_start(fn, arg);
	kit_go();
	return kit_end();
}

void kit_copy(const char *from, const char *name, mode_t mode)
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

void kit_write(const char *name, const char *text, mode_t mode)
{
	cleanup_fd int fd = open(kit_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

int kit_prepare(void **state)
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

int kit_become_user(void)
{
	if (geteuid() != 0)
		return 0;
	/* Root can be had again, to register a guest. */
	if (setresgid(KIT_UID, KIT_UID, KIT_UID) < 0 || setresuid(KIT_UID, KIT_UID, 0) < 0)
		return -1;
	kit.is_user = true;
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

int kit_clean(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", kit.dir);

	if (kit.is_user) /* LeakSanitizer must be able to trace this process */
		give_up_root();
	return system(command);
}

/* Races of more tries than usual take longer. */
static void kit_set_alarm(void)
{
	alarm(getenv("AGENTSH_RACE_TRIES") != NULL ? 20 * KIT_TIMEOUT_S : KIT_TIMEOUT_S);
}

int kit_by_stop(void **state)
{
	kit.by_kernel = kit.far = false;
	kit_set_alarm();
	return 0;
}

int kit_by_walk(void **state)
{
	kit_by_stop(state);
	kit.far = true;
	return 0;
}

int kit_by_kernel(void **state)
{
	kit_by_stop(state);
	kit.by_kernel = true;
	return 0;
}
