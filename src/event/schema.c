// SPDX-License-Identifier: Apache-2.0
#include "event/schema.h"
#include "base/mem.h"
#include <errno.h>

/* Element n leads from version n to n + 1. What was released is never changed, only followed. */
static const char *const migrations[] = {
	/* time_us is not in the order of seq: producers are many. Rowids (seq) are the last column
	 * of every index, so each of these answers a filter in the order of seq. */
	"CREATE TABLE events("
	"  seq INTEGER PRIMARY KEY,"
	"  ring TEXT, pos INTEGER,"
	"  time_us INTEGER NOT NULL, type TEXT NOT NULL,"
	"  session_id TEXT, command_id TEXT, agent_id TEXT,"
	"  decision TEXT, path TEXT, domain TEXT,"
	"  body TEXT NOT NULL, hash BLOB NOT NULL);"
	"CREATE UNIQUE INDEX events_ring ON events(ring, pos) WHERE ring IS NOT NULL;"
	"CREATE INDEX events_session ON events(session_id) WHERE session_id IS NOT NULL;"
	"CREATE INDEX events_command ON events(command_id) WHERE command_id IS NOT NULL;"
	"CREATE INDEX events_time ON events(time_us);"

	/* In the order of rowid sessions are as they were created. */
	"CREATE TABLE sessions("
	"  id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, owner_uid INTEGER, state TEXT NOT NULL,"
	"  created_us INTEGER, last_activity_us INTEGER, ended_us INTEGER,"
	"  workspace TEXT, policy_name TEXT, policy_version TEXT, cwd TEXT,"
	"  env TEXT, config TEXT, walls TEXT, failure TEXT,"
	"  command_count INTEGER, file_ops INTEGER, net_ops INTEGER,"
	"  bytes_read INTEGER, bytes_written INTEGER);"
	"CREATE INDEX sessions_agent ON sessions(agent_id);"

	"CREATE TABLE commands("
	"  agent_id TEXT, id TEXT, session_id TEXT, state TEXT,"
	"  idempotency_key TEXT, body_hash BLOB, request TEXT, result TEXT,"
	"  created_us INTEGER, started_us INTEGER, finished_us INTEGER,"
	"  exit_code INTEGER, signal TEXT,"
	"  stdout_bytes INTEGER, stderr_bytes INTEGER, stdout_lines INTEGER, stderr_lines INTEGER,"
	"  max_output INTEGER, detach INTEGER, n INTEGER,"
	"  PRIMARY KEY(agent_id, id));"
	"CREATE UNIQUE INDEX commands_key ON commands(agent_id, idempotency_key)"
	"  WHERE idempotency_key IS NOT NULL;"
	"CREATE INDEX commands_session ON commands(session_id, n);"

	"CREATE TABLE meta(key TEXT PRIMARY KEY, value);",

	/* What sessions are bound to, for as long as their rows are. */
	"CREATE TABLE policies(version TEXT PRIMARY KEY, name TEXT, snapshot BLOB NOT NULL);"
	"ALTER TABLE sessions ADD COLUMN capped TEXT;",

	/* Up to where each living ring was read: one row a reading instead of one entry an event.
	 */
	"CREATE TABLE rings(ring TEXT PRIMARY KEY, pos INTEGER NOT NULL) WITHOUT ROWID;"
	"INSERT INTO rings SELECT ring, max(pos) + 1 FROM events"
	"  WHERE ring IS NOT NULL GROUP BY ring;"
	"DROP INDEX events_ring;"
	/* Files of the output have names of their own; NULL: the command's. */
	"ALTER TABLE commands ADD COLUMN stdout_file TEXT;"
	"ALTER TABLE commands ADD COLUMN stderr_file TEXT;",

	/* Filters of queries that are answered in the order of seq. */
	"CREATE INDEX events_session_type ON events(session_id, type)"
	"  WHERE session_id IS NOT NULL;"
	"CREATE INDEX events_session_decision ON events(session_id, decision)"
	"  WHERE session_id IS NOT NULL AND decision IS NOT NULL;"
	"CREATE INDEX events_type ON events(type);"
	"CREATE INDEX events_decision ON events(decision) WHERE decision IS NOT NULL;",

	/* By CLOCK_BOOTTIME, for time-outs: the wall clock may be stepped. */
	"ALTER TABLE sessions ADD COLUMN created_boot_us INTEGER;"
	"ALTER TABLE sessions ADD COLUMN active_boot_us INTEGER;",
};
#define SCHEMA_VERSION ((int)ARRAY_LEN(migrations))

