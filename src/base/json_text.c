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

/* Not nettle's: static programs have no library but libc. */
void json_base64(struct buf *out, const void *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *s = p;
	char *to;

	buf_reserve(out, (n + 2) / 3 * 4);
	to = out->data + out->len;
	for (size_t i = 0; i < n; i += 3) {
		const size_t left = n - i;
		const uint32_t v = (uint32_t)s[i] << 16 | (left > 1 ? (uint32_t)s[i + 1] << 8 : 0) |
				   (left > 2 ? s[i + 2] : 0);

		*to++ = digits[v >> 18];
		*to++ = digits[v >> 12 & 63];
		*to++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*to++ = left > 2 ? digits[v & 63] : '=';
	}
	*to = '\0';
	out->len = (size_t)(to - out->data);
}

const char *jw_data(struct jw *w, const void *p, size_t n)
{
	if (json_is_text(p, n)) {
		jw_strn(w, p, n);
		return "text";
	}
	jw_raw(w, "\"", 1);
	json_base64(w->out, p, n);
	buf_addc(w->out, '"');
	return "base64";
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
