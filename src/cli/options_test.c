// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cli.h"

#define WORDS_MAX 16

/* One command line, cut at spaces. */
struct line {
	char text[256];
	char *argv[WORDS_MAX];
	struct cli cli;
	struct err err;
	int r;
};

static const struct cli_command *command(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	fail_msg("no command %s", name);
	return NULL;
}

static void parse(struct line *l, const char *name, const char *text)
{
	int argc = 0;
	char *save = NULL;

	*l = (struct line){0};
	assert_true(strlen(text) < sizeof(l->text));
	memcpy(l->text, text, strlen(text));
	for (char *w = strtok_r(l->text, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		l->argv[argc++] = w;
	assert_true(argc < WORDS_MAX);
	l->r = cli_parse(command(name), argc, l->argv, &l->cli, &l->err);
}

static void done(struct line *l)
{
	strv_done(&l->cli.v.env);
	strv_done(&l->cli.v.set);
}

/* The operands that are left, with spaces between. */
static void assert_operands(struct line *l, const char *want)
{
	cleanup_buf struct buf got = {0};

	buf_adds(&got, "");
	assert_int_equal(l->r, 0);
	for (int i = 0; i < l->cli.argc; i++)
		buf_addf(&got, "%s%s", i > 0 ? " " : "", l->cli.argv[i]);
	assert_string_equal(got.data, want);
}

static void assert_refused(const char *name, const char *text, const char *message)
{
	struct line l;

	parse(&l, name, text);
	assert_int_equal(l.r, -E_BAD_REQUEST);
	assert_string_equal(l.err.message, message);
	done(&l);
}

static void cli_1_values_behind_a_space_or_an_equals_sign(void **state)
{
	struct line l;

	parse(&l, "session create", "--id a --policy=observe --workspace= --timeout 5m");
	assert_operands(&l, "");
	assert_string_equal(l.cli.v.id, "a");
	assert_string_equal(l.cli.v.policy, "observe");
	assert_string_equal(l.cli.v.workspace, "");
	assert_string_equal(l.cli.v.timeout, "5m");
	assert_null(l.cli.v.background);
	done(&l);
	parse(&l, "session create", "--id=a=b --id -x"); /* the last one counts, whatever it is */
	assert_string_equal(l.cli.v.id, "-x");
	done(&l);
	parse(&l, "output", "cmd-1 --offset=10 --limit --json");
	assert_operands(&l, "cmd-1");
	assert_string_equal(l.cli.v.limit, "--json");
	assert_false(l.cli.v.json);
	done(&l);
}

static void cli_1_flags_and_lists(void **state)
{
	struct line l;

	parse(&l, "session create", "--env A=1 --json --env=B=2");
	assert_operands(&l, "");
	assert_true(l.cli.v.json);
	assert_int_equal(l.cli.v.env.n, 2);
	assert_string_equal(l.cli.v.env.v[0], "A=1");
	assert_string_equal(l.cli.v.env.v[1], "B=2");
	done(&l);
	parse(&l, "exec", "s --stream --detach --no-queue -- true");
	assert_true(l.cli.v.stream && l.cli.v.detach && l.cli.v.no_queue);
	done(&l);
}

static void cli_1_global_options_stand_anywhere(void **state)
{
	struct line l;

	parse(&l, "session info", "a --server unix:/x --api-key=k b");
	assert_operands(&l, "a b");
	assert_string_equal(l.cli.v.server, "unix:/x");
	assert_string_equal(l.cli.v.api_key, "k");
	assert_false(l.cli.v.help);
	done(&l);
	parse(&l, "help", "--help");
	assert_true(l.cli.v.help);
	done(&l);
}

static void cli_1_wrong_options_are_named(void **state)
{
	assert_refused("exec", "s --nope=1", "no option --nope (agentsh exec --help)");
	assert_refused("session list", "--limit 5",
		       "no option --limit (agentsh session list --help)");
	assert_refused("session list", "--jso",
		       "no option --jso (did you mean --json? agentsh session list --help)");
	assert_refused("session list", "--jsonx",
		       "no option --jsonx (did you mean --json? agentsh session list --help)");
	assert_refused("session list", "-j", "no option -j (agentsh session list --help)");
	assert_refused("session list", "--json=1", "--json takes no value");
	assert_refused("session list", "--help=", "--help takes no value");
	assert_refused("session create", "--id", "--id needs a value: ID");
	assert_refused("exec", "s --env", "--env needs a value: NAME=VALUE");
	assert_refused("exec", "s --server", "--server needs a value: ADDR");
}

static void cli_1_dashes_end_the_options(void **state)
{
	struct line l;

	parse(&l, "session info", "a -- --json -x -- b");
	assert_operands(&l, "a --json -x -- b");
	assert_false(l.cli.v.json);
	done(&l);
	parse(&l, "session info", "a -");
	assert_operands(&l, "a -"); /* a dash alone is an operand */
	done(&l);
	parse(&l, "session info", "--");
	assert_operands(&l, "");
	done(&l);
}

static void cli_1_exec_reads_options_up_to_the_command(void **state)
{
	struct line l;

	parse(&l, "exec", "--timeout 5s s --output shell ls --json -l");
	assert_operands(&l, "s ls --json -l");
	assert_string_equal(l.cli.v.timeout, "5s");
	assert_string_equal(l.cli.v.output, "shell");
	assert_null(l.cli.v.json_text);
	done(&l);
	parse(&l, "exec", "s --json {} --stream");
	assert_operands(&l, "s");
	assert_string_equal(l.cli.v.json_text, "{}");
	assert_true(l.cli.v.stream);
	done(&l);
	parse(&l, "exec", "s -- -l --json");
	assert_operands(&l, "s -l --json");
	done(&l);
	parse(&l, "exec", "s ls -- --stream");
	assert_operands(&l, "s ls -- --stream"); /* the dashes are the command's */
	done(&l);
}

static void cli_1_run_reads_options_up_to_the_command(void **state)
{
	struct line l;

	parse(&l, "run", "--policy observe make --policy x");
	assert_operands(&l, "make --policy x");
	assert_string_equal(l.cli.v.policy, "observe");
	done(&l);
	parse(&l, "run", "-- --weird-name");
	assert_operands(&l, "--weird-name");
	done(&l);
}

static void cli_1_other_commands_mix_options_and_operands(void **state)
{
	struct line l;

	parse(&l, "kill", "s --signal KILL cmd-1 --grace=1s");
	assert_operands(&l, "s cmd-1");
	assert_string_equal(l.cli.v.signal, "KILL");
	assert_string_equal(l.cli.v.grace, "1s");
	done(&l);
}

static void cli_1_help_names_every_command(void **state)
{
	cleanup_buf struct buf out = {0};

	cli_help_group("", &out);
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
		cleanup_free char *row = mem_printf("\n  %-18s %s\n", c->name, c->summary);

		assert_non_null(strstr(out.data, row));
	}
	assert_non_null(strstr(out.data, "\neverywhere:\n  --server ADDR"));
	assert_non_null(strstr(out.data, "124 time-out, 125 agentsh failed"));
}

static void assert_begins(const struct buf *b, const char *with)
{
	assert_true(b->len >= strlen(with));
	assert_memory_equal(b->data, with, strlen(with));
}

static void cli_1_help_of_a_command(void **state)
{
	cleanup_buf struct buf out = {0};

	cli_help(command("kill"), &out);
	assert_begins(&out, "usage: agentsh kill [SESSION] COMMAND\nend a running command\n"
			    "\noptions:\n"
			    "  --signal NAME                default TERM\n");
	assert_non_null(strstr(out.data, "\n  --json                       print"));
	buf_clear(&out);
	cli_help(command("help"), &out); /* has no options of its own */
	assert_null(strstr(out.data, "\noptions:"));
	assert_non_null(strstr(out.data, "\neverywhere:"));
	buf_clear(&out);
	cli_help(command("session list"), &out); /* nor operands */
	assert_begins(&out, "usage: agentsh session list\nlist");
}

/* The help would be wrong if two rows of a table had the same name, or a flag had a value's name.
 */
static void cli_1_tables_of_options_are_sound(void **state)
{
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
		for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++) {
			assert_memory_equal(o->name, "--", 2);
			assert_int_equal(o->kind == CLI_FLAG, o->value == NULL);
			assert_true(o->help[0] != '\0');
			for (const struct cli_option *p = c->options; p != o; p++)
				assert_string_not_equal(p->name, o->name);
			for (const struct cli_option *g = cli_globals; g->name != NULL; g++)
				assert_string_not_equal(g->name, o->name);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_values_behind_a_space_or_an_equals_sign),
		cmocka_unit_test(cli_1_flags_and_lists),
		cmocka_unit_test(cli_1_global_options_stand_anywhere),
		cmocka_unit_test(cli_1_wrong_options_are_named),
		cmocka_unit_test(cli_1_dashes_end_the_options),
		cmocka_unit_test(cli_1_exec_reads_options_up_to_the_command),
		cmocka_unit_test(cli_1_run_reads_options_up_to_the_command),
		cmocka_unit_test(cli_1_other_commands_mix_options_and_operands),
		cmocka_unit_test(cli_1_help_names_every_command),
		cmocka_unit_test(cli_1_help_of_a_command),
		cmocka_unit_test(cli_1_tables_of_options_are_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
