// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_actors.h"
#include "base/clock.h"
#include "base/mem.h"
#include <fcntl.h>
#include <stdio.h>

#define ENDED 64 /* commands that are remembered; the oldest goes */

/* A settled operation whose actor the table does not have; owned. */
struct late_event {
	STAILQ_ENTRY(late_event) next;
	struct fs_actors *actors;
	struct actor_query query;
	struct gate_case k;
	struct gate_report report;
	struct op op;
	char *text[5]; /* what op and report point to */
};

struct fs_actors {
	struct process_self *p;
	struct fs_session *session;
	_Atomic int table_fd; /* of the actor table; -1: no command runs yet */
	pthread_mutex_t lock; /* of late */
	STAILQ_HEAD(, late_event) late;
	/* the loop's */
	struct {
		struct actor actor; /* leader, spawn and command_id */
		int64_t since_us, until_us;
	} ended[ENDED];
	unsigned next_ended;
};

/* Of the calling thread; NULL: it cannot be had. */
static struct actor_reader *own_reader(struct fs_actors *a)
{
	static _Thread_local struct actor_reader *reader; /* as long as the process lives */

	if (reader == NULL && actor_reader_open(atomic_load(&a->table_fd), &reader, NULL) < 0)
		return NULL;
	return reader;
}

enum fs_actor fs_actors_find(void *actors, uint32_t tid, struct actor *out)
{
	struct fs_actors *a = actors;
	const struct actor_query q = {
		.id = (pid_t)tid, .asked_us = clock_mono_us(&clock_system), .process = true};
	struct actor_reader *reader;

	*out = (struct actor){.pid = (pid_t)tid};
	if (atomic_load(&a->table_fd) == -1)
		return FS_ACTOR_OWN; /* init and the warden, before the first command */
	reader = own_reader(a);
	if (reader == NULL)
		return FS_ACTOR_UNKNOWN;
	if (actor_reader_is_own(reader, (pid_t)tid))
		return FS_ACTOR_OWN;
	return tid != 0 && actor_find(reader, &q, out) ? FS_ACTOR_COMMAND : FS_ACTOR_UNKNOWN;
}

bool fs_actors_granted(void *actors, uint32_t tid, struct file_grant *need)
{
	const struct actor_reader *reader = own_reader(actors);

	return reader != NULL && actor_reader_granted(reader, (pid_t)tid, need);
}

/* ---- commands that have ended ---- */

void fs_actors_over(struct fs_actors *a, const struct process_settle *command)
{
	unsigned at = 0;

	if (command->spawn == 0)
		return;
	while (at < ENDED && a->ended[at].actor.spawn != command->spawn)
		at++;
	if (at == ENDED)
		at = a->next_ended++ % ENDED;
	a->ended[at].since_us = (int64_t)command->since_us;
	a->ended[at].until_us = (int64_t)command->until_us;
	a->ended[at].actor =
		(struct actor){.leader = (pid_t)command->leader, .spawn = command->spawn};
	snprintf(a->ended[at].actor.command_id, sizeof(a->ended[at].actor.command_id), "%s",
		 command->command_id);
}

static bool find_ended(const struct fs_actors *a, const struct actor_query *q, struct actor *out)
{
	for (size_t i = 0; q->leader != 0 && i < ENDED; i++)
		if (a->ended[i].actor.leader == q->leader && a->ended[i].since_us < q->asked_us &&
		    q->asked_us <= a->ended[i].until_us) {
			*out = a->ended[i].actor;
			return true;
		}
	return false;
}

bool fs_actors_led(struct fs_actors *a, const struct actor_query *q, struct actor *out)
{
	const struct actor_query led = {.leader = q->leader, .asked_us = q->asked_us};
	struct actor_reader *reader =
		atomic_load(&a->table_fd) != -1 && q->leader != 0 ? own_reader(a) : NULL;

	if ((reader == NULL || !actor_find(reader, &led, out)) && !find_ended(a, q, out))
		return false;
	out->pid = q->id;
	return true;
}

/* ---- events that wait ---- */

