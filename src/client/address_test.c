// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "client/client_internal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define P50 "12345678901234567890123456789012345678901234567890"

static void cli_1_addresses_are_parsed(void **state)
{
	static const struct {
		const char *text, *want; /* path, or host and port; NULL: refused */
	} rows[] = {
		{"/run/x", "/run/x"},
		{"unix:/run/x", "/run/x"},
		{"unix:run/x", NULL},
		{"/" P50 P50 "123456", "/" P50 P50 "123456"},
		{"/" P50 P50 "1234567", NULL},
		{"127.0.0.1:8080", "127.0.0.1 8080"},
		{"http://127.0.0.1:8080", "127.0.0.1 8080"},
		{"http://127.0.0.1:8080/", "127.0.0.1 8080"},
		{"http://127.0.0.1:8080/api", NULL},
		{"localhost:1", "localhost 1"},
		{"[::1]:65535", "::1 65535"},
		{"::1:80", NULL},
		{"[::1:80", NULL},
		{"[::1]x:80", NULL},
		{"[]:80", NULL},
		{"h:0", NULL},
		{"h:65536", NULL},
		{"h:000001", NULL},
		{"h:", NULL},
		{"h:+1", NULL},
		{":80", NULL},
		{"h", NULL},
		{"", NULL},
		{"https://h:1", NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf text = {0};
		struct address a = {0};
		struct err err = {0};
		const int r = address_parse(rows[i].text, &a, &err);

		if ((r == 0) != (rows[i].want != NULL))
			fail_msg("%s: %d %s", rows[i].text, r, err.message);
		if (r == 0) {
			buf_addf(&text, "%s%s%s", a.path != NULL ? a.path : a.host,
				 a.path != NULL ? "" : " ", a.path != NULL ? "" : a.port);
			assert_string_equal(text.data, rows[i].want);
		} else {
			assert_int_equal(r, -E_BAD_REQUEST);
			assert_string_equal(err.subject, rows[i].text);
			assert_null(a.path);
			assert_null(a.host);
		}
		address_done(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_addresses_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
