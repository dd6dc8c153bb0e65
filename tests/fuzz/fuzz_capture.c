// SPDX-License-Identifier: Apache-2.0
/* Shell state as a session may send it. Input: datagrams, each a u16 length (little-endian) and the
 * bytes. Whatever is accepted must hold what the warden relies on: pairs with unique names, an
 * absolute directory. */
#include "base/mem.h"
#include "spawn/capture.h"

#define MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;

	while (size >= 2) {
		size_t n = data[0] | (size_t)data[1] << 8;

		data += 2;
		size -= 2;
		n = n < size ? n : size;
		if (capture_feed(&c, data, n, MAX, NULL) < 0)
			break;
		ensure(c.env.len + c.cwd.len <= MAX);
		data += n;
		size -= n;
	}
	if (capture_finish(&c, &env, &cwd, NULL) == 0) {
		ensure(cwd != NULL && cwd[0] == '/');
		for (size_t i = 0; i < env.n; i++)
			ensure(env.v[i][0] != '=' && strchr(env.v[i], '=') != NULL);
	}
	free(cwd);
	strv_done(&env);
	capture_done(&c);
	return 0;
}
