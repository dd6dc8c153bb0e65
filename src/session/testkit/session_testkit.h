// SPDX-License-Identifier: Apache-2.0
/* session/testkit/session_testkit.h - a test as the launcher of a real registry: real sockets,
 * database and loop, all in one process. The clock stands still until the test moves it. Every
 * function fails the running cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/testkit/loop_testkit.h"
#include "event/journal.h"
#include "policy/policy.h"
#include "session/command_state.h"
#include "session/session_state.h"

#define KIT_START_US INT64_C(1800000000000000)
#define KIT_WARDENS 8

/* A warden as the test plays it. */
struct fake {
	char id[ID_MAX + 1];
	struct link link; /* SIDE_WARDEN */
	struct journal *journal;
	int ring_fd, ack_fd;
	struct journal *other; /* with kit.two_rings: of another process of the session */
	int other_fd[2];       /* its ring and ack */
	/* the last exec */
	char command[ID_MAX + 1];
	int out[2];
};

struct kit {
	char dir[64];
	struct loop *loop;
	struct clock clock;
	struct config config;
	struct store *store;
	struct metrics *metrics;
	int output_dir;
	struct peer api; /* the launcher's link */
	struct link launcher;
	struct sessions *ss;
	struct caller who;
	bool two_rings;	    /* the next sessions have a ring 'test' as well */
	const char *policy; /* YAML of the next sessions' policy; NULL: kit_observe */
	char version[POLICY_VERSION_LEN + 1]; /* of the last one's */
	struct fake warden[KIT_WARDENS];
	size_t nwardens;
};

/* What a done function of a session got. */
struct told {
	unsigned n;
	struct err err; /* code E_OK: none */
	struct session *s;
};

char *kit_text(const char *s);
void kit_told(const struct err *err, struct session *s, void *arg);
/* Everything that can happen without time passing. */
void kit_turn(struct kit *k);
/* Runs the loop until *what is at least n, for at most five seconds. */
void kit_until(struct kit *k, const unsigned *what, unsigned n);
void kit_open_sessions(struct kit *k);
/* As a killed server leaves it: what was committed stays, all links close. */
void kit_close_sessions(struct kit *k);
void kit_restart(struct kit *k);
void kit_tell(struct kit *k, enum msg_type type, const void *obj, const int *fds, size_t nfds);
void kit_found_all(struct kit *k);
int kit_setup(void **state);
int kit_teardown(void **state);
struct session *kit_get(struct kit *k, const char *id);
const char *kit_state(struct kit *k, const char *id);
struct session_request kit_request_of(const char *id);
struct told kit_create(struct kit *k, const struct session_request *request);
struct told kit_destroy(struct kit *k, const char *id);
