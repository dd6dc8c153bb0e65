// SPDX-License-Identifier: Apache-2.0
/* warden/file_wall.h - the wall file_rules of a session: which rules of its policy are held in what
 * it sees. */
#pragma once
#include "model/wall.h"
#include "policy/policy.h"

/* Writes the wall's entry. E_ENFORCEMENT, subject "file_rules": without a file server a rule is not
 * held everywhere, or with one nowhere; the error names the first such rule. may_lack: the
 * configuration lets the wall be missing. */
int file_wall_set(const struct policy *p, const struct file_view *view, bool may_lack,
		  struct wall_report *walls, struct err *err);

/* What the processes of a session record of files. */
struct file_records {
	bool served; /* all in directories that have a file server: the workspace, or parts of it */
	bool recorded; /* what the kernel's program sees below some paths */
	bool refusals; /* what the kernel refuses anywhere */
};
/* Adds to the entry which operations no process records. Once, when all processes are ready. */
void file_wall_records(const struct file_records *r, struct strv *walls);
