// SPDX-License-Identifier: Apache-2.0
/* policy/policy.h - compiles the rules of a file into bytes that any process can map, and decides
 * operations by them.
 *
 * text --policy_compile--> snapshot bytes --policy_open--> struct policy --policy_decide--> verdict
 *
 * agentsh-check compiles for the launcher; wardens, `policy test` and other processes open the
 * bytes. The snapshot is position-independent, and policy_open checks all its offsets. An opened
 * policy belongs to one thread (PCRE2 needs scratch memory); another thread opens the same bytes
 * again. Deciding neither allocates memory nor calls the kernel. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/file_view.h"
#include "model/op.h"
#include "model/request.h"
#include "model/verdict.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define POLICY_VERSION_LEN (7 + HASH_HEX) /* "sha256:…" */

struct policy; /* an opened snapshot */

/* Gives the text of a named set and the name of its file (for messages). -E_NOT_FOUND means that
 * the set does not exist; any other failure ends the compilation. */
typedef int policy_set_fn(const char *name, struct buf *text, struct buf *file, void *arg,
			  struct err *err);

struct policy_options {
	const char *name;      /* that the policy must have; NULL: any */
	const char *workspace; /* ${WORKSPACE}; NULL: /workspace */
	const char *home;      /* ${HOME}; NULL: /home/agent */
	bool shadow;	       /* approvals.mode: shadow */
	bool strict;	       /* warnings are errors */
	policy_set_fn *set;    /* NULL: sets are not available */
	void *set_arg;
};

/* Compiles a policy file. Every problem goes to report (may be NULL), one line each,
 * "FILE:LINE:COLUMN: error: …", "warning: …" or "notice: …"; err gets the first error. out is
 * appended to. */
int policy_compile(const char *file, const char *text, size_t len, const struct policy_options *o,
		   struct buf *report, struct buf *out, struct err *err);

/* For a policy_set_fn: reports that the set does not exist; sets are the names of the existing
 * ones. */
int policy_no_set(const struct strv *sets, const char *name, struct err *err);

/* Opens a snapshot. The bytes are borrowed, must be 8-byte aligned and must not change until
 * policy_close. Fails with E_BAD_REQUEST for a damaged snapshot. */
int policy_open(const void *bytes, size_t len, struct policy **out, struct err *err);
void policy_close(struct policy *p); /* NULL is fine */

/* The built-in rule that every policy tries first. It denies programs that raise privilege: sudo,
 * su, doas, pkexec and files with a set-id bit. */
#define POLICY_NO_PRIVILEGE "no-privilege"

/* Decides an operation. Never fails: it denies what it cannot decide (a path that is not plain, a
 * pattern over its limit), and v->why says why. approver: an approver can be asked. Without one, an
 * approve is a denial; in shadow mode it is an allow. */
void policy_decide(const struct policy *p, const struct op *op, bool approver, struct verdict *v);

/* From now on, a rule that does not permit also matches a file of /workspace by its path on the
 * host, below real. NULL: no more. */
void policy_name_workspace(struct policy *p, const char *real);
/* That path of a plain path, in out; NULL: it is not in the workspace. It may be longer than any
 * path that a program can use: what is deep in the workspace is deeper on the host. */
#define POLICY_NAME_MAX (2 * PATH_MAX)
const char *policy_real_name(const struct policy *p, const char *path, char out[POLICY_NAME_MAX]);

/* Whether a rule redirects files. */
bool policy_redirects(const struct policy *p);
/* Which path is used instead of a plain path. */
struct file_redirect {
	char path[POLICY_NAME_MAX];
	/* A directory has one path by each way. 0: no path leads elsewhere and nothing leads here;
	 * 1: redirected paths may lead here; else the path is redirected. */
	uint32_t way;
	bool here; /* the name itself leads elsewhere, and not only a directory above it */
};
/* False: the path stands for itself, and only `way` is filled in. Any thread. */
bool policy_redirect(const struct policy *p, const char *path, struct file_redirect *out);

