// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

int astat_run(struct acmd *a)
{
	const int flags = a->o.follow ? 0 : AT_SYMLINK_NOFOLLOW;
	enum acmd_turn turn = ACMD_SKIP;
	struct stat st;

	if (a->n == 1 && fstatat(AT_FDCWD, a->operand[0], &st, flags) < 0)
		return acmd_refuse(a, a->operand[0], errno);
	jw_obj(&a->w);
	jw_karr(&a->w, "files");
	for (size_t i = 0; i < a->n && turn != ACMD_STOP; i++) {
		const char *path = a->operand[i];

		turn = acmd_turn(a);
		if (turn != ACMD_TAKE)
			continue;
		if (fstatat(AT_FDCWD, path, &st, flags) < 0) {
			acmd_failed(a, path, errno);
			continue;
		}
		jw_obj(&a->w);
		acmd_name(a, "path", path, strlen(path));
		acmd_file(a, AT_FDCWD, path, &st, ACMD_WHOLE);
		jw_obj_end(&a->w);
	}
	jw_arr_end(&a->w);
	return acmd_finish(a);
}
