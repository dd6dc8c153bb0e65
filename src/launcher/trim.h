// SPDX-License-Identifier: Apache-2.0
/* launcher/trim.h - keeps the homes of sessions within their size. Private to launcher/. */
#pragma once
#include "launcher/child.h"
#include "link/msg.h"
#include "sandbox/sandbox.h"
#include <sys/queue.h>

struct link_msg;
/* A child that trims one home. */
struct trim {
	LIST_ENTRY(trim) next;
	struct launcher *l;
	struct child child;
	struct home home;
	struct launcher_trimmed answer; /* owned */
};
LIST_HEAD(trims, trim);
/* launcher_trim: answers by launcher_trimmed, now or later. */
void trim_home(void *launcher, void *msg, struct link_msg *m);
/* E_UNAVAILABLE while all of a home is being removed. */
int trim_allows(const struct launcher *l, const char *home, struct err *err);
void trims_stop(struct launcher *l);
