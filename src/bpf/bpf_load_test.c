// SPDX-License-Identifier: Apache-2.0
/* What cannot be loaded, and the reasons that the loader gives. */
#include "base/mem.h"
#include "base/testkit/child_testkit.h"
#include "bpf/bpf_load.h"
#include "bpf/testkit/bpf_testkit.h"
#include "bpf/testkit/programs_testkit.h"

static void expect_reason(const struct bpf_image *image, const char *reason)
{
	struct exec_check check = EXEC_CHECK_NONE;
	struct err err = {0};

	assert_int_equal(exec_check_load(image, &check, &err), -E_ENFORCEMENT);
	if (strstr(err.message, reason) == NULL)
		fail_msg("'%s' is not in '%s'", reason, err.message);
	assert_int_equal(check.fd[CHECK_LINK], -1);
}

static int load_and_close(const struct bpf_image *image, struct err *err)
{
	struct exec_check check;
	const int r = exec_check_load(image, &check, err);

	if (r == 0)
		exec_check_close(&check);
	return r;
}

static void sbx_2_a_damaged_object_is_refused(void **state)
{
	cleanup_free unsigned char *bytes = mem_dup(exec_check_image.bytes, exec_check_image.size);
	const struct bpf_image image = {
		.name = "damaged", .bytes = bytes, .size = exec_check_image.size};
	struct exec_check check;

	bpf_kit_load(&check);
	exec_check_close(&check);
	damage_kit_try(&exec_check_image, load_and_close, 40, 8);
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
