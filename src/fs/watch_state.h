// SPDX-License-Identifier: Apache-2.0
/* fs/watch_state.h - what the files that decide and record an operation share. Only watch*.c
 * includes it. */
#pragma once
#include "fs/fs_state.h"
#include "fs/made_dirs.h"
#include "fs/watch.h"
#include <limits.h>

/* Bits of a set beside those of the policy: the file system itself denies. */
#define SET_READ_ONLY (1U << 29)
#define SET_BLOCKED (1U << 30)
#define SET_TOO_LONG (1U << 31)

struct fs_watch {
	struct fs_watch_setup setup;
	const char *first;	/* tree; decides what has no path */
	bool unrestricted;	/* nothing can deny anything */
	bool redirects;		/* some names lead to others: */
	pthread_rwlock_t moves; /* held from a decision to the operation; a move is alone */
	struct made_dirs *made; /* NULL: no rule asks who made a directory */
	struct watch_park *park;
	/* Serial numbers of the last grants that were used, at serial % ACTOR_GRANTS: a grant is
	 * good for one change. */
	_Atomic uint64_t used[ACTOR_GRANTS];
};

/* One name, and what may be done by it. */
struct watch_place {
	char path[PATH_MAX];
	int error; /* of node_path */
	bool known, directory;
	bool made;	     /* the session made the directory that has the name */
	struct node_key key; /* if it is a directory */
	struct file_rules rules;
	uint32_t set;	  /* what is denied: policy_file_set and SET_… */
	unsigned approve; /* operations of the request that only an approver can allow */
};

struct watched {
	struct watch_need need;
	struct watch_place at, to;
	struct op op;
	struct gate_case k;
	enum fs_actor kind;
	int64_t begin_us;
	bool own;	/* asked for by agentsh itself, for a command */
	bool refused;	/* k.verdict says why */
	bool silent;	/* no event */
	uint64_t size;	/* before O_TRUNC */
	uint64_t trash; /* the entry of what was kept; 0: nothing was */
	uint64_t grant; /* the serial number of the one that allows it; 0: none does */
};

/* What an open file remembers of its opener: RELEASE does not say who closes it. */
struct watch_file {
	struct actor actor;
	enum fs_actor kind;
	uint32_t tid;
	int flags; /* of the open */
	bool executes;
	bool made;			/* as in struct watch_place */
	_Atomic uint64_t read, written; /* by requests */
	_Atomic(const char *) type;	/* by its first bytes; NULL: not seen */
	uint64_t size;			/* before the open, if it is open for writing */
	char path[];			/* by which it was opened; "" of agentsh's own */
};

/* ---- names and what may be done by them: watch_place.c ---- */

/* TMPFILE has no name; it is decided as if it had this one. */
#define WATCH_TMPFILE_NAME "#tmpfile"
/* Finds the path of a node, or of a name in it, and decides it. -ESTALE: it has no path; the kernel
 * looks the name up again. */
int watch_locate(struct fs *fs, uint64_t node, const char *name, struct watch_place *p);
/* Fills in path and decisions of the name to which a rule redirects this one. False: none does. */
bool watch_locate_target(const struct fs_watch *w, const struct watch_place *p,
			 struct watch_place *out);
/* The path on the host, where the name leads; NULL: it is not known, or too long. */
const char *watch_real_path(const struct fs *fs, const char *path, char out[PATH_MAX]);

/* ---- asking: watch_ask.c ---- */

/* Decides the request: 0, or -errno with w->refused. */
int watch_ask(struct fs *fs, const struct fs_request *q, struct watched *w);
/* The operations that only an approver can allow. FS_HELD: it is asked, and the request is parked.
 */
int watch_approve(struct fs *fs, const struct fs_request *q, struct watched *w);
/* The file system itself refuses; returns -error. */
int watch_refuse(struct watched *w, const struct watch_place *p, const char *rule, const char *why,
		 int error);

/* ---- events: watch_settle.c ---- */

/* Records what became of the request. */
void watch_settle(struct fs *fs, const struct fs_request *q, struct watched *w, int result);

/* ---- open files: watch_file.c ---- */

void watch_remember_opener(struct fs *fs, const struct fs_request *q, const struct watched *w,
			   struct fs_reply *r);
/* RELEASE, and requests that the open has decided: their bytes are counted. */
int watch_release(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run);
int watch_count_bytes(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run);
int watch_count_copied(struct fs *fs, const struct fs_request *q, struct fs_reply *r,
		       fs_op_fn *run);
/* What was seen of an open file when it was closed. */
struct watch_end {
	bool passed;   /* the kernel read and wrote it by itself */
	bool counted;  /* and it has counted all bytes; else those of requests alone are known */
	uint64_t size; /* if it was open for writing */
	const char *type;
	struct file_bytes bytes;
};

/* One read and one write event per open file, when it is closed. A number of bytes that is not
 * known is absent, not 0. */
void watch_settle_file(struct fs *fs, const struct watch_file *f, const struct watch_end *e);
