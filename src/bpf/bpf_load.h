// SPDX-License-Identifier: Apache-2.0
/* bpf/bpf_load.h - loads the BPF programs that are embedded in agentsh, by libbpf.
 *
 * For agentsh-bpf, agentsh-probe and tests; needs CAP_BPF and CAP_PERFMON. What was loaded stays in
 * the kernel as long as a process holds one of the descriptors, so a link keeps its program and
 * the program its maps. */
#pragma once
#include "base/err.h"
#include <stddef.h>

/* An object file as clang wrote it (tools/bpf_object). */
struct bpf_image {
	const char *name;
	const unsigned char *bytes;
	size_t size;
	/* NULL: as the program and the running kernel have them; tests ask for others. */
	const char *hook, *kernel_btf;
};
extern const struct bpf_image exec_check_image;

struct bpf_object; /* of libbpf */

/* Loads the programs and maps of an object. E_ENFORCEMENT: the message says what this machine does
 * not have, or why the kernel refused. */
int bpf_load(const struct bpf_image *image, struct bpf_object **out, struct err *err);
void bpf_unload(struct bpf_object *object); /* NULL is fine; descriptors that were taken stay */
/* Attaches a program to its hook. The caller owns *link. */
int bpf_load_attach(struct bpf_object *object, const char *program, int *link, struct err *err);
/* A map; the caller owns *map. */
int bpf_load_map(struct bpf_object *object, const char *name, int *map, struct err *err);

/* The exec check: what a server holds of it. */
struct exec_check {
	int sessions; /* map: see exec_sessions.h */
	int link;     /* as long as a process holds it, the program checks */
};
#define EXEC_CHECK_NONE ((struct exec_check){-1, -1})
int exec_check_load(const struct bpf_image *image, struct exec_check *out, struct err *err);
void exec_check_close(struct exec_check *check);