/* The rule of every file operation at one path, found in one search. If the path is redirected, it
 * is the stricter one of this path and the other. Any thread: nothing is written to the policy. */
struct file_rules {
	uint32_t rule[OP_FILES]; /* private */
	unsigned again;		 /* operations at which the other path is redirected, too */
	bool plain;
};
/* made: the session made the directory that has the name. */
void policy_decide_file(const struct policy *p, const char *path, bool made,
			struct file_rules *out);
/* The same verdict as policy_decide. */
void policy_file_verdict(const struct policy *p, const struct file_rules *f, enum op_file op,
			 bool approver, struct verdict *v);
/* What the rules decide at the path, as one number: paths with the same number are treated alike.
 * Bits 1 << OP_FILE_… are the operations that are denied without an approver; the operations of
 * POLICY_FILE_APPROVE are those of them that an approver can allow. */
#define POLICY_FILE_ALL ((1U << OP_FILES) - 1)
#define POLICY_FILE_APPROVE(set) ((set) & (set) >> OP_FILES & POLICY_FILE_ALL)
#define POLICY_FILE_HIDDEN (1U << 2 * OP_FILES) /* the path is not shown; the bits above are 0 */
uint32_t policy_file_set(const struct policy *p, const struct file_rules *f);
/* What a rename needs at the name of a file that it replaces: `delete`. It needs nothing there if
 * only an approver can allow `delete` and the file may be written and truncated: overwriting it,
 * which needs no approver, would have the same effect. */
unsigned policy_replace_ops(uint32_t set);
/* Whether one of the operations (bits 1 << OP_FILE_…) that is denied somewhere below the directory
 * `from` may be allowed, or asked for, at the same place below `to`, or whether a file that would
 * be kept may be deleted for good (a "yes" may be wrong). Plain paths. */
bool policy_file_gains(const struct policy *p, const char *from, const char *to, unsigned ops);
/* Whether it matters to a rule (`existing_only`) who made the directory; NULL: any directory. */
bool policy_spares(const struct policy *p, const char *dir);

/* policy_decide keeps about n decisions from now on. */
void policy_add_cache(struct policy *p, size_t n);

const char *policy_name(const struct policy *p);
const char *policy_version(const struct policy *p); /* "sha256:…" of the snapshot */
const char *policy_description(const struct policy *p);
/* How many rules the class has; DNS has those of NET. */
size_t policy_rules(const struct policy *p, enum op_class class);
/* Whether the class can deny anything: it has a rule or a default that is not an allow. */
bool policy_restricts(const struct policy *p, enum op_class class);

/* Whether a rule keeps what is deleted. */
bool policy_soft_deletes(const struct policy *p);

/* Whether an approver has to be asked about one of the file operations (bits 1 << OP_FILE_…)
 * anywhere. */
bool policy_approves(const struct policy *p, unsigned ops);

/* Whether a rule certainly denies the operation on every file below dir, a plain path. False if an
 * earlier rule may allow one of the files, or if only the default denies. */
bool policy_denies_tree(const struct policy *p, enum op_file op, const char *dir);

/* Whether a rule about files is held: each operation that it refuses is refused in the view, too.
 * rule: in the order of trial; the last rule's number plus one is the default. places (may be NULL)
 * gets the places where it is not held. */
enum policy_held {
	POLICY_HELD, /* or it refuses nothing */
	POLICY_PARTLY_HELD,
	POLICY_NOT_HELD /* nowhere in the view */
};
enum policy_held policy_rule_held(const struct policy *p, uint32_t rule,
				  const struct file_view *view, struct strv *places);
const char *policy_rule_name(const struct policy *p, uint32_t rule); /* borrowed */
/* The same for all rules. places is owned. */
struct policy_holds {
	uint32_t rules, lacking;      /* the default included; those that are not held everywhere */
	uint32_t first, first_unheld; /* of them, of those held nowhere; `rules`: none */
	struct strv places;
};
void policy_hold(const struct policy *p, const struct file_view *view, struct policy_holds *out);
/* Writes "/tmp, /usr and 3 more places". */
void policy_format_places(const struct strv *places, struct buf *out);
/* Writes the rules that are not held everywhere as a JSON array. */
void policy_format_lacking(const struct policy *p, const struct file_view *view, struct jw *w);

