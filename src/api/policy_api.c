// SPDX-License-Identifier: Apache-2.0
/* Policies: the one of a session, which there are, and reading them again. The launcher knows. */
#include "api/handlers.h"
#include "base/mem.h"

/* A question to the launcher: the client may leave before the answer. */
struct asked {
	struct call *call; /* NULL once the client has left */
	bool reload;
};

static void asked_left(struct call *call, bool gone)
{
	struct asked *a = call->work;

	if (gone)
		a->call = NULL; /* on_policies frees it */
	else
		free(a);
}

/* "" is null. */
static void format_text(struct jw *w, const char *key, const struct strv *list, size_t i)
{
	jw_kstr(w, key, i < list->n && list->v[i][0] != '\0' ? list->v[i] : NULL);
}

static void format_list(const struct launcher_policies *m, const char *fallback, struct jw *w)
{
	jw_key(w, "policies");
	jw_arr(w);
	for (size_t i = 0; i < m->name.n; i++) {
		jw_obj(w);
		jw_kstr(w, "name", m->name.v[i]);
		format_text(w, "version", &m->version, i);
		format_text(w, "description", &m->description, i);
		jw_kbool(w, "default", strcmp(m->name.v[i], fallback) == 0);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void format_reload(const struct launcher_policies *m, struct jw *w)
{
	jw_kstrv(w, "loaded", &m->loaded);
	jw_key(w, "failed");
	jw_arr(w);
	for (size_t i = 0; i < m->failed.n; i++) {
		jw_obj(w);
		jw_kstr(w, "name", m->failed.v[i]);
		format_text(w, "problem", &m->why, i);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void on_policies(const struct err *err, const struct launcher_policies *m, void *arg)
{
	struct asked *a = arg;
	struct call *call = a->call;
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);

	if (call == NULL) {
		free(a);
		return;
	}
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	jw_obj(&w);
	if (a->reload)
		format_reload(m, &w);
	format_list(m, call->api->config.policy_default, &w);
	jw_obj_end(&w);
	call_reply(call, 200, &body);
}

static void ask(struct call *call, bool reload)
{
	struct asked *a = mem_new(struct asked);

	*a = (struct asked){call, reload};
	call->work = a;
	call->work_free = asked_left;
	policies_ask(call->api->sessions, reload, on_policies, a);
}

void api_policy_list(struct call *call)
{
	ask(call, false);
}

void api_policy_reload(struct call *call)
{
	ask(call, true);
}

void api_session_policy(struct call *call)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);
	struct err err = {0};

	if (session_policy_format(call->session, &w, &err) < 0)
		call_fail(call, &err);
	else
		call_reply(call, 200, &body);
}
