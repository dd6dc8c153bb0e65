// SPDX-License-Identifier: Apache-2.0
/* cli/cli.h - the command line: one row and one table of options for each command.
 *
 * A command returns the exit status of the program; cli_main prints an error once. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "base/json.h"
#include "client/client.h"
#include <stdbool.h>
#include <stdint.h>

#define CLI_FAILED 125
#define CLI_PIPE 141 /* the reader of our output has gone: as after SIGPIPE */

/* Values of all options; the table of a command lists those that it takes. */
struct cli_values {
	const char *server, *api_key;
	const char *workspace, *policy, *idle_timeout, *timeout, *id, *background, *session;
	const char *json_text, *script, *output, *argv0, *working_dir, *command_id,
		*idempotency_key;
	const char *stream_name, *offset, *limit, *signal, *grace, *type, *last_event_id, *config;
	struct strv env, set;
	bool json, stream, no_queue, detach, help, version, strict, refresh, effective, quiet,
		create, all, made;
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
	int argc; /* the operands */
	char **argv;
	bool no_auto;	    /* never start a server */
	bool structured;    /* the command prints JSON, also for an error */
	struct buf refusal; /* the last error body that the server sent */
	struct client *client;
};

/* Returns the exit status, or a negative error code with *err set. */
typedef int cli_fn(struct cli *cli, struct err *err);
struct cli_command {
	const char *name;     /* "session create" */
	const char *operands; /* for the help */
	const char *summary;
	const struct cli_option *options; /* ends with name NULL; may be NULL */
	cli_fn *run;
	int least, most;      /* operands */
	const char *examples; /* lines that begin with two spaces; may be NULL */
};
extern const struct cli_command cli_commands[]; /* ends with name NULL */
extern const struct cli_command cli_top;	/* agentsh itself: the options before a command */
extern const struct cli_option cli_globals[];

int cli_main(int argc, char **argv);
/* Reads options until "--" or the operand that begins a command; the rest stays in cli->argv (which
 * is argv, changed). */
int cli_parse(const struct cli_command *cmd, int argc, char **argv, struct cli *cli,
	      struct err *err);
void cli_help(const struct cli_command *cmd, struct buf *out);
/* Returns the next command of a group (after NULL: the first), or NULL. The names of a group begin
 * with this word and have another one; "" is the group of all commands. */
const struct cli_command *cli_group(const char *word, const struct cli_command *after);
/* Writes the help on a group. */
void cli_help_group(const char *word, struct buf *out);
int cli_connect(struct cli *cli, struct err *err);
/* Calls the API and appends the body of the answer. */
int cli_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
	     struct buf *answer, struct err *err);
/* The same, and parses the body; show: prints it, too. The caller releases *doc. */
int cli_call_json(struct cli *cli, const char *method, const char *path, const struct buf *body,
		  bool show, json_t **doc, struct err *err);
/* Makes the API's path of a session, with `rest` behind it; the caller frees it. Rejects anything
 * that is not an id with E_SESSION_NOT_FOUND. */
int cli_session_path(const char *id, const char *rest, char **path, struct err *err);
void cli_print(const struct buf *b);
/* Whether the reader of our stdout or stderr has gone. */
bool cli_reader_left(void);

/* pretty.c: indents valid JSON by two spaces without changing any value. */
void cli_pretty(const char *json, size_t len, struct buf *out);
void cli_print_json(const struct buf *json); /* indented */
/* Prints the text, which is JSON if the user wants JSON. */
void cli_show(const struct cli *cli, const struct buf *text);
/* Writes columns as wide as their widest cell, two spaces apart; cells are made visible. */
void cli_columns(const char *const *cells, size_t columns, size_t rows, struct buf *out);
/* "1234" -> "1,234" */
void cli_thousands(int64_t n, struct buf *out);
/* Appends the value at the key of an object. */
enum cli_cell {
	CLI_WORDS,
	CLI_TIME, /* without the fraction of a second */
	CLI_NUMBER,
	CLI_THOUSANDS,
};
void cli_cell(const json_t *obj, const char *key, enum cli_cell kind, struct buf *out);
struct cli_column {
	const char *head, *key;
	enum cli_cell kind;
};
/* Writes objects as a table with one row each. */
void cli_table(const json_t *rows, const struct cli_column *columns, size_t n, struct buf *out);
/* Prints the JSON document or, for a person, the objects in its array `key` as a table. */
void cli_show_table(const struct cli *cli, const struct buf *json, const char *key,
		    const struct cli_column *columns, size_t n);

