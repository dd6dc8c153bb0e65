// SPDX-License-Identifier: Apache-2.0
/* bpf/bpf_programs.h - loads and attaches the programs of net_layout.h and file_layout.h.
 *
 * Used by `agentsh doctor` and tests; a server does not attach them yet. Needs CAP_BPF, CAP_PERFMON
 * and CAP_NET_ADMIN.
 *
 * The network programs are attached at the root of the cgroup2 tree, and find sessions by their
 * network namespace. The root is right on every machine: with cgroup v2, sessions have nodes below
 * the server's; on a hybrid or v1 machine their nodes are in the v1 hierarchies, and in the cgroup2
 * tree they stay where the server was started. The kernel takes the node of the process that made
 * the socket. At the server's own node, sessions would be lost that an earlier server started from
 * another node. In a container the tree begins at the container's node. */
#pragma once
#include "base/err.h"
#include "bpf/bpf_load.h"

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

/* The object is chosen by the image's name. The caller owns *out. E_ENFORCEMENT: the message says
 * what this machine does not have. */
int bpf_programs_load(const struct bpf_image *image, struct bpf_programs *out, struct err *err);
void bpf_programs_close(struct bpf_programs *p);
