// SPDX-License-Identifier: Apache-2.0
#include "base/denial.h"
#include "base/mem.h"

#define END "\x1f" /* ends each part of a packed denial */

void denial_done(struct denial *d)
{
	free(d->rule);
	free(d->reason);
	free(d->operation);
	free(d->target);
	free(d->approval_id);
	free(d->error);
	strv_done(&d->alternatives);
	*d = (struct denial){0};
}

static void add_part(struct buf *b, const char *part)
{
	const size_t at = b->len;

	buf_adds(b, part != NULL ? part : "");
	for (size_t i = at; i < b->len; i++)
		if (b->data[i] == END[0])
			b->data[i] = '?';
	buf_adds(b, END);
}

/* "final", and after it what an approver gave: "final approval-1 E_APPROVAL_DENIED". */
static void add_words(struct buf *b, const struct denial *d)
{
	buf_adds(b, d->final ? "final" : "");
	if (d->approval_id != NULL)
		buf_addf(b, " %s %s", d->approval_id, d->error != NULL ? d->error : "");
	buf_adds(b, END);
}

static bool pack(const struct denial *d, size_t alternatives, char *out, size_t size)
{
	cleanup_buf struct buf b = {0};

	add_part(&b, d->rule);
	add_part(&b, d->reason);
	add_part(&b, d->operation);
	add_part(&b, d->target);
	add_words(&b, d);
	for (size_t i = 0; i < alternatives; i++)
		add_part(&b, d->alternatives.v[i]);
	if (b.len >= size)
		return false;
	memcpy(out, b.data, b.len + 1);
	return true;
}

void denial_pack(const struct denial *d, char *out, size_t size)
{
	if (!pack(d, d->alternatives.n, out, size) && !pack(d, 0, out, size))
		out[0] = '\0';
}

static const char *next_part(char **rest)
{
	const char *part = strsep(rest, END);

	return part != NULL ? part : "";
}

static void read_words(const char *words, struct denial *out)
{
	size_t len;

	out->final = strncmp(words, "final", strlen("final")) == 0;
	words = strchr(words, ' ');
	if (words == NULL)
		return;
	len = strcspn(++words, " ");
	out->approval_id = mem_strndup(words, len);
	if (words[len] != '\0' && words[len + 1] != '\0')
		out->error = mem_strdup(words + len + 1);
}

bool denial_unpack(const char *text, struct denial *out)
{
	cleanup_free char *copy = mem_strdup(text);
	char *rest = copy;

	*out = (struct denial){0};
	if (strstr(text, END) == NULL)
		return false;
	out->rule = mem_strdup(next_part(&rest));
	out->reason = mem_strdup(next_part(&rest));
	out->operation = mem_strdup(next_part(&rest));
	out->target = mem_strdup(next_part(&rest));
	read_words(next_part(&rest), out);
	while (rest != NULL && rest[0] != '\0')
		strv_add(&out->alternatives, next_part(&rest));
	return true;
}

void denial_take(struct err *err, const char *text)
{
	const size_t len = text != NULL ? strlen(text) : 0;

	if (len > 0 && len < sizeof(err->denial))
		memcpy(err->denial, text, len + 1);
}

void denial_format(const struct denial *d, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "rule", d->rule);
	jw_kstr(w, "reason", d->reason);
	jw_kstr(w, "operation", d->operation);
	jw_kstr(w, "target", d->target);
	jw_kbool(w, "final", d->final);
	if (d->approval_id != NULL)
		jw_kstr(w, "approval_id", d->approval_id);
	if (d->alternatives.n > 0)
		jw_kstrv(w, "alternatives", &d->alternatives);
	jw_obj_end(w);
}

void denial_format_text(const char *text, struct jw *w)
{
	struct denial d;

	if (denial_unpack(text, &d))
		denial_format(&d, w);
	else
		jw_raw(w, text, strlen(text));
	denial_done(&d);
}
