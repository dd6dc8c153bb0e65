// SPDX-License-Identifier: Apache-2.0
#include "model/event.h"
#include "base/fnv.h"
#include "base/mem.h"
#include <stdio.h>

/* The longest id, path and so on. A whole event stays below EVENT_MAX with any values. */
#define MAX_ID 64
#define MAX_WORD 32
#define MAX_RULE 128
#define MAX_PATH 4096
#define MAX_EXEC_PATH 1024
#define MAX_ARGV 2048
#define MAX_ARGS 128 /* arguments: each costs four bytes of its own */
#define MAX_DOMAIN 256
#define MAX_TEXT 512
#define MAX_SENTENCES 768

#define ROW(kind, name, max) FIELD(struct event, kind, name, max)
#define U32(name) ROW(FIELD_U32, name, 0)
#define U64(name) ROW(FIELD_U64, name, 0)
#define STR(name, max) ROW(FIELD_STR, name, max)

/* The order is the packed form: add new rows only at the end. */
static const struct field rows[] = {
	U32(schema),
	U32(type),
	U64(time_us),
	STR(session_id, MAX_ID),
	STR(command_id, MAX_ID),
	STR(agent_id, MAX_ID),
	STR(request_id, MAX_ID),
	STR(trace_id, MAX_ID),
	U32(pid),
	U32(count),
	U64(latency_us),
	STR(decision, MAX_WORD),
	STR(policy_decision, MAX_WORD),
	STR(policy_effective, MAX_WORD),
	STR(policy_rule, MAX_RULE),
	STR(policy_version, MAX_RULE),
	STR(path, MAX_PATH),
	STR(real_path, MAX_PATH),
	STR(op_flags, MAX_DOMAIN),
	U64(op_bytes),
	U64(op_offset),
	STR(remote_addr, MAX_RULE),
	STR(protocol, MAX_WORD),
	STR(dns_domain, MAX_DOMAIN),
	STR(dns_type, MAX_WORD),
	STR(dns_from, MAX_WORD),
	STR(tls_sni, MAX_DOMAIN),
	STR(tls_version, MAX_WORD),
	U32(remote_port),
	U32(local_port),
	U64(bytes_sent),
	U64(bytes_received),
	STR(exec_path, MAX_EXEC_PATH),
	STR(exec_cwd, MAX_EXEC_PATH),
	ROW(FIELD_STRV, exec_argv, MAX_ARGV),
	U32(exec_ppid),
	STR(state_from, MAX_WORD),
	STR(state_to, MAX_WORD),
	STR(reason, MAX_TEXT),
	STR(command_line, MAX_TEXT),
	U32(has_exit),
	U32(exit_code),
	STR(signal, MAX_WORD),
	U64(duration_us),
	STR(limit, MAX_WORD),
	STR(counter, MAX_WORD),
	U64(value),
	STR(policy_name, MAX_RULE),
	STR(denied_op, MAX_WORD),
	STR(denied_target, MAX_EXEC_PATH),
	STR(denied_reason, MAX_TEXT),
	U32(denied_final),
	ROW(FIELD_STRV, alternatives, MAX_SENTENCES),
	U32(approved),
	STR(exec_verified, MAX_WORD),
	STR(exec_loaded, MAX_EXEC_PATH),
	STR(op_to, MAX_PATH),
	U32(op_has),
	U32(op_error),
	STR(file_type, MAX_RULE),
	U64(size_before),
	U64(size_after),
	STR(approval_id, MAX_ID),
	STR(denied_error, MAX_WORD),
};
const struct fields event_fields = {"event", sizeof(struct event), rows, ARRAY_LEN(rows)};

static const struct {
	const char *name;
	enum event_class class;
} types[EVENT_TYPE_COUNT] = {
#define X(name, number, class) [number] = {#name, EVENT_CLASS_##class},
	EVENT_TYPES(X)
#undef X
};

const char *event_type_name(enum event_type t)
{
	return types[t].name;
}

int event_type_by_name(const char *s)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (strcmp(types[t].name, s) == 0)
			return t;
	return -1;
}

