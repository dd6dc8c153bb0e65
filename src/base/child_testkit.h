// SPDX-License-Identifier: Apache-2.0
/* base/child_testkit.h - a wall is raised in a child of the test, which then tries the forbidden
 * act; what it returns is its exit status. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/err.h"
#include "base/mem.h"
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define KID_USER 1000
#define KID_SECONDS 60 /* a hang becomes SIGALRM */

/* A test's function reports an errno, 0 or any other small number. */
typedef int kid_fn(const void *arg);

/* Runs fn in a child that has no_new_privs and, if as_user and we are root, uid 1000 and no
 * capability; returns the wait status. */
static inline int kid_wait(kid_fn *fn, const void *arg, bool as_user)
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

/* The same for a child that must end by itself: its exit status. */
static inline int kid_run(kid_fn *fn, const void *arg, bool as_user)
{
	const int status = kid_wait(fn, arg, as_user);

	if (!WIFEXITED(status))
		fail_msg("the child was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* For the end of a kid_fn: the errno of a call's result, 0 if it worked. */
static inline int kid_errno(long result)
{
	return result == -1 ? errno : 0;
}
