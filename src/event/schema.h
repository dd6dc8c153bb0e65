// SPDX-License-Identifier: Apache-2.0
/* event/schema.h - the tables of the database, of every module that keeps rows in it, and how they
 * came about. */
#pragma once
#include "base/err.h"
#include <sqlite3.h>

/* Brings the tables to our version, one transaction per step. A newer version is E_UNAVAILABLE. */
int schema_migrate(sqlite3 *db, const char *path, struct err *err);
/* For reading: any version but ours is E_UNAVAILABLE. */
int schema_check(sqlite3 *db, const char *path, struct err *err);
/* The code for what failed last on a connection: E_RESOURCE_LIMIT if the disk is full or failing,
 * which may pass, else E_UNAVAILABLE. */
enum err_code schema_code(sqlite3 *db);
