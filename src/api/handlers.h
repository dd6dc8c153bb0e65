// SPDX-License-Identifier: Apache-2.0
/* api/handlers.h - the functions behind the rows of methods.c. Each answers its call exactly once.
 */
#pragma once
#include "api/api.h"

/* session_api.c */
method_fn api_session_create, api_session_list, api_session_get, api_session_patch,
	api_session_destroy;
/* After sessions_abandon: nobody will answer what is pending. */
void api_pending_free(struct api *api);
/* policy_api.c */
method_fn api_policy_list, api_policy_reload, api_session_policy;
/* command_api.c */
extern const struct json_field api_kill_fields[]; /* the body of a kill */
method_fn api_exec, api_command_list, api_command_get, api_command_output, api_command_kill;
/* exec_stream.c, exec_stdio.c: what api_exec hands over to when the client asks for it. */
method_fn api_exec_stream;
void api_exec_stdio(struct call *call);
/* event_api.c */
method_fn api_events_stream, api_events_history, api_events_search;
/* server_api.c */
/* Whether the database can be written, as far as is known: 0 or -E_UNAVAILABLE, why. */
int api_writable(const struct api *api, struct err *err);
method_fn api_health, api_ready, api_metrics;
extern const struct method api_metrics_method; /* methods.c: its path is the configuration's */
/* openapi.c */
method_fn api_openapi;
void api_openapi_format(const struct config *config, struct buf *out);

/* Reads the exec request of a call: body, Idempotency-Key. hash is SHA-256 of what the body
 * says, or unset without a key. */
struct exec_call {
	struct exec_request request;
	const char *key; /* borrowed from the request, or NULL */
	uint8_t hash[32];
};
int api_exec_call(struct call *call, struct exec_call *out, struct err *err);
void api_exec_call_done(struct exec_call *r);
