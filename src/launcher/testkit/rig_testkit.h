// SPDX-License-Identifier: Apache-2.0
/* launcher/testkit/rig_testkit.h - a launcher for tests: real places, links and forks; the other
 * programs are the test itself; argv[0] says which one it plays (rig_main). The test plays the API
 * child at the other end of the link, unless api_child.c is what it tests. */
#pragma once
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/testkit/loop_testkit.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include "launcher/policy_snapshots.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#define RIG_UID 1000
#define RIG_GID 1234
#define RIG_WAIT_MS 20000

struct rig {
	struct launcher l;
	struct link api;
	char dir[64], workspace[96];
};

bool rig_root(void);
uid_t rig_uid(void);
/* First in main: becomes one of the other programs if the test was started as one. */
void rig_main(char **argv);
/* Every ring of the table, by name, and its descriptors: the ring to read, the ack to write. */
/* What a session without FUSE has. */
size_t rig_processes(void);
size_t rig_ring_count(void);
void rig_rings(const struct strv *names, const int *fd);

int rig_setup(void **state);
int rig_teardown(void **state);
/* Turns the loop until done(arg) or the time is over. */
bool rig_until(struct rig *g, bool (*done)(struct rig *g, void *arg), void *arg);
/* A new API child's end, played by the test. */
void rig_connect(struct rig *g);
/* For rig_until: receives the next message into the struct link_msg *arg. */
bool rig_received(struct rig *g, void *arg);
/* The next message, which must be of that type. */
struct link_msg rig_expect(struct rig *g, enum msg_type type);
void rig_skip(struct rig *g, enum msg_type type);
/* Connected, greeted, nothing found. */
void rig_greeted(struct rig *g);

/* The accepted end of a connection made by another process, which lives until it is closed. */
int rig_client(const struct rig *g, uid_t uid, gid_t gid);
void rig_ask(struct rig *g, uint32_t req, const struct launcher_create *ask, int proof);
struct launcher_create rig_request(struct rig *g, const char *id);
/* Has the policy observe compiled, so that no session has to wait for it. */
void rig_use_policy(struct rig *g);
/* Makes a session for the workspace's owner; the answer's message with its three descriptors. */
struct link_msg rig_make(struct rig *g, const char *id);
/* What the warden sends on a link of its own. */
char *rig_hear(int fd);
bool rig_file(const struct rig *g, const char *name); /* of RUNTIME/sessions */
size_t rig_entries(const struct rig *g);	      /* sessions, living or not */
bool rig_no_entries(struct rig *g, void *arg);
