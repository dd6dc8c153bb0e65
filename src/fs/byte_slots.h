// SPDX-License-Identifier: Apache-2.0
/* fs/byte_slots.h - the bytes that the kernel counts for each open file: bpf/file_layout.h.
 *
 * The number of a handle is the number of its slot. The bytes of a handle with a larger number are
 * not counted. Any thread. */
#pragma once
#include "base/err.h"
#include "bpf/file_layout.h"
#include <stdbool.h>
#include <stdint.h>

struct byte_slots;

/* Maps the session's slots; the descriptor is borrowed. */
int byte_slots_open(int map, struct byte_slots **out, struct err *err);
void byte_slots_free(struct byte_slots *s); /* NULL is fine */
/* From now on the kernel counts the files of this mount, which it need not be possible to enter. */
int byte_slots_mount(struct byte_slots *s, int mount, struct err *err);
/* All slots; the first one is the session's record. Borrowed. */
struct file_slot *byte_slots_all(struct byte_slots *s);
bool byte_slots_has(const struct byte_slots *s, uint32_t handle); /* s may be NULL */
/* Before a file is opened by this number; after it was closed. */
void byte_slots_clear(struct byte_slots *s, uint32_t handle);
void byte_slots_read(const struct byte_slots *s, uint32_t handle, struct file_bytes *out);