enum err_code schema_code(sqlite3 *db)
{
	const int code = sqlite3_errcode(db) & 0xff;

	if (code == SQLITE_FULL || code == SQLITE_IOERR)
		return E_RESOURCE_LIMIT;
	errno = sqlite3_system_errno(db);
	return code == SQLITE_CANTOPEN ? err_disk(E_UNAVAILABLE) : E_UNAVAILABLE;
}

static int get_version(sqlite3 *db, const char *path, int *version, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL);

	if (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
		*version = sqlite3_column_int(stmt, 0);
	else
		rc = SQLITE_ERROR;
	sqlite3_finalize(stmt);
	if (rc == SQLITE_OK && *version < 0)
		return err_set(err, E_UNAVAILABLE, path,
			       "the database '%s' has version %d: it is damaged or not ours; move "
			       "it away to start anew",
			       path, *version);
	if (rc != SQLITE_OK)
		return err_set(err, schema_code(db), path,
			       "cannot read the database '%s': %s; move it away to start anew",
			       path, sqlite3_errmsg(db));
	return 0;
}

static int newer(const char *path, int version, struct err *err)
{
	return err_set(err, E_UNAVAILABLE, path,
		       "the database '%s' has version %d, this program knows %d; "
		       "install the newer agentsh or move the file away",
		       path, version, SCHEMA_VERSION);
}

int schema_check(sqlite3 *db, const char *path, struct err *err)
{
	int version = 0, rc = get_version(db, path, &version, err);

	if (rc < 0)
		return rc;
	if (version > SCHEMA_VERSION)
		return newer(path, version, err);
	if (version < SCHEMA_VERSION)
		return err_set(err, E_UNAVAILABLE, path,
			       "the database '%s' has version %d, this program needs %d; "
			       "start the server once to bring it up",
			       path, version, SCHEMA_VERSION);
	return 0;
}

/* The version is read inside the transaction: another process may have been faster. */
static int step(sqlite3 *db, const char *path, bool *more, struct err *err)
{
	char done[64];
	int version = 0, rc = get_version(db, path, &version, err);

	if (rc < 0)
		return rc;
	if (version > SCHEMA_VERSION)
		return newer(path, version, err);
	*more = version < SCHEMA_VERSION;
	if (!*more)
		return 0;
	sqlite3_snprintf(sizeof(done), done, "PRAGMA user_version=%d", version + 1);
	if (sqlite3_exec(db, migrations[version], NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(db, done, NULL, NULL, NULL) != SQLITE_OK)
		return err_set(err, schema_code(db), path,
			       "cannot bring the database '%s' to version %d: %s", path,
			       version + 1, sqlite3_errmsg(db));
	return 0;
}

int schema_migrate(sqlite3 *db, const char *path, struct err *err)
{
	bool more = true;

	while (more) {
		int rc;

		if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
			return err_set(err, schema_code(db), path,
				       "cannot write the database '%s': %s; is another server "
				       "using it, or the disk full or read-only?",
				       path, sqlite3_errmsg(db));
		rc = step(db, path, &more, err);
		if (rc == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
			rc = err_set(err, schema_code(db), path,
				     "cannot write the database '%s': %s", path,
				     sqlite3_errmsg(db));
		if (rc < 0) {
			sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
			return rc;
		}
	}
	return 0;
}
