// SPDX-License-Identifier: Apache-2.0
/* A block and an address, parted by a newline: what is accepted can be written and read again; what
 * is refused with a proposal is accepted as proposed. */
#include "base/mem.h"
#include "policy/cidr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	cleanup_free char *block = NULL, *text = NULL;
	cleanup_buf struct buf shown = {0};
	char fixed[CIDR_TEXT], none[CIDR_TEXT];
	struct cidr c, again;
	struct op_address a;

	if (line == NULL)
		return 0;
	block = mem_strndup((const char *)data, (size_t)(line - data));
	text = mem_strndup((const char *)line + 1, size - (size_t)(line + 1 - data));
	if (cidr_parse(block, &c, fixed) != NULL) {
		ensure(fixed[0] == '\0' || cidr_parse(fixed, &c, none) == NULL);
		return 0;
	}
	ensure(cidr_valid(&c));
	cidr_format(&c, &shown);
	ensure(cidr_parse(shown.data, &again, fixed) == NULL);
	ensure(again.family == c.family && again.bits == c.bits && cidr_covers(&c, &again));
	if (op_address_parse(text, &a)) {
		a = cidr_normal(&a);
		memcpy(again.byte, a.byte, sizeof(again.byte));
		again.family = a.family;
		again.bits = a.family == 4 ? 32 : 128;
		ensure(cidr_match(&c, &a) == cidr_covers(&c, &again));
	}
	return 0;
}
