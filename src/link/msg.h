// SPDX-License-Identifier: Apache-2.0
/* link/msg.h - the messages between the processes: one table with number, sender, receiver, state,
 * descriptors.
 *
 * Numbers are for ever; a field may be added at the end of a struct. The version before and the
 * version after understand each other. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/limits.h"

enum link_side {
	SIDE_API,
	SIDE_LAUNCHER,
	SIDE_WARDEN,
	SIDE_INIT,
	SIDE_LEADER,
	SIDE_PROCESS,
	SIDE_CHECK,
	SIDE_BPF
};
/* NEW: only the greeting of that link is legal. OPEN: all others. ENDING: after an END message;
 * only results, ends. */
enum link_state { LINK_NEW, LINK_OPEN, LINK_ENDING };

/*  name, number, sender, receiver, legal in (bit set of 1<<state), next state, min fds, max fds,
 *  payload */
#define IN_NEW 1
#define IN_OPEN 2
#define IN_ENDING 4
#define IN_LIVE (IN_OPEN | IN_ENDING)
#define IN_ANY (IN_NEW | IN_LIVE)
// clang-format off
#define MSG_TABLE(X) \
	/* API child <-> launcher. Descriptors: hello: config, keys, listeners; create: the asking \
	 * connection; created and found: warden link, rings, and created the policy's snapshot; \
	 * lost: a dead session's rings, to drain; hup: log, config, keys. gone: a warden \
	 * died; remove: sweep what a session left; idle: nothing lives, an auto-started server may \
	 * end; policies: which there are, asked for or because some were read again; limit: \
	 * narrower limits for a living session; trim: a kept home. */ \
	X(launcher_hello,      1, LAUNCHER, API, IN_NEW,  OPEN,   0, 15, launcher_hello) \
	X(launcher_create,     2, API, LAUNCHER, IN_OPEN, OPEN,   0, 1, launcher_create) \
	X(launcher_created,    3, LAUNCHER, API, IN_LIVE, OPEN,   3, 15, launcher_created) \
	X(launcher_refused,    4, LAUNCHER, API, IN_LIVE, OPEN,   0, 0, launcher_refused) \
	X(launcher_found,      5, LAUNCHER, API, IN_OPEN, OPEN,   3, 15, launcher_found) \
	X(launcher_lost,       6, LAUNCHER, API, IN_LIVE, OPEN,   0, 15, launcher_lost) \
	X(launcher_found_all,  7, LAUNCHER, API, IN_OPEN, OPEN,   0, 0, msg_empty) \
	X(launcher_gone,       8, LAUNCHER, API, IN_LIVE, OPEN,   0, 0, launcher_gone) \
	X(launcher_remove,     9, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, launcher_remove) \
	X(launcher_stop,      10, LAUNCHER, API, IN_OPEN, ENDING, 0, 0, msg_empty) \
	X(launcher_hup,       11, LAUNCHER, API, IN_OPEN, OPEN,   0, 3, msg_empty) \
	X(launcher_idle,      12, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, msg_empty) \
	X(launcher_ready,     13, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, msg_empty) \
	X(launcher_ask,       14, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, launcher_ask) \
	X(launcher_policies,  15, LAUNCHER, API, IN_LIVE, OPEN,   0, 0, launcher_policies) \
	X(launcher_limit,     16, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, launcher_limit) \
	X(launcher_limited,   17, LAUNCHER, API, IN_LIVE, OPEN,   0, 0, launcher_limited) \
	X(launcher_trim,      18, API, LAUNCHER, IN_LIVE, OPEN,   0, 0, launcher_trim) \
	X(launcher_trimmed,   19, LAUNCHER, API, IN_LIVE, OPEN,   0, 0, launcher_trimmed) \
	/* API child <-> warden. exec: stdout file, stderr file; taken: stdin bytes consumed; \
	 * bell: the ring has records; settings: the log; patch: descriptors of the version before, which are closed. */ \
	X(warden_hello,       20, API, WARDEN,   IN_NEW,  OPEN,   0, 0, warden_hello) \
	X(warden_state,       21, WARDEN, API,   IN_NEW | IN_OPEN, OPEN, 0, 0, warden_state) \
	X(warden_exec,        22, API, WARDEN,   IN_OPEN, OPEN,   2, 2, warden_exec) \
	X(warden_started,     23, WARDEN, API,   IN_LIVE, OPEN,   0, 0, warden_started) \
	X(warden_refused,     24, WARDEN, API,   IN_LIVE, OPEN,   0, 0, warden_refused) \
	X(warden_output,      25, WARDEN, API,   IN_LIVE, OPEN,   0, 0, warden_output) \
	X(warden_result,      26, WARDEN, API,   IN_LIVE, OPEN,   0, 0, warden_result) \
	X(warden_ack,         27, API, WARDEN,   IN_LIVE, OPEN,   0, 0, warden_acks) \
	X(warden_stdin,       28, API, WARDEN,   IN_OPEN, OPEN,   0, 0, warden_stdin) \
	X(warden_taken,       29, WARDEN, API,   IN_LIVE, OPEN,   0, 0, warden_taken) \
	X(warden_window,      30, API, WARDEN,   IN_OPEN, OPEN,   0, 0, warden_window) \
	X(warden_kill,        31, API, WARDEN,   IN_OPEN, OPEN,   0, 0, warden_kill) \
	X(warden_patch,       32, API, WARDEN,   IN_OPEN, OPEN,   0, 15, warden_patch) \
	X(warden_end,         33, API, WARDEN,   IN_OPEN, ENDING, 0, 0, warden_end) \
	X(warden_failed,      34, WARDEN, API,   IN_ANY,  ENDING, 0, 0, warden_failed) \
	X(warden_bell,        35, WARDEN, API,   IN_LIVE, OPEN,   0, 0, msg_empty) \
	X(warden_settings,    36, API, WARDEN,   IN_LIVE, OPEN,   0, 1, warden_settings) \
	X(warden_restore,     37, API, WARDEN,   IN_OPEN, OPEN,   0, 0, trash_restore) \
	X(warden_restored,    38, WARDEN, API,   IN_LIVE, OPEN,   0, 0, trash_restored) \
	/* warden <-> init. ready: root, state socket, an eventfd that makes init end all that \
	 * runs (its link is read by the spare leader)[, listener]; spawn: stdin, stdout, stderr, \
	 * leader's link[, the program]. */ \
	X(init_ready,         40, INIT, WARDEN,  IN_NEW,  OPEN,   3, 4, init_ready) \
	X(init_spawn,         41, WARDEN, INIT,  IN_OPEN, OPEN,   4, 5, init_spawn) \
	X(init_failed,        42, INIT, WARDEN,  IN_ANY,  ENDING, 0, 0, init_failed) \
	X(init_ended,         43, INIT, WARDEN,  IN_OPEN, OPEN,   0, 0, msg_empty) \
	/* leader <-> warden. started: pidfd of the command; empty: no child is left; spawn: the \
	 * next command's stdin, stdout, stderr[, the program]. */ \
	X(leader_started,     50, LEADER, WARDEN, IN_NEW | IN_OPEN, OPEN, 1, 1, leader_started) \
	X(leader_failed,      51, LEADER, WARDEN, IN_NEW | IN_OPEN, ENDING, 0, 0, leader_failed) \
	X(leader_exit,        52, LEADER, WARDEN, IN_NEW | IN_OPEN, OPEN, 0, 0, leader_exit) \
	X(leader_empty,       53, LEADER, WARDEN, IN_OPEN, OPEN,   0, 0, leader_exit) \
	X(leader_spawn,       54, WARDEN, LEADER, IN_OPEN, OPEN,   3, 4, init_spawn) \
	/* warden <-> a process of the session beside init. hello: the actor table; bell: its ring \
	 * has records; ask: what the actor table does not tell; actor: the answer; settle: the result \
	 * of a command waits for its last events; settled: they are in the ring; over: nothing of a \
	 * command is left; limit: a command has reached one; settings: the log; hold: a file operation \
	 * waits for the approver; unhold: it does not any more; held: the answer; restore: of the trash. */ \
	X(process_hello,      60, WARDEN, PROCESS, IN_NEW,  OPEN,   1, 1, msg_empty) \
	X(process_ready,      61, PROCESS, WARDEN, IN_OPEN, OPEN,   0, 0, process_ready) \
	X(process_failed,     62, PROCESS, WARDEN, IN_ANY,  ENDING, 0, 0, process_failed) \
	X(process_bell,       63, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, msg_empty) \
	X(process_ask,        64, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, process_ask) \
	X(process_actor,      65, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0, process_actor) \
	X(process_over,       66, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0, process_settle) \
	X(process_settings,   67, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 1, process_settings) \
	X(process_settle,     68, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0, process_settle) \
	X(process_settled,    69, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, process_settled) \
	X(process_limit,      59, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, process_limit) \
	X(process_hold,       56, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, process_hold) \
	X(process_unhold,     57, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, process_held) \
	X(process_held,       58, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0, process_held) \
	X(process_restore,    55, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0, trash_restore) \
	X(process_restored,   49, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0, trash_restored) \
	/* launcher <-> agentsh-check. ask: one snapshot, if there is nothing to compile; policy: \
	 * the snapshot. */ \
	X(check_ask,          70, LAUNCHER, CHECK, IN_NEW,  OPEN,   0, 1, check_ask) \
	X(check_policy,       71, CHECK, LAUNCHER, IN_OPEN, OPEN,   0, 1, check_policy) \
	/* launcher <- agentsh-bpf. The descriptors of struct exec_check. */               \
	X(bpf_loaded,         75, BPF, LAUNCHER,   IN_NEW,  ENDING, 0, 5, bpf_loaded)
