// SPDX-License-Identifier: Apache-2.0
#include "spawn/capture.h"
#include "base/mem.h"

static int bad(struct err *err, const char *problem)
{
	return err_set(err, E_BAD_REQUEST, "capture", "capture: %s", problem);
}

/* ENV datagrams, then CWD datagrams, then END. */
int capture_feed(struct capture *c, const void *p, size_t n, size_t max, struct err *err)
{
	const char *bytes = p;

	if (c->ended)
		return bad(err, "more after its end");
	if (n == 0)
		return bad(err, "an empty datagram");
	n--;
	if (n > max || c->env.len + c->cwd.len > max - n)
		return err_set(err, E_TOO_LARGE, "capture", "capture: more than %zu bytes", max);
	switch (bytes[0]) {
	case CAPTURE_ENV:
		if (c->cwd.len > 0)
			return bad(err, "environment after the directory");
		buf_add(&c->env, bytes + 1, n);
		return 0;
	case CAPTURE_CWD:
		buf_add(&c->cwd, bytes + 1, n);
		return 0;
	case CAPTURE_END:
		if (n > 0)
			return bad(err, "an end with contents");
		c->ended = true;
		return 0;
	default:
		return bad(err, "unknown kind of datagram");
	}
}

static size_t name_length(const char *pair)
{
	return strcspn(pair, "=");
}

static int by_name(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	const size_t nx = name_length(x), ny = name_length(y);
	const int order = memcmp(x, y, nx < ny ? nx : ny);

	return order != 0 ? order : (nx > ny) - (nx < ny);
}

/* NAME=value strings; each name once. */
static int split(const struct buf *text, struct strv *env, struct err *err)
{
	cleanup_free const char **sorted = NULL;

	if (text->len == 0)
		return 0;
	if (text->data[text->len - 1] != '\0')
		return bad(err, "cut inside a variable");
	for (const char *s = text->data; s < text->data + text->len; s += strlen(s) + 1) {
		const size_t name = name_length(s);

		if (name == 0 || s[name] == '\0')
			return bad(err, "a variable without a name or value");
		strv_add(env, s);
	}
	sorted = mem_dup(env->v, env->n * sizeof(*env->v));
	qsort(sorted, env->n, sizeof(*sorted), by_name);
	for (size_t i = 1; i < env->n; i++)
		if (by_name(&sorted[i - 1], &sorted[i]) == 0)
			return bad(err, "a variable twice");
	return 0;
}

int capture_finish(struct capture *c, struct strv *env, char **cwd, struct err *err)
{
	struct strv made = {0};
	int r;

	if (!c->ended)
		return bad(err, "cut before its end");
	if (c->cwd.len == 0 || c->cwd.data[0] != '/')
		return bad(err, "the directory is not absolute");
	if (memchr(c->cwd.data, '\0', c->cwd.len) != NULL)
		return bad(err, "NUL inside the directory");
	r = split(&c->env, &made, err);
	if (r < 0) {
		strv_done(&made);
		return r;
	}
	*env = made;
	*cwd = buf_take(&c->cwd);
	return 0;
}

void capture_done(struct capture *c)
{
	buf_done(&c->env);
	buf_done(&c->cwd);
	c->ended = false;
}
