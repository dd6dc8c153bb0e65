// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "link/link.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NUMBERS 80 /* over every message number */

static size_t value_size(enum field_type t)
{
	switch (t) {
	case FIELD_U32:
		return 4;
	case FIELD_U64:
	case FIELD_STR:
		return 8;
	case FIELD_BYTES:
	case FIELD_STRV:
		return 16;
	}
	return 0;
}

static void check_table(const struct msg_row *row)
{
	const struct fields *f = row->fields();
	size_t end = 0;

	for (size_t i = 0; i < f->n; i++) {
		assert_true(f->row[i].offset >= end);
		assert_true(f->row[i].offset - end < 8);
		end = f->row[i].offset + value_size(f->row[i].type);
	}
	assert_true(f->size >= end && f->size - end < 8);
	/* with what a newer version may add */
	assert_true(msg_max(row) + 64 * 1024 <= LINK_PAYLOAD_MAX);
	assert_true(row->min_fds <= row->max_fds);
	/* one descriptor of a datagram is kept for a large payload */
	assert_true(row->max_fds < FDIO_MAX_FDS);
}

/* Every member of every payload is in its table, in order; every payload fits. */
static void ses_8_tables_cover_their_structs(void **state)
{
	for (unsigned i = 0; i < NUMBERS; i++)
		if (msg_row(i) != NULL) {
			check_table(msg_row(i));
			assert_true(msg_row(i)->fields()->size <= MSG_STRUCT_MAX);
		}
	assert_null(msg_row(0));
	assert_null(msg_row(MSG_init_ended + 1));
	assert_null(msg_row(UINT32_MAX));
}

static void sbx_6_a_malformed_payload_does_not_unpack(void **state)
{
	static const uint8_t cut[] = {9, 0, 0, 0, 'x'};
	static const uint8_t newer[] = {1, 0, 0, 0, 'x', 7, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3};
	struct link_msg m = {.type = MSG_warden_end, .data = cut, .len = sizeof(cut)};
	struct warden_end end;
	struct err err = {0};

	assert_int_equal(link_unpack(&m, &end, &err), -E_BAD_REQUEST);
	assert_null(end.reason);
	assert_non_null(strstr(err.message, "warden_end.reason"));
	/* a newer peer's field behind ours is ignored, a missing one is zero */
	m.data = newer;
	m.len = sizeof(newer);
	assert_int_equal(link_unpack(&m, &end, &err), 0);
	assert_string_equal(end.reason, "x");
	assert_int_equal(end.grace_ms, 7);
	msg_done(MSG_warden_end, &end);
	m.len = 0;
	assert_int_equal(link_unpack(&m, &end, &err), 0);
	assert_null(end.reason);
}

/* A list of empty strings is bounded by its count. */
static void sbx_6_empty_strings_count(void **state)
{
	struct launcher_create ask = {0};
	const struct msg_row *row = msg_row(MSG_launcher_create);

	for (int i = 0; i < 4096; i++)
		strv_add(&ask.unenforced, "");
	assert_null(msg_oversized(row, &ask));
	strv_add(&ask.unenforced, "");
	assert_string_equal(msg_oversized(row, &ask), "unenforced");
	msg_done(MSG_launcher_create, &ask);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_tables_cover_their_structs),
		cmocka_unit_test(sbx_6_a_malformed_payload_does_not_unpack),
		cmocka_unit_test(sbx_6_empty_strings_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
