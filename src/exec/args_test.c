// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "exec/args.h"
#include <errno.h>
#include <stdio.h>

#define BASE 0x10000 /* where the memory below seems to be */

static uint8_t *memory;
static size_t memory_size;
static int reads;

static int read_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE])
{
	reads++;
	assert_int_equal(page % EXEC_PAGE, 0);
	if (page < BASE || page >= BASE + memory_size)
		return EFAULT;
	memcpy(out, memory + (page - BASE), EXEC_PAGE);
	return 0;
}

static struct args_memory *fresh(size_t size)
{
	static struct args_memory m;

	free(memory);
	memory = mem_alloc(size);
	memory_size = size;
	reads = 0;
	args_memory_init(&m, read_page, NULL);
	return &m;
}

static void put_pointer(size_t at, uint64_t to)
{
	memcpy(memory + at, &to, sizeof(to));
}

static int clean(void **state)
{
	free(take(memory));
	return 0;
}

static void pol_4_a_string_ends_at_its_nul_or_its_limit(void **state)
{
	cleanup_buf struct buf out = {0};
	struct args_memory *m = fresh(3 * EXEC_PAGE);

	memcpy(memory + EXEC_PAGE - 3, "abcdef", 7); /* over a page's end */
	assert_int_equal(args_string(m, BASE + EXEC_PAGE - 3, 7, &out), 0);
	assert_int_equal(out.len, 7);
	assert_string_equal(out.data, "abcdef");
	assert_int_equal(args_string(m, BASE + EXEC_PAGE - 3, 6, &out), E2BIG);
	assert_int_equal(reads, 2); /* the pages are kept */
	memset(memory, 'x', memory_size);
	m = fresh(EXEC_PAGE);
	memset(memory, 'x', EXEC_PAGE);
	buf_clear(&out);
	assert_int_equal(args_string(m, BASE, 2 * EXEC_PAGE, &out),
			 EFAULT);				/* runs out of memory */
	assert_int_equal(args_string(m, 5, 100, &out), EFAULT); /* the page of NULL */
	memory[EXEC_PAGE - 1] = 0;
	args_memory_init(m, read_page, NULL);
	buf_clear(&out);
	assert_int_equal(args_string(m, BASE, EXEC_PAGE, &out), 0);
	assert_int_equal(out.len, EXEC_PAGE);
}

static void pol_4_argv_is_read_in_order(void **state)
{
	struct args_memory *m = fresh(2 * EXEC_PAGE);
	struct args a;

	memcpy(memory + 100, "prog\0one\0", 10);
	put_pointer(EXEC_PAGE - 4, BASE + 100); /* a pointer over a page's end */
	put_pointer(EXEC_PAGE + 4, BASE + 105);
	put_pointer(EXEC_PAGE + 12, BASE + 109);
	put_pointer(EXEC_PAGE + 20, 0);
	assert_int_equal(args_read(m, BASE + EXEC_PAGE - 4, &a), 0);
	assert_int_equal(a.argc, 3);
	assert_int_equal(a.n, 3);
	assert_false(a.cut);
	assert_string_equal(a.v[0], "prog");
	assert_string_equal(a.v[1], "one");
	assert_string_equal(a.v[2], "");
	assert_null(a.v[3]);
	args_done(&a);
}

static void pol_4_no_argv_is_one_empty_argument(void **state)
{
	struct args_memory *m = fresh(EXEC_PAGE);
	struct args a;

	assert_int_equal(args_read(m, 0, &a), 0);
	assert_int_equal(a.argc, 1);
	assert_string_equal(a.v[0], "");
	args_done(&a);
	assert_int_equal(args_read(m, BASE, &a), 0); /* an array with its end only */
	assert_int_equal(a.argc, 1);
	args_done(&a);
	put_pointer(0, BASE + 10 * EXEC_PAGE);
	args_memory_init(m, read_page, NULL);
	a = (struct args){.argc = 77};
	assert_int_equal(args_read(m, BASE, &a), EFAULT);
	assert_int_equal(a.argc, 77); /* untouched */
}

/* n strings of the same len bytes (with NUL), at BASE + EXEC_ARGS_MAX. */
static int read_many(size_t n, size_t len, struct args *a)
{
	struct args_memory *m = fresh(EXEC_ARGS_MAX + 2 * EXEC_STRING_MAX);

	memset(memory + EXEC_ARGS_MAX, 'a', len - 1);
	for (size_t i = 0; i < n; i++)
		put_pointer(8 * i, BASE + EXEC_ARGS_MAX);
	return args_read(m, BASE, a);
}

