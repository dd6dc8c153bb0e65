// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct cli_operation read_words(char **argv, int argc, int want)
{
	struct cli_operation o;
	struct err err = {0};

	assert_int_equal(cli_operation_read(argc, argv, &o, &err), want);
	return o;
}
#define WORDS(...) (char *[]){__VA_ARGS__}, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *))

static void pol_7_paths_are_made_plain(void **state)
{
	static const char *const rows[][2] = {
		{"a", "/workspace/a"},
		{"./a/../b", "/workspace/b"},
		{"/", "/"},
		{"/a//b/.", "/a/b"},
		{"../x", "/x"},
		{"/../..", "/"},
		{"/a/b/../../c", "/c"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cli_operation o =
			read_words(WORDS((char *)"file", (char *)"write", (char *)rows[i][0]), 0);

		assert_int_equal(o.op.class, OP_FILE);
		assert_int_equal(o.op.file.op, OP_FILE_write);
		assert_string_equal(o.op.file.path, rows[i][1]);
		cli_operation_done(&o);
	}
}

static void pol_7_hosts_and_ports(void **state)
{
	struct cli_operation o = read_words(WORDS((char *)"net", (char *)"a.example:1"), 0);

	assert_string_equal(o.op.net.host, "a.example");
	assert_int_equal(o.op.net.port, 1);
	assert_int_equal(o.op.net.address.family, 0);
	cli_operation_done(&o);
	o = read_words(WORDS((char *)"net", (char *)"[::1]:65535"), 0);
	assert_null(o.op.net.host);
	assert_int_equal(o.op.net.address.family, 6);
	assert_int_equal(o.op.net.port, 65535);
	cli_operation_done(&o);
	o = read_words(WORDS((char *)"net", (char *)"10.0.0.1:80"), 0);
	assert_int_equal(o.op.net.address.family, 4);
	cli_operation_done(&o);
	read_words(WORDS((char *)"net", (char *)"a:65536"), -E_BAD_REQUEST);
	read_words(WORDS((char *)"net", (char *)"a:0"), -E_BAD_REQUEST);
	read_words(WORDS((char *)"net", (char *)":1"), -E_BAD_REQUEST);
	read_words(WORDS((char *)"net", (char *)"a"), -E_BAD_REQUEST);
	read_words(WORDS((char *)"net", (char *)"a: 1"), -E_BAD_REQUEST);
	read_words(WORDS((char *)"net", (char *)"a:+1"), -E_BAD_REQUEST);
	o = read_words(WORDS((char *)"net", (char *)"[a]:1"), -E_BAD_REQUEST);
	cli_operation_done(&o);
	read_words(WORDS((char *)"dns", (char *)""), -E_BAD_REQUEST);
	read_words(WORDS((char *)"file", (char *)"read", (char *)""), -E_BAD_REQUEST);
	o = read_words(WORDS((char *)"dns", (char *)"a.example"), 0);
	assert_string_equal(o.op.dns.name, "a.example");
	cli_operation_done(&o);
}

static void pol_4_commands_are_resolved_as_the_kernel_would(void **state)
{
	char dir[] = "/tmp/agentsh-op-XXXXXX";
	cleanup_free char *script = NULL, *link = NULL, *second = NULL,
			  *shell = realpath("/bin/sh", NULL);
	struct cli_operation o;
	int fd;

	assert_non_null(mkdtemp(dir));
	script = mem_printf("%s/run", dir);
	link = mem_printf("%s/link", dir);
	second = mem_printf("%s/second", dir);
	fd = open(script, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(fdio_write_all(fd, "#! /bin/sh -e\n", 14), 0);
	close(fd);
	assert_int_equal(symlink("run", link), 0);
	o = read_words(WORDS((char *)"exec", link, (char *)"-x", (char *)"y"), 0);
	assert_string_equal(o.op.exec.called, link);
	assert_string_equal(o.op.exec.script, script);
	assert_string_equal(o.op.exec.path, shell);
	/* as the kernel gives it: sh -e LINK -x y */
	assert_int_equal(o.op.exec.argc, 5);
	assert_string_equal(o.op.exec.argv[1], "-e");
	assert_string_equal(o.op.exec.argv[2], link);
	assert_string_equal(o.op.exec.argv[3], "-x");
	assert_int_equal(op_exec_own(&o.op), 3);
	cli_operation_done(&o);
	/* a script of a script */
	fd = open(second, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(dprintf(fd, "#!%s\n", link) > 0);
	close(fd);
	o = read_words(WORDS((char *)"exec", second), 0);
	assert_string_equal(o.op.exec.path, shell);
	assert_string_equal(o.op.exec.script, second);
	assert_int_equal(o.op.exec.nchain, 2);
	assert_string_equal(o.op.exec.chain[1], script);
	cli_operation_done(&o);
	unlink(second);
	o = read_words(
		WORDS((char *)"exec", (char *)"/lib64/ld-linux-x86-64.so.2", (char *)"/bin/sh"), 0);
	if (access("/lib64/ld-linux-x86-64.so.2", X_OK) == 0) {
		assert_int_equal(o.op.exec.flags, OP_EXEC_LOADER);
		assert_string_equal(o.op.exec.script, shell);
	}
	cli_operation_done(&o);
	unlink(link);
	unlink(script);
	rmdir(dir);
	o = read_words(WORDS((char *)"exec", (char *)"no-such-command"), 0);
	assert_string_equal(o.op.exec.path, "/usr/bin/no-such-command");
	assert_null(o.op.exec.script);
	cli_operation_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_7_paths_are_made_plain),
		cmocka_unit_test(pol_7_hosts_and_ports),
		cmocka_unit_test(pol_4_commands_are_resolved_as_the_kernel_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
