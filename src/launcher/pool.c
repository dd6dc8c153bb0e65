// SPDX-License-Identifier: Apache-2.0
/* Sandboxes that are prepared before a client asks for a session. A prepared sandbox is a stub that
 * waits in a control group of its own, and its init, which has its namespaces, root, devices and
 * network. Limits, uid, names, workspace and policy follow in a message with descriptors.
 *
 * A prepared sandbox serves a session if the session's plan has the same recipe and the host's
 * fingerprint has not changed. Otherwise a sandbox is made for the session, and gets its message at
 * once. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#define REFILL_MS 20	    /* after the answer that took a sandbox from the pool */
#define REFILL_SLOW_MS 1000 /* after a sandbox died or could not be prepared */

static void refill_in(struct launcher *l, unsigned ms)
{
	/* A time that is set stays: many sessions in a row must not delay the refill. */
	if (!l->stopping && l->pool.refill != NULL && watch_due_us(l->pool.refill) == 0)
		watch_after(l->pool.refill, ms);
}

static void pooled_free(struct pooled *p)
{
	if (p->listed)
		TAILQ_REMOVE(&p->l->pool.list, p, next);
	watch_free(p->readable);
	child_forget(&p->stub);
	mem_cleanup_fd(&p->sock);
	mem_cleanup_fd(&p->userns[0]);
	mem_cleanup_fd(&p->userns[1]);
	buf_done(&p->recipe);
	free(p);
}

static void discard_bad(struct pooled *p)
{
	refill_in(p->l, REFILL_SLOW_MS); /* before pool_discard, which sets a short time */
	pool_discard(p);
}

static void on_word(void *arg)
{
	struct pooled *p = arg;
	struct launcher *l = p->l;
	size_t nfds = ARRAY_LEN(p->userns);
	char word;
	const ssize_t n = fdio_recv(p->sock, &word, 1, p->userns, &nfds, NULL);

	if (n == 1 && word == ASSIGNMENT_USERNS)
		return; /* another word follows */
	watch_stop(p->readable);
	if (n != 1)
		return; /* the stub has ended: on_death follows */
	p->ready = word == ASSIGNMENT_READY;
	if (word == ASSIGNMENT_FAILED && !l->pool.failing)
		log_warn("a sandbox could not be prepared; it is tried again each second");
	l->pool.failing = word == ASSIGNMENT_FAILED;
	if (l->pool.failing)
		discard_bad(p);
}

static void on_death(void *arg)
{
	log_warn("a prepared sandbox ended");
	discard_bad(arg);
}

/* Waits for the end of the stub: a killed process that only waits ends at once. */
void pool_discard(struct pooled *p)
{
	struct launcher *l = p->l;
	const uint64_t group = p->group;

	child_end(&p->stub, NULL);
	pooled_free(p);
	group_drop(l, group);
	l->bpf.check.ended++;
	refill_in(l, REFILL_MS);
}

struct pooled *pool_make(struct launcher *l, struct stub *stub, struct err *err)
{
	const pid_t parent = getpid();
	struct pooled *p;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_errno(err, E_UNAVAILABLE, NULL, "cannot make the socket of a new sandbox");
		return NULL;
	}
	stub->sock = pair[1];
	exec_sessions_plan(&l->bpf.check, stub->makes_group || l->settings.config.pool_size == 0,
			   l->alive);
	pid = stub->group != 0 && !stub->makes_group ? group_fork(l, stub->group, &stub->born_in_it)
						     : fork();
	if (pid == 0)
		stub_main(stub, parent);
	close(pair[1]);
	p = mem_new(struct pooled);
	*p = (struct pooled){.l = l,
			     .stub = CHILD_NONE,
			     .sock = pair[0],
			     .group = stub->group,
			     .map = stub->map,
			     .userns = {-1, -1}};
	if (child_open(&p->stub, pid, err) == 0)
		return p;
	pooled_free(p);
	return NULL;
}

