// SPDX-License-Identifier: Apache-2.0
/* Every method of the API, one row each. */
#include "api/handlers.h"
#include "api/shape_rows.h"
#include "base/mem.h"

#define AGENT (1u << ROLE_AGENT | 1u << ROLE_ADMIN)
#define ADMIN (1u << ROLE_ADMIN)
#define ANYONE 0u
#define EVERYWHERE (LISTENER_UNIX | LISTENER_TCP)
#define P API_PREFIX
#define SSE "text/event-stream"
#define FILTERS "type decision since until limit offset cursor command_id"

/* clang-format off */
const struct method api_methods[] = {
	/* verb, path, rpc, kind, listeners, roles, ownership, parameters, idempotent, audited, handler,
	 * body, answers. The bidirectional row of a path stands before the others: a client asks for it by an upgrade. */
	{"POST",   P "/sessions",                       "CreateSession",    UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "", false, true, api_session_create,
	 &body_session, {{201, &shape_session}}},
	{"GET",    P "/sessions",                       "ListSessions",     UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "limit cursor", true, false, api_session_list,
	 NULL, {{200, &shape_sessions}}},
	{"GET",    P "/sessions/{id}",                  "GetSession",       UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "", true, false, api_session_get,
	 NULL, {{200, &shape_session}}},
	{"PATCH",  P "/sessions/{id}",                  "UpdateSession",    UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "", false, true, api_session_patch,
	 &body_patch, {{200, &shape_session}}},
	{"DELETE", P "/sessions/{id}",                  "DestroySession",   UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "", true, true, api_session_destroy,
	 NULL, {{200, &shape_session}}},
	{"POST",   P "/sessions/{id}/exec",             "ExecuteStdio",     BIDIRECTIONAL, EVERYWHERE, AGENT,  OWN_SESSION, "", false, true, api_exec,
	 &body_exec, {{101}}},
	{"POST",   P "/sessions/{id}/exec",             "Execute",          UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "Idempotency-Key", false, true, api_exec,
	 &body_exec, {{200, &shape_answer}, {202, &shape_command}}},
	{"POST",   P "/sessions/{id}/exec/stream",      "ExecuteStream",    SERVER_STREAM, EVERYWHERE, AGENT,  OWN_SESSION, "Idempotency-Key", false, true, api_exec,
	 &body_exec, {{200, NULL, SSE}}},
	{"POST",   P "/run",                            "RunStdio",         BIDIRECTIONAL, EVERYWHERE, AGENT,  OWN_NONE, "", false, true, api_run,
	 &body_run, {{101}}},
	{"POST",   P "/run",                            "Run",              UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "", false, true, api_run,
	 &body_run, {{200, &shape_run}, {202, &shape_command}}},
	{"GET",    P "/sessions/{id}/commands",         "ListCommands",     UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "limit cursor", true, false, api_command_list,
	 NULL, {{200, &shape_commands}}},
	{"GET",    P "/sessions/{id}/commands/{cmd}",   "GetCommand",       UNARY,         EVERYWHERE, AGENT,  OWN_SESSION_COMMAND, "", true, false, api_command_get,
	 NULL, {{200, &shape_command}}},
	{"GET",    P "/commands/{cmd}",                 "FindCommand",      UNARY,         EVERYWHERE, AGENT,  OWN_COMMAND, "", true, false, api_command_get,
	 NULL, {{200, &shape_command}}},
	{"GET",    P "/sessions/{id}/output/{cmd}",     "GetOutput",        UNARY,         EVERYWHERE, AGENT,  OWN_SESSION_COMMAND, "stream offset limit", true, false, api_command_output,
	 NULL, {{200, &shape_output}}},
	{"POST",   P "/sessions/{id}/kill/{cmd}",       "KillCommand",      UNARY,         EVERYWHERE, AGENT,  OWN_SESSION_COMMAND, "", false, true, api_command_kill,
	 &body_kill, {{200, &shape_command}}},
	{"GET",    P "/sessions/{id}/events",           "StreamEvents",     SERVER_STREAM, EVERYWHERE, AGENT,  OWN_SESSION, "type Last-Event-ID", true, false, api_events_stream,
	 NULL, {{200, NULL, SSE}}},
	{"GET",    P "/sessions/{id}/history",          "GetHistory",       UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, FILTERS, true, false, api_events_history,
	 NULL, {{200, &shape_events}}},
	{"GET",    P "/sessions/{id}/policy",           "GetSessionPolicy", UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "", true, false, api_session_policy,
	 NULL, {{200, NULL, "application/json"}}},
	{"GET",    P "/sessions/{id}/trash",            "ListTrash",        UNARY,         EVERYWHERE, AGENT,  OWN_SESSION, "limit cursor", true, false, api_trash_list,
	 NULL, {{200, &shape_trash}}},
	{"POST",   P "/sessions/{id}/trash/{entry}/restore", "RestoreTrash", UNARY,        EVERYWHERE, AGENT,  OWN_SESSION, "", false, true, api_trash_restore,
	 NULL, {{200, &shape_restored}}},
	{"GET",    P "/policies",                       "ListPolicies",     UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "", true, false, api_policy_list,
	 NULL, {{200, &shape_policies}}},
	{"POST",   P "/policies/reload",                "ReloadPolicies",   UNARY,         EVERYWHERE, ADMIN,  OWN_NONE, "", true, true, api_policy_reload,
	 NULL, {{200, &shape_reload}}},
	{"GET",    P "/caches",                         "ListCaches",       UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "", true, false, api_cache_list,
	 NULL, {{200, &shape_caches}}},
	{"DELETE", P "/caches/{cache}",                 "PurgeCache",       UNARY,         EVERYWHERE, AGENT,  OWN_NONE, "", true, true, api_cache_purge,
	 NULL, {{200, &shape_purged}}},
	{"GET",    P "/events/search",                  "SearchEvents",     UNARY,         EVERYWHERE, ADMIN,  OWN_NONE, FILTERS " session_id", true, false, api_events_history,
	 NULL, {{200, &shape_events}}},
	{"GET",    "/health",                           "Health",           UNARY,         EVERYWHERE, ANYONE, OWN_NONE, "", true, false, api_health,
	 NULL, {{200, &shape_health}}},
	{"GET",    "/ready",                            "Ready",            UNARY,         EVERYWHERE, ANYONE, OWN_NONE, "", true, false, api_ready,
	 NULL, {{200, &shape_ready}, {503, &shape_ready}}},
	{"GET",    "/openapi.json",                     "OpenApi",          UNARY,         EVERYWHERE, ANYONE, OWN_NONE, "", true, false, api_openapi,
	 NULL, {{200, NULL, "application/json"}}},
};
/* clang-format on */
const size_t api_nmethods = ARRAY_LEN(api_methods);

const struct method api_metrics_method = {.verb = "GET",
					  .path = "",
					  .rpc = "Metrics",
					  .listeners = EVERYWHERE,
					  .params = "",
					  .idempotent = true,
					  .handler = api_metrics,
					  .answers = {{200, NULL, "text/plain"}}};