static const char *keep(char **to, const char *text)
{
	return *to = text != NULL ? mem_strdup(text) : NULL;
}

static struct late_event *late_new(struct fs_actors *a, const struct actor_query *q,
				   const struct gate_case *k, const struct gate_report *r)
{
	struct late_event *l = mem_new(struct late_event);

	*l = (struct late_event){.actors = a, .query = *q, .k = *k, .report = *r, .op = *k->op};
	l->k.op = &l->op;
	l->op.file.path = keep(&l->text[0], k->op->file.path);
	l->report.real_path = keep(&l->text[1], r->real_path);
	l->k.to = l->report.to = keep(&l->text[2], r->to);
	l->report.flags = keep(&l->text[3], r->flags);
	l->report.file_type = keep(&l->text[4], r->file_type);
	fs_session_late(a->session);
	return l;
}

void fs_actors_late(void *actors, uint32_t tid, const struct gate_case *k,
		    const struct gate_report *r)
{
	struct fs_actors *a = actors;
	const struct actor_query q = {
		.id = (pid_t)tid, .asked_us = clock_mono_us(&clock_system), .process = true};
	struct late_event *l = late_new(a, &q, k, r);

	pthread_mutex_lock(&a->lock);
	STAILQ_INSERT_TAIL(&a->late, l, next);
	pthread_mutex_unlock(&a->lock);
	process_wake(a->p);
}

static void found(const struct actor *actor, void *arg)
{
	struct late_event *l = arg;
	const pid_t pid = l->k.actor.pid;
	struct actor ended;

	/* the table may have lost the command after the call; the warden has sent its end before
	 * this answer
	 */
	if (actor->spawn == 0 && find_ended(l->actors, &l->query, &ended))
		actor = &ended;
	if (actor->spawn != 0)
		l->k.actor = *actor;
	if (l->k.actor.pid == 0)
		l->k.actor.pid = pid;
	gate_settle(l->actors->p->gate, &l->k, &l->report);
	if (l->query.leader == 0) {
		fs_session_settled(l->actors->session, &l->k, &l->report);
	} else {
		fs_session_recorded(l->actors->session, &l->k, &l->report);
		fs_session_named(l->actors->session);
	}
	for (size_t i = 0; i < ARRAY_LEN(l->text); i++)
		free(l->text[i]);
	free(l);
}

void fs_actors_ask(struct fs_actors *a, const struct actor_query *q, const struct gate_case *k,
		   const struct gate_report *r)
{
	process_find(a->p, q, found, late_new(a, q, k, r));
}

/* can: the warden answers. */
static void ask_warden(struct fs_actors *a, bool can)
{
	STAILQ_HEAD(, late_event) late = STAILQ_HEAD_INITIALIZER(late);
	struct late_event *l;

	pthread_mutex_lock(&a->lock);
	STAILQ_CONCAT(&late, &a->late);
	pthread_mutex_unlock(&a->lock);
	while ((l = STAILQ_FIRST(&late)) != NULL) {
		STAILQ_REMOVE_HEAD(&late, next);
		if (can && l->query.id != 0)
			process_find(a->p, &l->query, found, l);
		else
			found(&(struct actor){0}, l);
	}
}

void fs_actors_woken(struct fs_actors *a)
{
	ask_warden(a, true);
}

/* ---- all of them ---- */

struct fs_actors *fs_actors_new(struct process_self *p, struct fs_session *session)
{
	struct fs_actors *a = mem_new(struct fs_actors);

	a->p = p;
	a->session = session;
	a->table_fd = -1;
	pthread_mutex_init(&a->lock, NULL);
	STAILQ_INIT(&a->late);
	return a;
}

int fs_actors_open(struct fs_actors *a, struct err *err)
{
	const int fd = fcntl(a->p->actors_fd, F_DUPFD_CLOEXEC, 3);

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot keep the actor table");
	atomic_store(&a->table_fd, fd);
	return 0;
}

void fs_actors_free(struct fs_actors *a)
{
	if (a == NULL)
		return;
	ask_warden(a, false);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
