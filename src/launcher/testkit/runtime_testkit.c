// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/runtime_testkit.h"

int here_setup(void **state)
{
	struct here *h = mem_new(struct here);

	snprintf(h->dir, sizeof(h->dir), "/tmp/agentsh-place-XXXXXX");
	if (mkdtemp(h->dir) == NULL || chmod(h->dir, 0755) < 0)
		return -1;
	snprintf(h->socket, sizeof(h->socket), "%s/a/run/agentsh.sock", h->dir);
	snprintf(h->base, sizeof(h->base), "%s/state/agentsh", h->dir);
	snprintf(h->lock, sizeof(h->lock), "%s/server.lock", h->base);
	h->config.unix_socket = h->socket;
	h->config.base_dir = h->base;
	h->config.http_addr = (char *)(uintptr_t) "";
	h->config.api_uid = API_UID;
	*state = h;
	return 0;
}

int here_teardown(void **state)
{
	struct here *h = *state;
	cleanup_free char *command = mem_printf("rm -rf '%s'", h->dir);
	const int r = system(command);

	free(h);
	return r;
}

bool privileged(void)
{
	return geteuid() == 0;
}
