// SPDX-License-Identifier: Apache-2.0
/* session/answer.h - the answer about a command. */
#pragma once
#include "session/session.h"

/* A command that failed after a denial: the last denial becomes its error. */
void answer_blame(struct command *c);
