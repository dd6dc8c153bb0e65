// SPDX-License-Identifier: Apache-2.0
/* Calls by HTTP/1: a whole answer, a server stream as server-sent events, and a bidirectional
 * stream as frames of agentsh-stdio/1 over an upgraded connection.
 *
 * On TCP, a client that has gone and a client that has ended its input send the same (FIN). After
 * the end of its input a client therefore gets a credit of 0 bytes every few seconds: a living
 * client ignores it, and for one that has gone the kernel sends a reset. */
#include "api/handlers.h"
#include "base/err_body.h"
#include "base/mem.h"
#include "wire/http.h"
#include "wire/sse.h"
#include "wire/stdio_frame.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#define PROBE_S 5
#define FROM_CLIENT (1u << STDIO_STDIN | 1u << STDIO_CONTROL)

_Static_assert(CALL_NO_UID == HTTP_NO_UID, "one number for a client without a uid");
_Static_assert((int)CALL_STDIN == STDIO_STDIN && (int)CALL_RESULT == STDIO_RESULT,
	       "parts of a call have the numbers of frames");

struct http_call {
	struct call call; /* first */
	struct http_request *req;
	struct stdio_parser in;
	struct watch *probe; /* NULL: off */
	char allow[64];	     /* verbs of the path that was asked for */
};

static struct http_request *req_of(const struct call *call)
{
	return ((const struct http_call *)call)->req;
}

/* ---- parameters and peer ---- */

/* Whether a list of words, separated by spaces, has the word. */
static bool is_word(const char *list, const char *word)
{
	const size_t len = strlen(word);

	for (; *list != '\0'; list += strspn(list, " ")) {
		if (strcspn(list, " ") == len && strncmp(list, word, len) == 0)
			return len > 0;
		list += strcspn(list, " ");
	}
	return false;
}

static const char *param(const struct call *call, const char *name)
{
	return isupper((unsigned char)name[0]) ? http_header(req_of(call), name)
					       : http_query(req_of(call), name);
}

static void check_params(const struct call *call, struct err *err)
{
	const char *name;

	for (size_t i = 0; (name = http_query_name(req_of(call), i)) != NULL; i++)
		if (isupper((unsigned char)name[0]) || !is_word(call->method->params, name))
			err_detail(err, name, "unknown query parameter");
}

/* "Authorization: Bearer KEY" or "X-API-Key: KEY"; both with different keys is refused. */
static int credential(const struct call *call, const char **secret, struct err *err)
{
	const char *bearer = http_header(req_of(call), "Authorization");
	const char *plain = http_header(req_of(call), "X-API-Key");

	if (bearer != NULL) {
		if (strncasecmp(bearer, "Bearer ", 7) != 0)
			return err_set(err, E_UNAUTHENTICATED, NULL,
				       "Authorization must be 'Bearer KEY'");
		bearer += 7;
		while (*bearer == ' ')
			bearer++;
		if (plain != NULL && strcmp(plain, bearer) != 0)
			return err_set(err, E_UNAUTHENTICATED, NULL,
				       "Authorization and X-API-Key name different keys");
	}
	*secret = bearer != NULL ? bearer : plain;
	return 0;
}

static bool set_peer(struct call *call, const char *name)
{
	return http_set_peer(req_of(call), name);
}

/* TCP listeners are on loopback: Host must be a loopback name or address. A browser that was led
 * here by DNS rebinding sends the name of the page's host. */
static int check_host(const struct call *call, struct err *err)
{
	static const char six[] = "[::1]";
	const char *host = http_header(req_of(call), "Host");
	cleanup_free char *name = NULL;
	const char *port;

	if (host == NULL || call->listener == LISTENER_UNIX)
		return 0;
	port = host + (strncmp(host, six, strlen(six)) == 0 ? strlen(six) : strcspn(host, ":"));
	name = mem_strndup(host, (size_t)(port - host));
	if ((strcasecmp(name, "localhost") == 0 || strcmp(name, six) == 0 ||
	     config_is_loopback(name)) &&
	    (*port == '\0' || (*port == ':' && port[1 + strspn(port + 1, "0123456789")] == '\0')))
		return 0;
	return err_set(err, E_FORBIDDEN, "Host",
		       "'%.100s' is not a loopback name: use localhost or a loopback address",
		       host);
}

