// SPDX-License-Identifier: Apache-2.0
/* event/schema.h - the tables of the database, of every module that keeps rows in it, and how they
 * came about. */
#pragma once
#include "base/err.h"
#include <sqlite3.h>

/* Brings the tables to our version, one transaction per step. A newer version is E_UNAVAILABLE. */
int schema_migrate(sqlite3 *db, const char *path, struct err *err);
/* The code for the last failure of a connection: E_RESOURCE_LIMIT if the disk is full or failing,
 * which may pass, else E_UNAVAILABLE. */
enum err_code schema_code(sqlite3 *db);
const char *schema_remedy(int code); /* what the operator can do about a code of SQLite */
/* Reports the last failure of a connection: "cannot WHAT the database …", and the remedy. */
int schema_failed(sqlite3 *db, const char *path, const char *what, struct err *err);
