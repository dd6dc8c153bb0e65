// SPDX-License-Identifier: Apache-2.0
/* A damaged snapshot: the bytes are changes to a good one (offset, offset, value), whose digest is
 * then made right again, because no fuzzer guesses one. It is refused, or decides in bounds. */
#include "base/hash.h"
#include "base/mem.h"
#include "policy/policy.h"
#include "policy/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] =
	"version: 1\nname: t\ndescription: d\nfile_rules:\n"
	"  - {name: a, paths: ['/w/**', '**/*.c', '/w/x'], decision: allow, message: '{path}'}\n"
	"  - {name: b, paths: ['**/.env'], decision: deny, final: true}\n"
	"  - {name: m, paths: ['/workspace/a/**'], decision: redirect, redirect_to: /workspace/b}\n"
	"network_rules:\n"
	"  - {name: c, domains: ['*.a.example', b.example], ports: [80-90], decision: allow}\n"
	"  - {name: d, cidrs: [10.0.0.0/8, 'fd00::/8'], protocols: [tcp], decision: deny}\n"
	"command_rules:\n"
	"  - {name: e, commands: [rm, '/w/*', 'py*'], args_pattern: ['-rf*'], decision: deny}\n"
	"  - {name: f, commands: [x], args_regex: ['^a+$'], scripts: ['/w/**'], decision: log}\n"
	"  - {name: g, commands: [y], decision: redirect, redirect_to: /bin/true}\n"
	"  - {name: h, commands: [x], flags: [[-r, --rec], [-f]], decision: deny}\n"
	"resource_limits: {pids_max: 5}\nenvironment: {allow: [A, 'B*'], deny: [C]}\n";

static void use(const struct policy *p)
{
	static const char *const argv[] = {"rm", "-rf", "a"};
	const struct op ops[] = {
		{.class = OP_FILE, .file = {OP_FILE_read, "/w/x/.env"}},
		{.class = OP_FILE, .file = {OP_FILE_read, "/w/x.c"}},
		{.class = OP_FILE, .file = {OP_FILE_read, "/workspace/a/x"}},
		{.class = OP_EXEC, .exec = {.path = "/bin/rm", .argv = argv, .argc = 3}},
		{.class = OP_EXEC,
		 .exec = {.path = "/bin/x", .script = "/w/s", .argv = argv, .argc = 3}},
		{.class = OP_NET, .net = {.host = "x.a.example", .port = 80}},
		{.class = OP_NET, .net = {.address = {4, {10, 1, 1, 1}}, .port = 80}},
		{.class = OP_DNS, .dns = {"b.example", 1}},
	};
	cleanup_buf struct buf out = {0};
	cleanup_file_view struct file_view view = {0};
	struct session_request request = {0};
	struct strv lines = {0};
	struct jw w = JW(&out);

	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct verdict v;

		policy_decide(p, &ops[i], false, &v);
		verdict_format_reason(&v, &ops[i], &out);
		policy_alternatives(p, &ops[i], &lines);
	}
	policy_summary(p, &lines);
	buf_clear(&out);
	file_view_add(&view, &(struct file_place){.path = "/w", .rest = HOLDER_SERVER});
	file_view_add(&view, &(struct file_place){.path = "/w/x", .open = FILE_OPS});
	policy_format(p, &view, &w);
	strv_add(&request.allowed_domains, "*.a.example");
	strv_add(&request.environment, "A=1");
	policy_covers(p, &request, NULL);
	session_request_done(&request);
	strv_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct buf good;
	const struct policy_options o = {0};
	struct snapshot_head *head;
	const size_t from = offsetof(struct snapshot_head, shadow);
	struct policy *p = NULL;
	struct err err = {0};
	char *bytes;
	size_t len;

	if (good.len == 0)
		ensure(policy_compile("f", text, sizeof(text) - 1, &o, NULL, &good, NULL) == 0);
	len = size % 3 == 1 && good.len > data[0] ? good.len - data[0] : good.len;
	bytes = mem_dup(good.data, len);
	for (size_t i = 0; i + 3 <= size; i += 3)
		bytes[((size_t)data[i] << 8 | data[i + 1]) % len] ^= (char)data[i + 2];
	head = (struct snapshot_head *)(void *)bytes;
	if (len > sizeof(*head))
		hash_sha256(head->digest, bytes + from, len - from, NULL, 0);
	if (policy_open(bytes, len, &p, &err) == 0)
		use(p);
	else
		ensure(p == NULL && err.code != E_OK);
	policy_close(p);
	free(bytes);
	return 0;
}
