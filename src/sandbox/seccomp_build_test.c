// SPDX-License-Identifier: Apache-2.0
/* The program's answers at the edges, by an interpreter of the few instructions that it is made of:
 * what the kernel has to say about it is in seccomp_test.c. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "sandbox/seccomp.h"
#include <asm/ioctls.h>
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define HERE AUDIT_ARCH_X86_64
#else
#define HERE AUDIT_ARCH_AARCH64
#endif
#define NO (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)
#define YES SECCOMP_RET_ALLOW
#define HIGH UINT64_C(0x100000000)

static struct seccomp_program program;

static uint32_t run(const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < program.n; pc++) {
		const struct sock_filter *f = &program.code[pc];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + f->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_RET | BPF_K:
			return f->k;
		default:
			fail_msg("instruction %zu is %#x", pc, f->code);
		}
	}
	fail_msg("the program has no end");
	return 0;
}

static uint32_t ask(int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	return run(&(struct seccomp_data){nr, HERE, 0, {a0, a1, a2}});
}

static int build(void **state)
{
	seccomp_build(false, &program);
	return 0;
}

static void sbx_2_foreign_calls_kill(void **state)
{
	const struct seccomp_data i386 = {__NR_read, AUDIT_ARCH_I386, 0, {0}};

	assert_int_equal(run(&i386), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(ask(0x40000000, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(ask(0x7fffffff, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(ask(-2, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(ask(0x3fffffff, 0, 0, 0), UNKNOWN);
	assert_int_equal(ask(-1, 0, 0, 0), UNKNOWN);
}

static void sbx_2_calls_newer_than_the_table_are_unknown(void **state)
{
	assert_int_equal(ask(SECCOMP_CALLS_END - 1, 0, 0, 0), YES);
	assert_int_equal(ask(SECCOMP_CALLS_END, 0, 0, 0), UNKNOWN);
	assert_int_equal(ask(SECCOMP_CALLS_END + 1, 0, 0, 0), UNKNOWN);
	assert_int_equal(ask(467, 0, 0, 0), NO);
	assert_int_equal(ask(468, 0, 0, 0), YES);
	assert_int_equal(ask(466, 0, 0, 0), YES);
}

static uint32_t ask4(int nr, uint64_t a2, uint64_t a3)
{
	return run(&(struct seccomp_data){nr, HERE, 0, {0, 0, a2, a3}});
}

static void sbx_2_no_file_gets_a_set_id_bit(void **state)
{
	static const int flags[] = {O_CREAT, O_CREAT | O_EXCL | O_RDWR, O_TMPFILE | O_RDWR};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		assert_int_equal(ask4(__NR_openat, (unsigned)flags[i], 04755), NO);
		assert_int_equal(ask4(__NR_openat, (unsigned)flags[i], 02755), NO);
		assert_int_equal(ask4(__NR_openat, (unsigned)flags[i], 01777), YES);
#ifdef __NR_open
		assert_int_equal(ask(__NR_open, 0, (unsigned)flags[i], 04000), NO);
		assert_int_equal(ask(__NR_open, 0, (unsigned)flags[i], 0777), YES);
#endif
	}
	/* what makes no file has no mode: the register has anything in it */
	assert_int_equal(ask4(__NR_openat, O_RDONLY | O_DIRECTORY, 06000), YES);
	assert_int_equal(ask(__NR_fchmod, 3, 04755, 0), NO);
	assert_int_equal(ask(__NR_fchmod, 3, 02755, 0), NO);
	assert_int_equal(ask(__NR_fchmod, 3, 01755, 0), YES);
	assert_int_equal(ask(__NR_fchmodat, 3, 0, 04000), NO);
	assert_int_equal(ask(__NR_fchmodat, 3, 0, 03777), NO);
	assert_int_equal(ask(__NR_fchmodat, 3, 0, 01777), YES);
	assert_int_equal(ask(452, 3, 0, 04000), NO);
	assert_int_equal(ask(452, 3, 0, 02000), NO);
	assert_int_equal(ask(452, 3, 06000, 01777), YES);
	assert_int_equal(ask(__NR_mknodat, 3, 0, 02000), NO);
	assert_int_equal(ask(__NR_mknodat, 3, 0, 0777), YES);
