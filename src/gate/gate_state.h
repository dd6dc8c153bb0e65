// SPDX-License-Identifier: Apache-2.0
/* gate/gate_state.h - the gate and what waits at it; private to this folder. */
#pragma once
#include "gate/gate.h"
#include <pthread.h>
#include <sys/queue.h>

struct pending {
	TAILQ_ENTRY(pending) next;
	struct gate_case *k;
	struct gate_waiter waiter;
	int64_t deadline_us;
	bool answered; /* to be resumed by its asker */
};

struct gate {
	struct gate_setup setup;
	void *bytes;
	size_t len;
	struct policy *policy;
	pthread_mutex_t lock;	       /* of what follows, and of deciding */
	struct policy_cache *cache;    /* decisions that were made before */
	struct gate_approver approver; /* ask is NULL: there is none */
	TAILQ_HEAD(, pending) waiting; /* in the order of their questions */
	size_t nwaiting;
	uint64_t last_id;
};

/* pending.c; with the lock. Adds k and asks the approver; false: too many wait. */
bool pending_add(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter);
