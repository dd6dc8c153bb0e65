// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/cli.h"

static void newline(struct buf *out, unsigned depth)
{
	buf_addc(out, '\n');
	for (unsigned i = 0; i < depth; i++)
		buf_add(out, "  ", 2);
}

/* Length of the string that begins at p with a quote, both quotes counted. */
static size_t string_len(const char *p, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (p[i] == '\\')
			i++;
		else if (p[i] == '"')
			return i + 1;
	}
	return n;
}

void cli_pretty(const char *json, size_t len, struct buf *out)
{
	unsigned depth = 0;

	for (size_t i = 0; i < len; i++) {
		char c = json[i];

		if (c == '"') {
			size_t n = string_len(json + i, len - i);

			buf_add(out, json + i, n);
			i += n - 1;
		} else if (c == '{' || c == '[') {
			buf_addc(out, c);
			if (i + 1 < len && (json[i + 1] == '}' || json[i + 1] == ']'))
				buf_addc(out, json[++i]);
			else
				newline(out, ++depth);
		} else if (c == '}' || c == ']') {
			newline(out, depth > 0 ? --depth : 0);
			buf_addc(out, c);
		} else if (c == ',') {
			buf_addc(out, c);
			newline(out, depth);
		} else if (c == ':') {
			buf_add(out, ": ", 2);
		} else if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
			buf_addc(out, c);
		}
	}
	buf_addc(out, '\n');
}

void cli_columns(const char *const *cells, size_t columns, size_t rows, struct buf *out)
{
	cleanup_free size_t *width = mem_alloc((columns + 1) * sizeof(*width));
	struct strv shown = {0};

	for (size_t i = 0; i < rows * columns; i++) {
		cleanup_buf struct buf cell = {0};
		size_t *w = &width[i % columns];

		buf_reserve(&cell, 0);
		cli_visible(cells[i], &cell);
		strv_add(&shown, cell.data);
		*w = cell.len > *w ? cell.len : *w;
	}
	for (size_t i = 0; i < shown.n; i++) {
		if ((i + 1) % columns == 0)
			buf_addf(out, "%s\n", shown.v[i]);
		else
			buf_addf(out, "%-*s", (int)width[i % columns] + 2, shown.v[i]);
	}
	strv_done(&shown);
}

void cli_thousands(int64_t n, struct buf *out)
{
	cleanup_free char *digits = mem_printf("%lld", (long long)n);
	size_t len = strlen(digits);

	for (size_t i = 0; i < len; i++) {
		buf_addc(out, digits[i]);
		if (digits[i] != '-' && i + 1 < len && (len - i - 1) % 3 == 0)
			buf_addc(out, ',');
	}
}

void cli_visible(const char *text, struct buf *out)
{
	for (; text != NULL && *text != '\0'; text++) {
		const unsigned char c = (unsigned char)*text;

		/* C1 control characters are two bytes in UTF-8 */
		if (c < 0x20 || c == 0x7f)
			buf_addf(out, "\\x%02x", c);
		else if (c == 0xc2 && (unsigned char)text[1] >= 0x80 &&
			 (unsigned char)text[1] < 0xa0)
			buf_addf(out, "\\x%02x", (unsigned char)*++text);
		else
			buf_addc(out, *text);
	}
}

const char *cli_string(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s != NULL ? s : "";
}
