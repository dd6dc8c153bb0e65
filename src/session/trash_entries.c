// SPDX-License-Identifier: Apache-2.0
/* STATE/trash/ID/index says what a session deleted and can have back (trash/trash.h). While the
 * session lives, its file server puts a file back, and the policy decides. Afterwards only the
 * owner of the trash can, by the CLI: this process may not read the files. */
#include "session/trash_entries.h"
#include "base/denial.h"
#include "session/sessions.h"
#include "trash/trash.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define RESTORES_MAX 64 /* of a session, at a time */
#define SWEEP_MAX 8	/* of a round: each is a process of the launcher */

struct restore_waiter {
	STAILQ_ENTRY(restore_waiter) next;
	uint32_t req;
	session_done_fn *done;
	void *arg;
};

static char *trash_path(const struct sessions *ss, const char *id)
{
	return mem_printf("%s/" TRASH_PARENT "/%s", ss->deps.config->base_dir, id);
}

/* The number of the first entry that is not too old. */
static uint64_t oldest(const struct sessions *ss)
{
	const int64_t from = sessions_now(ss) - ss->deps.config->trash_max_age_ms * 1000;

	return from > 0 ? (uint64_t)from : 0;
}

static int load(const struct session *s, struct trash_list *out, struct err *err)
{
	cleanup_free char *path = trash_path(s->ss, s->id);
	cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*out = (struct trash_list){0};
	return dir == -1 ? 0 : trash_load(dir, oldest(s->ss), out, err);
}

/* ---- list ---- */

static void format_entry(const struct trash_entry *e, struct jw *w)
{
	char text[24];

	jw_obj(w);
	snprintf(text, sizeof(text), "%" PRIu64, e->id);
	jw_kstr(w, "id", text);
	jw_kstr(w, "path", e->path);
	jw_kstr(w, "real_path", e->real_path);
	jw_kstr(w, "type", S_ISLNK(e->mode) ? "symlink" : "file");
	snprintf(text, sizeof(text), "%04o", e->mode & 07777);
	jw_kstr(w, "mode", text);
	jw_kuint(w, "size", e->size);
	jw_ktime_us(w, "modified", (int64_t)e->mtime_us);
	jw_ktime_us(w, "deleted", (int64_t)e->id);
	jw_kstr(w, "command_id", e->command_id);
	jw_obj_end(w);
}

int session_trash_list(struct session *s, uint64_t after, unsigned limit, struct jw *w,
		       struct err *err)
{
	cleanup_free char *path = trash_path(s->ss, s->id);
	cleanup_trash_list struct trash_list list;
	char next[24] = "";
	unsigned shown = 0;
	size_t i = 0;
	int r = load(s, &list, err);

	if (r < 0)
		return r;
	jw_obj(w);
	jw_kstr(w, "session_id", s->id);
	jw_kstr(w, "directory", path);
	jw_karr(w, "entries");
	while (i < list.n && list.v[i].id <= after)
		i++;
	for (; i < list.n && shown < limit; i++, shown++)
		format_entry(&list.v[i], w);
	jw_arr_end(w);
	if (i < list.n)
		snprintf(next, sizeof(next), "%" PRIu64, list.v[i - 1].id);
	jw_kstr(w, "next", next);
	jw_kuint(w, "total", list.n);
	jw_obj_end(w);
	return 0;
}

/* ---- restore ---- */

static void answer(struct session *s, struct restore_waiter *w, const struct err *err)
{
	STAILQ_REMOVE(&s->restores, w, restore_waiter, next);
	w->done(err, err == NULL ? s : NULL, w->arg);
	free(w);
}

void session_on_restored(void *ctx, void *msg, struct link_msg *m)
{
	const struct trash_restored *got = msg;
	struct session *s = ctx;
	struct restore_waiter *w;
	struct err err = {0};

	STAILQ_FOREACH(w, &s->restores, next)
	if (w->req == m->req)
		break;
	if (w == NULL)
		return;
	if (got->code != NULL) {
		err_set(&err, err_code_by_name(got->code), got->subject, "%s",
			got->message != NULL ? got->message : "");
		denial_take(&err, got->policy);
	}
	answer(s, w, got->code != NULL ? &err : NULL);
}

void session_restores_fail(struct session *s)
{
	struct restore_waiter *w;
	struct err err = {0};

	err_set(&err, E_UNAVAILABLE, s->id, "session '%s' does not answer any more", s->id);
	while ((w = STAILQ_FIRST(&s->restores)) != NULL)
		answer(s, w, &err);
}

static int ask(struct session *s, uint64_t entry, uint32_t *req, struct err *err)
{
	const struct trash_restore m = {.entry = entry};
	const struct restore_waiter *w;
	unsigned n = 0;
	int r = 0;

	if (session_ended(s) || session_is_over(s))
		r = err_set(err, E_SESSION_STOPPED, s->id,
			    "session '%s' has ended: the owner of the workspace restores by "
			    "agentsh trash restore --session %s %" PRIu64,
			    s->id, s->id, entry);
	if (r == 0)
		r = session_within_reach(s, err);
	STAILQ_FOREACH(w, &s->restores, next)
	n++;
	if (r == 0 && n >= RESTORES_MAX)
		r = err_set(err, E_UNAVAILABLE, s->id, "%u files are being restored", n);
	if (r < 0)
		return r;
	*req = ++s->last_restore;
	return peer_send(&s->warden, MSG_warden_restore, *req, &m, NULL, 0, err) == LINK_OK
		       ? 0
		       : -E_UNAVAILABLE;
}

void session_trash_restore(struct session *s, uint64_t entry, session_done_fn *done, void *arg)
{
	struct restore_waiter *w;
	struct err err = {0};
	uint32_t req;

	if (ask(s, entry, &req, &err) < 0) {
		done(&err, NULL, arg);
		return;
	}
	w = mem_new(struct restore_waiter);
	*w = (struct restore_waiter){.req = req, .done = done, .arg = arg};
	STAILQ_INSERT_TAIL(&s->restores, w, next);
}

/* ---- the end ---- */

/* Whether nothing of it can be had back; an index that is missing is one without entries. */
static bool is_over(struct sessions *ss, int dir)
{
	struct stat st;

	if (fstatat(dir, "index", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	return sessions_wall_is_steady(ss) && (uint64_t)st.st_mtim.tv_sec * 1000000 < oldest(ss);
}

/* Whether the launcher was asked. A failure is ignored: there will be another round. */
static bool end_trash(struct sessions *ss, const char *id)
{
	cleanup_free char *name = mem_printf(TRASH_PARENT "/%s", id), *path = trash_path(ss, id);
	cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct launcher_trim m = {.home = name, .purge = 1};

	if (dir == -1 || !is_over(ss, dir))
		return false;
	peer_send(ss->deps.launcher, MSG_launcher_trim, 0, &m, NULL, 0, NULL);
	return true;
}

void trash_left(struct session *s)
{
	end_trash(s->ss, s->id);
}

void trash_sweep(struct sessions *ss)
{
	cleanup_free char *path = mem_printf("%s/" TRASH_PARENT, ss->deps.config->base_dir);
	const struct dirent *e;
	unsigned asked = 0;
	DIR *all;

	if (!ss->found_all || (all = opendir(path)) == NULL)
		return;
	while (asked < SWEEP_MAX && (e = readdir(all)) != NULL)
		if (id_valid(e->d_name) && sessions_find(ss, e->d_name) == NULL)
			asked += end_trash(ss, e->d_name);
	closedir(all);
}