#ifdef __NR_open
	assert_int_equal(ask(__NR_chmod, 0, 06755, 0), NO);
	assert_int_equal(ask(__NR_chmod, 0, 02755, 0), NO);
	assert_int_equal(ask(__NR_chmod, 0, 01777, 0), YES);
	assert_int_equal(ask(__NR_creat, 0, 02755, 0), NO);
	assert_int_equal(ask(__NR_creat, 0, 0755, 0), YES);
	assert_int_equal(ask(__NR_mknod, 0, 04755, 0), NO);
	assert_int_equal(ask(__NR_mknod, 0, 0755, 0), YES);
#endif
	assert_int_equal(ask(__NR_openat2, 0, 0, 0), UNKNOWN);
}

/* Every number without a row is allowed, every unconditional row gives its answer. */
static void sbx_2_the_program_is_the_table(void **state)
{
	for (int nr = 0; nr < SECCOMP_CALLS_END; nr++) {
		const struct seccomp_row *row = NULL;
		bool tested = false;

		for (size_t i = 0; i < seccomp_nrows; i++)
			if (seccomp_rows[i].number == (uint32_t)nr) {
				row = &seccomp_rows[i];
				tested |= row->test[0].nvalues > 0;
			}
		if (tested)
			continue;
		if (row == NULL || row->answer >= SECCOMP_NOTIFY)
			assert_int_equal(ask(nr, 0, 0, 0), YES);
		else
			assert_int_equal(ask(nr, 0, 0, 0),
					 row->answer == SECCOMP_ENOSYS ? UNKNOWN : NO);
	}
}

static void sbx_2_rows_are_documented(void **state)
{
	assert_true(seccomp_nrows >= 55);
	for (size_t i = 0; i < seccomp_nrows; i++) {
		const struct seccomp_row *row = &seccomp_rows[i];

		assert_true(row->number < SECCOMP_CALLS_END);
		/* the rows of a call stand together, and all have tests or there is only one */
		for (size_t k = 0; k < i; k++)
			if (seccomp_rows[k].number == row->number) {
				assert_int_equal(seccomp_rows[i - 1].number, row->number);
				assert_true(row->test[0].nvalues > 0);
				assert_true(seccomp_rows[k].test[0].nvalues > 0);
			}
		assert_true(strlen(row->reason) > 0);
		assert_int_equal(row->test[0].nvalues > 0 || row->answer >= SECCOMP_NOTIFY,
				 row->when[0] != '\0');
	}
}

static void sbx_2_terminal_injection(void **state)
{
	assert_int_equal(ask(__NR_ioctl, 0, TIOCSTI, 0), NO);
	assert_int_equal(ask(__NR_ioctl, 0, TIOCSTI | HIGH, 0), NO);
	assert_int_equal(ask(__NR_ioctl, 0, TIOCLINUX, 0), NO);
	assert_int_equal(ask(__NR_ioctl, 0, TIOCSETD, 0), NO);
	assert_int_equal(ask(__NR_ioctl, TIOCSTI, TCGETS, TIOCSTI), YES);
	assert_int_equal(ask(__NR_ioctl, 0, TIOCSTI + 1, 0), YES);
	assert_int_equal(ask(__NR_ioctl, 0, TIOCSTI - 1, 0), YES);
}

static void sbx_2_namespaces(void **state)
{
	static const uint32_t flags[] = {CLONE_NEWNS,	CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWUSER, CLONE_NEWPID,	 CLONE_NEWNET};

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		assert_int_equal(ask(__NR_clone, flags[i], 0, 0), NO);
		assert_int_equal(ask(__NR_clone, flags[i] | CLONE_VM | 17 | HIGH, 0, 0), NO);
		assert_int_equal(ask(__NR_unshare, flags[i], 0, 0), NO);
	}
	assert_int_equal(ask(__NR_clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | 17, 0, 0), YES);
	assert_int_equal(ask(__NR_clone, 0x3d0f00, 0, 0), YES); /* a thread of glibc's */
	assert_int_equal(ask(__NR_clone, 0x80, 0, 0), YES);	/* part of the signal's number */
	assert_int_equal(ask(__NR_unshare, CLONE_NEWTIME, 0, 0), NO);
	assert_int_equal(ask(__NR_unshare, CLONE_FILES | CLONE_FS | CLONE_SYSVSEM, 0, 0), YES);
	assert_int_equal(ask(__NR_unshare, 0, 0, 0), YES);
	assert_int_equal(ask(__NR_clone3, 0, 0, 0), UNKNOWN);
}

