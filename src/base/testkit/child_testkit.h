// SPDX-License-Identifier: Apache-2.0
/* base/testkit/child_testkit.h - a test raises a wall in a child and tries the forbidden act
 * there; the child's result is its exit status. */
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
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>

#define KID_USER 1000
#define KID_SECONDS 60 /* a child that hangs is ended by SIGALRM */

/* A test's function returns an errno, 0 or any other small number. */
typedef int kid_fn(const void *arg);

/* Runs fn in a child that has no_new_privs and, if as_user and we are root, uid 1000 and no
 * capability; returns the wait status. */
int kid_wait(kid_fn *fn, const void *arg, bool as_user);

/* The same for a child that must end by itself: returns its exit status. */
int kid_run(kid_fn *fn, const void *arg, bool as_user);

/* For the end of a kid_fn: the errno of a call's result, 0 if it worked. */
int kid_errno(long result);
