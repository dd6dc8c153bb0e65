// SPDX-License-Identifier: Apache-2.0
/* What it costs to write down one command, in designs that are run in turns: CPU time of this
 * process, and of the loop's thread alone. Each has a database of its own with our schema, and
 * writes the rows and events of a `true`; the last ones are our store itself, the others use SQLite
 * without it.
 *
 * usage: bench_journal DIR ROUNDS COMMANDS   prints one JSON line */
#include "base/hash.h"
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/crc32c.h"
#include "event/schema.h"
#include "event/store.h"
#include "event/wal_vfs.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS_MAX 64
#define LOG_BYTES (64 * 1024)
#define EVENTS 6 /* of one command */
#define MANY 16
#define MOST 80
#define STATEMENTS 16
#define TIME_US 1700000000000000
#define AGENT "uid-0"
#define SESSION "session-bench"
#define REQUEST                                                                  \
	"{\"command\":\"/bin/true\",\"args\":[],\"script\":null,\"argv0\":null," \
	"\"working_dir\":\"/workspace\",\"timeout\":\"5m\"}"
#define RESULT "{\"duration_us\":912,\"cpu_us\":700,\"maxrss_kb\":1800,\"working_dir\":\"/\"}"

/* One record before the start of a command; `length` is written last and makes it whole. */
struct intent {
	_Atomic uint32_t length;
	uint32_t crc;
	char text[];
};

struct design {
	const char *name;
	bool before;	/* a commit before the start */
	bool log;	/* an intent record before the start */
	unsigned batch; /* commands in a commit after the end */
	bool ours;	/* by the store */
	bool writer;	/* the store's thread commits, as in the server; false: the loop commits */
	struct store *store;
	sqlite3 *db;
	struct {
		const char *sql;
		sqlite3_stmt *stmt;
	} cached[STATEMENTS];
	uint64_t seq;
	uint8_t hash[HASH_LEN];
	char *map;
	size_t used;
	unsigned commands;
	double us[ROUNDS_MAX], loop_us[ROUNDS_MAX];
};
static struct design designs[] = {
	{.name = "two_commits", .before = true, .batch = 1},
	{.name = "two_commits_again", .before = true, .batch = 1},
	{.name = "one_commit", .batch = 1},
	{.name = "intent_and_one_commit", .log = true, .batch = 1},
	{.name = "intent_and_commit_of_many", .log = true, .batch = MANY},
	{.name = "store_and_commit_of_many", .ours = true, .batch = MANY},
	{.name = "store_and_writer", .ours = true, .writer = true, .batch = MANY},
	{.name = "store_and_late_writer", .ours = true, .writer = true, .batch = MOST},
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_journal: %s\n", what);
	exit(1);
}

static double cpu_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- statements ---- */

/* Values are bound in order; NULL stays where none is. */
struct put {
	struct design *d;
	sqlite3_stmt *stmt;
	int next;
};

static struct put put(struct design *d, const char *sql)
{
	size_t i = 0;

	if (d->ours) {
		store_put(d->store, sql);
		return (struct put){d, NULL, 1};
	}
	while (i < STATEMENTS && d->cached[i].sql != NULL && d->cached[i].sql != sql)
		i++;
	if (i == STATEMENTS)
		fail("too many statements");
	if (d->cached[i].sql == NULL) {
		d->cached[i].sql = sql;
		if (sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
				       &d->cached[i].stmt, NULL) != SQLITE_OK)
			fail(sqlite3_errmsg(d->db));
	}
	return (struct put){d, d->cached[i].stmt, 1};
}

static void text(struct put *p, const char *s)
{
	if (p->d->ours)
		store_put_text(p->d->store, s);
	else if (s != NULL)
		sqlite3_bind_text(p->stmt, p->next, s, -1, SQLITE_STATIC);
	p->next++;
}

static void number(struct put *p, int64_t v)
{
	if (p->d->ours)
		store_put_int(p->d->store, v);
	else
		sqlite3_bind_int64(p->stmt, p->next++, v);
}

