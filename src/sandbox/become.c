// SPDX-License-Identifier: Apache-2.0
/* The stub's last steps: it gives up the launcher's privileges and executes a program without the
 * launcher's environment. */
#include "base/mem.h"
#include "sandbox/identity.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <sys/syscall.h>

/* The time zone is for the log, the directories for the defaults of the configuration; the rest
 * configures sanitizers in test builds. */
static const char *const passed_on[] = {"TZ",		"HOME",		"XDG_RUNTIME_DIR", "TMPDIR",
					"ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS"};

int sandbox_execute(int program_fd, char *const argv[], struct err *err)
{
	char *env[ARRAY_LEN(passed_on) + 1];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++)
		if (getenv(passed_on[i]) != NULL)
			env[n++] = mem_printf("%s=%s", passed_on[i], getenv(passed_on[i]));
	env[n] = NULL;
	syscall(SYS_execveat, program_fd, "", argv, env, AT_EMPTY_PATH);
	r = err_errno(err, E_UNAVAILABLE, argv[0], "cannot execute %s", argv[0]);
	while (n > 0)
		free(env[--n]);
	return r;
}

int sandbox_become_user(const struct sandbox_plan *plan, struct err *err)
{
	const struct identity who = {plan->uid, plan->gid, plan->privileged != 0};
	bool bounded;
	int r = identity_take(&who, &bounded, err);

	return r < 0 ? r : identity_no_new_privs(err);
}
