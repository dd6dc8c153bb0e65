// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"
#include "base/mem.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000

/* A pending create, patch or destroy: the client may leave before the answer. */
struct pending_call {
	LIST_ENTRY(pending_call) next;
	struct call *call; /* NULL once the client has left */
	int status;
};

static void pending_free(struct pending_call *p)
{
	LIST_REMOVE(p, next);
	free(p);
}

void api_pending_free(struct api *api)
{
	while (!LIST_EMPTY(&api->pending))
		pending_free(LIST_FIRST(&api->pending));
}

static void pending_left(struct call *call, bool gone)
{
	struct pending_call *p = call->work;

	if (gone)
		p->call = NULL; /* on_done frees it */
	else
		pending_free(p);
}

static struct pending_call *pending_new(struct call *call, int status)
{
	struct pending_call *p = mem_new(struct pending_call);

	p->call = call;
	p->status = status;
	LIST_INSERT_HEAD(&call->api->pending, p, next);
	call->work = p;
	call->work_free = pending_left;
	return p;
}

static void reply_session(struct call *call, int status, struct session *s)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);

	session_format(s, &w);
	call_reply(call, status, &body);
}

static void on_done(const struct err *err, struct session *s, void *arg)
{
	struct pending_call *p = arg;
	struct call *call = p->call;

	if (call == NULL)
		pending_free(p);
	else if (err != NULL)
		call_fail(call, err);
	else
		reply_session(call, p->status, s);
}

void api_session_create(struct call *call)
{
	struct session_request request = {0};
	json_t *body = NULL;
	struct err err = {0};
	int r = call_json(call, false, &body, &err);

	if (r == 0)
		r = session_request_read(body, &request, &err);
	if (r < 0)
		call_fail(call, &err);
	else
		session_create(call->api->sessions, &call->who, &request, on_done,
			       pending_new(call, 201));
	session_request_done(&request);
	json_decref(body);
}

void api_session_list(struct call *call)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);
	struct err err = {0};
	unsigned limit = call_limit(call, LIST_DEFAULT, LIST_MAX, &err);

	if (err_from_details(&err, NULL) < 0 ||
	    session_list(call->api->sessions, &call->who, http_query(call->req, "cursor"), limit,
			 &w, &err) < 0)
		call_fail(call, &err);
	else
		call_reply(call, 200, &body);
}

void api_session_get(struct call *call)
{
	reply_session(call, 200, call->session);
}

void api_session_patch(struct call *call)
{
	struct session_request patch = {0};
	json_t *body = NULL;
	struct err err = {0};
	int r = call_json(call, false, &body, &err);

	if (r == 0)
		r = session_patch_read(body, &patch, &err);
	if (r < 0)
		call_fail(call, &err);
	else
		session_patch(call->session, &call->who, &patch, on_done, pending_new(call, 200));
	session_request_done(&patch);
	json_decref(body);
}

void api_session_destroy(struct call *call)
{
	session_destroy(call->session, &call->who, "destroyed by request", on_done,
			pending_new(call, 200));
}
