// SPDX-License-Identifier: Apache-2.0
/* A domain pattern and a name, parted by a newline. */
#include "base/mem.h"
#include "policy/domain.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	cleanup_free char *pattern = NULL, *name = NULL;
	char normal[DOMAIN_ROOM], host[DOMAIN_ROOM], again[DOMAIN_ROOM];

	if (line == NULL)
		return 0;
	pattern = mem_strndup((const char *)data, (size_t)(line - data));
	name = mem_strndup((const char *)line + 1, size - (size_t)(line + 1 - data));
	if (!domain_normal(name, host))
		return 0;
	ensure(strlen(host) <= DOMAIN_MAX);
	ensure(domain_normal(host, again) && strcmp(host, again) == 0);
	ensure(domain_match("*", host) && domain_match(host, host));
	if (domain_check(pattern, normal) != NULL)
		return 0;
	ensure(domain_check(normal, again) == NULL && strcmp(normal, again) == 0);
	ensure(domain_match(normal, host) == domain_covers(normal, host));
	ensure(!domain_match(normal, host) || domain_overlaps(host, normal));
	return 0;
}
