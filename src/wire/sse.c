// SPDX-License-Identifier: Apache-2.0
#include "wire/sse.h"
#include "base/mem.h"

#define MAX_MESSAGE ((size_t)16 * 1024 * 1024)

static size_t line_length(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != '\n' && p[i] != '\r')
		i++;
	return i;
}

static void add_data(struct buf *out, const char *data, size_t len)
{
	for (;;) {
		const size_t n = line_length(data, len);

		buf_adds(out, "data: ");
		buf_add(out, data, n);
		buf_addc(out, '\n');
		if (n == len)
			return;
		data += n;
		len -= n;
		if (len > 1 && data[0] == '\r' && data[1] == '\n') {
			data++;
			len--;
		}
		data++;
		len--;
	}
}

void sse_format(struct buf *out, const char *id, const char *name, const char *data, size_t len)
{
	if (id != NULL)
		buf_addf(out, "id: %s\n", id);
	if (name != NULL)
		buf_addf(out, "event: %s\n", name);
	add_data(out, data, len);
	buf_addc(out, '\n');
}

void sse_comment(struct buf *out, const char *text)
{
	buf_addf(out, ": %s\n\n", text);
}

static int take_field(struct sse_parser *p, const char *name, const char *value, size_t len)
{
	if (strcmp(name, "data") == 0) {
		if (len > MAX_MESSAGE - p->data.len)
			return -1;
		buf_add(&p->data, value, len);
		buf_addc(&p->data, '\n');
		p->has_data = true;
	} else if (strcmp(name, "event") == 0) {
		buf_clear(&p->name);
		buf_add(&p->name, value, len);
	} else if (strcmp(name, "id") == 0 && memchr(value, '\0', len) == NULL) {
		buf_clear(&p->id);
		buf_add(&p->id, value, len);
	}
	return 0;
}

static int take_line(struct sse_parser *p, sse_fn *fn, void *arg)
{
	char *colon, *value;
	int r;

	if (p->line.len == 0) {
		if (p->has_data) {
			/* Each data line added a newline; remove the last one. */
			p->data.data[--p->data.len] = '\0';
			fn(p->id.data != NULL ? p->id.data : "",
			   p->name.len > 0 ? p->name.data : "message", p->data.data, p->data.len,
			   arg);
		}
		p->has_data = false;
		buf_clear(&p->data);
		buf_clear(&p->name);
		return 0;
	}
	colon = memchr(p->line.data, ':', p->line.len);
	value = colon != NULL ? colon + 1 : p->line.data + p->line.len;
	if (colon != NULL)
		*colon = '\0';
	if (*value == ' ')
		value++;
	r = take_field(p, p->line.data, value, p->line.len - (size_t)(value - p->line.data));
	buf_clear(&p->line);
	return r;
}

int sse_parse(struct sse_parser *p, const char *bytes, size_t n, sse_fn *fn, void *arg)
{
	while (n > 0) {
		const size_t part = line_length(bytes, n);

		if (part > 0 || bytes[0] == '\r')
			p->after_cr = false;
		if (part > MAX_MESSAGE - p->line.len)
			return -1;
		buf_add(&p->line, bytes, part);
		if (part == n)
			return 0;
		/* The LF of a CR LF is not another line end. */
		if (!p->after_cr && take_line(p, fn, arg) < 0)
			return -1;
		p->after_cr = bytes[part] == '\r';
		bytes += part + 1;
		n -= part + 1;
	}
	return 0;
}

void sse_parser_done(struct sse_parser *p)
{
	buf_done(&p->line);
	buf_done(&p->data);
	buf_done(&p->name);
	buf_done(&p->id);
	*p = (struct sse_parser){0};
}
