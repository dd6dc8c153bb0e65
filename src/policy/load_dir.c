// SPDX-License-Identifier: Apache-2.0
/* Compiles policies from the files in the directories of policies. */
#include "base/mem.h"
#include "base/yaml.h"
#include "policy/policy.h"

int policy_no_set(const struct strv *sets, const char *name, struct err *err)
{
	const char *near = sets->n > 0 ? yaml_suggest(name, (const char *const *)sets->v) : NULL;
	cleanup_buf struct buf choices = {0};

	for (size_t i = 0; i < sets->n; i++)
		buf_addf(&choices, "%s%s", i == 0 ? "; choices: " : ", ", sets->v[i]);
	return err_set(err, E_NOT_FOUND, name, "no set '%s'%s%s%s%s", name,
		       near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
		       near != NULL ? "'?)" : "", choices.len > 0 ? choices.data : "");
}

static int give_set(const char *name, struct buf *text, struct buf *file, void *arg,
		    struct err *err)
{
	cleanup_free char *path = policy_find_file(arg, true, name);
	struct strv list = {0};
	int rc;

	if (path == NULL) {
		policy_list(arg, true, &list);
		rc = policy_no_set(&list, name, err);
		strv_done(&list);
		return rc;
	}
	buf_adds(file, path);
	rc = policy_read(path, text, err);
	if (rc == -E_NOT_FOUND) /* a set that exists must not be taken for a missing one */
		return err_set(err, E_UNAVAILABLE, path, "cannot read the set %s", path);
	return rc;
}

int policy_compile_named(const char *name, const char *file, const char *text, size_t len,
			 const struct policy_options *o, struct buf *report, struct buf *out,
			 struct err *err)
{
	const size_t before = out->len;
	struct policy *p = NULL;
	int rc = policy_compile(file, text, len, o, report, out, err);

	if (rc < 0)
		return rc;
	rc = policy_open(out->data + before, out->len - before, &p, err);
	if (rc == 0 && strcmp(policy_name(p), name) != 0)
		rc = err_set(err, E_BAD_REQUEST, file, "%s: its name is '%s', not '%s'", file,
			     policy_name(p), name);
	policy_close(p);
	if (rc < 0)
		out->len = before;
	return rc;
}

/* name: the name that the policy must have, or NULL. */
static int load(const struct policy_dirs *d, const char *name, const char *path,
		const struct policy_options *o, struct buf *report, struct buf *out,
		struct err *err)
{
	struct policy_options with = *o;
	cleanup_buf struct buf text = {0};
	int rc = policy_read(path, &text, err);

	if (rc < 0)
		return rc;
	with.set = give_set;
	with.set_arg = (void *)(uintptr_t)d;
	buf_add(&text, "", 0);
	return name == NULL ? policy_compile(path, text.data, text.len, &with, report, out, err)
			    : policy_compile_named(name, path, text.data, text.len, &with, report,
						   out, err);
}

int policy_load_file(const struct policy_dirs *d, const char *path, const struct policy_options *o,
		     struct buf *report, struct buf *out, struct err *err)
{
	return load(d, NULL, path, o, report, out, err);
}

int policy_load(const struct policy_dirs *d, const char *name, const struct policy_options *o,
		struct buf *report, struct buf *out, struct err *err)
{
	cleanup_free char *path = policy_find_file(d, false, name);
	cleanup_free char *unknown = path == NULL ? policy_unknown_name(d, name) : NULL;

	if (path == NULL)
		return err_set(err, E_BAD_REQUEST, name, "%s", unknown);
	return load(d, name, path, o, report, out, err);
}
