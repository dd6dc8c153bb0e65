// SPDX-License-Identifier: Apache-2.0
#include "exec/held_calls.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "exec/args.h"
#include "walk/walker.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define NONE 6	   /* no such argument */
#define LINKS 40   /* as many as the kernel follows */
#define LOOK_MS 50 /* between two looks whether a caller still waits */

enum change {
	MAKE_FILE,
	MAKE_NODE,
	MAKE_DIR,
	MAKE_SYMLINK,
	REMOVE,
	REMOVE_DIR,
	MOVE,
	LINK,
	/* no change of a directory; the kernel locks the file */
	CHANGE_MODE,
	CHANGE_OWNER,
	CHANGE_SIZE,
	CHANGE_LINKS_OWNER,
};
static const struct held_row {
	int nr;
	enum change change;
	unsigned dir, path, to_dir, to, flags; /* which argument */
} calls[] = {
#ifdef SYS_open
	{SYS_open, MAKE_FILE, NONE, 0, NONE, NONE, 1},
	{SYS_creat, MAKE_FILE, NONE, 0, NONE, NONE, NONE},
	{SYS_mknod, MAKE_NODE, NONE, 0, NONE, NONE, NONE},
	{SYS_mkdir, MAKE_DIR, NONE, 0, NONE, NONE, NONE},
	{SYS_symlink, MAKE_SYMLINK, NONE, 1, NONE, NONE, NONE},
	{SYS_unlink, REMOVE, NONE, 0, NONE, NONE, NONE},
	{SYS_rmdir, REMOVE_DIR, NONE, 0, NONE, NONE, NONE},
	{SYS_rename, MOVE, NONE, 0, NONE, 1, NONE},
	{SYS_link, LINK, NONE, 0, NONE, 1, NONE},
	{SYS_chmod, CHANGE_MODE, NONE, 0, NONE, NONE, NONE},
	{SYS_chown, CHANGE_OWNER, NONE, 0, NONE, NONE, NONE},
	{SYS_lchown, CHANGE_LINKS_OWNER, NONE, 0, NONE, NONE, NONE},
#endif
#ifdef SYS_renameat
	{SYS_renameat, MOVE, 0, 1, 2, 3, NONE},
#endif
	{SYS_openat, MAKE_FILE, 0, 1, NONE, NONE, 2},
	{SYS_mknodat, MAKE_NODE, 0, 1, NONE, NONE, NONE},
	{SYS_mkdirat, MAKE_DIR, 0, 1, NONE, NONE, NONE},
	{SYS_symlinkat, MAKE_SYMLINK, 1, 2, NONE, NONE, NONE},
	{SYS_unlinkat, REMOVE, 0, 1, NONE, NONE, 2},
	{SYS_renameat2, MOVE, 0, 1, 2, 3, 4},
	{SYS_linkat, LINK, 0, 1, 2, 3, 4},
	{SYS_fchmodat, CHANGE_MODE, 0, 1, NONE, NONE, NONE},
	{SYS_fchmodat2, CHANGE_MODE, 0, 1, NONE, NONE, 3},
	{SYS_fchownat, CHANGE_OWNER, 0, 1, NONE, NONE, 4},
	{SYS_truncate, CHANGE_SIZE, NONE, 0, NONE, NONE, NONE},
};

/* What agentsh-fs asks for (fs/watch_rows.c), and the event. */
#define OP(name) (1U << OP_FILE_##name)
static const struct {
	unsigned ops, to_ops;
	uint32_t type;
} changes[] = {
	[MAKE_FILE] = {OP(create) | OP(open), 0, EVENT_file_create},
	[MAKE_NODE] = {OP(create), 0, EVENT_file_mknod},
	[MAKE_DIR] = {OP(create), 0, EVENT_dir_create},
	[MAKE_SYMLINK] = {OP(symlink) | OP(create), 0, EVENT_symlink_create},
	[REMOVE] = {OP(delete), 0, EVENT_file_delete},
	[REMOVE_DIR] = {OP(delete), 0, EVENT_dir_delete},
	[MOVE] = {OP(rename), OP(rename) | OP(create), EVENT_file_rename},
	[LINK] = {OP(link), OP(link) | OP(create), EVENT_file_link},
	[CHANGE_MODE] = {OP(chmod), 0, EVENT_file_chmod},
	[CHANGE_OWNER] = {OP(chown), 0, EVENT_file_chown},
	[CHANGE_SIZE] = {OP(truncate), 0, EVENT_file_truncate},
	[CHANGE_LINKS_OWNER] = {OP(chown), 0, EVENT_file_chown},
};

