// SPDX-License-Identifier: Apache-2.0
/* The policy engine: time of a decision with RULES rules, cached and not, and time to load LOADED
 * rules. A third of the rules are for files, for commands and for connections each.
 *
 * usage: bench_policy RULES LOADED ROUNDS   prints one JSON line */
#include "base/mem.h"
#include "policy/policy.h"
#include <stdio.h>
#include <time.h>

#define OPS 512 /* different operations, in turn */

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void make_text(unsigned rules, struct buf *out)
{
	const unsigned third = rules / 3;

	buf_adds(out, "version: 1\nname: bench\nfile_rules:\n");
	for (unsigned i = 0; i < third; i++)
		buf_addf(out,
			 "  - name: f%u\n    paths: ['%s%u%s', '**/*.ext%u']\n"
			 "    operations: [read, open, stat]\n    decision: %s\n",
			 i, i % 2 ? "/workspace/dir-" : "**/secret-", i, i % 2 ? "/**" : "", i,
			 i % 3 ? "allow" : "deny");
	buf_adds(out, "command_rules:\n");
	for (unsigned i = 0; i < third; i++)
		buf_addf(out,
			 "  - name: c%u\n    commands: [tool-%u, /opt/tools/%u/run]\n"
			 "    args_pattern: ['install*', '--force*']\n    decision: deny\n",
			 i, i, i);
	buf_adds(out, "network_rules:\n");
	for (unsigned i = 0; i < rules - 2 * third; i++)
		buf_addf(out, "  - name: n%u\n    %s\n    ports: [80, 443]\n    decision: allow\n",
			 i,
			 i % 4 ? mem_printf("domains: [host-%u.example, '*.zone-%u.example']", i, i)
			       : mem_printf("cidrs: [10.%u.%u.0/24]", i / 256 % 256, i % 256));
}

static void compile(unsigned rules, struct buf *bytes, double *ms)
{
	const struct policy_options o = {0};
	cleanup_buf struct buf text = {0};
	struct policy *p = NULL;
	struct err err = {0};
	double begin;

	make_text(rules, &text);
	begin = now_us();
	if (policy_compile("bench.yaml", text.data, text.len, &o, NULL, bytes, &err) < 0 ||
	    policy_open(bytes->data, bytes->len, &p, &err) < 0) {
		fprintf(stderr, "bench_policy: %s\n", err.message);
		exit(1);
	}
	*ms = (now_us() - begin) / 1e3;
	policy_close(p);
}

/* Half of them meet a rule, half none. */
static struct op make_op(unsigned i, unsigned rules)
{
	static const char *const argv[] = {"tool", "-v", "install", "left-pad"};
	const unsigned r = (i * 7919) % (rules / 3), way = i % 4;

	if (way == 0)
		return (struct op){
			.class = OP_FILE,
			.file = {OP_FILE_read, mem_printf("/workspace/dir-%u/src/lib/file.c", r)}};
	if (way == 1)
		return (struct op){.class = OP_FILE,
				   .file = {OP_FILE_write, mem_printf("/usr/lib/x/%u.so", i)}};
	if (way == 2)
		return (struct op){.class = OP_EXEC,
				   .exec = {.path = mem_printf("/usr/bin/tool-%u", r),
					    .argv = argv,
					    .argc = 4}};
	return (struct op){.class = OP_NET,
			   .net = {.host = mem_printf("a.b.zone-%u.example", r),
				   .address = {.family = 4, .byte = {93, 184, 216, 34}},
				   .port = 443}};
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Microseconds of a decision: the median of rounds. */
static double measure(const struct policy *p, const struct op *ops, unsigned rounds)
{
	double *took = mem_alloc(rounds * sizeof(*took)), median;
	struct verdict v;

	for (unsigned r = 0; r < rounds; r++) {
		const double begin = now_us();

		for (unsigned i = 0; i < OPS; i++)
			policy_decide(p, &ops[i], false, &v);
		took[r] = (now_us() - begin) / OPS;
	}
	qsort(took, rounds, sizeof(*took), by_value);
	median = took[rounds / 2];
	free(took);
	return median;
}

int main(int argc, char **argv)
{
	const unsigned rules = argc == 4 ? (unsigned)atoi(argv[1]) : 0;
	const unsigned loaded = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
	const unsigned rounds = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
	struct buf bytes = {0}, many = {0};
	struct policy *p;
	struct op ops[OPS];
	struct err err = {0};
	double small_ms, load_ms;

	if (rules < 3 || loaded < 3 || rounds < 1) {
		fprintf(stderr, "usage: bench_policy RULES LOADED ROUNDS\n");
		return 2;
	}
	compile(rules, &bytes, &small_ms);
	compile(loaded, &many, &load_ms);
	if (policy_open(bytes.data, bytes.len, &p, &err) < 0)
		return 1;
	for (unsigned i = 0; i < OPS; i++)
		ops[i] = make_op(i, rules);
	printf("{\"uncached_us\": %.3f, ", measure(p, ops, rounds));
	policy_add_cache(p, (size_t)OPS * 16);
	measure(p, ops, 1);
	printf("\"cached_us\": %.3f, \"load_ms\": %.1f, \"snapshot_bytes\": %zu}\n",
	       measure(p, ops, rounds), load_ms, many.len);
	return 0;
}
