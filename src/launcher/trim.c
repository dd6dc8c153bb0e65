// SPDX-License-Identifier: Apache-2.0
/* A home is trimmed by a child that has the uid of its owner and no power: an agent has written the
 * home. The API child knows which homes are in use. It could only ask for too much, and lose
 * caches. */
#include "launcher/trim.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"

#define TRIMS_MAX 16

static void trim_free(struct trim *t)
{
	LIST_REMOVE(t, next);
	child_end(&t->child, NULL);
	home_close(&t->home);
	msg_done(MSG_launcher_trimmed, &t->answer);
	free(t);
}

/* problem NULL: it is done. */
static void answer(struct trim *t, const char *problem)
{
	t->answer.problem = problem != NULL ? mem_strdup(problem) : NULL;
	api_link_post(t->l, MSG_launcher_trimmed, 0, &t->answer, NULL, 0);
	trim_free(t);
}

static void on_death(void *arg)
{
	struct trim *t = arg;

	answer(t, home_trimmed(&t->home, t->answer.home, t->answer.purge, &t->answer.bytes));
}

static int start(struct trim *t, uint64_t keep, struct err *err)
{
	const struct trim *other;
	pid_t pid;
	int r, n = 0;

	LIST_FOREACH (other, &t->l->trims, next)
		n++;
	if (n > TRIMS_MAX)
		return err_set(err, E_UNAVAILABLE, NULL, "%d homes are being trimmed", TRIMS_MAX);
	r = home_open(t->l->settings.config.base_dir, t->answer.home, &t->home, err);
	if (r == 0)
		r = home_trim(&t->home, t->l->privileged, keep, &pid, err);
	if (r == 0)
		r = child_open(&t->child, pid, err);
	return r < 0 ? r : child_watch(&t->child, t->l->loop, on_death, t, err);
}

void trim_home(void *launcher, void *msg, struct link_msg *m)
{
	struct launcher_trim *ask = msg;
	struct launcher *l = launcher;
	struct trim *t = mem_new(struct trim);
	struct err why = {0};

	*t = (struct trim){.l = l, .child = CHILD_NONE, .home = HOME_NONE};
	t->answer.home = ask->home != NULL ? take(ask->home) : mem_strdup("");
	t->answer.purge = ask->purge;
	LIST_INSERT_HEAD(&l->trims, t, next);
	if (start(t, ask->purge ? 0 : ask->keep_bytes, &why) < 0)
		answer(t, why.code == E_NOT_FOUND ? NULL : why.message);
}

int trim_allows(const struct launcher *l, const char *home, struct err *err)
{
	const struct trim *t;

	LIST_FOREACH (t, &l->trims, next)
		if (t->answer.purge && strcmp(t->answer.home, home) == 0)
			return err_set(err, E_UNAVAILABLE, home, "it is being purged");
	return 0;
}

void trims_stop(struct launcher *l)
{
	while (!LIST_EMPTY(&l->trims))
		trim_free(LIST_FIRST(&l->trims));
}
