// SPDX-License-Identifier: Apache-2.0
#include "base/fields.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX_STR 8
#define MAX_BYTES 5
#define MAX_STRV 6

struct thing {
	uint32_t small;
	int64_t wide;
	char *str;
	struct bytes bytes;
	struct strv strv;
	uint32_t last;
};
static const struct field rows[] = {
	FIELD(struct thing, FIELD_U32, small, 0),
	FIELD(struct thing, FIELD_U64, wide, 0),
	FIELD(struct thing, FIELD_STR, str, MAX_STR),
	FIELD(struct thing, FIELD_BYTES, bytes, MAX_BYTES),
	FIELD(struct thing, FIELD_STRV, strv, MAX_STRV),
	FIELD(struct thing, FIELD_U32, last, 0),
};
static const struct fields thing_fields = {"thing", sizeof(struct thing), rows, ARRAY_LEN(rows)};
static const struct thing zero;

/* The bytes as the format says, independently of fields_pack. */
static const char packed[] = "\x04\x03\x02\x01"
			     "\xfe\xff\xff\xff\xff\xff\xff\xff"
			     "\x03\0\0\0abc"
			     "\x02\0\0\0\0\xff"
			     "\x02\0\0\0\x01\0\0\0x\0\0\0\0"
			     "\x07\0\0\0";
#define PACKED (sizeof(packed) - 1)

static struct thing sample(void)
{
	struct thing t = {.small = 0x01020304, .wide = -2, .str = mem_strdup("abc"), .last = 7};

	bytes_set(&t.bytes, "\0\xff", 2);
	strv_add(&t.strv, "x");
	strv_add(&t.strv, "");
	return t;
}

static int unpack(const void *data, size_t len, bool lenient, struct thing *t, struct err *err)
{
	/* From the heap, so that ASan sees a read behind the end. */
	cleanup_free char *copy = mem_dup(data, len);

	memset(t, 0x5a, sizeof(*t));
	return fields_unpack(&thing_fields, copy, len, lenient, t, err);
}

