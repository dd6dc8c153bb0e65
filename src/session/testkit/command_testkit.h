// SPDX-License-Identifier: Apache-2.0
/* session/testkit/command_testkit.h - commands that a test submits, and what their observers see.
 */
#pragma once
#include "session/testkit/fake_warden_testkit.h"

/* What an observer saw. */
struct seen_by {
	unsigned started, output, done;
	uint64_t taken;
	struct err err;
	char id[ID_MAX + 1];
	struct buf answer, record;
};

#define KIT_HASH_A ((const uint8_t *)"0123456789abcdef0123456789abcdef")
#define KIT_HASH_B ((const uint8_t *)"0123456789abcdef0123456789abcdeX")

struct command_observer kit_observer(struct seen_by *o);
void kit_seen_done(struct seen_by *o);
struct exec_request kit_request(const char *command);
struct command *kit_submit(struct kit *k, const char *session, const struct exec_request *request,
			   struct seen_by *o);
/* One submitted command; its id is chosen. */
void kit_submit_id(struct kit *k, const char *session, const char *id, struct seen_by *o);
/* true, with an Idempotency-Key. */
struct command *kit_submit_key(struct kit *k, const char *session, const char *key,
			       const uint8_t *hash, struct seen_by *o);