static void pol_4_arguments_are_cut_at_the_limits(void **state)
{
	struct args a;

	assert_int_equal(read_many(1, EXEC_STRING_MAX, &a), 0); /* argv[0] is always whole */
	assert_false(a.cut);
	args_done(&a);
	assert_int_equal(read_many(1, EXEC_STRING_MAX + 1, &a), E2BIG);

	assert_int_equal(read_many(EXEC_ARGS_KEPT / 4096, 4096, &a), 0);
	assert_false(a.cut);
	args_done(&a);
	assert_int_equal(read_many(EXEC_ARGS_KEPT / 4096 + 1, 4096, &a), 0);
	assert_true(a.cut);
	assert_int_equal(a.n, EXEC_ARGS_KEPT / 4096);
	assert_int_equal(a.argc, EXEC_ARGS_KEPT / 4096 + 1);
	assert_int_equal(a.rest, EXEC_ARGS_KEPT);
	args_done(&a);

	assert_int_equal(read_many(EXEC_ARGC_KEPT, 1, &a), 0);
	assert_false(a.cut);
	args_done(&a);
	assert_int_equal(read_many(EXEC_ARGC_KEPT + 1, 1, &a), 0);
	assert_true(a.cut);
	assert_int_equal(a.n, EXEC_ARGC_KEPT);
	args_done(&a);

	assert_int_equal(read_many(EXEC_ARGS_MAX / 4096, 4096 - 8, &a), 0); /* with its pointers */
	args_done(&a);
	assert_int_equal(read_many(EXEC_ARGS_MAX / 4096 + 1, 4096 - 8, &a), E2BIG);
}

/* Arguments that are not kept still count: one other byte behind argv[0] is another hash. */
static void pol_4_the_hash_sees_every_byte(void **state)
{
	struct args a, b;
	struct args_memory m;

	assert_int_equal(read_many(EXEC_ARGC_KEPT + 1, 4, &a), 0);
	args_memory_init(&m, read_page, NULL);
	put_pointer(0, BASE + EXEC_ARGS_MAX + 1); /* argv[0] does not count */
	assert_int_equal(args_read(&m, BASE, &b), 0);
	assert_string_equal(b.v[0], "aa");
	assert_int_equal(a.rest, EXEC_ARGC_KEPT * 4);
	assert_int_equal(b.rest, a.rest);
	assert_memory_equal(a.hash, b.hash, HASH_LEN);
	args_done(&b);
	memcpy(memory + EXEC_ARGS_MAX + 8, "aab", 4);
	put_pointer(8 * EXEC_ARGC_KEPT, BASE + EXEC_ARGS_MAX + 8); /* the last one */
	args_memory_init(&m, read_page, NULL);
	assert_int_equal(args_read(&m, BASE, &b), 0);
	assert_int_equal(b.rest, a.rest);
	assert_memory_not_equal(a.hash, b.hash, HASH_LEN);
	args_done(&a);
	args_done(&b);
}

/* ---- #! ---- */

static int parse(const char *text, size_t n, struct shebang *s)
{
	char head[BINPRM_BYTES] = {0};

	memcpy(head, text, n < sizeof(head) ? n : sizeof(head));
	return shebang_parse(head, s);
}

