// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include "base/clock.h"
#include "base/err_body.h"
#include <stdlib.h>
#include <string.h>

const char *acmd_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

int acmd_main(int argc, char **argv, char **env, int out_fd)
{
	static int (*const run[])(struct acmd * a) = {
#define X(name, operands, summary) name##_run,
		ACMD_LIST(X)
#undef X
	};
	struct acmd a = {.out_fd = out_fd, .env = env};
	struct err err = {0};
	int r = acmd_parse(&a, argc, argv, &err), status = 0;

	a.w = JW(&a.text);
	a.now_s = clock_wall_us(&clock_system) / 1000000;
	if (r == 0) {
		status = run[a.command](&a);
	} else if (r == 1) {
		acmd_help(&a);
	} else {
		err_body_format(&err, NULL, &a.text);
		buf_addc(&a.text, '\n');
		status = 2;
	}
	acmd_flush(&a, true);
	buf_done(&a.text);
	free(a.start);
	return status;
}
