// SPDX-License-Identifier: Apache-2.0
/* event/testkit/chain_testkit.h - the check of a store's hash chain. */
#pragma once
#include "event/store.h"

/* Recomputes the chain; *bad is the first wrong seq, 0 if all is well. */
int chain_verify(struct store *s, uint64_t *bad, struct err *err);
