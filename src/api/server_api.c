// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

void api_health(struct call *call)
{
	jw_obj(&call->w);
	jw_kstr(&call->w, "status", "ok");
	jw_kstr(&call->w, "version", AGENTSH_VERSION);
	jw_obj_end(&call->w);
	call_reply(call, 200);
}

int api_writable(const struct api *api, struct err *err)
{
	if (api->store == NULL)
		return err_set(err, E_UNAVAILABLE, api->no_store.subject, "%s",
			       api->no_store.message);
	return store_failing(api->store, err);
}

void api_ready(struct call *call)
{
	struct api *api = call->api;
	struct err why = {0};
	const int writable = api_writable(api, &why);
	bool ready = writable == 0 && sessions_ready(api->sessions) && !api->stopping;
	struct jw *w = &call->w;

	jw_obj(w);
	jw_kbool(w, "ready", ready);
	jw_kint(w, "sessions", api->sessions != NULL ? sessions_live(api->sessions) : 0);
	if (writable < 0)
		jw_kstr(w, "reason", why.message);
	jw_obj_end(w);
	call_reply(call, ready ? 200 : 503);
}

void api_metrics(struct call *call)
{
	struct api *api = call->api;

	metrics_set(api->metrics, METRIC_UP, 1);
	metrics_set(api->metrics, METRIC_STORE_WRITABLE, api_writable(api, NULL) == 0);
	if (api->sessions != NULL) {
		metrics_set(api->metrics, METRIC_SESSIONS_ACTIVE, sessions_live(api->sessions));
		metrics_raise(api->metrics, METRIC_EVENTS_DROPPED,
			      (int64_t)(api->dropped + sessions_dropped(api->sessions)));
	}
	if (api->jsonl != NULL)
		metrics_set(api->metrics, METRIC_EVENTS_JSONL_BEHIND,
			    (int64_t)sink_jsonl_behind(api->jsonl));
	metrics_format(api->metrics, &call->reply);
	call_reply_as(call, 200, "text/plain; version=0.0.4");
}
