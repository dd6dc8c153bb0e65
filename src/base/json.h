// SPDX-License-Identifier: Apache-2.0
/* base/json.h - a small streaming writer, and strict reading by a table of fields (jansson below).
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The writer sets commas and escapes keys and strings. jw_str writes U+FFFD for bytes that are not
 * UTF-8; jw_data keeps all bytes. */
struct jw {
	struct buf *out; /* borrowed */
	unsigned depth;
	bool comma;
};
#define JW(buf_) ((struct jw){.out = (buf_)})
void jw_obj(struct jw *w); /* { */
void jw_obj_end(struct jw *w);
void jw_arr(struct jw *w); /* [ */
void jw_arr_end(struct jw *w);
void jw_key(struct jw *w, const char *key);
void jw_str(struct jw *w, const char *s); /* NULL writes null */
void jw_strn(struct jw *w, const char *s, size_t n);
void jw_int(struct jw *w, int64_t v);
void jw_uint(struct jw *w, uint64_t v);
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_raw(struct jw *w, const char *json, size_t n); /* one value, already JSON */
void jw_time_us(struct jw *w, int64_t wall_us); /* RFC 3339 UTC, microseconds; 0 writes null */
void jw_duration_ms(struct jw *w, int64_t ms); /* "90s", "5m", "4h", "1500ms"; largest exact unit */
/* key + value shorthands */
void jw_kstr(struct jw *w, const char *key, const char *s);
void jw_kobj(struct jw *w, const char *key);
void jw_karr(struct jw *w, const char *key);
void jw_kstrv(struct jw *w, const char *key, const struct strv *list); /* an array */
void jw_kint(struct jw *w, const char *key, int64_t v);
void jw_kuint(struct jw *w, const char *key, uint64_t v);
void jw_ktime_us(struct jw *w, const char *key, int64_t wall_us);
void jw_kbool(struct jw *w, const char *key, bool v);
void jw_kreal(struct jw *w, const char *key, double v); /* shortest form, up to 3 decimals */
/* Writes bytes as text if they are valid UTF-8 without NUL, else as base64; returns "text" or
 * "base64". */
const char *jw_data(struct jw *w, const void *p, size_t n);

bool json_is_text(const void *p, size_t n); /* valid UTF-8, no NUL */
/* The largest n' <= n that does not cut a UTF-8 character that begins before n. */
size_t json_text_cut(const void *p, size_t n);
void json_base64(struct buf *out, const void *p, size_t n);
int json_unbase64(struct buf *out, const char *s, size_t n, struct err *err);

/* Parses one document (any value): duplicate keys, trailing bytes, NUL in keys and depth over 64
 * are refused with E_BAD_REQUEST and line:column. The result is owned (json_decref). */
int json_parse(const char *text, size_t len, json_t **out, struct err *err);

enum json_kind {
	JSON_FIELD_STR,	     /* char *, owned; NULL for null */
	JSON_FIELD_INT,	     /* int64_t, min..max */
	JSON_FIELD_SHARE,    /* the same, or JSON_SHARE | percent from "75%" */
	JSON_FIELD_BOOL,     /* bool */
	JSON_FIELD_DURATION, /* int64_t ms from "5m"; min..max in ms */
	JSON_FIELD_STRV, /* struct strv from an array of strings; max = total bytes, and items */
	JSON_FIELD_ENV, /* struct strv "K=V" from an object of strings; max = total bytes, and items
			 */
	JSON_FIELD_ENV_EDIT, /* the same, where null stands for a variable to remove: "K" */
	JSON_FIELD_PORTS,    /* struct strv of decimal strings from an array of numbers 1..65535;
			      * max = items */
	JSON_FIELD_OBJ,	     /* nested: sub table, same struct base + offset */
	JSON_FIELD_ANY,	     /* accepted, not read */
};
struct json_field {
	const char *name;
	enum json_kind kind;
	uint16_t offset;
	int64_t min, max;	      /* STR: length; INT and DURATION: value */
	const struct json_field *sub; /* OBJ; ends with name NULL */
	int16_t seen;		      /* offset of a bool: the field was given; 0 for none */
};
/* Reads obj into out by table (ends with name NULL). Unknown keys, wrong types and values out of
 * range are each collected as details ("resource_limits.pids_max"); returns -E_BAD_REQUEST if any,
 * out is untouched then. null = not given: the field keeps its value; a given value replaces
 * (frees) it. seen is relative to out, as offset is. */
int json_read(const json_t *obj, const struct json_field *table, void *out, struct err *err);
void json_read_done(const struct json_field *table, void *out); /* frees owned parts */

/* This bit marks a percentage: "75%" is JSON_SHARE | 75. */
#define JSON_SHARE (INT64_C(1) << 62)
/* 1% to 100%. */
bool json_share_parse(const char *s, int64_t *v);
/* The number, or "75%". */
void jw_share(struct jw *w, int64_t v);

/* "90s", "5m", "4h", "1500ms", "2h30m"; plain numbers are refused. */
int json_duration_parse(const char *s, int64_t *ms, struct err *err);
void json_duration_format(struct buf *out, int64_t ms);
