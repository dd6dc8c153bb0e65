// SPDX-License-Identifier: Apache-2.0
/* The real filter on real children; each act is also tried without it. */
#include "base/testkit/child_testkit.h"
#include "sandbox/seccomp.h"
#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct seccomp_program program;

static int build(void **state)
{
	seccomp_build(false, &program);
	return 0;
}

struct act {
	kid_fn *fn;
	const void *arg;
};

static int behind_the_wall(const void *arg)
{
	const struct act *act = arg;
	struct err err = {0};

	if (seccomp_load(program.code, program.n, NULL, &err) < 0) {
		fprintf(stderr, "# %s\n", err.message);
		return 252;
	}
	return act->fn(act->arg);
}

static int inside(kid_fn *fn, const void *arg)
{
	return kid_run(behind_the_wall, &(struct act){fn, arg}, false);
}

static int inside_as_user(kid_fn *fn, const void *arg)
{
	return kid_run(behind_the_wall, &(struct act){fn, arg}, true);
}

/* The row's call with arguments that fit its tests; all others are 0, so that it does no harm
 * if the wall is missing. */
static int call_row(const void *arg)
{
	const struct seccomp_row *row = arg;
	const uint32_t some = 0x7c020008; /* bits of which no other test wants one */
	long a[4] = {0};

	for (int i = 0; i < SECCOMP_TESTS; i++) {
		const struct seccomp_test *t = &row->test[i];

		if (t->nvalues > 0 && t->none)
			a[t->arg] = (long)((t->mask & some) != 0 ? t->mask & some : t->mask);
		else if (t->nvalues > 0)
			a[t->arg] = (long)t->value[0];
	}
	return kid_errno(syscall((long)row->number, a[0], a[1], a[2], a[3], 0, 0));
}

static void sbx_2_every_row_holds(void **state)
{
	for (size_t i = 0; i < seccomp_nrows; i++) {
		const struct seccomp_row *row = &seccomp_rows[i];
		const int want = row->answer == SECCOMP_ENOSYS ? ENOSYS : EPERM;

		if (row->answer >= SECCOMP_NOTIFY)
			continue;
		if (inside(call_row, row) != want || inside_as_user(call_row, row) != want)
			fail_msg("%s is let through", row->name);
	}
}

struct call {
	long number, a0, a1, a2;
};

static int make_call(const void *arg)
{
	const struct call *c = arg;

	return kid_errno(syscall(c->number, c->a0, c->a1, c->a2, 0, 0, 0));
}

/* What a normal user can do on this kernel without the wall, and not behind it. */
static void sbx_2_the_wall_is_what_stops_it(void **state)
{
	static const struct call calls[] = {
		{SYS_io_uring_setup, 0, 0, 0},
		{SYS_mount, 0, 0, 0},
		{SYS_ptrace, 0, 0, 0},
		{SYS_keyctl, 0, -3, 0},
		{SYS_personality, 0x40000, 0, 0},
		{SYS_unshare, CLONE_NEWTIME | 1, 0, 0},
		{SYS_process_vm_readv, 0, 0, 0},
		{SYS_kcmp, 0, 0, 0},
		{SYS_ioctl, -1, TIOCSTI, 0},
		{SYS_ioctl, -1, (long)(TIOCSTI | UINT64_C(0x100000000)), 0},
		{SYS_socket, AF_NETLINK, SOCK_RAW, 15},
		{467, -1, 0, 0},
	};

	const struct call aio = {SYS_io_setup, 1, 0, 0};

	assert_int_equal(kid_run(make_call, &aio, true), EFAULT);
	assert_int_equal(inside_as_user(make_call, &aio), ENOSYS);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		if (kid_run(make_call, &calls[i], true) == EPERM)
			fail_msg("call %ld (row %zu) is refused without the wall", calls[i].number,
				 i);
		assert_int_equal(inside_as_user(make_call, &calls[i]), EPERM);
		assert_int_equal(inside(make_call, &calls[i]), EPERM);
	}
}