static void end(struct put *p)
{
	if (p->d->ours) {
		store_put_end(p->d->store);
		return;
	}
	if (sqlite3_step(p->stmt) != SQLITE_DONE)
		fail(sqlite3_errmsg(p->d->db));
	sqlite3_reset(p->stmt);
	sqlite3_clear_bindings(p->stmt);
}

static void run(struct design *d, const char *sql)
{
	struct put p = put(d, sql);

	end(&p);
}

/* For the store this is the loop's turn that ends: what was written is safe from SIGKILL. */
static void begin(struct design *d)
{
	if (d->ours)
		loop_pass(store_loop(d->store));
	else if (sqlite3_get_autocommit(d->db))
		run(d, "BEGIN");
}

static void stop(void *arg)
{
	loop_stop(arg);
}

static void commit(struct design *d)
{
	struct err err = {0};

	if (!d->ours) {
		run(d, "COMMIT");
	} else if (d->writer) {
		store_after_commit(d->store, stop, store_loop(d->store));
		loop_run_ms(store_loop(d->store), 1000);
	} else if (store_commit(d->store, &err) < 0) {
		fail(err.message);
	}
}

/* ---- rows ---- */

static void insert_event(struct design *d, struct event *e, const char *ring, uint64_t pos)
{
	cleanup_buf struct buf json = {0};
	struct put p = put(d, "INSERT INTO events(seq, ring, pos, time_us, type, session_id,"
			      " command_id, agent_id, decision, path, domain, body, hash)"
			      " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");

	e->seq = ++d->seq;
	event_format(e, &json);
	hash_sha256(d->hash, d->hash, HASH_LEN, json.data, json.len);
	number(&p, (int64_t)e->seq);
	text(&p, ring);
	if (ring != NULL)
		number(&p, (int64_t)pos);
	else
		text(&p, NULL);
	number(&p, (int64_t)e->time_us);
	text(&p, event_type_name((enum event_type)e->type));
	text(&p, e->session_id);
	text(&p, e->command_id);
	text(&p, e->agent_id);
	text(&p, e->decision);
	text(&p, e->exec_path);
	text(&p, NULL);
	text(&p, json.data);
	sqlite3_bind_blob(p.stmt, p.next, d->hash, HASH_LEN, SQLITE_STATIC);
	end(&p);
}

static void tell(struct design *d, struct event e, const char *ring, uint64_t pos)
{
	e.schema = EVENT_SCHEMA;
	e.time_us = TIME_US + d->commands;
	e.session_id = (char *)SESSION;
	e.agent_id = (char *)AGENT;
	e.count = 1;
	if (d->ours)
		store_event(d->store, &e, ring, pos);
	else
		insert_event(d, &e, ring, pos);
}

static void tell_state(struct design *d, const char *from, const char *to)
{
	tell(d,
	     (struct event){.type = EVENT_session_state,
			    .state_from = (char *)from,
			    .state_to = (char *)to},
	     NULL, 0);
}

static void tell_begin(struct design *d, char *id)
{
	tell(d,
	     (struct event){.type = EVENT_command_queued,
			    .command_id = id,
			    .command_line = (char *)"/bin/true"},
	     NULL, 0);
	tell_state(d, "ready", "busy");
}

/* The warden's events come from its ring. */
static void tell_end(struct design *d, char *id)
{
	char *argv[] = {(char *)"/bin/true", NULL};
	const uint64_t pos = (uint64_t)d->commands * 3;

	tell(d, (struct event){.type = EVENT_command_started, .command_id = id}, "ring", pos);
	tell(d,
	     (struct event){.type = EVENT_exec,
			    .command_id = id,
			    .pid = 4242,
			    .exec_path = (char *)"/usr/bin/true",
			    .exec_cwd = (char *)"/workspace",
			    .exec_argv = {argv, 1},
			    .decision = (char *)"allow",
			    .policy_decision = (char *)"allow",
			    .policy_effective = (char *)"allow",
			    .policy_rule = (char *)"default"},
	     "ring", pos + 1);
	tell(d, (struct event){.type = EVENT_command_finished, .command_id = id, .has_exit = 1},
	     "ring", pos + 2);
	tell_state(d, "busy", "ready");
}

