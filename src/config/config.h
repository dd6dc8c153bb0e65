// SPDX-License-Identifier: Apache-2.0
/* config/config.h - the server's settings: one table with key, type, range, default, help and the
 * test that shows it.
 *
 * Read by the launcher (root-owned file), the API child (the same bytes by descriptor) and the CLI
 * (`config`). Unknown keys are errors with file:line:column and a suggestion; all errors of a file
 * are reported in one pass. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "base/json.h"
#include "model/limits.h"
#include <stdbool.h>
#include <stdint.h>

struct uid_range {
	uint32_t first, last;
};
/* Whether all ids of the range exist in this process's user namespace, as uids and as gids. */
bool uid_range_exists(const struct uid_range *r);
/* The highest ids that exist, at most n; {0, 0} if only id 0 exists. */
struct uid_range uid_range_highest(uint32_t n);
bool uid_range_has(const struct uid_range *r, uint32_t uid);

struct config {
	/* server */
	char *unix_socket; /* default: system /run/agentsh/agentsh.sock, user: runtime dir */
	char *http_addr;   /* "" = none; "127.0.0.1:8080" */
	uint32_t api_uid;  /* 64998 */
	char *auth_type;   /* "api_key" | "none", for TCP; the unix socket has peer credentials */
	uint32_t none_as;  /* for which TCP clients without a key speak under none; 0: not said */
	char *api_keys_file;
	int64_t max_request_bytes, max_connections;
	int64_t auto_idle_ms; /* server.auto_idle: an auto-started server ends after this; 60s */
	/* logging */
	char *log_level, *log_format, *log_output;
	/* sessions */
	char *base_dir; /* state: database, output; default by mode */
	int64_t agent_max_lifetime_ms, agent_idle_timeout_ms; /* 0: no limit of its own */
	int64_t max_sessions, max_sessions_per_agent, cleanup_interval_ms, orphan_timeout_ms,
		stop_grace_ms, max_queue;
	/* sandbox */
	struct uid_range session_uids;		   /* one for each session of root's server */
	char *run_as;				   /* caller | owner */
	char *workspace_at;			   /* both | workspace | real */
	bool root_inside;			   /* shows the session's uid as 0 inside */
	char *home;				   /* workspace | session */
	char *toolchains;			   /* auto | none */
	int64_t home_max_mb;			   /* of a kept home; 0: no limit */
	int64_t trash_max_bytes, trash_max_age_ms; /* of a session's trash, of an entry */
	char *shell;				   /* "" = bash else sh */
	struct strv workspaces;	      /* directories (and below) that anyone may use as workspace */
	struct strv allow_unenforced; /* wall names, and "uid" */
	struct strv env_allow;	      /* names taken from the server's own: PATH USER LC_* … */
	struct strv env_set;	      /* NAME=value for every session */
	struct limits limits;	      /* of every session; swap where its memory is limited */
	char *cgroup_parent;	      /* "" = the server's own group */
	int64_t open_files, open_files_max; /* RLIMIT_NOFILE of a command, soft and hard */
	int64_t pool_size;		    /* of sandboxes prepared in advance */
	char *bpf;			    /* auto | off | required */
	int64_t fuse_entry_ms, fuse_attr_ms, fuse_negative_ms, fuse_max_readahead;
	bool fuse_async_read, fuse_writeback_cache;
	char *fuse_io_uring; /* auto | off */
	int64_t fuse_event_batch_size, fuse_event_batch_ms;
	/* monitoring */
	char *monitoring_mode;			/* native | fuse | ebpf | hybrid */
	struct strv fuse_enforce, ebpf_monitor; /* of hybrid */
	/* filesystem: what of the machine sessions see */
	struct strv monitored_paths, read_only_paths, passthrough_paths, blocked_paths;
	/* policies */
	char *policy_default;	       /* observe */
	struct strv policy_selectable; /* that a session may name, besides; empty: any */
	char *approvals_mode;	       /* none, shadow */
	char *policy_dir; /* default: /etc/agentsh/policies, user: ~/.config/agentsh/policies */
	/* events */
	char *full_ring; /* wait | drop */
	int64_t ring_bytes;
	char *events_db;  /* path; "" = base_dir/agentsh.db */
	char *jsonl_path; /* path; "" = base_dir/events.jsonl; "none" = off */
	int64_t jsonl_max_bytes, jsonl_max_age_ms, jsonl_keep;
	/* output */
	int64_t output_command_quota, output_quota, output_max_age_ms;
	int64_t idempotency_age_ms; /* 24h */
	/* metrics */
	bool metrics_enabled;
	char *metrics_path;
	bool system; /* made by config_defaults for CONFIG_SYSTEM */
	/* For config_check: where values stand that a file gave. */
	char *file;
	struct config_place *places;
};

