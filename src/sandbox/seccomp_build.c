// SPDX-License-Identifier: Apache-2.0
/* Turns the table into a program of classic BPF. libseccomp cannot: it compares 64 bits where the
 * kernel reads 32, has neither "none of these" nor ranges of numbers, and does not know calls that
 * are younger than itself.
 *
 * Order: architecture, x32, newer calls; rows with arguments, then the rest, in the table's order.
 * The accumulator holds the call's number wherever a call's rows begin. The length matters little:
 * for a call that is allowed whatever its arguments are, the kernel (5.11) remembers the answer. */
#include "base/mem.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_table.h"
#include <asm/unistd.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define FOREIGN_FROM 0x40000000u /* x32; on other machines no such number is valid either */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define FOREIGN_FROM 0x40000000u
#else
#error "the filter was never tried on this architecture"
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "the low half of an argument comes first");

#define SKIPPED_CALL UINT32_MAX /* what a tracer writes for "none", and syscall(-1) */
#define AT_NUMBER offsetof(struct seccomp_data, nr)
#define AT_ARCHITECTURE offsetof(struct seccomp_data, arch)
#define OUT 0xff /* a jump that is not yet known: to the end of the row */

static const uint32_t answers[] = {
	[SECCOMP_EPERM] = SECCOMP_RET_ERRNO | EPERM,
	[SECCOMP_ENOSYS] = SECCOMP_RET_ERRNO | ENOSYS,
	[SECCOMP_EOPNOTSUPP] = SECCOMP_RET_ERRNO | EOPNOTSUPP,
	[SECCOMP_NOTIFY] = SECCOMP_RET_USER_NOTIF,
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

static bool in_use(const struct seccomp_row *row, bool exec_notify)
{
	return row->answer != SECCOMP_NOTIFY || exec_notify;
}

struct table {
	const struct seccomp_row *rows, *end;
	bool exec_notify;
};

/* All rows of one call, which stand together in the table; returns how many they are. */
static size_t add_call(struct seccomp_program *p, const struct seccomp_row *row,
		       const struct table *t)
{
	const size_t begin = p->n;
	size_t n = 0;

	add(p, BPF_JMP | BPF_JEQ | BPF_K, row->number, 0, OUT);
	do {
		if (in_use(&row[n], t->exec_notify))
			add_row(p, &row[n]);
	} while (row + ++n < t->end && row[n].number == row->number);
	if (row->test[0].nvalues > 0)
		give(p, SECCOMP_RET_ALLOW);
	ensure(p->n - begin <= OUT);
	p->code[begin].jf = (uint8_t)(p->n - begin - 1);
	return n;
}

static void add_table(struct seccomp_program *p, const struct table *t)
{
	for (int tested = 1; tested >= 0; tested--)
		for (const struct seccomp_row *row = t->rows; row < t->end;)
			row += (row->test[0].nvalues > 0) == tested && in_use(row, t->exec_notify)
				       ? add_call(p, row, t)
				       : 1;
}

void seccomp_build(unsigned what, struct seccomp_program *out)
{
	const bool execs = (what & SECCOMP_EXECS) != 0;
	const struct table all = {seccomp_rows, seccomp_rows + seccomp_nrows, execs};
	const struct table bare = {seccomp_bare_rows, seccomp_bare_rows + seccomp_bare_nrows,
				   execs};

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
	if ((what & SECCOMP_BARE) != 0)
		add_table(out, &bare);
	add_table(out, &all);
	give(out, SECCOMP_RET_ALLOW);
}
