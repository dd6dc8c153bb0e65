// SPDX-License-Identifier: Apache-2.0
/* Events into the store, against a bare SQLite loop with the same schema, in interleaved rounds.
 *
 * usage: bench_events DIR ROUNDS EVENTS   prints one JSON line */
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/testkit/chain_testkit.h"
#include <stdio.h>
#include <time.h>

#define BATCH 64

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct event sample(unsigned i)
{
	static char path[64];

	snprintf(path, sizeof(path), "/workspace/src/file-%u.c", i % 1000);
	return (struct event){.schema = EVENT_SCHEMA,
			      .type = EVENT_file_write,
			      .time_us = 1700000000000000ull + i,
			      .session_id = (char *)"session-bench",
			      .command_id = (char *)"cmd-bench",
			      .agent_id = (char *)"uid-0",
			      .pid = 4242,
			      .count = 1,
			      .decision = (char *)"allow",
			      .path = path,
			      .op_bytes = 1024};
}

static double ours(struct store *s, unsigned n, uint64_t *pos)
{
	double begin = now_s();
	struct err err = {0};

	for (unsigned i = 0; i < n; i++) {
		struct event e = sample(i);

		store_event(s, &e, "ring-bench", (*pos)++);
		if ((i % BATCH == BATCH - 1 || i == n - 1) && store_commit(s, &err) < 0) {
			fprintf(stderr, "bench_events: %s\n", err.message);
			exit(1);
		}
	}
	return n / (now_s() - begin);
}

static void check(sqlite3 *db, int r)
{
	if (r != SQLITE_OK && r != SQLITE_DONE && r != SQLITE_ROW) {
		fprintf(stderr, "bench_events: %s\n", sqlite3_errmsg(db));
		exit(1);
	}
}

/* The same rows without chain, formatting and checks: the body is ready made. */
static double bare(sqlite3 *db, unsigned n, uint64_t *pos)
{
	static const char sql[] =
		"INSERT INTO events(ring,pos,time_us,type,session_id,command_id,agent_id,decision,"
		"path,domain,body,hash) VALUES('ring-bench',?1,?2,?3,'session-bench','cmd-bench',"
		"'uid-0','allow',?4,NULL,?5,?6)";
	static const uint8_t hash[32] = {1};
	cleanup_buf struct buf body = {0};
	sqlite3_stmt *stmt;
	double begin;
	struct event e = sample(1);

	e.seq = 123456;
	event_format(&e, &body);
	begin = now_s();
	check(db, sqlite3_prepare_v2(db, sql, -1, &stmt, NULL));
	for (unsigned i = 0; i < n; i++) {
		e = sample(i);
		if (i % BATCH == 0)
			check(db, sqlite3_exec(db, "BEGIN", NULL, NULL, NULL));
		sqlite3_bind_int64(stmt, 1, (int64_t)(*pos)++);
		sqlite3_bind_int64(stmt, 2, (int64_t)e.time_us);
		sqlite3_bind_int64(stmt, 3, e.type);
		sqlite3_bind_text(stmt, 4, e.path, -1, SQLITE_STATIC);
		sqlite3_bind_text(stmt, 5, body.data, (int)body.len, SQLITE_STATIC);
		sqlite3_bind_blob(stmt, 6, hash, sizeof(hash), SQLITE_STATIC);
		check(db, sqlite3_step(stmt));
		check(db, sqlite3_reset(stmt));
		if (i % BATCH == BATCH - 1 || i == n - 1)
			check(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
	}
	sqlite3_finalize(stmt);
	return n / (now_s() - begin);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc == 4 ? atoi(argv[2]) : 0;
	unsigned n = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
	double a[64], b[64], ratio[64];
	uint64_t pos_a = 0, pos_b = 0, bad = 0;
	struct loop *loop = loop_new(NULL, NULL);
	struct store *store, *made;
	struct err err = {0};
	sqlite3 *db;

	if (rounds < 1 || rounds > 64 || n == 0)
		return 2;
	cleanup_free char *one = mem_printf("%s/ours.db", argv[1]);
	cleanup_free char *two = mem_printf("%s/bare.db", argv[1]);

	/* our own opening makes the schema for both */
	if (store_open(two, loop, &clock_system, false, &made, &err) < 0 ||
	    store_open(one, loop, &clock_system, false, &store, &err) < 0) {
		fprintf(stderr, "bench_events: %s\n", err.message);
		return 1;
	}
	store_close(made);
	check(NULL, sqlite3_open(two, &db));
	check(db, sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL,
			       NULL, NULL));
	for (int r = 0; r < rounds; r++) {
		a[r] = ours(store, n, &pos_a);
		b[r] = bare(db, n, &pos_b);
		ratio[r] = a[r] / b[r];
	}
	uint64_t last = store_last_seq(store);

	chain_verify(store, &bad, &err);
	qsort(a, (size_t)rounds, sizeof(*a), by_value);
	qsort(b, (size_t)rounds, sizeof(*b), by_value);
	qsort(ratio, (size_t)rounds, sizeof(*ratio), by_value);
	printf("{\"ours_per_s\":%.0f,\"bare_per_s\":%.0f,\"ratio\":%.2f,\"stored\":%llu,\"sent\":%"
	       "llu,\"chain_bad\":%llu}\n",
	       a[rounds / 2], b[rounds / 2], ratio[rounds / 2], (unsigned long long)last,
	       (unsigned long long)rounds * n, (unsigned long long)bad);
	store_close(store);
	sqlite3_close(db);
	loop_free(loop);
	return last == (uint64_t)rounds * n && bad == 0 ? 0 : 1;
}
