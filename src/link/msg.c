// SPDX-License-Identifier: Apache-2.0
/* The tables of every payload. A max is what the sender may need, not what the receiver has:
 * link_send refuses more. */
#include "link/msg.h"
#include "base/id.h"
#include "base/mem.h"
#include "model/request.h"

#define PATH_LEN 4096
#define WORD_LEN 128 /* codes, names, modes */
#define ACKS_LEN (1024 * (ID_MAX + 1))
#define TEXT_LEN 4096 /* sentences for people */
#define LIST_LEN (64 * 1024)
#define NAMES_LEN (256 * 1024)	    /* paths of files */
#define FILES_LEN (8 * 1024 * 1024) /* texts of policies and sets */
/* A shell's own arguments stand before a script; the session's and the command's environment become
 * one. */
#define SPAWN_ARGS_LEN (REQUEST_ARGS_MAX + REQUEST_SCRIPT_MAX + LIST_LEN)
#define SPAWN_ENV_LEN (2 * REQUEST_ENV_MAX + LIST_LEN)

#define U32(type, name) FIELD(struct type, FIELD_U32, name, 0)
#define U64(type, name) FIELD(struct type, FIELD_U64, name, 0)
#define STR(type, name, max) FIELD(struct type, FIELD_STR, name, max)
#define BYTES(type, name, max) FIELD(struct type, FIELD_BYTES, name, max)
#define STRV(type, name, max) FIELD(struct type, FIELD_STRV, name, max)
#define EXECS(type)                                                                   \
	U64(type, execs.verified), U64(type, execs.unused), U64(type, execs.refused), \
		U64(type, execs.mismatched), U64(type, execs.failed)
