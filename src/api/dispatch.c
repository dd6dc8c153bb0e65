// SPDX-License-Identifier: Apache-2.0
/* From a request to its handler: authenticate, find the row, resolve what the path names, check
 * ownership. */
#include "api/handlers.h"
#include "base/err_body.h"
#include "base/log.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

static void call_free(struct call *call, bool gone)
{
	if (call->work_free != NULL)
		call->work_free(call, gone);
	free(call);
}

/* outcome: the status, or a word where there was no answer. */
static void log_request(const struct call *call, const char *outcome)
{
	char us[24];

	if (call->method == NULL || !call->method->audited || !log_on(LOG_INFO))
		return;
	snprintf(us, sizeof(us), "%" PRId64, clock_mono_us(&clock_system) - call->begun_us);
	log_info("request", "rpc", call->method->rpc, "agent_id", call->who.agent_id, "session_id",
		 call->id[0] ? call->id : "-", "status", outcome, "us", us, "request_id",
		 call->who.request_id);
}

static void on_gone(struct http_request *req, void *arg)
{
	struct call *call = arg;

	if (!call->begun)
		log_request(call, "abandoned");
	call_free(call, true);
}

void call_end(struct call *call)
{
	call_free(call, false);
}

void call_begun(struct call *call, int status)
{
	struct api *api = call->api;
	char text[16];

	metrics_add(api->metrics, METRIC_REQUESTS, 1);
	if (status >= 400)
		metrics_add(api->metrics, METRIC_REQUEST_ERRORS, 1);
	call->begun = true;
	snprintf(text, sizeof(text), "%d", status);
	log_request(call, text);
}

/* header: one more of the answer's, or NULL. */
static void reply(struct call *call, int status, const struct buf *body, const char *header,
		  const char *value)
{
	const struct http_extra extra[] = {
		{"X-Request-Id", call->who.request_id}, {header, value}, {NULL, NULL}};

	call_begun(call, status);
	http_reply(call->req, status, "application/json", body->data, body->len, extra);
	call_free(call, false);
}

void call_reply(struct call *call, int status, struct buf *body)
{
	reply(call, status, body, NULL, NULL);
}

void call_error(struct call *call, const struct err *err, struct buf *out)
{
	struct err named = *err;

	if (named.subject[0] == '\0')
		snprintf(named.subject, sizeof(named.subject), "%s", http_path(call->req));
	err_body_format(&named, call->who.request_id, out);
}

void call_fail(struct call *call, const struct err *err)
{
	cleanup_buf struct buf body = {0};
	bool who = err->code == E_UNAUTHENTICATED;

	call_error(call, err, &body);
	reply(call, err_row(err->code)->http, &body, who ? "WWW-Authenticate" : NULL, "Bearer");
}

