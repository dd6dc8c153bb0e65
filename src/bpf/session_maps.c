// SPDX-License-Identifier: Apache-2.0
#include "bpf/session_maps.h"
#include "base/mem.h"
#include "bpf/exec_layout.h"
#include "bpf/file_layout.h"
#include <errno.h>
#include <linux/bpf.h>

static const union exec_entry exec_record;
static const uint32_t first;

const struct session_map session_wants = {{"agentsh_wants", BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC,
					   sizeof(uint32_t), sizeof(union exec_entry),
					   EXEC_WANTS_MAX},
					  &first,
					  &exec_record};
const struct session_map session_slots = {{"agentsh_slots", BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE,
					   sizeof(uint32_t), sizeof(struct file_slot),
					   FILE_SLOTS_MAX}};
const struct session_map session_ring = {
	{"agentsh_ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 0, FILE_RING_BYTES}};

int session_map_add(const struct session_map *m, int outer, const void *key, int *map,
		    struct err *err)
{
	int fd = bpf_map_new(&m->shape), r = fd;

	if (r >= 0 && m->key != NULL)
		r = bpf_map_put(fd, m->key, m->value);
	if (r >= 0)
		r = bpf_map_put(outer, key, &fd);
	if (r < 0) {
		mem_cleanup_fd(&fd);
		errno = -r;
		return err_errno(err, E_ENFORCEMENT, m->shape.name,
				 "cannot register the session for a BPF program");
	}
	*map = fd;
	return 0;
}
