// SPDX-License-Identifier: Apache-2.0
/* policy/policy.h - rules from a file, compiled into bytes that any process can map, and the one
 * function that decides.
 *
 * text --policy_compile--> snapshot bytes --policy_open--> struct policy --policy_decide--> verdict
 *
 * agentsh-check compiles for the launcher; wardens, `policy test` and everyone else open the bytes.
 * The snapshot is position-independent and checked offset by offset when it is opened. An opened
 * policy belongs to one thread (PCRE2 needs scratch memory); another thread opens the same bytes
 * again. Deciding neither allocates nor calls the kernel. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/op.h"
#include "model/request.h"
#include "model/verdict.h"
#include <stdbool.h>
#include <stdint.h>

#define POLICY_VERSION_LEN (7 + HASH_HEX) /* "sha256:…" */

struct policy;	     /* an opened snapshot */
struct policy_cache; /* decisions that were made before; of one thread */

/* Gives the text of a named set and the file it stands in (for messages). -E_NOT_FOUND: there is
 * none; any other failure ends the compilation. */
typedef int policy_set_fn(const char *name, struct buf *text, struct buf *file, void *arg,
			  struct err *err);

struct policy_options {
	const char *workspace; /* ${WORKSPACE}; NULL: /workspace */
	const char *home;      /* ${HOME}; NULL: /home/agent */
	bool shadow;	       /* approvals.mode: shadow */
	bool strict;	       /* warnings are errors */
	policy_set_fn *set;    /* NULL: there are no sets */
	void *set_arg;
};

/* Compiles a policy file. Every problem goes to report (may be NULL), one line each,
 * "FILE:LINE:COLUMN: error: …", "warning: …" or "notice: …"; err gets the first error. out is
 * appended to. */
int policy_compile(const char *file, const char *text, size_t len, const struct policy_options *o,
		   struct buf *report, struct buf *out, struct err *err);

/* The same; E_BAD_REQUEST if the policy has another name. */
int policy_compile_named(const char *name, const char *file, const char *text, size_t len,
			 const struct policy_options *o, struct buf *report, struct buf *out,
			 struct err *err);
/* For a policy_set_fn: there is no such set; sets are the names of those that there are. */
int policy_no_set(const struct strv *sets, const char *name, struct err *err);

/* Opens a snapshot. The bytes are borrowed, are at least 8-byte aligned and must stay as they are
 * until policy_close. A damaged snapshot is E_BAD_REQUEST. */
int policy_open(const void *bytes, size_t len, struct policy **out, struct err *err);
void policy_close(struct policy *p); /* NULL is fine */

/* Refuses, before all rules and with every policy, programs that are for raising privilege: sudo,
 * su, doas, pkexec and files with a set-id bit. */
#define POLICY_NO_PRIVILEGE "no-privilege"

/* Decides. Never fails: what cannot be decided (a path that is not plain, a pattern over its
 * limit) is denied and v->why tells. cache may be NULL; one that was filled by another version
 * is emptied first. */
void policy_decide(const struct policy *p, struct policy_cache *cache, const struct op *op,
		   struct verdict *v);

/* A cache for about n decisions. */
struct policy_cache *policy_cache_new(size_t n);
void policy_cache_free(struct policy_cache *c); /* NULL is fine */

const char *policy_name(const struct policy *p);
const char *policy_version(const struct policy *p); /* "sha256:…" of the snapshot */
const char *policy_description(const struct policy *p);
/* How many rules the class has; DNS has those of NET. */
size_t policy_rules(const struct policy *p, enum op_class class);
/* Whether the class can deny anything: it has a rule or a default that is not an allow. */
bool policy_restricts(const struct policy *p, enum op_class class);

/* Whether a rule denies the operation on every file below dir, which is plain. Only what is
 * certain: false if any rule that is tried before it may allow one of them, and for a mere default.
 */
bool policy_denies_tree(const struct policy *p, enum op_file op, const char *dir);

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

/* What rules allow instead, as short sentences; never how to change the policy, and nothing where
 * only a default allows. */
void policy_alternatives(const struct policy *p, const struct op *op, struct strv *out);
/* One sentence about the rules of the class that this version does not enforce, by name, with what
 * to do; nothing is added where there are none. */
void policy_unenforced(const struct policy *p, enum op_class class, struct buf *out);
/* A few sentences about the policy for whoever works under it. */
void policy_summary(const struct policy *p, struct strv *out);
/* The whole policy as one JSON object, rules in the order in which they are tried. */
void policy_format(const struct policy *p, struct jw *w);

/* Files: NAME.yaml in one of the directories, the first that has it; sets are sets/NAME.yaml, from
 * the same list. A file must belong to root or to us and be writable by nobody else. */
struct policy_dirs {
	struct strv dir;
};
/* The configured directory (may be NULL), then those of the policies that we ship. */
void policy_dirs_init(struct policy_dirs *d, const char *configured);
void policy_dirs_done(struct policy_dirs *d);
/* Compiles the policy of this name (o->set is ours), as policy_compile does. E_BAD_REQUEST if there
 * is none, with the names that there are; E_FORBIDDEN for a file that others can write. */
int policy_load(const struct policy_dirs *d, const char *name, const struct policy_options *o,
		struct buf *report, struct buf *out, struct err *err);
/* The same for a file anywhere. */
int policy_load_file(const struct policy_dirs *d, const char *path, const struct policy_options *o,
		     struct buf *report, struct buf *out, struct err *err);
/* Names of the policies (or sets) there, sorted, each once. */
void policy_list(const struct policy_dirs *d, bool sets, struct strv *out);
/* The file of a policy or set; NULL if there is none. The result is owned. */
char *policy_find_file(const struct policy_dirs *d, bool set, const char *name);
/* Appends its bytes. E_NOT_FOUND: it cannot be opened; E_FORBIDDEN: others can write it. */
int policy_read(const char *path, struct buf *out, struct err *err);
/* "no policy 'x'; there is 'a', 'b'"; owned. */
char *policy_unknown_name(const struct policy_dirs *d, const char *name);
/* The same of the first of these that has no file there or among those
 * that we ship; NULL if all have. The result is owned. */
char *policy_unknown(const char *configured, const struct strv *names);

/* The set of package registries: adds the host of every URL in the configuration of a package
 * manager (any text; comments are left out), each once. */
void policy_registry_hosts(const char *text, size_t len, struct strv *hosts);
/* A set file with these items. */
void policy_set_format(const char *name, const char *kind, const char *description,
		       const struct strv *items, struct buf *out);
