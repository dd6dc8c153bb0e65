// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

void policy_kit_open(struct policy_kit *k, const char *text, const struct policy_options *o)
{
	static const struct policy_options none;
	cleanup_buf struct buf report = {0};
	struct err err = {0};

	*k = (struct policy_kit){0};
	if (policy_compile("p.yaml", text, strlen(text), o != NULL ? o : &none, &report, &k->bytes,
			   &err) < 0)
		fail_msg("%s", report.data != NULL ? report.data : err.message);
	if (policy_open(k->bytes.data, k->bytes.len, &k->p, &err) < 0 ||
	    policy_open(k->bytes.data, k->bytes.len, &k->cached, &err) < 0)
		fail_msg("%s", err.message);
	policy_add_cache(k->cached, 64);
}

void policy_kit_close(struct policy_kit *k)
{
	policy_close(k->p);
	policy_close(k->cached);
	buf_done(&k->bytes);
}

/* Decides without cache, with one that is empty of it, and with one that has it: all the same. */
struct verdict policy_kit_decide(struct policy_kit *k, const struct op *op)
{
	struct verdict plain, first, again;

	policy_decide(k->p, op, true, &plain);
	policy_decide(k->cached, op, true, &first);
	policy_decide(k->cached, op, true, &again);
	assert_false(plain.cached);
	assert_string_equal(plain.rule, first.rule);
	assert_string_equal(plain.rule, again.rule);
	assert_int_equal(plain.effective, first.effective);
	assert_int_equal(plain.effective, again.effective);
	assert_int_equal(plain.decision, again.decision);
	assert_int_equal(plain.line, again.line);
	if (op->class == OP_FILE) { /* all operations in one search */
		struct file_rules f;

		policy_decide_file(k->p, op->file.path, op->file.made, &f);
		policy_file_verdict(k->p, &f, op->file.op, true, &again);
		assert_int_equal(first.effective, again.effective);
		policy_decide(k->p, op, false, &first);
		policy_file_verdict(k->p, &f, op->file.op, false, &again);
		assert_string_equal(first.rule, again.rule);
		assert_int_equal(first.effective, again.effective);
		assert_int_equal((policy_file_set(k->p, &f) >> op->file.op & 1) == 0,
				 verdict_allows(&first));
	}
	return plain;
}

struct verdict policy_kit_file(struct policy_kit *k, const char *kind, const char *path)
{
	struct op op = {.class = OP_FILE, .file = {.path = path}};

	assert_true(op_file_parse(kind, &op.file.op));
	return policy_kit_decide(k, &op);
}

/* argv from a text with single spaces; called may be NULL. */
struct verdict policy_kit_exec(struct policy_kit *k, const char *path, const char *called,
			       const char *line)
{
	cleanup_free char *copy = mem_strdup(line);
	const char *argv[32] = {0};
	struct op op = {.class = OP_EXEC, .exec = {.path = path, .called = called, .argv = argv}};

	for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " "))
		argv[op.exec.argc++] = p;
	return policy_kit_decide(k, &op);
}

struct verdict policy_kit_net(struct policy_kit *k, const char *host, const char *address,
			      uint16_t port)
{
	struct op op = {.class = OP_NET, .net = {.host = host, .port = port}};

	if (address != NULL)
		assert_true(op_address_parse(address, &op.net.address));
	return policy_kit_decide(k, &op);
}

struct verdict policy_kit_dns(struct policy_kit *k, const char *name)
{
	const struct op op = {.class = OP_DNS, .dns = {name, 1}};

	return policy_kit_decide(k, &op);
}