/* Returns the text at the key, or "". */
const char *cli_string(const json_t *obj, const char *key);
/* Appends the bytes of the text at the key, decoded if the key `encoding` has "base64". False if it
 * is missing or cannot be decoded. */
bool cli_bytes(const json_t *obj, const char *key, const char *encoding, struct buf *out);
/* Appends the text with control characters written as \\xNN: a name from a session must not control
 * the terminal. NULL adds nothing. */
void cli_visible(const char *text, struct buf *out);
/* Appends the formatted text, made visible, and a newline. */
void cli_line(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether the session (JSON) is stopped or failed. */
bool cli_session_ended(const json_t *session);

/* summary.c: a packed denial (base/denial.h) as lines for a person; another text adds nothing. */
void cli_denial(const char *packed, struct buf *out);
/* summary.c: one line for each rule and target that the policy denied inside the command. */
void cli_refusals(const json_t *answer, struct buf *out);
/* summary.c: the answer of exec in about six lines, without the output. */
void cli_summary(const json_t *answer, struct buf *out);

/* cmd_config.c: the configuration that a server would have if it started now; file NULL: from the
 * usual place. *c is zero before; the caller calls config_done in any case. */
struct config;
int cli_config(struct cli *cli, const char *file, struct config *c, struct buf *report,
	       struct err *err);

/* program_output.c: runs a program in the directory and appends what it writes to stdout within 30
 * s; adds nothing if the program is missing. */
void cli_program_output(char *const *argv, const char *dir, char *const *env, struct buf *out);

/* exec_body.c: fails with E_BAD_REQUEST unless the value (may be NULL) is UTF-8: JSON would change
 * it, and another command would run. */
int cli_text(const char *what, const char *value, struct err *err);
/* exec_body.c: writes NAME=VALUE strings as the object `key`. */
int cli_env(struct jw *w, const char *key, const struct strv *env, struct err *err);
/* Writes the exec request from options and operands: script, json_text or operands. */
int cli_exec_body(struct cli *cli, int first, struct buf *out, struct err *err);
/* Returns the exit code of an exec answer. */
int cli_exit_code(const json_t *answer, struct err *err);
/* The workspace of run in a directory, given by its real path: the root of the git repository
 * around it if the caller owns that and it does not contain the caller's home, else the directory
 * itself. The caller frees the result. */
char *cli_run_root(const char *here);
/* cmd_session.c: writes the request for a new session from --id, --workspace, --policy, --timeout,
 * --idle-timeout, --background and --env. */
int cli_session_body(const struct cli_values *v, struct buf *body, struct err *err);

cli_fn cmd_server, cmd_server_stop, cmd_server_status, cmd_server_reload, cmd_server_logs;
cli_fn cmd_version, cmd_help, cmd_run, cmd_exec, cmd_output, cmd_kill, cmd_events;
cli_fn cmd_session_create, cmd_session_list, cmd_session_info, cmd_session_destroy;
cli_fn cmd_cache_list, cmd_cache_purge;
cli_fn cmd_trash_list, cmd_trash_restore, cmd_trash_purge;
cli_fn cmd_doctor;
cli_fn cmd_config_show, cmd_config_validate, cmd_config_keys;
cli_fn cmd_policy_list, cmd_policy_show, cmd_policy_validate, cmd_policy_test, cmd_policy_sets,
	cmd_policy_reload;
