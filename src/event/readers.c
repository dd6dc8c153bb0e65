// SPDX-License-Identifier: Apache-2.0
#include "event/readers.h"
#include "base/loop.h"
#include "base/mem.h"
#include "event/query.h"
#include "event/store_state.h"
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS 2
#define BUSY_MS 1000
#define NICE 5 /* below the loop: a client expects a query to take a moment */

TAILQ_HEAD(asks, store_ask);

struct store_ask {
	TAILQ_ENTRY(store_ask) link;
	struct readers *readers;
	struct asks *list;    /* waiting or queued; NULL: it runs or has its answer */
	struct event_query q; /* its strings are owned */
	struct store_asking how;
	atomic_bool cancelled; /* fn must not be called */
	uint64_t number;       /* of the last write before it */
	uint64_t turn;	       /* in the order of answering */
	struct event_answer answer;
};

struct readers {
	char *path;
	struct watch *answered;
	int fd; /* eventfd: there are answers */
	pthread_t thread[THREADS];
	unsigned nthreads;
	struct asks waiting; /* for a commit; the loop's */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Below the lock. */
	struct asks queued, running, done;
	uint64_t turn; /* of the ask that was begun last */
	bool stop;
};

static char **query_strings(struct event_query *q, size_t i)
{
	const char **all[] = {&q->session_id, &q->command_id, &q->agent_id, &q->decision};

	return i < ARRAY_LEN(all) ? (char **)(uintptr_t)all[i] : NULL;
}

static void ask_free(struct store_ask *a)
{
	char **s;

	for (size_t i = 0; (s = query_strings(&a->q, i)) != NULL; i++)
		free(*s);
	free((char *)(uintptr_t)a->how.caller);
	buf_done(&a->answer.events);
	free(a->answer.row);
	free(a);
}

/* ---- the threads ---- */

static void add_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct event_answer *answer = arg;

	answer->row = mem_grow(answer->row, answer->n, sizeof(*answer->row));
	if (answer->n > 0)
		buf_addc(&answer->events, ',');
	answer->row[answer->n++] = (struct event_row){seq, answer->events.len, len, type};
	buf_add(&answer->events, json, len);
}

static void answer(const char *path, sqlite3 **db, struct store_ask *a)
{
	const struct query_budget budget = {QUERY_ROWS, QUERY_US, QUERY_BYTES, QUERY_COUNTED,
					    &a->cancelled};
	struct event_answer *to = &a->answer;

	if (*db == NULL && (sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
					    NULL) != SQLITE_OK ||
			    sqlite3_busy_timeout(*db, BUSY_MS) != SQLITE_OK)) {
		err_set(&to->err, E_UNAVAILABLE, path, "the database cannot be read: %s",
			sqlite3_errmsg(*db));
		sqlite3_close(*db);
		*db = NULL;
		return;
	}
	query_run(*db, &a->q, &budget, a->how.count, add_row, to, &to->page, &to->err);
}

static void *work(void *arg)
{
	struct readers *r = arg;
	const uint64_t one = 1;
	sqlite3 *db = NULL;

	setpriority(PRIO_PROCESS, 0, NICE); /* of this thread */
	pthread_mutex_lock(&r->lock);
	for (;;) {
		struct store_ask *a, *other;

		while (!r->stop && TAILQ_EMPTY(&r->queued))
			pthread_cond_wait(&r->wake, &r->lock);
		if (r->stop)
			break;
		/* The first of those with the lowest turn. */
		a = TAILQ_FIRST(&r->queued);
		TAILQ_FOREACH (other, &r->queued, link)
			if (other->turn < a->turn)
				a = other;
		TAILQ_REMOVE(&r->queued, a, link);
		TAILQ_INSERT_TAIL(&r->running, a, link);
		a->list = NULL;
		r->turn = a->turn;
		pthread_mutex_unlock(&r->lock);
		answer(r->path, &db, a);
		if (db != NULL)
			sqlite3_db_release_memory(db); /* pages: the kernel keeps them too */
		pthread_mutex_lock(&r->lock);
		TAILQ_REMOVE(&r->running, a, link);
		TAILQ_INSERT_TAIL(&r->done, a, link);
		ensure(write(r->fd, &one, sizeof(one)) == sizeof(one));
	}
	pthread_mutex_unlock(&r->lock);
	sqlite3_close(db);
	return NULL;
}

/* ---- the loop ---- */

static void on_answered(void *arg)
{
	struct readers *r = arg;
	struct asks done = TAILQ_HEAD_INITIALIZER(done);
	struct store_ask *a;
	uint64_t n;

	if (read(r->fd, &n, sizeof(n)) < 0)
		return;
	pthread_mutex_lock(&r->lock);
	TAILQ_CONCAT(&done, &r->done, link);
	pthread_mutex_unlock(&r->lock);
	/* The callback may cancel an ask that comes later. */
	while ((a = TAILQ_FIRST(&done)) != NULL) {
		TAILQ_REMOVE(&done, a, link);
		if (!atomic_load(&a->cancelled))
			a->how.fn(&a->answer, a->how.arg);
		ask_free(a);
	}
}

