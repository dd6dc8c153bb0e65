// SPDX-License-Identifier: Apache-2.0
/* A variable that is not text cannot be a member of a JSON object: it is in a list, whole. */
#include "acmd/acmd.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* By name; entries of one name stay in their order. */
static int by_variable(const void *a, const void *b)
{
	char *const *x = a, *const *y = b;
	const size_t n = strcspn(*x, "="), m = strcspn(*y, "=");
	const int r = memcmp(*x, *y, n < m ? n : m);

	return r != 0 ? r : n != m ? (n > m) - (n < m) : 0;
}

int aenv_run(struct acmd *a)
{
	struct buf odd = {0}; /* a JSON array */
	struct jw list = JW(&odd);
	enum acmd_turn turn = ACMD_SKIP;
	size_t n = 0, found = 0;

	while (a->env[n] != NULL)
		n++;
	qsort(a->env, n, sizeof(*a->env), by_variable); /* glibc's is stable */
	jw_arr(&list);
	jw_obj(&a->w);
	jw_kobj(&a->w, "environment");
	for (size_t i = 0; i < n && turn != ACMD_STOP; i++) {
		const char *entry = a->env[i];
		const size_t len = strcspn(entry, "=");
		bool asked = a->n == 0;

		for (size_t k = 0; k < a->n && !asked; k++)
			asked = strlen(a->operand[k]) == len &&
				memcmp(a->operand[k], entry, len) == 0;
		/* getenv finds the first one of a name */
		if (!asked || (i > 0 && by_variable(&a->env[i - 1], &a->env[i]) == 0))
			continue;
		found++;
		turn = acmd_turn(a);
		if (turn != ACMD_TAKE)
			continue;
		if (json_is_text(entry, strlen(entry))) {
			cleanup_free char *name = mem_strndup(entry, len);

			jw_kstr(&a->w, name, entry + len + (entry[len] == '='));
		} else {
			jw_data(&list, entry, strlen(entry));
		}
	}
	jw_obj_end(&a->w);
	jw_arr_end(&list);
	jw_key(&a->w, "base64");
	jw_raw(&a->w, odd.data, odd.len);
	buf_done(&odd);
	return acmd_finish(a) || (a->n > 0 && found == 0);
}
