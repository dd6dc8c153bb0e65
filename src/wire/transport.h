// SPDX-License-Identifier: Apache-2.0
/* wire/transport.h - receive, send and shut down for one connection, below HTTP; plain today.
 *
 * The connection watches fd with edges: for reading always, for writing while it has unsent bytes.
 * A transport that buffers received bytes (a TLS record) returns all of them before it returns less
 * than was asked for. */
#pragma once
#include <sys/uio.h>

struct transport;
struct transport_ops {
	/* Like recv(2) and sendmsg(2) on a non-blocking socket: -1 with EAGAIN means that the next
	 * readiness of fd is waited for. Less than n bytes received means the same; 0 is the end.
	 */
	ssize_t (*receive)(struct transport *t, void *p, size_t n);
	ssize_t (*send)(struct transport *t, const struct iovec *iov, int n);
	/* Like sendfile(2). NULL: this transport must see the bytes. */
	ssize_t (*send_file)(struct transport *t, int fd, off_t at, size_t n);
	void (*shut_down)(struct transport *t); /* no more is sent; the peer reads the end */
	void (*close)(struct transport *t);	/* frees it, too */
};
struct transport {
	const struct transport_ops *ops;
	int fd; /* owned */
};

/* Takes a connected non-blocking socket. */
typedef struct transport *transport_open_fn(int fd);
transport_open_fn transport_plain;
