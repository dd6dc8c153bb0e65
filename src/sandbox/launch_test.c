// SPDX-License-Identifier: Apache-2.0
/* What the exec listener hears of our own leader, and what a command can learn of our secrets. The
 * test is the warden, and as root reads what nobody inside may. */
#include "sandbox/seccomp.h"
#include "sandbox/start_testkit.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#define UID 64999
#define KEY UINT64_C(0x1122334455667788)
#define HEARD 64
#define REGIONS_MAX (8 << 20)

static bool ready;
static struct kit_session session;
static uint64_t secret; /* the session's, out of its filter */

/* ---- the listener ---- */

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	int fd;
	struct seccomp_data data[HEARD];
	char registers[HEARD][256]; /* of the caller, by /proc/PID/syscall */
	size_t n;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void read_registers(pid_t pid, char out[256])
{
	cleanup_free char *path = mem_printf("/proc/%d/syscall", (int)pid);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, out, 255);

	out[n > 0 ? n : 0] = '\0';
}

static void *listen_on(void *arg)
{
	struct seccomp_notif n = {0};

	while (ioctl(heard.fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0) {
		struct seccomp_notif_resp go = {.id = n.id,
						.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};

		pthread_mutex_lock(&heard.lock);
		if (heard.n < HEARD) {
			read_registers((pid_t)n.pid, heard.registers[heard.n]);
			heard.data[heard.n++] = n.data;
		}
		pthread_mutex_unlock(&heard.lock);
		ioctl(heard.fd, SECCOMP_IOCTL_NOTIF_SEND, &go);
		n = (struct seccomp_notif){0};
	}
	return NULL;
}

static size_t count_heard(int number)
{
	size_t n = 0;

	pthread_mutex_lock(&heard.lock);
	for (size_t i = 0; i < heard.n; i++)
		n += heard.data[i].nr == number;
	pthread_mutex_unlock(&heard.lock);
	return n;
}

/* ---- the secret ---- */

/* The two constants that the sixth argument is compared with. */
static uint64_t secret_in(const struct sock_filter *code, long n)
{
	const uint32_t at = offsetof(struct seccomp_data, args[5]);
	uint64_t found = 0;

	for (long i = 0; i + 1 < n; i++) {
		if (code[i].code != (BPF_LD | BPF_W | BPF_ABS))
			continue;
		if (code[i].k == at)
			found |= code[i + 1].k;
		else if (code[i].k == at + 4)
			found |= (uint64_t)code[i + 1].k << 32;
	}
	return found;
}

static uint64_t read_secret(pid_t pid)
{
	struct sock_filter code[SECCOMP_PROGRAM_MAX];
	long n;

	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
	n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, NULL, code);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	assert_in_range(n, 1, SECCOMP_PROGRAM_MAX);
	return secret_in(code, n);
}

/* Whether a value lies anywhere in a process's memory. */
static bool is_in_memory(pid_t pid, uint64_t value)
{
	cleanup_free char *maps = mem_printf("/proc/%d/maps", (int)pid);
	cleanup_free char *mem = mem_printf("/proc/%d/mem", (int)pid);
	cleanup_fd int fd = open(mem, O_RDONLY | O_CLOEXEC);
	FILE *f = fopen(maps, "re");
	char line[512];
	bool found = false;

	assert_true(fd >= 0 && f != NULL);
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		uint64_t from, to;

		if (sscanf(line, "%lx-%lx", &from, &to) != 2 || to - from > REGIONS_MAX)
			continue;
		cleanup_free char *bytes = mem_resize(NULL, to - from, 1);
		const ssize_t n = pread(fd, bytes, to - from, (off_t)from);

		found = n > 0 && memmem(bytes, (size_t)n, &value, sizeof(value)) != NULL;
	}
	fclose(f);
	return found;
}

/* ---- the session ---- */

static int open_session(void **state)
{
	struct link_msg m;

	if (!ready)
		return 0;
	kit_plan(&session.plan, UID, true);
	session.plan.idmap = 1;
	session.plan.exec_control = 1;
	kit_start(&session, 0, &m);
	assert_int_equal(m.type, MSG_init_ready);
	assert_int_equal(m.nfds, 3);
	session.root_fd = take_fd(m.fd[0]);
	session.state_fd = take_fd(m.fd[1]);
	heard.fd = take_fd(m.fd[2]);
	secret = read_secret(session.pid);
	assert_int_equal(pthread_create(&heard.thread, NULL, listen_on, NULL), 0);
	return 0;
}

static int close_session(void **state)
{
	if (!ready)
		return 0;
	kit_close(&session);
	pthread_join(heard.thread, NULL);
	close(heard.fd);
	return 0;
}

static void begin(void)
{
	if (!ready)
		skip();
	heard.n = 0;
}

static void ask_for(struct init_spawn *ask, const char *script)
{
	kit_ask(ask, script);
	ask->key = KEY;
}