/* ---- answers ---- */

static void answer(struct call *call, int status, enum err_code code, const char *type,
		   const struct buf *body)
{
	const struct http_call *h = (const struct http_call *)call;
	struct http_extra extra[3] = {{"X-Request-Id", call->who.request_id}};

	if (code == E_UNAUTHENTICATED)
		extra[1] = (struct http_extra){"WWW-Authenticate", "Bearer"};
	else if (code == E_METHOD_NOT_ALLOWED)
		extra[1] = (struct http_extra){"Allow", h->allow};
	http_reply(h->req, status, type, body->data, body->len, extra);
}

void api_on_bad(int status, const char *reason, struct buf *body, void *arg)
{
	struct api *api = arg;
	struct err err = {0};
	char id[ID_MAX + 1];
	enum err_code code = status == 413 || status == 414 || status == 431 ? E_TOO_LARGE
			     : status == 503				     ? E_UNAVAILABLE
									     : E_BAD_REQUEST;

	id_make(id, "req");
	err_set(&err, code, NULL, "%s", reason);
	metrics_add(api->metrics, METRIC_REQUESTS, 1);
	metrics_add(api->metrics, METRIC_REQUEST_ERRORS, 1);
	err_body_format(&err, id, body);
}

/* ---- streams ---- */

static void format_sse(const struct call_message *m, struct buf *out)
{
	static const char *const names[CALL_PARTS] = {[CALL_STDOUT] = "stdout",
						      [CALL_STDERR] = "stderr",
						      [CALL_RESULT] = "result",
						      [CALL_EVENT] = "event"};
	const bool bytes = m->part == CALL_STDOUT || m->part == CALL_STDERR;
	cleanup_buf struct buf json = {0};
	struct jw w = JW(&json);
	const char *encoding;
	char id[24];

	if (m->part == CALL_ALIVE) {
		sse_comment(out, "alive");
		return;
	}
	if (bytes) {
		jw_obj(&w);
		jw_kint(&w, "offset", (int64_t)m->at);
		jw_key(&w, "data");
		encoding = jw_data(&w, m->data, m->len);
		jw_kstr(&w, "encoding", encoding);
		jw_obj_end(&w);
	}
	snprintf(id, sizeof(id), "%" PRIu64, m->at);
	sse_format(out, m->part == CALL_FEED ? id : NULL, names[m->part],
		   bytes ? json.data : m->data, bytes ? json.len : m->len);
}

static bool is_raw(const struct call *call)
{
	return call->method->kind == BIDIRECTIONAL;
}

static void stream_write(struct call *call, const struct call_message *m)
{
	cleanup_buf struct buf out = {0};

	if (is_raw(call)) {
		struct stdio_head head = stdio_head((enum stdio_type)m->part, m->len);
		const struct iovec iov[] = {{&head, sizeof(head)}, {(void *)m->data, m->len}};

		if (m->data == NULL)
			http_stream_send_file(req_of(call), iov, m->fd, m->at, m->len);
		else
			http_stream_send(req_of(call), iov, 2);
		return;
	}
	format_sse(m, &out);
	http_stream_write(req_of(call), out.data, out.len);
}

static size_t stream_pending(const struct call *call)
{
	return http_pending(req_of(call));
}

static void stream_end(struct call *call)
{
	http_stream_end(req_of(call));
}

static void on_probe(void *arg)
{
	static const char nothing[] = "{\"credit\":{\"stream\":\"stdin\",\"bytes\":0}}";
	struct http_call *h = arg;

	watch_after(h->probe, PROBE_S * 1000);
	call_send(&h->call, CALL_CONTROL, 0, nothing, sizeof(nothing) - 1);
}

struct incoming {
	struct call *call;
	struct err *err;
};

static int on_frame(enum stdio_type type, const uint8_t *data, size_t len, void *arg)
{
	struct incoming *in = arg;

	return in->call->stream->message(
		in->call, &(struct call_message){(enum call_part)type, 0, data, len}, in->err);
}