static const struct held_row *row_of(const struct seccomp_notif *n)
{
	const struct held_row *row = calls;

	while (row->nr != n->data.nr)
		row++;
	return row;
}

/* The warden itself makes a chmod with the set-group-ID bit: see exec/attributes.h. */
static bool takes(const struct seccomp_notif *n)
{
	const struct held_row *row = row_of(n);

	return row->change != CHANGE_MODE || (n->data.args[row->path + 1] & S_ISGID) == 0;
}

bool held_calls_needed(const struct policy *p)
{
	return policy_approves(p, OP(create) | OP(delete) | OP(rename) | OP(symlink) | OP(link) |
					  OP(open) | OP(read) | OP(write) | OP(chmod) | OP(chown) |
					  OP(truncate));
}

/* ---- which files: on a thread of the walker ---- */

struct held_path {
	char base[32]; /* of a relative path: "cwd" or "fd/3" */
	uint64_t at;   /* in the caller's memory; 0: the call has no such path */
	bool follow;   /* a link at its end */
	/* found */
	char *path; /* canonical; NULL: no file server serves it, or not found */
	bool exists, directory;
};
struct held_walk {
	pid_t tid;
	int root;
	const struct workspace_names *names;
	struct held_path from, to;
};

static char *read_path(const struct held_walk *w, const struct held_path *p)
{
	struct buf path = {0};
	struct args_memory m;
	pid_t tid = w->tid;

	args_memory_init(&m, caller_page, &tid);
	if (args_string(&m, p->at, PATH_MAX, &path) == 0 && path.data[0] != '\0')
		return buf_take(&path);
	buf_done(&path);
	return NULL;
}

/* Without slashes at its end. NULL: nothing can be made or removed by this path. */
static char *make_absolute(const char *base, const char *path)
{
	char *all = path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", base, path);
	size_t len = strlen(all);
	const char *name;

	while (len > 1 && all[len - 1] == '/')
		all[--len] = '\0';
	name = strrchr(all, '/') + 1;
	if (all[0] == '/' && len < PATH_MAX && *name != '\0' && strcmp(name, ".") != 0 &&
	    strcmp(name, "..") != 0)
		return all;
	free(all);
	return NULL;
}

/* Opens the directory of the name and writes where the session sees it. */
static int open_parent(const struct held_walk *w, const char *path, char seen[PATH_MAX])
{
	const size_t len = (size_t)(strrchr(path, '/') - path);
	cleanup_free char *parent = len > 0 ? mem_strndup(path, len) : mem_strdup("/");
	int fd = fdio_openat2(w->root, parent, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT);
	char link[32];

	snprintf(link, sizeof(link), "fd/%d", fd);
	if (fd >= 0 && (caller_link(getpid(), link, seen) != 0 || seen[0] != '/'))
		close(take_fd(fd));
	return fd;
}

/* The target of the link `name`; NULL: it is not a link. */
static char *read_link(int dir, const char *name)
{
	char target[PATH_MAX];
	const ssize_t n = readlinkat(dir, name, target, sizeof(target));

	return n > 0 && n < PATH_MAX ? mem_strndup(target, (size_t)n) : NULL;
}

