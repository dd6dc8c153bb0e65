// SPDX-License-Identifier: Apache-2.0
/* Sandboxes that are prepared before a session is asked for: a warden that waits, in a group of its
 * own, and its init, which has its namespaces, root, devices and network. Limits, uid, names,
 * workspace and policy come last, by a message with descriptors. One serves a session if it was
 * prepared by the same recipe and the host still shows what it did then. Where there is none, one
 * is made for the session; it gets its message at once. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define REFILL_MS 20	    /* behind the answer that emptied it */
#define REFILL_SLOW_MS 1000 /* after one that died */

struct pooled {
	TAILQ_ENTRY(pooled) next;
	struct launcher *l;
	pid_t pid;
	int pidfd, sock;
	uint64_t group;
	struct idmap map;     /* its session's uid and gid, and whose files it may get; shown_uid 0:
				 none */
	int userns;	      /* owned; for that map; -1: none */
	struct buf recipe;    /* owned; that of its plan */
	uint64_t fingerprint; /* what the host showed */
	bool ready;
	bool listed; /* in the pool */
	struct watch *readable, *death;
};

static void refill_in(struct launcher *l, unsigned ms)
{
	/* A time that is set stays: sessions that come one after the other must not put it off. */
	if (!l->stopping && l->pool.refill != NULL && watch_due_us(l->pool.refill) == 0)
		watch_after(l->pool.refill, ms);
}

static void unlist(struct pooled *p)
{
	if (p->listed)
		TAILQ_REMOVE(&p->l->pool.list, p, next);
	p->listed = false;
}

static void pooled_free(struct pooled *p)
{
	unlist(p);
	watch_free(p->readable);
	watch_free(p->death);
	mem_cleanup_fd(&p->pidfd);
	mem_cleanup_fd(&p->sock);
	mem_cleanup_fd(&p->userns);
	buf_done(&p->recipe);
	free(p);
}

/* What was prepared until now serves nobody. */
static void age(struct launcher *l)
{
	struct pooled *p;

	TAILQ_FOREACH (p, &l->pool.list, next)
		p->fingerprint = 0;
}

static void on_word(void *arg)
{
	struct pooled *p = arg;
	struct launcher *l = p->l;
	size_t nfds = 1;
	char word;

	watch_stop(p->readable);
	if (fdio_recv(p->sock, &word, 1, &p->userns, &nfds, NULL) != 1)
		return; /* its pidfd tells of its end */
	p->ready = word == ASSIGNMENT_READY;
	if (word != ASSIGNMENT_FAILED) {
		l->pool.failing = false;
		return;
	}
	if (!l->pool.failing)
		log_warn("a sandbox could not be prepared; it is tried again each second");
	l->pool.failing = true;
	refill_in(l, REFILL_SLOW_MS); /* before the discarding, which would set a short time */
	pool_discard(p);
}

static void on_death(void *arg)
{
	struct pooled *p = arg;
	struct launcher *l = p->l;
	const uint64_t group = p->group;

	waitpid(p->pid, NULL, 0);
	log_warn("a prepared sandbox ended");
	pooled_free(p);
	group_drop(l, group);
	refill_in(l, REFILL_SLOW_MS);
}

/* It is dead when this returns: a killed process that only waits takes no time to end. */
void pool_discard(struct pooled *p)
{
	struct launcher *l;
	uint64_t group;

	if (p == NULL)
		return;
	l = p->l;
	group = p->group;
	proc_pidfd_signal(p->pidfd, SIGKILL);
	waitpid(p->pid, NULL, 0);
	pooled_free(p);
	group_drop(l, group);
	refill_in(l, REFILL_MS);
}

static int fork_one(struct launcher *l, struct stub *stub, struct pooled **out, struct err *err)
{
	const pid_t parent = getpid();
	struct pooled *p;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot talk to a new sandbox");
	stub->sock = pair[1];
	pid = stub->group != 0 && !stub->makes_group ? group_fork(l, stub->group, &stub->born_in_it)
						     : fork();
	if (pid == 0)
		stub_main(stub, parent);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_errno(err, E_UNAVAILABLE, NULL, "fork");
	}
	p = mem_new(struct pooled);
	*p = (struct pooled){.l = l,
			     .pid = pid,
			     .sock = pair[0],
			     .group = stub->group,
			     .map = stub->map,
			     .userns = -1};
	p->pidfd = proc_pidfd(pid);
	if (p->pidfd < 0) {
		err_errno(err, E_UNAVAILABLE, NULL, "cannot watch a new sandbox: pidfd_open");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pooled_free(p);
		return -E_UNAVAILABLE;
	}
	*out = p;
	return 0;
}

struct pooled *pool_make(struct launcher *l, const struct sandbox_plan *plan, uint64_t group,
			 int tree_fd, struct err *err)
{
	struct stub stub = {.l = l, .plan = plan, .group = group, .tree_fd = tree_fd};
	struct pooled *p = NULL;

	return fork_one(l, &stub, &p, err) < 0 ? NULL : p;
}

static int add_one(struct launcher *l, const struct sandbox_plan *plan, struct err *err)
{
	struct stub stub = {
		.l = l, .plan = plan, .group = group_next(l), .makes_group = true, .tree_fd = -1};
	const uint64_t fingerprint = sandbox_fingerprint(plan);
	uint32_t uid = 0;
	struct pooled *p;
	int r = uids_allot(l, &uid, err);

	if (r < 0)
		return r;
	stub.map = (struct idmap){l->pool.owner_uid, l->pool.owner_gid, uid, uid};
	r = fork_one(l, &stub, &p, err);
	if (r < 0)
		return r;
	p->fingerprint = fingerprint;
	sandbox_recipe(plan, &p->recipe);
	p->listed = true;
	TAILQ_INSERT_TAIL(&l->pool.list, p, next);
	p->readable = watch_readable(l->loop, p->sock, on_word, p);
	p->death = watch_readable(l->loop, p->pidfd, on_death, p);
	if (watch_start(p->readable) < 0 || watch_start(p->death) < 0) {
		err_set(err, E_UNAVAILABLE, NULL, "cannot watch a new sandbox: " LOOP_FULL);
		pool_discard(p);
		return -E_UNAVAILABLE;
	}
	return 0;
}

