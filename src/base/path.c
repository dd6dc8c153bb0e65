// SPDX-License-Identifier: Apache-2.0
#include "base/path.h"
#include "base/buf.h"
#include "base/mem.h"
#include <string.h>

bool path_within(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_overlap(const char *a, const char *b)
{
	return path_within(a, b) || path_within(b, a);
}

char *path_swap(const char *path, const char *from, const char *to)
{
	const char *rest;

	if (!path_within(path, from))
		return NULL;
	rest = path + (strcmp(from, "/") == 0 ? 0 : strlen(from));
	if (strcmp(to, "/") == 0)
		return mem_strdup(rest[0] != '\0' ? rest : "/");
	return mem_printf("%s%s", to, strcmp(rest, "/") == 0 ? "" : rest);
}

char *path_clean(const char *base, const char *path)
{
	cleanup_buf struct buf out = {0};
	cleanup_free char *whole =
		path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", base, path);

	buf_reserve(&out, 1);
	for (char *save = NULL, *part = strtok_r(whole, "/", &save); part != NULL;
	     part = strtok_r(NULL, "/", &save)) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") != 0) {
			buf_addf(&out, "/%s", part);
			continue;
		}
		while (out.len > 0 && out.data[--out.len] != '/')
			;
		out.data[out.len] = '\0';
	}
	if (out.len == 0)
		buf_addc(&out, '/');
	return buf_take(&out);
}
