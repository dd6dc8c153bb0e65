// SPDX-License-Identifier: Apache-2.0
/* Starts the server in the foreground, or works on the server that commands use, by its process. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/cli.h"
#include "config/config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define STOP_MS 30000 /* longer than the server's own deadline */
#define ANSWER_MS 5000
#define NOT_READY 1
#define NOT_RUNNING 3

/* This process executes agentsh-server. */
int cmd_server(struct cli *cli, struct err *err)
{
	cleanup_free char *path = NULL;
	cleanup_strv struct strv argv = {0};
	int r = proc_sibling("agentsh-server", &path, err);

	if (r < 0)
		return r;
	strv_add(&argv, "agentsh-server");
	if (cli->v.help)
		strv_add(&argv, "--help");
	for (int i = 0; i < cli->argc; i++)
		strv_add(&argv, cli->argv[i]);
	execv(path, argv.v);
	return err_errno(err, E_UNAVAILABLE, path, "cannot start %s", path);
}

/* Finds the server that commands use; never starts one. Fails with E_UNAVAILABLE if none runs. */
static int find_server(struct cli *cli, struct client_peer *peer, struct err *err)
{
	int r;

	cli->no_auto = true;
	r = cli_connect(cli, err);
	return r < 0 ? r : client_peer(cli->client, peer, err);
}

/* Reads the arguments of the server. Every user can read them in /proc, unlike its descriptors. */
static void server_args(pid_t pid, struct strv *args)
{
	cleanup_free char *path = mem_printf("/proc/%d/cmdline", (int)pid);
	cleanup_buf struct buf text = {0};

	if (fdio_load_path(path, 65536, &text, NULL) < 0)
		return;
	for (size_t at = 0; at < text.len; at += strlen(text.data + at) + 1)
		strv_add(args, text.data + at);
}

/* Returns the configuration file in the server's arguments; NULL means the usual place. */
static const char *config_of(const struct strv *args)
{
	for (size_t i = 0; i < args->n; i++) {
		if (strncmp(args->v[i], "--config=/", 10) == 0)
			return args->v[i] + 9;
		if (strcmp(args->v[i], "--config") == 0 && i + 1 < args->n &&
		    args->v[i + 1][0] == '/')
			return args->v[i + 1];
	}
	return NULL;
}

/* Returns the path of the server's log, or NULL if it is not a file. */
static char *log_of(struct cli *cli, const char *socket, const struct strv *args)
{
	cleanup_config struct config c = {0};
	const char *slash = strrchr(socket, '/');

	if (cli_config(cli, config_of(args), &c, NULL, NULL) == 0 && c.log_output[0] == '/')
		return mem_strdup(c.log_output);
	/* client/connect.c puts it beside the socket */
	if (strv_has(args, "--auto") && slash != NULL)
		return mem_printf("%.*s/agentsh-server.log", (int)(slash - socket), socket);
	return NULL;
}

static int send_signal(const struct client_peer *peer, int sig, int *pidfd, struct err *err)
{
	cleanup_fd int fd = proc_pidfd(peer->pid);

	if (fd < 0 || proc_pidfd_signal(fd, sig) < 0)
		return errno == EPERM
			       ? err_set(err, E_FORBIDDEN, peer->socket,
					 "the server at %s belongs to uid %u: only that "
					 "user and root can do this",
					 peer->socket, (unsigned)peer->uid)
			       : err_errno(err, E_UNAVAILABLE, peer->socket,
					   "cannot signal the server's process %d", (int)peer->pid);
	*pidfd = take_fd(fd);
	return 0;
}

int cmd_server_stop(struct cli *cli, struct err *err)
{
	struct client_peer peer;
	cleanup_fd int fd = -1;
	int r = find_server(cli, &peer, err);

	if (r == -E_UNAVAILABLE && cli->client == NULL) {
		puts("No server is running.");
		return 0;
	}
	if (r == 0)
		r = send_signal(&peer, SIGTERM, &fd, err);
	if (r < 0)
		return r;
	cleanup_free char *socket = mem_strdup(peer.socket);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	client_close(cli->client);
	cli->client = NULL;
	if (TEMP_FAILURE_RETRY(poll(&p, 1, STOP_MS)) != 1)
		return err_set(err, E_UNAVAILABLE, socket,
			       "the server (process %d) has not ended yet: see agentsh server logs",
			       (int)peer.pid);
	printf("Server stopped: %s\n", socket);
	return 0;
}

int cmd_server_reload(struct cli *cli, struct err *err)
{
	struct client_peer peer;
	cleanup_strv struct strv args = {0};
	cleanup_config struct config c = {0};
	cleanup_buf struct buf report = {0};
	cleanup_fd int fd = -1;
	int r = find_server(cli, &peer, err);

	if (r < 0)
		return r;
	server_args(peer.pid, &args);
	/* The server would keep its old configuration and only log the error. */
	r = cli_config(cli, config_of(&args), &c, &report, err);
	if (r < 0 && report.len > 0)
		fwrite(report.data, 1, report.len, stderr);
	if (r == 0)
		r = send_signal(&peer, SIGHUP, &fd, err);
	if (r == 0)
		printf("Server reads its configuration again: %s\n", peer.socket);
	return r;
}

