// SPDX-License-Identifier: Apache-2.0
#include "base/testkit/child_testkit.h"
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int kid_wait(kid_fn *fn, const void *arg, bool as_user)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(KID_SECONDS);
		if (as_user && geteuid() == 0 &&
		    (setgroups(0, NULL) < 0 || setresgid(KID_USER, KID_USER, KID_USER) < 0 ||
		     setresuid(KID_USER, KID_USER, KID_USER) < 0))
			_exit(250);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			_exit(251);
		_exit(fn(arg));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

int kid_run(kid_fn *fn, const void *arg, bool as_user)
{
	const int status = kid_wait(fn, arg, as_user);

	if (!WIFEXITED(status))
		fail_msg("the child was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

int kid_errno(long result)
{
	return result == -1 ? errno : 0;
}
