// SPDX-License-Identifier: Apache-2.0
/* exec/listener.h - the seccomp listener's calls; private to this folder. */
#pragma once
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets SYNC_WAKE_UP where the kernel has it (6.6): the caller runs on at once on our processor. */
int listener_init(int fd); /* 0, or ENOTSUP: the kernel's records are larger than ours */
union listener_notif {
	struct seccomp_notif notif;
	uint8_t room[512];
};
/* Blocks. 0 or an errno: EINTR, ENOENT (its caller died, or nobody is left). */
int listener_recv(int fd, union listener_notif *out);
bool listener_valid(int fd, uint64_t id);
/* 0 or an errno: ENOENT, the caller died. errnum 0 lets the call go on. */
int listener_send(int fd, uint64_t id, int errnum);
/* The same for a call that was made in the caller's place: it returns 0. */
int listener_done(int fd, uint64_t id);
/* Its call returns a copy of given, close-on-exec. 0 or an errno. */
int listener_give(int fd, uint64_t id, int given);
