// SPDX-License-Identifier: Apache-2.0
#include "event/ring_heads.h"
#include "base/mem.h"
#include "event/journal_layout.h"
#include <sys/mman.h>
#include <sys/stat.h>

int ring_heads_add(struct ring_heads *h, const char *name, int ring_fd, struct err *err)
{
	cleanup_fd int fd = ring_fd;
	const struct ring_page *page;
	struct stat st;

	ensure(h->n < ARRAY_LEN(h->ring));
	if (fstat(fd, &st) < 0 || st.st_size < JOURNAL_PAGE)
		return err_set(err, E_BAD_REQUEST, name, "the ring '%s' is too short", name);
	page = mmap(NULL, JOURNAL_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return err_errno(err, E_UNAVAILABLE, name, "cannot map the ring '%s'", name);
	h->ring[h->n].name = name;
	h->ring[h->n++].page = page;
	if (!ring_page_valid(page))
		return err_set(err, E_BAD_REQUEST, name, "'%s' is not a ring of version %d", name,
			       JOURNAL_VERSION);
	return 0;
}

void ring_heads_close(struct ring_heads *h)
{
	while (h->n > 0)
		munmap((void *)(uintptr_t)h->ring[--h->n].page, JOURNAL_PAGE);
}

bool ring_heads_look(struct ring_heads *h)
{
	bool unread = false;

	for (size_t i = 0; i < h->n; i++) {
		h->ring[i].seen =
			atomic_load_explicit(&h->ring[i].page->head, memory_order_acquire);
		unread |= h->ring[i].seen > h->ring[i].rung;
	}
	return unread;
}

void ring_heads_rung(struct ring_heads *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->ring[i].rung = h->ring[i].seen;
}

void ring_heads_format(const struct ring_heads *h, struct strv *out)
{
	strv_done(out);
	for (size_t i = 0; i < h->n; i++)
		strv_addf(out, "%s %llu", h->ring[i].name, (unsigned long long)h->ring[i].seen);
}

uint64_t ring_heads_find(const struct strv *list, const char *name)
{
	const size_t n = strlen(name);

	for (size_t i = 0; i < list->n; i++)
		if (strncmp(list->v[i], name, n) == 0 && list->v[i][n] == ' ')
			return strtoull(list->v[i] + n, NULL, 10);
	return UINT64_MAX;
}
