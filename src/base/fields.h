// SPDX-License-Identifier: Apache-2.0
/* base/fields.h - C structs to bytes and back, by a table of fields.
 *
 * One mechanism for link messages and journal records. The bytes are little-endian, every
 * variable part is length-prefixed (u32) and bounded by its row. Unpacking checks everything: too
 * short, too long, trailing bytes, NUL inside a string, count over the row's max. A record may
 * end early at a field boundary (written by an older version): the missing fields are zero; extra
 * trailing bytes (written by a newer version) are an error unless `lenient`. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *data; /* owned */
	size_t len;
};
struct strv {
	char **v; /* owned, NULL-terminated once n > 0 */
	size_t n;
};

enum field_type {
	FIELD_U32,   /* uint32_t, int, enum */
	FIELD_U64,   /* uint64_t, int64_t */
	FIELD_STR,   /* char *, owned; NULL packs as absent and comes back NULL */
	FIELD_BYTES, /* struct bytes */
	FIELD_STRV,  /* struct strv; max bounds both the count and the total of all bytes */
};

struct field {
	const char *name;
	enum field_type type;
	uint16_t offset;
	uint32_t max; /* bytes, for STR, BYTES, STRV */
};
struct fields {
	const char *name;
	size_t size; /* of the struct */
	const struct field *row;
	size_t n;
};
#define FIELD(type_, kind_, name_, max_)                              \
	{                                                             \
#name_, kind_, (uint16_t)offsetof(type_, name_), max_ \
	}

/* Appends. A value over its row's max is packed as it is and refused by the reader: check foreign
 * values before. */
void fields_pack(const struct fields *f, const void *obj, struct buf *out);
/* obj is overwritten; on failure it is zeroed. E_BAD_REQUEST names struct and field. */
int fields_unpack(const struct fields *f, const void *data, size_t len, bool lenient, void *obj,
		  struct err *err);
void fields_done(const struct fields *f, void *obj); /* frees owned parts, zeroes */

void strv_add(struct strv *s, const char *str); /* copies */
void strv_addf(struct strv *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strv_add_new(struct strv *s, const char *str); /* unless it is there */
bool strv_has(const struct strv *s, const char *str);
void strv_done(struct strv *s);
#define cleanup_strv __attribute__((cleanup(strv_done)))
/* Environment view: NAME=value strings, names unique. */
const char *strv_env_get(const struct strv *env, const char *name);
void strv_env_set(struct strv *env, const char *name, const char *value); /* replaces */
void strv_env_unset(struct strv *env, const char *name);
void strv_copy(struct strv *dst, const struct strv *src); /* dst is freed first */
void bytes_done(struct bytes *b);
void bytes_set(struct bytes *b, const void *p, size_t n); /* copies */
