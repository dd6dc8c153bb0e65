// SPDX-License-Identifier: Apache-2.0
/* output, kill and events: they look at commands from outside. */
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <stdio.h>

#define PAGE (256 * 1024)

/* Asks for the session of a command. Rejects anything that is not an id: it goes into a URL path.
 */
static int session_of(struct cli *cli, const char *command, struct buf *out, struct err *err)
{
	cleanup_free char *path = mem_printf("/api/v1/commands/%s", command);
	json_auto_t *doc = NULL;
	int r;

	if (!id_valid(command))
		return err_set(err, E_NOT_FOUND, command, "no command '%s'", command);
	r = cli_call_json(cli, "GET", path, NULL, false, &doc, err);
	if (r == 0)
		buf_adds(out, cli_string(doc, "session_id"));
	return r;
}

static int number(const char *name, const char *text, uint64_t fallback, uint64_t *out,
		  struct err *err)
{
	*out = fallback;
	if (text == NULL)
		return 0;
	if (*text == '\0' || strlen(text) > 18 || strspn(text, "0123456789") != strlen(text))
		return err_set(err, E_BAD_REQUEST, name, "%s: not a number: '%s'", name, text);
	*out = strtoull(text, NULL, 10);
	return 0;
}

struct page {
	uint64_t offset, limit;
	bool more;
};

static int print_page(struct cli *cli, const char *base, struct page *p, struct err *err)
{
	const uint64_t want = cli->v.json ? p->limit : p->limit < PAGE ? p->limit : PAGE;
	cleanup_free char *path =
		mem_printf("%s?stream=%s&offset=%" PRIu64 "&limit=%" PRIu64, base,
			   cli->v.stream_name ? cli->v.stream_name : "stdout", p->offset, want);
	cleanup_buf struct buf raw = {0};
	json_auto_t *doc = NULL;
	uint64_t next, kept, total;
	int r = cli_call_json(cli, "GET", path, NULL, cli->v.json, &doc, err);

	if (r < 0 || cli->v.json)
		return r;
	if (!cli_bytes(doc, "data", "encoding", &raw))
		r = err_set(err, E_INTERNAL, "data", "the server's answer has no valid data");
	next = (uint64_t)json_integer_value(json_object_get(doc, "next_offset"));
	cli_print(&raw);
	p->limit -= next - p->offset < p->limit ? next - p->offset : p->limit;
	p->more = json_is_true(json_object_get(doc, "has_more")) && next > p->offset &&
		  p->limit > 0 && !ferror(stdout);
	p->offset = next;
	kept = (uint64_t)json_integer_value(json_object_get(doc, "kept_bytes"));
	total = (uint64_t)json_integer_value(json_object_get(doc, "total_bytes"));
	/* print this once, behind the last byte that was kept */
	if (!p->more && json_object_get(doc, "kept_bytes") != NULL && kept < total &&
	    next >= kept && !ferror(stdout))
		fprintf(stderr,
			"agentsh: of %" PRIu64 " bytes of %s the first %" PRIu64
			" are kept (output.command_quota)\n",
			total, cli_string(doc, "stream"), kept);
	return r;
}

int cmd_output(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf session = {0};
	struct page p = {0};
	int r;

	if (cli->v.stream_name != NULL && strcmp(cli->v.stream_name, "stdout") != 0 &&
	    strcmp(cli->v.stream_name, "stderr") != 0)
		return err_set(err, E_BAD_REQUEST, "stream",
			       "--stream is stdout or stderr, not '%s'", cli->v.stream_name);
	r = number("--offset", cli->v.offset, 0, &p.offset, err);
	if (r == 0)
		r = number("--limit", cli->v.limit, cli->v.json ? 10000 : UINT64_MAX, &p.limit,
			   err);
	if (r == 0)
		r = session_of(cli, cli->argv[0], &session, err);
	if (r < 0)
		return r;
	cleanup_free char *base =
		mem_printf("/api/v1/sessions/%s/output/%s", session.data, cli->argv[0]);

	do
		r = print_page(cli, base, &p, err);
	while (r == 0 && p.more);
	return r;
}

int cmd_kill(struct cli *cli, struct err *err)
{
	const char *command = cli->argv[cli->argc - 1], *signal = cli->v.signal;
	cleanup_free char *rest = mem_printf("/kill/%s", command), *path = NULL;
	cleanup_buf struct buf session = {0}, body = {0};
	struct jw w = JW(&body);
	json_auto_t *doc = NULL;
	int r = 0;

	if (cli->argc == 1)
		r = session_of(cli, command, &session, err);
	else if (id_valid(command))
		buf_adds(&session, cli->argv[0]);
	else
		r = err_set(err, E_NOT_FOUND, command, "no command '%s'", command);
	if (r == 0)
		r = cli_session_path(session.data, rest, &path, err);
	if (r < 0)
		return r;
	if (signal == NULL)
		signal = "TERM";
	jw_obj(&w);
	jw_kstr(&w, "signal", signal);
	if (cli->v.grace != NULL)
		jw_kstr(&w, "grace", cli->v.grace);
	jw_obj_end(&w);
	r = cli_call_json(cli, "POST", path, &body, cli->v.json, &doc, err);
	if (r == 0 && !cli->v.json)
		printf("Signal sent: %s to %s\n", signal, command);
	return r;
}

static int print_event(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	printf("%.*s\n", (int)len, data);
	return fflush(stdout) == 0 ? 0 : -1;
}

int cmd_events(struct cli *cli, struct err *err)
{
	const char *type = cli->v.type;
	cleanup_free char *path = NULL,
			  *rest = mem_printf("/events%s%s", type ? "?type=" : "", type ? type : "");
	struct client_call call = {.method = "GET", .last_event_id = cli->v.last_event_id};
	int r;

	if (type != NULL && type[strspn(type, "abcdefghijklmnopqrstuvwxyz_,")] != '\0')
		return err_set(err, E_BAD_REQUEST, "type", "unknown event type '%s'", type);
	r = cli_session_path(cli->argv[0], rest, &path, err);
	if (r == 0)
		r = cli_connect(cli, err);
	call.path = path;
	return r < 0 ? r : client_stream(cli->client, &call, print_event, NULL, err);
}