static int add_one(struct launcher *l, const struct sandbox_plan *plan, struct err *err)
{
	struct sandbox_plan own = *plan;
	struct stub stub = {
		.l = l, .plan = &own, .group = group_next(l), .makes_group = true, .tree_fd = -1};
	const uint64_t fingerprint = sandbox_fingerprint(plan);
	uint32_t uid = 0;
	struct pooled *p;
	int r = uids_allot(l, &uid, err);

	if (r < 0)
		return r;
	own.uid = own.gid = uid;
	stub.map = (struct idmap){l->pool.owner_uid, l->pool.owner_gid, uid, uid};
	p = pool_make(l, &stub, err);
	if (p == NULL)
		return -E_UNAVAILABLE;
	p->fingerprint = fingerprint;
	sandbox_recipe(plan, &p->recipe);
	p->listed = true;
	TAILQ_INSERT_TAIL(&l->pool.list, p, next);
	p->readable = watch_readable(l->loop, p->sock, on_word, p);
	watch_start(p->readable);
	r = child_watch(&p->stub, l->loop, on_death, p, err);
	if (r < 0)
		pool_discard(p);
	return r;
}

/* What the pool must match now. A change of the host's mounts makes every prepared sandbox useless.
 * POLLPRI on mountinfo means a change since the last poll. */
static uint64_t look_at_host(struct launcher *l, const struct sandbox_plan *plan,
			     struct buf *recipe)
{
	struct pollfd pfd = {l->pool.mounts, POLLPRI, 0};
	struct pooled *p;

	if (poll(&pfd, 1, 0) != 0)
		TAILQ_FOREACH (p, &l->pool.list, next)
			p->fingerprint = 0;
	sandbox_recipe(plan, recipe);
	return sandbox_fingerprint(plan);
}

static bool serves(const struct pooled *p, uint64_t fingerprint, const struct buf *recipe)
{
	return p->fingerprint == fingerprint && p->recipe.len == recipe->len &&
	       memcmp(p->recipe.data, recipe->data, recipe->len) == 0;
}

static void on_refill(void *arg)
{
	struct launcher *l = arg;
	cleanup_buf struct buf recipe = {0};
	struct pooled *p, *next;
	struct sandbox_plan plan;
	struct err err = {0};
	uint64_t fingerprint;
	int64_t n = 0;

	make_recipe(l, &plan);
	fingerprint = look_at_host(l, &plan, &recipe);
	for (p = TAILQ_FIRST(&l->pool.list); p != NULL; p = next) {
		next = TAILQ_NEXT(p, next);
		if (serves(p, fingerprint, &recipe))
			n++;
		else
			pool_discard(p);
	}
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
	/* The uid of a session must make its user namespace: nothing can be prepared. */
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
	watch_free(take(l->pool.refill));
	close(take_fd(l->pool.mounts)); /* -1 is fine */
	pool_empty(l);
}

struct pooled *pool_find(struct launcher *l, const struct sandbox_plan *plan)
{
	cleanup_buf struct buf recipe = {0};
	struct pooled *p, *found = NULL;
	uint64_t fingerprint;

	/* The files of the next session probably have the same owner. */
	l->pool.owner_uid = plan->owner_uid;
	l->pool.owner_gid = plan->owner_gid;
	if (TAILQ_EMPTY(&l->pool.list) || sandbox_user_namespace(plan))
		return NULL;
	fingerprint = look_at_host(l, plan, &recipe);
	TAILQ_FOREACH (p, &l->pool.list, next) {
		const bool owner =
			p->map.disk_uid == plan->owner_uid && p->map.disk_gid == plan->owner_gid;

		if (p->ready && serves(p, fingerprint, &recipe) && (found == NULL || owner))
			found = p;
	}
	if (found == NULL) /* the sandboxes of the pool are out of date, or not ready yet */
		refill_in(l, REFILL_MS);
	return found;
}

void pool_take(struct pooled *p)
{
	refill_in(p->l, REFILL_MS);
	TAILQ_REMOVE(&p->l->pool.list, p, next);
	p->listed = false;
}

struct idmap home_map(const struct launcher *l, uint32_t uid)
{
	const uint32_t first = l->settings.config.session_uids.first;

	return (struct idmap){first, first, uid, uid};
}

int pooled_userns(struct pooled *p, const struct idmap *map)
{
	const struct idmap maps[] = {p->map, home_map(p->l, p->map.shown_uid)};

	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		if (memcmp(&maps[i], map, sizeof(*map)) == 0)
			return take_fd(p->userns[i]);
	return -1;
}

struct child pool_release(struct pooled *p)
{
	struct child stub = p->stub;

	watch_free(take(stub.death));
	p->stub = CHILD_NONE;
	pooled_free(p);
	return stub;
}
