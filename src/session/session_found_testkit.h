// SPDX-License-Identifier: Apache-2.0
/* session/session_found_testkit.h - another server over the same database, and what it finds. */
#pragma once
#include "session/session_testkit.h"

static inline char *text(const char *s)
{
	return (char *)s;
}

static inline void restart(struct kit *k)
{
	kit_close_sessions(k);
	kit_open_sessions(k);
}

static inline void found(struct kit *k, struct fake *f)
{
	const struct launcher_found m = {.session_id = f->id, .rings = fake_rings(f)};
	int fd[5];

	kit_tell(k, MSG_launcher_found, &m, fd, fake_connect(f, fd));
	close(fd[0]);
}

/* Answers the hello; the patch that asks for the rest is answered last. */
static inline void answer_hello(struct kit *k, struct fake *f)
{
	kit_skip(&f->link, MSG_warden_hello);
	kit_recv_nothing(&f->link);
	fake_state(k, f, "/workspace/now", &(struct strv){0});
	kit_skip(&f->link, MSG_warden_settings);
	kit_skip(&f->link, MSG_warden_patch);
}

static inline void answer_patch(struct kit *k, struct fake *f)
{
	fake_state(k, f, "/workspace/now", &(struct strv){0});
}

/* One submitted command; its id is chosen. */
static inline void submit(struct kit *k, const char *session, const char *id, struct seen_by *o)
{
	struct exec_request request = kit_request("true");

	request.command_id = text(id);
	kit_submit(k, session, &request, o);
}

static inline struct buf record_of(struct kit *k, const char *id)
{
	struct buf b = {0};
	struct command *c = NULL;

	assert_int_equal(command_get(k->ss, &k->who, NULL, id, &c, NULL), 0);
	command_format(c, &JW(&b));
	return b;
}

static inline struct buf answer_of(struct kit *k, const char *id)
{
	struct buf b = {0};
	struct command *c = NULL;

	assert_int_equal(command_get(k->ss, &k->who, NULL, id, &c, NULL), 0);
	command_format_answer(c, NULL, &JW(&b));
	return b;
}
