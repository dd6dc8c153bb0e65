// SPDX-License-Identifier: Apache-2.0
/* check/unheld.h - a policy that no session of a mode without a file server can enforce. */
#pragma once
#include "base/fields.h"
#include "policy/policy.h"

/* The part of the view that every session with namespaces has. */
struct unheld_ask {
	const char *mode;	   /* monitoring.mode */
	const struct strv *places; /* in which sessions may write, as in withheld_find */
	const struct strv *closed; /* paths in them that are read-only or not shown */
};
/* E_ENFORCEMENT, subject "file_rules": names the first rule that is not held everywhere, and the
 * mode. A policy that passes may still be refused for a session, which sees more. */
int unheld_refuse(const struct policy *p, const struct unheld_ask *ask, struct err *err);
