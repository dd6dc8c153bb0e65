// SPDX-License-Identifier: Apache-2.0
#include "base/process_tree.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define PASSES 64     /* of a round; a tree that still grows gets another round */
#define PASSES_MS 200 /* a fork bomb leaves many stopped processes, and each pass looks at all */
#define LIST_MAX 100  /* processes named in an answer */
#define TEXT_LEN 120
#define DEATH_MS 20 /* for killed processes, before the next look */

struct tree_pids {
	pid_t *v; /* in order */
	size_t n;
};

static int64_t now_ms(void)
{
	return clock_mono_us(&clock_system) / 1000;
}

static int by_value(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static bool has(const struct tree_pids *s, pid_t pid)
{
	return s->n > 0 && bsearch(&pid, s->v, s->n, sizeof(pid), by_value) != NULL;
}

static struct tree_pids sorted(pid_t *v, size_t n)
{
	if (n > 1)
		qsort(v, n, sizeof(*v), by_value);
	return (struct tree_pids){v, n};
}

/* The pid of a dead leader may belong to another process by now: then the list is empty. */
static struct tree_pids below(const struct tree_root *leader)
{
	pid_t *v;
	const size_t n = proc_descendants(leader->pid, &v);

	return sorted(v, proc_pidfd_signal(leader->pidfd, 0) < 0 ? 0 : n);
}

/* Another process may have the pid by now: then its parent is not in the tree. */
static void send(pid_t pid, int sig, const struct tree_pids *tree, const struct tree_root *leader)
{
	cleanup_fd int fd = proc_pidfd(pid);
	pid_t parent;

	if (fd < 0)
		return;
	parent = proc_ppid(pid);
	if (parent == leader->pid || has(tree, parent))
		proc_pidfd_signal(fd, sig);
}

size_t tree_kill_round(const struct tree_root *leader)
{
	const int64_t until = now_ms() + PASSES_MS;
	struct tree_pids stopped = {0};
	size_t fresh = 1;

	/* Stops processes until a pass finds no new one. */
	for (int i = 0; fresh > 0 && i < PASSES && now_ms() < until; i++) {
		const struct tree_pids tree = below(leader);

		fresh = 0;
		for (size_t k = 0; k < tree.n; k++)
			if (!has(&stopped, tree.v[k])) {
				send(tree.v[k], SIGSTOP, &tree, leader);
				fresh++;
			}
		free(stopped.v);
		stopped = tree;
	}
	for (size_t i = 0; i < stopped.n; i++)
		send(stopped.v[i], SIGKILL, &stopped, leader);
	free(stopped.v);
	return stopped.n;
}

void tree_signal(const struct tree_root *leader, int sig)
{
	const struct tree_pids tree = below(leader);

	for (size_t i = 0; i < tree.n; i++)
		send(tree.v[i], sig, &tree, leader);
	free(tree.v);
}

/* The number in the innermost pid namespace: the last of the line NSpid. */
static pid_t inner_pid(pid_t pid)
{
	cleanup_buf struct buf text = {0};
	char path[64];
	const char *line, *end;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (fdio_load_path(path, 64 * 1024, &text, NULL) < 0)
		return pid;
	line = strstr(text.data, "\nNSpid:");
	if (line == NULL)
		return pid;
	end = line + 1 + strcspn(line + 1, "\n");
	while (end > line && end[-1] >= '0' && end[-1] <= '9')
		end--;
	return (pid_t)strtol(end, NULL, 10);
}

void tree_list(const struct tree_root *leader, const char *word, struct strv *out)
{
	const struct tree_pids tree = below(leader);
	char text[TEXT_LEN];

	for (size_t i = 0; i < tree.n && i < LIST_MAX; i++) {
		proc_cmdline(tree.v[i], text, sizeof(text));
		strv_addf(out, "%s %d %s", word, (int)inner_pid(tree.v[i]), text);
	}
	if (tree.n > LIST_MAX)
		strv_addf(out, "%s 0 and %zu more", word, tree.n - LIST_MAX);
	free(tree.v);
}

/* Waits until one of them is dead, or for a moment. */
static void await_death(const struct tree_root *root)
{
	const struct tree_pids tree = below(root);
	cleanup_fd int fd = tree.n > 0 ? proc_pidfd(tree.v[0]) : -1;

	if (fd >= 0)
		poll(&(struct pollfd){fd, POLLIN, 0}, 1, DEATH_MS);
	free(tree.v);
}

/* The kernel still sends the signal: another thread may wait for it. */
void tree_leave_dead(void)
{
	const struct sigaction reaped = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};

	ensure(sigaction(SIGCHLD, &reaped, NULL) == 0);
}

bool tree_await_own(int limit_ms)
{
	cleanup_fd int self = proc_pidfd(getpid());
	const struct tree_root root = {getpid(), self};
	const int64_t until = now_ms() + limit_ms;

	for (;;) {
		const struct tree_pids tree = below(&root);

		free(tree.v);
		if (tree.n == 0 || now_ms() >= until)
			return tree.n == 0;
		await_death(&root);
	}
}

/* Kills the caller's own children at once; their children become its own. Stopping them first would
 * leave many stopped processes where each forks and ends, and every look would take longer. Returns
 * how many are not in *seen yet. */
static size_t kill_children(struct tree_pids *seen, pid_t except)
{
	static const struct tree_pids none;
	const struct tree_root self = {.pid = getpid()};
	size_t n, fresh = 0;
	pid_t *v;

	n = proc_children(self.pid, &v);
	for (size_t i = 0; i < n; i++)
		if (v[i] != except && !has(seen, v[i])) {
			send(v[i], SIGKILL, &none, &self);
			fresh++;
		}
	free(seen->v);
	*seen = sorted(v, n);
	return fresh;
}

bool tree_end_own(int limit_ms, pid_t except)
{
	cleanup_fd int self = proc_pidfd(getpid());
	const struct tree_root root = {getpid(), self};
	const int64_t until = now_ms() + limit_ms;
	struct tree_pids seen = {0};
	bool ended = false;

	while (!ended) {
		const bool fresh = kill_children(&seen, except) > 0;

		if (!fresh)
			ended = tree_kill_round(&root) <=
				(except != 0 && kill(except, 0) < 0 && errno == EPERM);
		if (ended || now_ms() >= until)
			break;
		if (!fresh)
			await_death(&root);
	}
	free(seen.v);
	return ended;
}
