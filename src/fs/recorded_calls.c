// SPDX-License-Identifier: Apache-2.0
/* The program records what a call said: a directory and a text. The kernel resolves links, and this
 * process cannot, outside of its own trees; so an event says that its path is the argument. A name
 * in a tree of ours that leads out of it by a symbolic link is followed, because agentsh-fs sees no
 * more of such a call than that the link was read. */
#include "fs/recorded_calls.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "bpf/file_layout.h"
#include "fs/call_ring.h"
#include "model/file_type.h"
#include "model/workspace_names.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#define TURN 2048   /* records between two looks at other descriptors */
#define DRAIN 8192  /* more than the ring holds */
#define GATHER_MS 1 /* so long calls are gathered: a wake-up costs more than a record */
#define AGAIN_MS 50 /* while the ring of events is full */
#define LINKS_MAX 40
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

struct recorded_calls {
	struct recorded_calls_setup setup;
	struct call_ring *ring;
	struct file_view view;
	struct watch *readable, *turn;
	uint64_t dropped; /* calls that were reported as lost */
	bool closing;	  /* the warden does not answer any more */
};

struct recorded_call {
	const struct file_call *call;
	char *path, *to; /* owned; to: NULL: none */
};

static const struct call_kind {
	enum op_file op;
	uint32_t type;	/* enum event_type */
	bool link_self; /* a link as the last name is not followed */
} kinds[] = {
	[FILE_OPEN] = {OP_FILE_open, EVENT_file_open, false},
	[FILE_UNLINK] = {OP_FILE_delete, EVENT_file_delete, true},
	[FILE_RENAME] = {OP_FILE_rename, EVENT_file_rename, true},
	[FILE_LINK] = {OP_FILE_link, EVENT_file_link, true},
	[FILE_SYMLINK] = {OP_FILE_symlink, EVENT_symlink_create, true},
	[FILE_MKDIR] = {OP_FILE_create, EVENT_dir_create, true},
	[FILE_MKNOD] = {OP_FILE_create, EVENT_file_mknod, true},
	[FILE_CHMOD] = {OP_FILE_chmod, EVENT_file_chmod, false},
	[FILE_CHOWN] = {OP_FILE_chown, EVENT_file_chown, false},
	[FILE_TRUNCATE] = {OP_FILE_truncate, EVENT_file_truncate, false},
	[FILE_UTIMES] = {OP_FILE_write, EVENT_file_write, false},
	[FILE_XATTR] = {OP_FILE_write, EVENT_file_xattr, false},
};

static struct call_kind kind_of(const struct file_call *call)
{
	struct call_kind kind = kinds[call->operation];

	if (call->operation == FILE_OPEN && call->flags & O_DIRECTORY)
		return (struct call_kind){OP_FILE_list, EVENT_dir_list, false};
	if (call->operation == FILE_OPEN && call->created)
		return (struct call_kind){OP_FILE_create, EVENT_file_create, false};
	if (call->operation == FILE_OPEN)
		kind.link_self = call->flags & O_NOFOLLOW ||
				 (call->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	if (call->operation == FILE_UNLINK && call->flags & AT_REMOVEDIR)
		kind.type = EVENT_dir_delete;
	return kind;
}

/* ---- names ---- */

static char *name_of(const char *base, size_t base_len, const char *argument, size_t argument_len,
		     bool cut)
{
	cleanup_free char *dir = mem_strndup(base, base_len);
	cleanup_free char *text = mem_strndup(argument, argument_len);
	cleanup_free char *path = path_clean(dir, text);

	/* the beginning is not known */
	return cut && text[0] != '/' ? mem_printf("...%s", path) : take(path);
}

static bool read_call(const void *record, size_t len, struct recorded_call *out)
{
	const struct file_call *call = record;
	const bool cut = call->cut & FILE_CUT_BASE;
	const char *text[5];

	if (len < sizeof(*call) || call->operation >= ARRAY_LEN(kinds) ||
	    kinds[call->operation].type == 0)
		return false;
	text[0] = (const char *)(call + 1);
	for (int i = 0; i < 2; i++) {
		text[2 * i + 1] = text[2 * i] + call->path[i].base_len;
		text[2 * i + 2] = text[2 * i + 1] + call->path[i].argument_len;
	}
	if (text[4] > (const char *)record + len)
		return false;
	*out = (struct recorded_call){.call = call};
	out->path =
		name_of(text[0], call->path[0].base_len, text[1], call->path[0].argument_len, cut);
	if (call->operation == FILE_SYMLINK)
		out->to = mem_strndup(text[3], call->path[1].argument_len);
	else if (call->operation == FILE_RENAME || call->operation == FILE_LINK)
		out->to = name_of(text[2], call->path[1].base_len, text[3],
				  call->path[1].argument_len, cut);
	return true;
}

/* The place of a tree of ours, or NULL. */
static const struct file_place *served(const struct recorded_calls *c, const char *path)
{
	const struct file_place *p = path[0] == '/' ? file_view_find(&c->view, path) : NULL;

	return p != NULL && p->rest == HOLDER_SERVER ? p : NULL;
}

static int open_below(int tree, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags), .resolve = BENEATH};

	return (int)syscall(SYS_openat2, tree, path[0] != '\0' ? path : ".", &how, sizeof(how));
}

