// SPDX-License-Identifier: Apache-2.0
#include "warden/execs.h"
#include "base/mem.h"
#include "bpf/exec_wants.h"
#include <errno.h>
#include <sys/syscall.h>

#define UNTOLD_MAX 64 /* execs after which the loop is woken before its time */

void execs_tell(struct execs *x, enum gate_outcome outcome)
{
	const bool urgent = outcome == GATE_REFUSED || outcome == GATE_MISMATCHED;
	bool wake;

	pthread_mutex_lock(&x->lock);
	wake = ++x->untold == UNTOLD_MAX || urgent || !x->awaited;
	x->awaited = true;
	pthread_mutex_unlock(&x->lock);
	if (wake)
		x->setup.wake(x->setup.arg);
}

bool execs_pause(struct execs *x)
{
	bool nothing;

	pthread_mutex_lock(&x->lock);
	nothing = x->untold == 0;
	x->untold = 0;
	x->awaited = !nothing;
	pthread_mutex_unlock(&x->lock);
	return nothing;
}

/* Any socket that our state program asks for is the one by which it sends the shell's state. */
static void on_socket(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	const struct execs *x = arg;
	const int fd = x->setup.state_socket(x->setup.arg, (pid_t)n->pid);

	if (fd < 0 || listener_give(l, n->id, fd) != 0)
		listener_send(l, n->id, fd < 0 ? -fd : EPERM);
	if (fd >= 0)
		close(fd);
}

static void set_wall(const struct execs *x, struct wall_report *walls)
{
	const struct policy *policy = gate_policy(x->setup.exec.gate);
	const bool by_kernel = x->setup.exec.wants != NULL && exec_control_lost(x->control) == 0;

	wall_set(walls, WALL_exec_policy, WALL_UP, "policy %s, %zu rules, verified by %s",
		 policy_name(policy), policy_rules(policy, OP_EXEC), by_kernel ? "bpf" : "stop");
}

bool execs_lost(struct execs *x, struct wall_report *walls, struct err *err)
{
	errno = exec_control_lost(x->control);
	if (errno == 0 || x->told_lost)
		return false;
	x->told_lost = true;
	err_errno(err, E_ENFORCEMENT, "exec_policy",
		  "the kernel does not check execs any more; they are compared at the exec stop");
	set_wall(x, walls);
	return true;
}

int execs_open(struct execs *x, const struct execs_setup *s, struct wall_report *walls,
	       struct err *err)
{
	static const int socket_call[] = {SYS_socket};
	struct listener_handler handlers[4];
	size_t n = 1;
	int r;

	x->setup = *s;
	pthread_mutex_init(&x->lock, NULL);
	x->attributes = (struct attributes){.root = s->own_trees == NULL ? s->exec.root : -1,
					    .trees = s->own_trees,
					    .walker = s->exec.walker};
	r = exec_control_open(&s->exec, &x->control, err);
	if (r < 0) {
		close(s->listener);
		return r;
	}
	handlers[0] = exec_control_handler(x->control);
	if (s->holds) {
		x->held = held_calls_new(&(struct held_setup){
			s->exec.gate, s->exec.actors, s->exec.root, s->exec.names, s->exec.walker});
		handlers[n++] = held_calls_handler(x->held);
	}
	handlers[n++] = attributes_handler(&x->attributes);
	if (s->state_socket != NULL)
		handlers[n++] = (struct listener_handler){
			.calls = socket_call, .ncalls = 1, .on = on_socket, .arg = x};
	r = listener_start(handlers, n, s->listener, &x->listener, err);
	if (r == 0)
		set_wall(x, walls);
	return r;
}

void execs_close(struct execs *x)
{
	listener_stop(take(x->listener));
	held_calls_free(take(x->held));
	exec_control_close(take(x->control));
	exec_wants_close(take(x->setup.exec.wants));
}