enum event_class event_class(enum event_type t)
{
	return types[t].class;
}

uint64_t event_types_of(enum event_class class)
{
	uint64_t set = 0;

	for (unsigned t = 0; t < EVENT_TYPE_COUNT; t++)
		if (types[t].class == class)
			set |= UINT64_C(1) << t;
	return set;
}

#define MARK "…#"
#define MARK_LEN (sizeof(MARK) - 1 + 16)

/* Returns the first bytes of s and the mark, together at most max bytes. */
static char *cut(const char *s, size_t max, uint64_t hash)
{
	const size_t len = strlen(s), room = max - MARK_LEN;

	return mem_printf("%.*s" MARK "%016llx", (int)json_text_cut(s, len < room ? len : room), s,
			  (unsigned long long)hash);
}

/* Adds whole arguments as long as the mark fits behind them, and then the rest as one. The hash
 * covers the whole rest, with the end of each argument. */
static void argv_cut(const struct strv *argv, size_t max, struct strv *out)
{
	cleanup_free char *last = NULL;
	uint64_t hash = FNV64;
	size_t i, len;

	for (i = 0; i + 1 < MAX_ARGS; i++) {
		len = strlen(argv->v[i]);
		if (len + MARK_LEN > max)
			break;
		max -= len;
		strv_add(out, argv->v[i]);
	}
	for (size_t k = i; k < argv->n; k++)
		hash = fnv64(hash, argv->v[k], strlen(argv->v[k]) + 1);
	last = cut(argv->v[i], max, hash);
	strv_add(out, last);
}

static bool fits(const struct field *row, const void *at)
{
	const struct strv *list = at;
	const char *s;
	size_t total = 0;

	switch (row->type) {
	case FIELD_STR:
		s = *(char *const *)at;
		return s == NULL || strlen(s) <= row->max;
	case FIELD_STRV:
		for (size_t i = 0; i < list->n; i++)
			total += strlen(list->v[i]);
		return total <= row->max && list->n <= MAX_ARGS;
	default:
		return true;
	}
}

/* Cuts a part of the copy that is too long; the new part belongs to owned. */
static void cut_part(const struct field *row, struct event *copy, struct event *owned)
{
	char *at = (char *)copy + row->offset, *mine = (char *)owned + row->offset;

	if (row->type == FIELD_STRV) {
		argv_cut((const struct strv *)at, row->max, (struct strv *)mine);
		*(struct strv *)at = *(struct strv *)mine;
	} else {
		const char *s = *(char **)at;

		*(char **)at = *(char **)mine = cut(s, row->max, fnv64(FNV64, s, strlen(s)));
	}
}

void event_pack(const struct event *e, struct buf *out)
{
	struct event copy = *e, owned = {0};
	const size_t start = out->len;
	bool whole = true;

	copy.schema = e->schema != 0 ? e->schema : EVENT_SCHEMA;
	copy.count = e->count != 0 ? e->count : 1;
	if (e->type_number != 0)
		copy.type = e->type_number;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!fits(&rows[i], (const char *)&copy + rows[i].offset)) {
			cut_part(&rows[i], &copy, &owned);
			whole = false;
		}
	fields_pack(&event_fields, &copy, out);
	if (!whole)
		fields_done(&event_fields, &owned);
	ensure(out->len - start <= EVENT_MAX);
}

int event_unpack(const void *data, size_t len, struct event *e, struct err *err)
{
	struct event got;
	int rc;

	if (len > EVENT_MAX)
		return err_set(err, E_BAD_REQUEST, NULL, "event of %zu bytes", len);
	rc = fields_unpack(&event_fields, data, len, true, &got, err);
	if (rc < 0)
		return rc;
	if (got.schema == 0 || got.count == 0) {
		event_done(&got);
		return err_set(err, E_BAD_REQUEST, NULL, "event.schema or event.count: 0");
	}
	if (got.type >= EVENT_TYPE_COUNT || got.type == EVENT_unknown) {
		got.type_number = got.type;
		got.type = EVENT_unknown;
	}
	*e = got;
	return 0;
}

void event_done(struct event *e)
{
	fields_done(&event_fields, e);
}
