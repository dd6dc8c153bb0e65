// SPDX-License-Identifier: Apache-2.0
/* The shapes of the answers, in the order of their keys. */
#include "api/handlers.h"
#include "api/shape_rows.h"
#include "model/event.h"
#include "model/wall.h"

#define STATES_SESSION "creating ready busy stopping stopped failed"
#define STATES_COMMAND "queued running finished killed lost"
#define ENCODINGS "text base64"

static const char *wall_of(unsigned i)
{
	return i < WALLS ? wall_name((enum wall)i) : NULL;
}

static const char *type_of(unsigned i)
{
	return i < EVENT_TYPE_COUNT ? event_type_name((enum event_type)i) : NULL;
}

/* E_OK is left out. */
static const char *code_of(unsigned i)
{
	return i + 1 < E_CODES ? err_row((enum err_code)(i + 1))->name : NULL;
}

/* ---- errors ---- */

PART(detail, STR("field", 0), STR("problem", 0));
static const struct shape denial = {
	"Denial", ROWS(STR("rule", 0), STR("reason", 0), STR("operation", 0), STR("target", 0),
		       BOOL("final"), STR("approval_id", M), STR("alternatives", L | M))};
PART(error, NAME("code", 0, code_of), STR("message", 0), STR("subject", 0),
     OBJ("details", L | M, detail), OBJ("policy", M, denial), STR("request_id", 0));
const struct shape shape_error = {"Error", ROWS(OBJ("error", 0, error))};

/* ---- sessions ---- */

PART(policy, STR("name", 0), STR("version", N), STR("summary", L), STR("unenforced", L));
PART(queue, ID("running", N), INT("waiting", 0));
static const struct shape wall = {"Wall", ROWS(NAME("wall", 0, wall_of),
					       WORD("state", 0, "absent up partial unavailable"),
					       STR("detail", 0))};
const struct shape shape_session = {
	"Session",
	ROWS(ID("id", 0), WORD("state", 0, STATES_SESSION), TIME("created", 0),
	     TIME("last_activity", 0), TIME("ended", N), ID("agent_id", 0), INT("owner_uid", 0),
	     STR("workspace", 0), OBJ("policy", 0, policy), STR("working_dir", 0),
	     {"environment", SHAPE_MAP},
	     {"config", SHAPE_REQUEST, .request = session_request_fields}, STR("capped", L),
	     INT("command_count", 0), INT("total_file_ops", 0), INT("total_net_ops", 0),
	     INT("total_bytes_read", 0), INT("total_bytes_written", 0), OBJ("queue", 0, queue),
	     STR("failure", N), OBJ("enforcement", L, wall), {"endpoints", SHAPE_MAP})};
const struct shape shape_sessions = {"Sessions",
				     ROWS(OBJ("sessions", L, shape_session), STR("next", 0))};

/* ---- commands ---- */

PART(request, STR("command", N), STR("args", L), STR("script", N), STR("argv0", N),
     STR("working_dir", 0), {"timeout", SHAPE_DURATION, N});
PART(context, STR("working_dir", N), STR("command", N), STR("operation", M), STR("path", M),
     STR("rule", M), STR("approval_id", M));
PART(suggestion, STR("action", 0), STR("command", 0), STR("reason", 0));
static const struct shape failure = {
	"CommandError",
	ROWS(STR("code", 0), STR("message", 0), STR("subject", 0), STR("path", N),
	     OBJ("policy", M, denial), OBJ("context", 0, context),
	     OBJ("suggestions", L, suggestion), STR("similar_files", L), STR("request_id", N))};
PART(left, INT("pid", 0), STR("command", 0), WORD("action", 0, "ended kept"));
PART(pagination, INT("current_offset", 0), INT("current_limit", 0), BOOL("has_more"),
     STR("next_command", N));
