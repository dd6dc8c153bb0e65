// SPDX-License-Identifier: Apache-2.0
/* Writes an event as the JSON object of the interface. Every event passes here once, so nothing is
 * allocated except when the buffer grows. */
#include "model/event.h"
#include <string.h>

static void text(struct jw *w, const char *key, const char *s)
{
	if (s != NULL)
		jw_kstr(w, key, s);
}

static void number(struct jw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_uint(w, v);
}

static void format_file(struct jw *w, const struct event *e)
{
	const bool bytes = (e->op_has & EVENT_HAS_BYTES) || e->op_bytes != 0;
	const bool offset = (e->op_has & EVENT_HAS_OFFSET) || e->op_offset != 0;
	const bool mapped = (e->op_has & EVENT_MAPPED) != 0;

	text(w, "path", e->path);
	text(w, "real_path", e->real_path);
	if (e->op_to == NULL && e->op_flags == NULL && e->op_error == 0 && !bytes && !offset &&
	    !mapped)
		return;
	jw_kobj(w, "operation");
	if (bytes)
		number(w, "bytes", e->op_bytes);
	if (offset)
		number(w, "offset", e->op_offset);
	if (mapped)
		jw_kbool(w, "mapped", true);
	text(w, "to", e->op_to);
	if (e->op_error != 0) {
		const char *name = strerrorname_np((int)e->op_error);

		jw_kstr(w, "error", name != NULL ? name : "EIO");
	}
	if (e->op_flags != NULL) {
		jw_karr(w, "flags"); /* of "O_WRONLY|O_TRUNC" */
		for (const char *s = e->op_flags; *s != '\0';) {
			const size_t n = strcspn(s, "|");

			jw_strn(w, s, n);
			s += n + (s[n] == '|');
		}
		jw_arr_end(w);
	}
	jw_obj_end(w);
}

static void format_metadata(struct jw *w, const struct event *e)
{
	const bool sizes = e->op_has & EVENT_HAS_SIZES;

	const bool argument = (e->op_has & EVENT_PATH_ARGUMENT) != 0;

	if (e->file_type == NULL && !sizes && !argument)
		return;
	jw_kobj(w, "metadata");
	text(w, "file_type", e->file_type);
	if (sizes) {
		number(w, "file_size_before", e->size_before);
		number(w, "file_size_after", e->size_after);
	}
	if (argument)
		jw_kstr(w, "path_source", "argument");
	jw_obj_end(w);
}

static void format_network(struct jw *w, const struct event *e)
{
	if (e->remote_addr != NULL) {
		jw_kobj(w, "connection");
		jw_kstr(w, "remote_addr", e->remote_addr);
		number(w, "remote_port", e->remote_port);
		number(w, "local_port", e->local_port);
		text(w, "protocol", e->protocol);
		number(w, "bytes_sent", e->bytes_sent);
		number(w, "bytes_received", e->bytes_received);
		jw_obj_end(w);
	}
	if (e->dns_domain != NULL) {
		jw_kobj(w, "dns");
		jw_kstr(w, "domain", e->dns_domain);
		text(w, "type", e->dns_type);
		text(w, "resolved_from", e->dns_from);
		jw_obj_end(w);
	}
	if (e->tls_sni != NULL || e->tls_version != NULL) {
		jw_kobj(w, "tls");
		text(w, "sni", e->tls_sni);
		text(w, "version", e->tls_version);
		jw_obj_end(w);
	}
}

static void format_session(struct jw *w, const struct event *e)
{
	if (e->state_from != NULL || e->state_to != NULL) {
		jw_kobj(w, "state");
		text(w, "from", e->state_from);
		text(w, "to", e->state_to);
		jw_obj_end(w);
	}
	text(w, "reason", e->reason);
	if (e->command_line == NULL && e->has_exit == 0)
		return;
	jw_kobj(w, "command");
	text(w, "line", e->command_line);
	if (e->has_exit != 0) {
		number(w, "exit_code", e->exit_code);
		text(w, "signal", e->signal);
		jw_kreal(w, "duration_ms", (double)e->duration_us / 1000);
	}
	jw_obj_end(w);
}

static void format_decision(struct jw *w, const struct event *e)
{
	const char *decision = e->policy_decision != NULL ? e->policy_decision : "";

	text(w, "decision", e->decision);
	if (e->policy_decision == NULL && e->policy_name == NULL)
		return;
	jw_kobj(w, "policy");
	text(w, "name", e->policy_name);
	text(w, "decision", e->policy_decision);
	text(w, "effective_decision", e->policy_effective);
	if (strcmp(decision, "log") == 0)
		jw_kbool(w, "attention", true);
	text(w, "rule", e->policy_rule);
	text(w, "version", e->policy_version);
	/* the same members as in the error of an initial exec */
	if (e->denied_op != NULL) {
		jw_kstr(w, "reason", e->denied_reason != NULL ? e->denied_reason : "");
		jw_kstr(w, "operation", e->denied_op);
		jw_kstr(w, "target", e->denied_target != NULL ? e->denied_target : "");
		jw_kbool(w, "final", e->denied_final != 0);
		if (e->alternatives.n > 0)
			jw_kstrv(w, "alternatives", &e->alternatives);
	}
	/* allowed without an approver's answer: only shadow mode does that */
	if (strcmp(decision, "approve") == 0) {
		const bool shadow = !e->approved && e->policy_effective != NULL &&
				    strcmp(e->policy_effective, "allow") == 0;

		jw_kobj(w, "approval");
		jw_kbool(w, "required", true);
		jw_kstr(w, "mode", shadow ? "shadow" : "enforced");
		jw_kstr(w, "approval_id", e->approval_id);
		text(w, "error", e->denied_error);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}

void event_format(const struct event *e, struct buf *out)
{
	struct jw w = JW(out);

	jw_obj(&w);
	number(&w, "seq", e->seq);
	number(&w, "schema", e->schema != 0 ? e->schema : EVENT_SCHEMA);
	jw_key(&w, "timestamp");
	jw_time_us(&w, (int64_t)e->time_us);
	jw_kstr(&w, "type", event_type_name((enum event_type)e->type));
	if (e->type_number != 0)
		number(&w, "type_number", e->type_number);
	text(&w, "session_id", e->session_id);
	text(&w, "command_id", e->command_id);
	text(&w, "agent_id", e->agent_id);
	if (e->pid != 0)
		number(&w, "pid", e->pid);
	number(&w, "count", e->count != 0 ? e->count : 1);
	format_file(&w, e);
	format_network(&w, e);
	if (e->exec_path != NULL) {
		jw_kobj(&w, "exec");
		jw_kstr(&w, "path", e->exec_path);
		jw_kstrv(&w, "argv", &e->exec_argv);
		text(&w, "cwd", e->exec_cwd);
		number(&w, "ppid", e->exec_ppid);
		text(&w, "verified", e->exec_verified);
		text(&w, "loaded", e->exec_loaded);
		jw_obj_end(&w);
	}
	format_session(&w, e);
	if (e->limit != NULL) {
		jw_kobj(&w, "resource");
		jw_kstr(&w, "limit", e->limit);
		text(&w, "counter", e->counter);
		number(&w, "value", e->value);
		jw_obj_end(&w);
	}

	format_decision(&w, e);
	if (e->latency_us != 0)
		number(&w, "latency_us", e->latency_us);
	format_metadata(&w, e);
	text(&w, "request_id", e->request_id);
	text(&w, "trace_id", e->trace_id);
	jw_obj_end(&w);
}
