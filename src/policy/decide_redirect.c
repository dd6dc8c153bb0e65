// SPDX-License-Identifier: Apache-2.0
/* Where a redirected path leads.
 *
 * A path is redirected by the first redirect rule that decides one of its operations; what the
 * session made (`existing_only`) makes no difference. What lies below a redirected directory goes
 * with it, unless a rule redirects it elsewhere. */
#include "base/path.h"
#include "policy/glob.h"
#include "policy/snapshot.h"
#include <stdio.h>

bool policy_redirects(const struct policy *p)
{
	return p->redirects > 0;
}

static bool decides_one(const struct policy *p, uint32_t rule, const char *path)
{
	struct file_rules rules;

	decide_file_plain(p, path, true, &rules);
	for (unsigned op = 0; op < OP_FILES; op++)
		if (rules.rule[op] == rule)
			return true;
	return false;
}

/* The rule that redirects the path itself, and its pattern; NULL: none does. */
static const struct snapshot_rule *find_rule(const struct policy *p, const char *path,
					     uint32_t *pattern)
{
	for (uint32_t i = 0; i < p->redirects; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, p->redirect[i]);

		for (uint32_t k = r->subject.at; k < r->subject.at + r->subject.n; k++) {
			*pattern = k;
			if (!glob_match_path(snapshot_pattern(p, k), path))
				continue;
			if (decides_one(p, p->redirect[i], path))
				return r;
			break;
		}
	}
	return NULL;
}

/* Writes where the first len bytes of the path lead. *matched: as many of them are what the rule
 * of the pattern redirects. False: they stand for themselves. */
static bool locate(const struct policy *p, const char *path, size_t len, char out[POLICY_NAME_MAX],
		   size_t *matched, uint32_t *pattern)
{
	char part[PATH_MAX];

	memcpy(part, path, len);
	for (size_t n = len; n > 0; n = (size_t)(strrchr(part, '/') - part)) {
		const struct snapshot_rule *r;
		const char *rest = part; /* behind the fixed part of the pattern */

		part[n] = '\0';
		r = find_rule(p, part, pattern);
		if (r == NULL)
			continue;
		memcpy(part, path, len);
		part[len] = '\0';
		for (unsigned k = glob_fixed(snapshot_pattern(p, *pattern), NULL); k > 0; k--)
			rest += 1 + strcspn(rest + 1, "/");
		*matched = n;
		return snprintf(out, POLICY_NAME_MAX, "%s%s", snapshot_text(p, r->redirect_to),
				rest) < POLICY_NAME_MAX;
	}
	return false;
}

bool policy_redirect(const struct policy *p, const char *path, struct file_redirect *out)
{
	const size_t len = p->redirects > 0 ? strlen(path) : 0;
	char above[POLICY_NAME_MAX];
	size_t matched, up, parent;
	uint32_t pattern;

	out->way = 0;
	out->here = false;
	if (len == 0 || len >= PATH_MAX || !glob_plain_path(path))
		return false;
	if (!locate(p, path, len, out->path, &matched, &pattern)) {
		for (uint32_t i = 0; out->way == 0 && i < p->redirects; i++)
			out->way = path_within(
				path,
				snapshot_text(
					p, snapshot_rule(p, OP_FILE, p->redirect[i])->redirect_to));
		return false;
	}
	out->way = pattern + 2;
	parent = (size_t)(strrchr(path, '/') - path);
	if (matched == len)
		out->here = !locate(p, path, parent, above, &up, &pattern) ||
			    strncmp(above, out->path, strlen(above)) != 0 ||
			    strcmp(out->path + strlen(above), path + parent) != 0;
	return true;
}
