// SPDX-License-Identifier: Apache-2.0
#include "event/crc32c.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void evt_2_crc32c_of_known_vectors(void **state)
{
	uint8_t bytes[32];

	/* RFC 3720, B.4 */
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, NULL, 0), 0);
}

static void evt_2_crc32c_is_the_same_by_every_way_and_in_parts(void **state)
{
	uint8_t bytes[100];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		const uint32_t whole = crc32c(0, bytes, n);

		assert_int_equal(crc32c_plain(0, bytes, n), whole);
		assert_int_equal(crc32c(crc32c(0, bytes, n / 3), bytes + n / 3, n - n / 3), whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_2_crc32c_of_known_vectors),
		cmocka_unit_test(evt_2_crc32c_is_the_same_by_every_way_and_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
