// SPDX-License-Identifier: Apache-2.0
/* agentsh-test-process: a process of a session that only tests have. It is built with
 * -Dtest_processes=true only.
 *
 * It shows what a process gets by its row of the process table. A test stands in for the processes
 * whose operations it would intercept: the test connects to the abstract socket
 * "agentsh-test-process-SESSION_ID" (SOCK_SEQPACKET) and sends
 *
 *     ask PID OPERATION PATH    the process PID asks to do this to a file
 *     allow N, deny N           the approver's answer to question N, counted from 1
 *
 * The test process attributes the operation to a command, asks its gate and sends "N pending", and
 * "N allow COMMAND_ID" or "N deny COMMAND_ID" when it is decided. */
#include "base/clock.h"
#include "base/mem.h"
#include "process/process_self.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINE_MAX_BYTES 4608
#define APPROVAL_MS 60000

struct test_question {
	LIST_ENTRY(test_question) next;
	struct process_self *p;
	unsigned number;
	int64_t asked_us;
	char path[4097];
	struct op op;
	struct gate_case k;
};
struct test_state {
	int listen_fd, client_fd;
	struct watch *accepting, *readable;
	LIST_HEAD(, test_question) questions;
	unsigned asked;
};

static void reply(const struct test_question *q, const char *what)
{
	const struct test_state *t = q->p->program;
	char line[128];
	const int n = snprintf(line, sizeof(line), "%u %s %s", q->number, what,
			       q->k.actor.command_id[0] != '\0' ? q->k.actor.command_id : "-");

	send(t->client_fd, line, (size_t)n, MSG_NOSIGNAL);
}

static void forget(struct test_question *q)
{
	LIST_REMOVE(q, next);
	free(q);
}

static void settle(struct gate_case *k, void *arg)
{
	struct test_question *q = arg;
	const bool allowed = verdict_allows(&k->verdict);
	const struct gate_report report = {
		.outcome = allowed ? GATE_DONE : GATE_REFUSED,
		.latency_us = (uint64_t)(clock_mono_us(&clock_system) - q->asked_us)};

	gate_settle(q->p->gate, k, &report);
	reply(q, allowed ? "allow" : "deny");
	forget(q);
}

static void on_found(const struct actor *actor, void *arg)
{
	struct test_question *q = arg;
	const struct gate_waiter waiter = {&q->p->asker, settle, q};

	q->k = (struct gate_case){.op = &q->op, .actor = *actor};
	if (gate_ask(q->p->gate, &q->k, &waiter) == GATE_PENDING)
		reply(q, "pending");
	else
		settle(&q->k, q);
}

/* ---- the client ---- */

static void ask(struct process_self *p, pid_t pid, const char *operation, const char *path)
{
	struct test_state *t = p->program;
	struct test_question *q = mem_new(struct test_question);
	const struct actor_query query = {
		.id = pid, .asked_us = clock_mono_us(&clock_system), .process = true};

	q->p = p;
	q->number = ++t->asked;
	q->asked_us = query.asked_us;
	snprintf(q->path, sizeof(q->path), "%s", path);
	q->op = (struct op){.class = OP_FILE, .file = {.path = q->path}};
	LIST_INSERT_HEAD(&t->questions, q, next);
	if (op_file_parse(operation, &q->op.file.op))
		process_find(p, &query, on_found, q);
	else
		forget(q);
}

static void approve(struct process_self *p, unsigned number, bool allow)
{
	const struct test_state *t = p->program;
	const struct test_question *q;

	LIST_FOREACH (q, &t->questions, next)
		if (q->number == number) {
			gate_answer(p->gate, q->k.id, allow);
			return;
		}
}

static void on_line(void *arg)
{
	struct process_self *p = arg;
	struct test_state *t = p->program;
	char line[LINE_MAX_BYTES], word[16], path[4097];
	unsigned number;
	const ssize_t n = recv(t->client_fd, line, sizeof(line) - 1, MSG_DONTWAIT);

	if (n <= 0) {
		watch_stop(t->readable);
		return;
	}
	line[n] = '\0';
	if (sscanf(line, "ask %u %15s %4096s", &number, word, path) == 3)
		ask(p, (pid_t)number, word, path);
	else if (sscanf(line, "allow %u", &number) == 1)
		approve(p, number, true);
	else if (sscanf(line, "deny %u", &number) == 1)
		approve(p, number, false);
}

/* The newest client gets the answers. */
static void on_client(void *arg)
{
	struct process_self *p = arg;
	struct test_state *t = p->program;
	const int fd = accept4(t->listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	watch_free(t->readable);
	mem_cleanup_fd(&t->client_fd);
	t->client_fd = fd;
	t->readable = watch_readable(p->loop, fd, on_line, p);
	watch_start(t->readable);
}

/* ---- the process ---- */

/* The approver is the client, which has received the question. */
static void on_asked(void *arg, struct gate *g, uint64_t id, const struct gate_case *k,
		     int64_t deadline_us)
{
}

static void on_cancelled(void *arg, uint64_t id)
{
}

static int open_test(struct process_self *p, struct err *err)
{
	const struct gate_approver approver = {on_asked, on_cancelled, NULL, APPROVAL_MS};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct test_state *t = mem_new(struct test_state);
	const int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "agentsh-test-process-%s",
			       p->args.session_id);

	p->program = t;
	t->client_fd = -1;
	LIST_INIT(&t->questions);
	gate_set_approver(p->gate, &approver);
	t->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (t->listen_fd < 0 ||
	    bind(t->listen_fd, (struct sockaddr *)&at,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0 ||
	    listen(t->listen_fd, 8) < 0)
		return err_errno(err, E_UNAVAILABLE, at.sun_path + 1, "cannot listen");
	t->accepting = watch_readable(p->loop, t->listen_fd, on_client, p);
	watch_start(t->accepting);
	return 0;
}

static void close_test(struct process_self *p)
{
	struct test_state *t = p->program;

	while (!LIST_EMPTY(&t->questions)) {
		struct test_question *q = LIST_FIRST(&t->questions);

		gate_gone(p->gate, &q->k);
		settle(&q->k, q);
	}
	watch_free(t->accepting);
	watch_free(t->readable);
	mem_cleanup_fd(&t->listen_fd);
	mem_cleanup_fd(&t->client_fd);
	free(t);
}

int main(int argc, char **argv)
{
	const struct process_program program = {open_test, close_test};

	return process_run(&process_table[PROCESS_test], &program, argc, argv);
}
