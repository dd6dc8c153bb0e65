// SPDX-License-Identifier: Apache-2.0
/* api/handlers.h - the handlers of the rows of methods.c. Each answers its call exactly once. */
#pragma once
#include "api/api.h"

/* session_api.c */
/* After E_RESOURCE_LIMIT: if a session of the caller is being destroyed, waits for its end and
 * calls the handler again. False: no session is, and the caller answers with the error. */
bool api_create_again(struct call *call, const struct err *err);
method_fn api_session_create, api_session_list, api_session_get, api_session_patch,
	api_session_destroy;
/* policy_api.c */
method_fn api_policy_list, api_policy_reload, api_session_policy;
/* cache_api.c */
method_fn api_cache_list, api_cache_purge;
/* trash_api.c */
method_fn api_trash_list, api_trash_restore;
/* command_api.c */
extern const struct json_field api_kill_fields[]; /* the body of a kill */
method_fn api_command_list, api_command_get, api_command_output, api_command_kill;
/* exec_api.c */
method_fn api_exec, api_run;
/* event_api.c */
method_fn api_events_stream, api_events_history;
/* server_api.c */
/* 0 if the database can be written; -E_UNAVAILABLE with the reason if the last write failed. */
int api_writable(const struct api *api, struct err *err);
method_fn api_health, api_ready, api_metrics;
/* openapi.c */
method_fn api_openapi;