/* resource_limits of the policy. Shares are not numbers yet. */
const struct limits *policy_limits(const struct policy *p);

/* Whether the policy covers what a client asks of a session: E_POLICY_DENIED for a domain, port or
 * variable beyond it. Limits are not looked at. */
int policy_covers(const struct policy *p, const struct session_request *w, struct err *err);
/* The same for the variables of a PATCH or an exec. */
int policy_narrow_env(const struct policy *p, const struct strv *env, struct err *err);

/* Whether a session goes without the variable: it can load code into a program that is allowed, the
 * policy denies commands by default, and its environment.allow does not name it. */
bool policy_drops_env(const struct policy *p, const char *name, size_t len);

/* Adds short sentences about what rules allow instead. They never say how to change the policy, and
 * a default that allows adds nothing. */
void policy_alternatives(const struct policy *p, const struct op *op, struct strv *out);
/* Adds one sentence that names the rules of the class that this version does not enforce and says
 * what to do; adds nothing if it enforces all. */
void policy_unenforced(const struct policy *p, enum op_class class, struct buf *out);
/* Whether the policy can refuse a connection to 127.0.0.0/8, ::1 or localhost. A session with a
 * network namespace reaches nothing else, so the namespace enforces every other restriction. */
bool policy_restricts_loopback(const struct policy *p);
/* Adds a few sentences about the policy for the agent that works under it. */
void policy_summary(const struct policy *p, struct strv *out);
/* Writes the whole policy as one JSON object, with the rules in the order of trial; with a view
 * (may be NULL) also which of them are not held there. */
void policy_format(const struct policy *p, const struct file_view *view, struct jw *w);

/* A policy is the file NAME.yaml in the first directory that has it; a set is sets/NAME.yaml. A
 * file must belong to root or to the own user, and no other user may be able to write it. */
/* The configured directory (may be NULL) comes first, then those of the shipped policies. */
void policy_dirs_init(struct strv *dirs, const char *configured);
/* Compiles the policy of this name like policy_compile, with the sets of the directories. Fails
 * with E_BAD_REQUEST (and the known names) for an unknown name, and with E_FORBIDDEN for a file
 * that other users can write. */
int policy_load(const struct strv *dirs, const char *name, const struct policy_options *o,
		struct buf *report, struct buf *out, struct err *err);
/* The same for a file anywhere. */
int policy_load_file(const struct strv *dirs, const char *path, const struct policy_options *o,
		     struct buf *report, struct buf *out, struct err *err);
/* Names of the policies (or sets) there, sorted, each once. */
void policy_list(const struct strv *dirs, bool sets, struct strv *out);
/* Returns the path of a policy or set, or NULL. The caller frees it. */
char *policy_find_file(const struct strv *dirs, bool set, const char *name);
/* Appends the bytes of a policy or set. Fails with E_NOT_FOUND if it cannot open the file, and with
 * E_FORBIDDEN if other users can write it. */
int policy_read(const char *path, struct buf *out, struct err *err);
/* Returns "no policy 'x'; there is 'a', 'b'". The caller frees it. */
char *policy_unknown_name(const struct strv *dirs, const char *name);
/* Returns the same for the first name that has no file in the configured or the shipped
 * directories; NULL if every name has one. The caller frees it. */
char *policy_unknown(const char *configured, const struct strv *names);

/* Adds the host of every URL in the configuration of a package manager (any text without its
 * comments), each once. */
void policy_registry_hosts(const char *text, size_t len, struct strv *hosts);
/* Writes a set file with these items. */
void policy_set_format(const char *name, const char *kind, const char *description,
		       const struct strv *items, struct buf *out);
