// SPDX-License-Identifier: Apache-2.0
#include "model/workspace_names.h"
#include "base/mem.h"
#include "base/path.h"

void workspace_names_done(struct workspace_names *n)
{
	strv_done(&n->shown);
	strv_done(&n->served);
	free(n->real);
	*n = (struct workspace_names){0};
}

/* The pair whose shown path is the longest that contains the path; shown.n: none. */
static size_t pair_of(const struct workspace_names *n, const char *path)
{
	size_t best = n->shown.n;

	for (size_t i = 0; i + 1 < n->shown.n; i += 2)
		if (path_within(path, n->shown.v[i]) &&
		    (best == n->shown.n || strlen(n->shown.v[i]) > strlen(n->shown.v[best])))
			best = i;
	return best;
}

char *workspace_canonical(const struct workspace_names *n, const char *path)
{
	const size_t i = pair_of(n, path);

	if (i == n->shown.n || strcmp(n->shown.v[i], n->shown.v[i + 1]) == 0)
		return NULL;
	return path_swap(path, n->shown.v[i], n->shown.v[i + 1]);
}

const char *workspace_served(const struct workspace_names *n, const char *path)
{
	for (size_t i = 0; i < n->served.n; i++)
		if (path_within(path, n->served.v[i]))
			return n->served.v[i];
	return NULL;
}

char *workspace_on_host(const struct workspace_names *n, const char *path)
{
	if (!path_within(path, WORKSPACE_CANONICAL))
		return mem_strdup(path);
	return n->real != NULL ? path_swap(path, WORKSPACE_CANONICAL, n->real) : NULL;
}

char *workspace_seen(const struct workspace_names *n, const char *path)
{
	const char *from = path_within(path, WORKSPACE_CANONICAL)	   ? WORKSPACE_CANONICAL
			   : n->real != NULL && path_within(path, n->real) ? n->real
									   : NULL;

	if (from == NULL || n->shown.n == 0 || pair_of(n, path) != n->shown.n)
		return mem_strdup(path);
	return path_swap(path, from, n->shown.v[0]);
}
