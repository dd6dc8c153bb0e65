// SPDX-License-Identifier: Apache-2.0
/* cli/cli.h - the command line: one row per command, one table of options each.
 *
 * A command returns the exit status of the program; errors are printed once, by cli_main. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "base/json.h"
#include "client/client.h"
#include <stdbool.h>
#include <stdint.h>

#define CLI_FAILED 125
#define CLI_PIPE 141 /* nobody reads what we write: as after SIGPIPE */
#define CLI_USAGE 125

/* Values of all options; each command's table says which it takes. */
struct cli_values {
	const char *server, *api_key;
	const char *workspace, *policy, *idle_timeout, *timeout, *id, *background;
	const char *json_text, *script, *output, *argv0, *working_dir, *command_id,
		*idempotency_key;
	const char *stream_name, *offset, *limit, *signal, *grace, *type, *last_event_id, *config;
	struct strv env, set;
	bool json, stream, no_queue, detach, help, strict, refresh, effective, quiet, create, all;
};

enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_LIST };
struct cli_option {
	const char *name; /* "--timeout" */
	enum cli_kind kind;
	uint16_t offset;
	const char *value; /* "DURATION"; NULL for a flag */
	const char *help;
};

struct cli {
	struct cli_values v;
	int argc; /* operands that are left */
	char **argv;
	bool dashes;	    /* the operands stood behind "--" */
	bool no_auto;	    /* never start a server */
	bool structured;    /* what it prints is JSON, an error too */
	struct buf refusal; /* the last that the server sent instead of an answer */
	struct client *client;
};

typedef int cli_fn(struct cli *cli,
		   struct err *err); /* exit status, or a negative error code with *err set */
struct cli_command {
	const char *name;     /* "session create" */
	const char *operands; /* for the help */
	const char *summary;
	const struct cli_option *options; /* ends with name NULL; may be NULL */
	cli_fn *run;
	bool raw;	      /* everything behind the name is handed on unread */
	const char *examples; /* lines that begin with two spaces; may be NULL */
};
extern const struct cli_command cli_commands[]; /* ends with name NULL */
extern const struct cli_option cli_globals[];

int cli_main(int argc, char **argv);
/* Reads options until "--" or, for exec and run, the operand that begins a command; the rest stays
 * in cli->argv (which is argv, changed). */
int cli_parse(const struct cli_command *cmd, int argc, char **argv, struct cli *cli,
	      struct err *err);
void cli_help(const struct cli_command *cmd, struct buf *out);
/* The next command (after NULL: the first) whose name is this word and another; NULL: no more. */
const struct cli_command *cli_group(const char *word, const struct cli_command *after);
/* Help on such a group. */
void cli_help_group(const char *word, struct buf *out);
int cli_connect(struct cli *cli, struct err *err);
/* Calls the API; the body is the answer's JSON text. */
int cli_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct buf *answer, struct err *err);
/* What is no id names nothing, and in a path it would be something else. E_SESSION_NOT_FOUND,
 * E_NOT_FOUND. */
int cli_session_name(const char *name, struct err *err);
int cli_command_name(const char *name, struct err *err);
void cli_print(const struct buf *b);
/* Whether nobody reads our stdout or stderr any more. */
bool cli_reader_left(void);
/* Exit status for an error. */
int cli_status(const struct err *err);

/* pretty.c: indents valid JSON by two spaces without changing any value. */
void cli_pretty(const char *json, size_t len, struct buf *out);
/* Columns as wide as their widest cell, two spaces apart, left-aligned; cells are made visible. */
void cli_columns(const char *const *cells, size_t columns, size_t rows, struct buf *out);
/* "1234" -> "1,234" */
void cli_thousands(int64_t n, struct buf *out);

/* The text at the key; "" if there is none. */
const char *cli_string(const json_t *obj, const char *key);
/* Appends the text with control characters written as \\xNN: what a session named must not steer a
 * terminal. NULL adds nothing. */
void cli_visible(const char *text, struct buf *out);

/* summary.c: what policy refused inside the command, one line per rule and target. */
void cli_refusals(const json_t *answer, struct buf *out);
/* summary.c: the answer of exec in about six lines, without the output. */
void cli_summary(const json_t *answer, struct buf *out);

/* denial.c: the object `policy` of an error as lines for a person; what is none adds nothing. */
void cli_denial(const char *json, struct buf *out);

/* cmd_config.c: the configuration a server started now would have; file NULL: from the usual
 * place. *c is zero before, and config_done frees it in any case. */
struct config;
int cli_config(struct cli *cli, const char *file, struct config *c, struct buf *report,
	       struct err *err);

/* exec_body.c: E_BAD_REQUEST unless the value (may be NULL) is UTF-8: JSON would carry something
 * else instead, and another command would run. */
int cli_text(const char *what, const char *value, struct err *err);
/* exec_body.c: NAME=VALUE strings as the object `key`. */
int cli_env(struct jw *w, const char *key, const struct strv *env, struct err *err);
/* The exec request from options and operands. Takes script, json_text or operands. */
int cli_exec_body(struct cli *cli, int first, struct buf *out, struct err *err);
/* Exit code of an exec answer (JSON text). */
int cli_exit_code(const char *json, size_t len, struct err *err);

cli_fn cmd_server, cmd_server_stop, cmd_server_status, cmd_server_reload, cmd_server_logs;
cli_fn cmd_version, cmd_help, cmd_run, cmd_exec, cmd_output, cmd_kill, cmd_events;
cli_fn cmd_session_create, cmd_session_list, cmd_session_info, cmd_session_destroy;
cli_fn cmd_doctor;
cli_fn cmd_config_show, cmd_config_validate, cmd_config_keys;
cli_fn cmd_policy_list, cmd_policy_show, cmd_policy_validate, cmd_policy_test, cmd_policy_sets,
	cmd_policy_reload;
