// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"
#include "base/mem.h"

#define LIST_DEFAULT 100
#define LIST_MAX 1000
#define OUTPUT_DEFAULT 10000
#define OUTPUT_MAX (1024 * 1024)
#define GRACE_DEFAULT_MS 2000
#define GRACE_MAX_MS (3600 * 1000)

void api_command_list(struct call *call)
{
	struct err err = {0};
	const unsigned limit = call_limit(call, LIST_DEFAULT, LIST_MAX, &err);
	int r = err_from_details(&err, NULL);

	if (r == 0)
		r = command_list(call->session, call_param(call, "cursor"), limit, &call->w, &err);
	call_finish(call, r, &err);
}

void api_command_get(struct call *call)
{
	command_format(call->command, &call->w);
	call_reply(call, 200);
}

void api_command_output(struct call *call)
{
	struct err err = {0};
	const char *stream = call_param(call, "stream");
	const uint64_t offset = call_number(call, "offset", 0, INT64_MAX, &err);
	const unsigned limit = call_limit(call, OUTPUT_DEFAULT, OUTPUT_MAX, &err);
	const int which = stream == NULL || strcmp(stream, "stdout") == 0 ? 1
			  : strcmp(stream, "stderr") == 0		  ? 2
									  : 0;
	int r;

	if (which == 0)
		err_detail(&err, "stream", "stdout or stderr, not '%.40s'", stream);
	r = err_from_details(&err, NULL);
	if (r == 0)
		r = command_output(call->command, which, offset, limit, &call->w, &err);
	call_finish(call, r, &err);
}

struct kill_request {
	char *signal;
	int64_t grace_ms;
	bool has_grace;
};
const struct json_field api_kill_fields[] = {
	{"signal", JSON_FIELD_STR, offsetof(struct kill_request, signal), 1, 16, NULL, 0},
	{"grace", JSON_FIELD_DURATION, offsetof(struct kill_request, grace_ms), 0, GRACE_MAX_MS,
	 NULL, offsetof(struct kill_request, has_grace)},
	{NULL},
};

void api_command_kill(struct call *call)
{
	struct kill_request request = {0};
	json_t *doc = NULL;
	struct err err = {0};
	int r = call_json(call, true, &doc, &err);

	if (r == 0)
		r = json_read(doc, api_kill_fields, &request, &err);
	if (r == 0)
		r = command_kill(call->command, request.signal != NULL ? request.signal : "TERM",
				 request.has_grace ? request.grace_ms : GRACE_DEFAULT_MS, &err);
	if (r == 0)
		command_format(call->command, &call->w);
	call_finish(call, r, &err);
	json_read_done(api_kill_fields, &request);
	json_decref(doc);
}
