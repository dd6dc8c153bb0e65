// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/cli.h"

static void newline(struct buf *out, unsigned depth)
{
	buf_addc(out, '\n');
	for (unsigned i = 0; i < depth; i++)
		buf_add(out, "  ", 2);
}

void cli_pretty(const char *json, size_t len, struct buf *out)
{
	unsigned depth = 0;

	for (size_t i = 0; i < len; i++) {
		char c = json[i];

		if (c == '"') {
			const size_t from = i++;

			while (i < len && json[i] != '"')
				i += json[i] == '\\' ? 2 : 1;
			i = i < len ? i : len - 1;
			buf_add(out, json + from, i - from + 1);
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

void cli_print_json(const struct buf *json)
{
	cleanup_buf struct buf pretty = {0};

	cli_pretty(json->data, json->len, &pretty);
	cli_print(&pretty);
}

void cli_show(const struct cli *cli, const struct buf *text)
{
	if (cli->v.json)
		cli_print_json(text);
	else
		cli_print(text);
}

void cli_columns(const char *const *cells, size_t columns, size_t rows, struct buf *out)
{
	cleanup_free size_t *width = mem_alloc((columns + 1) * sizeof(*width));
	cleanup_strv struct strv shown = {0};

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

bool cli_bytes(const json_t *obj, const char *key, const char *encoding, struct buf *out)
{
	const json_t *text = json_object_get(obj, key);

	if (text != NULL && strcmp(cli_string(obj, encoding), "base64") == 0)
		return json_unbase64(out, json_string_value(text), json_string_length(text),
				     NULL) == 0;
	buf_add(out, cli_string(obj, key), json_string_length(text));
	return json_is_string(text);
}

void cli_line(struct buf *out, const char *fmt, ...)
{
	cleanup_buf struct buf text = {0};
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	cli_visible(text.data, out);
	buf_addc(out, '\n');
}

void cli_cell(const json_t *obj, const char *key, enum cli_cell kind, struct buf *out)
{
	const char *text = cli_string(obj, key);
	const int64_t n = json_integer_value(json_object_get(obj, key));
	const size_t second = strcspn(text, ".");

	if (kind == CLI_THOUSANDS && json_is_null(json_object_get(obj, key)))
		buf_addc(out, '-'); /* not counted yet */
	else if (kind == CLI_THOUSANDS)
		cli_thousands(n, out);
	else if (kind == CLI_NUMBER)
		buf_addf(out, "%lld", (long long)n);
	else if (kind == CLI_TIME) /* "2026-01-02T03:04:05.678901Z" -> "2026-01-02T03:04:05Z" */
		buf_addf(out, "%.*s%s", (int)second, text, text[second] == '.' ? "Z" : "");
	else
		buf_adds(out, text);
}

void cli_table(const json_t *rows, const struct cli_column *columns, size_t n, struct buf *out)
{
	cleanup_strv struct strv cells = {0};
	const json_t *row;
	size_t i;

	for (size_t c = 0; c < n; c++)
		strv_add(&cells, columns[c].head);
	json_array_foreach(rows, i, row) for (size_t c = 0; c < n; c++)
	{
		cleanup_buf struct buf cell = {0};

		cli_cell(row, columns[c].key, columns[c].kind, &cell);
		strv_add(&cells, cell.data);
	}
	cli_columns((const char *const *)cells.v, n, cells.n / n, out);
}

void cli_show_table(const struct cli *cli, const struct buf *json, const char *key,
		    const struct cli_column *columns, size_t n)
{
	cleanup_buf struct buf table = {0};
	json_auto_t *doc = NULL;

	if (!cli->v.json && json_parse(json->data, json->len, &doc, NULL) == 0)
		cli_table(json_object_get(doc, key), columns, n, &table);
	cli_show(cli, cli->v.json ? json : &table);
}
