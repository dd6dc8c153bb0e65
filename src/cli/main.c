// SPDX-License-Identifier: Apache-2.0
/* Finds the row of a command, runs it and turns its error into the exit status. */
#include "base/err_body.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "cli/cli.h"
#include "config/config.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_status(const struct err *err)
{
	return err_row(err->code)->exit;
}

void cli_print(const struct buf *b)
{
	fwrite(b->data, 1, b->len, stdout);
}

bool cli_reader_left(void)
{
	struct pollfd p[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

	return poll(p, 2, 0) > 0 && ((p[0].revents | p[1].revents) & POLLERR) != 0;
}

/* A command may use the server of another user, usually the system's. This is said on stderr once
 * for each server; a file in the runtime directory remembers the last one. */
static void tell_whose(const struct cli *cli)
{
	const char *named = cli->v.server != NULL ? cli->v.server : getenv("AGENTSH_SERVER");
	struct client_peer peer;
	struct config config = {0};
	struct stat st;
	char seen[64] = "", told[64] = "";

	if (geteuid() == 0 || (named != NULL && named[0] != '\0') ||
	    client_peer(cli->client, &peer, NULL) < 0 || peer.uid == geteuid() ||
	    stat(peer.socket, &st) < 0)
		return;
	snprintf(seen, sizeof(seen), "%llu %lld", (unsigned long long)st.st_ino,
		 (long long)st.st_ctime);
	if (config_defaults(CONFIG_USER, &config, NULL) == 0) {
		cleanup_free char *dir = config_runtime_dir(&config);
		cleanup_free char *path = mem_printf("%s/told-server", dir);

		fdio_mkdirs(dir, 0700, NULL);
		cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd >= 0 && pread(fd, told, sizeof(told) - 1, 0) >= 0 &&
		    strcmp(told, seen) != 0 && ftruncate(fd, 0) == 0)
			fdio_write_all(fd, seen, strlen(seen));
	}
	config_done(&config);
	if (strcmp(told, seen) != 0)
		fprintf(stderr,
			"agentsh: using the server of uid %u at %s; no server of your own is "
			"running\n",
			(unsigned)peer.uid, peer.socket);
}

int cli_connect(struct cli *cli, struct err *err)
{
	const struct client_options o = {.server = cli->v.server,
					 .api_key = cli->v.api_key ? cli->v.api_key
								   : getenv("AGENTSH_API_KEY"),
					 .no_auto = cli->no_auto};
	int r;

	if (cli->client != NULL)
		return 0;
	r = client_open(&o, &cli->client, err);
	if (r == 0)
		tell_whose(cli);
	return r;
}

int cli_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct buf *answer, struct err *err)
{
	const struct client_call call = {.method = method,
					 .path = path,
					 .body = body ? body->data : NULL,
					 .len = body ? body->len : 0,
					 .idempotency_key = cli->v.idempotency_key,
					 .refusal = &cli->refusal};
	const int r = cli_connect(cli, err);

	return r < 0 ? r : client_call(cli->client, &call, answer, err);
}

int cli_call_json(struct cli *cli, const char *method, const char *path, const struct buf *body,
		  struct buf *text, json_t **doc, struct err *err)
{
	cleanup_buf struct buf own = {0};
	struct buf *to = text != NULL ? text : &own;
	const int r = cli_call(cli, method, path, body, to, err);

	return r < 0 ? r : json_parse(to->data, to->len, doc, err);
}

int cli_session_name(const char *name, struct err *err)
{
	return id_valid(name) ? 0
			      : err_set(err, E_SESSION_NOT_FOUND, name, "no session '%s'", name);
}

int cli_command_name(const char *name, struct err *err)
{
	return id_valid(name) ? 0 : err_set(err, E_NOT_FOUND, name, "no command '%s'", name);
}

/* Returns the row whose name is the first one or two words; *used is the number of words. */
static const struct cli_command *find(int argc, char **argv, int *used)
{
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
		const char *space = strchr(c->name, ' ');
		size_t first = space ? (size_t)(space - c->name) : strlen(c->name);

		if (strlen(argv[0]) != first || strncmp(argv[0], c->name, first) != 0)
			continue;
		if (space == NULL || (argc > 1 && strcmp(argv[1], space + 1) == 0)) {
			*used = space ? 2 : 1;
			return c;
		}
	}
	return NULL;
}

static void print_error(const struct err *err)
{
	cleanup_buf struct buf out = {0};

	buf_addf(&out, "agentsh: %s: ", err_row(err->code)->name);
	cli_visible(err->message, &out);
	buf_addc(&out, '\n');
	for (unsigned i = 0; i < err->ndetails && i < ERR_DETAILS; i++) {
		buf_adds(&out, "agentsh:   ");
		cli_visible(err->details[i].field, &out);
		buf_adds(&out, ": ");
		cli_visible(err->details[i].problem, &out);
		buf_addc(&out, '\n');
	}
	if (err->policy[0] != '\0')
		cli_denial(err->policy, &out);
	fwrite(out.data, 1, out.len, stderr);
}

