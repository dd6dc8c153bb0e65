// SPDX-License-Identifier: Apache-2.0
/* Stubs that are forked before a session is asked for. To join a cgroup costs more than all other
 * walls together (the kernel waits for a grace period of RCU), so a stub makes a group and joins it
 * in advance; limits, uid, workspace and policy come last, by a message with descriptors.
 *
 * One that waits belongs to the launcher: it dies with it (PDEATHSIG, and its socket ends), holds
 * none of the launcher's descriptors and not its lock. The message brings the lock, so that the
 * next launcher cannot look for sessions while this one is between being told and being found.
 */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/state.h"
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define REFILL_MS 20	    /* behind the answer that emptied it */
#define REFILL_SLOW_MS 1000 /* after one that died */
#define PLAN_MAX (512 * 1024)
#define WALLS_MAX (64 * 1024)
#define ORDERS_MAX (PLAN_MAX + 2 * WALLS_MAX)
#define READY 'r'

struct pooled {
	TAILQ_ENTRY(pooled) next;
	struct launcher *l;
	pid_t pid;
	int pidfd, sock;
	uint64_t group;
	bool ready;
	bool listed; /* in the pool */
	struct event *readable, *death;
};

/* What a stub is told, besides descriptors. The limits are for a process of the same program. */
struct orders {
	char *session_id;
	struct bytes plan, limits;
	struct strv walls;
};
#define ROW(kind, name, max) FIELD(struct orders, kind, name, max)
static const struct field rows[] = {
	ROW(FIELD_STR, session_id, ID_MAX),
	ROW(FIELD_BYTES, plan, PLAN_MAX),
	ROW(FIELD_BYTES, limits, sizeof(struct cgroup_limits)),
	ROW(FIELD_STRV, walls, WALLS_MAX),
};
static const struct fields orders_fields = {"orders", sizeof(struct orders), rows, ARRAY_LEN(rows)};
enum {
	FD_ORDERS,
	FD_LISTEN,
	FD_API,
	FD_INIT,
	FD_INIT_LINK,
	FD_TREE,
	FD_RING,
	FD_ACK,
	FD_POLICY,
	FD_REPORT,
	FD_LOCK,
	FDS
};
_Static_assert(FDS <= FDIO_MAX_FDS, "one message carries them");

/* ---- in the stub ---- */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void close_others(const struct launcher *l, int sock)
{
	int keep[4 + CGROUP_TREES] = {sock, l->programs.warden_fd, l->programs.init_fd,
				      l->programs.state_fd};
	size_t n = 4;

	for (size_t i = 0; i < l->groups.host.n; i++)
		keep[n++] = l->groups.host.tree[i].dir;
	qsort(keep, n, sizeof(keep[0]), compare);
	fdio_close_except(keep, n);
}

static int make_group(const struct launcher *l, uint64_t group, struct err *err)
{
	char id[GROUP_ID_MAX];
	const struct cgroup_ask ask = {.id = id,
				       .limits = {.memory_bytes = CGROUP_NO_LIMIT,
						  .swap_bytes = CGROUP_NO_LIMIT,
						  .cpu_percent = CGROUP_NO_LIMIT,
						  .pids = CGROUP_NO_LIMIT,
						  .io_read_bps = CGROUP_NO_LIMIT,
						  .io_write_bps = CGROUP_NO_LIMIT}};
	struct wall_report walls;
	int r;

	group_id(l, group, id);
	wall_report_init(&walls);
	r = cgroup_create(&l->groups.host, &ask, &walls, err);
	return r < 0 ? r : cgroup_join(&l->groups.host, id, 0, err);
}

static int load_orders(int fd, struct stub *s, struct orders *o, struct sandbox_plan *plan)
{
	cleanup_buf struct buf text = {0};

	if (fdio_load(fd, ORDERS_MAX, &text, NULL) < 0 ||
	    fields_unpack(&orders_fields, text.data, text.len, false, o, NULL) < 0 ||
	    o->limits.len != sizeof(s->limits) ||
	    fields_unpack(&sandbox_plan_fields, o->plan.data, o->plan.len, false, plan, NULL) < 0)
		return -1;
	memcpy(&s->limits, o->limits.data, sizeof(s->limits));
	s->session_id = o->session_id;
	s->walls = &o->walls;
	s->plan = plan;
	return 0;
}

static _Noreturn void obey(struct launcher *l, int sock, uint64_t group)
{
	struct stub s = {.l = l, .group = group, .joined = true};
	struct sandbox_plan plan;
	struct orders orders;
	int fd[FDS];
	size_t nfds = FDS;
	char byte;

	if (fdio_recv(sock, &byte, 1, fd, &nfds, NULL) != 1 || nfds != FDS)
		_exit(0); /* the launcher has no use for it */
	s.listen_fd = fd[FD_LISTEN];
	s.api_fd = fd[FD_API];
	s.init_fd = fd[FD_INIT];
	s.init_link = fd[FD_INIT_LINK];
	s.tree_fd = fd[FD_TREE];
	s.ring_fd = fd[FD_RING];
	s.ack_fd = fd[FD_ACK];
	s.policy_fd = fd[FD_POLICY];
	s.policy_fd = fd[FD_POLICY];
	s.report_fd = fd[FD_REPORT];
	s.lock_fd = fd[FD_LOCK];
	if (load_orders(fd[FD_ORDERS], &s, &orders, &plan) < 0 ||
	    prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0)
		_exit(125);
	stub_go_on(&s);
}

