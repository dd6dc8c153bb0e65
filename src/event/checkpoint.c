// SPDX-License-Identifier: Apache-2.0
#include "event/checkpoint.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/schema.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <time.h>

/* How long a checkpoint past the hard limit waits for the writer's lock and for readers. */
#define RESTART_PATIENCE_MS 20

struct checkpointer {
	pthread_t thread;
	sqlite3 *db; /* the thread's */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Below the lock. */
	bool stop, due, dirty;
	int pages;  /* in the WAL, as last noted */
	int due_at; /* pages at which the next checkpoint is due */
};

static void *work(void *arg)
{
	struct checkpointer *c = arg;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		struct timespec until;
		bool hard;
		int rc;

		while (!c->stop && !c->dirty && !c->due)
			pthread_cond_wait(&c->wake, &c->lock);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += CHECKPOINT_AGE_S;
		while (!c->stop && !c->due)
			if (pthread_cond_clockwait(&c->wake, &c->lock, CLOCK_MONOTONIC, &until) ==
			    ETIMEDOUT)
				c->due = true;
		if (c->stop)
			break;
		c->due = c->dirty = false;
		hard = c->pages >= CHECKPOINT_HARD;
		pthread_mutex_unlock(&c->lock);
		rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
		/* The writer has to wait for this one. */
		if (hard && rc == SQLITE_OK)
			rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL,
						       NULL);
		if (rc != SQLITE_OK && rc != SQLITE_BUSY)
			log_warn("the database cannot be checkpointed", "error",
				 sqlite3_errmsg(c->db));
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void checkpointer_note(struct checkpointer *c, int pages)
{
	bool wake;

	pthread_mutex_lock(&c->lock);
	/* Fewer than before: the WAL has started from its beginning. */
	if (pages < c->pages)
		c->due_at = CHECKPOINT_SOFT;
	c->pages = pages;
	wake = !c->dirty || pages >= c->due_at;
	c->dirty = true;
	/* If it cannot catch up, the next one comes after as many pages again. */
	if (pages >= c->due_at) {
		c->due = true;
		c->due_at = pages + CHECKPOINT_SOFT;
	}
	pthread_mutex_unlock(&c->lock);
	if (wake)
		pthread_cond_signal(&c->wake);
}

static void free_checkpointer(struct checkpointer *c)
{
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	sqlite3_close(c->db);
	free(c);
}

int checkpointer_start(const char *path, struct checkpointer **out, struct err *err)
{
	struct checkpointer *c = mem_new(struct checkpointer);
	sigset_t all, old;
	int rc = 0;

	c->due_at = CHECKPOINT_SOFT;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	if (sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK) {
		rc = schema_failed(c->db, path, "open", err);
	} else {
		sqlite3_busy_timeout(c->db, RESTART_PATIENCE_MS);
		sqlite3_exec(c->db, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
		/* Signals are for the loop's thread. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		errno = pthread_create(&c->thread, NULL, work, c);
		if (errno != 0)
			rc = err_errno(err, E_UNAVAILABLE, path, "cannot start a thread for '%s'",
				       path);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (rc < 0)
		free_checkpointer(c);
	else
		*out = c;
	return rc;
}

void checkpointer_stop(struct checkpointer *c)
{
	if (c == NULL)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_mutex_unlock(&c->lock);
	pthread_cond_signal(&c->wake);
	pthread_join(c->thread, NULL);
	free_checkpointer(c);
}