// clang-format on

enum msg_type {
#define X(name, number, ...) MSG_##name = (number),
	MSG_TABLE(X)
#undef X
};

#define MSG_STRUCT_MAX 512 /* bytes of the largest struct */
struct msg_row {
	const char *name;
	uint16_t number;
	enum link_side from, to;
	unsigned in;
	enum link_state next;
	uint8_t min_fds, max_fds;
	const struct fields *(*fields)(void); /* of its payload */
};
const struct msg_row *msg_row(unsigned number); /* NULL if unknown */
void msg_done(enum msg_type type, void *obj);	/* frees the struct's owned parts, zeroes it */
size_t msg_max(const struct msg_row *row);	/* most bytes that its payload can have */
/* Name of the first field of obj that is over its row's max, or NULL. */
const char *msg_oversized(const struct msg_row *row, const void *obj);

/* ENDING is entered by warden_end, launcher_stop, warden_failed, init_failed, leader_failed,
 * process_failed and never left; a row's "next OPEN" received while ENDING keeps ENDING. Sending
 * advances the sender's state as receiving does the receiver's. A message that the peer sent before
 * it received our last one is checked against the state that the peer saw. */

/* ---- payloads: a field's type, name and bound, in the order of the bytes ----
 *
 * A struct for each message comes of these lists; msg.c makes the tables by which it is packed and
 * unpacked, and has the words for bounds. Lists that belong together have the same length. */
