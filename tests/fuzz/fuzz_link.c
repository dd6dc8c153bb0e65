// SPDX-License-Identifier: Apache-2.0
/* A link frame as a hostile peer sends it: its head against every side and state, and its payload
 * as every type. */
#include "base/mem.h"
#include "link/link.h"

#define HEAD 24
#define NUMBERS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void unpack_as(const struct msg_row *row, const uint8_t *payload, size_t len)
{
	const struct link_msg m = {.type = row->number, .data = payload, .len = len};
	cleanup_free void *obj = mem_alloc(row->fields()->size);

	if (link_unpack(&m, obj, NULL) < 0)
		return;
	/* What was unpacked within the bounds may be sent on. */
	ensure(msg_oversized(row, obj) == NULL);
	msg_done(m.type, obj);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int fd[2], fds[FDIO_MAX_FDS];
	struct link_msg m;
	struct link l;

	if (len < 3 || len > 2 + HEAD + LINK_INLINE || link_pair(fd, NULL) < 0)
		return 0;
	for (size_t i = 0; i < FDIO_MAX_FDS; i++)
		fds[i] = fd[0];
	link_init(&l, fd[1], data[0] & 7, data[0] >> 3 & 7);
	l.state = data[0] >> 6 & 3;
	if (fdio_send(fd[0], data + 2, len - 2, fds, data[1] % (FDIO_MAX_FDS + 1)) == 0 &&
	    link_recv(&l, &m, NULL) == LINK_OK)
		link_msg_done(&m);
	close(fd[0]);
	if (len >= 2 + HEAD)
		for (unsigned i = 0; i < NUMBERS; i++)
			if (msg_row(i) != NULL)
				unpack_as(msg_row(i), data + 2 + HEAD, len - 2 - HEAD);
	link_done(&l);
	return 0;
}
