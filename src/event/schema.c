// SPDX-License-Identifier: Apache-2.0
#include "event/schema.h"
#include "base/mem.h"
#include <errno.h>

/* Element n leads from version n to n + 1. A released element never changes; a new one follows it.
 */
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

	/* The policies of sessions, for as long as the sessions have rows. */
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

	/* The decision of the rule; the column decision has the effective one. Queries use it for
	 * other decisions than allow and deny: to fill it for those would write the whole table. */
	"ALTER TABLE events ADD COLUMN policy_decision TEXT;"
	"UPDATE events SET policy_decision = json_extract(body, '$.policy.decision')"
	"  WHERE json_valid(body)"
	"  AND json_extract(body, '$.policy.decision') NOT IN ('allow', 'deny');",

	/* Kept homes; bytes as they were when the last session that used one had ended. */
	"CREATE TABLE homes("
	"  id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, workspace TEXT, policy_name TEXT,"
	"  used_us INTEGER, bytes INTEGER);"
	"ALTER TABLE sessions ADD COLUMN home TEXT;",
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

const char *schema_remedy(int code)
{
	switch (code) {
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
		return "it is damaged or not a database: move it away to start anew";
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return "another program holds it";
	default:
		return "check that its directory exists and is writable, and that the disk is not "
		       "full";
	}
}

int schema_failed(sqlite3 *db, const char *path, const char *what, struct err *err)
{
	return err_set(err, schema_code(db), path, "cannot %s the database '%s': %s; %s", what,
		       path, sqlite3_errmsg(db), schema_remedy(sqlite3_errcode(db)));
}

static int get_version(sqlite3 *db, const char *path, int *version, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	bool read;

	sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &stmt, NULL);
	read = sqlite3_step(stmt) == SQLITE_ROW;
	*version = sqlite3_column_int(stmt, 0);
	sqlite3_finalize(stmt);
	if (!read)
		return schema_failed(db, path, "read", err);
	if (*version < 0)
		return err_set(err, E_UNAVAILABLE, path,
			       "the database '%s' has version %d: it is damaged or not ours; move "
			       "it away to start anew",
			       path, *version);
	if (*version > SCHEMA_VERSION)
		return err_set(err, E_UNAVAILABLE, path,
			       "the database '%s' has version %d, this program knows %d; "
			       "install the newer agentsh or move the file away",
			       path, *version, SCHEMA_VERSION);
	return 0;
}

/* The version is read inside the transaction: another process may have been faster. */
static int step(sqlite3 *db, const char *path, bool *more, struct err *err)
{
	char done[64];
	int version, rc = get_version(db, path, &version, err);

	*more = rc == 0 && version < SCHEMA_VERSION;
	if (!*more)
		return rc;
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
	int rc = 0;

	while (rc == 0 && more) {
		if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
			return schema_failed(db, path, "write", err);
		rc = step(db, path, &more, err);
		if (rc == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
			rc = schema_failed(db, path, "write", err);
		if (rc < 0)
			sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	}
	return rc;
}
