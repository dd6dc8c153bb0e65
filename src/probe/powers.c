// SPDX-License-Identifier: Apache-2.0
/* Acts that need power: capabilities, a set-uid program, variables that change what programs do. */
#include "probe/probe.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define MADE "agentsh-probe.made"
#define LINE_LEN 256

/* Any set that is not empty. */
static enum probe_outcome hold_caps(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	char line[LINE_LEN];
	enum probe_outcome outcome = PROBE_REFUSED;
	FILE *f = fopen("/proc/self/status", "re");

	if (f == NULL)
		return probe_said(-1, detail);
	snprintf(detail, PROBE_DETAIL, "every set is empty");
	while (outcome == PROBE_REFUSED && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Cap", 3) == 0 && strtoull(line + 7, NULL, 16) != 0) {
			snprintf(detail, PROBE_DETAIL, "%.6s %llx", line,
				 strtoull(line + 7, NULL, 16));
			outcome = PROBE_DONE;
		}
	fclose(f);
	return outcome;
}

static enum probe_outcome make_node(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int r = mknod(MADE, S_IFCHR | 0600, makedev(1, 3));
	const enum probe_outcome outcome = probe_said(r, detail);

	if (r == 0)
		unlink(MADE);
	return outcome;
}

static enum probe_outcome give_away(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int fd = open(MADE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	enum probe_outcome outcome;

	if (fd < 0) {
		probe_said(fd, detail);
		return PROBE_UNTRIED;
	}
	outcome = probe_said(fchown(fd, (uid_t)strtoul(a->other, NULL, 10), (gid_t)-1), detail);
	close(fd);
	unlink(MADE);
	return outcome;
}

/* The status of the copy is 1 if the kernel gave it another uid. */
static enum probe_outcome run_set_uid(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(execl(a->set_uid, a->set_uid, PROBE_EUID, NULL));
	if (pid == -1 || waitpid(pid, &status, 0) != pid)
		return probe_said(-1, detail);
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
		snprintf(detail, PROBE_DETAIL, "it did not run (status %d)", status);
		return PROBE_UNTRIED;
	}
	snprintf(detail, PROBE_DETAIL, "%s",
		 WEXITSTATUS(status) == 1 ? "it got its owner's uid" : "it kept our uid");
	return WEXITSTATUS(status) == 1 ? PROBE_DONE : PROBE_REFUSED;
}

static enum probe_outcome be_raisable(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int set = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);

	snprintf(detail, PROBE_DETAIL, "no_new_privs is %d", set);
	return set == 1 ? PROBE_REFUSED : PROBE_DONE;
}

static enum probe_outcome get_preload(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const char *value = getenv("LD_PRELOAD");

	snprintf(detail, PROBE_DETAIL, "%s", value != NULL ? "it arrived" : "it is not set");
	return value != NULL ? PROBE_DONE : PROBE_REFUSED;
}

static enum probe_outcome get_bash_env(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const char *value = getenv("BASH_ENV");

	snprintf(detail, PROBE_DETAIL, "%s", value != NULL ? "it arrived" : "it is not set");
	return value != NULL ? PROBE_DONE : PROBE_REFUSED;
}

#define NEEDS(name) offsetof(struct probe_args, name)
const struct probe_act probe_powers[] = {
	{"capabilities", "hold a capability", hold_caps, PROBE_ALWAYS},
	{"capabilities", "make a device node", make_node, PROBE_ALWAYS},
	{"capabilities", "give a file to another user", give_away, NEEDS(other)},
	{"no_new_privs", "run a set-uid program", run_set_uid, NEEDS(set_uid)},
	{"no_new_privs", "run without the flag", be_raisable, PROBE_ALWAYS},
	{NULL},
};
const struct probe_act probe_environment[] = {
	{"env_filter", "hand LD_PRELOAD to a command", get_preload, PROBE_ALWAYS},
	{"env_filter", "hand BASH_ENV to a command", get_bash_env, PROBE_ALWAYS},
	{NULL},
};
