// SPDX-License-Identifier: Apache-2.0
/* Turns the table into a program of classic BPF. libseccomp cannot: it compares 64 bits where the
 * kernel reads 32, has neither "none of these" nor ranges of numbers, and does not know calls that
 * are younger than itself.
 *
 * Order: architecture, x32, newer calls; rows with arguments, then the rest, in the table's order.
 * The accumulator holds the call's number wherever a call's rows begin. The length matters little:
 * for a call that is allowed whatever its arguments are, the kernel (5.11) remembers the answer. */
#include "sandbox/seccomp.h"
#include "base/mem.h"
#include "model/wall.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define FOREIGN_FROM 0x40000000u /* x32; on other machines no such number is valid either */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define FOREIGN_FROM 0x40000000u
#else
#error "the filter was not tested on this architecture"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the low half of an argument comes first");

#define SKIPPED_CALL UINT32_MAX /* a tracer writes it to skip a call; also syscall(-1) */
#define AT_NUMBER offsetof(struct seccomp_data, nr)
#define AT_ARCHITECTURE offsetof(struct seccomp_data, arch)
#define OUT 0xff /* a jump that is not yet known: to the end of the row */

static const uint32_t answers[] = {
	[SECCOMP_EPERM] = SECCOMP_RET_ERRNO | EPERM,
	[SECCOMP_ENOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
	[SECCOMP_EOPNOTSUPP] = SECCOMP_RET_ERRNO | EOPNOTSUPP,
	[SECCOMP_NOTIFY] = SECCOMP_RET_USER_NOTIF,
	[SECCOMP_HOLD] = SECCOMP_RET_USER_NOTIF,
};

static void add(struct seccomp_program *p, uint16_t op, uint32_t k, uint8_t yes, uint8_t no)
{
	ensure(p->n < SECCOMP_PROGRAM_MAX);
	p->code[p->n++] = (struct sock_filter){op, yes, no, k};
}

static void load(struct seccomp_program *p, size_t offset)
{
	add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void give(struct seccomp_program *p, uint32_t answer)
{
	add(p, BPF_RET | BPF_K, answer, 0, 0);
}

/* Falls through where a test of the row does not hold. */
static void add_row(struct seccomp_program *p, const struct seccomp_row *row)
{
	const size_t begin = p->n;

	for (const struct seccomp_test *t = row->test;
	     t < row->test + SECCOMP_TESTS && t->nvalues > 0; t++) {
		load(p, offsetof(struct seccomp_data, args) + t->arg * sizeof(uint64_t));
		if (t->mask != UINT32_MAX)
			add(p, BPF_ALU | BPF_AND | BPF_K, t->mask, 0, 0);
		for (unsigned i = 0; i < t->nvalues; i++) {
			const uint8_t left = (uint8_t)(t->nvalues - 1 - i);

			add(p, BPF_JMP | BPF_JEQ | BPF_K, t->value[i], t->none ? OUT : left,
			    t->none || left > 0 ? 0 : OUT);
		}
	}
	give(p, answers[row->answer]);
	for (size_t i = begin; i < p->n; i++) {
		struct sock_filter *f = &p->code[i];

		if (f->jt == OUT)
			f->jt = (uint8_t)(p->n - i - 1);
		if (f->jf == OUT)
			f->jf = (uint8_t)(p->n - i - 1);
	}
}

static bool left_out(const struct seccomp_row *row, unsigned what)
{
	return (row->answer == SECCOMP_NOTIFY && (what & SECCOMP_EXECS) == 0) ||
	       (row->answer == SECCOMP_HOLD && (what & SECCOMP_HOLDS) == 0);
}

/* Adds all rows of each call, which stand together in the table: first the calls whose arguments
 * are tested. */
static void add_table(struct seccomp_program *p, const struct seccomp_row *row,
		      const struct seccomp_row *end, unsigned what)
{
	for (int tested = 1; tested >= 0; tested--)
		for (const struct seccomp_row *first = row, *next; first < end; first = next) {
			const size_t begin = p->n;
			const bool tests = first->test[0].nvalues > 0;

			next = first + 1;
			if (tests != tested || left_out(first, what))
				continue;
			add(p, BPF_JMP | BPF_JEQ | BPF_K, first->number, 0, OUT);
			add_row(p, first);
			for (; next < end && next->number == first->number; next++)
				if (!left_out(next, what))
					add_row(p, next);
			if (tests)
				give(p, SECCOMP_RET_ALLOW);
			ensure(p->n - begin <= OUT);
			p->code[begin].jf = (uint8_t)(p->n - begin - 1);
		}
}

void seccomp_build(unsigned what, struct seccomp_program *out)
{
	out->n = 0;
	load(out, AT_ARCHITECTURE);
	add(out, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	give(out, SECCOMP_RET_KILL_PROCESS);
	load(out, AT_NUMBER);
	add(out, BPF_JMP | BPF_JGE | BPF_K, SECCOMP_CALLS_END, 0, 4);
	add(out, BPF_JMP | BPF_JEQ | BPF_K, SKIPPED_CALL, 2, 0);
	add(out, BPF_JMP | BPF_JGE | BPF_K, FOREIGN_FROM, 0, 1);
	give(out, SECCOMP_RET_KILL_PROCESS);
	give(out, SECCOMP_RET_ERRNO | ENOSYS);
	if ((what & SECCOMP_SHARED) != 0)
		add_table(out, seccomp_shared_rows, seccomp_shared_rows + seccomp_shared_nrows,
			  what);
	add_table(out, seccomp_rows, seccomp_rows + seccomp_nrows, what);
	give(out, SECCOMP_RET_ALLOW);
}

void seccomp_build_allowed(const struct seccomp_allowed *a, struct seccomp_program *out)
{
	out->n = 0;
	load(out, AT_ARCHITECTURE);
	add(out, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	give(out, SECCOMP_RET_KILL_PROCESS);
	load(out, AT_NUMBER);
	add_table(out, a->tested, a->tested + a->ntested, false);
	for (size_t i = 0; i < a->n; i++) {
		add(out, BPF_JMP | BPF_JEQ | BPF_K, a->number[i], 0, 1);
		give(out, SECCOMP_RET_ALLOW);
	}
	/* The flags of clone3 are in memory: libc then takes clone. */
	add(out, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
	give(out, SECCOMP_RET_ERRNO | ENOSYS);
	add(out, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
	load(out, offsetof(struct seccomp_data, args));
	add(out, BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
	give(out, SECCOMP_RET_ALLOW);
	give(out, SECCOMP_RET_ERRNO | EPERM);
}

/* ---- loading ---- */

/* Linux 5.19, as Debian 12's headers have it. Without it a caller with a timer signal restarts its
 * exec again and again while a person decides. */
_Static_assert(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV == 1u << 5, "seccomp(2)");

#define LISTEN (SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)

int seccomp_load(const struct sock_filter *code, size_t n, int *listener_fd, struct err *err)
{
	const struct sock_fprog program = {(unsigned short)n, (struct sock_filter *)(size_t)code};
	const unsigned flags = listener_fd != NULL ? LISTEN : 0;
	const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);

	if (r == -1 && listener_fd != NULL && errno == EBUSY)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_exec_policy),
			       "another filter has a listener already: does the server itself run "
			       "in a container that watches system calls?");
	if (r == -1 && listener_fd != NULL && errno == EINVAL)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_exec_policy),
			       "the kernel has no listener that only fatal signals interrupt "
			       "(Linux 5.19)");
	if (r == -1)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_seccomp),
				 "seccomp(SECCOMP_SET_MODE_FILTER)");
	if (listener_fd != NULL)
		*listener_fd = (int)r;
	return 0;
}
