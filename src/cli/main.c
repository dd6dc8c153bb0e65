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

void cli_print(const struct buf *b)
{
	if (b->len > 0)
		fwrite(b->data, 1, b->len, stdout);
}

bool cli_reader_left(void)
{
	struct pollfd p[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

	return poll(p, 2, 0) > 0 && ((p[0].revents | p[1].revents) & POLLERR) != 0;
}

/* A command may use the server of another user, usually the system's. Writes this to stderr once
 * for each server; a file in the runtime directory remembers the last one. */
static void note_other_user(const struct cli *cli)
{
	const char *named = cli->v.server != NULL ? cli->v.server : getenv("AGENTSH_SERVER");
	struct client_peer peer;
	cleanup_config struct config config = {0};
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
		cleanup_free char *path = mem_printf("%s/server-named", dir);

		fdio_mkdirs(dir, 0700, NULL);
		cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd >= 0 && pread(fd, told, sizeof(told) - 1, 0) >= 0 &&
		    strcmp(told, seen) != 0 && ftruncate(fd, 0) == 0)
			fdio_write_all(fd, seen, strlen(seen));
	}
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
		note_other_user(cli);
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
		  bool show, json_t **doc, struct err *err)
{
	cleanup_buf struct buf answer = {0};
	int r = cli_call(cli, method, path, body, &answer, err);

	if (r == 0)
		r = json_parse(answer.data, answer.len, doc, err);
	if (r == 0 && show)
		cli_print_json(&answer);
	return r;
}

int cli_session_path(const char *id, const char *rest, char **path, struct err *err)
{
	if (!id_valid(id))
		return err_set(err, E_SESSION_NOT_FOUND, id, "no session '%s'", id);
	*path = mem_printf("/api/v1/sessions/%s%s", id, rest);
	return 0;
}

/* Returns the command that the first one or two words name; *used is the number of words. */
static const struct cli_command *find(int argc, char **argv, int *used)
{
	cleanup_free char *two = argc > 1 ? mem_printf("%s %s", argv[0], argv[1]) : mem_strdup("");

	for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
		*used = strcmp(c->name, argv[0]) == 0 ? 1 : strcmp(c->name, two) == 0 ? 2 : 0;
		if (*used > 0)
			return c;
	}
	return NULL;
}

static void print_error(const struct err *err)
{
	cleanup_buf struct buf out = {0};

	cli_line(&out, "agentsh: %s: %s", err_row(err->code)->name, err->message);
	for (unsigned i = 0; i < err->ndetails && i < ERR_DETAILS; i++)
		if (strcmp(err->details[i].problem, err->message) != 0)
			cli_line(&out, "agentsh:   %s: %s", err->details[i].field,
				 err->details[i].problem);
	cli_denial(err->denial, &out);
	fwrite(out.data, 1, out.len, stderr);
}

/* Handles a word that is not a command: a group without a command of it, or an unknown word. */
static int no_command(const struct cli *cli, struct err *err)
{
	const char *word = cli->argv[0], *next = cli->argc > 1 ? cli->argv[1] : "", *near;
	const struct cli_command *c = cli_group(word, NULL);
	cleanup_buf struct buf text = {0};
	cleanup_strv struct strv known = {0};

	if (c == NULL) {
		for (c = cli_commands; c->name != NULL; c++) {
			cleanup_free char *first = mem_strndup(c->name, strcspn(c->name, " "));

			strv_add(&known, first);
		}
		near = yaml_suggest(word, (const char *const *)known.v);
		return err_set(err, E_BAD_REQUEST, word, "no command '%s' (%s%s%sagentsh help)",
			       word, near != NULL ? "did you mean '" : "", near != NULL ? near : "",
			       near != NULL ? "'? " : "");
	}
	if ((cli->v.help && cli->argc == 1) || strcmp(next, "--help") == 0 ||
	    strcmp(next, "-h") == 0) {
		cli_help_group(word, &text);
		cli_print(&text);
		return 0;
	}
	for (; c != NULL; c = cli_group(word, c))
		buf_addf(&text, "%s%s", text.len > 0 ? ", " : "", strchr(c->name, ' ') + 1);
	return err_set(err, E_BAD_REQUEST, word, "%s: give one of %s", word, text.data);
}

/* Runs the command at cli->argv, or prints its help. */
static int dispatch(struct cli *cli, struct err *err)
{
	const struct cli_command *cmd;
	cleanup_buf struct buf text = {0};
	int used = 0, r = 0;

	if (cli->argc == 0) {
		cli_help_group("", &text);
		fwrite(text.data, 1, text.len, cli->v.help ? stdout : stderr);
		return cli->v.help ? 0 : CLI_FAILED;
	}
	cmd = find(cli->argc, cli->argv, &used);
	if (cmd == NULL)
		return no_command(cli, err);
	cli->argc -= used;
	cli->argv += used;
	if (cmd->run == cmd_server) /* agentsh-server reads all words itself */
		return cmd_server(cli, err);
	if (!cli->v.help)
		r = cli_parse(cmd, cli->argc, cli->argv, cli, err);
	if (r < 0)
		return r;
	if (cli->v.help) {
		cli_help(cmd, &text);
		cli_print(&text);
		return 0;
	}
	if (cli->argc < cmd->least)
		return err_set(err, E_BAD_REQUEST, NULL, "usage: agentsh %s %s", cmd->name,
			       cmd->operands);
	if (cli->argc > cmd->most)
		return err_set(err, E_BAD_REQUEST, cli->argv[cmd->most], "%s: unexpected '%s'",
			       cmd->name, cli->argv[cmd->most]);
	return cmd->run(cli, err);
}

int cmd_help(struct cli *cli, struct err *err)
{
	cli->v.help = true;
	return dispatch(cli, err);
}

static int run(struct cli *cli, int argc, char **argv, struct err *err)
{
	const int r = cli_parse(&cli_top, argc - 1, argv + 1, cli, err);

	if (r < 0)
		return r;
	if (cli->v.version)
		return cmd_version(cli, err);
	if (cli->v.help)
		cli->argc = 0; /* help on a command comes behind its name */
	return dispatch(cli, err);
}

int cli_main(int argc, char **argv)
{
	struct cli cli = {0};
	cleanup_buf struct buf body = {0};
	struct err err = {0};
	json_auto_t *sent = NULL;
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
		fflush(stdout);
		print_error(&err);
		status = err_row(err.code)->exit;
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

int cmd_version(struct cli *cli, struct err *err)
{
	if (cli->v.json)
		printf("{\"version\":\"%s\"}\n", AGENTSH_VERSION);
	else
		printf("agentsh %s\n", AGENTSH_VERSION);
	return 0;
}
