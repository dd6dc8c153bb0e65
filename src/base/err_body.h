// SPDX-License-Identifier: Apache-2.0
/* base/err_body.h - the error as JSON that every surface has. */
#pragma once
#include "base/buf.h"
#include "base/err.h"

/* Appends {"error": {…}}. request_id NULL: there was no request. */
void err_body_format(const struct err *err, const char *request_id, struct buf *out);
