// SPDX-License-Identifier: Apache-2.0
/* Lists of sessions and of commands, page by page. */
#include "session/command_state.h"
#include "session/rows.h"
#include "session/sessions.h"
#include <inttypes.h>

struct listing {
	struct jw *w;
	struct rows_page page; /* asks for one more than the page shows */
	unsigned n;
	int64_t last;
	bool more;
};

static int begin(struct listing *l, const char *key, const char *cursor, struct err *err)
{
	if (cursor != NULL && cursor[0] != '\0') {
		if (strspn(cursor, "0123456789") != strlen(cursor) || strlen(cursor) >= 19) {
			err_detail(err, "cursor", "not a cursor of ours: '%.32s'", cursor);
			return err_from_details(err, NULL);
		}
		l->page.after = strtoll(cursor, NULL, 10);
	}
	jw_obj(l->w);
	jw_karr(l->w, key);
	return 0;
}

/* Whether the page has room for the entry at this position. */
static bool takes(struct listing *l, int64_t at)
{
	l->more = l->n + 1 == l->page.limit;
	if (l->more)
		return false;
	l->n++;
	l->last = at;
	return true;
}

static void end(struct listing *l)
{
	cleanup_free char *next = l->more ? mem_printf("%" PRId64, l->last) : NULL;

	jw_arr_end(l->w);
	jw_kstr(l->w, "next", next != NULL ? next : "");
	jw_obj_end(l->w);
}

static void list_session(struct session *s, void *arg)
{
	struct listing *l = arg;
	struct session *live = sessions_find(s->ss, s->id);

	if (takes(l, s->rowid))
		session_format(live != NULL ? live : s, l->w);
	session_unref(s);
}

int session_list(struct sessions *ss, const struct caller *who, const char *cursor, unsigned limit,
		 struct jw *w, struct err *err)
{
	struct listing l = {.w = w, .page.limit = limit + 1};
	int r = begin(&l, "sessions", cursor, err);

	if (r == 0)
		r = rows_sessions_page(ss, who->role == ROLE_ADMIN ? NULL : who->agent_id, &l.page,
				       list_session, &l, err);
	if (r == 0)
		end(&l);
	return r;
}

static void list_command(struct command *c, void *arg)
{
	struct listing *l = arg;

	if (takes(l, c->n))
		command_format(c, l->w);
	command_unref(c);
}

int command_list(struct session *s, const char *cursor, unsigned limit, struct jw *w,
		 struct err *err)
{
	struct listing l = {.w = w, .page.limit = limit + 1};
	int r = begin(&l, "commands", cursor, err);

	if (r == 0)
		r = rows_commands_page(s, &l.page, list_command, &l, err);
	if (r == 0)
		end(&l);
	return r;
}
