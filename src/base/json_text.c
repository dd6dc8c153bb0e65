// SPDX-License-Identifier: Apache-2.0
/* The parts of base/json.h that turn bytes and durations into strings and back; no jansson here. */
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

bool json_is_text(const void *p, size_t n)
{
	const uint8_t *s = p, *end = s + n;

	while (s < end) {
		int len;

		if (*s > 0 && *s < 0x80) {
			s++;
			continue;
		}
		len = utf8_char(s, (size_t)(end - s));
		if (len <= 0 || *s == 0)
			return false;
		s += len;
	}
	return true;
}

size_t json_text_cut(const void *p, size_t n)
{
	const uint8_t *end = (const uint8_t *)p + n;

	for (size_t back = 1; back <= 3 && back <= n; back++)
		if (utf8_char(end - back, back) < 0)
			return n - back;
	return n;
}

void json_base64(struct buf *out, const void *p, size_t n)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *s = p;
	char *to;

	buf_reserve(out, (n + 2) / 3 * 4);
	to = out->data + out->len;
	for (; n > 0; s += 3, n -= n < 3 ? n : 3) {
		const uint32_t v = (uint32_t)s[0] << 16 | (n > 1 ? (uint32_t)s[1] << 8 : 0) |
				   (n > 2 ? s[2] : 0U);

		*to++ = digit[v >> 18];
		*to++ = digit[v >> 12 & 63];
		*to++ = n > 1 ? digit[v >> 6 & 63] : '=';
		*to++ = n > 2 ? digit[v & 63] : '=';
	}
	*to = '\0';
	out->len = (size_t)(to - out->data);
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes the four characters at s with `used` digits before the padding; -1 unless they are the
 * only way to write their bytes. */
static int unquad(const char *s, size_t used, uint32_t *out)
{
	uint32_t v = 0;

	for (size_t i = 0; i < 4; i++) {
		const int d = i < used ? base64_digit(s[i]) : 0;

		if (d < 0)
			return -1;
		v = v << 6 | (uint32_t)d;
	}
	if ((used == 2 && (v & 0xffff) != 0) || (used == 3 && (v & 0xff) != 0))
		return -1;
	*out = v;
	return 0;
}

int json_unbase64(struct buf *out, const char *s, size_t n, struct err *err)
{
	const size_t before = out->len;

	if (n % 4 != 0)
		return err_set(err, E_BAD_REQUEST, NULL,
			       "base64 of %zu characters, not a multiple of 4", n);
	buf_reserve(out, n / 4 * 3);
	for (size_t at = 0; at < n; at += 4) {
		const bool last = at + 4 == n;
		const size_t used = !last || s[at + 3] != '=' ? 4 : s[at + 2] != '=' ? 3 : 2;
		uint32_t v;

		if (unquad(s + at, used, &v) < 0) {
			out->len = before;
			out->data[before] = '\0';
			return err_set(err, E_BAD_REQUEST, NULL, "not base64 near character %zu",
				       at + 1);
		}
		buf_add(out, (const uint8_t[]){(uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v},
			used - 1);
	}
	return 0;
}

static const struct {
	const char *name;
	int64_t ms;
} units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

bool json_share_parse(const char *s, int64_t *v)
{
	char *end;
	const unsigned long percent = strtoul(s, &end, 10);

	*v = JSON_SHARE | (int64_t)percent;
	return s[0] >= '1' && s[0] <= '9' && strcmp(end, "%") == 0 && percent <= 100;
}

int json_duration_parse(const char *s, int64_t *ms, struct err *err)
{
	const char *p = s;
	int64_t total = 0;
	size_t next = 0; /* units go from large to small, each at most once */

	do {
		bool bad = *p < '0' || *p > '9';
		int64_t v = 0;
		size_t unit = next, len;

		for (; !bad && *p >= '0' && *p <= '9'; p++)
			bad = __builtin_mul_overflow(v, 10, &v) ||
			      __builtin_add_overflow(v, *p - '0', &v);
		len = strcspn(p, "0123456789");
		while (unit < ARRAY_LEN(units) &&
		       (strlen(units[unit].name) != len || memcmp(p, units[unit].name, len) != 0))
			unit++;
		p += len;
		if (bad || unit == ARRAY_LEN(units) ||
		    __builtin_mul_overflow(v, units[unit].ms, &v) ||
		    __builtin_add_overflow(total, v, &total))
			return err_set(err, E_BAD_REQUEST, NULL,
				       "not a duration: '%.64s' (write 90s or 5m)", s);
		next = unit + 1;
	} while (*p != '\0');
	*ms = total;
	return 0;
}

void json_duration_format(struct buf *out, int64_t ms)
{
	size_t i = ms == 0 ? 2 : 0;

	while (ms % units[i].ms != 0)
		i++;
	buf_addf(out, "%lld%s", (long long)(ms / units[i].ms), units[i].name);
}
