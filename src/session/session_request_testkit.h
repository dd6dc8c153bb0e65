// SPDX-License-Identifier: Apache-2.0
/* session/session_request_testkit.h - sessions that a test asks for, and their records. */
#pragma once
#include "session/session_testkit.h"

static inline char *text(const char *s)
{
	return (char *)s;
}

static inline struct session_request request_of(const char *id)
{
	return (struct session_request){.id = text(id), .workspace = text("/srv/project")};
}

static inline struct told create(struct kit *k, const struct session_request *request)
{
	struct told t = {0};

	session_create(k->ss, &k->who, request, kit_told, &t);
	kit_turn(k);
	return t;
}

static inline struct told destroy(struct kit *k, const char *id)
{
	struct told t = {0};

	session_destroy(kit_get(k, id), &k->who, "asked for", kit_told, &t);
	kit_turn(k);
	return t;
}

static inline struct buf record_of(struct kit *k, const char *id)
{
	struct buf b = {0};

	session_format(kit_get(k, id), &JW(&b));
	return b;
}