/* ---- tests ---- */

static void expect_only_exec(struct kit_run *run, int number)
{
	cleanup_free char *key = mem_printf("0x%lx", KEY);
	cleanup_free char *hidden = mem_printf("0x%lx", secret);

	kit_read_all(run);
	kit_recv_exit(run, MSG_leader_exit);
	assert_int_equal(run->exit.status, 0);
	assert_int_equal(heard.n, 1);
	assert_int_equal(heard.data[0].nr, number);
	assert_int_equal(heard.data[0].args[5], KEY);
	assert_non_null(strstr(heard.registers[0], key));
	assert_null(strstr(heard.registers[0], hidden));
	heard.n = 0;
}

/* EXE-2: of a command's start the listener hears its exec alone, with the key it was given. */
static void exe_2_only_the_exec_of_a_leader_is_told(void **state)
{
	struct init_spawn ask;
	struct kit_run run;

	begin();
	ask_for(&ask, ":");
	assert_int_equal(kit_spawn(&session, &ask, &run), MSG_leader_started);
	expect_only_exec(&run, SYS_execve);
	kit_program = openat(session.root_fd, "usr/bin/dash", O_RDONLY | O_CLOEXEC);
	assert_true(kit_program >= 0);
	assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_started);
	expect_only_exec(&run, SYS_execveat);
	close(kit_program);
	kit_program = -1;
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

/* EXE-2: the secret is in our leader and nowhere in its command. */
static void exe_2_a_command_does_not_have_the_secret(void **state)
{
	struct init_spawn ask;
	struct kit_run run;
	pid_t pid;

	begin();
	assert_int_not_equal(secret, 0);
	assert_true(secret > UINT32_MAX);
	ask_for(&ask, "echo here; read x");
	assert_int_equal(kit_spawn(&session, &ask, &run), MSG_leader_started);
	assert_int_equal(read(run.out, (char[8]){0}, 5), 5);
	pid = proc_pidfd_pid(run.pidfd);
	assert_true(is_in_memory(run.leader_pid, secret));
	assert_false(is_in_memory(pid, secret));
	assert_false(is_in_memory(pid, KEY));
	close(take_fd(run.in));
	kit_recv_exit(&run, MSG_leader_exit);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

#if defined(__x86_64__)
/* Our own clone, as a command would try it: the child ends at once. */
static int try_clone(uint64_t last)
{
	static char stack[4096] __attribute__((aligned(16)));
	register long none __asm__("r10") = 0;
	register long none2 __asm__("r8") = 0;
	register uint64_t sixth __asm__("r9") = last;
	long r = SYS_clone;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%edi, %%edi\n\t"
			 "mov %[leave], %%eax\n\t"
			 "syscall\n"
			 "1:"
			 : "+a"(r)
			 : "D"((long)SECCOMP_OWN_CLONE), "S"(stack + sizeof(stack)), "d"(0L),
			   "r"(none), "r"(none2), "r"(sixth), [leave] "i"(SYS_exit)
			 : "rcx", "r11", "memory", "cc");
	return r > 0 ? 0 : 1;
}

static void run_try(const char *name, uint64_t value)
{
	cleanup_free char *script = mem_printf("/workspace/%s %lu", name, value);
	struct init_spawn ask;
	struct kit_run run;

	heard.n = 0;
	ask_for(&ask, script);
	assert_int_equal(kit_spawn(&session, &ask, &run), MSG_leader_started);
	kit_read_all(&run);
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 0);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

/* EXE-2: who does not know it is heard of; with it the same call is not, which shows that the calls
 * differ in nothing else. */
static void exe_2_a_clone_without_the_secret_is_told(void **state)
{
	const uint64_t wrong[] = {0, secret + 1, secret ^ UINT64_C(1) << 63, secret & UINT32_MAX,
				  secret >> 32};
	cleanup_fd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	cleanup_free char *copy = mem_printf("%s/try", kit_workspace);

	begin();
	assert_int_equal(kit_copy(self, copy), 0);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		run_try("try", wrong[i]);
		assert_int_equal(count_heard(SYS_clone), 1);
	}
	run_try("try", secret);
	assert_int_equal(count_heard(SYS_clone), 0);
}
#endif

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_2_only_the_exec_of_a_leader_is_told),
		cmocka_unit_test(exe_2_a_command_does_not_have_the_secret),
#if defined(__x86_64__)
		cmocka_unit_test(exe_2_a_clone_without_the_secret_is_told),
#endif
	};
	int failed;

#if defined(__x86_64__)
	if (argc == 2)
		_exit(try_clone(strtoull(argv[1], NULL, 10)));
#endif
	ready = geteuid() == 0 && kit_prepare(0) == 0;
	failed = cmocka_run_group_tests(tests, open_session, close_session);
	kit_clean();
	return failed;
}
