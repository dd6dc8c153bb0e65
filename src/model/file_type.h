// SPDX-License-Identifier: Apache-2.0
/* model/file_type.h - what events say about a file: its MIME type, and the flags of an open. */
#pragma once
#include <stddef.h>

#define FILE_TYPE_BYTES 512 /* that are looked at */

/* The MIME type by name (a path or its last part; may be NULL) and first bytes; NULL: not known.
 * Bytes that say what they are win over the name, except in a container such as zip, where the name
 * says more. len 0: only the name is known. */
const char *file_type(const char *name, const void *first, size_t len);

#define OPEN_FLAGS_MAX 256 /* bytes of the longest text */
/* "O_WRONLY|O_TRUNC"; bits without a name are left out. */
void open_flags_format(int flags, char out[OPEN_FLAGS_MAX]);
