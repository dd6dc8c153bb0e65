// SPDX-License-Identifier: Apache-2.0
/* A refusal by policy, told to a person: rule, reason, what was asked, what may be done instead. */
#include "cli/cli.h"
#include <string.h>

void cli_denial(const char *json, struct buf *out)
{
	const json_t *one;
	json_t *doc = NULL;
	size_t i;

	if (json_parse(json, strlen(json), &doc, NULL) < 0)
		return;
	buf_addf(out, "agentsh:   rule: %s%s\n", cli_string(doc, "rule"),
		 json_is_true(json_object_get(doc, "final")) ? " (final)" : "");
	if (cli_string(doc, "reason")[0] != '\0')
		buf_addf(out, "agentsh:   reason: %s\n", cli_string(doc, "reason"));
	buf_addf(out, "agentsh:   asked: %s %s\n", cli_string(doc, "operation"),
		 cli_string(doc, "target"));
	json_array_foreach(json_object_get(doc, "alternatives"), i, one) if (json_is_string(one))
		buf_addf(out, "agentsh:   allowed: %s\n", json_string_value(one));
	json_decref(doc);
}
