// SPDX-License-Identifier: Apache-2.0
/* The homes that outlive their sessions: their list, and the removal of one. */
#include "api/handlers.h"

void api_cache_list(struct call *call)
{
	struct err err = {0};

	call_finish(call, home_list(call->api->sessions, &call->who, &call->w, &err), &err);
}

static void on_purged(const struct err *err, void *arg)
{
	struct call *call = arg;

	if (!call_resume(call))
		return;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	jw_obj(&call->w);
	jw_kstr(&call->w, "id", call_param(call, "cache"));
	jw_obj_end(&call->w);
	call_reply(call, 200);
}

void api_cache_purge(struct call *call)
{
	home_purge(call->api->sessions, &call->who, call_param(call, "cache"), on_purged,
		   call_wait(call));
}
