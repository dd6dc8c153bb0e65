// SPDX-License-Identifier: Apache-2.0
/* A policy file: what is accepted compiles to a snapshot that opens, decides the same with a cache
 * and without, and whose text form is JSON; what is refused says where. */
#include "base/mem.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int give_set(const char *name, struct buf *text, struct buf *file, void *arg,
		    struct err *err)
{
	if (strcmp(name, "s") != 0)
		return err_set(err, E_NOT_FOUND, name, "no set");
	buf_adds(file, "s.yaml");
	buf_adds(text, "version: 1\nname: s\nkind: paths\nitems: ['**/.env']\n");
	return 0;
}

static void decide(const struct policy *p, struct policy *with_cache)
{
	static const char *const argv[] = {"rm", "-rf", "/", "install"};
	const struct op ops[] = {
		{.class = OP_FILE, .file = {OP_FILE_read, "/workspace/.env"}},
		{.class = OP_FILE, .file = {OP_FILE_write, "/"}},
		{.class = OP_EXEC, .exec = {.path = "/usr/bin/rm", .argv = argv, .argc = 4}},
		{.class = OP_EXEC, .exec = {.path = "/w/x", .script = "/w/y"}},
		{.class = OP_NET,
		 .net = {.host = "a.example", .address = {4, {10, 0, 0, 1}}, .port = 443}},
		{.class = OP_DNS, .dns = {"a.example", 1}},
	};

	policy_add_cache(with_cache, 16);
	for (size_t i = 0; i < ARRAY_LEN(ops) * 2; i++) {
		struct verdict plain, cached;

		policy_decide(p, &ops[i / 2], false, &plain);
		policy_decide(with_cache, &ops[i / 2], false, &cached);
		ensure(strcmp(plain.rule, cached.rule) == 0 && plain.effective == cached.effective);
		ensure(cached.cached == (i % 2 == 1));
	}
}

static void show(const struct policy *p)
{
	cleanup_buf struct buf json = {0};
	struct jw w = JW(&json);
	struct strv lines = {0};
	json_t *parsed = NULL;

	policy_format(p, NULL, &w);
	ensure(json_parse(json.data, json.len, &parsed, NULL) == 0);
	json_decref(parsed);
	policy_summary(p, &lines);
	strv_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct policy_options o = {.set = give_set};
	cleanup_buf struct buf report = {0}, bytes = {0};
	struct policy *p = NULL, *with_cache = NULL;
	struct err err = {0};

	if (policy_compile("f", (const char *)data, size, &o, &report, &bytes, &err) < 0) {
		ensure(bytes.len == 0 && err.code != E_OK && report.len > 0);
		return 0;
	}
	ensure(policy_open(bytes.data, bytes.len, &p, &err) == 0);
	ensure(policy_open(bytes.data, bytes.len, &with_cache, &err) == 0);
	decide(p, with_cache);
	show(p);
	policy_close(with_cache);
	policy_close(p);
	return 0;
}
