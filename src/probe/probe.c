// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define USAGE 2

static const char *const outcomes[] = {
	[PROBE_REFUSED] = "refused", [PROBE_DONE] = "done", [PROBE_UNTRIED] = "untried"};

static const struct {
	const char *name;
	const struct probe_act *acts[3];
} groups[] = {
	{"walls", {probe_places, probe_powers, probe_calls}},
	{"environment", {probe_environment}},
	{"programs", {probe_programs}},
	{"limits", {probe_limits}},
};

#define KEY(name)                                            \
	{                                                    \
#name "=", offsetof(struct probe_args, name) \
	}
static const struct {
	const char *prefix;
	size_t offset;
} keys[] = {
	KEY(canary),  KEY(port),     KEY(abstract), KEY(pid),	 KEY(key),
	KEY(queue),   KEY(hostname), KEY(mounts),   KEY(cgroup), KEY(other),
	KEY(set_uid), KEY(memory),   KEY(cpu),	    KEY(pids),
};

static const char **place(struct probe_args *a, size_t offset)
{
	return (const char **)((char *)a + offset);
}

enum probe_outcome probe_said(long r, char detail[PROBE_DETAIL])
{
	snprintf(detail, PROBE_DETAIL, "%s", r >= 0 ? "it worked" : strerrorname_np(errno));
	return r >= 0 ? PROBE_DONE : PROBE_REFUSED;
}

enum probe_outcome probe_child(int (*fn)(const void *arg), const void *arg,
			       char detail[PROBE_DETAIL])
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(arg));
	if (pid == -1 || waitpid(pid, &status, 0) != pid) {
		snprintf(detail, PROBE_DETAIL, "fork: %s", strerrorname_np(errno));
		return PROBE_UNTRIED;
	}
	if (WIFSIGNALED(status)) {
		snprintf(detail, PROBE_DETAIL, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
		return PROBE_REFUSED;
	}
	errno = WEXITSTATUS(status);
	return probe_said(errno == 0 ? 0 : -1, detail);
}

/* Stores the value of KEY=VALUE; false for an unknown key. */
static bool read_arg(struct probe_args *a, const char *arg)
{
	static const char denied[] = "denied=";
	size_t i = 0;

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const size_t n = strlen(keys[k].prefix);

		if (strncmp(arg, keys[k].prefix, n) == 0) {
			*place(a, keys[k].offset) = arg + n;
			return true;
		}
	}
	while (i < PROBE_DENIED && a->denied[i] != NULL)
		i++;
	if (i == PROBE_DENIED || strncmp(arg, denied, strlen(denied)) != 0)
		return false;
	a->denied[i] = arg + strlen(denied);
	return true;
}

int probe_main(int argc, char **argv)
{
	struct probe_args a = {0};
	size_t g = 0;

	/* the set-uid copy has only this task */
	if (argc == 2 && strcmp(argv[1], PROBE_EUID) == 0)
		return geteuid() != getuid();
	for (int i = 2; i < argc; i++)
		if (!read_arg(&a, argv[i]))
			return USAGE;
	while (argc > 1 && g < sizeof(groups) / sizeof(groups[0]) &&
	       strcmp(argv[1], groups[g].name) != 0)
		g++;
	if (argc < 2 || g == sizeof(groups) / sizeof(groups[0]))
		return USAGE;
	for (size_t i = 0; i < sizeof(groups[g].acts) / sizeof(groups[g].acts[0]); i++)
		for (const struct probe_act *act = groups[g].acts[i];
		     act != NULL && act->wall != NULL; act++) {
			char detail[PROBE_DETAIL] = "";
			enum probe_outcome outcome;

			if (act->need != PROBE_ALWAYS && *place(&a, act->need) == NULL)
				continue;
			outcome = act->run(&a, detail);
			printf("%s\t%s\t%s\t%s\n", act->wall, outcomes[outcome], act->what, detail);
			/* a later act may kill this process: the line must be out */
			fflush(stdout);
		}
	return 0;
}
