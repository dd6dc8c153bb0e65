// SPDX-License-Identifier: Apache-2.0
/* api/handlers.h - the functions behind the rows of methods.c. Each answers its call exactly once.
 */
#pragma once
#include "api/api.h"

/* session_api.c */
method_fn api_session_create, api_session_list, api_session_get, api_session_patch,
	api_session_destroy;
/* policy_api.c */
method_fn api_policy_list, api_policy_reload, api_session_policy;
/* command_api.c */
extern const struct json_field api_kill_fields[]; /* the body of a kill */
method_fn api_exec, api_command_list, api_command_get, api_command_output, api_command_kill;
/* exec_stream.c, exec_stdio.c */
method_fn api_exec_stream, api_exec_stdio;
/* event_api.c */
method_fn api_events_stream, api_events_history, api_events_search;
/* server_api.c */
/* Whether the database can be written, as far as is known: 0 or -E_UNAVAILABLE, why. */
int api_writable(const struct api *api, struct err *err);
method_fn api_health, api_ready, api_metrics;
/* openapi.c */
method_fn api_openapi;
void api_openapi_format(const struct api *api, struct buf *out);

/* The exec request of a call: body, Idempotency-Key. hash is SHA-256 of what the body says, or
 * unset without a key. */
struct exec_call {
	struct exec_request request;
	const char *key; /* borrowed from the call, or NULL */
	uint8_t hash[32];
};
int exec_call_read(struct call *call, struct exec_call *out, struct err *err);
void exec_call_done(struct exec_call *r);
/* Answers by a stream; takes what it likes of r, which stays the caller's to free. */
void exec_stream_run(struct call *call, struct exec_call *r);