static void sbx_2_socket_families(void **state)
{
	static const int allowed[] = {AF_UNIX, AF_INET, AF_INET6};

	for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
		assert_int_equal(ask(__NR_socket, (uint64_t)allowed[i], SOCK_STREAM, 5), YES);
	for (uint64_t family = 0; family < 64; family++)
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
		    family != AF_NETLINK) {
			assert_int_equal(ask(__NR_socket, family, SOCK_STREAM, 0), NO);
			assert_int_equal(ask(__NR_socket, family | HIGH, SOCK_STREAM, 0), NO);
		}
	assert_int_equal(ask(__NR_socket, AF_NETLINK, SOCK_RAW, 0), YES);
	assert_int_equal(ask(__NR_socket, AF_NETLINK, SOCK_RAW, 1), NO);
	assert_int_equal(ask(__NR_socket, AF_NETLINK | HIGH, SOCK_RAW, 12), NO);
	assert_int_equal(ask(__NR_socket, AF_INET, SOCK_PACKET, 3), NO);
	assert_int_equal(ask(__NR_socket, AF_INET, SOCK_PACKET | SOCK_CLOEXEC, 3), NO);
	assert_int_equal(ask(__NR_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), YES);
	assert_int_equal(ask(__NR_socket, AF_UNIX, SOCK_SEQPACKET, 0), YES);
	assert_int_equal(ask(__NR_socketpair, AF_UNIX, SOCK_STREAM, 0), YES);
	assert_int_equal(ask(__NR_socketpair, AF_INET, SOCK_STREAM, 0), NO);
}

static void sbx_2_personality_and_listeners(void **state)
{
	assert_int_equal(ask(__NR_personality, 0, 0, 0), YES);
	assert_int_equal(ask(__NR_personality, UINT32_MAX, 0, 0), YES);
	assert_int_equal(ask(__NR_personality, UINT64_MAX, 0, 0), YES);
	assert_int_equal(ask(__NR_personality, 0x40000, 0, 0), NO);
	assert_int_equal(ask(__NR_personality, 1, 0, 0), NO);
	assert_int_equal(ask(__NR_personality, UINT32_MAX - 1, 0, 0), NO);
	assert_int_equal(ask(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0), YES);
	assert_int_equal(ask(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 8, 0), NO);
	assert_int_equal(ask(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 8 | 1, 0), NO);
	assert_int_equal(ask(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 7, 0), YES);
	assert_int_equal(ask(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 8, 0), YES);
}

static void exe_2_execs_are_asked_where_that_is_wanted(void **state)
{
	static const uint32_t sent[] = {__NR_execve, __NR_execveat};

	for (size_t i = 0; i < ARRAY_LEN(sent); i++)
		assert_int_equal(ask(sent[i], 0, 0, 0), YES);
	seccomp_build(true, &program);
	for (size_t i = 0; i < ARRAY_LEN(sent); i++)
		assert_int_equal(ask(sent[i], 0, 0, 0), SECCOMP_RET_USER_NOTIF);
	/* processes and threads are made without asking */
	assert_int_equal(ask(__NR_clone, CLONE_VM | CLONE_VFORK, 0, 0), YES);
	assert_int_equal(ask(__NR_clone, CLONE_VM | CLONE_THREAD, 0, 0), YES);
#ifdef __NR_vfork
	assert_int_equal(ask(__NR_vfork, 0, 0, 0), YES);
#endif
	assert_int_equal(ask(__NR_clone, CLONE_FS, 0, 0), YES);
	assert_int_equal(ask(__NR_clone, CLONE_VM | CLONE_NEWNS, 0, 0), NO);
	assert_int_equal(ask(__NR_mount, 0, 0, 0), NO);
	assert_int_equal(ask(__NR_read, 0, 0, 0), YES);
}

