// SPDX-License-Identifier: Apache-2.0
/* Every command, one row each. */
#include "cli/cli.h"
#include <limits.h>
#include <stddef.h>

#define OPTION(name, kind, field, value, help)                              \
	{                                                                   \
		name, kind, offsetof(struct cli_values, field), value, help \
	}
#define FLAG(name, field, help) OPTION(name, CLI_FLAG, field, NULL, help)
#define TEXT(name, field, value, help) OPTION(name, CLI_TEXT, field, value, help)
#define LIST(name, field, value, help) OPTION(name, CLI_LIST, field, value, help)
/* Most tables end with these rows. */
#define CONFIG_OPTIONS(example)                                                               \
	TEXT("--config", config, "FILE", "instead of the usual place"),                       \
		LIST("--set", set, "KEY=VALUE", "over the file" example "; may be repeated"), \
		FLAG("--json", json, "as JSON"),                                              \
	{                                                                                     \
		NULL                                                                          \
	}
#define POLICY_OPTIONS CONFIG_OPTIONS(", e.g. policies.dir")

const struct cli_option cli_globals[] = {
	TEXT("--server", server, "ADDR", "unix:/path or http://127.0.0.1:PORT (AGENTSH_SERVER)"),
	TEXT("--api-key", api_key, "KEY", "API key (AGENTSH_API_KEY)"),
	FLAG("--help", help, "this text"),
	{NULL},
};
static const struct cli_option json_only[] = {FLAG("--json", json, "print the API's answer"),
					      {NULL}};
static const struct cli_option as_json[] = {FLAG("--json", json, "as JSON"), {NULL}};
static const struct cli_option list_options[] = {
	FLAG("--all", all, "those that have ended, too"),
	FLAG("--json", json, "print the API's answer, with all sessions"),
	{NULL},
};
static const struct cli_option create_options[] = {
	TEXT("--workspace", workspace, "DIR", "directory to work on (default: the current one)"),
	TEXT("--policy", policy, "NAME", "policy of the session"),
	TEXT("--id", id, "ID", "name of the session (default: made up)"),
	TEXT("--timeout", timeout, "DURATION", "longest life, e.g. 4h"),
	TEXT("--idle-timeout", idle_timeout, "DURATION", "end after this long without a command"),
	TEXT("--background", background, "end|keep", "what becomes of processes a command leaves"),
	LIST("--env", env, "NAME=VALUE", "environment of the session; may be repeated"),
	FLAG("--json", json, "print the API's answer"),
	{NULL},
};
static const struct cli_option exec_options[] = {
	TEXT("--output", output, "text|json|shell",
	     "text (default on a terminal): output and a summary; json (default elsewhere): the "
	     "structured answer; shell: stdin, stdout, stderr pass through"),
	TEXT("--script", script, "TEXT", "run this text by the session's shell"),
	TEXT("--json", json_text, "REQUEST", "the whole request as JSON"),
	TEXT("--timeout", timeout, "DURATION",
	     "e.g. 90s, 5m; at most the session's command_timeout"),
	FLAG("--stream", stream, "print output and events as they come"),
	FLAG("--detach", detach, "answer at once; the command runs on"),
	FLAG("--no-queue", no_queue, "fail if the session is busy"),
	TEXT("--argv0", argv0, "NAME", "argv[0] of the program"),
	TEXT("--working-dir", working_dir, "DIR", "directory inside the session"),
	LIST("--env", env, "NAME=VALUE", "for this command only; may be repeated"),
	TEXT("--command-id", command_id, "ID", "name of the command (default: made up)"),
	TEXT("--idempotency-key", idempotency_key, "KEY", "never run twice for the same key"),
	FLAG("--create", create, "make the session if it does not exist, in the current directory"),
	FLAG("--quiet", quiet, "no summary, and no list of what policy refused inside the command"),
	{NULL},
};
static const struct cli_option run_options[] = {
	TEXT("--workspace", workspace, "DIR",
	     "directory to work on (default: the git repository around the current one, else "
	     "that)"),
	TEXT("--policy", policy, "NAME", "policy of the session"),
	TEXT("--output", output, "shell|text|json",
	     "shell (default): pass through; text: and a summary; json: the structured answer"),
	TEXT("--script", script, "TEXT", "run this text by the session's shell"),
	TEXT("--timeout", timeout, "DURATION",
	     "e.g. 90s, 5m; at most the session's command_timeout"),
	LIST("--env", env, "NAME=VALUE", "may be repeated"),
	FLAG("--quiet", quiet,
	     "no list of what policy refused inside the command, nor of rules that are not "
	     "enforced"),
	{NULL},
};
static const struct cli_option output_options[] = {
	TEXT("--stream", stream_name, "stdout|stderr", "which (default stdout)"),
	TEXT("--offset", offset, "BYTES", "from here (default 0)"),
	TEXT("--limit", limit, "BYTES", "at most so many (default: all there is)"),
	FLAG("--json", json, "print the API's answer (one page)"),
	{NULL},
};
static const struct cli_option kill_options[] = {
	TEXT("--signal", signal, "NAME", "default TERM"),
	TEXT("--grace", grace, "DURATION", "KILL to the whole tree after this (default 2s)"),
	FLAG("--json", json, "print the API's answer"),
	{NULL},
};
static const struct cli_option events_options[] = {
	TEXT("--type", type, "A,B", "only these types"),
	TEXT("--after", last_event_id, "SEQ",
	     "resume behind this sequence number; 0 from the beginning"),
	{NULL},
};
static const struct cli_option config_options[] = {
	CONFIG_OPTIONS(""),
};

