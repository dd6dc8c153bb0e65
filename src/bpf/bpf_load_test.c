// SPDX-License-Identifier: Apache-2.0
/* What cannot be loaded, and the reasons that the loader gives. */
#include "base/mem.h"
#include "base/testkit/child_testkit.h"
#include "bpf/bpf_load.h"
#include "bpf/testkit/bpf_testkit.h"

static void expect_reason(const struct bpf_image *image, const char *reason)
{
	struct exec_check check = EXEC_CHECK_NONE;
	struct err err = {0};

	assert_int_equal(exec_check_load(image, &check, &err), -E_ENFORCEMENT);
	if (strstr(err.message, reason) == NULL)
		fail_msg("'%s' is not in '%s'", reason, err.message);
	assert_int_equal(check.link, -1);
}

/* An object that was cut or changed is refused, or it is as good as the whole one. */
static void sbx_2_a_damaged_object_is_refused(void **state)
{
	cleanup_free unsigned char *bytes = mem_dup(exec_check_image.bytes, exec_check_image.size);
	struct bpf_image image = {.name = "damaged", .bytes = bytes};
	struct exec_check check;
	unsigned refused = 0;

	bpf_kit_load(&check);
	exec_check_close(&check);
	for (size_t i = 0; i < 16; i++) {
		struct err err = {0};

		image.size = exec_check_image.size * i / 16;
		assert_int_equal(exec_check_load(&image, &check, &err), -E_ENFORCEMENT);
		assert_string_not_equal(err.message, "");
	}
	image.size = exec_check_image.size;
	for (size_t i = 0; i < 40; i++) {
		const size_t at = image.size * i / 40;
		struct err err = {0};

		bytes[at] ^= 0xff;
		if (exec_check_load(&image, &check, &err) == 0)
			exec_check_close(&check);
		else
			refused++;
		bytes[at] ^= 0xff;
	}
	assert_in_range(refused, 8, 40);
	memset(bytes, 0x5a, image.size);
	expect_reason(&image, "cannot read the BPF object");
}

static void sbx_2_a_kernel_without_the_hook_or_types_is_named(void **state)
{
	static const char hook[] = "sched_process_exec", other[] = "sched_process_none";
	cleanup_free unsigned char *bytes = mem_dup(exec_check_image.bytes, exec_check_image.size);
	unsigned char *const end = bytes + exec_check_image.size;
	struct bpf_image image = exec_check_image;
	struct exec_check check;

	bpf_kit_load(&check);
	exec_check_close(&check);
	for (unsigned char *at = bytes;
	     (at = memmem(at, (size_t)(end - at), hook, strlen(hook))) != NULL;)
		memcpy(at, other, strlen(other));
	image.bytes = bytes;
	expect_reason(&image, "this kernel has no such hook");
	image = exec_check_image;
	image.kernel_btf = "/nonexistent/btf";
	expect_reason(&image, "the kernel does not describe its types");
	expect_reason(&image, "/nonexistent/btf");
}

static int load(const void *arg)
{
	struct exec_check check;
	struct err err = {0};

	return exec_check_load(&exec_check_image, &check, &err) == -E_ENFORCEMENT &&
			       strstr(err.message, "CAP_BPF") != NULL
		       ? 0
		       : 1;
}

static void sbx_2_a_process_without_capabilities_is_refused(void **state)
{
	assert_int_equal(kid_run(load, NULL, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_2_a_damaged_object_is_refused),
		cmocka_unit_test(sbx_2_a_kernel_without_the_hook_or_types_is_named),
		cmocka_unit_test(sbx_2_a_process_without_capabilities_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
