// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"
#include "base/mem.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000

static void on_done(const struct err *err, struct session *s, void *arg)
{
	struct call *call = call_of_pending(arg);

	if (call == NULL)
		return;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	session_format(s, &call->w);
	call_reply(call, call->method->answers[0].status);
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
			       call_pending(call));
	session_request_done(&request);
	json_decref(body);
}

void api_session_list(struct call *call)
{
	struct err err = {0};
	const unsigned limit = call_limit(call, LIST_DEFAULT, LIST_MAX, &err);
	int r = err_from_details(&err, NULL);

	if (r == 0)
		r = session_list(call->api->sessions, &call->who, call_param(call, "cursor"), limit,
				 &call->w, &err);
	call_finish(call, r, &err);
}

void api_session_get(struct call *call)
{
	session_format(call->session, &call->w);
	call_reply(call, 200);
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
		session_patch(call->session, &call->who, &patch, on_done, call_pending(call));
	session_request_done(&patch);
	json_decref(body);
}

void api_session_destroy(struct call *call)
{
	session_destroy(call->session, &call->who, "destroyed by request", on_done,
			call_pending(call));
}
