// SPDX-License-Identifier: Apache-2.0
/* A record as bytes: its fields in the order of the rows. U32 and U64 are little endian; STR and
 * BYTES are a u32 length and the bytes, a NULL string is the length ABSENT; STRV is a u32 count and
 * so many strings. */
#include "base/fields.h"
#include "base/mem.h"
#include <endian.h>

#define ABSENT UINT32_MAX

static void put(struct buf *out, const void *p, size_t n)
{
	buf_reserve(out, n);
	if (n != 0)
		memcpy(out->data + out->len, p, n);
	out->len += n;
}

static void put32(struct buf *out, uint32_t v)
{
	v = htole32(v);
	put(out, &v, sizeof(v));
}

static void put_counted(struct buf *out, const void *p, size_t n)
{
	ensure(n < ABSENT);
	buf_reserve(out, sizeof(uint32_t) + n);
	put32(out, (uint32_t)n);
	put(out, p, n);
}

static void pack_one(const struct field *row, const char *at, struct buf *out)
{
	const struct bytes *bytes = (const struct bytes *)at;
	const struct strv *strv = (const struct strv *)at;
	uint64_t wide;

	switch (row->type) {
	case FIELD_U32:
		put32(out, *(const uint32_t *)at);
		break;
	case FIELD_U64:
		wide = htole64(*(const uint64_t *)at);
		put(out, &wide, sizeof(wide));
		break;
	case FIELD_STR:
		if (*(char *const *)at == NULL)
			put32(out, ABSENT);
		else
			put_counted(out, *(char *const *)at, strlen(*(char *const *)at));
		break;
	case FIELD_BYTES:
		put_counted(out, bytes->data, bytes->len);
		break;
	case FIELD_STRV:
		ensure(strv->n < ABSENT);
		put32(out, (uint32_t)strv->n);
		for (size_t i = 0; i < strv->n; i++)
			put_counted(out, strv->v[i], strlen(strv->v[i]));
		break;
	}
}

void fields_pack(const struct fields *f, const void *obj, struct buf *out)
{
	for (size_t i = 0; i < f->n; i++)
		pack_one(&f->row[i], (const char *)obj + f->row[i].offset, out);
	buf_reserve(out, 0);
	out->data[out->len] = '\0';
}

/* The bytes that are not unpacked yet. */
struct rest {
	const uint8_t *p;
	size_t n;
};

static const char too_short[] = "too short", too_long[] = "too long", has_nul[] = "NUL inside";

static bool get(struct rest *in, void *to, size_t n)
{
	if (in->n < n)
		return false;
	memcpy(to, in->p, n);
	in->p += n;
	in->n -= n;
	return true;
}

static bool get32(struct rest *in, uint32_t *v)
{
	if (!get(in, v, sizeof(*v)))
		return false;
	*v = le32toh(*v);
	return true;
}

/* A length and so many bytes; *at borrows from the input. NULL or the problem. */
static const char *get_counted(struct rest *in, uint32_t max, const uint8_t **at, uint32_t *len)
{
	if (!get32(in, len))
		return too_short;
	if (*len > max)
		return too_long;
	if (*len > in->n)
		return too_short;
	*at = in->p;
	in->p += *len;
	in->n -= *len;
	return NULL;
}

static const char *get_str(struct rest *in, uint32_t max, char **out, uint32_t *len)
{
	const uint8_t *at;
	const char *problem = get_counted(in, max, &at, len);

	if (problem != NULL)
		return problem;
	if (memchr(at, '\0', *len) != NULL)
		return has_nul;
	*out = mem_resize(NULL, (size_t)*len + 1, 1);
	memcpy(*out, at, *len);
	(*out)[*len] = '\0';
	return NULL;
}

/* On failure out has the strings so far; fields_done frees them. */
static const char *unpack_strv(struct rest *in, uint32_t max, struct strv *out)
{
	uint32_t count, len;

	if (!get32(in, &count))
		return too_short;
	if (count > max)
		return "too many";
	/* Every string needs its length, so the count cannot ask for more memory than the input
	 * backs. */
	if (count > in->n / sizeof(len))
		return too_short;
	if (count == 0)
		return NULL;
	out->v = mem_resize(NULL, (size_t)count + 1, sizeof(*out->v));
	for (uint32_t i = 0; i < count; i++) {
		const char *problem = get_str(in, max, &out->v[i], &len);

		if (problem != NULL)
			return problem;
		max -= len;
		out->n++;
	}
	out->v[count] = NULL;
	return NULL;
}

