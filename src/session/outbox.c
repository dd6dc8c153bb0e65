// SPDX-License-Identifier: Apache-2.0
#include "session/outbox.h"
#include "base/loop.h"
#include "base/mem.h"
#include <fcntl.h>

/* The largest payload struct; checked against the table when a parcel is unpacked. */
union payload {
	struct warden_exec exec;
	struct warden_hello hello;
	struct launcher_create create;
	char room[512];
};

struct parcel {
	STAILQ_ENTRY(parcel) next;
	enum msg_type type;
	struct buf packed;
	int fd[FDIO_MAX_FDS];
	size_t nfds;
};

static void parcel_free(struct parcel *p)
{
	for (size_t i = 0; i < p->nfds; i++)
		close(p->fd[i]);
	buf_done(&p->packed);
	free(p);
}

static int keep(struct outbox *o, enum msg_type type, const void *obj, const int *fds, size_t nfds,
		struct err *err)
{
	const char *field = msg_oversized(msg_row(type), obj);
	struct parcel *p;

	if (field != NULL)
		return err_set(err, E_INTERNAL, field, "%s is too long", field);
	p = mem_new(struct parcel);
	p->type = type;
	fields_pack(msg_row(type)->fields, obj, &p->packed);
	for (; p->nfds < nfds; p->nfds++) {
		p->fd[p->nfds] = fcntl(fds[p->nfds], F_DUPFD_CLOEXEC, 3);
		if (p->fd[p->nfds] < 0) {
			parcel_free(p);
			return err_errno(err, E_UNAVAILABLE, NULL, "cannot copy a descriptor");
		}
	}
	if (o->bytes + p->packed.len > OUTBOX_MAX) {
		parcel_free(p);
		return err_set(err, E_UNAVAILABLE, NULL, "the peer does not read its messages");
	}
	watch_start(o->writable); /* beside the reader of the same descriptor */
	o->bytes += p->packed.len;
	STAILQ_INSERT_TAIL(&o->parcels, p, next);
	return 0;
}

static bool full(int r, const struct err *err)
{
	return r == -E_UNAVAILABLE && strcmp(err->message, "full") == 0;
}

static int send_parcel(struct outbox *o, const struct parcel *p, struct err *err)
{
	const struct fields *f = msg_row(p->type)->fields;
	union payload u;
	int r;

	ensure(f->size <= sizeof(u));
	r = fields_unpack(f, p->packed.data, p->packed.len, false, &u, err);
	ensure(r == 0);
	r = link_send(o->link, p->type, 0, &u, p->fd, p->nfds, err);
	fields_done(f, &u);
	return r;
}

/* A send that fails for another reason than a full socket is dropped: the reader of the link sees
 * why. */
static void flush(void *arg)
{
	struct outbox *o = arg;
	struct parcel *p;

	while ((p = STAILQ_FIRST(&o->parcels)) != NULL) {
		struct err err = {0};

		if (full(send_parcel(o, p, &err), &err)) {
			watch_start(o->writable);
			return;
		}
		STAILQ_REMOVE_HEAD(&o->parcels, next);
		o->bytes -= p->packed.len;
		parcel_free(p);
	}
}

void outbox_init(struct outbox *o, struct loop *loop, struct link *link)
{
	*o = (struct outbox){.link = link};
	STAILQ_INIT(&o->parcels);
	o->writable = watch_writable(loop, link->fd, flush, o);
}

void outbox_done(struct outbox *o)
{
	struct parcel *p;

	if (o->link == NULL)
		return;
	while ((p = STAILQ_FIRST(&o->parcels)) != NULL) {
		STAILQ_REMOVE_HEAD(&o->parcels, next);
		parcel_free(p);
	}
	watch_free(o->writable);
	*o = (struct outbox){0};
}

int outbox_send(struct outbox *o, enum msg_type type, const void *obj, const int *fds, size_t nfds,
		struct err *err)
{
	struct err own = {0};
	int r = -E_UNAVAILABLE;

	if (o->link == NULL)
		return err_set(err, E_UNAVAILABLE, NULL, "the link is closed");
	if (STAILQ_EMPTY(&o->parcels)) {
		r = link_send(o->link, type, 0, obj, fds, nfds, &own);
		if (!full(r, &own)) {
			if (r < 0)
				err_set(err, own.code, own.subject, "%s", own.message);
			return r;
		}
	}
	return keep(o, type, obj, fds, nfds, err);
}
