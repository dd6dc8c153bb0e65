// SPDX-License-Identifier: Apache-2.0
/* api/shape.h - tables of the keys in bodies; the OpenAPI document is made from them.
 *
 * A request has the table that reads it (base/json.h). An answer is written by code. Its table is
 * in shapes.c, or in methods.c if only one method has it; a test compares the keys of real answers
 * with it. */
#pragma once
#include "base/json.h"

enum shape_kind {
	SHAPE_STR,
	SHAPE_ID,	/* of a session, a command, an agent */
	SHAPE_TIME,	/* RFC 3339 */
	SHAPE_DURATION, /* "5m" */
	SHAPE_INT,
	SHAPE_NUM,
	SHAPE_BOOL,
	SHAPE_MAP,     /* names with texts */
	SHAPE_WORD,    /* one of words */
	SHAPE_NAME,    /* one of of(0), of(1) … up to NULL */
	SHAPE_OBJ,     /* a shape */
	SHAPE_REQUEST, /* a request, by its table of fields */
	SHAPE_KINDS
};
#define SHAPE_LIST 1u  /* an array of it */
#define SHAPE_NULL 2u  /* or null */
#define SHAPE_MAYBE 4u /* may be absent */

struct shape;
struct shape_row {
	const char *name;
	enum shape_kind kind;
	unsigned flags;
	const char *words; /* WORD: separated by spaces */
	const char *(*of)(unsigned i);
	const struct shape *shape;
	const struct json_field *request;
};
struct shape {
	const char *name;
	const struct shape_row *rows; /* end with name NULL */
};

/* A request's body. */
struct shape_body {
	const char *name;
	const struct json_field *fields;
	const char *required; /* a key that must be there, or NULL */
	bool optional;	      /* no body at all is fine */
};
/* One way to answer; status 0: none. Without a shape the type is that of the body; NULL: no body.
 */
struct shape_answer {
	int status;
	const struct shape *shape;
	const char *type;
};

extern const struct shape shape_error, shape_session, shape_sessions, shape_command, shape_commands,
	shape_answer, shape_run, shape_output, shape_event, shape_events, shape_health, shape_ready,
	shape_policies, shape_reload, shape_caches, shape_purged, shape_trash, shape_restored;
extern const struct shape_body body_session, body_patch, body_exec, body_run, body_kill;
