// SPDX-License-Identifier: Apache-2.0
/* The files that sessions deleted under a soft_delete rule. */
#include "api/handlers.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000

void api_trash_list(struct call *call)
{
	struct err err = {0};
	const unsigned limit = call_limit(call, LIST_DEFAULT, LIST_MAX, &err);
	const uint64_t after = call_number(call, "cursor", 0, INT64_MAX, &err);
	int r = err_from_details(&err, NULL);

	if (r == 0)
		r = session_trash_list(call->session, after, limit, &call->w, &err);
	call_finish(call, r, &err);
}

static void on_restored(const struct err *err, struct session *s, void *arg)
{
	struct call *call = arg;

	(void)s;
	if (!call_resume(call))
		return;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	jw_obj(&call->w);
	jw_kstr(&call->w, "id", call_param(call, "entry"));
	jw_obj_end(&call->w);
	call_reply(call, 200);
}

void api_trash_restore(struct call *call)
{
	struct err err = {0};
	const uint64_t entry = call_number(call, "entry", 0, INT64_MAX, &err);

	if (err_from_details(&err, NULL) < 0)
		call_fail(call, &err);
	else
		session_trash_restore(call->session, entry, on_restored, call_wait(call));
}
