// SPDX-License-Identifier: Apache-2.0
/* spawn/capture.h - how a shell's state comes back as data: agentsh-state (inside) to the warden
 * (outside).
 *
 * init binds a SEQPACKET listener at CAPTURE_SOCKET in the session's own read-only /run/agentsh and
 * hands it to the warden with READY. The shell's EXIT trap runs CAPTURE_PROGRAM, which connects,
 * sends datagrams (first byte = kind) and waits for CAPTURE_ACK. The warden accepts it only if the
 * sender's program (SCM_CREDENTIALS pid, /proc/PID/exe) has our program's inode and is a child of,
 * or is, the command's first process. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "sandbox/sandbox.h"

#define CAPTURE_CHUNK (32 * 1024)
enum capture_kind { CAPTURE_ENV = 'E', CAPTURE_CWD = 'D', CAPTURE_END = 'F', CAPTURE_ACK = 'A' };

/* One capture being received. */
struct capture {
	struct buf env; /* NAME=value NUL … */
	struct buf cwd;
	bool ended;
};
/* Feeds one datagram. E_TOO_LARGE past max bytes in total, E_BAD_REQUEST for anything out of order.
 */
int capture_feed(struct capture *c, const void *p, size_t n, size_t max, struct err *err);
/* After END: env as NAME=value strings (malformed names, duplicates, a missing final NUL, cwd that
 * is not absolute: E_BAD_REQUEST, nothing is given). */
int capture_finish(struct capture *c, struct strv *env, char **cwd, struct err *err);
void capture_done(struct capture *c);
