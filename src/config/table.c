// SPDX-License-Identifier: Apache-2.0
#include "config/table.h"
#include "base/mem.h"
#include "model/wall.h"
#include <stddef.h>

#define PATH_LEN 4095
#define SOCKET_LEN 107 /* sun_path, with its NUL */
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define YEARS (87600 * HOUR)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define UID_LAST (INT64_C(0xffffffff) - 1)

#define AT(member) offsetof(struct config, member)
#define RESTART true
#define CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define WALL_NAME(name) #name,
/* A lowest of 1 leaves 0 for "no limit"; a time is always limited. */
#define LIMIT_ROW(name, other, type, unit, low, high, wall, by, fallback, help) \
	{"sandbox.resource_limits." #name,                                      \
	 CONFIG_##type,                                                         \
	 AT(limits.value[LIMIT_##name]),                                        \
	 (low) > 1 || CONFIG_##type == CONFIG_DURATION ? (low) : 0,             \
	 high,                                                                  \
	 fallback,                                                              \
	 NULL,                                                                  \
	 help,                                                                  \
	 "test_cfg_1_sandbox_resource_limits_" #name},

/* What no list of paths may show or touch. */
static const char *const machine[] = {"/proc", "/sys", "/dev", "/run/agentsh", NULL};
static const char *const our_own[] = {"/run/agentsh", NULL};
static const char *const unenforced[] = {WALL_LIST(WALL_NAME) WALL_NAMESPACES, "uid", NULL};

// clang-format off
const struct config_row config_rows[] = {
	{"server.unix_socket", CONFIG_PATH, AT(unix_socket), 1, SOCKET_LEN,
	 "{runtime}/agentsh.sock", NULL,
	 "The socket for clients on this machine; its directory is the server's runtime directory.",
	 "test_cfg_1_server_unix_socket", RESTART},
	{"server.http_addr", CONFIG_ADDRESS, AT(http_addr), 0, 0, "", NULL,
	 "Address for HTTP over TCP, such as 127.0.0.1:8080; empty for none. Only loopback "
	 "addresses, until TLS exists.",
	 "test_cfg_1_server_http_addr", RESTART},
	{"server.api_uid", CONFIG_UID, AT(api_uid), 1, UID_LAST, "64998", NULL,
	 "User id of the process that talks to the network, where the server is started by root.",
	 "test_cfg_1_server_api_uid", RESTART},
	{"server.auth.type", CONFIG_CHOICE, AT(auth_type), 0, 0, "api_key",
	 CHOICES("api_key", "none"),
	 "How clients over TCP prove who they are. On the Unix socket the kernel names the peer.",
	 "test_cfg_1_server_auth_type"},
	{"server.auth.none_as", CONFIG_UID, AT(none_as), 0, UID_LAST, "0", NULL,
	 "User id for which every TCP client without a key speaks with `server.auth.type: none`. A "
	 "server that root starts needs it, and it must not be 0. A normal user's server always speaks "
	 "for that user.",
	 "test_cfg_1_server_auth_none_as"},
	{"server.auth.api_keys_file", CONFIG_PATH, AT(api_keys_file), 0, PATH_LEN, "", NULL,
	 "File with the API keys: `keys: [{id, agent_id, role, uid, sha256}]`.",
	 "test_cfg_1_server_auth_api_keys_file"},
	{"server.max_request_bytes", CONFIG_INT, AT(max_request_bytes), 4 * KIB, 256 * MIB,
	 "16777216", NULL,
	 "Largest body of a request.",
	 "test_cfg_1_server_max_request_bytes"},
	{"server.max_connections", CONFIG_INT, AT(max_connections), 1, 65536, "1024", NULL,
	 "Most connections at a time; more are refused. Each user and each API key may have a quarter of "
	 "them; 16 are kept for root and the server's owner.",
	 "test_cfg_1_server_max_connections"},
	{"server.auto_idle", CONFIG_DURATION, AT(auto_idle_ms), 1, YEARS, "60s", NULL,
	 "A server that the CLI started by itself ends after this time without session and "
	 "connection.",
	 "test_cfg_1_server_auto_idle"},

	{"logging.level", CONFIG_CHOICE, AT(log_level), 0, 0, "info",
	 CHOICES("debug", "info", "warn", "error"),
	 "Least serious messages that are written.",
	 "test_cfg_1_logging_level"},
	{"logging.format", CONFIG_CHOICE, AT(log_format), 0, 0, "text", CHOICES("text", "json"),
	 "How a message is written.",
	 "test_cfg_1_logging_format"},
	{"logging.output", CONFIG_PATH, AT(log_output), 0, PATH_LEN, "", NULL,
	 "File for messages, reopened on SIGHUP; empty for standard error.",
	 "test_cfg_1_logging_output"},

	{"sessions.base_dir", CONFIG_PATH, AT(base_dir), 1, PATH_LEN, "{state}", NULL,
	 "Directory of the database, the output of commands and the journal.",
	 "test_cfg_1_sessions_base_dir", RESTART},
	{"sessions.max_sessions", CONFIG_INT, AT(max_sessions), 1, 100000, "1000", NULL,
	 "Most sessions at a time.",
	 "test_cfg_1_sessions_max_sessions"},
	{"sessions.max_sessions_per_agent", CONFIG_INT, AT(max_sessions_per_agent), 0, 100000, "0",
	 NULL,
	 "Most sessions at a time of one agent; 0 for no limit of its own.",
	 "test_cfg_1_sessions_max_sessions_per_agent"},
	{"sessions.agent_max_lifetime", CONFIG_DURATION, AT(agent_max_lifetime_ms), 0, YEARS, "0s", NULL,
	 "Longest life of a session that an agent makes; 0s for no limit of its own. The smallest of this, "
	 "sessions.default_timeout, the policy's session_timeout and the request's timeout holds.",
	 "test_cfg_1_sessions_agent_max_lifetime"},
	{"sessions.agent_idle_timeout", CONFIG_DURATION, AT(agent_idle_timeout_ms), 0, YEARS, "0s", NULL,
	 "A session that an agent makes ends after this time without a command; 0s for no limit of its "
	 "own. The smallest of this, sessions.default_idle_timeout, the policy's idle_timeout and the "
	 "request's idle_timeout holds.",
	 "test_cfg_1_sessions_agent_idle_timeout"},
	{"sessions.default_timeout", CONFIG_DURATION, AT(limits.value[LIMIT_session_timeout]), 1, YEARS, "4h", NULL,
	 "Longest life of a session; a request may ask for less.",
	 "test_cfg_1_sessions_default_timeout"},
	{"sessions.default_idle_timeout", CONFIG_DURATION, AT(limits.value[LIMIT_idle_timeout]), 1, YEARS,
	 "30m", NULL,
	 "A session without a command for this time ends; a request may ask for less.",
	 "test_cfg_1_sessions_default_idle_timeout"},
	{"sessions.cleanup_interval", CONFIG_DURATION, AT(cleanup_interval_ms), 10, 24 * HOUR, "1m",
	 NULL,
	 "How often the server looks for sessions that have reached a time limit.",
	 "test_cfg_1_sessions_cleanup_interval"},
	{"sessions.orphan_timeout", CONFIG_DURATION, AT(orphan_timeout_ms), 1, YEARS, "10m", NULL,
	 "A session without a server ends after this time, unless a new server adopts it.",
	 "test_cfg_1_sessions_orphan_timeout"},
	{"sessions.stop_grace", CONFIG_DURATION, AT(stop_grace_ms), 0, 60000, "2s", NULL,
	 "When the server is stopped (SIGTERM), what runs gets TERM, and KILL after this time.",
	 "test_cfg_1_sessions_stop_grace"},
	{"sessions.max_queue", CONFIG_INT, AT(max_queue), 0, 10000, "64", NULL,
	 "Most commands that wait in one session.",
	 "test_cfg_1_sessions_max_queue"},

	{"sandbox.session_uids", CONFIG_UIDS, AT(session_uids), 1, UID_LAST, "1900000000-1900065535", NULL,
	 "User ids of sessions, `A-B`, where the server is started by root: each session gets one of its "
	 "own, as uid and as gid; the first one owns the kept homes on the disk. Where this range does not exist (/proc/self/uid_map) the default is the "
	 "highest 4,096 ids that do.",
	 "test_cfg_1_sandbox_session_uids"},
	{"sandbox.run_as", CONFIG_CHOICE, AT(run_as), 0, 0, "caller", CHOICES("caller", "owner"),
	 "Whose files a session's are: of who asks for it (if root asks, of who owns the workspace), or "
	 "always of who owns the workspace.",
	 "test_cfg_1_sandbox_run_as"},
	{"sandbox.workspace_at", CONFIG_CHOICE, AT(workspace_at), 0, 0, "both",
	 CHOICES("both", "workspace", "real"),
	 "Where a session sees its workspace: at /workspace, at its real path, or at both. Events and "
	 "rules name it /workspace in every case.",
	 "test_cfg_1_sandbox_workspace_at"},
	{"sandbox.root_inside", CONFIG_BOOL, AT(root_inside), 0, 0, "false", NULL,
	 "Show a session's user id as 0 to itself, for tools that insist on root. It has no more power "
	 "by it.",
	 "test_cfg_1_sandbox_root_inside"},
	{"sandbox.home", CONFIG_CHOICE, AT(home), 0, 0, "workspace", CHOICES("workspace", "session"),
	 "Home of sessions. workspace: sessions of the same workspace, agent and policy have the same one, "
	 "so that caches of compilers and package managers last; it is kept below sessions.base_dir. "
	 "session: each session has an empty one, which ends with it; so has a session with max_disk_mb.",
	 "test_cfg_1_sandbox_home"},
	{"sandbox.home_max_mb", CONFIG_INT, AT(home_max_mb), 0, 16 * MIB, "5120", NULL,
	 "Size to which a kept home is brought when the last session that uses it ends: the longest unused "
	 "caches are removed first. 0 for no limit.",
	 "test_cfg_1_sandbox_home_max_mb"},
	{"sandbox.trash.max_bytes", CONFIG_INT, AT(trash_max_bytes), 0, INT64_C(1) << 40, "1073741824", NULL,
	 "Space for the files that a session deletes under a soft_delete rule of its policy. A deletion for "
	 "which it has no room is denied.",
	 "test_cfg_1_sandbox_trash_max_bytes"},
	{"sandbox.trash.max_age", CONFIG_DURATION, AT(trash_max_age_ms), 1, YEARS, "168h", NULL,
	 "How long such a file can be restored. The trash of a session that has ended is removed when its "
	 "last entry is so old.",
	 "test_cfg_1_sandbox_trash_max_age"},
	{"sandbox.toolchains", CONFIG_CHOICE, AT(toolchains), 0, 0, "auto", CHOICES("auto", "none"),
	 "With auto a session sees the compilers and tools in the home of the user who asks for it (cargo, "
	 "rustup, nvm, pyenv, sdkman and others), read-only at their own paths and without credentials, and "
	 "has them in PATH.",
	 "test_cfg_1_sandbox_toolchains"},
	{"sandbox.shell", CONFIG_PATH, AT(shell), 0, PATH_LEN, "", NULL,
	 "Shell that runs scripts; empty for bash, or sh if bash does not exist.",
	 "test_cfg_1_sandbox_shell"},
	{"sandbox.workspaces", CONFIG_PATHS, AT(workspaces), 0, 0, "", NULL,
	 "Directories that anyone may use as a workspace, with all below them; else only the "
	 "owner may. One of the system, such as /etc, must be listed by itself.",
	 "test_cfg_1_sandbox_workspaces"},
	{"sandbox.allow_unenforced", CONFIG_CHOICES, AT(allow_unenforced), 0, 0, "", unenforced,
	 "Walls that a session may lack where this machine cannot raise them; `namespaces` stands for all "
	 "seven. A normal user's session without any namespace runs behind Landlock and seccomp alone.",
	 "test_cfg_1_sandbox_allow_unenforced"},
	{"sandbox.env_allow", CONFIG_NAMES, AT(env_allow), 0, 0, "PATH,USER,LOGNAME,LANG,TERM,TZ",
	 NULL,
	 "Which of the variables with a default of agentsh's own (PATH, USER, LOGNAME, LANG, TERM, TZ) a "
	 "session gets. The server's own environment never reaches a session.",
	 "test_cfg_1_sandbox_env_allow"},
	{"sandbox.env", CONFIG_ENV, AT(env_set), 0, 0, "", NULL,
	 "Variables that every session gets.",
	 "test_cfg_1_sandbox_env"},
	LIMIT_RESOURCES(LIMIT_ROW, LIMIT_ROW)
	LIMIT_COUNTS(LIMIT_ROW)
	{"sandbox.resource_limits.open_files", CONFIG_INT, AT(open_files), 16, 1048576, "4096", NULL,
	 "Files that a process of a session may have open; it may raise this to open_files_max itself.",
	 "test_cfg_1_sandbox_resource_limits_open_files"},
	{"sandbox.resource_limits.open_files_max", CONFIG_INT, AT(open_files_max), 16, 1048576, "65536",
	 NULL,
	 "The most files that a process of a session may have open, and at most half of what the server "
	 "itself may.",
	 "test_cfg_1_sandbox_resource_limits_open_files_max"},
	{"sandbox.cgroup_parent", CONFIG_PATH, AT(cgroup_parent), 0, PATH_LEN, "", NULL,
	 "The control group below which those of sessions are made, from the root of the cgroup trees; "
	 "empty for the server's own.",
	 "test_cfg_1_sandbox_cgroup_parent", RESTART},
	{"sandbox.pool_size", CONFIG_INT, AT(pool_size), 0, 64, "2", NULL,
	 "How many sandboxes with a control group are prepared in advance, so that a session with "
	 "limits begins sooner. Only where the server is started by root.",
	 "test_cfg_1_sandbox_pool_size"},
	{"sandbox.bpf", CONFIG_CHOICE, AT(bpf), 0, 0, "auto", CHOICES("auto", "off", "required"),
	 "Whether a program in the kernel (BPF) verifies each exec of a session. auto: where root starts "
	 "the server and the kernel takes the program; elsewhere a stop of the process verifies it, which "
	 "costs more time. required: the server does not start without it.",
	 "test_cfg_1_sandbox_bpf", RESTART},

	{"sandbox.fuse.entry_timeout", CONFIG_DURATION, AT(fuse_entry_ms), 0, HOUR, "1s", NULL,
	 "How long the kernel may keep a name of the workspace before it asks for it again.",
	 "test_cfg_1_sandbox_fuse_entry_timeout"},
	{"sandbox.fuse.attr_timeout", CONFIG_DURATION, AT(fuse_attr_ms), 0, HOUR, "1s", NULL,
	 "The same for a file's attributes.",
	 "test_cfg_1_sandbox_fuse_attr_timeout"},
	{"sandbox.fuse.negative_timeout", CONFIG_DURATION, AT(fuse_negative_ms), 0, HOUR, "0s", NULL,
	 "The same for a name that does not exist.",
	 "test_cfg_1_sandbox_fuse_negative_timeout"},
	{"sandbox.fuse.max_readahead", CONFIG_INT, AT(fuse_max_readahead), 4 * KIB, 128 * KIB, "131072", NULL,
	 "Most bytes that the kernel reads ahead in a file of the workspace.",
	 "test_cfg_1_sandbox_fuse_max_readahead"},
	{"sandbox.fuse.async_read", CONFIG_BOOL, AT(fuse_async_read), 0, 0, "true", NULL,
	 "Let the kernel read several parts of a file at a time.",
	 "test_cfg_1_sandbox_fuse_async_read"},
	{"sandbox.fuse.writeback_cache", CONFIG_BOOL, AT(fuse_writeback_cache), 0, 0, "false", NULL,
	 "Let the kernel collect writes and send them later. The person who edits the same file on the "
	 "machine then sees them later, too.",
	 "test_cfg_1_sandbox_fuse_writeback_cache"},
	{"sandbox.fuse.io_uring", CONFIG_CHOICE, AT(fuse_io_uring), 0, 0, "auto", CHOICES("auto", "off"),
	 "How the kernel sends requests. auto: by io_uring, which is faster, where the machine's operator has "
	 "switched it on: echo Y > /sys/module/fuse/parameters/enable_uring. off: by /dev/fuse.",
	 "test_cfg_1_sandbox_fuse_io_uring"},

	{"sandbox.fuse.event_batch_size", CONFIG_INT, AT(fuse_event_batch_size), 0, 1000000, "100", NULL,
	 "Most repeats of a file operation that become one event, with their count. 0 or 1: every "
	 "operation is an event.",
	 "test_cfg_1_sandbox_fuse_event_batch_size"},
	{"sandbox.fuse.event_batch_delay", CONFIG_DURATION, AT(fuse_event_batch_ms), 0, HOUR, "10ms", NULL,
	 "How long repeats of a file operation are gathered before their event is written. The first "
	 "of them is written at once.",
	 "test_cfg_1_sandbox_fuse_event_batch_delay"},

	{"monitoring.mode", CONFIG_CHOICE, AT(monitoring_mode), 0, 0, "fuse", CHOICES("fuse", "ebpf", "hybrid", "native"),
	 "How the workspace is shown. native: as a mount, without a record of file operations. fuse: "
	 "by a file server of the session, which decides every operation by policy and records it. "
	 "ebpf: as a mount; a program in the kernel records what is done below filesystem.monitored_paths "
	 "and in the workspace, and decides nothing. It needs root's server and BPF. hybrid: as ebpf, but "
	 "with the two lists of monitoring.hybrid.",
	 "test_cfg_1_monitoring_mode"},
	{"monitoring.hybrid.fuse_enforce", CONFIG_VIEW, AT(fuse_enforce), 0, 0, "", machine,
	 "With monitoring.mode hybrid: directories that the session's file server serves, decides and records. "
	 "Each is below /workspace or a path of filesystem.monitored_paths. A session without one of them is refused.",
	 "test_cfg_1_monitoring_hybrid_fuse_enforce"},
	{"monitoring.hybrid.ebpf_monitor", CONFIG_VIEW, AT(ebpf_monitor), 0, 0, "/workspace", machine,
	 "With monitoring.mode hybrid: paths of the session below which the kernel's program records what is "
	 "done, where the file server does not.",
	 "test_cfg_1_monitoring_hybrid_ebpf_monitor"},

	{"filesystem.monitored_paths", CONFIG_VIEW, AT(monitored_paths), 0, 0, "/workspace", machine,
	 "Paths of the machine that sessions see and may write to as their user may, decided by policy and "
	 "recorded as monitoring.mode does it in the workspace. /workspace is the session's workspace.",
	 "test_cfg_1_filesystem_monitored_paths"},
	{"filesystem.read_only_passthrough_paths", CONFIG_VIEW, AT(read_only_paths), 0, 0,
	 "/usr,/bin,/sbin,/lib,/lib32,/lib64,/libx32,/opt,/var/lib/dpkg", machine,
	 "Paths of the machine that sessions see and cannot change. A path that does not exist is left "
	 "out. Links such as /bin need not be listed where their target is. /etc is always a fixed list of files; a path below it adds to it.",
	 "test_cfg_1_filesystem_read_only_passthrough_paths"},
	{"filesystem.passthrough_paths", CONFIG_VIEW, AT(passthrough_paths), 0, 1, "", machine,
	 "Paths of the machine that sessions see and may write to as their user may, unwatched. Those "
	 "of the system stay read-only. /dev, /proc and /sys may be named and are the session's own.",
	 "test_cfg_1_filesystem_passthrough_paths"},
	{"filesystem.blocked_paths", CONFIG_VIEW, AT(blocked_paths), 0, 0, "", our_own,
	 "Paths that exist when a session begins and that it cannot open: by this name, below /workspace, "
	 "and where the workspace contains the host's path. It cannot rename the directories above them "
	 "either. A workspace that lies in one is refused.",
	 "test_cfg_1_filesystem_blocked_paths"},

	{"policies.dir", CONFIG_PATH, AT(policy_dir), 1, PATH_LEN, "{config}/policies", NULL,
	 "Directory of policies (NAME.yaml) and of their sets (sets/NAME.yaml); those that "
	 "agentsh ships come after it.",
	 "test_cfg_1_policies_dir"},
	{"policies.default", CONFIG_NAME, AT(policy_default), 0, 0, "default", NULL,
	 "Policy of a session that does not name one.",
	 "test_cfg_1_policies_default"},
	{"policies.selectable", CONFIG_OURS, AT(policy_selectable), 0, 0, "", NULL,
	 "Policies that an agent may name for its session, besides policies.default; another is refused. "
	 "Empty for any. Admins may name any.",
	 "test_cfg_1_policies_selectable"},

	{"approvals.mode", CONFIG_CHOICE, AT(approvals_mode), 0, 0, "none", CHOICES("none", "shadow"),
	 "What the decision approve of a policy does while approvals cannot be given: none refuses the "
	 "operation, shadow lets it through and records it.",
	 "test_cfg_1_approvals_mode"},

	{"events.full_ring", CONFIG_CHOICE, AT(full_ring), 0, 0, "wait", CHOICES("wait", "drop"),
	 "What a session does with events while its ring is full: wait, or drop and count them.",
	 "test_cfg_1_events_full_ring"},
	{"events.ring_bytes", CONFIG_INT, AT(ring_bytes), 256 * KIB, 64 * MIB, "1048576", NULL,
	 "Size of a session's event ring.",
	 "test_cfg_1_events_ring_bytes"},
	{"events.db", CONFIG_PATH, AT(events_db), 0, PATH_LEN, "", NULL,
	 "The database; empty for agentsh.db in sessions.base_dir.",
	 "test_cfg_1_events_db", RESTART},
	{"events.jsonl.path", CONFIG_PATH, AT(jsonl_path), 0, PATH_LEN, "", CHOICES("none"),
	 "Events as lines of JSON; empty for events.jsonl in sessions.base_dir, none to turn them "
	 "off.",
	 "test_cfg_1_events_jsonl_path", RESTART},
	{"events.jsonl.max_bytes", CONFIG_INT, AT(jsonl_max_bytes), 4 * KIB, TIB, "104857600", NULL,
	 "The file is put aside when it has this size.",
	 "test_cfg_1_events_jsonl_max_bytes"},
	{"events.jsonl.max_age", CONFIG_DURATION, AT(jsonl_max_age_ms), 0, YEARS, "24h", NULL,
	 "The file is put aside when it is this old; 0s for never.",
	 "test_cfg_1_events_jsonl_max_age"},
	{"events.jsonl.keep", CONFIG_INT, AT(jsonl_keep), 0, 1000, "10", NULL,
	 "How many files that were put aside are kept.",
	 "test_cfg_1_events_jsonl_keep"},

	{"output.command_quota", CONFIG_INT, AT(output_command_quota), 4 * KIB, TIB, "268435456",
	 NULL,
	 "Output that is kept of one command. What comes beyond it is passed on to a reader that is "
	 "attached, and counted.",
	 "test_cfg_1_output_command_quota"},
	{"output.quota", CONFIG_INT, AT(output_quota), 4 * KIB, 1024 * TIB, "4294967296", NULL,
	 "Output that is kept in all; the oldest goes first.",
	 "test_cfg_1_output_quota"},
	{"output.max_age", CONFIG_DURATION, AT(output_max_age_ms), 1, YEARS, "168h", NULL,
	 "How long the output of a finished command is kept. It is deleted by age only when the wall "
	 "clock has agreed with the time since boot for an hour.",
	 "test_cfg_1_output_max_age"},

	{"commands.idempotency_age", CONFIG_DURATION, AT(idempotency_age_ms), 1, YEARS, "24h", NULL,
	 "How long an Idempotency-Key is remembered; longer while the wall clock was stepped within the "
	 "last hour.",
	 "test_cfg_1_commands_idempotency_age"},

	{"metrics.enabled", CONFIG_BOOL, AT(metrics_enabled), 0, 0, "true", NULL,
	 "Whether metrics are served.",
	 "test_cfg_1_metrics_enabled"},
	{"metrics.path", CONFIG_PATH, AT(metrics_path), 1, 256, "/metrics", NULL,
	 "Path of the metrics.",
	 "test_cfg_1_metrics_path"},
};
// clang-format on
const size_t config_row_count = ARRAY_LEN(config_rows);

static const struct {
	const char *other, *key;
} other_names[] = {
#define NO_OTHER(...)
#define OTHER(name, other, ...) \
	{"sandbox.resource_limits." other, "sandbox.resource_limits." #name},
	LIMIT_RESOURCES(NO_OTHER, OTHER){"sandbox.session_uid", "sandbox.session_uids"},
	{"monitoring.full_monitor", "filesystem.monitored_paths"},
	{"monitoring.read_only_passthrough", "filesystem.read_only_passthrough_paths"},
	{"monitoring.passthrough", "filesystem.passthrough_paths"},
};

/* Keys, sections and KEY=VALUE of the specification that do not exist yet. */
static const char *const later[] = {
	"server.grpc_addr",	"server.tls",
	"logging.audit",	"sandbox.network",
	"approvals.timeout",	"approvals.notification",
	"server.auth.type=jwt", "server.auth.type=mtls",
};

const struct config_row *config_row_find(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(other_names); i++)
		if (strcmp(other_names[i].other, key) == 0)
			key = other_names[i].key;
	for (size_t i = 0; i < config_row_count; i++)
		if (strcmp(config_rows[i].key, key) == 0)
			return &config_rows[i];
	return NULL;
}

/* Whether key is below prefix; an empty prefix has all below it. */
static bool below(const char *key, const char *prefix)
{
	const size_t n = strlen(prefix);

	return n == 0 || (strncmp(key, prefix, n) == 0 && key[n] == '.');
}

bool config_row_section(const char *prefix)
{
	struct strv words = {0};
	bool found;

	config_row_words(prefix, &words);
	found = words.n > 0;
	strv_done(&words);
	return found;
}

bool config_row_later(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(later); i++)
		if (strcmp(later[i], key) == 0 || below(key, later[i]))
			return true;
	return false;
}

void config_row_words(const char *prefix, struct strv *out)
{
	const size_t skip = prefix[0] != '\0' ? strlen(prefix) + 1 : 0;

	for (size_t i = 0; i < config_row_count + ARRAY_LEN(other_names); i++) {
		const char *key = i < config_row_count ? config_rows[i].key
						       : other_names[i - config_row_count].other;
		cleanup_free char *word = NULL;

		if (!below(key, prefix))
			continue;
		word = mem_strndup(key + skip, strcspn(key + skip, "."));
		strv_add_new(out, word);
	}
}
