// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define USAGE 2

static void print_line(const struct probe_act *act, const char *outcome, const char *detail)
{
	printf("%s\t%s\t%s\t%s\n", act->wall, outcome, act->what, detail);
	fflush(stdout);
}

static void try_here(const struct probe_act *act, const char *value)
{
	char detail[PROBE_DETAIL] = "";
	const long r = act->run(value, detail);

	if (detail[0] == '\0')
		snprintf(detail, sizeof(detail), "%s",
			 r >= 0 ? "it worked" : strerrorname_np(errno));
	print_line(act, r >= 0 ? "done" : r == PROBE_UNTRIED ? "untried" : "refused", detail);
}

void probe_try(const struct probe_act *act, const char *value)
{
	const pid_t pid = fork();
	char detail[PROBE_DETAIL];
	int status;

	if (pid == 0) {
		try_here(act, value);
		_exit(0);
	}
	if (pid == -1 || waitpid(pid, &status, 0) != pid) {
		snprintf(detail, sizeof(detail), "fork: %s", strerrorname_np(errno));
		print_line(act, "untried", detail);
	} else if (WIFSIGNALED(status)) {
		snprintf(detail, sizeof(detail), "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
		print_line(act, "refused", detail);
	}
}

/* Returns the value of KEY=VALUE, or NULL if the argument has another key. */
static const char *value_of(const char *arg, const char *key)
{
	const size_t n = key != NULL ? strlen(key) : 0;

	return n > 0 && strncmp(arg, key, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

int probe_main(int argc, char **argv)
{
	int acts = 0;

	/* the set-uid copy has only this task */
	if (argc == 2 && strcmp(argv[1], PROBE_EUID) == 0)
		return geteuid() != getuid();
	for (const struct probe_act *act = probe_acts; argc > 1 && act->group != NULL; act++)
		acts += strcmp(act->group, argv[1]) == 0;
	if (acts == 0)
		return USAGE;
	for (int i = 2; i < argc; i++) {
		const struct probe_act *act = probe_acts;

		while (act->group != NULL && value_of(argv[i], act->key) == NULL)
			act++;
		if (act->group == NULL)
			return USAGE;
	}
	for (const struct probe_act *act = probe_acts; act->group != NULL; act++) {
		const char *value = NULL;

		if (strcmp(act->group, argv[1]) != 0)
			continue;
		for (int i = 2; i < argc && value == NULL; i++)
			value = value_of(argv[i], act->key);
		if (act->key == NULL || value != NULL)
			probe_try(act, value);
	}
	return 0;
}
