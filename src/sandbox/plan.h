// SPDX-License-Identifier: Apache-2.0
/* sandbox/plan.h - the plan on its way from the stub to init: a sealed memfd; private to this
 * folder. */
#pragma once
#include "sandbox/sandbox.h"

/* A sealed memfd with the plan and the namespaces (CLONE_NEW…) that init was given. */
int plan_seal(const struct sandbox_plan *plan, uint32_t namespaces, int *fd, struct err *err);
int plan_load(int fd, struct sandbox_plan *plan, uint32_t *namespaces, struct err *err);
bool plan_may_lack(const struct sandbox_plan *plan, enum wall w);
/* Whether a clone failed for want of processes or memory: that is no refusal of a wall. */
bool sandbox_crowded(int errnum);
