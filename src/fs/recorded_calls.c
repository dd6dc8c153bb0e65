// SPDX-License-Identifier: Apache-2.0
#include "fs/recorded_calls.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "bpf/exec_layout.h"
#include "bpf/file_layout.h"
#include "fs/call_ring.h"
#include "fs/opened_files.h"
#include "fs/recorded_path.h"
#include "model/file_type.h"
#include "model/workspace_names.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define TURN 2048	  /* records between two looks at other descriptors */
#define DRAIN 8192	  /* more than the ring holds */
#define GATHER_MS 1	  /* so long calls are gathered: a wake-up costs more than a record */
#define AGAIN_MS 50	  /* while the ring of events is full */
#define ANSWERS 2048	  /* of agentsh-fs that are remembered; more than the ring has records */
#define ANSWER_US 1000000 /* an older one belongs to another call */

struct recorded_calls {
	struct recorded_calls_setup setup;
	struct call_ring *ring;
	struct file_view view;
	struct watch *readable, *turn;
	struct opened_files *opened; /* NULL: bytes are not counted */
	uint64_t dropped;	     /* calls that were reported as lost */
	uint32_t served_dev;	     /* as in struct file_call; 0: none */
	bool closing;		     /* the warden does not answer any more */
	pthread_mutex_t lock;	     /* of answers */
	/* Refusals that agentsh-fs has recorded: of this thread, then (CLOCK_BOOTTIME). */
	struct {
		uint32_t tid; /* 0: its call was found */
		int64_t at_us;
	} answer[ANSWERS];
	unsigned answers; /* so far */
};

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
	return call->operation == FILE_OPEN ? call->flags & (O_ACCMODE | O_CREAT | O_TRUNC)
					    : call->operation != FILE_STAT;
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
	const struct call_kind kind = recorded_kind(r->call);
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

static void record(struct recorded_calls *c, const struct actor_query *q, struct gate_case *k,
		   struct gate_report *report)
{
	cleanup_free char *real =
		c->setup.real != NULL
			? path_swap(k->op->file.path, WORKSPACE_CANONICAL, c->setup.real)
			: NULL;

	report->real_path = real;
	k->actor.pid = q->id;
	if (!fs_actors_led(c->setup.actors, q, &k->actor) && !c->closing) {
		fs_actors_ask(c->setup.actors, q, k, report);
		return;
	}
	gate_settle(c->setup.p->gate, k, report);
	fs_session_recorded(c->setup.session, k, report);
}

/* An opened_report_fn. */
static void record_bytes(void *arg, const struct opened_report *r)
{
	const struct op op = {.class = OP_FILE, .file = {r->op, r->path}};
	struct gate_case k = {.op = &op};
	struct gate_report report = {.outcome = GATE_DONE,
				     .has_bytes = r->has_bytes,
				     .bytes = r->has_bytes ? r->bytes : 0,
				     .mapped = r->mapped,
				     .file_type = file_type(r->path, NULL, 0)};
	struct recorded_calls *c = arg;

	decide(c, &k);
	record(c, r->who, &k, &report);
}

static bool is_refusal(int result)
{
	return result == -EROFS || result == -EACCES || result == -EPERM;
}

static bool is_refused(const struct file_call *call)
{
	return is_refusal(call->result);
}

static void settle(struct recorded_calls *c, const struct recorded_call *r)
{
	const struct file_call *call = r->call;
	const struct call_kind kind = recorded_kind(call);
	const int64_t slept = clock_boot_us(&clock_system) - clock_mono_us(&clock_system);
	const struct actor_query q = {.id = (pid_t)call->pid,
				      .leader = (pid_t)call->top,
				      .asked_us = (int64_t)(call->time / 1000) - slept};
	const struct op op = {.class = OP_FILE, .file = {kind.op, r->path}};
	struct gate_case k = {.op = &op};
	char flags[OPEN_FLAGS_MAX];
	struct gate_report report = {.outcome = is_refused(call)   ? GATE_REFUSED
						: call->result < 0 ? GATE_FAILED
								   : GATE_DONE,
				     .type = kind.type,
				     .to = r->to,
				     .error = call->result < 0 ? -call->result : 0,
				     .argument = call->path_source == FILE_PATH_ARGUMENT};

	if (report.outcome == GATE_REFUSED)
		judge(c, r, &k.verdict);
	else
		decide(c, &k);
	if (call->operation == FILE_OPEN) {
		open_flags_format((int)call->flags, flags);
		report.flags = flags;
	}
	record(c, &q, &k, &report);
	if (call->slot != 0 && c->opened != NULL)
		opened_files_add(c->opened, call, &q, r->path);
}

