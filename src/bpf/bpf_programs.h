// SPDX-License-Identifier: Apache-2.0
/* bpf/bpf_programs.h - loads and attaches the programs of net_layout.h and file_layout.h.
 *
 * Used by agentsh-bpf (file_calls alone), `agentsh doctor` and tests. Needs CAP_BPF, CAP_PERFMON
 * and CAP_NET_ADMIN.
 *
 * The network programs are attached at the root of the cgroup2 tree, and find sessions by their
 * network namespace. The kernel runs the programs of the node in which the process was that made
 * the socket, and of all nodes above. A session's node is below /agentsh, or, on a hybrid machine
 * without limits, the node that the server was started in; a socket that a process made before it
 * was moved keeps its node. The root is above all of them. In a container the tree begins at the
 * container's node, which is above its sessions. */
#pragma once
#include "base/err.h"
#include "bpf/bpf_load.h"
#include "bpf/exec_check_link.h"
#include <stdbool.h>
#include <stdint.h>

extern const struct bpf_image net_owner_image, net_refuse_image, net_unix_image, file_calls_image;

#define BPF_PROGRAMS_MAPS 2
#define BPF_PROGRAMS_LINKS 4
struct bpf_programs {
	/* net_owner: owners. net_refuse: rules, calls. net_unix: paths, calls. file_calls: slots,
	 * rings. -1 if the object does not have it. */
	int map[BPF_PROGRAMS_MAPS];
	int link[BPF_PROGRAMS_LINKS]; /* a program stays attached as long as its link is held */
};
#define BPF_PROGRAMS_NONE ((struct bpf_programs){.map = {-1, -1}, .link = {-1, -1, -1, -1}})

/* The uids that processes of sessions have. file_calls leaves all other processes at once. */
struct bpf_programs_uids {
	uint32_t first, last;
	bool counts; /* file_calls is of no use without FUSE */
};
/* The object is chosen by the image's name. uids NULL: any. The caller owns *out. E_ENFORCEMENT:
 * the message says what this machine does not have. */
int bpf_programs_load(const struct bpf_image *image, const struct bpf_programs_uids *uids,
		      struct bpf_programs *out, struct err *err);
void bpf_programs_close(struct bpf_programs *p);
/* Adds file_calls to what a server holds. */
int file_calls_load(const struct check_wanted *wanted, struct exec_check *out, struct err *err);