enum config_mode { CONFIG_SYSTEM, CONFIG_USER }; /* default paths of root or of a normal user */

/* Defaults for a mode (uid, HOME, XDG_RUNTIME_DIR and, without a usable one, TMPDIR are read for
 * USER; the fallback runtime directory is made 0700 and its owner checked). */
int config_defaults(enum config_mode mode, struct config *out, struct err *err);
/* Applies a file's text over *c. err gets the first problem; all of them, one per line, go to
 * report (may be NULL), and nothing changes. */
int config_parse(const char *name, const char *text, size_t len, struct config *c,
		 struct buf *report, struct err *err);
/* Applies "key=value" (dotted key), as flags and AGENTSH_* variables do. */
int config_override(const char *assignment, struct config *c, struct err *err);
/* Collects overrides from the environment: AGENTSH_LOG_LEVEL, AGENTSH_HTTP_ADDR, AGENTSH_DATA_DIR
 * (AGENTSH_GRPC_ADDR is refused until gRPC exists). */
int config_env(struct strv *overrides, struct err *err);
/* The file (NULL: none) and then the environment, over *c: as a server that is started now would.
 */
int config_load(const char *path, struct config *c, struct buf *report, struct err *err);
/* Cross-checks: loopback-only TCP without TLS, auth.type with http_addr, ranges that depend on each
 * other. The message begins with the place of a value that a file gave. */
int config_check(const struct config *c, struct err *err);
bool config_fuse(const struct config *c);   /* new sessions have a file server for all they share */
bool config_serves(const struct config *c); /* they have one for something */
bool config_records(const struct config *c); /* it, or the kernel's program, records their files */
/* Adds the paths below which the kernel's program records (monitoring.mode: ebpf and hybrid), and
 * those that are all that is served (hybrid). */
void config_watched_paths(const struct config *c, struct strv *recorded, struct strv *enforced);
const char *config_needs_bpf(const struct config *c); /* why, for people; NULL: it does not */
/* Adds the paths that sessions see by the lists of `filesystem`, and those that are read-only, not
 * shown or decided by a file server (hybrid); none twice. */
void config_listed_paths(const struct config *c, struct strv *places, struct strv *closed);
/* The same for a problem that others find: E_BAD_REQUEST "FILE:LINE:COLUMN: KEY: …" of "KEY: …".
 * The place is that of the first key in the text that the file gave. */
int config_wrong(const struct config *c, const char *problem, struct err *err);
void config_done(struct config *c);
#define cleanup_config __attribute__((cleanup(config_done)))
/* Between two readings of a running server: what only a restart can change becomes in `is` as it
 * was, and is added to kept as "key=value", fit for config_override. */
void config_keep(const struct config *was, struct config *is, struct strv *kept);
/* Resolved configuration as YAML or JSON (secrets are not in it). */
void config_show(const struct config *c, bool json, struct buf *out);
/* docs/configuration.md is generated from the same table. */
void config_reference(struct buf *out);
/* {"keys": [{key, type, default, help, test, restart}]} */
void config_keys(struct jw *w);
/* Splits "IP:PORT" or "[IP6]:PORT". 0 or -1. */
int config_address_split(const char *s, char *host, size_t n, unsigned *port);
/* Whether an IP address (without a port) is one of the loopback interface. */
bool config_is_loopback(const char *host);
/* Path of RUNTIME: the directory of unix_socket (owned by the caller). */
char *config_runtime_dir(const struct config *c);

/* keys: [{id, agent_id, role, uid, sha256}] */
enum role { ROLE_AGENT, ROLE_APPROVER, ROLE_ADMIN };
struct api_key {
	char *id, *agent_id;
	enum role role;
	uint32_t uid;
	uint8_t sha256[32];
};
struct api_keys {
	struct api_key *key;
	size_t n;
};
int api_keys_parse(const char *name, const char *text, size_t len, struct api_keys *out,
		   struct buf *report, struct err *err);
/* Constant-time search by the SHA-256 of the secret; NULL if none. At most 128 bytes. */
const struct api_key *api_keys_find(const struct api_keys *k, const void *secret, size_t len);
void api_keys_done(struct api_keys *k);
const char *role_name(enum role r);
