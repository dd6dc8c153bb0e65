// SPDX-License-Identifier: Apache-2.0
/* Records by table: what unpacks must pack to bytes that unpack to the same. */
#include "base/fields.h"
#include "base/mem.h"

struct thing {
	uint32_t small;
	uint64_t wide;
	char *str, *other;
	struct bytes bytes;
	struct strv strv, env;
	int last;
};
static const struct field rows[] = {
	FIELD(struct thing, FIELD_U32, small, 0),
	FIELD(struct thing, FIELD_U64, wide, 0),
	FIELD(struct thing, FIELD_STR, str, 64),
	FIELD(struct thing, FIELD_STR, other, UINT32_MAX - 1),
	FIELD(struct thing, FIELD_BYTES, bytes, 32),
	FIELD(struct thing, FIELD_STRV, strv, 48),
	FIELD(struct thing, FIELD_STRV, env, 4096),
	FIELD(struct thing, FIELD_U32, last, 0),
};
static const struct fields thing_fields = {"thing", sizeof(struct thing), rows, ARRAY_LEN(rows)};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf once = {0}, twice = {0};
	struct thing t, back;
	struct err err = {0};

	if (size == 0 ||
	    fields_unpack(&thing_fields, data + 1, size - 1, data[0] & 1, &t, &err) < 0)
		return 0;
	fields_pack(&thing_fields, &t, &once);
	ensure(fields_unpack(&thing_fields, once.data, once.len, false, &back, &err) == 0);
	fields_pack(&thing_fields, &back, &twice);
	ensure(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
	fields_done(&thing_fields, &t);
	fields_done(&thing_fields, &back);
	return 0;
}
