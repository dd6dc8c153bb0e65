// SPDX-License-Identifier: Apache-2.0
#include "base/err_body.h"
#include "base/denial.h"
#include "base/json.h"
#include <string.h>

void err_body_format(const struct err *err, const char *request_id, struct buf *out)
{
	struct jw w = JW(out);

	jw_obj(&w);
	jw_kobj(&w, "error");
	jw_kstr(&w, "code", err_row(err->code)->name);
	jw_kstr(&w, "message", err->message[0] ? err->message : err_row(err->code)->text);
	jw_kstr(&w, "subject", err->subject);
	if (err->ndetails > 0) {
		jw_karr(&w, "details");
		for (unsigned i = 0; i < err->ndetails && i < ERR_DETAILS; i++) {
			jw_obj(&w);
			jw_kstr(&w, "field", err->details[i].field);
			jw_kstr(&w, "problem", err->details[i].problem);
			jw_obj_end(&w);
		}
		jw_arr_end(&w);
	}
	if (err->denial[0]) {
		jw_key(&w, "policy");
		denial_format_text(err->denial, &w);
	}
	if (request_id != NULL)
		jw_kstr(&w, "request_id", request_id);
	jw_obj_end(&w);
	jw_obj_end(&w);
}
