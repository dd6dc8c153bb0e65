// SPDX-License-Identifier: Apache-2.0
/* base/err.h - one error model for every surface.
 *
 * `int f(…, struct err *err)` returns 0 or -code; out parameters stay untouched on failure. A
 * function returns its error or logs it, never both. err may be NULL where the caller does not
 * care. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define ERR_LIST(X)                                                               \
	/* name             HTTP gRPC exit text */                                \
	X(BAD_REQUEST, 400, 3, 125, "the request is malformed")                   \
	X(UNAUTHENTICATED, 401, 16, 125, "no valid credential")                   \
	X(FORBIDDEN, 403, 7, 125, "this credential may not do that")              \
	X(NOT_FOUND, 404, 5, 125, "not found")                                    \
	X(METHOD_NOT_ALLOWED, 405, 12, 125, "this path has no such method")       \
	X(CONFLICT, 409, 6, 125, "it exists already, with other contents")        \
	X(TOO_LARGE, 413, 8, 125, "too large")                                    \
	X(RATE_LIMITED, 429, 8, 125, "too many requests")                         \
	X(INTERNAL, 500, 13, 125, "agentsh failed")                               \
	X(UNAVAILABLE, 503, 14, 125, "not available now")                         \
	X(ENFORCEMENT, 503, 9, 125, "a wall that was asked for cannot be raised") \
	X(SESSION_NOT_FOUND, 404, 5, 125, "session not found")                    \
	X(SESSION_BUSY, 409, 9, 125, "the session runs another command")          \
	X(SESSION_STOPPED, 410, 9, 125, "the session has ended")                  \
	X(POLICY_DENIED, 403, 7, 126, "refused by policy")                        \
	X(APPROVAL_DENIED, 403, 7, 126, "a person said no")                       \
	X(APPROVAL_TIMEOUT, 408, 4, 126, "no person answered in time")            \
	X(RESOURCE_LIMIT, 429, 8, 125, "a limit was reached")                     \
	X(COMMAND_TIMEOUT, 408, 4, 124, "the command ran out of time")            \
	/* only in result.error of a 200 answer */                                \
	X(COMMAND_NOT_FOUND, 200, 0, 127, "command not found")                    \
	X(COMMAND_NOT_EXECUTABLE, 200, 0, 126, "command cannot be executed")      \
	X(COMMAND_KILLED, 200, 0, 125, "the command was killed")

enum err_code {
	E_OK = 0,
#define X(name, http, grpc, exit, text) E_##name,
	ERR_LIST(X)
#undef X
		E_CODES
};

struct err_row {
	const char *name; /* "E_SESSION_NOT_FOUND" */
	int http, grpc, exit;
	const char *text;
};

#define ERR_DETAILS 8
struct err {
	enum err_code code;
	char subject[128];
	char message[512];
	unsigned ndetails; /* may exceed ERR_DETAILS; only the first are kept */
	struct {
		char field[64];
		char problem[192];
	} details[ERR_DETAILS];
	char denial[1024]; /* E_POLICY_DENIED: packed (base/denial.h); else "" */
};

const struct err_row *err_row(enum err_code code);
/* "E_…" -> code, E_INTERNAL for a name that is not in the table. */
enum err_code err_code_by_name(const char *name);

/* Fills *err and returns -code, so that a failing path is one line. subject may be NULL. Keeps
 * details. */
int err_set(struct err *err, enum err_code code, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The code for a call that failed on a file, by errno: E_RESOURCE_LIMIT if the disk is full or
 * failing, which may pass, else the other one. */
enum err_code err_disk(enum err_code other);
/* As err_set, with ": strerror(errno)" appended. */
int err_errno(struct err *err, enum err_code code, const char *subject, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Adds one field's problem; the message stays for err_set. */
void err_detail(struct err *err, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* If details were collected: sets E_BAD_REQUEST "N fields are wrong: a, b" and returns
 * -E_BAD_REQUEST; else 0. subject NULL: the first of them. */
int err_from_details(struct err *err, const char *subject);
