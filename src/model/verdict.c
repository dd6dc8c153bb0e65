// SPDX-License-Identifier: Apache-2.0
#include "model/verdict.h"
#include "base/mem.h"
#include "base/names.h"

static const char *const names[DECISIONS] = {
#define X(name) #name,
	DECISION_LIST(X)
#undef X
};

const char *decision_name(enum decision d)
{
	return names[d];
}

bool decision_parse(const char *name, enum decision *out)
{
	const int i = name_find(names, DECISIONS, name, strlen(name));

	if (i >= 0)
		*out = (enum decision)i;
	return i >= 0;
}

static const struct {
	const char *word;
	void (*format)(const struct op *op, struct buf *out);
} places[] = {
	{"{path}", op_format_target},
	{"{args}", op_format_args},
};

void verdict_format_reason(const struct verdict *v, const struct op *op, struct buf *out)
{
	const char *p = v->message;

	if (p == NULL) {
		buf_adds(out, v->why != NULL ? v->why : "");
		return;
	}
	while (*p != '\0') {
		size_t i = 0;

		while (i < ARRAY_LEN(places) &&
		       strncmp(p, places[i].word, strlen(places[i].word)) != 0)
			i++;
		if (i == ARRAY_LEN(places)) {
			buf_addc(out, *p++);
			continue;
		}
		places[i].format(op, out);
		p += strlen(places[i].word);
	}
	/* The message comes from the policy; the missing approver is added. */
	if (v->decision == DECISION_approve && v->effective == DECISION_deny)
		buf_addf(out, " (%s)", v->why);
}

void denial_init(struct denial *d, const struct verdict *v, const struct op *op)
{
	struct buf reason = {0}, operation = {0}, target = {0};

	verdict_format_reason(v, op, &reason);
	op_format_kind(op, &operation);
	op_format_target(op, &target);
	*d = (struct denial){.rule = mem_strdup(v->rule),
			     .reason = buf_take(&reason),
			     .operation = buf_take(&operation),
			     .target = buf_take(&target),
			     .final = v->final};
}
