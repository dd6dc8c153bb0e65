// SPDX-License-Identifier: Apache-2.0
#include "event/testkit/chain_testkit.h"
#include <string.h>

int chain_verify(struct store *s, uint64_t *bad, struct err *err)
{
	sqlite3_stmt *stmt = store_stmt(s, "SELECT seq, body, hash FROM events ORDER BY seq");
	uint8_t hash[HASH_LEN] = {0};
	uint64_t seq = 0, wrong = 0;
	int rc = SQLITE_ROW;

	while (wrong == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const void *body = sqlite3_column_blob(stmt, 1);
		const void *stored = sqlite3_column_blob(stmt, 2);

		hash_sha256(hash, hash, HASH_LEN, body, (size_t)sqlite3_column_bytes(stmt, 1));
		seq++;
		if ((uint64_t)sqlite3_column_int64(stmt, 0) != seq ||
		    sqlite3_column_bytes(stmt, 2) != HASH_LEN ||
		    memcmp(hash, stored, HASH_LEN) != 0)
			wrong = seq;
	}
	sqlite3_reset(stmt);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return err_set(err, E_UNAVAILABLE, NULL, "the database cannot be read: %s",
			       sqlite3_errmsg(store_db(s)));
	*bad = wrong;
	return 0;
}
