// SPDX-License-Identifier: Apache-2.0
/* fs/fuse_request.h - one request of the kernel, checked, and its answer.
 *
 * The kernel is trusted with the machine, and still its bytes are checked: a request that is cut,
 * too long or unknown is an error, never a crash. Pure; any thread. */
#pragma once
#include "fs/fuse_kernel.h"
#include "gate/file_grant.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Pointers lead into the transport's buffer (or into the struct itself, so never copy it) and are
 * valid until the handler returns. A handler that parks a request copies what it needs. */
struct fs_request {
	uint32_t opcode;
	uint64_t unique, node;
	uid_t uid;
	gid_t gid;
	pid_t pid; /* a thread id in the mounter's PID namespace; 0: the kernel itself */
	/* The fixed part, struct fuse_…_in: aligned to 8 and never shorter than the struct.
	 * NULL: an opcode without a fixed part. */
	const void *arg;
	/* NUL-terminated; NULL: none. A name of a directory entry is 1 to NAME_MAX bytes long,
	 * without a slash, and neither "." nor "..". name[1] of SYMLINK is the target: 1 to
	 * PATH_MAX - 1 bytes of any kind. name[0] of an xattr call is the attribute's name: 1 to
	 * XATTR_NAME_MAX bytes of any kind. TMPFILE has no name. */
	const char *name[2];
	/* WRITE, SETXATTR, IOCTL, NOTIFY_REPLY: as long as arg says. BATCH_FORGET: an array of
	 * struct fuse_forget_one, aligned to 8, as many as arg says. WRITE's data begins at a page
	 * boundary in the transport's buffer. */
	const void *data;
	size_t data_len;
	/* With FUSE_CREATE_SUPP_GROUP: the supplementary group of the caller by which it may create
	 * an entry in this directory; (gid_t)-1: none. */
	gid_t supplementary;
	/* The rest is not of the kernel. */
	bool may_wait; /* this thread may wait for others; see slow_call.c */
	bool answered; /* an approver was asked at began_us, and this is the answer: */
	uint32_t why;  /* enum gate_why; 0: granted */
	int64_t began_us;
	struct file_grant granted;

	_Alignas(8) union {
		struct fuse_setxattr_in setxattr;
		struct fuse_init_in init;
	} widened; /* arg, where the kernel sends less than the whole struct */
};

/* features: the INIT flags that both sides agreed on (struct fs_features.flags), 0 before INIT.
 * bytes is aligned to 8. 0; -ENOSYS: no row for the opcode; -EINVAL, -ENAMETOOLONG: bytes that the
 * kernel does not send, or a name that is too long. opcode and unique are set whenever len holds a
 * whole header, else 0. */
int fs_request_parse(const void *bytes, size_t len, uint64_t features, struct fs_request *out);
size_t fs_opcode_fixed(uint32_t opcode);     /* the length of arg; 0 without a row */
const char *fs_opcode_name(uint32_t opcode); /* "LOOKUP"; "?" without a row */
/* False: FORGET, BATCH_FORGET, INTERRUPT, NOTIFY_REPLY; the kernel takes no answer. */
bool fs_opcode_answered(uint32_t opcode);

/* The answer. The transport sets out and size and clears the rest; a handler writes at most size
 * bytes to out and sets len, or sets error. Everything else is ignored where error is set. */
struct fs_reply {
	void *out;   /* begins at a page boundary */
	size_t size; /* FS_MAX_IO: clamp the sizes that READ, READDIR and GETXATTR ask for to it */
	size_t len;
	int error;   /* a positive errno, 0: none */
	bool parked; /* the answer comes by fs_transport_answer(unique), perhaps before the handler
			returns */
};
