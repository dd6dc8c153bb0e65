// SPDX-License-Identifier: Apache-2.0
/* From a call to its handler: authenticates, checks the parameters, finds the session and command
 * of the path, checks ownership. Also the functions by which handlers read a call and answer it. */
#include "api/handlers.h"
#include "base/err_body.h"
#include "base/log.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#define PENDING_MAX (256 * 1024)     /* bytes of a stream that wait for a slow reader */
#define JSON_TYPE "application/json" /* parameters may follow */

/* ---- life ---- */

void call_init(struct call *call, struct api *api, const struct call_provider *provider,
	       const char *request_id)
{
	call->api = api;
	call->provider = provider;
	call->who.conn_fd = -1;
	call->begun_us = clock_mono_us(&clock_system);
	call->w = JW(&call->reply);
	if (request_id != NULL && id_valid(request_id))
		snprintf(call->who.request_id, sizeof(call->who.request_id), "%s", request_id);
	else
		id_make(call->who.request_id, "req");
}

/* outcome: the status, or a word if no answer was sent. */
static void log_request(const struct call *call, const char *outcome)
{
	const char *id = call_param(call, "id");
	char us[24];

	if (call->method == NULL || !call->method->audited || !log_on(LOG_INFO))
		return;
	snprintf(us, sizeof(us), "%" PRId64, clock_mono_us(&clock_system) - call->begun_us);
	log_info("request", "rpc", call->method->rpc, "agent_id", call->who.agent_id, "session_id",
		 id != NULL ? id : "-", "status", outcome, "us", us, "request_id",
		 call->who.request_id);
}

static void release(struct call *call, bool gone)
{
	if (call->work_free != NULL)
		call->work_free(call, gone);
	buf_done(&call->reply);
	call->provider->free(call);
}

void call_free(struct call *call, bool gone)
{
	if (gone && !call->begun)
		log_request(call, "abandoned");
	call->gone = gone;
	if (!gone || !call->waits)
		release(call, gone);
}

/* ---- answers ---- */

static void begun(struct call *call, int status)
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

static void answer(struct call *call, int status, enum err_code code, const char *type)
{
	begun(call, status);
	call->provider->answer(call, status, code, type, &call->reply);
	call_free(call, false);
}

void call_reply_as(struct call *call, int status, const char *type)
{
	answer(call, status, E_OK, type);
}

void call_reply(struct call *call, int status)
{
	call_reply_as(call, status, JSON_TYPE);
}

void call_error(struct call *call, const struct err *err, struct buf *out)
{
	struct err named = *err;

	if (named.subject[0] == '\0')
		snprintf(named.subject, sizeof(named.subject), "%s", call->target);
	err_body_format(&named, call->who.request_id, out);
}

void call_fail(struct call *call, const struct err *err)
{
	buf_clear(&call->reply);
	call_error(call, err, &call->reply);
	answer(call, err_row(err->code)->http, err->code, JSON_TYPE);
}

void call_finish(struct call *call, int r, const struct err *err)
{
	if (r < 0)
		call_fail(call, err);
	else
		call_reply(call, 200);
}

void call_stream_begin(struct call *call, const struct call_stream *stream)
{
	call->stream = stream;
	begun(call, call->provider->stream_begin(call));
}

void call_send(struct call *call, enum call_part part, uint64_t at, const void *data, size_t len)
{
	call->provider->stream_write(call, &(struct call_message){part, at, data, len});
}

void call_send_file(struct call *call, enum call_part part, uint64_t at, int fd, size_t len)
{
	call->provider->stream_write(call, &(struct call_message){part, at, NULL, len, fd});
}

bool call_has_room(const struct call *call)
{
	return call->provider->stream_pending(call) < PENDING_MAX;
}

void call_stream_end(struct call *call)
{
	call->provider->stream_end(call);
	call_free(call, false);
}

/* ---- answers that come later ---- */

struct call *call_wait(struct call *call)
{
	call->waits = true;
	LIST_INSERT_HEAD(&call->api->waiting, call, next);
	return call;
}

bool call_resume(struct call *call)
{
	call->waits = false;
	LIST_REMOVE(call, next);
	if (!call->gone)
		return true;
	release(call, true);
	return false;
}

