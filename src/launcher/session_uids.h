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
/* A uid that no process has. E_RESOURCE_LIMIT: every uid is in use. */
int uids_allot(struct launcher *l, uint32_t *uid, struct err *err);
/* The same; if every uid is in use, the prepared sandboxes are discarded for theirs. */
int uids_need(struct launcher *l, uint32_t *uid, struct err *err);