// clang-format off
#define MSG_PAYLOADS(PAYLOAD, U32, U64, STR, BYTES, STRV, EXECS, FUSE, OLD_LIMITS) \
	/* privileged: root's launcher, with separate uids. owner_uid: who started the server, admin on \
	 * the unix socket. listeners ("unix PATH", "tcp 127.0.0.1:8080") are in the order of their \
	 * descriptors, which follow config and keys. overrides ("key=value"): flags and environment, \
	 * applied over the file. accept_loss: of what a damaged redo file held. share_mb: memory of \
	 * the machine or of the server's group; "75%" is a part of it. */ \
	PAYLOAD(launcher_hello, \
		U32(version) U32(privileged) U32(auto_started) U32(owner_uid) \
		STRV(listeners, LIST_LEN) STR(state_dir, PATH_LEN) STR(runtime_dir, PATH_LEN) \
		STRV(overrides, LIST_LEN) U32(has_config) U32(has_keys) U32(accept_loss) \
		U64(share_mb)) \
	/* key: an API key, or empty: then fd 0 is the connection. unenforced: walls that the session \
	 * may lack; they must be in the configuration. background: "end" or "keep". limits: what the \
	 * client asks for; the launcher lowers it. required: 1 << WALL_… that the client itself asked \
	 * for. domains, ports, variables (names): what the policy must cover. */ \
	PAYLOAD(launcher_create, \
		STR(session_id, ID_MAX) STR(workspace, PATH_LEN) STR(policy, ID_MAX) BYTES(key, 128) \
		STRV(unenforced, TEXT_LEN) STR(background, WORD_LEN) OLD_LIMITS U64(required) \
		STRV(domains, LIST_LEN) STRV(ports, LIST_LEN) STRV(variables, REQUEST_ENV_MAX) \
		STRV(limits, TEXT_LEN)) \
	/* rings are named in the order of their descriptors: ring and ack of each, the warden's first. \
	 * The version before has only the warden's, and no names. walls: wall_pack. home: the name \
	 * of its kept home. env: variables of toolchains. */ \
	PAYLOAD(launcher_created, \
		STR(session_id, ID_MAX) STR(workspace, PATH_LEN) STR(policy_name, ID_MAX) \
		STR(policy_version, WORD_LEN) U32(owner_uid) U32(session_uid) U32(session_gid) \
		STRV(walls, LIST_LEN) STRV(rings, LIST_LEN) STR(home, WORD_LEN) \
		STRV(env, LIST_LEN)) \
	/* policy: for E_POLICY_DENIED the packed denial (base/denial.h). */ \
	PAYLOAD(launcher_refused, \
		STR(session_id, ID_MAX) STR(code, WORD_LEN) STR(subject, TEXT_LEN) \
		STR(message, TEXT_LEN) STR(policy, TEXT_LEN)) \
	PAYLOAD(launcher_found, STR(session_id, ID_MAX) STRV(rings, LIST_LEN)) \
	PAYLOAD(launcher_lost, \
		STR(session_id, ID_MAX) STR(reason, TEXT_LEN) STRV(rings, LIST_LEN)) \
	/* oom_kills: of the session's group in all, where a SIGKILL may be one of them. */ \
	PAYLOAD(launcher_gone, STR(session_id, ID_MAX) STR(reason, TEXT_LEN) U64(oom_kills)) \
	PAYLOAD(launcher_remove, STR(session_id, ID_MAX)) \
	/* Asks for launcher_policies; reload: after reading the files of those in use again. */ \
	PAYLOAD(launcher_ask, U32(ticket) U32(reload)) \
	/* ticket 0: it was not asked for. version "": no session has used it yet. loaded: names of \
	 * those that are new or have changed. failed, why: broken ones; their old snapshot stays. */ \
	PAYLOAD(launcher_policies, \
		U32(ticket) STRV(name, LIST_LEN) STRV(version, LIST_LEN) \
		STRV(description, LIST_LEN) STRV(loaded, LIST_LEN) STRV(failed, LIST_LEN) \
		STRV(why, LIST_LEN)) \
	/* What a living session may use from now on; 0: as before. Answered in the order of the \
	 * asking. optional: 1 << WALL_… that are asked for and may be missing. */ \
	PAYLOAD(launcher_limit, \
		STR(session_id, ID_MAX) OLD_LIMITS STRV(limits, TEXT_LEN) U64(optional)) \
	/* code NULL: done, and walls (wall_pack) are those that have changed; else nothing changed. */ \
	PAYLOAD(launcher_limited, \
		STR(session_id, ID_MAX) STR(code, WORD_LEN) STR(subject, TEXT_LEN) \
		STR(message, TEXT_LEN) STRV(walls, LIST_LEN)) \
	/* Keeps a home that no session uses within a size; purge: removes all of it. */ \
	PAYLOAD(launcher_trim, STR(home, WORD_LEN) U64(keep_bytes) U32(purge)) \
	/* bytes: that are left. problem NULL: done. */ \
	PAYLOAD(launcher_trimmed, \
		STR(home, WORD_LEN) U64(bytes) U32(purge) STR(problem, TEXT_LEN)) \
	PAYLOAD(msg_empty, U32(unused)) \
	\
	/* env: of the session, used the first time only. full_ring_drops: events.full_ring is drop. */ \
	PAYLOAD(warden_hello, \
		U32(version) STRV(env, REQUEST_ENV_MAX) STR(cwd, PATH_LEN) STR(shell, PATH_LEN) \
		U64(orphan_timeout_ms) U64(command_timeout_ms) U64(output_quota) U64(env_max) \
		U32(full_ring_drops) U32(keep_background) STR(agent_id, ID_MAX) \
		U32(event_batch_size) U32(event_batch_ms) U64(max_file_ops) U64(trash_max_bytes) \
		U64(trash_max_age_ms) U64(max_disk_mb)) \
	/* A warden_started or warden_result follows for each command that runs or is not acknowledged. \
	 * fresh: hello's environment was taken. commands: started so far. ring_pos: written so far. */ \
	PAYLOAD(warden_state, \
		U32(version) U32(fresh) STR(session_id, ID_MAX) STR(cwd, PATH_LEN) \
		STRV(env, REQUEST_ENV_MAX) STRV(aliases, REQUEST_ENV_MAX) \
		STRV(dir_stack, REQUEST_ENV_MAX) STRV(walls, LIST_LEN) U64(commands) \
		U32(last_exit) U64(ring_pos) EXECS) \
	/* argv: the command and its arguments; empty for a script. env: additions for this command. \
	 * stdin_open: more stdin follows by warden_stdin. flow: output waits for warden_window. stdio: \
	 * enum spawn_stdio. report_output: a reader is attached, which gets warden_output while it \
	 * runs. acks: as warden_ack, to spare a message. */ \
	PAYLOAD(warden_exec, \
		STR(command_id, ID_MAX) STR(script, REQUEST_SCRIPT_MAX) STR(argv0, PATH_LEN) \
		STR(cwd, PATH_LEN) STR(request_id, ID_MAX) STRV(argv, REQUEST_ARGS_MAX + PATH_LEN) \
		STRV(env, REQUEST_ENV_MAX) BYTES(stdin_data, REQUEST_STDIN_MAX) U64(timeout_ms) \
		U32(stdin_open) U32(flow) U32(stdio) U32(cols) U32(rows) U32(umask_plus1) \
		U32(report_output) STRV(acks, ACKS_LEN)) \
	/* A command that is over at once has a warden_result only. time_us: wall clock. */ \
	PAYLOAD(warden_started, STR(command_id, ID_MAX) U32(pid) U64(time_us)) \
	/* policy: the packed denial (base/denial.h). */ \
	PAYLOAD(warden_refused, \
		STR(command_id, ID_MAX) STR(code, WORD_LEN) STR(subject, TEXT_LEN) \
		STR(message, TEXT_LEN) STR(rule, TEXT_LEN) STR(reason, TEXT_LEN) \
		STR(policy, TEXT_LEN)) \
	/* Of each stream: bytes and lines produced, bytes that the file keeps, where its ring begins. */ \
	PAYLOAD(warden_output, \
		STR(command_id, ID_MAX) U64(stdout_bytes) U64(stderr_bytes) U64(stdout_kept) \
		U64(stderr_kept) U64(stdout_from) U64(stderr_from) U64(stdout_lines) \
		U64(stderr_lines)) \
	/* signal 0: none. error_code: "E_COMMAND_TIMEOUT", "ENOENT" or NULL. Times are of the wall \
	 * clock. cwd: of the session afterwards. env_changed: names; env is the whole environment if \
	 * there are any. background: "ended PID text" or "kept PID text". ring_end: position of its \
	 * last event in the warden's ring; ring_ends: "NAME POSITION" of each other ring. capture: \
	 * "taken", "none" or "refused: why", for scripts. similar: programs or files whose names are \
	 * nearly that of a missing one. warnings: sentences. failed_path: of the last file operation \
	 * that failed, with failed_errno; NULL: none did. The rest as in warden_output. */ \
	PAYLOAD(warden_result, \
		STR(command_id, ID_MAX) U32(exit_code) U32(signal) STR(error_code, WORD_LEN) \
		STR(error_message, TEXT_LEN) STR(error_path, PATH_LEN) U64(started_us) \
		U64(finished_us) U64(duration_us) U64(stdout_bytes) U64(stderr_bytes) \
		U64(stdout_lines) U64(stderr_lines) U64(stdout_kept) U64(stderr_kept) U64(cpu_us) \
		U64(maxrss_kb) U64(read_bytes) U64(write_bytes) STR(cwd, PATH_LEN) \
		STRV(env_changed, REQUEST_ENV_MAX) STRV(env, REQUEST_ENV_MAX) \
		STRV(background, REQUEST_ENV_MAX) U64(ring_end) STR(capture, TEXT_LEN) EXECS \
		STRV(similar, LIST_LEN) STRV(warnings, REQUEST_ENV_MAX) U64(stdout_from) \
		U64(stderr_from) STRV(ring_ends, LIST_LEN) U32(failed_errno) \
		STR(failed_path, PATH_LEN) FUSE) \
	/* Their results are stored. */ \
	PAYLOAD(warden_acks, STRV(command_ids, ACKS_LEN)) \
	PAYLOAD(warden_stdin, STR(command_id, ID_MAX) BYTES(data, 1024 * 1024) U32(eof)) \
	PAYLOAD(warden_taken, STR(command_id, ID_MAX) U64(total)) \
	/* stream: 1 stdout, 2 stderr. allowed: bytes that may be produced in all. read: position of the \
	 * slowest reader; UINT64_MAX: there is no reader. */ \
	PAYLOAD(warden_window, STR(command_id, ID_MAX) U32(stream) U64(allowed) U64(read)) \
	/* After grace_ms the whole tree gets KILL; 0 with signal KILL: at once. tree: the signal goes \
	 * to the whole tree, too. */ \
	PAYLOAD(warden_kill, \
		STR(command_id, ID_MAX) U32(signal) U64(grace_ms) U32(tree) U32(client_gone)) \
	/* set: NAME=value. unset: NAME. walls: wall_pack, of limits that have become narrower. \
	 * counters: unused; the version before sends them. */ \
	PAYLOAD(warden_patch, \
		STRV(set, REQUEST_ENV_MAX) STRV(unset, REQUEST_ENV_MAX) STR(cwd, PATH_LEN) \
		U64(command_timeout_ms) STRV(walls, LIST_LEN) STRV(counters, LIST_LEN) \
		U64(max_file_ops) U64(max_disk_mb)) \
	/* What may change while a session lives (SIGHUP). log_level, log_format: enums of base/log.h. */ \
	PAYLOAD(warden_settings, \
		U64(orphan_timeout_ms) U64(output_quota) U32(full_ring_drops) U32(log_level) \
		U32(log_format) U32(event_batch_size) U32(event_batch_ms) U64(trash_max_bytes) \
		U64(trash_max_age_ms)) \
	/* An entry of the session's trash. code NULL: it is back. policy: the packed denial. */ \
	PAYLOAD(trash_restore, U64(entry)) \
	PAYLOAD(trash_restored, \
		STR(code, WORD_LEN) STR(subject, TEXT_LEN) STR(message, TEXT_LEN) \
		STR(policy, TEXT_LEN)) \
	/* grace_ms: between TERM and KILL to all that runs; 0: KILL at once. */ \
	PAYLOAD(warden_end, STR(reason, TEXT_LEN) U64(grace_ms)) \
	PAYLOAD(warden_failed, STR(reason, TEXT_LEN)) \
	\
	/* shown: paths by which the session sees its workspace or a part of it, each followed by the \
	 * canonical path of that part; the first is the workspace's. real_path: on the host. The other paths are those of a \
	 * session without namespaces: where things are on the machine. writable: trees, by real paths. \
	 * files: file_view_pack. may_lack: rules about files may have nothing that holds them. */ \
	PAYLOAD(init_ready, \
		STRV(walls, LIST_LEN) U32(pid) STR(workspace, PATH_LEN) STR(own_dir, PATH_LEN) \
		STR(state_program, PATH_LEN) STRV(writable, LIST_LEN) STRV(shown, LIST_LEN) \
		STR(real_path, PATH_LEN) STR(home, PATH_LEN) STRV(files, LIST_LEN) U32(may_lack)) \
	/* path: to execute; only a name if the program comes as a descriptor. brief_ms: a command that \
	 * is over within this time has a leader_exit only. key: the sixth argument of its exec, by \
	 * which the warden recognises it. new_session: unused, every command has one. */ \
	PAYLOAD(init_spawn, \
		U32(id) STRV(argv, SPAWN_ARGS_LEN) STRV(env, SPAWN_ENV_LEN) STR(path, PATH_LEN) \
		STR(cwd, PATH_LEN) U32(umask) U32(stdio) U32(cols) U32(rows) U32(new_session) \
		U32(brief_ms) U64(key)) \
	PAYLOAD(init_failed, STR(wall, WORD_LEN) STR(message, TEXT_LEN)) \
	/* Sent with SCM_CREDENTIALS, so that the warden learns the leader's pid in its own namespace. */ \
	PAYLOAD(leader_started, U32(unused)) \
	/* stage: enum spawn_stage. */ \
	PAYLOAD(leader_failed, U32(stage) U32(errnum)) \
	/* The command's first process has ended; status as by wait. empty: nothing else is left, and \
	 * the leader waits for a leader_spawn (of the shape of init_spawn). A leader_empty has the same \
	 * shape and comes later, when the last descendant is gone. */ \
	PAYLOAD(leader_exit, \
		U32(status) U32(empty) U64(cpu_us) U64(maxrss_kb) U64(read_bytes) \
		U64(write_bytes)) \
	\
	PAYLOAD(process_failed, STR(message, TEXT_LEN)) \
	/* As struct actor_query and struct actor of gate/actor.h. spawn 0: no command was found. */ \
	PAYLOAD(process_ask, U32(id) U32(ppid) U32(process) U64(asked_us)) \
	PAYLOAD(process_actor, \
		U32(pid) U32(ppid) U32(leader) U32(spawn) STR(command_id, ID_MAX)) \
	/* sees_refusals: it records what the kernel refuses outside of the file server's trees; \
	 * records: and what is done below paths that it does not serve. */ \
	PAYLOAD(process_ready, U32(sees_refusals) U32(records)) \
	/* The command had this leader between these times of the monotonic clock; 0: it is not known. Also \
	 * of process_over. */ \
	PAYLOAD(process_settle, \
		STR(command_id, ID_MAX) U32(leader) U32(spawn) U64(since_us) U64(until_us)) \
	/* failed_errno, failed_path, similar: as in warden_result. */ \
	PAYLOAD(process_settled, \
		STR(command_id, ID_MAX) U32(failed_errno) STR(failed_path, PATH_LEN) \
		STRV(similar, LIST_LEN) FUSE) \
	/* The command has met a limit of the session, which is `value`. */ \
	PAYLOAD(process_limit, STR(command_id, ID_MAX) STR(limit, WORD_LEN) U64(value)) \
	/* event_batch_…: see event/fold.h. max_…: limits of the session; 0: none. approval_ms: so long \
	 * an approver may take; 0: this session lacks one. */ \
	PAYLOAD(process_settings, \
		U32(full_ring_drops) U32(log_level) U32(log_format) U32(event_batch_size) \
		U32(event_batch_ms) U64(max_file_ops) U64(approval_ms) U64(trash_max_bytes) \
		U64(trash_max_age_ms) U64(max_disk_mb)) \
	/* id: of the process's gate. op, also: as struct gate_case has them. tid, asked_us: who asks, if \
	 * command_id is "". */ \
	PAYLOAD(process_hold, \
		U64(id) U32(op) U32(also) U32(tid) U64(asked_us) STR(command_id, ID_MAX) \
		STR(path, PATH_LEN) STR(to, PATH_LEN)) \
	/* why: enum gate_why; 0: it is allowed. approval_id: of the question; "" if none was asked. */ \
	PAYLOAD(process_held, U64(id) U32(why) STR(approval_id, ID_MAX)) \
	\
	/* Policies to compile, or one to look at where its snapshot comes with the message. Of the \
	 * files, the first `policies` are policies; the others are sets. error: why a file cannot be \
	 * read, or "". length: a uint32_t for each file. text: all texts, one behind the other. shadow: \
	 * approvals.mode is shadow. workspace, home: NULL: as policy_options has them. places: absolute \
	 * paths of the session's view. mode: a policy is refused if this monitoring.mode cannot enforce it; \
	 * NULL: it is not asked. closed: paths in the places that are read-only or not shown. domains, ports, variables: that a session asks for. */ \
	PAYLOAD(check_ask, \
		U32(policies) STRV(name, LIST_LEN) STRV(file, NAMES_LEN) STRV(error, NAMES_LEN) \
		BYTES(length, LIST_LEN) BYTES(text, FILES_LEN) U32(shadow) \
		STR(workspace, PATH_LEN) STR(home, PATH_LEN) STRV(places, LIST_LEN) \
		STR(mode, WORD_LEN) STRV(closed, LIST_LEN) \
		STRV(domains, LIST_LEN) STRV(ports, LIST_LEN) STRV(variables, REQUEST_ENV_MAX)) \
	/* One answer for each policy, in their order. code NULL: all is well; with a snapshot, the \
	 * policy does not cover what the session asks for; else it says why there is no snapshot. \
	 * denial: for E_POLICY_DENIED, packed. report: warnings, one a line. limits: limits_pack. \
	 * withheld: of the plan, rights that no file of a place needs. soft_delete: a rule keeps what \
	 * is deleted. */ \
	PAYLOAD(check_policy, \
		STR(name, ID_MAX) STR(code, WORD_LEN) STR(subject, TEXT_LEN) STR(message, TEXT_LEN) \
		STR(denial, TEXT_LEN) STR(report, LIST_LEN) STR(version, WORD_LEN) \
		STR(description, TEXT_LEN) STRV(limits, TEXT_LEN) STRV(withheld, LIST_LEN) \
		U32(soft_delete)) \
	\
	/* Without all descriptors: why the other programs cannot be had. */ \
	PAYLOAD(bpf_loaded, STR(error, TEXT_LEN))
