// SPDX-License-Identifier: Apache-2.0
#include "api/exec_tail.h"
#include "base/mem.h"
#include <stdio.h>

int exec_tail_read(struct exec_tail *t, int stream, size_t max, bool whole, struct buf *out,
		   struct err *err)
{
	struct command *c = t->live;
	size_t before = out->len, got;
	int r = 0;

	if (c == NULL)
		r = command_get(t->call->api->sessions, &t->call->who, NULL, t->id, &c, err);
	if (r == 0)
		r = command_output(c, stream, t->sent[stream], max, NULL, out, err);
	if (r < 0)
		return r;
	got = out->len - before;
	if (whole && got > 0 && t->live != NULL && json_text_cut(out->data + before, got) == 0)
		got = 0;
	out->len = before + got;
	t->sent[stream] += got;
	return 0;
}

void exec_tail_finish(struct exec_tail *t, struct command *c)
{
	struct jw w = JW(&t->result);

	command_format_answer(c, &w);
	t->live = NULL;
	t->done = true;
}

void exec_tail_done(struct exec_tail *t, bool gone)
{
	if (gone && t->live != NULL)
		command_unobserve(t->live, t, true);
	buf_done(&t->result);
}
