// SPDX-License-Identifier: Apache-2.0
/* A configuration file, a file of keys and an override. The first byte chooses. */
#include "base/mem.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What is shown of an accepted file can be read again and is the same. */
static void read_again(const struct config *c)
{
	cleanup_buf struct buf first = {0}, second = {0}, json = {0};
	struct config again;

	config_show(c, false, &first);
	config_show(c, true, &json);
	ensure(config_defaults(CONFIG_SYSTEM, &again, NULL) == 0);
	ensure(config_parse("shown", first.data, first.len, &again, NULL, NULL) == 0);
	config_show(&again, false, &second);
	ensure(strcmp(first.data, second.data) == 0);
	config_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	cleanup_buf struct buf report = {0};
	cleanup_free char *text = NULL;
	struct err err = {0};
	struct api_keys keys;
	struct config c;
	int r;

	if (len == 0)
		return 0;
	if (data[0] == 'k') {
		if (api_keys_parse("fuzz", (const char *)data + 1, len - 1, &keys, &report, &err) ==
		    0)
			api_keys_done(&keys);
		return 0;
	}
	ensure(config_defaults(CONFIG_SYSTEM, &c, NULL) == 0);
	text = mem_strndup((const char *)data + 1, len - 1);
	if (data[0] == 'o')
		r = config_override(text, &c, &err);
	else
		r = config_parse("fuzz", (const char *)data + 1, len - 1, &c, &report, &err);
	ensure((r == 0) == (err.code == E_OK));
	if (r == 0) {
		read_again(&c);
		config_check(&c, &err);
	}
	config_done(&c);
	return 0;
}