/* SBX-2: a directory may have the bit; what it is, the filter cannot see. */
static void sbx_2_the_set_group_id_bit_is_asked_about(void **state)
{
	seccomp_build(true, &program);
	assert_int_equal(ask(__NR_fchmod, 3, 02755, 0), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(ask(__NR_fchmodat, 3, 0, 02000 | HIGH), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(ask(452, 3, 0, 03777), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(ask(__NR_fchmod, 3, 06755, 0), NO);
	assert_int_equal(ask(__NR_fchmodat, 3, 0, 06755), NO);
	assert_int_equal(ask(452, 3, 0, 06755), NO);
	assert_int_equal(ask(__NR_fchmod, 3, 01777, 0), YES);
	assert_int_equal(ask(__NR_fchmodat, 3, 02000, 01777), YES);
	assert_int_equal(ask(452, 3, 02000, 01777), YES);
#ifdef __NR_chmod
	assert_int_equal(ask(__NR_chmod, 0, 02755, 0), SECCOMP_RET_USER_NOTIF);
	assert_int_equal(ask(__NR_chmod, 0, 06755, 0), NO);
	assert_int_equal(ask(__NR_chmod, 02000, 0755, 0), YES);
#endif
}

/* FIL-3: calls that change a directory or attributes are sent only where an approver is asked, and
 * no call that is refused else. */
static void fil_3_changes_of_directories_are_held_where_that_is_wanted(void **state)
{
	static const uint32_t sent[] = {__NR_unlinkat,	__NR_renameat2,
					__NR_mkdirat,	__NR_linkat,
					__NR_symlinkat,
#ifdef __NR_renameat
					__NR_renameat,
#endif
#ifdef __NR_open
					__NR_unlink,	__NR_rmdir,
					__NR_rename,	__NR_mkdir,
					__NR_link,	__NR_symlink,
					__NR_creat,	__NR_mknod,
					__NR_chmod,	__NR_chown,
					__NR_lchown,
#endif
					__NR_fchmodat,	452,
					__NR_fchownat,	__NR_truncate,
					__NR_mknodat};

	for (int holds = 0; holds < 2; holds++) {
		const uint32_t answer = holds ? SECCOMP_RET_USER_NOTIF : YES;

		seccomp_build(SECCOMP_EXECS | (holds ? SECCOMP_HOLDS : 0U), &program);
		for (size_t i = 0; i < ARRAY_LEN(sent); i++)
			assert_int_equal(ask((int)sent[i], 0, 0, 0), answer);
		assert_int_equal(ask(__NR_openat, 3, 0, O_CREAT | O_WRONLY), answer);
		assert_int_equal(ask(__NR_openat, 3, 0, O_CREAT | HIGH), answer);
		assert_int_equal(ask(__NR_openat, O_CREAT, 0, O_WRONLY | O_TRUNC), YES);
		assert_int_equal(ask(__NR_mknodat, 3, 0, 02755), NO);
		assert_int_equal(
			run(&(struct seccomp_data){__NR_openat, HERE, 0, {3, 0, O_CREAT, 04755}}),
			NO);
#ifdef __NR_open
		assert_int_equal(ask(__NR_open, 0, O_CREAT, 0600), answer);
		assert_int_equal(ask(__NR_open, 0, O_CREAT, 04600), NO);
		assert_int_equal(ask(__NR_open, 0, O_RDWR, 0), YES);
		assert_int_equal(ask(__NR_creat, 0, 02755, 0), NO);
		assert_int_equal(ask(__NR_mknod, 0, 04755, 0), NO);
#endif
		assert_int_equal(ask(__NR_openat2, 0, 0, 0), UNKNOWN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_2_foreign_calls_kill),
		cmocka_unit_test(sbx_2_calls_newer_than_the_table_are_unknown),
		cmocka_unit_test(sbx_2_no_file_gets_a_set_id_bit),
		cmocka_unit_test(sbx_2_the_program_is_the_table),
		cmocka_unit_test(sbx_2_rows_are_documented),
		cmocka_unit_test(sbx_2_terminal_injection),
		cmocka_unit_test(sbx_2_namespaces),
		cmocka_unit_test(sbx_2_socket_families),
		cmocka_unit_test(sbx_2_personality_and_listeners),
		cmocka_unit_test(exe_2_execs_are_asked_where_that_is_wanted),
		cmocka_unit_test(sbx_2_the_set_group_id_bit_is_asked_about),
		cmocka_unit_test(fil_3_changes_of_directories_are_held_where_that_is_wanted),
	};

	return cmocka_run_group_tests(tests, build, NULL);
}
