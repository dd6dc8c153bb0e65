// SPDX-License-Identifier: Apache-2.0
/* The layout is the kernel's (kernel/bpf/ringbuf.c): a page with the reader's position, which alone
 * can be written, a page with the writer's position, and the data twice in a row, so that no record
 * is torn at the end. A record begins with its length and a second number. */
#include "fs/call_ring.h"
#include "base/mem.h"
#include "bpf/file_layout.h"
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAD 8 /* bytes before a record */

struct call_ring {
	unsigned long *reader; /* mapped; position in bytes since the beginning */
	const char *rest;      /* mapped: the writer's page, and the data */
	size_t page;
};

int call_ring_open(int map, struct call_ring **out, struct err *err)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *reader = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
	void *rest = mmap(NULL, page + (size_t)2 * FILE_RING_BYTES, PROT_READ, MAP_SHARED, map,
			  (off_t)page);

	if (reader == MAP_FAILED || rest == MAP_FAILED) {
		err_errno(err, E_UNAVAILABLE, "ring", "cannot map the ring of path calls");
		if (reader != MAP_FAILED)
			munmap(reader, page);
		if (rest != MAP_FAILED)
			munmap(rest, page + (size_t)2 * FILE_RING_BYTES);
		return -E_UNAVAILABLE;
	}
	*out = mem_new(struct call_ring);
	**out = (struct call_ring){.reader = reader, .rest = rest, .page = page};
	return 0;
}

void call_ring_free(struct call_ring *r)
{
	if (r == NULL)
		return;
	munmap(r->reader, r->page);
	munmap((void *)(uintptr_t)r->rest, r->page + (size_t)2 * FILE_RING_BYTES);
	free(r);
}

unsigned call_ring_read(struct call_ring *r, unsigned n, call_ring_fn *fn, void *arg)
{
	const unsigned long *writer = (const unsigned long *)(uintptr_t)r->rest;
	const char *data = r->rest + r->page;
	unsigned long at = *r->reader;
	unsigned found = 0;

	while (found < n && at < __atomic_load_n(writer, __ATOMIC_ACQUIRE)) {
		const char *record = data + at % FILE_RING_BYTES;
		const uint32_t len =
			__atomic_load_n((const uint32_t *)(uintptr_t)record, __ATOMIC_ACQUIRE);
		const uint32_t size =
			len & ~(uint32_t)(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (len & BPF_RINGBUF_BUSY_BIT)
			break; /* the program is still writing it */
		if (!(len & BPF_RINGBUF_DISCARD_BIT)) {
			fn(record + HEAD, size, arg);
			found++;
		}
		at += (HEAD + size + 7) / 8 * 8;
		__atomic_store_n(r->reader, at, __ATOMIC_RELEASE);
	}
	return found;
}
