// SPDX-License-Identifier: Apache-2.0
#include "api/handlers.h"

void api_health(struct call *call)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);

	jw_obj(&w);
	jw_kstr(&w, "status", "ok");
	jw_kstr(&w, "version", AGENTSH_VERSION);
	jw_obj_end(&w);
	call_reply(call, 200, &body);
}

void api_ready(struct call *call)
{
	struct api *api = call->api;
	bool ready = sessions_ready(api->sessions) && !api->stopping;
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);

	jw_obj(&w);
	jw_kbool(&w, "ready", ready);
	jw_kint(&w, "sessions", sessions_live(api->sessions));
	jw_obj_end(&w);
	call_reply(call, ready ? 200 : 503, &body);
}

void api_metrics(struct call *call)
{
	const struct http_extra extra[] = {{"X-Request-Id", call->who.request_id}, {NULL, NULL}};
	struct api *api = call->api;
	cleanup_buf struct buf body = {0};

	metrics_set(api->metrics, METRIC_UP, 1);
	metrics_set(api->metrics, METRIC_SESSIONS_ACTIVE, sessions_live(api->sessions));
	if (api->jsonl != NULL)
		metrics_set(api->metrics, METRIC_EVENTS_JSONL_BEHIND,
			    (int64_t)sink_jsonl_behind(api->jsonl));
	metrics_format(api->metrics, &body);
	call_begun(call, 200);
	http_reply(call->req, 200, "text/plain; version=0.0.4", body.data, body.len, extra);
	call_end(call);
}