static const struct cli_option policy_options[] = {
	POLICY_OPTIONS,
};
static const struct cli_option policy_show_options[] = {
	FLAG("--effective", effective, "the policy of a session, as the server has it"),
	POLICY_OPTIONS,
};
static const struct cli_option policy_validate_options[] = {
	FLAG("--strict", strict, "warnings are errors"),
	POLICY_OPTIONS,
};
static const struct cli_option policy_test_options[] = {
	TEXT("--policy", policy, "NAME", "a policy or a file (default: policies.default)"),
	FLAG("--made", made, "of a file, as if the session had made the directory that has it"),
	POLICY_OPTIONS,
};
static const struct cli_option policy_sets_options[] = {
	FLAG("--refresh", refresh, "make package-registries from the package managers' settings"),
	POLICY_OPTIONS,
};

static const struct cli_option purge_options[] = {
	FLAG("--all", all, "every cache that no session uses"),
	FLAG("--json", json, "print the API's answers"),
	{NULL},
};
static const struct cli_option trash_list_options[] = {
	TEXT("--session", session, "ID", "only of this session"),
	FLAG("--json", json, "as JSON"),
	{NULL},
};
static const struct cli_option trash_options[] = {
	TEXT("--session", session, "ID", "only of this session"),
	FLAG("--all", all, "every entry"),
	FLAG("--json", json, "as JSON"),
	{NULL},
};
static const struct cli_option doctor_options[] = {
	TEXT("--config", config, "FILE", "the server's configuration (default: the usual place)"),
	FLAG("--json", json, "as JSON"),
	{NULL},
};

static const struct cli_option top_options[] = {
	FLAG("--version", version, "print the version"),
	{NULL},
};
const struct cli_command cli_top = {.name = "", .operands = "", .options = top_options};