/* The first symbolic link of a path below the tree: the bytes of the path up to its end, and its
 * text; 0: no link. last: a link as the last name counts. */
static size_t find_link(int tree, const char *path, bool last, char text[PATH_MAX])
{
	cleanup_fd int whole = open_below(tree, path, last ? 0 : O_NOFOLLOW);
	size_t end = 0;

	if (whole >= 0 || errno != ELOOP)
		return 0;
	while (path[end] != '\0') {
		const size_t begin = end + (path[end] == '/');
		cleanup_free char *part = mem_strndup(path, begin + strcspn(path + begin, "/"));
		cleanup_fd int fd = -1;
		ssize_t n;

		end = strlen(part);
		if (path[end] == '\0' && !last)
			return 0;
		fd = open_below(tree, part, O_NOFOLLOW);
		n = fd >= 0 ? readlinkat(fd, "", text, PATH_MAX - 1) : -1;
		if (fd < 0)
			return 0;
		if (n > 0) {
			text[n] = '\0';
			return end;
		}
	}
	return 0;
}

/* Follows the links of our trees. False: the path stays in them, and agentsh-fs has seen the call.
 */
static bool leads_out(const struct recorded_calls *c, char **path, bool last)
{
	const struct file_place *p;
	char text[PATH_MAX];

	for (int i = 0; (p = served(c, *path)) != NULL; i++) {
		const size_t shown = strlen(p->path);
		cleanup_free char *canonical = path_swap(*path, p->path, p->canonical);
		const char *below = canonical + strlen(WORKSPACE_CANONICAL);
		size_t end, above;

		below += *below == '/';
		end = i < LINKS_MAX ? find_link(c->setup.tree, below, last, text) : 0;
		if (end == 0)
			return false;
		/* as the session names it: the directory of the link, its text, and the rest */
		end = strlen(*path) - (strlen(below) - end);
		above = end;
		while (above > shown && (*path)[above - 1] != '/')
			above--;
		cleanup_free char *dir = mem_strndup(*path, above);
		cleanup_free char *next = mem_printf("%s%s", text, *path + end);

		mem_replace(path, path_clean(dir, next));
	}
	return true;
}

/* ---- what it was refused by ---- */

static bool listed(const struct strv *list, const struct recorded_call *r)
{
	for (size_t i = 0; i < list->n; i++)
		if (path_within(r->path, list->v[i]) ||
		    (r->to != NULL && path_within(r->to, list->v[i])))
			return true;
	return false;
}

static bool changes(const struct file_call *call)
{
	return call->operation != FILE_OPEN || call->flags & (O_ACCMODE | O_CREAT | O_TRUNC);
}

/* What an open needs of the policy, as bits FILE_OP(). */
static unsigned open_ops(unsigned flags)
{
	const unsigned mode = flags & O_ACCMODE;

	return FILE_OP(open) | (mode != O_WRONLY ? FILE_OP(read) : 0) |
	       (mode != O_RDONLY ? FILE_OP(write) : 0) | (flags & O_CREAT ? FILE_OP(create) : 0) |
	       (flags & O_TRUNC ? FILE_OP(truncate) : 0);
}

