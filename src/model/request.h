// SPDX-License-Identifier: Apache-2.0
/* model/request.h - what a client asks for: a session, a command. Parsed from JSON by one table
 * each. err is required. */
#pragma once
#include "base/fields.h"
#include "base/id.h"
#include "base/json.h"
#include "model/limits.h"

#define REQUEST_ENV_MAX (256 * 1024)
#define REQUEST_SCRIPT_MAX (96 * 1024) /* one argument of execve is at most 128 KiB */
#define REQUEST_ARGS_MAX (1024 * 1024)
#define REQUEST_STDIN_MAX (8 * 1024 * 1024)

/* POST /api/v1/sessions; 0 and NULL mean "not given". Dangerous variables are already stripped from
 * environment, and from exec_request's env. */
struct session_request {
	char *id, *workspace, *policy, *background, *agent_id;
	struct limits limits;
	struct strv allowed_domains, blocked_domains, allowed_ports, environment;
	char *working_dir;
	struct strv unset; /* PATCH only: names of variables to remove */
	bool has_environment;
};
/* The tables that read the bodies; the OpenAPI document shows them, too. */
extern const struct json_field session_request_fields[], session_patch_fields[],
	run_request_fields[];
/* The body of run is that of exec with `session` as its first row. Each part is read alone. */
#define exec_request_fields (run_request_fields + 1)
int session_request_read(const json_t *obj, struct session_request *out, struct err *err);
/* PATCH: environment (null removes a variable), working_dir (alias cwd), timeouts, narrower limits;
 * other keys are refused. */
int session_patch_read(const json_t *obj, struct session_request *out, struct err *err);
void session_request_done(struct session_request *w);
/* `config` of the session record. */
void session_request_format(const struct session_request *w, struct jw *jw);

/* POST …/exec */
struct exec_request {
	char *command, *script, *argv0, *working_dir, *command_id;
	struct strv args, env;
	char *stdin_text, *encoding; /* as given; exec_request_read decodes the text */
	struct bytes stdin_data;     /* decoded */
	int64_t timeout_ms;	     /* 0: the session's */
	int64_t max_output_bytes;    /* default 10000 */
	bool queue, detach, stream_output;
};
/* Exactly one of command and script; `encoding` text or base64 applies to stdin. */
int exec_request_read(const json_t *obj, struct exec_request *out, struct err *err);
void exec_request_done(struct exec_request *w);

/* Variables that make a program run code which its arguments do not name. A name that ends in '*'
 * is a beginning; programs are patterns of those that read it, one space apart, NULL: any. */
struct request_env_loader {
	const char *name, *programs;
};
extern const struct request_env_loader request_env_loaders[]; /* ends with a NULL name */
bool request_env_loads_code(const char *name, size_t len);

/* Variables that never cross into a command: STA-4. */
bool request_env_dangerous(const char *name, size_t len);
/* [A-Za-z_][A-Za-z0-9_]*; name ends in NUL somewhere behind. */
bool request_env_name(const char *name, size_t len);
/* Removes them (and malformed names); returns how many. Each is logged at debug by name. */
size_t request_env_strip(struct strv *env);