static void put_begin(struct put *p, const char *id)
{
	text(p, AGENT);
	text(p, id);
	text(p, SESSION);
	text(p, NULL);
	text(p, NULL);
	text(p, REQUEST);
	number(p, TIME_US + p->d->commands);
	number(p, 1 << 20);
	number(p, 0);
	number(p, p->d->commands);
}

static void put_end(struct put *p)
{
	text(p, "finished");
	text(p, RESULT);
	number(p, TIME_US + p->d->commands);
	number(p, TIME_US + p->d->commands);
	number(p, 0);
	text(p, NULL);
	for (int i = 0; i < 4; i++)
		number(p, 0);
}

#define BEGIN_COLUMNS                                                                            \
	"agent_id, id, session_id, idempotency_key, body_hash, request, created_us, max_output," \
	" detach, n, state"

static void insert_begin(struct design *d, const char *id)
{
	struct put p = put(d, "INSERT INTO commands(" BEGIN_COLUMNS ")"
			      " VALUES(?,?,?,?,?,?,?,?,?,?,?)");

	put_begin(&p, id);
	text(&p, "queued");
	end(&p);
}

static void update_end(struct design *d, const char *id)
{
	struct put p = put(d, "UPDATE commands SET state=?, result=?, started_us=?,"
			      " finished_us=?, exit_code=?, signal=?, stdout_bytes=?,"
			      " stderr_bytes=?, stdout_lines=?, stderr_lines=?"
			      " WHERE agent_id=? AND id=?");

	put_end(&p);
	text(&p, AGENT);
	text(&p, id);
	end(&p);
}

/* Where nothing is committed before the start, the row is written once. */
static void insert_whole(struct design *d, const char *id)
{
	struct put p = put(d, "INSERT INTO commands(" BEGIN_COLUMNS ", result, started_us,"
			      " finished_us, exit_code, signal, stdout_bytes, stderr_bytes,"
			      " stdout_lines, stderr_lines)"
			      " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");

	put_begin(&p, id);
	put_end(&p);
	end(&p);
}

static void save_session(struct design *d)
{
	struct put p = put(d, "UPDATE sessions SET state=?, last_activity_us=?, ended_us=?,"
			      " cwd=?, failure=?, command_count=?, file_ops=?, net_ops=?,"
			      " bytes_read=?, bytes_written=? WHERE id=?");

	text(&p, "ready");
	number(&p, TIME_US + d->commands);
	number(&p, 0);
	text(&p, "/workspace");
	text(&p, NULL);
	number(&p, d->commands);
	for (int i = 0; i < 4; i++)
		number(&p, 0);
	text(&p, SESSION);
	end(&p);
}

/* ---- the log ---- */

static void note(struct design *d, const char *id)
{
	struct intent *r = (struct intent *)(d->map + d->used);
	const size_t n = (size_t)snprintf(r->text, 512, "%s %s", id, REQUEST) + 1;

	r->crc = crc32c(0, r->text, n);
	atomic_store_explicit(&r->length, (uint32_t)n, memory_order_release);
	d->used += (sizeof(*r) + n + 7) & ~(size_t)7;
	if (d->used > LOG_BYTES - 1024)
		fail("the log is full");
}

/* Every record is in the database: from the start again. */
static void forget(struct design *d)
{
	atomic_store_explicit(&((struct intent *)d->map)->length, 0, memory_order_release);
	d->used = 0;
}

/* ---- measured ---- */

static void one_command(struct design *d)
{
	char id[32];

	d->commands++;
	snprintf(id, sizeof(id), "cmd-%012u", d->commands);
	if (d->log)
		note(d, id);
	begin(d);
	if (d->before || d->ours)
		insert_begin(d, id);
	tell_begin(d, id);
	if (d->before)
		commit(d);
	begin(d);
	tell_end(d, id);
	if (d->ours)
		store_put_ring_end(d->store, "ring", (uint64_t)d->commands * 3 + 3);
	if (d->before || d->ours)
		update_end(d, id);
	else
		insert_whole(d, id);
	save_session(d);
	if (d->commands % d->batch == 0) {
		commit(d);
		if (d->log)
			forget(d);
	}
}

