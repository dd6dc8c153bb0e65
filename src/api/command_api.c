// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"
#include "base/hash.h"
#include "base/mem.h"
#include <ctype.h>

#define LIST_DEFAULT 100
#define LIST_MAX 1000
#define OUTPUT_DEFAULT 10000
#define OUTPUT_MAX (1024 * 1024)
#define KEY_MAX 128
#define GRACE_DEFAULT_MS 2000
#define GRACE_MAX_MS (3600 * 1000)

static int check_key(const char *key, struct err *err)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)key[i]))
			len = 0;
	if (len == 0 || len > KEY_MAX)
		return err_set(err, E_BAD_REQUEST, "Idempotency-Key",
			       "Idempotency-Key must be 1 to %d printable characters, no spaces",
			       KEY_MAX);
	return 0;
}

int exec_call_read(struct call *call, struct exec_call *out, struct err *err)
{
	const char *id = session_id(call->session);
	json_t *doc = NULL;
	int r;

	memset(out, 0, sizeof(*out));
	out->key = call_param(call, "Idempotency-Key");
	if (out->key != NULL) {
		r = check_key(out->key, err);
		if (r < 0)
			return r;
	}
	r = call_json(call, false, &doc, err);
	if (r == 0 && out->key != NULL) {
		/* Of what it says: neither white space nor the order of keys make another. */
		char *text = json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

		ensure(text != NULL);
		hash_sha256(out->hash, id, strlen(id) + 1, text, strlen(text));
		free(text);
	}
	if (r == 0)
		r = exec_request_read(doc, &out->request, err);
	json_decref(doc);
	return r;
}

void exec_call_done(struct exec_call *r)
{
	exec_request_done(&r->request);
}

/* A plain exec that waits for its result. */
struct waiting_call {
	struct call *call;
	struct command *command;
	bool detached;
};

static void waiting_left(struct call *call, bool gone)
{
	struct waiting_call *w = call->work;

	if (gone && w->command != NULL)
		command_unobserve(w->command, w, true);
	free(w);
}

static void exec_done(const struct err *err, struct command *c, void *arg)
{
	struct waiting_call *wait = arg;
	struct call *call = wait->call;

	wait->command = NULL;
	if (err != NULL) {
		call_fail(call, err);
	} else if (wait->detached) {
		command_format(c, &call->w);
		call_reply(call, 202);
	} else {
		command_format_answer(c, NULL, &call->w);
		call_reply(call, 200);
	}
}

void api_exec(struct call *call)
{
	struct exec_call r;
	struct err err = {0};
	struct waiting_call *w;

	if (exec_call_read(call, &r, &err) < 0) {
		call_fail(call, &err);
	} else if (r.request.stream_output) {
		exec_stream_run(call, &r);
	} else {
		w = mem_new(struct waiting_call);
		w->call = call;
		w->detached = r.request.detach;
		call->work = w;
		call->work_free = waiting_left;
		command_submit(call->session, &call->who,
			       &(struct command_ask){.request = &r.request,
						     .idempotency_key = r.key,
						     .body_hash = r.hash},
			       &(struct command_observer){.done = exec_done, .arg = w},
			       &w->command);
	}
	exec_call_done(&r);
}

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