#define TABLE(type, ...)                                                                     \
	static const struct field type##_rows[] = {__VA_ARGS__};                             \
	static const struct fields type##_fields = {#type, sizeof(struct type), type##_rows, \
						    ARRAY_LEN(type##_rows)};

#define OLD_LIMITS(type)                                                              \
	U64(type, old_limits[0]), U64(type, old_limits[1]), U64(type, old_limits[2]), \
		U64(type, old_limits[3]), U64(type, old_limits[4]), U64(type, old_limits[5])

// clang-format off
TABLE(launcher_hello,
	U32(launcher_hello, version), U32(launcher_hello, privileged),
	U32(launcher_hello, auto_started), U32(launcher_hello, owner_uid),
	STRV(launcher_hello, listeners, LIST_LEN),
	STR(launcher_hello, state_dir, PATH_LEN), STR(launcher_hello, runtime_dir, PATH_LEN),
	STRV(launcher_hello, overrides, LIST_LEN),
	U32(launcher_hello, has_config), U32(launcher_hello, has_keys),
	U32(launcher_hello, accept_loss), U64(launcher_hello, share_mb))
TABLE(launcher_create,
	STR(launcher_create, session_id, ID_MAX), STR(launcher_create, workspace, PATH_LEN),
	STR(launcher_create, policy, ID_MAX), BYTES(launcher_create, key, 128),
	STRV(launcher_create, unenforced, TEXT_LEN), STR(launcher_create, background, WORD_LEN),
	OLD_LIMITS(launcher_create),
	U64(launcher_create, required), STRV(launcher_create, domains, LIST_LEN),
	STRV(launcher_create, ports, LIST_LEN), STRV(launcher_create, variables, REQUEST_ENV_MAX),
	STRV(launcher_create, limits, TEXT_LEN))
TABLE(launcher_created,
	STR(launcher_created, session_id, ID_MAX), STR(launcher_created, workspace, PATH_LEN),
	STR(launcher_created, policy_name, ID_MAX), STR(launcher_created, policy_version, WORD_LEN),
	U32(launcher_created, owner_uid), U32(launcher_created, session_uid),
	U32(launcher_created, session_gid), STRV(launcher_created, walls, LIST_LEN),
	STRV(launcher_created, rings, LIST_LEN))
TABLE(launcher_refused,
	STR(launcher_refused, session_id, ID_MAX), STR(launcher_refused, code, WORD_LEN),
	STR(launcher_refused, subject, TEXT_LEN), STR(launcher_refused, message, TEXT_LEN),
	STR(launcher_refused, policy, TEXT_LEN))
TABLE(launcher_found, STR(launcher_found, session_id, ID_MAX),
	STRV(launcher_found, rings, LIST_LEN))
TABLE(launcher_lost,
	STR(launcher_lost, session_id, ID_MAX), STR(launcher_lost, reason, TEXT_LEN),
	STRV(launcher_lost, rings, LIST_LEN))
TABLE(launcher_gone,
	STR(launcher_gone, session_id, ID_MAX), STR(launcher_gone, reason, TEXT_LEN),
	U64(launcher_gone, oom_kills))
TABLE(launcher_remove, STR(launcher_remove, session_id, ID_MAX))
TABLE(launcher_ask, U32(launcher_ask, ticket), U32(launcher_ask, reload))
TABLE(launcher_policies,
	U32(launcher_policies, ticket), STRV(launcher_policies, name, LIST_LEN),
	STRV(launcher_policies, version, LIST_LEN), STRV(launcher_policies, description, LIST_LEN),
	STRV(launcher_policies, loaded, LIST_LEN), STRV(launcher_policies, failed, LIST_LEN),
	STRV(launcher_policies, why, LIST_LEN))
TABLE(launcher_limit,
	STR(launcher_limit, session_id, ID_MAX), OLD_LIMITS(launcher_limit),
	STRV(launcher_limit, limits, TEXT_LEN), U64(launcher_limit, optional))
TABLE(launcher_limited,
	STR(launcher_limited, session_id, ID_MAX), STR(launcher_limited, code, WORD_LEN),
	STR(launcher_limited, subject, TEXT_LEN), STR(launcher_limited, message, TEXT_LEN),
	STRV(launcher_limited, walls, LIST_LEN))
TABLE(msg_empty, U32(msg_empty, unused))

TABLE(warden_hello,
	U32(warden_hello, version), STRV(warden_hello, env, REQUEST_ENV_MAX),
	STR(warden_hello, cwd, PATH_LEN), STR(warden_hello, shell, PATH_LEN),
	U64(warden_hello, orphan_timeout_ms), U64(warden_hello, command_timeout_ms),
	U64(warden_hello, output_quota), U64(warden_hello, env_max),
	U32(warden_hello, full_ring_drops), U32(warden_hello, keep_background),
	STR(warden_hello, agent_id, ID_MAX))
TABLE(warden_state,
	U32(warden_state, version), U32(warden_state, fresh),
	STR(warden_state, session_id, ID_MAX), STR(warden_state, cwd, PATH_LEN),
	STRV(warden_state, env, REQUEST_ENV_MAX), STRV(warden_state, aliases, REQUEST_ENV_MAX),
	STRV(warden_state, dir_stack, REQUEST_ENV_MAX), STRV(warden_state, walls, LIST_LEN),
	U64(warden_state, commands), U32(warden_state, last_exit), U64(warden_state, ring_pos),
	EXECS(warden_state))
TABLE(warden_exec,
	STR(warden_exec, command_id, ID_MAX), STR(warden_exec, script, REQUEST_SCRIPT_MAX),
	STR(warden_exec, argv0, PATH_LEN), STR(warden_exec, cwd, PATH_LEN),
	STR(warden_exec, request_id, ID_MAX), STRV(warden_exec, argv, REQUEST_ARGS_MAX + PATH_LEN),
	STRV(warden_exec, env, REQUEST_ENV_MAX), BYTES(warden_exec, stdin_data, REQUEST_STDIN_MAX),
	U64(warden_exec, timeout_ms), U32(warden_exec, stdin_open), U32(warden_exec, flow),
	U32(warden_exec, stdio), U32(warden_exec, cols), U32(warden_exec, rows),
	U32(warden_exec, umask_plus1), U32(warden_exec, report_output),
	STRV(warden_exec, acks, ACKS_LEN))
TABLE(warden_started,
	STR(warden_started, command_id, ID_MAX), U32(warden_started, pid),
	U64(warden_started, time_us))
TABLE(warden_refused,
	STR(warden_refused, command_id, ID_MAX), STR(warden_refused, code, WORD_LEN),
	STR(warden_refused, subject, TEXT_LEN), STR(warden_refused, message, TEXT_LEN),
	STR(warden_refused, rule, TEXT_LEN), STR(warden_refused, reason, TEXT_LEN),
	STR(warden_refused, policy, TEXT_LEN))
TABLE(warden_output,
	STR(warden_output, command_id, ID_MAX), U64(warden_output, stdout_bytes),
	U64(warden_output, stderr_bytes), U64(warden_output, stdout_kept),
	U64(warden_output, stderr_kept), U64(warden_output, stdout_from),
	U64(warden_output, stderr_from), U64(warden_output, stdout_lines),
	U64(warden_output, stderr_lines))
TABLE(warden_result,
	STR(warden_result, command_id, ID_MAX), U32(warden_result, exit_code),
	U32(warden_result, signal), STR(warden_result, error_code, WORD_LEN),
	STR(warden_result, error_message, TEXT_LEN), STR(warden_result, error_path, PATH_LEN),
	U64(warden_result, started_us), U64(warden_result, finished_us),
	U64(warden_result, duration_us), U64(warden_result, stdout_bytes),
	U64(warden_result, stderr_bytes), U64(warden_result, stdout_lines),
	U64(warden_result, stderr_lines), U64(warden_result, stdout_kept),
	U64(warden_result, stderr_kept), U64(warden_result, cpu_us),
	U64(warden_result, maxrss_kb), U64(warden_result, read_bytes),
	U64(warden_result, write_bytes), STR(warden_result, cwd, PATH_LEN),
	STRV(warden_result, env_changed, REQUEST_ENV_MAX), STRV(warden_result, env, REQUEST_ENV_MAX),
	STRV(warden_result, background, REQUEST_ENV_MAX), U64(warden_result, ring_end),
	STR(warden_result, capture, TEXT_LEN), EXECS(warden_result),
	STRV(warden_result, similar, LIST_LEN), STRV(warden_result, warnings, REQUEST_ENV_MAX),
	U64(warden_result, stdout_from), U64(warden_result, stderr_from),
	STRV(warden_result, ring_ends, LIST_LEN))
TABLE(warden_acks, STRV(warden_acks, command_ids, ACKS_LEN))
TABLE(warden_stdin,
	STR(warden_stdin, command_id, ID_MAX), BYTES(warden_stdin, data, 1024 * 1024),
	U32(warden_stdin, eof))
TABLE(warden_taken, STR(warden_taken, command_id, ID_MAX), U64(warden_taken, total))
TABLE(warden_window,
	STR(warden_window, command_id, ID_MAX), U32(warden_window, stream),
	U64(warden_window, allowed), U64(warden_window, read))
TABLE(warden_kill,
	STR(warden_kill, command_id, ID_MAX), U32(warden_kill, signal),
	U64(warden_kill, grace_ms), U32(warden_kill, tree), U32(warden_kill, client_gone))
TABLE(warden_patch,
	STRV(warden_patch, set, REQUEST_ENV_MAX), STRV(warden_patch, unset, REQUEST_ENV_MAX),
	STR(warden_patch, cwd, PATH_LEN), U64(warden_patch, command_timeout_ms),
	STRV(warden_patch, walls, LIST_LEN), STRV(warden_patch, counters, LIST_LEN))
TABLE(warden_settings,
	U64(warden_settings, orphan_timeout_ms), U64(warden_settings, output_quota),
	U32(warden_settings, full_ring_drops), U32(warden_settings, log_level),
	U32(warden_settings, log_format))
TABLE(warden_end, STR(warden_end, reason, TEXT_LEN), U64(warden_end, grace_ms))
TABLE(warden_failed, STR(warden_failed, reason, TEXT_LEN))

TABLE(init_ready, STRV(init_ready, walls, LIST_LEN), U32(init_ready, pid),
	STR(init_ready, workspace, PATH_LEN), STR(init_ready, own_dir, PATH_LEN),
	STR(init_ready, state_program, PATH_LEN), STRV(init_ready, writable, LIST_LEN))
TABLE(init_spawn,
	U32(init_spawn, id), STRV(init_spawn, argv, SPAWN_ARGS_LEN),
	STRV(init_spawn, env, SPAWN_ENV_LEN), STR(init_spawn, path, PATH_LEN),
	STR(init_spawn, cwd, PATH_LEN), U32(init_spawn, umask), U32(init_spawn, stdio),
	U32(init_spawn, cols), U32(init_spawn, rows), U32(init_spawn, new_session),
	U32(init_spawn, brief_ms), U64(init_spawn, key))
TABLE(init_failed, STR(init_failed, wall, WORD_LEN), STR(init_failed, message, TEXT_LEN))
TABLE(leader_started, U32(leader_started, unused))
TABLE(leader_failed, U32(leader_failed, stage), U32(leader_failed, errnum))
TABLE(leader_exit,
	U32(leader_exit, status), U32(leader_exit, empty), U64(leader_exit, cpu_us),
	U64(leader_exit, maxrss_kb), U64(leader_exit, read_bytes), U64(leader_exit, write_bytes))
TABLE(process_failed, STR(process_failed, message, TEXT_LEN))
TABLE(process_ask,
	U32(process_ask, id), U32(process_ask, ppid), U32(process_ask, process),
	U64(process_ask, asked_us))
TABLE(process_actor,
	U32(process_actor, pid), U32(process_actor, ppid), U32(process_actor, leader),
	U32(process_actor, spawn), STR(process_actor, command_id, ID_MAX))
TABLE(process_over, STR(process_over, command_id, ID_MAX))
TABLE(process_settings,
	U32(process_settings, full_ring_drops), U32(process_settings, log_level),
	U32(process_settings, log_format))
TABLE(check_ask,
	U32(check_ask, policies), STRV(check_ask, name, LIST_LEN), STRV(check_ask, file, NAMES_LEN),
	STRV(check_ask, error, NAMES_LEN), BYTES(check_ask, length, LIST_LEN),
	BYTES(check_ask, text, FILES_LEN), U32(check_ask, shadow),
	STR(check_ask, workspace, PATH_LEN), STR(check_ask, home, PATH_LEN),
	STRV(check_ask, places, LIST_LEN), STRV(check_ask, domains, LIST_LEN),
	STRV(check_ask, ports, LIST_LEN), STRV(check_ask, variables, REQUEST_ENV_MAX))
TABLE(check_policy,
	STR(check_policy, name, ID_MAX), STR(check_policy, code, WORD_LEN),
	STR(check_policy, subject, TEXT_LEN), STR(check_policy, message, TEXT_LEN),
	STR(check_policy, denial, TEXT_LEN), STR(check_policy, report, LIST_LEN),
	STR(check_policy, version, WORD_LEN), STR(check_policy, description, TEXT_LEN),
	U32(check_policy, file_rules), STRV(check_policy, limits, TEXT_LEN),
	STRV(check_policy, withheld, LIST_LEN))
// clang-format on

/* Messages that share another's shape. */
#define launcher_found_all_fields msg_empty_fields
#define launcher_stop_fields msg_empty_fields
#define launcher_hup_fields msg_empty_fields
#define launcher_idle_fields msg_empty_fields
#define launcher_ready_fields msg_empty_fields
#define warden_bell_fields msg_empty_fields
#define init_ended_fields msg_empty_fields
#define process_hello_fields msg_empty_fields
#define process_ready_fields msg_empty_fields
#define process_bell_fields msg_empty_fields
#define warden_ack_fields warden_acks_fields
#define leader_empty_fields leader_exit_fields
#define leader_spawn_fields init_spawn_fields

static const struct msg_row rows[] = {
#define X(name, number, from, to, in, next, minfd, maxfd)                \
	[number] = {#name,	 number, SIDE_##from, SIDE_##to,     in, \
		    LINK_##next, minfd,	 maxfd,	      &name##_fields},
	MSG_TABLE(X)
#undef X
};

const struct msg_row *msg_row(unsigned number)
{
	return number < ARRAY_LEN(rows) && rows[number].name != NULL ? &rows[number] : NULL;
}

void msg_done(enum msg_type type, void *obj)
{
	const struct msg_row *row = msg_row(type);

	ensure(row != NULL);
	fields_done(row->fields, obj);
}

size_t msg_max(const struct msg_row *row)
{
	static const uint8_t fixed[] = {[FIELD_U32] = 4,
					[FIELD_U64] = 8,
					[FIELD_STR] = 4,
					[FIELD_BYTES] = 4,
					[FIELD_STRV] = 4};
	size_t n = 0;

	/* The max of a list bounds the bytes and the count; each string has a length before it. */
	for (const struct field *f = row->fields->row; f < row->fields->row + row->fields->n; f++)
		n += fixed[f->type] + (size_t)f->max * (f->type == FIELD_STRV ? 5 : 1);
	return n;
}

static bool fits(const struct field *f, const void *at)
{
	const struct strv *list = at;
	size_t bytes = 0;

	switch (f->type) {
	case FIELD_STR:
		return *(char *const *)at == NULL || strlen(*(char *const *)at) <= f->max;
	case FIELD_BYTES:
		return ((const struct bytes *)at)->len <= f->max;
	case FIELD_STRV:
		for (size_t i = 0; i < list->n; i++)
			bytes += strlen(list->v[i]);
		return bytes <= f->max && list->n <= f->max;
	case FIELD_U32:
	case FIELD_U64:
		break;
	}
	return true;
}

const char *msg_oversized(const struct msg_row *row, const void *obj)
{
	for (size_t i = 0; i < row->fields->n; i++) {
		const struct field *f = &row->fields->row[i];

		if (!fits(f, (const char *)obj + f->offset))
			return f->name;
	}
	return NULL;
}

static const enum limit old_limits[MSG_OLD_LIMITS] = {
	LIMIT_max_memory_mb, LIMIT_max_cpu_percent, LIMIT_pids_max,
	LIMIT_max_disk_mb,   LIMIT_io_read_bps_max, LIMIT_io_write_bps_max};

void msg_put_limits(const struct limits *l, uint64_t old[MSG_OLD_LIMITS], struct strv *text)
{
	for (size_t i = 0; i < MSG_OLD_LIMITS; i++)
		old[i] = (uint64_t)l->value[old_limits[i]];
	limits_pack(l, text);
}

int msg_get_limits(const uint64_t old[MSG_OLD_LIMITS], const struct strv *text, struct limits *out,
		   struct err *err)
{
	*out = (struct limits){0};
	for (size_t i = 0; i < MSG_OLD_LIMITS; i++)
		out->value[old_limits[i]] = (int64_t)old[i];
	return limits_unpack(out, text, err);
}
