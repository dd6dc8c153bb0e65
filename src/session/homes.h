// SPDX-License-Identifier: Apache-2.0
/* session/homes.h - the kept homes of sessions: their rows, their size and their removal. */
#pragma once
#include "session/session.h"

void home_used(struct session *s); /* a session is ready: writes the row of its home */
/* A session has ended. If it was the last one with this home, the launcher trims the home. */
void home_left(struct session *s);
peer_fn homes_on_launcher; /* launcher_trimmed; ctx: sessions */
void homes_forget_waiters(struct sessions *ss);
