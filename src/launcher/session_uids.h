// SPDX-License-Identifier: Apache-2.0
/* launcher/session_uids.h - a uid for each session of root's server. Private to launcher/. */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct launcher;

struct uids {
	int fd; /* where the next one is kept; -1: nowhere */
	uint32_t next;
};
/* With the state directory: reads which uid is next. */
void uids_open(struct launcher *l);
/* A uid that no process has. E_RESOURCE_LIMIT: there is none left. */
int uids_allot(struct launcher *l, uint32_t *uid, struct err *err);
/* The same for what cannot wait: prepared sandboxes give their uids back if no other is left. */
int uids_need(struct launcher *l, uint32_t *uid, struct err *err);
