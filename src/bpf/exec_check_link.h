// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_check_link.h - agentsh-bpf, as the launcher sees it: what it needs and what it sends. */
#pragma once
#include "bpf/exec_sessions.h"
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

/* To load programs, to read the kernel's memory with them, and to attach those for sockets. */
#define BPF_CAPS \
	(UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_NET_ADMIN)
/* E_ENFORCEMENT: this process has lost one of them, and cannot give it to a child. */
int bpf_caps_check(struct err *err);

/* What agentsh-bpf is to load beside the exec check. It is the first message. */
struct check_wanted {
	uint32_t uid_first, uid_last; /* of sessions */
	uint32_t files;		      /* 1: file_calls, too */
	uint32_t fuse;		      /* 1: which must find the handles of FUSE's files */
};
/* If it has ended, exec_check_receive says so. */
void exec_check_ask(int link_fd, const struct check_wanted *wanted);
/* False: the launcher has ended. */
bool exec_check_asked(int link_fd, struct check_wanted *out);
/* Sends what was loaded, and why the rest cannot be had. */
int exec_check_send(int link_fd, const struct exec_check *check, const struct err *why);
/* Waits for it, and closes the link. E_ENFORCEMENT: the reason of agentsh-bpf, or it did
 * not answer in time; *out has what was loaded all the same. E_UNAVAILABLE: it has ended without an
 * answer. E_BAD_REQUEST: it sent another message. */
int exec_check_receive(int link_fd, int timeout_ms, struct exec_check *out, struct err *err);
