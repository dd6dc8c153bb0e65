// SPDX-License-Identifier: Apache-2.0
/* command/similar.h - programs with a name like the one that was not found. */
#pragma once
#include "base/fields.h"

struct run;

/* Adds absolute paths in the session, at most one of each directory in which the missing program
 * was looked for and which the policy lets be listed. */
void similar_programs(const struct run *r, const char *missing, struct strv *out);