/* The turn comes after the turns of the caller's other asks, and not before the last one begun. */
static void enqueue(struct readers *r, struct store_ask *a)
{
	const struct asks *lists[] = {&r->queued, &r->running};
	const struct store_ask *other;

	pthread_mutex_lock(&r->lock);
	a->turn = r->turn;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		TAILQ_FOREACH (other, lists[i], link)
			if (strcmp(other->how.caller, a->how.caller) == 0 && other->turn >= a->turn)
				a->turn = other->turn + 1;
	a->list = &r->queued;
	TAILQ_INSERT_TAIL(a->list, a, link);
	pthread_mutex_unlock(&r->lock);
	pthread_cond_signal(&r->wake);
}

int store_ask(struct store *s, const struct event_query *q, const struct store_asking *how,
	      struct store_ask **out, struct err *err)
{
	struct readers *r = s->readers;
	struct store_ask *a;
	sigset_t all, old;
	char **text;

	/* Signals are for the loop's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (r->nthreads < THREADS && pthread_create(&r->thread[r->nthreads], NULL, work, r) == 0)
		r->nthreads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r->nthreads == 0)
		return err_set(err, E_UNAVAILABLE, s->path,
			       "cannot start a thread for queries; ask again later, or raise the "
			       "limit of tasks");
	a = mem_new(struct store_ask);
	a->readers = r;
	a->q = *q;
	for (size_t i = 0; (text = query_strings(&a->q, i)) != NULL; i++)
		*text = mem_strdup(*text);
	a->how = *how;
	a->how.caller = mem_strdup(how->caller);
	a->number = store_written(s);
	if (a->number == store_committed(s) || (s->failed.code != E_OK && !how->patient)) {
		enqueue(r, a);
	} else {
		a->list = &r->waiting;
		TAILQ_INSERT_TAIL(a->list, a, link);
	}
	*out = a;
	return 0;
}

void store_ask_cancel(struct store_ask *a)
{
	pthread_mutex_t *lock = a != NULL ? &a->readers->lock : NULL;
	bool unlinked;

	if (a == NULL)
		return;
	pthread_mutex_lock(lock);
	unlinked = a->list != NULL;
	if (unlinked)
		TAILQ_REMOVE(a->list, a, link);
	atomic_store(&a->cancelled, true);
	pthread_mutex_unlock(lock);
	if (unlinked)
		ask_free(a);
}

void readers_release(struct readers *r, uint64_t committed, bool failing)
{
	struct store_ask *a, *next;

	for (a = TAILQ_FIRST(&r->waiting); a != NULL; a = next) {
		next = TAILQ_NEXT(a, link);
		if (a->number > committed && (!failing || a->how.patient))
			continue;
		TAILQ_REMOVE(&r->waiting, a, link);
		enqueue(r, a);
	}
}

int readers_new(const char *path, struct loop *loop, struct readers **out, struct err *err)
{
	const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct readers *r;

	if (fd < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot make an eventfd for '%s'", path);
	r = mem_new(struct readers);
	r->fd = fd;
	r->path = mem_strdup(path);
	TAILQ_INIT(&r->waiting);
	TAILQ_INIT(&r->queued);
	TAILQ_INIT(&r->running);
	TAILQ_INIT(&r->done);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, NULL);
	r->answered = watch_readable(loop, r->fd, on_answered, r);
	if (watch_start(r->answered) < 0) {
		readers_stop(r);
		return err_set(err, E_UNAVAILABLE, path,
			       "cannot watch the readers of '%s': " LOOP_FULL, path);
	}
	*out = r;
	return 0;
}

void readers_stop(struct readers *r)
{
	struct store_ask *a;

	if (r == NULL)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	TAILQ_FOREACH (a, &r->running, link)
		atomic_store(&a->cancelled, true);
	pthread_mutex_unlock(&r->lock);
	pthread_cond_broadcast(&r->wake);
	for (unsigned i = 0; i < r->nthreads; i++)
		pthread_join(r->thread[i], NULL);
	/* A thread that ends has put its ask into done. */
	TAILQ_CONCAT(&r->done, &r->waiting, link);
	TAILQ_CONCAT(&r->done, &r->queued, link);
	while ((a = TAILQ_FIRST(&r->done)) != NULL) {
		TAILQ_REMOVE(&r->done, a, link);
		ask_free(a);
	}
	watch_free(r->answered);
	close(r->fd);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	free(r->path);
	free(r);
}