/* Where Landlock holds the policy, a rule of it is the reason. */
static bool policy_denies(const struct recorded_calls *c, const struct recorded_call *r,
			  struct verdict *v)
{
	const struct policy *policy = gate_policy(c->setup.p->gate);
	const struct call_kind kind = kind_of(r->call);
	const char *const paths[] = {r->path, r->call->operation != FILE_SYMLINK ? r->to : NULL};
	const unsigned ops =
		kind.op == OP_FILE_open ? open_ops(r->call->flags) : 1U << (unsigned)kind.op;
	struct file_rules rules;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (paths[i] == NULL || paths[i][0] != '/')
			continue;
		policy_decide_file(policy, paths[i], false, &rules);
		for (unsigned op = 0; op < OP_FILES; op++) {
			if ((ops & 1U << op) == 0)
				continue;
			policy_file_verdict(policy, &rules, (enum op_file)op, false, v);
			if (!verdict_allows(v))
				return true;
		}
	}
	return false;
}

static struct verdict refused_by(const char *rule, const char *why)
{
	return (struct verdict){.decision = DECISION_deny,
				.effective = DECISION_deny,
				.rule = rule,
				.why = why,
				.final = true};
}

/* A list of the configuration that has the path, the policy, or modes and mounts. */
static void judge(const struct recorded_calls *c, const struct recorded_call *r, struct verdict *v)
{
	const struct sandbox_plan *plan = c->setup.plan;
	static const char blocked[] = "filesystem.blocked_paths", shown[] = "this path is blocked",
			  read_only[] = "filesystem.read_only_passthrough_paths",
			  fixed[] = "this path is read-only";
	const struct {
		const struct strv *list;
		bool applies;
		const char *rule, *why;
	} rows[] = {{&plan->blocked_paths, true, blocked, shown},
		    {&plan->blocked_inside, true, blocked, shown},
		    {&plan->read_only_paths, changes(r->call), read_only, fixed},
		    {&plan->shut_inside, changes(r->call), read_only, fixed}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].applies && listed(rows[i].list, r)) {
			*v = refused_by(rows[i].rule, rows[i].why);
			return;
		}
	if (!policy_denies(c, r, v))
		*v = refused_by(EVENT_KERNEL_RULE, strerrordesc_np(-r->call->result));
}

/* ---- events ---- */

/* What a call that was not refused is by the policy, which could not stop it. */
static void decide(const struct recorded_calls *c, struct gate_case *k)
{
	const struct gate *gate = c->setup.p->gate;
	struct file_rules rules;

	policy_decide_file(gate_policy(gate), k->op->file.path, false, &rules);
	gate_ask_file(c->setup.p->gate, k, &rules);
	k->verdict.effective = DECISION_allow;
}

static void record(struct recorded_calls *c, const struct recorded_call *r, struct gate_case *k,
		   struct gate_report *report)
{
	const int64_t slept = clock_boot_us(&clock_system) - clock_mono_us(&clock_system);
	const struct actor_query q = {.id = (pid_t)r->call->pid,
				      .leader = (pid_t)r->call->top,
				      .asked_us = (int64_t)(r->call->time / 1000) - slept};

	k->actor.pid = q.id;
	if (!fs_actors_led(c->setup.actors, &q, &k->actor) && !c->closing) {
		fs_actors_ask(c->setup.actors, &q, k, report);
		return;
	}
	gate_settle(c->setup.p->gate, k, report);
	fs_session_recorded(c->setup.session, k, report);
}

static bool is_refused(const struct file_call *call)
{
	return call->result == -EROFS || call->result == -EACCES || call->result == -EPERM;
}

