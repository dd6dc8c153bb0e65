// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct err_row rows[E_CODES] = {[E_OK] = {"E_OK", 200, 0, 0, "no error"},
#define X(name, http, grpc, exit, text) [E_##name] = {"E_" #name, http, grpc, exit, text},
					     ERR_LIST(X)
#undef X
};

const struct err_row *err_row(enum err_code code)
{
	return &rows[(unsigned)code < E_CODES ? code : E_INTERNAL];
}

enum err_code err_code_by_name(const char *name)
{
	for (unsigned i = E_OK + 1; name != NULL && i < E_CODES; i++)
		if (strcmp(rows[i].name, name) == 0)
			return (enum err_code)i;
	return E_INTERNAL;
}

/* Arguments may point into *err (a message that wraps the earlier one), so text is made aside. */
int err_set(struct err *err, enum err_code code, const char *subject, const char *fmt, ...)
{
	char message[sizeof(err->message)] = "", copy[sizeof(err->subject)] = "";
	va_list ap;

	if (err == NULL)
		return -(int)code;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (subject != NULL)
		snprintf(copy, sizeof(copy), "%s", subject);
	err->code = code;
	memcpy(err->subject, copy, sizeof(copy));
	memcpy(err->message, message, sizeof(message));
	return -(int)code;
}

enum err_code err_disk(enum err_code other)
{
	return errno == ENOSPC || errno == EDQUOT || errno == EIO ? E_RESOURCE_LIMIT : other;
}

int err_errno(struct err *err, enum err_code code, const char *subject, const char *fmt, ...)
{
	char message[sizeof(err->message)] = "", text[128];
	const int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	err_set(err, code, subject, "%s: %s", message, strerror_r(saved, text, sizeof(text)));
	errno = saved;
	return -(int)code;
}

void err_detail(struct err *err, const char *field, const char *fmt, ...)
{
	unsigned i;
	va_list ap;

	if (err == NULL)
		return;
	i = err->ndetails++;
	if (i >= ERR_DETAILS)
		return;
	snprintf(err->details[i].field, sizeof(err->details[i].field), "%s", field);
	va_start(ap, fmt);
	vsnprintf(err->details[i].problem, sizeof(err->details[i].problem), fmt, ap);
	va_end(ap);
}

int err_from_details(struct err *err, const char *subject)
{
	char names[sizeof(err->message) - 64] = "";
	size_t len = 0;

	if (err == NULL || err->ndetails == 0)
		return 0;
	for (unsigned i = 0; i < err->ndetails && len < sizeof(names); i++) {
		if (i == ERR_DETAILS) {
			snprintf(names + len, sizeof(names) - len, ", …");
			break;
		}
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
					err->details[i].field);
	}
	return err_set(err, E_BAD_REQUEST, subject != NULL ? subject : err->details[0].field,
		       "%u %s wrong: %s", err->ndetails,
		       err->ndetails == 1 ? "field is" : "fields are", names);
}
