// SPDX-License-Identifier: Apache-2.0
#include "bpf/bpf_map.h"
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int call(enum bpf_cmd cmd, union bpf_attr *attr)
{
	const long r = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return r < 0 ? -errno : (int)r;
}

int bpf_map_new(const struct bpf_map_shape *shape)
{
	union bpf_attr attr = {
		.map_type = shape->type,
		.key_size = shape->key_size,
		.value_size = shape->value_size,
		.max_entries = shape->max_entries,
		.map_flags = shape->flags,
	};

	snprintf(attr.map_name, sizeof(attr.map_name), "%s", shape->name);
	return call(BPF_MAP_CREATE, &attr);
}

int bpf_map_put(int map, const void *key, const void *value)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map,
			       .key = (uintptr_t)key,
			       .value = (uintptr_t)value,
			       .flags = BPF_ANY};

	return call(BPF_MAP_UPDATE_ELEM, &attr);
}

int bpf_map_get(int map, const void *key, void *value)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return call(BPF_MAP_LOOKUP_ELEM, &attr);
}

int bpf_map_take(int map, const void *key, void *value)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return call(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &attr);
}

int bpf_map_drop(int map, const void *key)
{
	union bpf_attr attr = {.map_fd = (uint32_t)map, .key = (uintptr_t)key};

	return call(BPF_MAP_DELETE_ELEM, &attr);
}

void bpf_map_drop_all(int map, const void *keys, size_t key_size, uint32_t n)
{
	union bpf_attr attr = {
		.batch = {.map_fd = (uint32_t)map, .keys = (uintptr_t)keys, .count = n}};

	if (n == 0 || call(BPF_MAP_DELETE_BATCH, &attr) == 0)
		return;
	for (uint32_t i = 0; i < n; i++)
		bpf_map_drop(map, (const char *)keys + i * key_size);
}

int bpf_map_next(int map, const void *key, void *next)
{
	union bpf_attr attr = {
		.map_fd = (uint32_t)map, .key = (uintptr_t)key, .next_key = (uintptr_t)next};

	return call(BPF_MAP_GET_NEXT_KEY, &attr);
}

int bpf_link_check(int link)
{
	struct bpf_link_info info = {0};
	union bpf_attr attr = {.info = {.bpf_fd = (uint32_t)link,
					.info_len = sizeof(info),
					.info = (uintptr_t)&info}};
	const int r = call(BPF_OBJ_GET_INFO_BY_FD, &attr);

	if (r < 0)
		return r;
	return info.prog_id != 0 ? 0 : -ENOLINK;
}