int cmd_server_logs(struct cli *cli, struct err *err)
{
	struct client_peer peer = {0};
	cleanup_strv struct strv args = {0};
	cleanup_config struct config c = {0};
	cleanup_free char *path = NULL;
	cleanup_fd int fd = -1;
	char piece[65536];
	ssize_t n = -1;
	int r = find_server(cli, &peer, err);

	if (r == 0) {
		server_args(peer.pid, &args);
		path = log_of(cli, peer.socket, &args);
	} else if (r == -E_UNAVAILABLE && cli->client == NULL &&
		   cli_config(cli, NULL, &c, NULL, NULL) == 0) {
		/* No server runs: show the log of the last one that a command started. */
		strv_add(&args, "--auto");
		path = log_of(cli, c.unix_socket, &args);
		r = path != NULL && access(path, F_OK) == 0 ? 0 : r;
	}
	if (r < 0)
		return r;
	if (path == NULL)
		return err_set(err, E_NOT_FOUND, peer.socket,
			       "the server (process %d) writes its log to where it was started; "
			       "logging.output names a file",
			       (int)peer.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	while (fd >= 0 && (n = TEMP_FAILURE_RETRY(read(fd, piece, sizeof(piece)))) > 0)
		fwrite(piece, 1, (size_t)n, stdout);
	return n < 0 ? err_errno(err, E_UNAVAILABLE, path, "cannot read %s", path) : 0;
}

struct status {
	bool ready, by_auto, has_peer;
	struct client_peer peer;
	long long sessions;
	char *version, *log; /* owned; version NULL: the server has not answered */
};

/* Asks /health and /ready. An error answer of /ready has the same body. */
static int ask_status(struct cli *cli, struct status *s, struct err *err)
{
	cleanup_buf struct buf ready = {0};
	json_auto_t *health = NULL, *doc = NULL;
	const int r = cli_call_json(cli, "GET", "/health", NULL, false, &health, err);

	if (r < 0)
		return r;
	s->version = mem_strdup(cli_string(health, "version"));
	if (cli_call(cli, "GET", "/ready", NULL, &ready, NULL) < 0)
		buf_add(&ready, cli->refusal.data, cli->refusal.len);
	if (json_parse(ready.data, ready.len, &doc, NULL) == 0) {
		s->ready = json_is_true(json_object_get(doc, "ready"));
		s->sessions = json_integer_value(json_object_get(doc, "sessions"));
	}
	return 0;
}

static void format_status(const struct status *s, bool json, struct buf *out)
{
	struct jw w = JW(out);

	if (json) {
		jw_obj(&w);
		jw_kbool(&w, "running", true);
		jw_kbool(&w, "ready", s->ready);
		jw_kint(&w, "sessions", s->sessions);
		jw_kstr(&w, "version", s->version);
		if (s->has_peer) {
			jw_kstr(&w, "socket", s->peer.socket);
			jw_kint(&w, "pid", s->peer.pid);
			jw_kint(&w, "uid", s->peer.uid);
			jw_kbool(&w, "auto", s->by_auto);
		}
		if (s->log != NULL)
			jw_kstr(&w, "log", s->log);
		jw_obj_end(&w);
		return;
	}
	if (s->version == NULL)
		buf_adds(out, "Server:   running, does not answer\n");
	else
		buf_addf(out, "Server:   %s, version %s, %lld living sessions\n",
			 s->ready ? "ready" : "running, not ready", s->version, s->sessions);
	if (s->has_peer)
		buf_addf(out, "Socket:   %s\nProcess:  %d, uid %u, %s\n", s->peer.socket,
			 (int)s->peer.pid, (unsigned)s->peer.uid,
			 s->by_auto ? "started by a command; ends when idle"
				    : "started by hand or by the system");
	if (s->log != NULL)
		buf_addf(out, "Log:      %s\n", s->log);
}

int cmd_server_status(struct cli *cli, struct err *err)
{
	struct status s = {0};
	cleanup_strv struct strv args = {0};
	cleanup_buf struct buf out = {0};
	int r;

	cli->no_auto = true;
	r = cli_connect(cli, err);
	if (r == -E_UNAVAILABLE) {
		if (cli->v.json)
			puts("{\n  \"running\": false\n}");
		else if (cli->v.server != NULL || getenv("AGENTSH_SERVER") != NULL)
			printf("No server is running: %s\n", err->message);
		else
			puts("No server is running; a command that needs one starts it.");
		return NOT_RUNNING;
	}
	if (r < 0)
		return r;
	s.has_peer = client_peer(cli->client, &s.peer, NULL) == 0;
	if (s.has_peer) {
		server_args(s.peer.pid, &args);
		s.by_auto = strv_has(&args, "--auto");
		s.log = log_of(cli, s.peer.socket, &args);
	}
	client_set_patience(cli->client, ANSWER_MS);
	r = ask_status(cli, &s, err);
	if (r == 0 || (r == -E_UNAVAILABLE && s.has_peer && cli->refusal.len == 0)) {
		format_status(&s, cli->v.json, &out);
		cli_show(cli, &out);
		r = s.ready ? 0 : NOT_READY;
	}
	free(s.version);
	free(s.log);
	return r;
}