void call_begin_sse(struct call *call)
{
	const struct http_extra extra[] = {{"Cache-Control", "no-store"},
					   {"X-Request-Id", call->who.request_id},
					   {NULL, NULL}};

	call_begun(call, 200);
	http_stream_start(call->req, 200, "text/event-stream", extra);
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

/* Matches a path against a row's pattern; the parts in braces are copied out. A part longer than an
 * id is cut, and ends in what no id has. */
#define CUT "…"
static bool match(const char *pattern, const char *path, struct call *call)
{
	while (*pattern != '\0') {
		if (*pattern != '{') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		char *out = strncmp(pattern, "{id}", 4) == 0 ? call->id : call->cmd;
		size_t len = strcspn(path, "/");

		if (len == 0)
			return false;
		if (len <= ID_MAX)
			snprintf(out, ID_MAX + 1, "%.*s", (int)len, path);
		else
			snprintf(out, ID_MAX + 1, "%.*s" CUT, (int)(ID_MAX - strlen(CUT)), path);
		pattern = strchr(pattern, '}') + 1;
		path += len;
	}
	return *path == '\0';
}

struct method_search {
	const struct method *method;
	bool path_known;
	char allow[64];
};

static void find_method(struct call *call, const char *verb, const char *path,
			struct method_search *s)
{
	const struct config *config = &call->api->config;

	/* The one path that the configuration names. */
	if (config->metrics_enabled && strcmp(path, config->metrics_path) == 0) {
		s->path_known = true;
		snprintf(s->allow, sizeof(s->allow), "GET");
		if (strcmp(verb, "GET") == 0 || strcmp(verb, "HEAD") == 0)
			s->method = &api_metrics_method;
		return;
	}
	for (size_t i = 0; i < api_nmethods; i++) {
		const struct method *m = &api_methods[i];
		size_t len = strlen(s->allow);

		call->id[0] = call->cmd[0] = '\0';
		if (!match(m->path, path, call))
			continue;
		s->path_known = true;
		if (strcmp(m->verb, verb) == 0 ||
		    (strcmp(verb, "HEAD") == 0 && strcmp(m->verb, "GET") == 0)) {
			s->method = m;
			return;
		}
		snprintf(s->allow + len, sizeof(s->allow) - len, "%s%s", len ? ", " : "", m->verb);
	}
}

struct query_check {
	const char *allowed;
	struct err *err;
};

static void check_query(const char *name, const char *value, void *arg)
{
	struct query_check *qc = arg;
	size_t len = strcspn(name, " ");

	for (const char *p = qc->allowed;
	     len > 0 && name[len] == '\0' && (p = strstr(p, name)) != NULL; p += len)
		if ((p == qc->allowed || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
			return;
	err_detail(qc->err, name, "unknown query parameter");
}

/* Ownership: what is not the caller's is not found. */
static int resolve(struct call *call, struct err *err)
{
	struct sessions *ss = call->api->sessions;
	enum method_owner owner = call->method->owner;
	int r = 0;

	if (owner == OWN_SESSION || owner == OWN_SESSION_COMMAND)
		r = session_get(ss, &call->who, call->id, &call->session, err);
	if (r == 0 && (owner == OWN_COMMAND || owner == OWN_SESSION_COMMAND))
		r = command_get(ss, &call->who, call->session, call->cmd, &call->command, err);
	return r;
}

static int admit(struct call *call, struct err *err)
{
	const struct method *m = call->method;
	const bool numbers =
		m == &api_metrics_method && !call->api->listener_unix[http_tag(call->req)];
	struct query_check qc = {m->query, err};
	int r;

	if (m->roles != 0 || numbers) {
		r = api_authenticate(call->api, call->req, &call->who, err);
		if (r < 0)
			return r;
		if (numbers && call->who.key[0] == '\0')
			return err_set(
				err, E_UNAUTHENTICATED, NULL,
				"metrics over TCP need an API key: Authorization: Bearer KEY");
		if (m->roles != 0 && (m->roles & (1u << call->who.role)) == 0)
			return err_set(err, E_FORBIDDEN, m->rpc, "the role '%s' may not do this",
				       role_name(call->who.role));
	}
	if (call->api->store == NULL && m->handler != api_health && m->handler != api_ready &&
	    m->handler != api_metrics)
		return api_writable(call->api, err);
	http_query_each(call->req, check_query, &qc);
	r = err_from_details(err, NULL);
	return r < 0 ? r : resolve(call, err);
}

static void refuse_path(struct call *call, const struct method_search *s)
{
	cleanup_buf struct buf body = {0};
	struct err err = {0};

	if (!s->path_known) {
		err_set(&err, E_NOT_FOUND, http_path(call->req), "no such path");
		call_fail(call, &err);
		return;
	}
	err_set(&err, E_METHOD_NOT_ALLOWED, http_path(call->req), "this path answers %s", s->allow);
	err_body_format(&err, call->who.request_id, &body);
	reply(call, 405, &body, "Allow", s->allow);
}

void api_on_request(struct http_request *req, void *arg)
{
	struct call *call = mem_new(struct call);
	const char *asked = http_header(req, "X-Request-Id");
	struct method_search s = {0};
	struct err err = {0};
	int r;

	call->api = arg;
	call->req = req;
	call->who.conn_fd = -1;
	call->begun_us = clock_mono_us(&clock_system);
	if (asked != NULL && id_valid(asked))
		snprintf(call->who.request_id, sizeof(call->who.request_id), "%s", asked);
	else
		id_make(call->who.request_id, "req");
	http_on_close(req, on_gone, call);
	find_method(call, http_method(req), http_path(req), &s);
	call->method = s.method;
	r = api_check_host(call->api, req, &err);
	if (r == 0)
		r = api_admit_peer(call->api, req, &err);
	if (r == 0 && s.method == NULL)
		refuse_path(call, &s);
	else if (r < 0 || admit(call, &err) < 0)
		call_fail(call, &err);
	else
		s.method->handler(call);
}

#define JSON_TYPE "application/json" /* parameters may follow */

int call_json(struct call *call, bool optional, json_t **out, struct err *err)
{
	const char *type = http_header(call->req, "Content-Type");
	size_t len;
	const char *body = http_body(call->req, &len);
	json_t *doc;
	int r;

	if (len == 0 && optional) {
		*out = json_object();
		return 0;
	}
	if (type != NULL && (strncasecmp(type, JSON_TYPE, strlen(JSON_TYPE)) != 0 ||
			     strchr("; \t", type[strlen(JSON_TYPE)]) == NULL))
		return err_set(err, E_BAD_REQUEST, type, "Content-Type must be application/json");
	r = json_parse(body, len, &doc, err);
	if (r < 0)
		return r;
	if (!json_is_object(doc)) {
		json_decref(doc);
		return err_set(err, E_BAD_REQUEST, NULL, "the body must be a JSON object");
	}
	*out = doc;
	return 0;
}

uint64_t call_number(struct call *call, const char *name, uint64_t fallback, uint64_t max,
		     struct err *err)
{
	const char *s = http_query(call->req, name);
	uint64_t v = 0;

	if (s == NULL)
		return fallback;
	if (*s == '\0' || strlen(s) > 19 || strspn(s, "0123456789") != strlen(s)) {
		err_detail(err, name, "not a number: '%.40s'", s);
		return fallback;
	}
	v = strtoull(s, NULL, 10);
	if (v > max)
		err_detail(err, name, "at most %" PRIu64, max);
	return v;
}

unsigned call_limit(struct call *call, unsigned fallback, unsigned max, struct err *err)
{
	uint64_t v = call_number(call, "limit", fallback, max, err);

	if (v == 0)
		err_detail(err, "limit", "at least 1");
	return (unsigned)v;
}