/* Whether the host's mounts are others than when this was last asked. */
static bool mounts_changed(const struct launcher *l)
{
	struct pollfd pfd = {l->pool.mounts, POLLPRI, 0};

	return poll(&pfd, 1, 0) != 0;
}

static bool same(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static void discard_others(struct launcher *l, const struct sandbox_plan *plan)
{
	const uint64_t fingerprint = sandbox_fingerprint(plan);
	cleanup_buf struct buf recipe = {0};
	struct pooled *p, *next;

	sandbox_recipe(plan, &recipe);
	if (mounts_changed(l))
		age(l);
	for (p = TAILQ_FIRST(&l->pool.list); p != NULL; p = next) {
		next = TAILQ_NEXT(p, next);
		if (p->fingerprint != fingerprint || !same(&p->recipe, &recipe))
			pool_discard(p);
	}
}

static void on_refill(void *arg)
{
	struct launcher *l = arg;
	const struct pooled *p;
	struct sandbox_plan plan;
	struct err err = {0};
	int64_t n = 0;

	make_recipe(l, &plan);
	discard_others(l, &plan);
	TAILQ_FOREACH (p, &l->pool.list, next)
		n++;
	for (; n < l->settings.config.pool_size && !l->stopping; n++)
		if (add_one(l, &plan, &err) < 0) {
			log_warn("no sandbox can be prepared", "error", err.message);
			refill_in(l, REFILL_SLOW_MS);
			break;
		}
	sandbox_plan_done(&plan);
}

void pool_empty(struct launcher *l)
{
	while (!TAILQ_EMPTY(&l->pool.list))
		pool_discard(TAILQ_FIRST(&l->pool.list));
}

void pool_start(struct launcher *l)
{
	/* A user namespace is made by its session's uid. */
	if (!l->privileged || l->settings.config.root_inside) {
		pool_stop(l);
		return;
	}
	if (l->pool.refill == NULL) {
		l->pool.refill = watch_timer(l->loop, on_refill, l);
		l->pool.mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	}
	ensure(l->pool.refill != NULL);
	if (l->pool.mounts == -1) {
		log_warn("no sandbox is prepared: /proc/self/mountinfo cannot be read");
		return;
	}
	pool_empty(l);
	refill_in(l, REFILL_MS);
}

void pool_stop(struct launcher *l)
{
	if (l->pool.refill == NULL)
		return;
	watch_free(l->pool.refill);
	l->pool.refill = NULL;
	mem_cleanup_fd(&l->pool.mounts);
	l->pool.mounts = -1;
	pool_empty(l);
}

struct pooled *pool_find(struct launcher *l, const struct sandbox_plan *plan)
{
	cleanup_buf struct buf recipe = {0};
	struct pooled *p, *found = NULL;
	uint64_t fingerprint;

	/* Of the next session the same is expected. */
	l->pool.owner_uid = plan->owner_uid;
	l->pool.owner_gid = plan->owner_gid;
	if (TAILQ_EMPTY(&l->pool.list) || sandbox_user_namespace(plan))
		return NULL;
	if (mounts_changed(l))
		age(l);
	fingerprint = sandbox_fingerprint(plan);
	sandbox_recipe(plan, &recipe);
	TAILQ_FOREACH (p, &l->pool.list, next) {
		const bool owner =
			p->map.disk_uid == plan->owner_uid && p->map.disk_gid == plan->owner_gid;

		if (p->ready && p->fingerprint == fingerprint && same(&p->recipe, &recipe) &&
		    (found == NULL || owner))
			found = p;
	}
	if (found == NULL) /* those that are there are out of date, or not ready yet */
		refill_in(l, REFILL_MS);
	return found;
}

void pool_take(struct pooled *p)
{
	refill_in(p->l, REFILL_MS);
	unlist(p);
}

uint32_t pooled_uid(const struct pooled *p)
{
	return p->map.shown_uid;
}

int pooled_userns(struct pooled *p, const struct idmap *map)
{
	return memcmp(&p->map, map, sizeof(*map)) == 0 ? take_fd(p->userns) : -1;
}

bool pool_has_uid(const struct launcher *l, uint32_t uid)
{
	const struct pooled *p;

	TAILQ_FOREACH (p, &l->pool.list, next)
		if (p->map.shown_uid == uid)
			return true;
	return false;
}

uint64_t pooled_group(const struct pooled *p)
{
	return p->group;
}

bool pool_has(const struct launcher *l, uint64_t group)
{
	const struct pooled *p;

	TAILQ_FOREACH (p, &l->pool.list, next)
		if (p->group == group)
			return true;
	return false;
}

size_t pool_ready(const struct launcher *l)
{
	const struct pooled *p;
	size_t n = 0;

	TAILQ_FOREACH (p, &l->pool.list, next)
		n += p->ready;
	return n;
}

int pool_hand_over(const struct pooled *p, struct assignment *o, const struct sandbox_plan *plan,
		   const int fd[ASSIGNMENT_FDS], const struct sandbox_trees *view, struct err *err)
{
	return assignment_send(p->sock, o, plan, fd, view, err);
}

pid_t pool_release(struct pooled *p, int *pidfd)
{
	const pid_t pid = p->pid;

	*pidfd = take_fd(p->pidfd);
	pooled_free(p);
	return pid;
}
