// SPDX-License-Identifier: Apache-2.0
/* Compiles policies from the files in the directories of policies. */
#include "base/mem.h"
#include "policy/policy.h"

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

int policy_load_file(const struct strv *dirs, const char *path, const struct policy_options *o,
		     struct buf *report, struct buf *out, struct err *err)
{
	struct policy_options with = *o;
	cleanup_buf struct buf text = {0};
	int rc = policy_read(path, &text, err);

	if (rc < 0)
		return rc;
	with.set = give_set;
	with.set_arg = (void *)(uintptr_t)dirs;
	buf_add(&text, "", 0);
	return policy_compile(path, text.data, text.len, &with, report, out, err);
}

int policy_load(const struct strv *dirs, const char *name, const struct policy_options *o,
		struct buf *report, struct buf *out, struct err *err)
{
	cleanup_free char *path = policy_find_file(dirs, false, name);
	cleanup_free char *unknown = path == NULL ? policy_unknown_name(dirs, name) : NULL;
	struct policy_options with = *o;

	if (path == NULL)
		return err_set(err, E_BAD_REQUEST, name, "%s", unknown);
	with.name = name;
	return policy_load_file(dirs, path, &with, report, out, err);
}