static void find_path(const struct held_walk *w, struct held_path *p)
{
	cleanup_free char *path = p->at != 0 ? read_path(w, p) : NULL;
	char seen[PATH_MAX] = "";

	if (path == NULL || (path[0] != '/' && caller_link(w->tid, p->base, seen) != 0))
		return;
	for (unsigned i = 0; i < LINKS && path != NULL; i++) {
		cleanup_free char *all = make_absolute(seen, path), *whole = NULL;
		cleanup_fd int dir = all != NULL ? open_parent(w, all, seen) : -1;
		const char *name;
		struct stat st;

		if (dir < 0)
			return;
		name = strrchr(all, '/') + 1;
		mem_replace(&path, p->follow ? read_link(dir, name) : NULL);
		if (path != NULL)
			continue;
		p->exists = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
		p->directory = p->exists && S_ISDIR(st.st_mode);
		whole = mem_printf("%s/%s", seen[1] != '\0' ? seen : "", name);
		p->path = workspace_canonical(w->names, whole);
		if (p->path == NULL)
			p->path = take(whole);
		if (workspace_served(w->names, p->path) == NULL || strlen(p->path) >= PATH_MAX)
			free(take(p->path));
		return;
	}
}

static void find_paths(void *arg)
{
	struct held_walk *w = arg;

	find_path(w, &w->from);
	find_path(w, &w->to);
}

static void drop_walk(void *arg)
{
	struct held_walk *w = arg;

	if (w == NULL)
		return;
	free(w->from.path);
	free(w->to.path);
	free(w);
}

/* ---- one call: on the listener's thread ---- */

struct held_calls {
	struct held_setup setup;
	struct listener *listener;
	struct gate_asker asker;
	struct actor_reader *reader;
	LIST_HEAD(, held_case) cases;
};
struct held_case {
	LIST_ENTRY(held_case) link;
	struct held_calls *held;
	const struct held_row *row;
	uint64_t id;
	pid_t tid;
	unsigned flags;
	int64_t began_us;
	struct walk *walk;	 /* NULL: it is over */
	struct held_walk *found; /* the walk's until it is over */
	struct op op;
	struct gate_case k; /* waits if its id is not 0 */
	struct file_grant grant;
};

static void free_case(struct held_case *c)
{
	LIST_REMOVE(c, link);
	if (c->walk == NULL || walk_end(c->walk))
		drop_walk(c->found);
	free(c);
}

static void answer(struct held_case *c, int errnum)
{
	listener_send(c->held->listener, c->id, errnum);
	free_case(c);
}

/* It never reaches agentsh-fs, so its event is written here. */
static void refuse(struct held_case *c)
{
	cleanup_free char *on_host = workspace_on_host(c->held->setup.names, c->op.file.path);
	const struct gate_report report = {
		.outcome = GATE_REFUSED,
		.latency_us = (uint64_t)(clock_mono_us(&clock_system) - c->began_us),
		.type = changes[c->row->change].type,
		.real_path = on_host,
		.to = c->k.to,
		.error = EACCES};

	gate_settle(c->held->setup.gate, &c->k, &report);
	answer(c, EACCES);
}

static void on_answer(struct gate_case *k, void *arg)
{
	struct held_case *c = arg;

	if (!listener_valid(c->held->listener, c->id))
		gate_refuse(k, GATE_WHY_GONE);
	if (!verdict_allows(&k->verdict)) {
		refuse(c);
		return;
	}
	strcpy(c->grant.approval_id, k->approval_id);
	actor_table_grant(c->held->setup.actors, c->tid, &c->grant);
	answer(c, 0);
}

