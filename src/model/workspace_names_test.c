// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/workspace_names.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct workspace_names names(const char *const *shown, const char *real)
{
	struct workspace_names n = {.real = mem_strdup(real)};

	for (; *shown != NULL; shown++)
		strv_add(&n.shown, *shown);
	return n;
}

static void check(char *got, const char *want)
{
	if (want == NULL)
		assert_null(got);
	else
		assert_string_equal(got, want);
	free(got);
}

/* SBX-1: every path through the workspace has one canonical name, and no other path has. */
static void sbx_1_paths_of_the_workspace_are_canonical(void **state)
{
	struct workspace_names n =
		names((const char *[]){"/workspace", "/workspace", "/home/u/p", "/workspace",
				       "/data", "/workspace/sub", NULL},
		      "/home/u/p");

	check(workspace_canonical(&n, "/home/u/p"), "/workspace");
	check(workspace_canonical(&n, "/home/u/p/a/b"), "/workspace/a/b");
	check(workspace_canonical(&n, "/data/x"), "/workspace/sub/x");
	check(workspace_canonical(&n, "/workspace/a"), NULL);
	check(workspace_canonical(&n, "/home/u/pp"), NULL);
	check(workspace_canonical(&n, "/usr/bin/env"), NULL);
	check(workspace_seen(&n, "/home/u/p/a"), "/home/u/p/a");
	check(workspace_seen(&n, "/workspace/a"), "/workspace/a");
	workspace_names_done(&n);
}

/* SBX-1: a directory is entered where the session sees it. */
static void sbx_1_a_directory_is_found_where_it_is_seen(void **state)
{
	struct workspace_names n =
		names((const char *[]){"/home/u/p", "/workspace", NULL}, "/home/u/p");

	check(workspace_seen(&n, "/workspace/a"), "/home/u/p/a");
	check(workspace_seen(&n, "/workspace"), "/home/u/p");
	check(workspace_seen(&n, "/tmp"), "/tmp");
	workspace_names_done(&n);
	n = names((const char *[]){"/workspace", "/workspace", NULL}, "/tmp/x");
	check(workspace_seen(&n, "/tmp/x/a"), "/workspace/a");
	check(workspace_seen(&n, "/tmp/y"), "/tmp/y");
	workspace_names_done(&n);
	/* the real path is below /workspace */
	n = names((const char *[]){"/workspace/p", "/workspace", NULL}, "/workspace/p");
	check(workspace_seen(&n, "/workspace/p/a"), "/workspace/p/a");
	check(workspace_seen(&n, "/workspace"), "/workspace/p");
	check(workspace_canonical(&n, "/workspace/p/a"), "/workspace/a");
	workspace_names_done(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_paths_of_the_workspace_are_canonical),
		cmocka_unit_test(sbx_1_a_directory_is_found_where_it_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
