// SPDX-License-Identifier: Apache-2.0
/* launcher/orphans.h - processes that a session without namespaces has lost. Private to launcher/.
 */
#pragma once
#include "base/loop.h"
#include <sys/types.h>

struct launcher;

struct orphans {
	struct watch *again; /* NULL: no such session was made */
	unsigned looks;	     /* still to do */
	unsigned quiet;	     /* of the last, without any */
	pid_t *remover;	     /* owned; that remove directories */
	size_t n;
};
void orphans_start(struct launcher *l); /* from now on they come to us */
void orphans_stop(struct launcher *l);
void orphans_look(struct launcher *l); /* a warden is dead */
void orphans_expect(struct launcher *l,
		    pid_t remover); /* a child of ours that removes directories */
