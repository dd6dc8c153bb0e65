// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "exec/args.h"
#include "exec/maps.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char text[] =
	"1000-3000 r--p 00000000 08:01 77                   /usr/bin/a b\n"
	"3000-4000 rw-p 00000000 00:00 0                    [heap]\n"
	"7000-8000 rw-s 00000000 00:05 12                   /dev/zero (deleted)\n"
	"8000-9000 rw-p 00000000 00:00 0 \n";

static void pol_4_the_text_of_maps_is_searched(void **state)
{
	struct mapping m;

	assert_int_equal(maps_find(text, 0x1000, &m), 0);
	assert_int_equal(m.start, 0x1000);
	assert_int_equal(m.end, 0x3000);
	assert_int_equal(m.inode, 77);
	assert_int_equal(m.dev, makedev(8, 1));
	assert_string_equal(m.name, "/usr/bin/a b");
	assert_false(m.shared);
	assert_int_equal(maps_find(text, 0x2000, &m), 0);
	assert_int_equal(m.inode, 77);
	assert_int_equal(maps_find(text, 0x3000, &m), 0);
	assert_string_equal(m.name, "[heap]");
	assert_int_equal(m.inode, 0);
	assert_int_equal(maps_find(text, 0x4000, &m), ENOENT);
	assert_int_equal(maps_find(text, 0x0, &m), ENOENT);
	assert_int_equal(maps_find(text, 0x7000, &m), 0);
	assert_true(m.shared);
	assert_int_equal(maps_find(text, 0x8000, &m), 0);
	assert_string_equal(m.name, "");
	assert_int_equal(maps_find(text, 0x9000, &m), ENOENT);
	assert_int_equal(maps_find("nonsense\n", 0x9000, &m), EPROTO);
	assert_int_equal(maps_find("", 0x9000, &m), ENOENT);
}

static uint64_t page_of(const void *p)
{
	return (uintptr_t)p & ~(uint64_t)(EXEC_PAGE - 1);
}

static void pol_4_our_own_pages(void **state)
{
	char *shared = mmap(NULL, EXEC_PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *alone = mmap(NULL, EXEC_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char on_stack = 0;
	const uint64_t page[] = {page_of(&on_stack), page_of(alone), page_of(shared)};
	const uint64_t none = EXEC_PAGE;
	static struct fixed_names names;

	assert_true(maps_private(getpid(), page, 2, &names));
	assert_false(maps_private(getpid(), page, 3, &names));
	assert_false(maps_private(getpid(), page + 2, 1, &names));
	assert_false(maps_private(getpid(), &none, 1, &names));
	assert_false(maps_private(getpid(), page, EXEC_PAGES_MAX + 1, &names));
	munmap(shared, EXEC_PAGE);
	munmap(alone, EXEC_PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_the_text_of_maps_is_searched),
		cmocka_unit_test(pol_4_our_own_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