static const char *unpack_one(const struct field *row, struct rest *in, char *at)
{
	static const uint32_t absent = ABSENT; /* in either byte order */
	const char *problem;
	const uint8_t *bytes;
	uint64_t wide;
	uint32_t len;

	switch (row->type) {
	case FIELD_U32:
		return get32(in, (uint32_t *)at) ? NULL : too_short;
	case FIELD_U64:
		if (!get(in, &wide, sizeof(wide)))
			return too_short;
		*(uint64_t *)at = le64toh(wide);
		return NULL;
	case FIELD_STR:
		if (in->n < sizeof(len) || memcmp(in->p, &absent, sizeof(len)) != 0)
			return get_str(in, row->max, (char **)at, &len);
		get32(in, &len);
		return NULL;
	case FIELD_BYTES:
		problem = get_counted(in, row->max, &bytes, &len);
		if (problem == NULL)
			bytes_set((struct bytes *)at, bytes, len);
		return problem;
	case FIELD_STRV:
		return unpack_strv(in, row->max, (struct strv *)at);
	}
	return "of an unknown type";
}

int fields_unpack(const struct fields *f, const void *data, size_t len, bool lenient, void *obj,
		  struct err *err)
{
	struct rest in = {data, len};

	memset(obj, 0, f->size);
	for (size_t i = 0; i < f->n && in.n > 0; i++) {
		const struct field *row = &f->row[i];
		const char *problem = unpack_one(row, &in, (char *)obj + row->offset);

		if (problem == NULL)
			continue;
		fields_done(f, obj);
		return err_set(err, E_BAD_REQUEST, f->name, "%s.%s: %s", f->name, row->name,
			       problem);
	}
	if (in.n > 0 && !lenient) {
		fields_done(f, obj);
		return err_set(err, E_BAD_REQUEST, f->name, "%s: %zu bytes behind the last field",
			       f->name, in.n);
	}
	return 0;
}

void fields_done(const struct fields *f, void *obj)
{
	for (size_t i = 0; i < f->n; i++) {
		char *at = (char *)obj + f->row[i].offset;

		if (f->row[i].type == FIELD_STR)
			free(*(char **)at);
		else if (f->row[i].type == FIELD_BYTES)
			bytes_done((struct bytes *)at);
		else if (f->row[i].type == FIELD_STRV)
			strv_done((struct strv *)at);
	}
	memset(obj, 0, f->size);
}

/* Takes str. */
static void strv_push(struct strv *s, char *str)
{
	s->v = mem_resize(s->v, s->n + 2, sizeof(*s->v));
	s->v[s->n++] = str;
	s->v[s->n] = NULL;
}

void strv_add(struct strv *s, const char *str)
{
	strv_push(s, mem_strdup(str));
}

void strv_addf(struct strv *s, const char *fmt, ...)
{
	struct buf text = {0};
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	strv_push(s, buf_take(&text));
}

bool strv_has(const struct strv *s, const char *str)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i], str) == 0)
			return true;
	return false;
}

void strv_add_new(struct strv *s, const char *str)
{
	if (!strv_has(s, str))
		strv_add(s, str);
}

void strv_done(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
	*s = (struct strv){0};
}

/* Index of NAME=…, or n. */
static size_t env_find(const struct strv *env, const char *name)
{
	const size_t len = strlen(name);
	size_t i = 0;

	while (i < env->n && (strncmp(env->v[i], name, len) != 0 || env->v[i][len] != '='))
		i++;
	return i;
}

const char *strv_env_get(const struct strv *env, const char *name)
{
	const size_t i = env_find(env, name);

	return i < env->n ? env->v[i] + strlen(name) + 1 : NULL;
}

void strv_env_set(struct strv *env, const char *name, const char *value)
{
	const size_t i = env_find(env, name);
	char *pair = mem_printf("%s=%s", name, value);

	if (i == env->n) {
		strv_push(env, pair);
		return;
	}
	free(env->v[i]);
	env->v[i] = pair;
}

void strv_env_unset(struct strv *env, const char *name)
{
	const size_t i = env_find(env, name);

	if (i == env->n)
		return;
	free(env->v[i]);
	memmove(&env->v[i], &env->v[i + 1], (env->n - i) * sizeof(*env->v));
	env->n--;
}

void strv_copy(struct strv *dst, const struct strv *src)
{
	struct strv copy = {0};

	if (src->n > 0) /* arguments may be tens of thousands: one allocation */
		copy.v = mem_resize(NULL, src->n + 1, sizeof(*copy.v));
	for (; copy.n < src->n; copy.n++)
		copy.v[copy.n] = mem_strdup(src->v[copy.n]);
	if (copy.n > 0)
		copy.v[copy.n] = NULL;
	strv_done(dst);
	*dst = copy;
}

void bytes_done(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){0};
}

void bytes_set(struct bytes *b, const void *p, size_t n)
{
	uint8_t *copy = n > 0 ? mem_dup(p, n) : NULL;

	bytes_done(b);
	*b = (struct bytes){copy, n};
}
