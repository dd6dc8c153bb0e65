// SPDX-License-Identifier: Apache-2.0
/* The kernel's program adds to a slot with atomic operations at the end of each system call, before
 * the caller can close the file; so what is read at RELEASE is the total. */
#include "fs/byte_slots.h"
#include "base/mem.h"
#include "bpf/exec_layout.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BYTES (FILE_SLOTS_MAX * sizeof(struct file_slot))

struct byte_slots {
	struct file_slot *slot; /* mapped */
};

int byte_slots_open(int map, struct byte_slots **out, struct err *err)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);

	if (at == MAP_FAILED)
		return err_errno(err, E_UNAVAILABLE, "slots", "cannot map the slots of open files");
	*out = mem_new(struct byte_slots);
	(*out)->slot = at;
	return 0;
}

void byte_slots_free(struct byte_slots *s)
{
	if (s == NULL)
		return;
	munmap(s->slot, BYTES);
	free(s);
}

int byte_slots_mount(struct byte_slots *s, int mount, struct err *err)
{
	struct statx st;

	/* No thread serves the mount yet: the kernel must not ask for attributes. */
	if (statx(mount, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, "slots", "cannot look at the mount");
	__atomic_store_n(&s->slot[0].record.fuse_dev, EXEC_DEV(st.stx_dev_major, st.stx_dev_minor),
			 __ATOMIC_RELEASE);
	return 0;
}

struct file_slot *byte_slots_all(struct byte_slots *s)
{
	return s->slot;
}

bool byte_slots_has(const struct byte_slots *s, uint32_t handle)
{
	return s != NULL && handle > 0 && handle < FILE_SLOTS_MAX;
}

void byte_slots_clear(struct byte_slots *s, uint32_t handle)
{
	ensure(byte_slots_has(s, handle));
	s->slot[handle].bytes = (struct file_bytes){0};
}

void byte_slots_read(const struct byte_slots *s, uint32_t handle, struct file_bytes *out)
{
	const struct file_bytes *at = &s->slot[handle].bytes;

	ensure(byte_slots_has(s, handle));
	*out = (struct file_bytes){.read = __atomic_load_n(&at->read, __ATOMIC_ACQUIRE),
				   .written = __atomic_load_n(&at->written, __ATOMIC_ACQUIRE),
				   .mapped = __atomic_load_n(&at->mapped, __ATOMIC_ACQUIRE)};
}
