// SPDX-License-Identifier: Apache-2.0
/* session/trash_entries.h - the trash of sessions: what is in it, what comes back, and its end. */
#pragma once
#include "session/session.h"

peer_fn session_on_restored; /* of a warden; ctx: session */
/* The warden cannot answer any more. */
void session_restores_fail(struct session *s);
/* The session has ended: has its trash removed if nothing was kept. */
void trash_left(struct session *s);
/* Has the trash of sessions that have ended removed if it is empty or too old. */
void trash_sweep(struct sessions *ss);