static void on_data(struct http_request *req, const void *data, size_t n, void *arg)
{
	struct http_call *h = arg;
	struct err err = {0};
	struct incoming in = {&h->call, &err};

	if (n == 0) {
		h->call.stream->end(&h->call);
		/* On a unix socket the kernel tells a closed connection from the end of input. */
		if (h->call.listener != LISTENER_UNIX) {
			h->probe = watch_timer(h->call.api->loop, on_probe, h);
			on_probe(h);
		}
	} else if (stdio_parse(&h->in, data, n, FROM_CLIENT, on_frame, &in, &err) < 0) {
		h->call.stream->broken(&h->call, &err);
	} else {
		h->call.stream->room(&h->call);
	}
}

static void on_drain(struct http_request *req, void *arg)
{
	struct call *call = arg;

	call->stream->room(call);
}

static int stream_begin(struct call *call)
{
	const struct http_extra extra[] = {{"Cache-Control", "no-store"},
					   {"X-Request-Id", call->who.request_id},
					   {NULL, NULL}};
	struct http_request *req = req_of(call);

	if (!is_raw(call)) {
		http_stream_start(req, 200, "text/event-stream", extra);
		return 200;
	}
	http_upgrade(req, STDIO_PROTOCOL, on_data, call);
	return 101;
}

static void http_call_free(struct call *call)
{
	struct http_call *h = (struct http_call *)call;

	watch_free(h->probe);
	stdio_parser_done(&h->in);
	free(h);
}

static const struct call_provider http_provider = {
	.param = param,
	.check_params = check_params,
	.credential = credential,
	.set_peer = set_peer,
	.answer = answer,
	.stream_begin = stream_begin,
	.stream_write = stream_write,
	.stream_pending = stream_pending,
	.stream_end = stream_end,
	.free = http_call_free,
};

/* ---- requests ---- */

/* HEAD uses the row of GET; an upgrade uses the bidirectional row of the path. */
static bool is_asked(const struct method *m, const struct call *call, const char *verb)
{
	return (strcmp(m->verb, verb) == 0 || (call->head_only && strcmp(m->verb, "GET") == 0)) &&
	       (m->kind != BIDIRECTIONAL || http_wants_upgrade(req_of(call), STDIO_PROTOCOL));
}

/* The row for the request; NULL: h->allow has the verbs of the path, if there is one. */
static const struct method *find_method(struct http_call *h)
{
	struct call *call = &h->call;
	const char *verb = http_method(h->req);
	const struct config *config = &call->api->config;

	/* Its path comes from the configuration. */
	if (config->metrics_enabled && strcmp(call->target, config->metrics_path) == 0) {
		snprintf(h->allow, sizeof(h->allow), "GET");
		return is_asked(&api_metrics_method, call, verb) ? &api_metrics_method : NULL;
	}
	for (size_t i = 0; i < call->api->nmethods; i++) {
		const struct method *m = &call->api->methods[i];
		const size_t len = strlen(h->allow);

		if ((m->listeners & call->listener) == 0 || !call_match(call, m, call->target))
			continue;
		if (is_asked(m, call, verb))
			return m;
		if (m->kind != BIDIRECTIONAL)
			snprintf(h->allow + len, sizeof(h->allow) - len, "%s%s",
				 len > 0 ? ", " : "", m->verb);
	}
	return NULL;
}

static void on_gone(struct http_request *req, void *arg)
{
	call_free(arg, true);
}

void api_on_request(struct http_request *req, void *arg)
{
	struct http_call *h = mem_new(struct http_call);
	struct call *call = &h->call;
	const struct method *row;
	struct err err = {0};

	h->req = req;
	call_init(call, arg, &http_provider, http_header(req, "X-Request-Id"));
	call->listener = call->api->listener_kind[http_tag(req)];
	call->fd = http_fd(req);
	call->uid = http_uid(req);
	call->from_page = http_header(req, "Origin") != NULL;
	call->head_only = strcmp(http_method(req), "HEAD") == 0;
	call->target = http_path(req);
	call->body = http_body(req, &call->body_len);
	call->body_type = http_header(req, "Content-Type");
	http_hooks(req, on_gone, on_drain, call);
	row = find_method(h);
	if (check_host(call, &err) < 0 || call_admit_peer(call, &err) < 0)
		;
	else if (row == NULL && h->allow[0] == '\0')
		err_set(&err, E_NOT_FOUND, call->target, "no such path");
	else if (row == NULL)
		err_set(&err, E_METHOD_NOT_ALLOWED, call->target, "this path answers %s", h->allow);
	if (err.code != E_OK)
		call_fail(call, &err);
	else
		call_run(call, row);
}
