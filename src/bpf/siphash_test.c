// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "bpf/siphash.h"

/* The example of the paper, appendix A: key 00 … 0f, message 00 … 0e. The other lengths are from
 * the list of its reference implementation. */
static void pol_4_argv_is_hashed_as_the_paper_says(void **state)
{
	static const struct {
		__u64 len, hash;
	} known[] = {
		{0, 0x726fdb47dd0e0e31ULL},  {1, 0x74f839c593dc67fdULL},
		{8, 0x93f5f5799a932462ULL},  {15, 0xa129ca6149be45e5ULL},
		{63, 0x958a324ceb064572ULL},
	};
	const __u64 key[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	unsigned char bytes[64];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_true(siphash(key, bytes, known[i].len) == known[i].hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_argv_is_hashed_as_the_paper_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
