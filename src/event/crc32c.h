// SPDX-License-Identifier: Apache-2.0
/* event/crc32c.h - CRC-32C (Castagnoli), by the processor where it can. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Continues from the crc of the bytes before; 0 starts. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
/* The same without the processor's instruction. */
uint32_t crc32c_plain(uint32_t crc, const void *p, size_t n);