void call_resume_all(struct api *api)
{
	while (!LIST_EMPTY(&api->waiting))
		call_resume(LIST_FIRST(&api->waiting));
}

/* ---- parameters and body ---- */

/* A longer part of the path than an id is cut; it then ends in a character that no id has. */
#define CUT "…"
bool call_match(struct call *call, const struct method *row, const char *path)
{
	const char *pattern = row->path;

	call->npath = 0;
	while (*pattern != '\0') {
		if (*pattern != '{') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		char *out = call->path[call->npath].value;
		const size_t len = strcspn(path, "/");

		ensure(call->npath < CALL_PATH_PARAMS);
		if (len == 0)
			return false;
		if (len <= ID_MAX)
			snprintf(out, ID_MAX + 1, "%.*s", (int)len, path);
		else
			snprintf(out, ID_MAX + 1, "%.*s" CUT, (int)(ID_MAX - strlen(CUT)), path);
		call->path[call->npath++].name = pattern + 1;
		pattern = strchr(pattern, '}') + 1;
		path += len;
	}
	return *path == '\0';
}

const char *call_param(const struct call *call, const char *name)
{
	const size_t len = strlen(name);

	for (size_t i = 0; i < call->npath; i++)
		if (strncmp(call->path[i].name, name, len) == 0 && call->path[i].name[len] == '}')
			return call->path[i].value;
	return call->provider->param(call, name);
}

uint64_t call_number(struct call *call, const char *name, uint64_t fallback, uint64_t max,
		     struct err *err)
{
	const char *s = call_param(call, name);
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

int call_json(struct call *call, bool optional, json_t **out, struct err *err)
{
	const char *type = call->body_type;
	json_t *doc;
	int r;

	if (call->body_len == 0 && optional) {
		*out = json_object();
		return 0;
	}
	if (type != NULL && (strncasecmp(type, JSON_TYPE, strlen(JSON_TYPE)) != 0 ||
			     strchr("; \t", type[strlen(JSON_TYPE)]) == NULL))
		return err_set(err, E_BAD_REQUEST, type, "Content-Type must be application/json");
	r = json_parse(call->body, call->body_len, &doc, err);
	if (r < 0)
		return r;
	if (!json_is_object(doc)) {
		json_decref(doc);
		return err_set(err, E_BAD_REQUEST, NULL, "the body must be a JSON object");
	}
	*out = doc;
	return 0;
}

/* ---- to the handler ---- */

static int admit(struct call *call, struct err *err)
{
	const struct method *m = call->method;
	const bool numbers = m->handler == api_metrics && call->listener != LISTENER_UNIX;
	struct sessions *ss = call->api->sessions;
	int r = 0;

	if (m->roles != 0 || numbers)
		r = call_authenticate(call, err);
	if (r < 0)
		return r;
	if (numbers && call->who.key[0] == '\0')
		return err_set(err, E_UNAUTHENTICATED, NULL,
			       "metrics over TCP need an API key: Authorization: Bearer KEY");
	if (m->roles != 0 && (m->roles & (1u << call->who.role)) == 0)
		return err_set(err, E_FORBIDDEN, m->rpc, "the role '%s' may not do this",
			       role_name(call->who.role));
	if (call->api->store == NULL && m->handler != api_health && m->handler != api_ready &&
	    m->handler != api_metrics)
		return api_writable(call->api, err);
	call->provider->check_params(call, err);
	r = err_from_details(err, NULL);
	/* A session or command of another caller is "not found". */
	if (r == 0 && (m->owner == OWN_SESSION || m->owner == OWN_SESSION_COMMAND))
		r = session_get(ss, &call->who, call_param(call, "id"), &call->session, err);
	if (r == 0 && (m->owner == OWN_COMMAND || m->owner == OWN_SESSION_COMMAND))
		r = command_get(ss, &call->who, call->session, call_param(call, "cmd"),
				&call->command, err);
	return r;
}

void call_run(struct call *call, const struct method *row)
{
	struct err err = {0};

	call->method = row;
	if (admit(call, &err) < 0)
		call_fail(call, &err);
	else
		row->handler(call);
}