static void refused(const void *data, size_t len, const char *message)
{
	struct err err = {0};
	struct thing t;

	assert_int_equal(unpack(data, len, false, &t, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, message);
	assert_string_equal(err.subject, "thing");
	assert_memory_equal(&t, &zero, sizeof(t));
}

static void evt_1_the_bytes_are_little_endian_and_counted(void **state)
{
	cleanup_buf struct buf b = {0};
	struct thing t = sample();

	buf_adds(&b, "before");
	fields_pack(&thing_fields, &t, &b);
	assert_int_equal(b.len, 6 + PACKED);
	assert_memory_equal(b.data, "before", 6);
	assert_memory_equal(b.data + 6, packed, PACKED + 1);
	fields_done(&thing_fields, &t);
	assert_memory_equal(&t, &zero, sizeof(t));
}

static void evt_1_unpack_inverts_pack(void **state)
{
	struct thing t;

	assert_int_equal(unpack(packed, PACKED, false, &t, NULL), 0);
	assert_int_equal(t.small, 0x01020304);
	assert_int_equal(t.wide, -2);
	assert_string_equal(t.str, "abc");
	assert_int_equal(t.bytes.len, 2);
	assert_memory_equal(t.bytes.data, "\0\xff", 2);
	assert_int_equal(t.strv.n, 2);
	assert_string_equal(t.strv.v[0], "x");
	assert_string_equal(t.strv.v[1], "");
	assert_null(t.strv.v[2]);
	assert_int_equal(t.last, 7);
	fields_done(&thing_fields, &t);
}

static void evt_1_empty_things_survive(void **state)
{
	cleanup_buf struct buf b = {0};
	struct thing t = {0};

	fields_pack(&thing_fields, &t, &b);
	assert_int_equal(b.len, 4 + 8 + 4 + 4 + 4 + 4);
	assert_int_equal(unpack(b.data, b.len, false, &t, NULL), 0);
	assert_memory_equal(&t, &zero, sizeof(t));

	buf_clear(&b);
	t.str = mem_strdup("");
	fields_pack(&thing_fields, &t, &b);
	fields_done(&thing_fields, &t);
	assert_int_equal(unpack(b.data, b.len, false, &t, NULL), 0);
	assert_string_equal(t.str, "");
	fields_done(&thing_fields, &t);
}

/* Every prefix: whole fields are read and the rest is zero, anything else is too short. */
static void evt_1_an_older_record_ends_at_a_boundary(void **state)
{
	const size_t boundary[] = {0, 4, 12, 19, 25, 38, 42};
	size_t next = 0;

	for (size_t len = 0; len <= PACKED; len++) {
		struct err err = {0};
		struct thing t;
		const int rc = unpack(packed, len, false, &t, &err);

		if (len == boundary[next]) {
			assert_int_equal(rc, 0);
			assert_int_equal(t.small, next > 0 ? 0x01020304 : 0);
			assert_int_equal(t.str != NULL, next > 2);
			assert_int_equal(t.strv.n, next > 4 ? 2 : 0);
			next++;
			fields_done(&thing_fields, &t);
			continue;
		}
		assert_int_equal(rc, -E_BAD_REQUEST);
		assert_non_null(strstr(err.message, ": too short"));
		assert_non_null(strstr(err.message, rows[next - 1].name));
		assert_memory_equal(&t, &zero, sizeof(t));
	}
	assert_int_equal(next, ARRAY_LEN(boundary));
}

static void evt_1_trailing_bytes_only_if_lenient(void **state)
{
	char longer[PACKED + 1];
	struct thing t;

	memcpy(longer, packed, PACKED);
	longer[PACKED] = 1;
	refused(longer, sizeof(longer), "thing: 1 bytes behind the last field");
	assert_int_equal(unpack(longer, sizeof(longer), true, &t, NULL), 0);
	assert_int_equal(t.last, 7);
	fields_done(&thing_fields, &t);
}

/* Packs a thing with a string of n, bytes of n or a list, and reads it back. */
static int round_trip(struct thing t, struct err *err)
{
	cleanup_buf struct buf b = {0};
	struct thing back;
	int rc;

	fields_pack(&thing_fields, &t, &b);
	fields_done(&thing_fields, &t);
	rc = unpack(b.data, b.len, false, &back, err);
	fields_done(&thing_fields, &back);
	return rc;
}

static void evt_1_a_string_has_at_most_max_bytes(void **state)
{
	struct err err = {0};

	assert_int_equal(round_trip((struct thing){.str = mem_strdup("12345678")}, NULL), 0);
	assert_int_equal(round_trip((struct thing){.str = mem_strdup("123456789")}, &err),
			 -E_BAD_REQUEST);
	assert_string_equal(err.message, "thing.str: too long");
}

static void evt_1_bytes_have_at_most_max(void **state)
{
	struct err err = {0};
	struct thing t = {0};

	bytes_set(&t.bytes, "12345", MAX_BYTES);
	assert_int_equal(round_trip(t, NULL), 0);
	t = zero;
	bytes_set(&t.bytes, "123456", MAX_BYTES + 1);
	assert_int_equal(round_trip(t, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "thing.bytes: too long");
}

static void evt_1_a_list_is_bounded_in_all(void **state)
{
	struct err err = {0};
	struct thing t = {0};

	strv_add(&t.strv, "123");
	strv_add(&t.strv, "456");
	assert_int_equal(round_trip(t, NULL), 0);
	t = zero;
	strv_add(&t.strv, "123");
	strv_add(&t.strv, "4567");
	assert_int_equal(round_trip(t, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "thing.strv: too long");

	t = zero;
	for (int i = 0; i < MAX_STRV; i++)
		strv_add(&t.strv, "");
	assert_int_equal(round_trip(t, NULL), 0);
	t = zero;
	for (int i = 0; i <= MAX_STRV; i++)
		strv_add(&t.strv, "");
	assert_int_equal(round_trip(t, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "thing.strv: too many");
}

static void evt_1_lying_lengths_and_nul_are_refused(void **state)
{
	char bad[PACKED];

	memcpy(bad, packed, PACKED);
	bad[17] = '\0';
	refused(bad, PACKED, "thing.str: NUL inside");
	memcpy(bad, packed, PACKED);
	bad[33] = '\0';
	refused(bad, PACKED, "thing.strv: NUL inside");
	memcpy(bad, packed, PACKED);
	bad[29] = 5; /* the list's first string would take the next field's bytes */
	refused(bad, PACKED, "thing.strv: NUL inside");
	memcpy(bad, packed, PACKED);
	memset(bad + 19, 0xff, 4);
	refused(bad, PACKED, "thing.bytes: too long");
	memcpy(bad, packed, PACKED);
	memset(bad + 25, 0xff, 4);
	refused(bad, PACKED, "thing.strv: too many");
	/* count 3 with room for two lengths: no allocation is made for it */
	memcpy(bad, packed, PACKED);
	bad[25] = 3;
	refused(bad, 25 + 4 + 2 * 4 + 3, "thing.strv: too short");
}

static void evt_1_an_absent_string_needs_its_mark(void **state)
{
	struct thing t;

	assert_int_equal(unpack("\1\0\0\0"
				"\2\0\0\0\0\0\0\0"
				"\xff\xff\xff\xff",
				16, false, &t, NULL),
			 0);
	assert_int_equal(t.wide, 2);
	assert_null(t.str);
	refused("\1\0\0\0"
		"\2\0\0\0\0\0\0\0"
		"\xff\xff\xff",
		15, "thing.str: too short");
}

static void sta_4_environment_names_are_unique(void **state)
{
	struct strv env = {0};

	strv_env_set(&env, "A", "1");
	strv_env_set(&env, "AB", "2");
	strv_env_set(&env, "B", "3");
	strv_env_set(&env, "A", "one");
	assert_int_equal(env.n, 3);
	assert_string_equal(env.v[0], "A=one");
	assert_string_equal(strv_env_get(&env, "A"), "one");
	assert_string_equal(strv_env_get(&env, "AB"), "2");
	assert_string_equal(strv_env_get(&env, "B"), "3");
	assert_null(strv_env_get(&env, "ABC"));
	assert_null(strv_env_get(&env, ""));

	strv_env_unset(&env, "NONE");
	assert_int_equal(env.n, 3);
	strv_env_unset(&env, "A");
	assert_int_equal(env.n, 2);
	assert_string_equal(env.v[0], "AB=2");
	assert_string_equal(env.v[1], "B=3");
	assert_null(env.v[2]);
	strv_env_unset(&env, "B");
	strv_env_unset(&env, "AB");
	assert_int_equal(env.n, 0);
	assert_null(env.v[0]);
	assert_null(strv_env_get(&env, "A"));
	strv_done(&env);
	assert_null(env.v);
}

static void sta_4_lists_are_copied_whole(void **state)
{
	struct strv a = {0}, b = {0};

	strv_copy(&b, &a);
	assert_null(b.v);
	strv_add(&a, "x");
	strv_add(&a, "y");
	strv_add(&b, "old");
	strv_copy(&b, &a);
	strv_done(&a);
	assert_int_equal(b.n, 2);
	assert_string_equal(b.v[0], "x");
	assert_string_equal(b.v[1], "y");
	assert_null(b.v[2]);
	strv_copy(&b, &b);
	assert_string_equal(b.v[1], "y");
	strv_done(&b);
}

static void evt_1_bytes_own_their_copy(void **state)
{
	struct bytes b = {0};

	bytes_set(&b, "abc", 3);
	bytes_set(&b, b.data + 1, 2);
	assert_int_equal(b.len, 2);
	assert_memory_equal(b.data, "bc", 2);
	bytes_set(&b, NULL, 0);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	bytes_done(&b);
}

static void sta_4_a_word_is_added_once(void **state)
{
	struct strv list = {0};

	assert_false(strv_has(&list, "a"));
	strv_add_new(&list, "a");
	strv_add_new(&list, "ab");
	strv_add_new(&list, "a");
	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[1], "ab");
	assert_true(strv_has(&list, "a"));
	assert_true(strv_has(&list, "ab"));
	assert_false(strv_has(&list, "b"));
	strv_done(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_1_the_bytes_are_little_endian_and_counted),
		cmocka_unit_test(evt_1_unpack_inverts_pack),
		cmocka_unit_test(evt_1_empty_things_survive),
		cmocka_unit_test(evt_1_an_older_record_ends_at_a_boundary),
		cmocka_unit_test(evt_1_trailing_bytes_only_if_lenient),
		cmocka_unit_test(evt_1_a_string_has_at_most_max_bytes),
		cmocka_unit_test(evt_1_bytes_have_at_most_max),
		cmocka_unit_test(evt_1_a_list_is_bounded_in_all),
		cmocka_unit_test(evt_1_lying_lengths_and_nul_are_refused),
		cmocka_unit_test(evt_1_an_absent_string_needs_its_mark),
		cmocka_unit_test(sta_4_environment_names_are_unique),
		cmocka_unit_test(sta_4_lists_are_copied_whole),
		cmocka_unit_test(sta_4_a_word_is_added_once),
		cmocka_unit_test(evt_1_bytes_own_their_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