PART(result, INT("exit_code", N), STR("signal", N), STR("stdout", 0), STR("stderr", 0),
     WORD("stdout_encoding", 0, ENCODINGS), WORD("stderr_encoding", 0, ENCODINGS),
     BOOL("stdout_truncated"), INT("stdout_total_bytes", 0), INT("stdout_total_lines", 0),
     BOOL("stderr_truncated"), INT("stderr_total_bytes", 0), INT("stderr_total_lines", 0),
     NUM("duration_ms", 0), OBJ("error", N, failure), STR("warnings", L),
     OBJ("background", L, left), OBJ("pagination", 0, pagination));
PART(totals, INT("file", 0), INT("network", 0), INT("exec", 0), INT("blocked", 0));
PART(operations, OBJ("file_operations", L, shape_event), OBJ("network_operations", L, shape_event),
     OBJ("exec_operations", L, shape_event), OBJ("blocked_operations", L, shape_event),
     OBJ("totals", 0, totals), BOOL("truncated"), STR("query", 0));
PART(network, INT("connections", 0), INT("dns_queries", 0), INT("bytes_sent", 0),
     INT("bytes_received", 0), INT("blocked_connections", 0), STR("unique_destinations", L));
PART(resources, NUM("cpu_time_ms", 0), NUM("memory_peak_mb", 0), NUM("disk_read_mb", 0),
     NUM("disk_write_mb", 0), NUM("net_sent_kb", 0), NUM("net_received_kb", 0));
PART(state, STR("working_dir", N), STR("environment_changed", L));
#define ANSWER                                                                        \
	ID("command_id", 0), ID("session_id", 0), TIME("timestamp", 0),               \
		WORD("command_state", 0, STATES_COMMAND), OBJ("request", 0, request), \
		OBJ("result", 0, result), OBJ("events", 0, operations),               \
		OBJ("network_summary", 0, network), OBJ("resources", 0, resources),   \
		OBJ("state", 0, state), OBJ("enforcement", L, wall)
const struct shape shape_answer = {"ExecAnswer", ROWS(ANSWER)};
PART(used, ID("id", 0), OBJ("policy", 0, policy));
const struct shape shape_run = {"RunAnswer", ROWS(ANSWER, OBJ("session", 0, used))};
const struct shape shape_command = {
	"Command",
	ROWS(ID("command_id", 0), ID("session_id", 0), ID("agent_id", 0),
	     WORD("state", 0, STATES_COMMAND), OBJ("request", 0, request), TIME("created", 0),
	     TIME("started", N), TIME("finished", N), INT("exit_code", N), STR("signal", N),
	     NUM("duration_ms", 0), OBJ("error", N, failure), INT("stdout_total_bytes", 0),
	     INT("stdout_total_lines", 0), INT("stderr_total_bytes", 0),
	     INT("stderr_total_lines", 0), BOOL("detach"))};
const struct shape shape_commands = {"Commands",
				     ROWS(OBJ("commands", L, shape_command), STR("next", 0))};
const struct shape shape_output = {
	"Output", ROWS(ID("command_id", 0), WORD("stream", 0, "stdout stderr"), INT("offset", 0),
		       STR("data", 0), WORD("encoding", 0, ENCODINGS), INT("total_bytes", 0),
		       INT("total_lines", 0), INT("kept_bytes", 0), INT("next_offset", 0),
		       BOOL("complete"), BOOL("has_more"))};

/* ---- events ---- */

PART(operation, INT("bytes", M), INT("offset", M), {"mapped", SHAPE_BOOL, M}, STR("to", M),
     STR("error", M), STR("flags", L | M));
PART(metadata, STR("file_type", M), INT("file_size_before", M), INT("file_size_after", M),
     STR("path_source", M));
PART(connection, STR("remote_addr", 0), INT("remote_port", 0), INT("local_port", 0),
     STR("protocol", M), INT("bytes_sent", 0), INT("bytes_received", 0));
PART(dns, STR("domain", 0), STR("type", M), STR("resolved_from", M));
PART(tls, STR("sni", M), STR("version", M));
PART(exec, STR("path", 0), STR("argv", L), STR("cwd", M), INT("ppid", 0),
     WORD("verified", M, "bpf stop initial"), STR("loaded", M));
