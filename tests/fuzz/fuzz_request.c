// SPDX-License-Identifier: Apache-2.0
/* A request's body as a client sends it: parsed and read as a session, a patch and a command. */
#include "base/mem.h"
#include "model/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void format(const struct session_request *w, struct buf *out)
{
	struct jw jw = JW(out);

	session_request_format(w, &jw);
}

/* What a session's record shows can be asked for again and means the same. */
static void read_again(const struct session_request *w)
{
	cleanup_buf struct buf first = {0}, second = {0};
	struct session_request again;
	struct err err = {0};
	json_t *obj;

	format(w, &first);
	ensure(json_parse(first.data, first.len, &obj, NULL) == 0);
	ensure(session_request_read(obj, &again, &err) == 0);
	json_decref(obj);
	format(&again, &second);
	ensure(strcmp(first.data, second.data) == 0);
	session_request_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct session_request session;
	struct exec_request exec;
	struct err err = {0};
	json_t *obj;

	if (json_parse((const char *)data, len, &obj, &err) < 0)
		return 0;
	if (session_request_read(obj, &session, &err) == 0) {
		read_again(&session);
		session_request_done(&session);
	}
	err = (struct err){0};
	if (session_patch_read(obj, &session, &err) == 0)
		session_request_done(&session);
	err = (struct err){0};
	if (exec_request_read(obj, &exec, &err) == 0) {
		ensure((exec.command == NULL) != (exec.script == NULL));
		exec_request_done(&exec);
	}
	json_decref(obj);
	return 0;
}