/* What agentsh-fs will ask for. False: the call fails, or changes no directory. */
static bool find_ops(const struct held_case *c, unsigned *ops, unsigned *to_ops)
{
	const struct held_path *from = &c->found->from, *to = &c->found->to;
	const bool two = c->row->to != NONE;
	const unsigned mode = c->flags & O_ACCMODE;
	const bool exchange = c->row->change == MOVE && (c->flags & RENAME_EXCHANGE) != 0;

	*ops = changes[c->row->change].ops;
	*to_ops = changes[c->row->change].to_ops;
	if (c->row->change == MAKE_FILE)
		*ops |= (mode != O_WRONLY ? OP(read) : 0) | (mode != O_RDONLY ? OP(write) : 0);
	if (exchange)
		*to_ops = *ops;
	else if (c->row->change == MOVE && to->exists)
		*to_ops |= OP(delete);
	if (from->path == NULL || (two && to->path == NULL))
		return false;
	if (c->row->change < REMOVE)
		return !from->exists;
	return from->exists && (!two || exchange == to->exists ||
				(c->row->change == MOVE && (c->flags & RENAME_NOREPLACE) == 0));
}

/* Fills the grant. False: the policy has decided already, and agentsh-fs holds it. */
static bool needs_approval(struct held_case *c, struct file_rules rules[2])
{
	const struct policy *p = gate_policy(c->held->setup.gate);
	const char *const path[] = {c->found->from.path, c->found->to.path};
	unsigned ops[2];
	uint32_t *const granted[] = {&c->grant.ops, &c->grant.to_ops};

	if (!find_ops(c, &ops[0], &ops[1]))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(path) && path[i] != NULL; i++) {
		uint32_t set;

		policy_decide_file(p, path[i], false, &rules[i]);
		set = policy_file_set(p, &rules[i]);
		if (i == 1 && c->row->change == MOVE && !c->found->to.directory)
			ops[i] &= policy_replace_ops(set) | ~OP(delete);
		*granted[i] = ops[i] & POLICY_FILE_APPROVE(set);
		if ((ops[i] & set & POLICY_FILE_ALL) != *granted[i])
			return false;
	}
	file_grant_name(&c->grant, path[0], path[1]);
	return (c->grant.ops | c->grant.to_ops) != 0;
}

/* The paths are known. */
static void decide(struct held_case *c)
{
	struct held_calls *h = c->held;
	const struct gate_waiter waiter = {&h->asker, on_answer, c};
	const struct actor_query who = {.id = c->tid, .asked_us = c->began_us, .process = true};
	struct file_rules rules[2];
	unsigned ops, at;

	if (!needs_approval(c, rules)) {
		answer(c, 0);
		return;
	}
	at = c->grant.ops == 0;
	ops = at == 0 ? c->grant.ops : c->grant.to_ops;
	c->op = (struct op){.class = OP_FILE,
			    .file = {(enum op_file)__builtin_ctz(ops),
				     at == 0 ? c->found->from.path : c->found->to.path}};
	c->k = (struct gate_case){.op = &c->op, .to = c->found->to.path};
	actor_find(h->reader, &who, &c->k.actor);
	/* If the caller is dead by now, the memory that was read may be another process's. */
	if (!listener_valid(h->listener, c->id)) {
		free_case(c);
		return;
	}
	gate_ask_file(h->setup.gate, &c->k, &rules[at]);
	c->op.file.path = c->found->from.path;
	c->k.at_to = at == 1;
	c->k.also = (c->grant.ops | c->grant.to_ops) & ~(1U << c->op.file.op);
	if (gate_hold(h->setup.gate, &c->k, &waiter) != GATE_PENDING)
		refuse(c);
}

/* ---- as the listener's handler ---- */

static void set_base(struct held_path *p, const __u64 *v, unsigned dir, unsigned path)
{
	const int fd = dir != NONE ? (int)v[dir] : AT_FDCWD;

	snprintf(p->base, sizeof(p->base), fd == AT_FDCWD ? "cwd" : "fd/%d", fd);
	p->at = path != NONE ? v[path] : 0;
}

static void wake_listener(void *listener)
{
	listener_wake(listener);
}

