// SPDX-License-Identifier: Apache-2.0
/* bpf/bpf_map.h - the few bpf(2) calls of launcher, stub and warden, without libbpf.
 *
 * They work on descriptors, and need no capability; only bpf_map_new needs CAP_BPF. All but
 * bpf_map_new return 0 or a negative errno. Any thread. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* A map; names and numbers as in linux/bpf.h. The caller owns the descriptor; a negative errno on
 * failure. */
struct bpf_map_shape {
	const char *name;
	uint32_t type, flags, key_size, value_size, max_entries;
};
int bpf_map_new(const struct bpf_map_shape *shape);
/* Adds or replaces an entry. -E2BIG: the map is full. */
int bpf_map_put(int map, const void *key, const void *value);
/* Copies an entry. -ENOENT: there is no such entry. */
int bpf_map_get(int map, const void *key, void *value);
/* The same, and removes the entry. */
int bpf_map_take(int map, const void *key, void *value);
int bpf_map_drop(int map, const void *key);
/* Removes n entries by one call where the kernel can (5.16 for a map of maps). */
void bpf_map_drop_all(int map, const void *keys, size_t key_size, uint32_t n);
/* The key after this one; key NULL or not in the map: the first. -ENOENT: there are no more. */
int bpf_map_next(int map, const void *key, void *next);
/* 0: the link is attached. -ENOLINK: the kernel has detached its program. */
int bpf_link_check(int link);
