// SPDX-License-Identifier: Apache-2.0
#include "sandbox/rlimit.h"
#include "base/mem.h"
#include <errno.h>

/* 0 does not stop a core_pattern that is a pipe, 1 stops it and is too little for a file: core(5).
 */
#define NO_CORE 1
#define FIXED SIZE_MAX

static const struct {
	int resource;
	size_t offset; /* in the ask, or FIXED */
	rlim_t value;
	const char *name;
} rows[] = {
	{RLIMIT_CORE, FIXED, NO_CORE, "RLIMIT_CORE"},
	{RLIMIT_RTPRIO, FIXED, 0, "RLIMIT_RTPRIO"},
	{RLIMIT_NICE, FIXED, 0, "RLIMIT_NICE"},
	{RLIMIT_NOFILE, offsetof(struct rlimit_ask, open_files), 0, "RLIMIT_NOFILE"},
	{RLIMIT_FSIZE, offsetof(struct rlimit_ask, file_bytes), 0, "RLIMIT_FSIZE"},
	{RLIMIT_MEMLOCK, offsetof(struct rlimit_ask, locked_bytes), 0, "RLIMIT_MEMLOCK"},
	{RLIMIT_NPROC, offsetof(struct rlimit_ask, processes), 0, "RLIMIT_NPROC"},
};
_Static_assert(ARRAY_LEN(rows) <= RLIMIT_ROWS_MAX, "a plan has room for every row");

static rlim_t least(rlim_t a, rlim_t b)
{
	return a < b ? a : b;
}

int rlimit_prepare(const struct rlimit_ask *ask, struct rlimit_plan *out, struct err *err)
{
	struct rlimit_plan plan = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		rlim_t value = rows[i].value;
		struct rlimit now;

		if (rows[i].offset != FIXED)
			value = *(const uint64_t *)((const char *)ask + rows[i].offset);
		if (value == RLIMIT_NOT_ASKED)
			continue;
		if (getrlimit(rows[i].resource, &now) < 0)
			return err_errno(err, E_ENFORCEMENT, "rlimit", "getrlimit(%s)",
					 rows[i].name);
		plan.row[plan.n].resource = rows[i].resource;
		plan.row[plan.n].limit.rlim_max = least(value, now.rlim_max);
		/* A soft core limit of 0, many shells' default, is the one that pipes ignore. */
		plan.row[plan.n].limit.rlim_cur =
			least(rows[i].resource == RLIMIT_CORE ? value
			      : rows[i].resource == RLIMIT_NOFILE && ask->open_files_soft > 0
				      ? ask->open_files_soft
				      : now.rlim_cur,
			      plan.row[plan.n].limit.rlim_max);
		plan.n++;
	}
	*out = plan;
	return 0;
}

static int apply(const struct rlimit_plan *plan, bool files)
{
	for (size_t i = 0; i < plan->n; i++)
		if ((plan->row[i].resource == RLIMIT_NOFILE) == files &&
		    setrlimit(plan->row[i].resource, &plan->row[i].limit) < 0)
			return errno;
	return 0;
}

int rlimit_apply(const struct rlimit_plan *plan)
{
	return apply(plan, false);
}

int rlimit_apply_files(const struct rlimit_plan *plan)
{
	return apply(plan, true);
}

int rlimit_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return errno;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? errno : 0;
}
