// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.h"
#include <errno.h>
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

static int read_arg(struct probe_args *a, const char *arg)
{
	static const char denied[] = "denied=";

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const size_t n = strlen(keys[i].prefix);

		if (strncmp(arg, keys[i].prefix, n) == 0) {
			*place(a, keys[i].offset) = arg + n;
			return 0;
		}
	}
	if (strncmp(arg, denied, strlen(denied)) != 0)
		return -1;
	for (size_t i = 0; i < PROBE_DENIED; i++)
		if (a->denied[i] == NULL) {
			a->denied[i] = arg + strlen(denied);
			return 0;
		}
	return -1;
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

static void run_all(const struct probe_act *act, struct probe_args *a)
{
	for (; act != NULL && act->wall != NULL; act++) {
		char detail[PROBE_DETAIL] = "";
		enum probe_outcome outcome;

		if (act->need != PROBE_ALWAYS && *place(a, act->need) == NULL)
			continue;
		outcome = act->run(a, detail);
		printf("%s\t%s\t%s\t%s\n", act->wall, outcomes[outcome], act->what, detail);
		/* An act that ends us must not take the earlier lines with it. */
		fflush(stdout);
	}
}

int probe_main(int argc, char **argv)
{
	struct probe_args a = {0};

	/* What the set-uid copy is started for. */
	if (argc == 2 && strcmp(argv[1], PROBE_EUID) == 0)
		return geteuid() != getuid();
	for (int i = 2; i < argc; i++)
		if (read_arg(&a, argv[i]) < 0)
			return USAGE;
	for (size_t i = 0; argc > 1 && i < sizeof(groups) / sizeof(groups[0]); i++) {
		if (strcmp(argv[1], groups[i].name) != 0)
			continue;
		for (size_t j = 0; j < sizeof(groups[i].acts) / sizeof(groups[i].acts[0]); j++)
			run_all(groups[i].acts[j], &a);
		return 0;
	}
	return USAGE;
}
