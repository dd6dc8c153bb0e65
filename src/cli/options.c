// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/yaml.h"
#include "cli/cli.h"

static const struct cli_option *find(const struct cli_option *table, const char *name, size_t len)
{
	for (; table != NULL && table->name != NULL; table++)
		if (strlen(table->name) == len && strncmp(table->name, name, len) == 0)
			return table;
	return NULL;
}

static void add_names(const struct cli_option *table, struct strv *out)
{
	for (; table != NULL && table->name != NULL; table++)
		strv_add(out, table->name);
}

static int no_option(const struct cli_command *cmd, const char *arg, size_t len, struct err *err)
{
	cleanup_free char *name = mem_printf("%.*s", (int)len, arg);
	cleanup_strv struct strv known = {0};
	const char *near;

	add_names(cmd->options, &known);
	add_names(cli_globals, &known);
	near = yaml_suggest(name, (const char *const *)known.v);
	return err_set(err, E_BAD_REQUEST, arg, "no option %s (%s%s%sagentsh %s%s--help)", name,
		       near != NULL ? "did you mean " : "", near != NULL ? near : "",
		       near != NULL ? "? " : "", cmd->name, cmd->name[0] ? " " : "");
}

/* Reads the option at argv[*i] and moves *i to its value. */
static int read_option(const struct cli_command *cmd, struct cli *cli, int argc, char **argv,
		       int *i, struct err *err)
{
	const char *arg = strcmp(argv[*i], "-h") == 0 ? "--help" : argv[*i];
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] == '=' ? arg + len + 1 : NULL;
	const struct cli_option *o = find(cmd->options, arg, len);
	char *at;

	if (o == NULL)
		o = find(cli_globals, arg, len);
	if (o == NULL)
		return no_option(cmd, arg, len, err);
	if (o->kind == CLI_FLAG && value != NULL)
		return err_set(err, E_BAD_REQUEST, arg, "%s takes no value", o->name);
	if (o->kind != CLI_FLAG && value == NULL) {
		if (*i + 1 >= argc)
			return err_set(err, E_BAD_REQUEST, arg, "%s needs a value: %s", o->name,
				       o->value);
		value = argv[++*i];
	}
	at = (char *)&cli->v + o->offset;
	if (o->kind == CLI_FLAG)
		*(bool *)at = true;
	else if (o->kind == CLI_TEXT)
		*(const char **)at = value;
	else
		strv_add((struct strv *)at, value);
	return 0;
}

int cli_parse(const struct cli_command *cmd, int argc, char **argv, struct cli *cli,
	      struct err *err)
{
	/* The words of a command to execute are not options of agentsh. */
	int stop = cmd->run == cmd_exec							   ? 1
		   : cmd == &cli_top || cmd->run == cmd_run || cmd->run == cmd_policy_test ? 0
											   : argc;
	int n = 0;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			while (++i < argc)
				argv[n++] = argv[i];
		} else if (argv[i][0] == '-' && argv[i][1] != '\0') {
			int r = read_option(cmd, cli, argc, argv, &i, err);

			if (r < 0)
				return r;
		} else if (n == stop) {
			while (i < argc)
				argv[n++] = argv[i++];
		} else {
			argv[n++] = argv[i];
		}
	}
	cli->argc = n;
	cli->argv = argv;
	return 0;
}

static void help_options(const struct cli_option *table, struct buf *out)
{
	for (; table != NULL && table->name != NULL; table++) {
		cleanup_free char *left = mem_printf("%s%s%s", table->name, table->value ? " " : "",
						     table->value ? table->value : "");

		buf_addf(out, "  %-28s %s\n", left, table->help);
	}
}

static void help_everywhere(struct buf *out)
{
	buf_adds(out, "\neverywhere:\n");
	help_options(cli_globals, out);
	buf_adds(out, "\nexit codes: the command's own; 124 time-out, 125 agentsh failed, 126 "
		      "denied or not\n"
		      "executable, 127 not found, 128+n signal\n");
}

const struct cli_command *cli_group(const char *word, const struct cli_command *after)
{
	const size_t len = strlen(word);

	for (after = after != NULL ? after + 1 : cli_commands; after->name != NULL; after++)
		if (len == 0 || (strncmp(after->name, word, len) == 0 && after->name[len] == ' '))
			return after;
	return NULL;
}

void cli_help_group(const char *word, struct buf *out)
{
	if (word[0] != '\0')
		buf_addf(out, "usage: agentsh %s COMMAND\n", word);
	else
		buf_adds(out, "usage: agentsh [--server ADDR] [--api-key KEY] COMMAND\n"
			      "Runs commands of AI agents in guarded sessions.\n");
	buf_adds(out, "\ncommands:\n");
	for (const struct cli_command *c = NULL; (c = cli_group(word, c)) != NULL;)
		buf_addf(out, "  %-18s %s\n", c->name, c->summary);
	help_everywhere(out);
}

void cli_help(const struct cli_command *cmd, struct buf *out)
{
	buf_addf(out, "usage: agentsh %s%s%s\n%s\n", cmd->name, cmd->operands[0] ? " " : "",
		 cmd->operands, cmd->summary);
	if (cmd->options != NULL) {
		buf_adds(out, "\noptions:\n");
		help_options(cmd->options, out);
	}
	if (cmd->examples != NULL)
		buf_addf(out, "\nexamples:\n%s", cmd->examples);
	help_everywhere(out);
}
