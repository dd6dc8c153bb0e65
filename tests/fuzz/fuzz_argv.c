// SPDX-License-Identifier: Apache-2.0
/* A caller's memory, the first line of a file, and what ld.so is given. The first byte chooses:
 * '#': the rest is a file; else the rest is memory at BASE, with argv at its begin. */
#include "base/mem.h"
#include "exec/args.h"
#include <errno.h>

#define BASE 0x1000

struct input {
	const uint8_t *data;
	size_t size;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The last page may be short: zero behind, as after the end of a file. */
static int read_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE])
{
	const struct input *in = arg;
	size_t n;

	if (page < BASE || page - BASE >= in->size)
		return EFAULT;
	n = in->size - (page - BASE);
	memset(out, 0, EXEC_PAGE);
	memcpy(out, in->data + (page - BASE), n < EXEC_PAGE ? n : EXEC_PAGE);
	return 0;
}

static void check_argv(struct input *in)
{
	static struct args_memory m;
	struct loader_call call;
	struct args a;
	size_t bytes = 0;

	args_memory_init(&m, read_page, in);
	if (args_read(&m, BASE, &a) != 0)
		return;
	ensure(a.n >= 1 && a.n <= a.argc && a.cut == (a.n < a.argc));
	for (size_t i = 0; i < a.n; i++)
		bytes += strlen(a.v[i]) + 1;
	ensure(bytes == a.text.len && bytes <= EXEC_ARGS_KEPT);
	loader_parse(a.v, a.n, &call);
	ensure(call.program == NULL || (call.program > a.v[0] && call.program < a.v[0] + bytes));
	args_done(&a);
}

static void check_shebang(const struct input *in)
{
	char head[BINPRM_BYTES] = {0};
	struct shebang s;

	memcpy(head, in->data, in->size < sizeof(head) ? in->size : sizeof(head));
	if (shebang_parse(head, &s) != 0)
		return;
	ensure(head[0] == '#' && head[1] == '!');
	ensure(strlen(s.name) < sizeof(s.name) && strpbrk(s.name, " \t\n") == NULL);
	ensure(!s.has_arg || (s.arg[0] != ' ' && s.arg[0] != '\t' && strchr(s.arg, '\n') == NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (size == 0)
		return 0;
	if (data[0] == '#')
		check_shebang(&in);
	else
		check_argv(&(struct input){data + 1, size - 1});
	return 0;
}
