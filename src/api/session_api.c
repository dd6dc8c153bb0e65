// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000

static void call_again(const struct err *err, struct session *s, void *arg)
{
	struct call *call = arg;

	if (call_resume(call))
		call->method->handler(call);
}

bool api_create_again(struct call *call, const struct err *err)
{
	struct session *ending = err->code == E_RESOURCE_LIMIT
					 ? session_ending(call->api->sessions, &call->who)
					 : NULL;

	if (ending != NULL)
		session_destroy(ending, &call->who, SESSION_BY_REQUEST, call_again,
				call_wait(call));
	return ending != NULL;
}

static void on_done(const struct err *err, struct session *s, void *arg)
{
	struct call *call = arg;

	if (!call_resume(call))
		return;
	if (err != NULL) {
		if (call->method->handler != api_session_create || !api_create_again(call, err))
			call_fail(call, err);
		return;
	}
	session_format(s, &call->w);
	call_reply(call, call->method->answers[0].status);
}

/* False: the call has been answered with an error. */
static bool read_body(struct call *call, struct session_request *out,
		      int (*read)(const json_t *, struct session_request *, struct err *))
{
	json_t *body = NULL;
	struct err err = {0};
	int r = call_json(call, false, &body, &err);

	if (r == 0)
		r = read(body, out, &err);
	json_decref(body);
	if (r < 0)
		call_fail(call, &err);
	return r == 0;
}

void api_session_create(struct call *call)
{
	struct session_request request = {0};

	if (read_body(call, &request, session_request_read))
		session_create(call->api->sessions, &call->who, &request, on_done, call_wait(call));
	session_request_done(&request);
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

	if (read_body(call, &patch, session_patch_read))
		session_patch(call->session, &call->who, &patch, on_done, call_wait(call));
	session_request_done(&patch);
}

void api_session_destroy(struct call *call)
{
	session_destroy(call->session, &call->who, SESSION_BY_REQUEST, on_done, call_wait(call));
}
