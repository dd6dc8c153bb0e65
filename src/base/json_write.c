// SPDX-License-Identifier: Apache-2.0
/* The writer of base/json.h. Programs that only write JSON link it without jansson. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>

static void separate(struct jw *w)
{
	if (w->comma)
		buf_addc(w->out, ',');
	w->comma = true;
}

static void open_with(struct jw *w, char c)
{
	separate(w);
	buf_addc(w->out, c);
	w->depth++;
	w->comma = false;
}

static void close_with(struct jw *w, char c)
{
	ensure(w->depth > 0);
	buf_addc(w->out, c);
	w->depth--;
	w->comma = true;
}

void jw_obj(struct jw *w)
{
	open_with(w, '{');
}

void jw_obj_end(struct jw *w)
{
	close_with(w, '}');
}

void jw_arr(struct jw *w)
{
	open_with(w, '[');
}

void jw_arr_end(struct jw *w)
{
	close_with(w, ']');
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Has a zero byte; also true for some words with a one behind a zero byte. */
static uint64_t zero_byte(uint64_t x)
{
	return (x - EACH(1)) & ~x & EACH(0x80);
}

/* Of eight bytes at once: none is below the blank, a quote, a backslash, 0x7f or above. */
static bool plain8(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return (((x - EACH(' ')) & ~x & EACH(0x80)) | (x & EACH(0x80)) | zero_byte(x ^ EACH('"')) |
		zero_byte(x ^ EACH('\\')) | zero_byte(x ^ EACH(0x7f))) == 0;
}

static void add_escape(struct buf *out, uint8_t c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *at = c != '\0' ? strchr(from, c) : NULL;

	if (at != NULL)
		buf_add(out, (const char[]){'\\', to[at - from]}, 2);
	else
		buf_addf(out, "\\u%04x", c);
}

/* Copies runs of what needs no change at once. */
static void add_string(struct buf *out, const char *s, size_t n)
{
	const uint8_t *p = (const uint8_t *)s, *end = p + n, *run = p;

	buf_reserve(out, n + 2);
	buf_addc(out, '"');
	while (p < end) {
		int len;

		if (end - p >= 8 && plain8(p)) {
			p += 8;
			continue;
		}
		if (*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\') {
			p++;
			continue;
		}
		len = *p < 0x80 ? 0 : utf8_char(p, (size_t)(end - p));
		if (len > 0) {
			p += len;
			continue;
		}
		buf_add(out, run, (size_t)(p - run));
		if (*p < 0x80)
			add_escape(out, *p);
		else
			buf_adds(out, "\xef\xbf\xbd");
		run = ++p;
	}
	buf_add(out, run, (size_t)(p - run));
	buf_addc(out, '"');
}

void jw_key(struct jw *w, const char *key)
{
	separate(w);
	add_string(w->out, key, strlen(key));
	buf_addc(w->out, ':');
	w->comma = false;
}

void jw_strn(struct jw *w, const char *s, size_t n)
{
	separate(w);
	add_string(w->out, s, n);
}

void jw_str(struct jw *w, const char *s)
{
	if (s == NULL)
		jw_null(w);
	else
		jw_strn(w, s, strlen(s));
}

static void add_number(struct jw *w, bool negative, uint64_t v)
{
	char text[24], *p = text + sizeof(text);

	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10) != 0);
	if (negative)
		*--p = '-';
	separate(w);
	buf_add(w->out, p, (size_t)(text + sizeof(text) - p));
}

void jw_int(struct jw *w, int64_t v)
{
	add_number(w, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void jw_uint(struct jw *w, uint64_t v)
{
	add_number(w, false, v);
}

void jw_bool(struct jw *w, bool v)
{
	jw_raw(w, v ? "true" : "false", v ? 4 : 5);
}

void jw_null(struct jw *w)
{
	jw_raw(w, "null", 4);
}

void jw_raw(struct jw *w, const char *json, size_t n)
{
	separate(w);
	buf_add(w->out, json, n);
}

void jw_time_us(struct jw *w, int64_t wall_us)
{
	if (wall_us == 0) {
		jw_null(w);
		return;
	}
	separate(w);
	buf_addc(w->out, '"');
	clock_format(w->out, wall_us, true);
	buf_addc(w->out, '"');
}

void jw_duration_ms(struct jw *w, int64_t ms)
{
	separate(w);
	buf_addc(w->out, '"');
	json_duration_format(w->out, ms);
	buf_addc(w->out, '"');
}

void jw_share(struct jw *w, int64_t v)
{
	separate(w);
	buf_addf(w->out, (v & JSON_SHARE) != 0 ? "\"%lld%%\"" : "%lld",
		 (long long)(v & ~JSON_SHARE));
}

void jw_kstr(struct jw *w, const char *key, const char *s)
{
	jw_key(w, key);
	jw_str(w, s);
}

void jw_kobj(struct jw *w, const char *key)
{
	jw_key(w, key);
	jw_obj(w);
}

void jw_karr(struct jw *w, const char *key)
{
	jw_key(w, key);
	jw_arr(w);
}

void jw_kstrv(struct jw *w, const char *key, const struct strv *list)
{
	jw_karr(w, key);
	for (size_t i = 0; i < list->n; i++)
		jw_str(w, list->v[i]);
	jw_arr_end(w);
}

void jw_kint(struct jw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_int(w, v);
}

void jw_kuint(struct jw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_uint(w, v);
}

void jw_ktime_us(struct jw *w, const char *key, int64_t wall_us)
{
	jw_key(w, key);
	jw_time_us(w, wall_us);
}

void jw_kbool(struct jw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}

void jw_kreal(struct jw *w, const char *key, double v)
{
	char text[400]; /* DBL_MAX has 309 digits before the point */
	int n = snprintf(text, sizeof(text), "%.3f", isfinite(v) ? v : 0.0);

	while (text[n - 1] == '0')
		n--;
	if (text[n - 1] == '.')
		n--;
	jw_key(w, key);
	if (n == 2 && memcmp(text, "-0", 2) == 0)
		jw_int(w, 0);
	else
		jw_raw(w, text, (size_t)n);
}