static void pol_4_the_first_line_is_read_as_the_kernel_does(void **state)
{
	static const struct {
		const char *line, *name, *arg; /* name NULL: ENOEXEC */
	} rows[] = {
		{"#!/bin/sh\n", "/bin/sh", NULL},
		{"#!/bin/sh", "/bin/sh", NULL},
		{"#! \t/bin/sh \t\nrest", "/bin/sh", NULL},
		{"#!/bin/sh -e\n", "/bin/sh", "-e"},
		{"#!/bin/sh -e", "/bin/sh", "-e"},
		{"#!/usr/bin/env\tpython3 -u  x \n", "/usr/bin/env", "python3 -u  x"},
		{"#!sh\r\n", "sh\r", NULL},
		{"#!", "", NULL}, /* the kernel then finds no such program */
		{"#!\n", NULL, NULL},
		{"#!  \n/bin/sh\n", NULL, NULL},
		{"#", NULL, NULL},
		{"", NULL, NULL},
		{"!#/bin/sh\n", NULL, NULL},
		{"##/bin/sh\n", NULL, NULL},
	};
	struct shebang s;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const int r = parse(rows[i].line, strlen(rows[i].line), &s);

		assert_int_equal(r, rows[i].name != NULL ? 0 : ENOEXEC);
		if (r != 0)
			continue;
		assert_string_equal(s.name, rows[i].name);
		assert_int_equal(s.has_arg, rows[i].arg != NULL);
		if (s.has_arg)
			assert_string_equal(s.arg, rows[i].arg);
	}
	assert_int_equal(parse("#!/bin/sh\0 x\n", 13, &s), 0); /* a NUL ends it */
	assert_string_equal(s.name, "/bin/sh");
	assert_false(s.has_arg);
}

/* A line that does not fit: fine if the name does, as an argument may be cut. */
static void pol_4_a_cut_name_is_no_interpreter(void **state)
{
	char line[BINPRM_BYTES + 1];
	struct shebang s;

	memset(line, 'n', sizeof(line));
	memcpy(line, "#!/", 3);
	assert_int_equal(parse(line, BINPRM_BYTES, &s), ENOEXEC);
	line[BINPRM_BYTES - 1] = ' '; /* the last byte that the kernel has */
	assert_int_equal(parse(line, BINPRM_BYTES, &s), 0);
	assert_int_equal(strlen(s.name), BINPRM_BYTES - 3);
	assert_false(s.has_arg);
	line[BINPRM_BYTES - 1] = '\n';
	assert_int_equal(parse(line, BINPRM_BYTES, &s), 0);
	line[100] = ' ';
	line[BINPRM_BYTES - 1] = 'n';
	assert_int_equal(parse(line, BINPRM_BYTES, &s), 0);
	assert_int_equal(strlen(s.name), 98);
	assert_int_equal(strlen(s.arg), BINPRM_BYTES - 1 - 101); /* the last byte is the NUL's */
	memset(line + 2, ' ', sizeof(line) - 2);
	assert_int_equal(parse(line, BINPRM_BYTES, &s), ENOEXEC);
}

/* ---- ld.so ---- */

static void pol_4_the_loaders_program_is_found(void **state)
{
	static const struct {
		const char *argv[6];
		const char *program;
		bool runs;
	} rows[] = {
		{{"ld.so", "/bin/x", "/bin/y"}, "/bin/x", true},
		{{"ld.so"}, NULL, true},
		{{"ld.so", "--library-path", "/lib", "/bin/x"}, "/bin/x", true},
		{{"ld.so", "--argv0", "/bin/no", "--inhibit-cache", "x"}, "x", true},
		{{"ld.so", "--preload=/lib", "/bin/x"}, "/bin/x", true},
		{{"ld.so", "--verify", "/bin/x"}, "/bin/x", false},
		{{"ld.so", "--list", "/bin/x"}, "/bin/x", false},
		{{"ld.so", "--version", "/bin/x"}, NULL, true},
		{{"ld.so", "--", "--odd"}, "--odd", true},
		{{"ld.so", "--"}, NULL, true},
		{{"ld.so", "--audit"}, NULL, true},
		{{"ld.so", "-x"}, "-x", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct loader_call call;
		size_t n = 0;

		while (rows[i].argv[n] != NULL)
			n++;
		loader_parse((char *const *)(uintptr_t)rows[i].argv, n, &call);
		if (rows[i].program == NULL)
			assert_null(call.program);
		else
			assert_string_equal(call.program, rows[i].program);
		assert_int_equal(call.runs, rows[i].runs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_string_ends_at_its_nul_or_its_limit),
		cmocka_unit_test(pol_4_argv_is_read_in_order),
		cmocka_unit_test(pol_4_no_argv_is_one_empty_argument),
		cmocka_unit_test(pol_4_arguments_are_cut_at_the_limits),
		cmocka_unit_test(pol_4_the_hash_sees_every_byte),
		cmocka_unit_test(pol_4_the_first_line_is_read_as_the_kernel_does),
		cmocka_unit_test(pol_4_a_cut_name_is_no_interpreter),
		cmocka_unit_test(pol_4_the_loaders_program_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, clean);
}
