// SPDX-License-Identifier: Apache-2.0
/* bpf/testkit/programs_testkit.h - namespaces of a test's own for the network and file programs.
 *
 * Needs root. Every function fails the running cmocka test. */
#pragma once
#include "base/testkit/child_testkit.h"
#include "bpf/bpf_programs.h"
#include "bpf/exec_layout.h"
#include "bpf/net_layout.h"
#include "bpf/session_maps.h"

/* Loads and attaches; skips the test where the programs cannot be had. */
void programs_kit_load(const struct bpf_image *image, struct bpf_programs *p);

/* Moves the test into a new network namespace, with loopback up; returns its cookie. */
uint64_t programs_kit_network(void);

/* The caller's process, in a child of process 1 of a new PID namespace, runs fn. Between the two
 * steps the test registers the session by *key. */
struct programs_kit_session {
	pid_t init;
	int go; /* pipe */
	struct exec_session_key key;
};
void programs_kit_start(struct programs_kit_session *s, kid_fn *fn, const void *arg);
/* Lets fn run; returns its result. */
int programs_kit_finish(struct programs_kit_session *s);

/* Reads all records of a ring; returns how many there were. */
typedef void programs_kit_record_fn(const void *record, size_t len, void *arg);
int programs_kit_read(int ring, programs_kit_record_fn *fn, void *arg);

/* A network namespace as a session of net_refuse or net_unix. */
struct net_kit {
	struct bpf_programs p;
	uint64_t netns;
	int rules; /* of net_unix: paths */
	int calls;
};
/* The test moves into the namespace. */
void net_kit_start(struct net_kit *kit, const struct bpf_image *image,
		   const struct session_map *rules);
void net_kit_end(struct net_kit *kit);
/* Reads all recorded calls; returns how many there were. *last: the newest, as it was if none. */
int net_kit_read(struct net_kit *kit, struct net_call *last);

/* Loads an object and closes it. Returns what the load returned. */
typedef int damage_kit_load_fn(const struct bpf_image *image, struct err *err);
/* An object that was cut is refused. One with a changed byte is refused, or ends the process that
 * loads it, or the kernel takes it. places: how many of each are tried. */
void damage_kit_try(const struct bpf_image *image, damage_kit_load_fn *load, size_t places,
		    unsigned refused_least);
void programs_kit_damage(const struct bpf_image *image); /* of bpf_programs_load */
