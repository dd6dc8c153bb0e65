// SPDX-License-Identifier: Apache-2.0
/* session/patch.h - PATCH of a session: the answers of its warden and of the launcher. */
#pragma once
#include "session/session.h"

struct expect;
void session_patched(struct session *s, struct expect *x, const char *old_cwd);
void session_patches_fail(struct session *s);
/* The launcher's answer to the first patch that waits for it. */
void session_on_limited(struct session *s, struct launcher_limited *m);