// clang-format on

/* Execs of the session so far, by what became of them. */
struct exec_counts {
	uint64_t verified, unused, refused, mismatched, failed;
};
/* FUSE requests of the session so far; see struct fs_counts. */
struct fuse_counts {
	uint64_t requests, request_us, parked, cache_hits;
};
/* Limits in a message: all as text, and a few as numbers, as the version before reads them. */
enum {
	OLD_max_memory_mb,
	OLD_max_cpu_percent,
	OLD_pids_max,
	OLD_max_disk_mb,
	OLD_io_read_bps_max,
	OLD_io_write_bps_max,
	MSG_OLD_LIMITS
};
#define MSG_STRUCT(type, ...) \
	struct type {         \
		__VA_ARGS__   \
	};
#define MSG_U32(name) uint32_t name;
#define MSG_U64(name) uint64_t name;
#define MSG_STR(name, max) char *name;
#define MSG_BYTES(name, max) struct bytes name;
#define MSG_STRV(name, max) struct strv name;
#define MSG_EXECS struct exec_counts execs;
#define MSG_FUSE struct fuse_counts fuse;
#define MSG_LIMITS uint64_t old_limits[MSG_OLD_LIMITS];
MSG_PAYLOADS(MSG_STRUCT, MSG_U32, MSG_U64, MSG_STR, MSG_BYTES, MSG_STRV, MSG_EXECS, MSG_FUSE,
	     MSG_LIMITS)

void msg_put_limits(const struct limits *l, uint64_t old[MSG_OLD_LIMITS], struct strv *text);
int msg_get_limits(const uint64_t old[MSG_OLD_LIMITS], const struct strv *text, struct limits *out,
		   struct err *err);
