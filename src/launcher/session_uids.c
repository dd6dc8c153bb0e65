// SPDX-License-Identifier: Apache-2.0
/* A uid for each session of root's server, from sandbox.session_uids.
 *
 * The kernel counts epoll and inotify watches, pipe pages, signals and processes per uid: sessions
 * with one uid could use up what the others need. Ids are given in turn, so that one is not used
 * again soon; the next one is kept in STATE/session_uid over restarts. A server that finds none
 * there begins anywhere in the range: two servers of one machine rarely meet. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define NAME "session_uid"
#define DEATH_TRIES 100 /* 10 ms apart */
#define NOBODY 65534	/* also stands for every id that a user namespace lacks */

void uids_open(struct launcher *l)
{
	const struct config *c = &l->settings.config;
	cleanup_free char *path = mem_printf("%s/%s", c->base_dir, NAME);
	char text[16] = "";

	if (!l->privileged)
		return;
	l->uids.fd = runtime_state_file(path, l->privileged, c->api_uid);
	/* Its owner may write anything there: a number is only a hint. */
	if (l->uids.fd != -1 && fdio_pread_full(l->uids.fd, text, sizeof(text) - 1, 0) > 0)
		l->uids.next = (uint32_t)strtoul(text, NULL, 10);
}

static bool is_taken(const struct launcher *l, uint32_t uid)
{
	const struct session_entry *w;
	const struct pooled *p;

	/* Kept homes belong to the first one on the disk. */
	if (uid == l->settings.config.api_uid || uid == NOBODY ||
	    uid == l->settings.config.session_uids.first)
		return true;
	TAILQ_FOREACH (p, &l->pool.list, next)
		if (p->map.shown_uid == uid)
			return true;
	TAILQ_FOREACH (w, &l->entries, next)
		if (w->meta.uid == uid && w->state != ENTRY_DEAD)
			return true;
	return proc_uid_lives(uid);
}

int uids_allot(struct launcher *l, uint32_t *uid, struct err *err)
{
	const struct uid_range *r = &l->settings.config.session_uids;
	const uint64_t count = (uint64_t)r->last - r->first + 1;
	uint64_t at = (uint64_t)l->uids.next - r->first, tries = count;
	char text[16];

	if (count == 1 && r->first != 0) { /* all sessions share it, as was asked for */
		*uid = r->first;
		return 0;
	}
	if (!uid_range_has(r, l->uids.next) && getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = 0;
	for (at %= count; tries > 0; tries--, at = (at + 1) % count)
		if (r->first + at != 0 && !is_taken(l, (uint32_t)(r->first + at))) {
			*uid = (uint32_t)(r->first + at);
			l->uids.next = (uint32_t)(r->first + (at + 1) % count);
			snprintf(text, sizeof(text), "%010u\n", l->uids.next);
			if (l->uids.fd != -1)
				(void)!pwrite(l->uids.fd, text, strlen(text), 0);
			return 0;
		}
	return err_set(err, E_RESOURCE_LIMIT, "sandbox.session_uids",
		       "every id of sandbox.session_uids (%u-%u) is in use: end some sessions, or "
		       "widen the range",
		       r->first, r->last);
}

int uids_need(struct launcher *l, uint32_t *uid, struct err *err)
{
	const struct timespec step = {.tv_nsec = 10 * 1000 * 1000};
	int tries = TAILQ_EMPTY(&l->pool.list) ? 0 : DEATH_TRIES, r = uids_allot(l, uid, err);

	if (r < 0)
		pool_empty(l);
	/* A sandbox's processes die soon after its stub. */
	for (; r < 0 && tries > 0; tries--) {
		nanosleep(&step, NULL);
		r = uids_allot(l, uid, err);
	}
	return r;
}