static void on_call(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	struct held_calls *h = arg;
	struct held_case *c = mem_new(struct held_case);
	struct held_walk *w = mem_new(struct held_walk);
	const __u64 *v = n->data.args;
	const struct walk_job job = {find_paths, drop_walk, w, wake_listener, l};

	h->listener = l;
	actor_table_revoke(h->setup.actors, (pid_t)n->pid);
	c->held = h;
	c->row = row_of(n);
	c->id = n->id;
	c->tid = (pid_t)n->pid;
	c->began_us = clock_mono_us(&clock_system);
	c->flags = c->row->flags != NONE	 ? (unsigned)v[c->row->flags]
		   : c->row->change == MAKE_FILE ? O_CREAT | O_WRONLY | O_TRUNC
						 : 0;
	c->found = w;
	*w = (struct held_walk){.tid = c->tid, .root = h->setup.root, .names = h->setup.names};
	set_base(&w->from, v, c->row->dir, c->row->path);
	set_base(&w->to, v, c->row->to_dir, c->row->to);
	w->from.follow = (c->row->change == MAKE_FILE && (c->flags & (O_EXCL | O_NOFOLLOW)) == 0) ||
			 (c->row->change == LINK && (c->flags & AT_SYMLINK_FOLLOW) != 0) ||
			 (c->row->change >= CHANGE_MODE && c->row->change != CHANGE_LINKS_OWNER &&
			  (c->flags & AT_SYMLINK_NOFOLLOW) == 0);
	LIST_INSERT_HEAD(&h->cases, c, link);
	c->walk = walk_start(h->setup.walker, &job);
	if (c->walk == NULL) {
		c->found = NULL;
		answer(c, EIO);
	}
}

static size_t under_way(void *arg, struct pollfd *out, size_t room, int *timeout_ms)
{
	const struct held_calls *h = arg;

	if (LIST_EMPTY(&h->cases) || room == 0)
		return 0;
	out[0] = (struct pollfd){.fd = -1}; /* walks and answers wake the thread */
	if (*timeout_ms < 0 || *timeout_ms > LOOK_MS)
		*timeout_ms = LOOK_MS;
	return 1;
}

static void turn(struct listener *l, void *arg)
{
	struct held_calls *h = arg;
	const int64_t late_us = clock_mono_us(&clock_system) - WALK_MS * INT64_C(1000);
	struct held_case *c, *next;

	gate_resume(h->setup.gate, &h->asker);
	for (c = LIST_FIRST(&h->cases); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (c->walk != NULL && walk_over(c->walk)) {
			walk_end(take(c->walk));
			decide(c);
		} else if (c->walk != NULL && c->began_us < late_us) {
			answer(c, EIO); /* its path is not known, so it has no event */
		} else if (!listener_valid(l, c->id) &&
			   (c->walk != NULL || gate_gone(h->setup.gate, &c->k))) {
			if (c->walk != NULL)
				free_case(c);
			else
				refuse(c);
		}
	}
}

/* Calls that wait get ENOSYS. */
static void end(void *arg)
{
	struct held_calls *h = arg;

	while (!LIST_EMPTY(&h->cases)) {
		struct held_case *c = LIST_FIRST(&h->cases);

		if (c->walk == NULL)
			gate_gone(h->setup.gate, &c->k);
		free_case(c);
	}
}

struct listener_handler held_calls_handler(struct held_calls *h)
{
	static int numbers[ARRAY_LEN(calls)];

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		numbers[i] = calls[i].nr;
	return (struct listener_handler){.calls = numbers,
					 .ncalls = ARRAY_LEN(numbers),
					 .on = on_call,
					 .under_way = under_way,
					 .turn = turn,
					 .end = end,
					 .arg = h,
					 .takes = takes};
}

static void wake(void *arg)
{
	listener_wake(((struct held_calls *)arg)->listener);
}

struct held_calls *held_calls_new(const struct held_setup *s)
{
	struct held_calls *h = mem_new(struct held_calls);

	h->setup = *s;
	h->asker = (struct gate_asker){wake, h};
	h->reader = actor_reader_new(s->actors);
	LIST_INIT(&h->cases);
	return h;
}

void held_calls_free(struct held_calls *h)
{
	if (h == NULL)
		return;
	actor_reader_free(h->reader);
	free(h);
}
