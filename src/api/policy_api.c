// SPDX-License-Identifier: Apache-2.0
/* Policies: that of a session, the list, and reloading. The launcher answers the last two. */
#include "api/handlers.h"
#include "base/mem.h"

/* "" is null. */
static void format_text(struct jw *w, const char *key, const struct strv *list, size_t i)
{
	jw_kstr(w, key, i < list->n && list->v[i][0] != '\0' ? list->v[i] : NULL);
}

static void format_list(const struct launcher_policies *m, const char *fallback, struct jw *w)
{
	jw_karr(w, "policies");
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
	jw_karr(w, "failed");
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
	struct call *call = arg;

	if (!call_resume(call))
		return;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	jw_obj(&call->w);
	if (call->method->handler == api_policy_reload)
		format_reload(m, &call->w);
	format_list(m, call->api->config.policy_default, &call->w);
	jw_obj_end(&call->w);
	call_reply(call, 200);
}

void api_policy_list(struct call *call)
{
	policies_ask(call->api->sessions, false, on_policies, call_wait(call));
}

void api_policy_reload(struct call *call)
{
	policies_ask(call->api->sessions, true, on_policies, call_wait(call));
}

void api_session_policy(struct call *call)
{
	struct err err = {0};

	call_finish(call, session_policy_format(call->session, &call->w, &err), &err);
}
