// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/file_type.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void fil_2_a_type_is_by_name_and_first_bytes(void **state)
{
	static const struct {
		const char *name, *bytes;
		size_t len;
		const char *want;
	} rows[] = {
#define ROW(name, s, want) {name, s, sizeof(s) - 1, want}
		ROW("/workspace/src/main.py", "", "text/x-python"),
		ROW("/workspace/src/main.py", "import os\n", "text/x-python"),
		ROW("a.JSON", "{}", "application/json"),
		ROW("deploy.yml", "", "application/yaml"),
		ROW("Makefile", "all:\n", "text/x-makefile"),
		ROW("/a.py/x", "", NULL),
		ROW(".py", "", NULL),
		ROW("a.", "", NULL),
		ROW(NULL, "", NULL),
		ROW(NULL, "words\n", "text/plain"),
		ROW("x", "a\0b", "application/octet-stream"),
		ROW("x.txt", "a\0b", "application/octet-stream"),
		ROW("x.pyc", "a\0b", "application/x-python-code"),
		ROW("x.txt", "\177ELF\2\1", "application/x-elf"),
		ROW("x.jar", "PK\3\4", "application/java-archive"),
		ROW("x.txt", "PK\3\4", "application/zip"),
		ROW("x", "PK\3\4", "application/zip"),
		ROW("x.tgz", "\x1f\x8b\x08", "application/gzip"),
		ROW("photo.txt", "\x89PNG\r\n\x1a\n", "image/png"),
		ROW("x", "\x89PNG\r\n\x1a", "application/octet-stream"),
		ROW("run", "#!/bin/sh\n", "text/x-shellscript"),
		ROW("run", "#! /usr/bin/env -S python3.11 -u\n", "text/x-python"),
		ROW("run", "#!/usr/bin/env node", "text/javascript"),
		ROW("run", "#!/usr/bin/env\nperl", "text/plain"),
		ROW("run", "#!\n", "text/plain"),
		ROW("run", "#!/bin/3", "text/plain"),
		ROW("run.rb", "#!/bin/sh\n", "text/x-ruby"),
		ROW("x", "gr\xc3\xbc", "text/plain"),
		ROW("x", "gr\xc3", "text/plain"), /* cut */
		ROW("x", "\xc3gr", "application/octet-stream"),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *got = file_type(rows[i].name, rows[i].bytes, rows[i].len);

		if (got != rows[i].want &&
		    (got == NULL || rows[i].want == NULL || strcmp(got, rows[i].want) != 0))
			fail_msg("row %zu: %s", i, got != NULL ? got : "NULL");
	}
}

/* Exact bounds: ASan sees a read behind the bytes. */
static void fil_2_no_byte_behind_the_given_ones_is_read(void **state)
{
	static const char line[] = "#!/usr/bin/env python3";
	char big[FILE_TYPE_BYTES + 1];

	for (size_t n = 1; n < sizeof(line); n++) {
		char *copy = mem_dup(line, n);

		assert_non_null(file_type("x", copy, n));
		free(copy);
	}
	memset(big, 'a', sizeof(big));
	big[FILE_TYPE_BYTES] = '\0';
	assert_string_equal(file_type("x", big, sizeof(big)), "text/plain");
	big[FILE_TYPE_BYTES - 1] = '\0';
	assert_string_equal(file_type("x", big, sizeof(big)), "application/octet-stream");
}

static void fil_2_flags_have_names(void **state)
{
	static const struct {
		int flags;
		const char *want;
	} rows[] = {
		{O_RDONLY, "O_RDONLY"},
		{O_WRONLY | O_TRUNC, "O_WRONLY|O_TRUNC"},
		{O_RDWR | O_CREAT | O_EXCL, "O_RDWR|O_CREAT|O_EXCL"},
		{O_WRONLY | O_DSYNC, "O_WRONLY|O_DSYNC"},
		{O_WRONLY | O_SYNC, "O_WRONLY|O_SYNC"},
		{O_RDWR | O_TMPFILE, "O_RDWR|O_TMPFILE"},
		{O_RDONLY | O_DIRECTORY, "O_RDONLY|O_DIRECTORY"},
		{O_RDONLY | 0100000 | 0x20, "O_RDONLY"},
	};
	char out[OPEN_FLAGS_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		open_flags_format(rows[i].flags, out);
		assert_string_equal(out, rows[i].want);
	}
	open_flags_format(~O_ACCMODE, out);
	assert_string_equal(out, "O_RDONLY|O_CREAT|O_EXCL|O_NOCTTY|O_TRUNC|O_APPEND|O_NONBLOCK|"
				 "O_SYNC|O_DIRECT|O_TMPFILE|O_NOFOLLOW|O_NOATIME|O_CLOEXEC|O_PATH");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_2_a_type_is_by_name_and_first_bytes),
		cmocka_unit_test(fil_2_no_byte_behind_the_given_ones_is_read),
		cmocka_unit_test(fil_2_flags_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
