// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WALK_MS 1000	    /* a fork bomb could make a walk endless */
#define PID_LIMIT (4 << 20) /* the kernel's PID_MAX_LIMIT */

/* Pids in the order of arrival. A process that changes its parent during the walk comes twice,
 * hence a bit for each. */
struct proc_pids {
	pid_t *v;
	size_t n;
	uint8_t *seen;
	int64_t until; /* monotonic, in microseconds */
	bool zombies;  /* are wanted, too */
};

/* Adds the numbers that are complete, each with a space behind it; returns where the rest begins.
 */
static char *add_numbers(struct proc_pids *s, char *text)
{
	char *space;

	for (; (space = strchr(text, ' ')) != NULL; text = space + 1) {
		const long pid = strtol(text, NULL, 10);
		const uint8_t bit = (uint8_t)(1U << pid % 8);

		if (pid <= 0 || pid >= PID_LIMIT || (s->seen[pid / 8] & bit) != 0 ||
		    (!s->zombies && !proc_alive((pid_t)pid)))
			continue;
		s->seen[pid / 8] |= bit;
		s->v = mem_grow(s->v, s->n, sizeof(*s->v));
		s->v[s->n++] = (pid_t)pid;
	}
	return text;
}

/* The list may grow as fast as it is read; then the time ends the walk. */
static void add_children(struct proc_pids *s, const char *path)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[4096 + 1] = "", *rest = text;
	ssize_t n;

	while (fd != -1 && clock_mono_us(&clock_system) < s->until) {
		const size_t kept = strlen(rest);

		memmove(text, rest, kept);
		n = read(fd, text + kept, sizeof(text) - 1 - kept);
		if (n <= 0)
			return;
		text[kept + (size_t)n] = '\0';
		rest = add_numbers(s, text);
	}
}

static void add_children_of_threads(struct proc_pids *s, pid_t pid)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return;
	while ((e = readdir(dir)) != NULL) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid, e->d_name);
		add_children(s, path);
	}
	closedir(dir);
}

static size_t walk(pid_t root, bool deep, pid_t **out)
{
	struct proc_pids s = {.seen = mem_alloc(PID_LIMIT / 8),
			      .until = clock_mono_us(&clock_system) + WALK_MS * 1000,
			      .zombies = !deep};

	add_children_of_threads(&s, root);
	for (size_t i = 0; deep && i < s.n && clock_mono_us(&clock_system) < s.until; i++)
		add_children_of_threads(&s, s.v[i]);
	free(s.seen);
	*out = s.v;
	return s.n;
}

size_t proc_children(pid_t pid, pid_t **out)
{
	return walk(pid, false, out);
}

size_t proc_descendants(pid_t root, pid_t **out)
{
	return walk(root, true, out);
}