/* Options before the command: --server, --api-key, --help, --version. */
static int read_globals(struct cli *cli, int argc, char **argv, struct err *err)
{
	static const struct cli_command top = {.name = "", .operands = ""};
	int i = 1;

	while (argv[i] != NULL && argv[i][0] == '-' && argv[i][1] != '\0') {
		char *one[2] = {argv[i], i + 1 < argc ? argv[i + 1] : NULL};
		bool pair = strchr(argv[i], '=') == NULL && strcmp(argv[i], "--help") != 0 &&
			    strcmp(argv[i], "-h") != 0;
		int r;

		if (strcmp(argv[i], "--version") == 0)
			return i; /* run() handles the word */
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		r = cli_parse(&top, pair && one[1] ? 2 : 1, one, cli, err);
		if (r < 0)
			return r;
		i += pair && one[1] ? 2 : 1;
	}
	return i;
}

/* Handles a word that is not a command: a group without a command of it, or an unknown word. */
static int no_command(int argc, char **argv, struct err *err)
{
	const struct cli_command *c = cli_group(argv[0], NULL);
	cleanup_buf struct buf text = {0};
	struct strv known = {0};
	const char *near;

	if (c == NULL) {
		for (c = cli_commands; c->name != NULL; c++) {
			cleanup_free char *first = mem_strndup(c->name, strcspn(c->name, " "));

			strv_add(&known, first);
		}
		near = yaml_suggest(argv[0], (const char *const *)known.v);
		err_set(err, E_BAD_REQUEST, argv[0], "no command '%s' (%s%s%sagentsh help)",
			argv[0], near != NULL ? "did you mean '" : "", near != NULL ? near : "",
			near != NULL ? "'? " : "");
		strv_done(&known);
		return -E_BAD_REQUEST;
	}

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		cli_help_group(argv[0], &text);
		cli_print(&text);
		return 0;
	}
	for (; c != NULL; c = cli_group(argv[0], c))
		buf_addf(&text, "%s%s", text.len > 0 ? ", " : "", strchr(c->name, ' ') + 1);
	return err_set(err, E_BAD_REQUEST, argv[0], "%s: give one of %s", argv[0], text.data);
}

static int run(struct cli *cli, int argc, char **argv, struct err *err)
{
	int at = read_globals(cli, argc, argv, err), used = 0, r;
	const struct cli_command *cmd;
	cleanup_buf struct buf text = {0};

	if (at < 0)
		return at;
	if (at >= argc || cli->v.help) {
		cli_help(NULL, &text);
		fwrite(text.data, 1, text.len, cli->v.help ? stdout : stderr);
		return cli->v.help ? 0 : CLI_USAGE;
	}
	if (strcmp(argv[at], "--version") == 0)
		return cmd_version(cli, err);
	cmd = find(argc - at, argv + at, &used);
	if (cmd == NULL)
		return no_command(argc - at, argv + at, err);
	argc -= at + used;
	argv += at + used;
	if (cmd->raw) {
		cli->argc = argc;
		cli->argv = argv;
		return cmd->run(cli, err);
	}
	r = cli_parse(cmd, argc, argv, cli, err);
	if (r < 0)
		return r;
	if (cli->v.help) {
		cli_help(cmd, &text);
		cli_print(&text);
		return 0;
	}
	if (cmd->operands[0] == '\0' && cli->argc > 0)
		return err_set(err, E_BAD_REQUEST, cli->argv[0], "%s: unexpected '%s'", cmd->name,
			       cli->argv[0]);
	return cmd->run(cli, err);
}

int cli_main(int argc, char **argv)
{
	struct cli cli = {0};
	cleanup_buf struct buf body = {0};
	struct err err = {0};
	json_t *sent = NULL;
	int status;

	signal(SIGPIPE, SIG_IGN);
	status = run(&cli, argc, argv, &err);
	if (status < 0) {
		/* a reader of JSON gets the server's own error body, if the server sent one */
		if ((cli.v.json || cli.structured) && cli.refusal.len > 0 &&
		    json_parse(cli.refusal.data, cli.refusal.len, &sent, NULL) == 0) {
			cli_print_json(&cli.refusal);
		} else if (cli.v.json || cli.structured) {
			err_body_format(&err, NULL, &body);
			cli_print_json(&body);
		}
		json_decref(sent);

		fflush(stdout);
		print_error(&err);
		status = cli_status(&err);
	}
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) {
		status = cli_reader_left() ? CLI_PIPE : CLI_FAILED;
		if (status == CLI_FAILED)
			fputs("agentsh: cannot write to stdout\n", stderr);
	}
	client_close(cli.client);
	buf_done(&cli.refusal);
	strv_done(&cli.v.env);
	strv_done(&cli.v.set);
	return status;
}

int cmd_help(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf text = {0};
	int used;
	const struct cli_command *cmd = cli->argc > 0 ? find(cli->argc, cli->argv, &used) : NULL;

	if (cli->argc == 1 && cmd == NULL && cli_group(cli->argv[0], NULL) != NULL)
		cli_help_group(cli->argv[0], &text);
	else if (cli->argc > 0 && cmd == NULL)
		return no_command(cli->argc, cli->argv, err);
	else if (cmd != NULL && cmd->raw) { /* the command knows its options itself */
		cli->argc = 1;
		cli->argv = (char *[]){(char[]){"--help"}, NULL};
		return cmd->run(cli, err);
	} else
		cli_help(cmd, &text);
	cli_print(&text);
	return 0;
}

int cmd_version(struct cli *cli, struct err *err)
{
	if (cli->v.json)
		printf("{\"version\":\"%s\"}\n", AGENTSH_VERSION);
	else
		printf("agentsh %s\n", AGENTSH_VERSION);
	return 0;
}
