// SPDX-License-Identifier: Apache-2.0
#include "config/testkit/config_testkit.h"

int kit_open(void **state)
{
	struct config *c = mem_new(struct config);

	*state = c;
	return config_defaults(CONFIG_SYSTEM, c, NULL);
}

int kit_close(void **state)
{
	config_done(*state);
	free(*state);
	return 0;
}

int kit_parse(struct config *c, const char *text, struct buf *report, struct err *err)
{
	return config_parse("c.yaml", text, strlen(text), c, report, err);
}
