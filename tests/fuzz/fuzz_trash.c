// SPDX-License-Identifier: Apache-2.0
/* The index of a trash, which its owner can change. */
#include "base/mem.h"
#include "trash/trash_index.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_trash_list struct trash_list list = {0};
	struct err err = {0};

	if (trash_parse(data, size, 0, &list, &err) < 0)
		return 0;
	for (size_t i = 0; i < list.n; i++) {
		const char *below = trash_entry_below(&list.v[i]);

		ensure(below != NULL && below[0] != '\0' && below[0] != '/');
		ensure(strstr(list.v[i].path, "/../") == NULL && list.v[i].gone == 0);
		ensure(i == 0 || list.v[i - 1].id < list.v[i].id);
		ensure(trash_find(&list, list.v[i].id) == &list.v[i]);
	}
	return 0;
}