const struct cli_command cli_commands[] = {
	{"server stop", "", "end the server that commands use, and its sessions", NULL,
	 cmd_server_stop, 0, 0, "  agentsh server stop\n"},
	{"server status", "", "tell which server commands use; exit 0 ready, 1 not ready, 3 none",
	 as_json, cmd_server_status, 0, 0,
	 "  agentsh server status --json\n"
	 "  agentsh --server unix:/run/agentsh/agentsh.sock server status\n"},
	{"server reload", "", "make the server read configuration, keys and policies again", NULL,
	 cmd_server_reload, 0, 0, "  agentsh server reload\n"},
	{"server logs", "", "print the server's log", NULL, cmd_server_logs, 0, 0,
	 "  agentsh server logs | tail\n"},
	{"server", "[OPTIONS]", "start a server in the foreground", NULL, cmd_server, 0, 0},
	{"run", "[OPTIONS] -- CMD [ARG...]", "run one command in a session of its own", run_options,
	 cmd_run, 0, INT_MAX,
	 "  agentsh run -- make test\n"
	 "  agentsh run --workspace ~/project --output json --script 'cd src && make'\n"},
	{"session create", "[OPTIONS]", "create a session", create_options, cmd_session_create, 0,
	 0, "  agentsh session create --id demo --workspace ~/project\n"},
	{"session list", "", "list living sessions, the newest first", list_options,
	 cmd_session_list, 0, 0, "  agentsh session list --all\n"},
	{"session info", "SESSION", "show a session", json_only, cmd_session_info, 1, 1},
	{"session destroy", "SESSION", "end a session", json_only, cmd_session_destroy, 1, 1},
	{"exec", "SESSION [OPTIONS] -- CMD [ARG...]", "run a command in a session", exec_options,
	 cmd_exec, 1, INT_MAX,
	 "  agentsh exec demo -- make test\n"
	 "  agentsh exec demo --output shell --script 'cd src && export CC=clang'\n"
	 "  agentsh exec demo --create -- make test\n"
	 "  agentsh exec demo --detach --command-id build -- make\n"},
	{"output", "COMMAND", "print what a command wrote", output_options, cmd_output, 1, 1,
	 "  agentsh output build --stream stderr\n"},
	{"kill", "[SESSION] COMMAND", "end a running command", kill_options, cmd_kill, 1, 2,
	 "  agentsh kill build --signal INT --grace 5s\n"},
	{"events", "SESSION", "follow a session's events, one JSON object a line", events_options,
	 cmd_events, 1, 1, "  agentsh events demo --after 0 --type exec,command_finished\n"},
	{"cache list", "", "list the homes that are kept for later sessions", json_only,
	 cmd_cache_list, 0, 0},
	{"cache purge", "[--all] [CACHE]...", "remove homes that are kept", purge_options,
	 cmd_cache_purge, 0, INT_MAX, "  agentsh cache purge --all\n"},
	{"trash list", "", "list files that sessions deleted and that are kept", trash_list_options,
	 cmd_trash_list, 0, 0, "  agentsh trash list --session demo\n"},
	{"trash restore", "[--all] [ENTRY]...", "put files of the trash back where they were",
	 trash_options, cmd_trash_restore, 0, INT_MAX,
	 "  agentsh trash restore 1763493279123456\n"},
	{"trash purge", "[--all] [ENTRY]...", "remove files of the trash for good", trash_options,
	 cmd_trash_purge, 0, INT_MAX, "  agentsh trash purge --session demo --all\n"},
	{"policy list", "", "list policies", policy_options, cmd_policy_list, 0, 0},
	{"policy show", "NAME | --effective [SESSION]",
	 "print a policy as it was read, or the one that holds for a session", policy_show_options,
	 cmd_policy_show, 0, 1, "  agentsh policy show --effective demo\n"},
	{"policy reload", "", "make the server read the policies in use again", json_only,
	 cmd_policy_reload, 0, 0},
	{"policy validate", "[NAME|FILE]...", "check policy files (default: all policies)",
	 policy_validate_options, cmd_policy_validate, 0, INT_MAX,
	 "  agentsh policy validate --strict ./mine.yaml\n"},
	{"policy test", "[OPTIONS] file OP PATH | exec CMD [ARG...] | net HOST:PORT | dns NAME",
	 "tell what a policy says of an operation, and by which rule", policy_test_options,
	 cmd_policy_test, 0, INT_MAX,
	 "  agentsh policy test exec sudo id\n"
	 "  agentsh policy test --policy default file write .git/hooks/pre-commit\n"
	 "  agentsh policy test --policy ./mine.yaml net 10.0.0.1:443\n"},
	{"policy sets", "[NAME]", "list named sets, print one, or refresh them",
	 policy_sets_options, cmd_policy_sets, 0, 1},
	{"config show", "", "print the resolved configuration", config_options, cmd_config_show, 0,
	 0},
	{"config validate", "[FILE]", "check a configuration file", config_options,
	 cmd_config_validate, 0, 1},
	{"config keys", "", "list every configuration key", as_json, cmd_config_keys, 0, 0},
	{"doctor", "", "try every wall in a throwaway session and say what holds", doctor_options,
	 cmd_doctor, 0, 0},
	{"detect", "", "the same as doctor", doctor_options, cmd_doctor, 0, 0},
	{"version", "", "print the version", as_json, cmd_version, 0, 0},
	{"help", "[COMMAND]", "print help", NULL, cmd_help, 0, INT_MAX},
	{NULL},
};
