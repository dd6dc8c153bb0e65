// SPDX-License-Identifier: Apache-2.0
/* Every method of the API, one row each. */
#include "api/handlers.h"
#include "base/mem.h"

#define AGENT (1u << ROLE_AGENT | 1u << ROLE_ADMIN)
#define ADMIN (1u << ROLE_ADMIN)
#define ANYONE 0u
#define P API_PREFIX
#define FILTERS "type decision since until limit offset cursor command_id"

/* clang-format off */
const struct method api_methods[] = {
	/* verb, path, rpc, roles, ownership, query, idempotent, audited, handler */
	{"POST",   P "/sessions",                      "CreateSession",   AGENT,  OWN_NONE,    "", false, true,  api_session_create},
	{"GET",    P "/sessions",                      "ListSessions",    AGENT,  OWN_NONE,    "limit cursor", true, false, api_session_list},
	{"GET",    P "/sessions/{id}",                 "GetSession",      AGENT,  OWN_SESSION, "", true,  false, api_session_get},
	{"PATCH",  P "/sessions/{id}",                 "UpdateSession",   AGENT,  OWN_SESSION, "", false, true,  api_session_patch},
	{"DELETE", P "/sessions/{id}",                 "DestroySession",  AGENT,  OWN_SESSION, "", true,  true,  api_session_destroy},
	{"POST",   P "/sessions/{id}/exec",            "Execute",         AGENT,  OWN_SESSION, "", false, true,  api_exec},
	{"POST",   P "/sessions/{id}/exec/stream",     "ExecuteStream",   AGENT,  OWN_SESSION, "", false, true,  api_exec_stream},
	{"GET",    P "/sessions/{id}/commands",        "ListCommands",    AGENT,  OWN_SESSION, "limit cursor", true, false, api_command_list},
	{"GET",    P "/sessions/{id}/commands/{cmd}",  "GetCommand",      AGENT,  OWN_SESSION_COMMAND, "", true, false, api_command_get},
	{"GET",    P "/commands/{cmd}",                "FindCommand",     AGENT,  OWN_COMMAND, "", true,  false, api_command_get},
	{"GET",    P "/sessions/{id}/output/{cmd}",    "GetOutput",       AGENT,  OWN_SESSION_COMMAND, "stream offset limit", true, false, api_command_output},
	{"POST",   P "/sessions/{id}/kill/{cmd}",      "KillCommand",     AGENT,  OWN_SESSION_COMMAND, "", false, true, api_command_kill},
	{"GET",    P "/sessions/{id}/events",          "StreamEvents",    AGENT,  OWN_SESSION, "type", true, false, api_events_stream},
	{"GET",    P "/sessions/{id}/history",         "GetHistory",      AGENT,  OWN_SESSION, FILTERS, true, false, api_events_history},
	{"GET",    P "/events/search",                 "SearchEvents",    ADMIN,  OWN_NONE,    FILTERS " session_id", true, false, api_events_search},
	{"GET",    "/health",                          "Health",          ANYONE, OWN_NONE,    "", true,  false, api_health},
	{"GET",    "/ready",                           "Ready",           ANYONE, OWN_NONE,    "", true,  false, api_ready},
};
/* clang-format on */
const size_t api_nmethods = ARRAY_LEN(api_methods);
