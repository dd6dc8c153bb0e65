// SPDX-License-Identifier: Apache-2.0
/* session/warden_link.h - the link of a session to its warden. */
#pragma once
#include "session/session_state.h"

static inline bool session_is_linked(const struct session *s)
{
	return s->warden.link.fd != -1;
}
/* Takes the link and the rings, and sends the hello. */
int warden_attach(struct session *s, const struct strv *rings, int *fd, size_t nfds,
		  struct err *err);
void warden_tell_settings(struct session *s); /* with the server's stderr as the warden's log */
void warden_read(struct session *s);	      /* handles the messages that have arrived */
void warden_send_acks(struct session *s);     /* those of s->acks that no command carried */
/* A lost link is not an error here: the reader of the link notices it. */
void warden_send(struct session *s, enum msg_type type, const void *obj);
