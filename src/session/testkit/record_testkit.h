// SPDX-License-Identifier: Apache-2.0
/* session/testkit/record_testkit.h - records, answers, events and rows, as a test compares them. */
#pragma once
#include "session/testkit/session_testkit.h"

/* The value at a path such as "result.exit_code" as text; strings without quotes. Owned. */
char *kit_at(const struct buf *json, const char *path);
#define assert_at(json, path, expected)                      \
	do {                                                 \
		cleanup_free char *at_ = kit_at(json, path); \
		assert_string_equal(at_, expected);          \
	} while (0)

/* The types of a session's events in order: "session_created session_state:ready …". Owned. */
char *kit_events(struct kit *k, const char *session);
#define assert_events(k, session, expected)                          \
	do {                                                         \
		cleanup_free char *events_ = kit_events(k, session); \
		assert_string_equal(events_, expected);              \
	} while (0)

/* The first column of a command's row. sql: a literal. Owned. */
char *kit_row(struct kit *k, const char *id, const char *sql);
#define assert_row(k, id, expected)                                              \
	do {                                                                     \
		cleanup_free char *state_ =                                      \
			kit_row(k, id, "SELECT state FROM commands WHERE id=?"); \
		assert_string_equal(state_, expected);                           \
	} while (0)

struct buf kit_command_record(struct kit *k, const char *id);
struct buf kit_command_answer(struct kit *k, const char *id);
struct buf kit_session_record(struct kit *k, const char *id);
