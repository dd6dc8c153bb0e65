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
/* With a shell's own arguments; and the environments of session and command together. */
#define SPAWN_ARGS_LEN (REQUEST_ARGS_MAX + REQUEST_SCRIPT_MAX + LIST_LEN)
#define SPAWN_ENV_LEN (2 * REQUEST_ENV_MAX + LIST_LEN)

#define ROW(kind, name, max) FIELD(payload, FIELD_##kind, name, max),
#define U32(name) ROW(U32, name, 0)
#define U64(name) ROW(U64, name, 0)
#define STR(name, max) ROW(STR, name, max)
#define BYTES(name, max) ROW(BYTES, name, max)
#define STRV(name, max) ROW(STRV, name, max)
#define EXECS               \
	U64(execs.verified) \
	U64(execs.unused) U64(execs.refused) U64(execs.mismatched) U64(execs.failed)
#define FUSE U64(fuse.requests) U64(fuse.request_us) U64(fuse.parked) U64(fuse.cache_hits)
#define OLD_LIMITS         \
	U64(old_limits[0]) \
	U64(old_limits[1]) \
	U64(old_limits[2]) U64(old_limits[3]) U64(old_limits[4]) U64(old_limits[5])
#define TABLE(type, ...)                                                                        \
	static const struct fields *type##_fields(void)                                         \
	{                                                                                       \
		typedef struct type payload;                                                    \
		static const struct field row[] = {__VA_ARGS__};                                \
		static const struct fields all = {#type, sizeof(payload), row, ARRAY_LEN(row)}; \
                                                                                                \
		return &all;                                                                    \
	}
MSG_PAYLOADS(TABLE, U32, U64, STR, BYTES, STRV, EXECS, FUSE, OLD_LIMITS)

static const struct msg_row rows[] = {
#define X(name, number, from, to, in, next, minfd, maxfd, payload)         \
	[number] = {#name,	 number, SIDE_##from, SIDE_##to,       in, \
		    LINK_##next, minfd,	 maxfd,	      payload##_fields},
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
	fields_done(row->fields(), obj);
}

size_t msg_max(const struct msg_row *row)
{
	static const uint8_t fixed[] = {[FIELD_U32] = 4,
					[FIELD_U64] = 8,
					[FIELD_STR] = 4,
					[FIELD_BYTES] = 4,
					[FIELD_STRV] = 4};
	const struct fields *all = row->fields();
	size_t n = 0;

	/* The max of a list bounds the bytes and the count; each string has a length before it. */
	for (const struct field *f = all->row; f < all->row + all->n; f++)
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
	const struct fields *all = row->fields();

	for (const struct field *f = all->row; f < all->row + all->n; f++)
		if (!fits(f, (const char *)obj + f->offset))
			return f->name;
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
