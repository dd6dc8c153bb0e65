// SPDX-License-Identifier: Apache-2.0
/* session/patch.h - PATCH of a session: the answers of its warden and of the launcher. */
#pragma once
#include "session/session.h"

peer_fn session_on_limited;				      /* of the launcher; ctx: sessions */
void session_patched(struct session *s, const char *old_cwd); /* the warden answers EXPECT_PATCH */
void session_patches_fail(struct session *s);