static void sbx_2_what_is_needed_works(void **state)
{
	static const struct call calls[] = {
		{SYS_socket, AF_UNIX, SOCK_STREAM, 0}, {SYS_socket, AF_INET, SOCK_DGRAM, 0},
		{SYS_socket, AF_NETLINK, SOCK_RAW, 0}, {SYS_personality, 0xffffffff, 0, 0},
		{SYS_unshare, CLONE_FILES, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		assert_int_equal(inside_as_user(make_call, &calls[i]), 0);
}

#if defined(__x86_64__)
static int call_x32(const void *arg)
{
	return syscall(0x40000000 + SYS_getpid) < 0 ? 7 : 8;
}

/* getpid of i386 */
static int call_i386(const void *arg)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	return r < 0 ? 7 : 8;
}

static void sbx_2_foreign_calls_end_the_process(void **state)
{
	static kid_fn *const acts[] = {call_x32, call_i386};

	for (size_t i = 0; i < ARRAY_LEN(acts); i++) {
		const struct act act = {acts[i], NULL};
		const int status = kid_wait(behind_the_wall, &act, true);

		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		assert_true(WIFEXITED(kid_wait(acts[i], NULL, true)));
	}
}
#endif

/* The listener gets the exec, and its answer is what the caller sees. */
static int exec_behind_listener(const void *arg)
{
	struct seccomp_notif ask = {0};
	struct seccomp_notif_resp answer = {0};
	int listener = -1, status;
	pid_t pid;

	seccomp_build(true, &program);
	if (seccomp_load(program.code, program.n, &listener, NULL) < 0)
		return 252;
	if (fcntl(listener, F_GETFD) != FD_CLOEXEC)
		return 1;
	pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(errno == EACCES ? 42 : 43);
	}
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &ask) < 0)
		return 2;
	if (ask.data.nr != SYS_execve || ask.pid != (uint32_t)pid)
		return 3;
	answer = (struct seccomp_notif_resp){.id = ask.id, .error = -EACCES};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0)
		return 4;
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 5;
	return WEXITSTATUS(status);
}

static void exe_2_the_listener_decides_execs(void **state)
{
	assert_int_equal(kid_run(exec_behind_listener, NULL, true), 42);
}

static int second_listener(const void *arg)
{
	const struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
	struct err err = {0};
	int first = -1, second = -1;

	if (seccomp_load(&allow, 1, &first, &err) < 0)
		return 252;
	if (seccomp_load(&allow, 1, &second, &err) != -E_ENFORCEMENT || second != -1)
		return 1;
	return strcmp(err.subject, "exec_policy") == 0 ? 0 : 2;
}

static int broken_program(const void *arg)
{
	const struct sock_filter no_end = {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0};
	struct err err = {0};
	int listener = -1;

	if (seccomp_load(&no_end, 1, NULL, &err) != -E_ENFORCEMENT ||
	    strcmp(err.subject, "seccomp") != 0)
		return 1;
	if (seccomp_load(&no_end, 1, &listener, &err) != -E_ENFORCEMENT || listener != -1)
		return 2;
	return 0;
}

static void sbx_2_a_filter_that_cannot_be_loaded_is_named(void **state)
{
	assert_int_equal(kid_run(second_listener, NULL, true), 0);
	assert_int_equal(kid_run(broken_program, NULL, true), 0);
}

static int run_script(const void *arg)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, 1);
	dup2(null, 2);
	execl("/bin/sh", "sh", "-c", arg, (char *)NULL);
	return 127;
}

/* What people run works as before; a program that is not there (127) is said and passed over. */
static void sbx_2_ordinary_programs_run(void **state)
{
	static const char *const scripts[] = {
		"a=$(echo x | sed s/x/y/) && test $a = y",
		"bash -c 'wait < <(sleep 0) & wait'",
		"command -v git || exit 127; d=$(mktemp -d) && cd $d && git init -q . && echo a > "
		"a && "
		"git add a && git -c user.name=a -c user.email=a@b commit -qm a && rm -rf $d",
		"command -v gcc || exit 127; d=$(mktemp -d) && cd $d && echo 'int "
		"main(void){return 0;}' > "
		"a.c && printf 'a: a.c\\n\\tgcc -pipe -o a a.c\\n' > Makefile && make -s && ./a && "
		"rm -rf $d",
		"command -v python3 || exit 127; python3 -c 'import threading, subprocess, "
		"socket, multiprocessing as m; t = threading.Thread(target=print); t.start(); "
		"t.join(); subprocess.run([\"true\"], check=True); socket.socketpair(); p = "
		"m.Process(target=print); p.start(); p.join(); "
		"socket.getaddrinfo(\"localhost\", 1); exit(p.exitcode)'",
		"command -v node || exit 127; node -e "
		"'require(\"child_process\").execSync(\"true\"); "
		"require(\"fs\").promises.readFile(\"/etc/passwd\").then(() => process.exit(0), () "
		"=> process.exit(1))'",
	};

	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		const int status = inside(run_script, scripts[i]);

		if (status == 127)
			print_message("# passed over: %.30s\n", scripts[i]);
		else if (status != 0)
			fail_msg("exit status %d: %s", status, scripts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_2_every_row_holds),
		cmocka_unit_test(sbx_2_the_wall_is_what_stops_it),
		cmocka_unit_test(sbx_2_what_is_needed_works),
#if defined(__x86_64__)
		cmocka_unit_test(sbx_2_foreign_calls_end_the_process),
#endif
		cmocka_unit_test(exe_2_the_listener_decides_execs),
		cmocka_unit_test(sbx_2_a_filter_that_cannot_be_loaded_is_named),
		cmocka_unit_test(sbx_2_ordinary_programs_run),
	};

	return cmocka_run_group_tests(tests, build, NULL);
}