/* The host may have moved a directory that is served in the workspace, and another one may be at
 * its path: an open knows. The name of the directory itself is one of the directory above it. */
static bool is_served(const struct recorded_calls *c, const struct recorded_call *r)
{
	const struct file_place *p = r->path[0] == '/' ? file_view_find(&c->view, r->path) : NULL;
	const bool names = changes(r->call) && recorded_kind(r->call).link_self;

	if (r->call->dev != 0 && c->served_dev != 0)
		return r->call->dev == c->served_dev;
	return p != NULL && p->rest == HOLDER_SERVER && !(names && strcmp(r->path, p->path) == 0);
}

void recorded_calls_answered(struct recorded_calls *c, uint32_t tid, int result)
{
	if (c == NULL || !is_refusal(result))
		return;
	pthread_mutex_lock(&c->lock);
	c->answer[c->answers % ANSWERS].tid = tid;
	c->answer[c->answers++ % ANSWERS].at_us = clock_boot_us(&clock_system);
	pthread_mutex_unlock(&c->lock);
}

/* Whether agentsh-fs has recorded the refusal: its last answer to the thread was the call's. The
 * name alone does not show it, because it may have led through a link that is gone by now. */
static bool was_answered(struct recorded_calls *c, const struct file_call *call)
{
	const int64_t end_us = (int64_t)(call->time / 1000);
	bool found = false;

	pthread_mutex_lock(&c->lock);
	for (unsigned n = 1; n <= ANSWERS && !found; n++) {
		const unsigned i = (c->answers - n) % ANSWERS;

		if (c->answer[i].at_us < end_us - ANSWER_US)
			break;
		found = c->answer[i].tid == call->tid && c->answer[i].at_us <= end_us;
		if (found)
			c->answer[i].tid = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* Whether the warden may have refused the call before it came to agentsh-fs: see
 * exec/held_calls.h. It has recorded that. */
static bool may_be_held(const struct recorded_calls *c, const struct recorded_call *r)
{
	const char *const paths[] = {r->path, r->call->operation != FILE_SYMLINK ? r->to : NULL};
	const struct policy *policy = gate_policy(c->setup.p->gate);
	struct file_rules rules;
	bool may = false;

	for (size_t i = 0; c->setup.plan->holds && i < ARRAY_LEN(paths) && paths[i] != NULL; i++) {
		policy_decide_file(policy, paths[i], false, &rules);
		may |= POLICY_FILE_APPROVE(policy_file_set(policy, &rules)) != 0;
	}
	return may;
}

/* By the kernel's own links (/proc/self/fd/N) it may have led anywhere. In /proc itself no such
 * call succeeds. */
static bool led_anywhere(const struct recorded_call *r)
{
	const char *const paths[] = {r->path, r->call->operation != FILE_SYMLINK ? r->to : NULL};
	bool led = false;

	for (size_t i = 0; i < ARRAY_LEN(paths) && paths[i] != NULL; i++)
		led |= path_within(paths[i], "/proc") || path_within(paths[i], "/dev/fd");
	return led && r->call->result >= 0 && r->call->path_source == FILE_PATH_ARGUMENT;
}

static void on_record(const void *record, size_t len, void *arg)
{
	struct recorded_calls *c = arg;
	struct recorded_call r;
	bool served, wanted;

	if (!recorded_call_read(record, len, &r))
		return;
	wanted = is_refused(r.call);
	/* A name of the workspace may lead into a directory that is served. */
	if (wanted || (c->setup.plan->fuse && r.call->path_source == FILE_PATH_ARGUMENT))
		recorded_call_follow(&r, &c->view, c->setup.tree);
	served = is_served(c, &r);
	recorded_call_name(&r, &c->view);
	if (served)
		wanted = wanted && !was_answered(c, r.call) && !may_be_held(c, &r);
	else if (!wanted)
		wanted = listed(&c->setup.plan->recorded_paths, &r) ||
			 (c->setup.plan->recorded_paths.n > 0 &&
			  (recorded_call_unknown(&r) || led_anywhere(&r)));
	if (wanted)
		settle(c, &r);
	else if (r.call->slot != 0 && c->opened != NULL)
		opened_files_add(c->opened, r.call, NULL, NULL);
	recorded_call_done(&r);
}

/* Tells of calls that did not fit into the ring. Whenever one does not, there is more to read. */
static void count_lost(struct recorded_calls *c)
{
	const uint64_t dropped = __atomic_load_n(&c->setup.record->dropped, __ATOMIC_ACQUIRE);
	const struct event e = {.schema = EVENT_SCHEMA,
				.type = EVENT_events_dropped,
				.time_us = (uint64_t)clock_wall_us(&clock_system),
				.session_id = event_lend(c->setup.p->args.session_id),
				.count = (uint32_t)(dropped - c->dropped),
				.reason = event_lend("the kernel's ring of file calls was full")};

	if (dropped > c->dropped)
		recorder_event(&c->setup.p->recorder, &e, NULL, NULL);
	c->dropped = dropped;
}

/* False: the ring of events is full. */
static bool read_some(struct recorded_calls *c, unsigned most)
{
	bool room = true;

	for (unsigned n = 0; n < most; n++) {
		room = recorder_has_room(&c->setup.p->recorder);
		if (!room || call_ring_read(c->ring, 1, on_record, c) == 0)
			break;
	}
	if (room)
		count_lost(c);
	return room;
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
	if (c == NULL)
		return;
	read_some(c, DRAIN);
	if (c->opened != NULL)
		opened_files_report(c->opened);
}

/* Where the kernel's numbers of file systems and inodes are those of stat(), and the workspace
 * alone is recorded, the program leaves out what is elsewhere. */
static void choose_root(const struct recorded_calls_setup *s)
{
	static const uint32_t kinds[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, TMPFS_MAGIC,
					 F2FS_SUPER_MAGIC};
	struct statx st;
	struct statfs fs;

	if (s->plan->recorded_paths.n != 1 || fstatfs(s->tree, &fs) < 0 ||
	    strcmp(s->plan->recorded_paths.v[0], WORKSPACE_CANONICAL) != 0 ||
	    statx(s->tree, "", AT_EMPTY_PATH, STATX_INO, &st) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if ((uint32_t)fs.f_type == kinds[i]) {
			s->record->root_dev = EXEC_DEV(st.stx_dev_major, st.stx_dev_minor);
			s->record->root_ino = st.stx_ino;
		}
}

/* What blocked paths hide from the session lies open here. */
static bool may_know(void *arg, const char *path, enum op_file op)
{
	const struct recorded_calls *c = arg;
	const struct recorded_call here = {.path = (char *)(uintptr_t)path};
	const struct policy *policy = gate_policy(c->setup.p->gate);
	struct file_rules rules;
	struct verdict v;

	if (listed(&c->setup.plan->blocked_paths, &here) ||
	    listed(&c->setup.plan->blocked_inside, &here) ||
	    listed(&c->setup.plan->kept_out, &here))
		return false;
	policy_decide_file(policy, path, false, &rules);
	policy_file_verdict(policy, &rules, op, false, &v);
	return verdict_allows(&v);
}

void recorded_calls_similar(const struct recorded_calls *c, const char *path, struct strv *out)
{
	const struct similar_ask ask = {.root = c->setup.tree,
					.shown = WORKSPACE_CANONICAL,
					.allows = may_know,
					.arg = (void *)(uintptr_t)c};

	similar_files(&ask, path, out);
}

int recorded_calls_new(const struct recorded_calls_setup *s, struct recorded_calls **out,
		       struct err *err)
{
	struct recorded_calls *c = mem_new(struct recorded_calls);
	int r;

	c->setup = *s;
	pthread_mutex_init(&c->lock, NULL);
	sandbox_file_view(s->plan, &c->view);
	r = call_ring_open(s->ring, &c->ring, err);
	if (r < 0) {
		recorded_calls_free(c);
		return r;
	}
	c->readable = watch_readable(s->p->loop, s->ring, on_readable, c);
	c->turn = watch_timer(s->p->loop, on_turn, c);
	watch_start(c->readable);
	if (s->plan->recorded_paths.n > 0)
		choose_root(s);
	if (s->plan->recorded_paths.n > 0) {
		c->opened = opened_files_new(s->slots, record_bytes, c);
		s->record->count_opened = 1;
	}
	__atomic_store_n(&s->record->record,
			 s->plan->recorded_paths.n > 0 ? FILE_WANT_DONE | FILE_WANT_REFUSED |
								 FILE_WANT_FAILED | FILE_WANT_STAT
						       : FILE_WANT_REFUSED,
			 __ATOMIC_RELEASE);
	*out = c;
	return 0;
}

int recorded_calls_served(struct recorded_calls *c, int mount, struct err *err)
{
	struct statx st;

	/* No thread serves the mount yet: the kernel must not ask for attributes. */
	if (statx(mount, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot look at the mount");
	c->served_dev = EXEC_DEV(st.stx_dev_major, st.stx_dev_minor);
	return 0;
}

void recorded_calls_free(struct recorded_calls *c)
{
	if (c == NULL)
		return;
	c->closing = true;
	if (c->ring != NULL)
		recorded_calls_drain(c);
	opened_files_free(c->opened);
	watch_free(c->readable);
	watch_free(c->turn);
	call_ring_free(c->ring);
	file_view_done(&c->view);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
