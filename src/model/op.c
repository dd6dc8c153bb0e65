// SPDX-License-Identifier: Apache-2.0
#include "model/op.h"
#include "base/names.h"
#include <arpa/inet.h>

static const char *const file_names[OP_FILES] = {
#define X(name) #name,
	OP_FILE_LIST(X)
#undef X
};

const char *op_file_name(enum op_file op)
{
	return file_names[op];
}

bool op_file_parse(const char *name, enum op_file *out)
{
	const int i = name_find(file_names, OP_FILES, name, strlen(name));

	if (i >= 0)
		*out = (enum op_file)i;
	return i >= 0;
}

bool op_address_parse(const char *s, struct op_address *a)
{
	struct op_address got = {.family = 4};

	if (inet_pton(AF_INET, s, got.byte) != 1) {
		got.family = 6;
		if (inet_pton(AF_INET6, s, got.byte) != 1)
			return false;
	}
	*a = got;
	return true;
}

void op_address_format(const struct op_address *a, struct buf *out)
{
	char text[INET6_ADDRSTRLEN];

	if (a->family == 0)
		return;
	inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->byte, text, sizeof(text));
	buf_adds(out, text);
}

void op_format_kind(const struct op *op, struct buf *out)
{
	static const char *const names[OP_CLASSES] = {"file_", "exec", "net_connect", "dns_query"};

	buf_adds(out, names[op->class]);
	if (op->class == OP_FILE)
		buf_adds(out, op_file_name(op->file.op));
}

/* A connection is HOST:PORT, or ADDRESS:PORT with brackets around a v6 address. */
void op_format_target(const struct op *op, struct buf *out)
{
	const bool bracket =
		op->class == OP_NET && op->net.host == NULL && op->net.address.family == 6;

	if (op->class != OP_NET)
		buf_adds(out, op->class == OP_FILE	? op->file.path
			      : op->class == OP_DNS	? op->dns.name
			      : op->exec.script != NULL ? op->exec.script
							: op->exec.path);
	else if (op->net.host != NULL)
		buf_adds(out, op->net.host);
	else {
		buf_adds(out, bracket ? "[" : "");
		op_address_format(&op->net.address, out);
		buf_adds(out, bracket ? "]" : "");
	}
	if (op->class == OP_NET && op->net.port != 0)
		buf_addf(out, ":%u", op->net.port);
}

void op_format_args(const struct op *op, struct buf *out)
{
	size_t left = OP_ARGS_SHOWN;

	if (op->class != OP_EXEC)
		return;
	for (size_t i = op_exec_own(op); i < op->exec.argc && left > 0; i++) {
		const size_t len = strlen(op->exec.argv[i]);
		const size_t n = len < left ? len : left;

		buf_add(out, op->exec.argv[i], n);
		left -= n;
		if (i + 1 < op->exec.argc && left > 0) {
			buf_addc(out, ' ');
			left--;
		}
	}
}
