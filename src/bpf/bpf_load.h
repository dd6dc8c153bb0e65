// SPDX-License-Identifier: Apache-2.0
/* bpf/bpf_load.h - loads the BPF programs that are embedded in agentsh, by libbpf.
 *
 * For agentsh-bpf, agentsh-probe and tests; needs CAP_BPF and CAP_PERFMON. What was loaded stays in
 * the kernel as long as a process holds one of the descriptors, so a link keeps its program and
 * the program its maps. */
#pragma once
#include "base/err.h"
#include "bpf/exec_sessions.h"
#include <stddef.h>

/* An object file as clang wrote it (tools/bpf_object). */
struct bpf_image {
	const char *name;
	const unsigned char *bytes;
	size_t size;
	const char *kernel_btf; /* NULL: of the running kernel; tests ask for another one */
};
extern const struct bpf_image exec_check_image;

struct bpf_object; /* of libbpf */

/* Loads the programs and maps of an object. E_ENFORCEMENT: the message says what this machine does
 * not have, or why the kernel refused. */
int bpf_load(const struct bpf_image *image, struct bpf_object **out, struct err *err);
/* The same; prepare is called before the programs and maps are loaded. It returns 0 or -1/errno. */
typedef int bpf_prepare_fn(struct bpf_object *object, const void *arg);
int bpf_load_with(const struct bpf_image *image, bpf_prepare_fn *prepare, const void *arg,
		  struct bpf_object **out, struct err *err);
void bpf_unload(struct bpf_object *object); /* NULL is fine; descriptors that were taken stay */
/* Attaches a program to its hook. The caller owns *link. */
int bpf_load_attach(struct bpf_object *object, const char *program, int *link, struct err *err);
/* Attaches a program to a control group (cgroup v2): it sees the sockets of all processes below. */
int bpf_load_attach_cgroup(struct bpf_object *object, const char *program, int cgroup, int *link,
			   struct err *err);
/* A map; the caller owns *map. */
int bpf_load_map(struct bpf_object *object, const char *name, int *map, struct err *err);

/* The exec check; the caller owns it. */
int exec_check_load(const struct bpf_image *image, struct exec_check *out, struct err *err);
