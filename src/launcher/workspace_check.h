// SPDX-License-Identifier: Apache-2.0
/* launcher/workspace_check.h - which directories may be a workspace. Private to launcher/. */
#pragma once
#include "sandbox/sandbox.h"

struct launcher;

/* Whether a directory, a real path, may be a workspace at all. E_FORBIDDEN. What it contains and
 * a session must not change or see goes to plan. */
int workspace_check(const struct launcher *l, const char *workspace, struct sandbox_plan *plan,
		    struct err *err);
/* At start: the directories from where the server's programs, their libraries and what is found by
 * its PATH come, by their real paths. */
void workspace_guard(struct strv *out);
