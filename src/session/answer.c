// SPDX-License-Identifier: Apache-2.0
/* The exec answer and the command record of the interface, field for field. */
#include "session/answer.h"
#include "base/proc.h"
#include "session/session_state.h"

static const char *const stream_keys[3][4] = {
	[1] = {"stdout", "stdout_truncated", "stdout_total_bytes", "stdout_total_lines"},
	[2] = {"stderr", "stderr_truncated", "stderr_total_bytes", "stderr_total_lines"},
};

static void format_exit(const struct command *c, struct jw *w)
{
	jw_key(w, "exit_code");
	if (c->exit_code < 0)
		jw_null(w);
	else
		jw_int(w, c->exit_code);
	jw_kstr(w, "signal", proc_signal_name(c->signal)); /* 0 has no name */
}

/* "ended 123 sleep 60" */
static void format_background(const struct strv *list, struct jw *w)
{
	jw_arr(w);
	for (size_t i = 0; i < list->n; i++) {
		const char *s = list->v[i];
		const size_t word = strcspn(s, " ");
		char *rest = (char *)s + word;
		const long long pid = strtoll(rest, &rest, 10);

		jw_obj(w);
		jw_kint(w, "pid", pid);
		jw_kstr(w, "command", rest + (*rest == ' '));
		jw_key(w, "action");
		jw_strn(w, s, word);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void format_pagination(struct command *c, const uint64_t next_offset[3], struct jw *w)
{
	const int more = next_offset[1] < command_kept(c, 1)   ? 1
			 : next_offset[2] < command_kept(c, 2) ? 2
							       : 0;
	cleanup_free char *next =
		more == 0 ? NULL
			  : mem_printf("agentsh output %s%s --offset=%llu --limit=%lld", c->id,
				       more == 2 ? " --stream=stderr" : "",
				       (unsigned long long)next_offset[more],
				       (long long)(c->max_output > 0 ? c->max_output : 10000));

	jw_obj(w);
	jw_kint(w, "current_offset", 0);
	jw_kint(w, "current_limit", c->max_output);
	jw_kbool(w, "has_more", more != 0);
	jw_kstr(w, "next_command", next);
	jw_obj_end(w);
}

static void format_result(struct command *c, const struct err *unread, struct jw *w)
{
	cleanup_buf struct buf out = {0}, errors = {0};
	struct buf *data[3] = {NULL, &out, &errors};
	uint64_t next[3] = {0};
	const char *encoding[3];
	struct err err = {0};

	jw_obj(w);
	format_exit(c, w);
	for (int i = 1; i <= 2; i++) {
		/* Without a byte kept there is no need to open its file. */
		if (command_kept(c, i) > 0 && c->max_output > 0 &&
		    command_read_first(c, i, (size_t)c->max_output, data[i], &next[i], &err) < 0 &&
		    unread == NULL)
			unread = &err;
		jw_key(w, stream_keys[i][0]);
		encoding[i] = jw_data(w, data[i]->len > 0 ? data[i]->data : "", data[i]->len);
	}
	jw_kstr(w, "stdout_encoding", encoding[1]);
	jw_kstr(w, "stderr_encoding", encoding[2]);
	for (int i = 1; i <= 2; i++) {
		jw_kbool(w, stream_keys[i][1], data[i]->len < c->out.extent[i].bytes);
		jw_kuint(w, stream_keys[i][2], c->out.extent[i].bytes);
		jw_kuint(w, stream_keys[i][3], c->lines[i]);
	}
	jw_kreal(w, "duration_ms", (double)c->out.duration_us / 1000);
	jw_key(w, "error");
	answer_error(c, unread, w);
	jw_kstrv(w, "warnings", &c->out.warnings);
	jw_key(w, "background");
	format_background(&c->out.background, w);
	jw_key(w, "pagination");
	format_pagination(c, next, w);
	jw_obj_end(w);
}

static void format_resources(const struct outcome *o, struct jw *w)
{
	const double mb = 1024 * 1024;

	jw_obj(w);
	jw_kreal(w, "cpu_time_ms", (double)o->cpu_us / 1000);
	jw_kreal(w, "memory_peak_mb", (double)o->maxrss_kb / 1024);
	jw_kreal(w, "disk_read_mb", (double)o->read_bytes / mb);
	jw_kreal(w, "disk_write_mb", (double)o->write_bytes / mb);
	jw_kreal(w, "net_sent_kb", (double)o->ops.net.sent / 1024);
	jw_kreal(w, "net_received_kb", (double)o->ops.net.received / 1024);
	jw_obj_end(w);
}

void command_format_answer(struct command *c, const struct err *unread, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "session_id", c->s->id);
	jw_ktime_us(w, "timestamp", c->created_us);
	jw_kstr(w, "command_state", command_state_name(c->state));
	jw_key(w, "request");
	jw_raw(w, c->request, strlen(c->request));
	jw_key(w, "result");
	format_result(c, unread, w);
	jw_key(w, "events");
	answer_events(c, w);
	jw_key(w, "network_summary");
	answer_network(&c->out.ops.net, w);
	jw_key(w, "resources");
	format_resources(&c->out, w);
	jw_kobj(w, "state");
	jw_kstr(w, "working_dir", c->out.working_dir);
	jw_kstrv(w, "environment_changed", &c->out.env_changed);
	jw_obj_end(w);
	jw_key(w, "enforcement");
	wall_format(&c->s->walls, w);
	jw_obj_end(w);
}

void command_format(struct command *c, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "session_id", c->s->id);
	jw_kstr(w, "agent_id", c->s->agent_id);
	jw_kstr(w, "state", command_state_name(c->state));
	jw_key(w, "request");
	jw_raw(w, c->request, strlen(c->request));
	jw_ktime_us(w, "created", c->created_us);
	jw_ktime_us(w, "started", c->started_us);
	jw_ktime_us(w, "finished", c->finished_us);
	format_exit(c, w);
	jw_kreal(w, "duration_ms", (double)c->out.duration_us / 1000);
	jw_key(w, "error");
	answer_error(c, NULL, w);
	for (int i = 1; i <= 2; i++) {
		jw_kuint(w, stream_keys[i][2], command_bytes(c, i));
		jw_kuint(w, stream_keys[i][3], command_lines(c, i));
	}
	jw_kbool(w, "detach", c->detach);
	jw_obj_end(w);
}
