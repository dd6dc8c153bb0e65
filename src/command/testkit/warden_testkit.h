// SPDX-License-Identifier: Apache-2.0
/* command/testkit/warden_testkit.h - a test as launcher, stub and API child of one session with the
 * real programs.
 *
 * As root the session has a uid of its own, else the test's. Every function fails the running
 * cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "event/journal.h"
#include "link/link.h"
#include "model/process_args.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "spawn/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#define WKIT_UID 64998
#define WKIT_API_UID 64997
#define WKIT_WAIT_MS 20000
#define WKIT_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

extern char wkit_dir[64];
extern bool wkit_ready;	   /* the programs are there, and a session can be made */
extern int wkit_warden_fd; /* the program; a test may set another one */

struct wkit {
	struct sandbox_plan plan;
	struct link api;
	pid_t warden, init;
	int ring_fd, ack_fd; /* copies for the reader */
	char socket[100];
	struct journal_reader *reader;
	char events[65536]; /* "type command_id exit " of what was drained */
	char execs[65536];  /* "path decision command_id rule;" of execs that were drained */
	char line[2048];    /* the last command_line */
	uint32_t pid;	    /* of the command that was started last */
	unsigned made;	    /* command ids given */
	struct warden_hello hello;
	bool started; /* of the last wait */
	uint64_t taken, out_bytes;
	unsigned bells;
	struct warden_state state; /* the last one */
};

int64_t wkit_now_ms(void);
/* Group set-up: tests skip where a program or a right is missing. */
int wkit_prepare(void **state);
int wkit_clean(void **state);

/* Drops messages until one of this type comes. */
void wkit_recv_type(struct wkit *k, enum msg_type type, void *obj);
void wkit_say_hello(struct wkit *k);

struct wkit_request {
	uint32_t ring; /* bytes; 0: the default */
	bool keep, drops;
	uint64_t orphan_ms, timeout_ms, quota, env_max;
	const char *shell;
	bool no_hello;
	const char *rules;	     /* of the policy */
	const struct strv *counters; /* as in process_args; NULL: none */
	int exec_map, exec_link;     /* the same; 0: none */
};

struct wkit *wkit_open_with(const struct wkit_request *request);
int wkit_open(void **state);
struct wkit *wkit_of(void **state); /* skips the test without one */

/* Reads the ring to its end and acknowledges it. */
void wkit_drain(struct wkit *k);

void wkit_free(struct wkit *k);

/* Waits for the warden's end; returns its exit status. */
int wkit_wait_warden(struct wkit *k);

void wkit_end(struct wkit *k);

int wkit_close(void **state);

/* One command as the API child sees it. */
struct wkit_command {
	struct warden_exec ask;
	char id[32];
	int out[2]; /* memory files */
	struct warden_result result;
	struct warden_refused refused;
};

struct wkit_command wkit_command(struct wkit *k);

void wkit_send(struct wkit *k, struct wkit_command *c);

/* Handles one message of a running command; true if it was its end. */
bool wkit_step(struct wkit *k, struct wkit_command *c);

void wkit_ack(struct wkit *k, const char *id);

void wkit_wait_started(struct wkit *k, struct wkit_command *c);

void wkit_wait(struct wkit *k, struct wkit_command *c);

void wkit_done(struct wkit_command *c);

char *wkit_text(const struct wkit_command *c, int i);

/* Runs a command and waits for its end. */
struct wkit_command wkit_run_v(struct wkit *k, const char *const *argv);
#define wkit_run(k, ...) wkit_run_v(k, (const char *const[]){__VA_ARGS__, NULL})

/* Does not wait for it. */
struct wkit_command wkit_start_script(struct wkit *k, const char *script, uint64_t timeout_ms);

struct wkit_command wkit_script(struct wkit *k, const char *script);

/* A script must print exactly this and end with this code. */
void wkit_expect(struct wkit *k, const char *script, const char *out, uint32_t code);
#define wkit_expect_argv(k, text_, err_, code_, ...)               \
	do {                                                       \
		struct wkit_command c_ = wkit_run(k, __VA_ARGS__); \
		cleanup_free char *o_ = wkit_text(&c_, 0);         \
		cleanup_free char *e_ = wkit_text(&c_, 1);         \
		assert_string_equal(o_, text_);                    \
		assert_string_equal(e_, err_);                     \
		assert_int_equal(c_.result.exit_code, code_);      \
		wkit_done(&c_);                                    \
	} while (0)

/* Whether a process with this text in its command line lives anywhere on the machine. */
bool wkit_alive(const char *text);
