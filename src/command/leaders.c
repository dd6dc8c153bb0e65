// SPDX-License-Identifier: Apache-2.0
#include "command/leaders.h"
#include "base/mem.h"
#include "base/proc.h"
#include "command/run.h"
#include <sys/socket.h>

#define IDLE_MAX 2

static void take_message(struct leader *l, struct link_msg *m)
{
	struct proc_origin origin;

	if (l->id.pid == 0) {
		l->id.pid = m->cred.pid;
		/* Where execs are watched, the initial exec gives the start time. */
		if (l->cs->control == NULL && proc_origin(l->id.pid, &origin) == 0 &&
		    leader_alive(l))
			l->id.start = origin.start;
	}
	run_on_leader(l->run, m);
	link_msg_done(m);
}

/* A message or end of file of an idle leader is its end. The loop reads one message a turn: a check
 * for another one costs as much as another turn. */
static void on_readable(void *arg)
{
	struct leader *l = arg;
	struct link_msg m;
	const enum link_status status = link_recv(&l->link, &m, NULL);

	if (status == LINK_AGAIN)
		return;
	if (l->run == NULL) {
		if (status == LINK_OK)
			link_msg_done(&m);
		LIST_REMOVE(l, next);
		leader_free(l);
	} else if (status != LINK_OK) {
		watch_stop(l->watch);
		l->cs->leader_died(l->cs->owner, l->run->ask.command_id);
	} else {
		take_message(l, &m);
	}
}

bool leader_settle(struct leader *l)
{
	struct link_msg m;
	enum link_status status = LINK_OK;

	while (l->run->phase != RUN_DEAD && (status = link_recv(&l->link, &m, NULL)) == LINK_OK)
		take_message(l, &m);
	return status == LINK_OK || status == LINK_AGAIN;
}

/* A leader sends three short messages, so its link needs no wide buffers. */
static int open_link(struct run *r, int *theirs, struct err *err)
{
	const int on = 1;
	struct leader *l;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot make the leader's link");
	*theirs = pair[1];
	l = mem_new(struct leader);
	*l = (struct leader){.cs = r->cs, .run = r};
	link_init(&l->link, pair[0], SIDE_WARDEN, SIDE_LEADER);
	l->watch = watch_readable(r->cs->loop, pair[0], on_readable, l);
	r->leader = l;
	if (setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot prepare the leader's link");
	return 0;
}

static void expect(struct run *r, struct init_spawn *ask, const struct actor_leader *leader)
{
	actor_table_expect(r->cs->actors, ask->id, leader, r->ask.command_id);
	ask->key = exec_expect(r->cs->control, ask->id, r->initial);
}

int leader_ask(struct run *r, struct init_spawn *ask, const int fd[LEADER_FDS], struct err *err)
{
	cleanup_fd int theirs = -1;
	struct leader *l;
	int code;

	while ((l = LIST_FIRST(&r->cs->idle)) != NULL) {
		LIST_REMOVE(l, next);
		expect(r, ask, &l->id);
		/* Sending to a dead leader fails. */
		if (link_send(&l->link, MSG_leader_spawn, 0, ask, fd, fd[3] >= 0 ? 4 : 3, NULL) ==
		    LINK_OK) {
			l->run = r;
			r->leader = l;
			return 0;
		}
		run_spawn_over(r, false);
		leader_free(l);
	}
	code = open_link(r, &theirs, err);
	if (code < 0)
		return code;
	const int fds[] = {fd[0], fd[1], fd[2], theirs, fd[3]};

	expect(r, ask, &r->leader->id);
	if (link_send(r->cs->init, MSG_init_spawn, 0, ask, fds, fd[3] >= 0 ? 5 : 4, err) != LINK_OK)
		return -err->code;
	watch_start(r->leader->watch);
	return 0;
}

void leader_rest(struct leader *l)
{
	const struct leader *other;
	unsigned n = 0;

	if (l == NULL)
		return;
	LIST_FOREACH (other, &l->cs->idle, next)
		n++;
	l->run = NULL;
	if (n >= IDLE_MAX)
		leader_free(l);
	else
		LIST_INSERT_HEAD(&l->cs->idle, l, next);
}

void leader_free(struct leader *l)
{
	if (l == NULL)
		return;
	watch_free(l->watch);
	link_done(&l->link);
	free(l);
}

void leaders_free_idle(struct commands *cs)
{
	struct leader *l;

	while ((l = LIST_FIRST(&cs->idle)) != NULL) {
		LIST_REMOVE(l, next);
		leader_free(l);
	}
}

bool leader_alive(const struct leader *l)
{
	char c;

	return recv(l->link.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}
