// SPDX-License-Identifier: Apache-2.0
/* Configuration and policy files. */
#include "base/mem.h"
#include "base/yaml.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct yaml *y, unsigned depth)
{
	static const char *const words[] = {"allow", "deny", "soft_delete", NULL};

	ensure(depth < 32 && y->line > 0 && y->column > 0);
	ensure((y->kind == YAML_SCALAR) == (y->text != NULL));
	if (y->kind == YAML_SCALAR)
		yaml_suggest(y->text, words);
	for (size_t i = 0; i < y->n; i++) {
		ensure((y->kind == YAML_MAP) == (y->item[i].key != NULL));
		/* keys are unique, so that get finds exactly this one */
		if (y->kind == YAML_MAP && i < 32)
			ensure(yaml_get(y, y->item[i].key) == y->item[i].value);
		walk(y->item[i].value, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct yaml *y = NULL;

	if (yaml_parse("f", (const char *)data, size, NULL, &y, &err) == 0)
		walk(y, 0);
	else
		ensure(y == NULL && strncmp(err.message, "f:", 2) == 0);
	yaml_free(y);
	return 0;
}
