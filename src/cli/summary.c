// SPDX-License-Identifier: Apache-2.0
/* Writes an answer for a person: a denial, what the policy denied inside a command, and a summary
 * of about six lines. */
#include "base/denial.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <stdio.h>

void cli_denial(const char *packed, struct buf *out)
{
	struct denial d;

	if (!denial_unpack(packed, &d))
		return;
	cli_line(out, "agentsh:   rule: %s%s", d.rule, d.final ? " (final)" : "");
	if (d.reason[0] != '\0')
		cli_line(out, "agentsh:   reason: %s", d.reason);
	cli_line(out, "agentsh:   asked: %s %s", d.operation, d.target);
	for (size_t i = 0; i < d.alternatives.n; i++)
		cli_line(out, "agentsh:   allowed: %s", d.alternatives.v[i]);
	denial_done(&d);
}

static double number_at(const json_t *obj, const char *key)
{
	return json_number_value(json_object_get(obj, key));
}

/* Counts how often this denial is in the list; 0 if an earlier entry is the same. */
static long long times(const json_t *blocked, size_t at)
{
	const json_t *policy = json_object_get(json_array_get(blocked, at), "policy");
	const json_t *e;
	long long n = 0;
	size_t i;

	json_array_foreach(blocked, i, e)
	{
		const json_t *other = json_object_get(e, "policy");

		if (strcmp(cli_string(other, "rule"), cli_string(policy, "rule")) != 0 ||
		    strcmp(cli_string(other, "target"), cli_string(policy, "target")) != 0)
			continue;
		if (i < at)
			return 0;
		n += json_integer_value(json_object_get(e, "count"));
	}
	return n;
}

void cli_refusals(const json_t *answer, struct buf *out)
{
	const json_t *events = json_object_get(answer, "events");
	const json_t *blocked = json_object_get(events, "blocked_operations");
	const long long total =
		json_integer_value(json_object_get(json_object_get(events, "totals"), "blocked"));
	const json_t *e;
	long long told = 0;
	size_t i;

	json_array_foreach(blocked, i, e)
	{
		const json_t *policy = json_object_get(e, "policy");
		const char *reason = cli_string(policy, "reason");
		const long long n = times(blocked, i);
		char often[40] = "";

		if (n == 0)
			continue;
		told += n;
		if (n > 1)
			snprintf(often, sizeof(often), ", %lld times", n);
		cli_line(out, "agentsh: refused: %s %s (rule %s%s)%s%s",
			 cli_string(policy, "operation"), cli_string(policy, "target"),
			 cli_string(policy, "rule"), often, reason[0] != '\0' ? ": " : "", reason);
	}
	if (total > told)
		buf_addf(out, "agentsh: refused: %lld more, see %s\n", total - told,
			 cli_string(events, "query"));
}

/* "1.5 s", "12 ms" */
static void add_time(double ms, struct buf *out)
{
	if (ms >= 1000)
		buf_addf(out, "%.2f s", ms / 1000);
	else
		buf_addf(out, "%.*f ms", ms < 10 ? 1 : 0, ms);
}

static void add_exit(const json_t *answer, struct buf *out)
{
	const json_t *result = json_object_get(answer, "result");
	const json_t *used = json_object_get(answer, "resources");
	const json_t *code = json_object_get(result, "exit_code");
	const char *error = cli_string(json_object_get(result, "error"), "message");

	if (json_is_integer(code))
		buf_addf(out, "exit:        %lld", (long long)json_integer_value(code));
	else
		buf_addf(out, "exit:        unknown (%s)", cli_string(answer, "command_state"));
	if (cli_string(result, "signal")[0] != '\0')
		buf_addf(out, " (signal %s)", cli_string(result, "signal"));
	buf_adds(out, ", ");
	add_time(number_at(result, "duration_ms"), out);
	buf_adds(out, ", CPU ");
	add_time(number_at(used, "cpu_time_ms"), out);
	buf_addf(out, ", memory %.1f MB\n", number_at(used, "memory_peak_mb"));
	if (error[0] != '\0')
		cli_line(out, "error:       %s", error);
}

/* Adds the names of the walls that have the state and detail of the wall at `at`; nothing if an
 * earlier wall has the same. */
static void add_alike(const json_t *walls, size_t at, struct buf *out)
{
	const json_t *first = json_array_get(walls, at), *w;
	const char *gap = "";
	size_t i;

	json_array_foreach(walls, i, w)
	{
		if (strcmp(cli_string(w, "state"), cli_string(first, "state")) != 0 ||
		    strcmp(cli_string(w, "detail"), cli_string(first, "detail")) != 0)
			continue;
		if (i < at)
			return;
		buf_addf(out, "%s%s", gap, cli_string(w, "wall"));
		gap = ", ";
	}
}

static void add_walls(const json_t *walls, struct buf *out)
{
	cleanup_buf struct buf up = {0};
	cleanup_buf struct buf not_up = {0};
	const json_t *w;
	size_t i;

	json_array_foreach(walls, i, w)
	{
		cleanup_buf struct buf names = {0};

		if (strcmp(cli_string(w, "state"), "up") == 0) {
			buf_addf(&up, "%s%s", up.len > 0 ? ", " : "", cli_string(w, "wall"));
			continue;
		}
		add_alike(walls, i, &names);
		if (names.len == 0)
			continue;
		buf_addf(&not_up, "%s%s %s (", not_up.len > 0 ? "; " : "", names.data,
			 cli_string(w, "state"));
		cli_visible(cli_string(w, "detail"), &not_up);
		buf_addc(&not_up, ')');
	}
	buf_addf(out, "walls up:    %s\n", up.len > 0 ? up.data : "none");
	if (not_up.len > 0)
		buf_addf(out, "not up:      %s\n", not_up.data);
}

static void add_kept(const json_t *answer, struct buf *out)
{
	const json_t *state = json_object_get(answer, "state");
	const json_t *result = json_object_get(answer, "result");
	const json_t *one;
	size_t i;

	buf_adds(out, "kept:        directory ");
	cli_visible(cli_string(state, "working_dir"), out);
	json_array_foreach(json_object_get(state, "environment_changed"), i, one)
	{
		buf_adds(out, i == 0 ? "; variables " : ", ");
		cli_visible(json_string_value(one), out);
	}
	buf_addf(out, "; output: agentsh output %s\n", cli_string(answer, "command_id"));
	json_array_foreach(json_object_get(result, "background"), i, one)
		cli_line(out, "background:  process %lld %s: %s",
			 (long long)json_integer_value(json_object_get(one, "pid")),
			 cli_string(one, "action"), cli_string(one, "command"));
	json_array_foreach(json_object_get(result, "warnings"), i, one)
		cli_line(out, "warning:     %s", json_string_value(one));
}

void cli_summary(const json_t *answer, struct buf *out)
{
	const json_t *totals = json_object_get(json_object_get(answer, "events"), "totals");

	if (json_object_get(answer, "result") == NULL) {
		buf_addf(out, "Command started: %s\n", cli_string(answer, "command_id"));
		return;
	}
	add_exit(answer, out);
	buf_addf(out, "programs:    %lld run, %lld refused\n",
		 (long long)json_integer_value(json_object_get(totals, "exec")),
		 (long long)json_integer_value(json_object_get(totals, "blocked")));
	add_walls(json_object_get(answer, "enforcement"), out);
	add_kept(answer, out);
}
