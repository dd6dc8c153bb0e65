// SPDX-License-Identifier: Apache-2.0
/* session/session_env.h - the environment of a session. */
#pragma once
#include "base/json.h"
#include "config/config.h"

/* For a new session: the allowed defaults, the configuration's and the client's variables, without
 * dangerous ones. */
void session_env(const struct config *config, const struct strv *asked, struct strv *out);
/* Adds variables of toolchains that the session does not have, and goes before the default PATH. */
void session_env_toolchains(struct strv *env, const struct strv *found);
void env_format(const struct strv *env, struct jw *w);	     /* an object */
int env_parse(const char *json, void *env, struct err *err); /* of a column (db_row.h) */