PART(change, STR("from", M), STR("to", M));
PART(command, STR("line", M), INT("exit_code", M), STR("signal", M), NUM("duration_ms", M));
PART(approval, BOOL("required"), WORD("mode", 0, "shadow enforced"), STR("approval_id", N),
     WORD("error", M, "E_APPROVAL_DENIED E_APPROVAL_TIMEOUT"));
PART(verdict, STR("name", M), STR("decision", M), STR("effective_decision", M),
     {"attention", SHAPE_BOOL, M}, STR("rule", M), STR("version", M), STR("reason", M),
     STR("operation", M), STR("target", M), {"final", SHAPE_BOOL, M}, STR("alternatives", L | M),
     OBJ("approval", M, approval));
PART(resource, STR("limit", 0), STR("counter", M), INT("value", 0));
const struct shape shape_event = {
	"Event",
	ROWS(INT("seq", 0), INT("schema", 0), TIME("timestamp", 0), NAME("type", 0, type_of),
	     INT("type_number", M), ID("session_id", M), ID("command_id", M), ID("agent_id", M),
	     INT("pid", M), INT("count", 0), STR("path", M), STR("real_path", M),
	     OBJ("operation", M, operation), OBJ("connection", M, connection), OBJ("dns", M, dns),
	     OBJ("tls", M, tls), OBJ("exec", M, exec), OBJ("state", M, change), STR("reason", M),
	     OBJ("command", M, command), OBJ("resource", M, resource), STR("decision", M),
	     OBJ("policy", M, verdict), INT("latency_us", M), OBJ("metadata", M, metadata),
	     STR("request_id", M), STR("trace_id", M))};
const struct shape shape_events = {"Events",
				   ROWS(OBJ("events", L, shape_event), STR("next", 0),
					INT("total", 0), BOOL("total_exact"), BOOL("partial"))};

/* ---- policies ---- */

PART(listed, STR("name", 0), STR("version", N), STR("description", N), BOOL("default"));
PART(broken, STR("name", 0), STR("problem", N));
const struct shape shape_policies = {"Policies", ROWS(OBJ("policies", L, listed))};
const struct shape shape_reload = {"PolicyReload", ROWS(STR("loaded", L), OBJ("failed", L, broken),
							OBJ("policies", L, listed))};

/* ---- kept homes ---- */

PART(cache, ID("id", 0), ID("agent_id", 0), STR("workspace", 0), STR("policy", 0),
     TIME("last_used", 0), INT("bytes", N), BOOL("in_use"));
const struct shape shape_caches = {"Caches", ROWS(OBJ("caches", L, cache))};
const struct shape shape_purged = {"PurgedCache", ROWS(ID("id", 0))};

/* ---- trash ---- */

PART(trashed, ID("id", 0), STR("path", 0), STR("real_path", 0), WORD("type", 0, "file symlink"),
     STR("mode", 0), INT("size", 0), TIME("modified", 0), TIME("deleted", 0), STR("command_id", N));
const struct shape shape_trash = {"Trash", ROWS(ID("session_id", 0), STR("directory", 0),
						OBJ("entries", L, trashed), STR("next", 0),
						INT("total", 0))};
const struct shape shape_restored = {"Restored", ROWS(ID("id", 0))};

/* ---- the server ---- */

const struct shape shape_health = {"Health", ROWS(STR("status", 0), STR("version", 0))};
const struct shape shape_ready = {"Ready",
				  ROWS(BOOL("ready"), INT("sessions", 0), STR("reason", M))};

/* ---- requests ---- */

const struct shape_body body_session = {"SessionRequest", session_request_fields, "workspace",
					false};
const struct shape_body body_patch = {"SessionPatch", session_patch_fields, NULL, false};
const struct shape_body body_exec = {"ExecRequest", exec_request_fields, NULL, false};
const struct shape_body body_run = {"RunRequest", run_request_fields, "session", false};
const struct shape_body body_kill = {"KillRequest", api_kill_fields, NULL, true};