static void settle(struct recorded_calls *c, const struct recorded_call *r)
{
	const struct call_kind kind = kind_of(r->call);
	const struct op op = {.class = OP_FILE, .file = {kind.op, r->path}};
	struct gate_case k = {.op = &op};
	char flags[OPEN_FLAGS_MAX];
	cleanup_free char *real = c->setup.real != NULL
					  ? path_swap(r->path, WORKSPACE_CANONICAL, c->setup.real)
					  : NULL;
	struct gate_report report = {.outcome = is_refused(r->call)   ? GATE_REFUSED
						: r->call->result < 0 ? GATE_FAILED
								      : GATE_DONE,
				     .type = kind.type,
				     .real_path = real,
				     .to = r->to,
				     .error = r->call->result < 0 ? -r->call->result : 0,
				     .argument = r->call->path_source == FILE_PATH_ARGUMENT};

	if (report.outcome == GATE_REFUSED)
		judge(c, r, &k.verdict);
	else
		decide(c, &k);
	if (r->call->operation == FILE_OPEN) {
		open_flags_format((int)r->call->flags, flags);
		report.flags = flags;
	}
	record(c, r, &k, &report);
}

/* The name by which rules and events know the path. */
static void make_canonical(const struct recorded_calls *c, char **path)
{
	const struct file_place *p =
		*path != NULL && **path == '/' ? file_view_find(&c->view, *path) : NULL;

	if (p != NULL && p->canonical != NULL)
		mem_replace(path, path_swap(*path, p->path, p->canonical));
}

static void on_record(const void *record, size_t len, void *arg)
{
	struct recorded_calls *c = arg;
	struct recorded_call r;

	if (!read_call(record, len, &r))
		return;
	if (leads_out(c, &r.path, !kind_of(r.call).link_self)) {
		make_canonical(c, &r.path);
		if (r.call->operation != FILE_SYMLINK)
			make_canonical(c, &r.to);
		if (is_refused(r.call) || listed(&c->setup.plan->recorded_paths, &r))
			settle(c, &r);
	}
	free(r.path);
	free(r.to);
}

/* False: the ring of events is full. */
static bool read_some(struct recorded_calls *c, unsigned most)
{
	const uint64_t dropped = __atomic_load_n(&c->setup.record->dropped, __ATOMIC_ACQUIRE);

	for (unsigned n = 0; n < most; n++) {
		if (!recorder_has_room(&c->setup.p->recorder))
			return false;
		if (call_ring_read(c->ring, 1, on_record, c) == 0)
			break;
	}
	if (dropped > c->dropped) {
		recorder_lost(&c->setup.p->recorder, dropped - c->dropped);
		c->dropped = dropped;
	}
	return true;
}

static void on_readable(void *arg)
{
	struct recorded_calls *c = arg;

	watch_stop(c->readable);
	watch_after(c->turn, GATHER_MS);
}

static void on_turn(void *arg)
{
	struct recorded_calls *c = arg;

	if (read_some(c, TURN))
		watch_start(c->readable);
	else
		watch_after(c->turn, AGAIN_MS);
}

void recorded_calls_drain(struct recorded_calls *c)
{
	if (c != NULL)
		read_some(c, DRAIN);
}

int recorded_calls_new(const struct recorded_calls_setup *s, struct recorded_calls **out,
		       struct err *err)
{
	struct recorded_calls *c = mem_new(struct recorded_calls);
	int r;

	c->setup = *s;
	sandbox_file_view(s->plan, &c->view);
	r = call_ring_open(s->ring, &c->ring, err);
	if (r < 0) {
		recorded_calls_free(c);
		return r;
	}
	c->readable = watch_readable(s->p->loop, s->ring, on_readable, c);
	c->turn = watch_timer(s->p->loop, on_turn, c);
	watch_start(c->readable);
	__atomic_store_n(&s->record->record,
			 s->plan->recorded_paths.n > 0
				 ? FILE_WANT_DONE | FILE_WANT_REFUSED | FILE_WANT_FAILED
				 : FILE_WANT_REFUSED,
			 __ATOMIC_RELEASE);
	*out = c;
	return 0;
}

void recorded_calls_free(struct recorded_calls *c)
{
	if (c == NULL)
		return;
	c->closing = true;
	if (c->ring != NULL)
		read_some(c, DRAIN);
	watch_free(c->readable);
	watch_free(c->turn);
	call_ring_free(c->ring);
	file_view_done(&c->view);
	free(c);
}
