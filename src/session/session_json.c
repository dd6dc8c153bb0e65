// SPDX-License-Identifier: Apache-2.0
/* The session record of the interface. */
#include "config/config.h"
#include "model/process_table.h"
#include "policy/policy.h"
#include "session/command_state.h"
#include "session/drain.h"
#include "session/session_env.h"
#include "session/session_policies.h"
#include "session/session_state.h"
#include "session/sessions.h"

/* An ended session had one if the server still gives one. */
static bool has_file_server(const struct session *s)
{
	for (size_t i = 0; i < s->nrings; i++) {
		const char *name = strrchr(s->ring[i].id, '/');

		if (name != NULL && strcmp(name + 1, process_table[PROCESS_fs].name) == 0)
			return config_fuse(s->ss->deps.config);
	}
	return s->nrings == 0 && config_fuse(s->ss->deps.config);
}

/* Whether the walls of the session enforce what the policy says about files or connections. */
static bool enforces(const struct session *s, const struct policy *p, enum op_class class)
{
	const enum wall_state files = s->walls.wall[WALL_file_rules].state;

	if (class == OP_FILE)
		return files == WALL_UP || files == WALL_PARTIAL ||
		       (files == WALL_ABSENT && has_file_server(s));
	return s->walls.wall[WALL_net_namespace].state == WALL_UP &&
	       !policy_restricts_loopback(p) && !limits_has(policy_limits(p), LIMIT_max_net_ops);
}

static void format_policy(struct session *s, struct jw *w)
{
	const struct policy *p = session_policy(s);
	static const enum op_class classes[] = {OP_FILE, OP_NET};
	struct strv summary = {0}, unenforced = {0};

	if (p != NULL)
		policy_summary(p, &summary);
	for (size_t i = 0; p != NULL && i < ARRAY_LEN(classes); i++) {
		cleanup_buf struct buf text = {0};

		if (!enforces(s, p, classes[i]))
			policy_unenforced(p, classes[i], &text);
		if (text.len > 0)
			strv_add(&unenforced, text.data);
	}
	jw_obj(w);
	jw_kstr(w, "name", s->policy_name);
	jw_kstr(w, "version", s->policy_version);
	jw_kstrv(w, "summary", &summary);
	jw_kstrv(w, "unenforced", &unenforced);
	jw_obj_end(w);
	strv_done(&summary);
	strv_done(&unenforced);
}

void command_format_session(struct command *c, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "id", c->s->id);
	jw_key(w, "policy");
	format_policy(c->s, w);
	jw_obj_end(w);
}

static void format_endpoints(const struct session *s, struct jw *w)
{
	static const char *const rows[][2] = {
		{"self", ""},
		{"exec", "/exec"},
		{"exec_stream", "/exec/stream"},
		{"commands", "/commands"},
		{"output", "/output"},
		{"kill", "/kill"},
		{"events", "/events"},
		{"history", "/history"},
		{"policy", "/policy"},
	};

	jw_obj(w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *path = mem_printf("/api/v1/sessions/%s%s", s->id, rows[i][1]);

		jw_kstr(w, rows[i][0], path);
	}
	jw_obj_end(w);
}

void session_format(struct session *s, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "id", s->id);
	jw_kstr(w, "state", session_state_names[s->state]);
	jw_ktime_us(w, "created", s->created_us);
	jw_ktime_us(w, "last_activity", s->last_activity_us);
	jw_ktime_us(w, "ended", s->ended_us);
	jw_kstr(w, "agent_id", s->agent_id);
	jw_kint(w, "owner_uid", s->owner_uid);
	jw_kstr(w, "workspace", s->workspace);
	jw_key(w, "policy");
	format_policy(s, w);
	jw_kstr(w, "working_dir", s->cwd);
	jw_key(w, "environment");
	env_format(&s->env, w);
	jw_key(w, "config");
	session_request_format(&s->config, w);
	jw_kstrv(w, "capped", &s->capped);
	jw_kint(w, "command_count", s->totals.command_count);
	jw_kint(w, "total_file_ops", s->totals.file_ops);
	jw_kint(w, "total_net_ops", s->totals.net_ops);
	jw_kint(w, "total_bytes_read", s->totals.bytes_read);
	jw_kint(w, "total_bytes_written", s->totals.bytes_written);
	jw_kobj(w, "queue");
	jw_kstr(w, "running", s->running != NULL ? s->running->id : NULL);
	jw_kint(w, "waiting", session_waiting(s));
	jw_obj_end(w);
	jw_kstr(w, "failure", s->failure);
	jw_key(w, "enforcement");
	wall_format(&s->walls, w);
	jw_key(w, "endpoints");
	format_endpoints(s, w);
	jw_obj_end(w);
}
