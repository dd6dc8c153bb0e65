// SPDX-License-Identifier: Apache-2.0
/* launcher/runtime_dir_testkit.h - a place for a server that is not there yet. */
#pragma once
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#define API_UID 61234

struct here {
	char dir[64];
	char socket[96], base[96], lock[112];
	struct config config;
};

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	struct here *h = *state;
	cleanup_free char *command = mem_printf("rm -rf '%s'", h->dir);
	const int r = system(command);

	free(h);
	return r;
}

static inline bool privileged(void)
{
	return geteuid() == 0;
}
