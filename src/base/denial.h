// SPDX-License-Identifier: Apache-2.0
/* base/denial.h - why a policy refused an operation. Errors, messages between processes and rows
 * carry a denial as one packed text; only an answer to a client makes JSON of it. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "base/json.h"

struct denial {
	char *rule, *reason, *operation, *target; /* owned */
	bool final;				  /* no other rule can change it */
	/* Owned. NULL: no approver was asked; error is E_APPROVAL_DENIED, E_APPROVAL_TIMEOUT, or
	 * NULL if it was not the approver that refused. */
	char *approval_id, *error;
	struct strv alternatives; /* sentences about what the policy allows instead */
};
void denial_done(struct denial *d);
/* A text that does not fit into size bytes has no alternatives; if that is too long, it is empty.
 */
void denial_pack(const struct denial *d, char *out, size_t size);
/* False, and all zero, if the text is not a packed denial: "", or JSON of the previous version. */
bool denial_unpack(const char *text, struct denial *out);
/* Copies a packed text into the error; NULL and a text that is too long are left out. */
void denial_take(struct err *err, const char *text);
void denial_format(const struct denial *d, struct jw *w); /* the object `policy` of an error */
/* The same of a packed text. JSON of the previous version stays as it is. */
void denial_format_text(const char *text, struct jw *w);