static void open_database(struct design *d, const char *path)
{
	struct err err = {0};

	if (sqlite3_open_v2(path, &d->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    wal_vfs()) != SQLITE_OK ||
	    sqlite3_exec(d->db,
			 "PRAGMA page_size=1024; PRAGMA journal_mode=WAL;"
			 "PRAGMA synchronous=NORMAL",
			 NULL, NULL, NULL) != SQLITE_OK)
		fail(sqlite3_errmsg(d->db));
	if (schema_migrate(d->db, path, &err) < 0)
		fail(err.message);
}

static void open_log(struct design *d, const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || posix_fallocate(fd, 0, LOG_BYTES) != 0)
		fail("no log");
	d->map = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	if (d->map == MAP_FAILED)
		fail("no map of the log");
}

static void open_design(struct design *d, const char *dir)
{
	cleanup_free char *path = mem_printf("%s/%s.db", dir, d->name);
	cleanup_free char *log = mem_printf("%s/%s.log", dir, d->name);
	struct err err = {0};

	if (!d->ours)
		open_database(d, path);
	else if (store_open(path, loop_new(NULL, NULL), &clock_system, false, &d->store, &err) < 0)
		fail(err.message);
	if (d->log)
		open_log(d, log);
	begin(d);
	run(d, "INSERT INTO sessions(id, agent_id, state) VALUES('" SESSION "', '" AGENT
	       "', 'ready')");
	commit(d);
}

static void close_design(struct design *d)
{
	struct loop *loop;

	if (d->ours) {
		loop = store_loop(d->store);
		store_close(d->store);
		loop_free(loop);
		return;
	}
	for (size_t i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(d->cached[i].stmt);
	if (sqlite3_close(d->db) != SQLITE_OK)
		fail(sqlite3_errmsg(d->db));
}

/* Nothing that was measured is missing. */
static void check(struct design *d)
{
	static const char sql[] = "SELECT (SELECT count(*) FROM commands WHERE state='finished'"
				  " AND exit_code=0), (SELECT count(*) FROM events)";
	sqlite3 *db = d->ours ? store_db(d->store) : d->db;
	sqlite3_stmt *stmt = NULL;

	if (!sqlite3_get_autocommit(db))
		fail("a transaction is open");
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
	    sqlite3_step(stmt) != SQLITE_ROW || sqlite3_column_int64(stmt, 0) != d->commands ||
	    sqlite3_column_int64(stmt, 1) != (int64_t)d->commands * EVENTS)
		fail("rows are missing");
	sqlite3_finalize(stmt);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const int rounds = argc == 4 ? atoi(argv[2]) : 0, commands = argc == 4 ? atoi(argv[3]) : 0;
	const int n = (int)ARRAY_LEN(designs);

	if (rounds < 1 || rounds > ROUNDS_MAX || commands < 1 || commands % MOST != 0)
		return 2;
	for (int i = 0; i < n; i++)
		open_design(&designs[i], argv[1]);
	for (int r = -1; r < rounds; r++) /* the first is not counted */
		for (int i = 0; i < n; i++) {
			struct design *d = &designs[(i + r + 1) % n]; /* none is always the first */
			const double start = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
			const double loop_start = cpu_us(CLOCK_THREAD_CPUTIME_ID);

			for (int c = 0; c < commands; c++)
				one_command(d);
			if (r < 0)
				continue;
			d->us[r] = (cpu_us(CLOCK_PROCESS_CPUTIME_ID) - start) / commands;
			d->loop_us[r] = (cpu_us(CLOCK_THREAD_CPUTIME_ID) - loop_start) / commands;
		}
	for (int i = 0; i < n; i++) {
		check(&designs[i]);
		close_design(&designs[i]);
		qsort(designs[i].us, (size_t)rounds, sizeof(double), by_value);
		qsort(designs[i].loop_us, (size_t)rounds, sizeof(double), by_value);
		printf("%s\"%s_us\":%.1f,\"%s_loop_us\":%.1f", i > 0 ? "," : "{", designs[i].name,
		       designs[i].us[rounds / 2], designs[i].name, designs[i].loop_us[rounds / 2]);
	}
	printf("}\n");
	return 0;
}
