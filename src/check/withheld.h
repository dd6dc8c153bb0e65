// SPDX-License-Identifier: Apache-2.0
/* check/withheld.h - rights that no file of a place needs under a policy. */
#pragma once
#include "base/fields.h"
#include "policy/policy.h"

/* Adds "RIGHTS PLACE" (enum landlock_access) for each place in which the policy's rules deny an
 * operation on every file. */
void withheld_find(const struct policy *p, const struct strv *places, struct strv *out);