static _Noreturn void pooled_main(struct launcher *l, int sock, uint64_t group, pid_t parent)
{
	const char ready = READY;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    stub_leave_launcher(l, NULL) < 0)
		_exit(125);
	close_others(l, sock);
	if (make_group(l, group, NULL) < 0 || fdio_send(sock, &ready, 1, NULL, 0) < 0)
		_exit(125);
	obey(l, sock, group);
}

/* ---- in the launcher ---- */

static void refill_in(struct launcher *l, int ms)
{
	const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	if (!l->stopping && l->pool.refill != NULL)
		event_add(l->pool.refill, &tv);
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
	if (p->readable != NULL)
		event_free(p->readable);
	if (p->death != NULL)
		event_free(p->death);
	mem_cleanup_fd(&p->pidfd);
	mem_cleanup_fd(&p->sock);
	free(p);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	struct pooled *p = arg;
	char byte;

	/* its end is seen by its pidfd */
	event_del(p->readable);
	p->ready = fdio_recv(p->sock, &byte, 1, NULL, NULL, NULL) == 1;
}

static void on_death(evutil_socket_t fd, short what, void *arg)
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

static int add_one(struct launcher *l, struct err *err)
{
	const uint64_t group = group_next(l);
	const pid_t parent = getpid();
	struct pooled *p;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "socketpair");
	pid = fork();
	if (pid == 0)
		pooled_main(l, pair[1], group, parent);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_errno(err, E_UNAVAILABLE, NULL, "fork");
	}
	p = mem_new(struct pooled);
	*p = (struct pooled){.l = l, .pid = pid, .sock = pair[0], .group = group, .listed = true};
	TAILQ_INSERT_TAIL(&l->pool.list, p, next);
	p->pidfd = proc_pidfd(pid);
	p->readable = event_new(l->base, p->sock, EV_READ | EV_PERSIST, on_ready, p);
	ensure(p->pidfd >= 0 && p->readable != NULL);
	p->death = event_new(l->base, p->pidfd, EV_READ, on_death, p);
	ensure(p->death != NULL);
	event_add(p->readable, NULL);
	event_add(p->death, NULL);
	return 0;
}

static void on_refill(evutil_socket_t fd, short what, void *arg)
{
	struct launcher *l = arg;
	const struct pooled *p;
	struct err err = {0};
	int64_t n = 0;

	TAILQ_FOREACH (p, &l->pool.list, next)
		n++;
	for (; n < l->settings.config.pool_size && !l->stopping; n++)
		if (add_one(l, &err) < 0) {
			log_warn("no sandbox can be prepared", "error", err.message);
			refill_in(l, REFILL_SLOW_MS);
			return;
		}
}

void pool_start(struct launcher *l)
{
	/* A user namespace is made by its session's uid, and a group is joined for its limits. */
	if (!l->privileged || l->groups.host.n == 0)
		return;
	if (l->pool.refill == NULL)
		l->pool.refill = event_new(l->base, -1, 0, on_refill, l);
	ensure(l->pool.refill != NULL);
	while (!TAILQ_EMPTY(&l->pool.list))
		pool_discard(TAILQ_FIRST(&l->pool.list));
	refill_in(l, REFILL_MS);
}

void pool_stop(struct launcher *l)
{
	if (l->pool.refill != NULL)
		event_free(l->pool.refill);
	l->pool.refill = NULL;
	while (!TAILQ_EMPTY(&l->pool.list))
		pool_discard(TAILQ_FIRST(&l->pool.list));
}

struct pooled *pool_take(struct launcher *l)
{
	struct pooled *p;

	TAILQ_FOREACH (p, &l->pool.list, next)
		if (p->ready)
			break;
	if (p == NULL)
		return NULL;
	unlist(p);
	refill_in(l, REFILL_MS);
	return p;
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

static int write_orders(const struct stub *s, int *fd, struct err *err)
{
	cleanup_buf struct buf plan = {0}, text = {0};
	struct orders o = {.session_id = (char *)s->session_id, .walls = *s->walls};

	fields_pack(&sandbox_plan_fields, s->plan, &plan);
	o.plan = (struct bytes){(uint8_t *)plan.data, plan.len};
	o.limits = (struct bytes){(uint8_t *)&s->limits, sizeof(s->limits)};
	fields_pack(&orders_fields, &o, &text);
	*fd = fdio_sealed("agentsh-orders", text.data, text.len);
	return *fd < 0 ? err_errno(err, E_UNAVAILABLE, NULL, "memfd_create") : 0;
}

int pool_hand_over(struct pooled *p, const struct stub *s, pid_t *pid, int *pidfd, struct err *err)
{
	cleanup_fd int orders = -1;
	const char byte = 0;
	int r = write_orders(s, &orders, err);

	if (r < 0)
		return r;
	const int fd[FDS] = {orders,	   s->listen_fd, s->api_fd,  s->init_fd,
			     s->init_link, s->tree_fd,	 s->ring_fd, s->ack_fd,
			     s->policy_fd, s->report_fd, s->lock_fd};

	if (fdio_send(p->sock, &byte, 1, fd, FDS) < 0)
		return err_errno(err, E_UNAVAILABLE, s->session_id,
				 "the prepared sandbox does not answer");
	*pid = p->pid;
	*pidfd = take_fd(p->pidfd);
	pooled_free(p);
	return 0;
}
