// SPDX-License-Identifier: Apache-2.0
/* Writes a denial for a person: rule, reason, operation, and what the policy allows instead. */
#include "cli/cli.h"
#include <string.h>

void cli_denial(const char *json, struct buf *out)
{
	const json_t *one;
	json_t *doc = NULL;
	size_t i;

	if (json_parse(json, strlen(json), &doc, NULL) < 0)
		return;
	buf_adds(out, "agentsh:   rule: ");
	cli_visible(cli_string(doc, "rule"), out);
	if (json_is_true(json_object_get(doc, "final")))
		buf_adds(out, " (final)");
	if (cli_string(doc, "reason")[0] != '\0')
		buf_adds(out, "\nagentsh:   reason: ");
	cli_visible(cli_string(doc, "reason"), out);
	buf_adds(out, "\nagentsh:   asked: ");
	cli_visible(cli_string(doc, "operation"), out);
	buf_addc(out, ' ');
	cli_visible(cli_string(doc, "target"), out);
	json_array_foreach(json_object_get(doc, "alternatives"), i, one)
	{
		if (!json_is_string(one))
			continue;
		buf_adds(out, "\nagentsh:   allowed: ");
		cli_visible(json_string_value(one), out);
	}
	buf_addc(out, '\n');
	json_decref(doc);
}
