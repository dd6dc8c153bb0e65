// SPDX-License-Identifier: Apache-2.0
/* `agentsh doctor` makes a throwaway session, and one with limits, and tries the acts in them. */
#include "cli/cmd_doctor.h"
#include "base/id.h"
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include "config/config.h"
#include "probe/probe.h"
#include <stdio.h>

#define DENYING_POLICY "doctor"	 /* a shipped policy */
#define UNRULED_POLICY "observe" /* the same, without rules about files */
#define OUTPUT_BYTES 65536

/* The limits are low, so that exceeding them costs little. */
static const struct {
	enum wall wall;
	const char *key, *probe; /* resource_limits.KEY, and the probe's argument */
	int64_t value;
} limits[] = {
	{WALL_memory_limit, "max_memory_mb", "memory", 64},
	{WALL_cpu_limit, "max_cpu_percent", "cpu", 10},
	{WALL_pids_limit, "pids_max", "pids", 64},
};

static const struct strv variables = {
	.v = (char *[]){(char[]){"preload=LD_PRELOAD"}, (char[]){"bash_env=BASH_ENV"}}, .n = 2};

struct doctor {
	struct cli *cli;
	struct doctor_outside outside;
	struct doctor_report report;
	struct config config;
	const char *policy; /* of the sessions; NULL: that of a session which names none */
	bool denied;	    /* a program that a policy denies was tried */
};

/* Makes a throwaway session. policy NULL: d->policy; asked: 1 << index of a limit to ask for. The
 * caller calls close_session in any case. */
static int open_session(struct doctor *d, const char *policy, unsigned asked, json_t **session,
			struct err *err)
{
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);

	jw_obj(&w);
	jw_kstr(&w, "workspace", d->outside.workspace);
	jw_kstr(&w, "idle_timeout", "1m"); /* the session ends if this process is killed */
	policy = policy != NULL ? policy : d->policy;
	if (policy != NULL)
		jw_kstr(&w, "policy", policy);
	jw_kobj(&w, "resource_limits");
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if ((asked & 1U << i) != 0)
			jw_kint(&w, limits[i].key, limits[i].value);
	jw_obj_end(&w);
	jw_obj_end(&w);
	return cli_call_json(d->cli, "POST", "/api/v1/sessions", &body, false, session, err);
}

static void close_session(struct doctor *d, json_t *session)
{
	cleanup_free char *path = mem_printf("/api/v1/sessions/%s", cli_string(session, "id"));
	cleanup_buf struct buf ignored = {0};

	if (session != NULL)
		cli_call(d->cli, "DELETE", path, NULL, &ignored, NULL);
	json_decref(session);
}

/* Runs agentsh-probe inside and reads its lines, also if it failed. */
static int probe(struct doctor *d, const json_t *session, const char *group,
		 const struct strv *args, struct err *err)
{
	/* a session begins in its workspace */
	cleanup_free char *program =
		mem_printf("%s/" DOCTOR_PROGRAM, cli_string(session, "working_dir"));
	cleanup_free char *path = mem_printf("/api/v1/sessions/%s/exec", cli_string(session, "id"));
	cleanup_buf struct buf body = {0};
	struct jw w = JW(&body);
	json_auto_t *doc = NULL;
	const json_t *result;
	long long code;
	int r;

	jw_obj(&w);
	jw_kstr(&w, "command", program);
	jw_karr(&w, "args");
	jw_str(&w, group);
	for (size_t i = 0; i < args->n; i++)
		jw_str(&w, args->v[i]);
	jw_arr_end(&w);
	if (args == &variables) {
		jw_kobj(&w, "env");
		jw_kstr(&w, "LD_PRELOAD", "/dev/null");
		jw_kstr(&w, "BASH_ENV", "/dev/null");
		jw_obj_end(&w);
	}
	jw_kint(&w, "max_output_bytes", OUTPUT_BYTES);
	jw_kstr(&w, "timeout", "60s");
	jw_obj_end(&w);
	r = cli_call_json(d->cli, "POST", path, &body, false, &doc, err);
	if (r < 0)
		return r;
	result = json_object_get(doc, "result");
	doctor_read_acts(&d->report, cli_string(result, "stdout"), true);
	code = json_integer_value(json_object_get(result, "exit_code"));
	if (code == 0)
		return 0;
	return err_set(err, E_INTERNAL, group, "agentsh-probe %s ended with %lld: %s", group, code,
		       cli_string(json_object_get(result, "error"), "message"));
}

static void take_wall(struct doctor *d, enum wall w, enum wall_state state, const char *detail)
{
	struct doctor_wall *to = &d->report.wall[w];

	free(to->detail);
	to->known = true;
	to->state = state;
	to->detail = mem_strdup(detail);
	/* Only a server that root starts has uids of its own; and a session runs without a limit
	 * that neither the configuration nor a request gives as a number. */
	to->may_lack = w == WALL_process_separation ||
		       wall_listed(&d->config.allow_unenforced, w) ||
		       ((CGROUP_WALLS & ~limits_walls(&d->config.limits)) & UINT64_C(1) << w) != 0;
}

/* Takes from the session's report the walls that are bits of `which`. */
static void take_walls(struct doctor *d, const json_t *session, uint64_t which)
{
	const json_t *e;
	size_t i;

	json_array_foreach(json_object_get(session, "enforcement"), i, e)
	{
		const int wall = doctor_wall_by_name(cli_string(e, "wall"));
		enum wall_state state = WALL_UNAVAILABLE;

		if (wall < 0 || (which & UINT64_C(1) << wall) == 0)
			continue;
		while (state > WALL_ABSENT &&
		       strcmp(wall_state_name(state), cli_string(e, "state")) != 0)
			state--;
		take_wall(d, (enum wall)wall, state, cli_string(e, "detail"));
	}
}

/* Tries well-known programs that the session's policy denies. */
static int try_programs(struct doctor *d, const json_t *session, struct err *err)
{
	static const char *const known[] = {
		"/usr/bin/su",	    "/usr/bin/sudo",	"/usr/bin/mount",   "/usr/bin/chroot",
		"/usr/sbin/chroot", "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/passwd",
		"/usr/bin/true",    "/bin/true"};
	cleanup_policies struct cli_policies dirs = {0};
	cleanup_policy struct cli_policy p = {0};
	cleanup_buf struct buf denied = {0};
	cleanup_strv struct strv args = {0};
	const bool loaded =
		cli_policy_open(d->cli, &dirs, NULL) == 0 &&
		cli_policy_load(&dirs, cli_string(json_object_get(session, "policy"), "name"), &p,
				NULL) == 0;

	for (size_t i = 0; loaded && i < ARRAY_LEN(known); i++) {
		cleanup_free char *name = mem_strdup(known[i]);
		char *words[] = {(char[]){"exec"}, name, (char[]){"--version"}};
		cleanup_operation struct cli_operation o = {0};
		struct verdict v;

		if (access(name, X_OK) == 0 && cli_operation_read(3, words, &o, NULL) == 0) {
			policy_decide(p.p, &o.op, false, &v);
			if (!verdict_allows(&v))
				buf_addf(&denied, "%s%s", denied.len > 0 ? ":" : "denied=", name);
		}
	}
	if (denied.len == 0)
		return 0;
	d->denied = true;
	strv_add(&args, denied.data);
	doctor_outside_run(&d->outside, "programs", &args, &d->report);
	return probe(d, session, "programs", &args, err);
}

/* Tries a session that asks for nothing. If its policy denies no program, a shipped policy that has
 * only rules about programs is tried too; policies.selectable may refuse it to a normal user. */
static int try_plain(struct doctor *d, struct err *err)
{
	struct doctor_act *signal;
	bool checks_programs;
	json_t *session = NULL;
	int r = open_session(d, NULL, 0, &session, err);

	if (r < 0)
		return r;
	take_walls(d, session, d->policy == NULL ? UINT64_MAX : ~(UINT64_C(1) << WALL_file_rules));
	checks_programs = d->report.wall[WALL_exec_policy].state == WALL_UP;
	r = probe(d, session, "walls", &d->outside.args, err);
	/* Inside, the pid may be that of another process: only this process can see the signal. */
	signal = doctor_act(&d->report, WALL_pid_namespace, PROBE_SIGNAL);
	if (!doctor_outside_signalled() && signal->inside == DOCTOR_DONE) {
		signal->inside = DOCTOR_REFUSED;
		free(signal->answer);
		signal->answer = mem_strdup("the number belongs to another process");
	}
	if (r == 0)
		r = probe(d, session, "environment", &variables, err);
	if (r == 0 && checks_programs)
		r = try_programs(d, session, err);
	if (r == 0)
		doctor_outside_separation(cli_string(session, "id"), &d->report);
	close_session(d, session);
	session = NULL;
	if (r == 0 && checks_programs && !d->denied &&
	    open_session(d, DENYING_POLICY, 0, &session, NULL) == 0)
		try_programs(d, session, NULL);
	close_session(d, session);
	return r;
}

/* Asks for all limits, and again without the one that the server refused. */
static int open_limited(struct doctor *d, unsigned *asked, json_t **session, struct err *err)
{
	int r;

	while ((r = open_session(d, NULL, *asked, session, err)) == -E_ENFORCEMENT) {
		const unsigned before = *asked;

		for (size_t i = 0; i < ARRAY_LEN(limits); i++)
			if (strcmp(err->subject, wall_name(limits[i].wall)) == 0 &&
			    (*asked & 1U << i) != 0) {
				*asked &= ~(1U << i);
				take_wall(d, limits[i].wall, WALL_UNAVAILABLE, err->message);
			}
		if (*asked == before)
			break;
		*err = (struct err){0};
	}
	return r;
}

static int try_limits(struct doctor *d, struct err *err)
{
	unsigned asked = (1U << ARRAY_LEN(limits)) - 1;
	cleanup_strv struct strv args = {0};
	json_t *session = NULL;
	int r = open_limited(d, &asked, &session, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const struct doctor_wall *wall = &d->report.wall[limits[i].wall];
		cleanup_free char *arg =
			mem_printf("%s=%lld", limits[i].probe, (long long)limits[i].value);

		if ((asked & 1U << i) == 0)
			continue;
		take_walls(d, session, UINT64_C(1) << limits[i].wall);
		if (wall->state == WALL_UP || wall->state == WALL_PARTIAL)
			strv_add(&args, arg);
	}
	if (args.n > 0) {
		doctor_outside_run(&d->outside, "limits", &args, &d->report);
		r = probe(d, session, "limits", &args, err);
	}
	close_session(d, session);
	return r;
}

static void take_refusal(struct doctor *d, const struct err *why)
{
	const int wall = doctor_wall_by_name(why->subject);

	if (wall < 0)
		return;
	take_wall(d, (enum wall)wall, WALL_UNAVAILABLE, why->message);
	d->report.wall[wall].may_lack = false;
}

/* A wall that the server cannot set up is a finding, not a failure of the doctor. If it is
 * file_rules, the other walls are tried with a policy that does not need it. */
static int examine(struct doctor *d, struct err *err)
{
	int r;

	doctor_outside_run(&d->outside, "walls", &d->outside.args, &d->report);
	doctor_outside_run(&d->outside, "environment", &variables, &d->report);
	r = try_plain(d, err);
	if (r == -E_ENFORCEMENT && strcmp(err->subject, wall_name(WALL_file_rules)) == 0) {
		struct err other = {0};

		take_refusal(d, err);
		d->policy = UNRULED_POLICY;
		if (try_plain(d, &other) == 0)
			return try_limits(d, err);
		if (other.code == E_ENFORCEMENT)
			*err = other;
	}
	if (r == 0)
		return try_limits(d, err);
	if (r != -E_ENFORCEMENT)
		return r;
	d->report.refusal = mem_strdup(err->message);
	take_refusal(d, err);
	return 0;
}

/* The sessions had homes, which the server keeps for later sessions of their workspace. */
static void purge_homes(struct doctor *d)
{
	cleanup_buf struct buf ignored = {0};
	json_auto_t *doc = NULL;
	const json_t *cache;
	size_t i;

	if (cli_call_json(d->cli, "GET", "/api/v1/caches", NULL, false, &doc, NULL) < 0)
		return;
	json_array_foreach(json_object_get(doc, "caches"), i, cache)
	{
		const char *id = cli_string(cache, "id");
		cleanup_free char *path = mem_printf("/api/v1/caches/%s", id);

		if (id_valid(id) &&
		    strcmp(cli_string(cache, "workspace"), d->outside.workspace) == 0)
			cli_call(d->cli, "DELETE", path, NULL, &ignored, NULL);
	}
}

static void doctor_done(struct doctor *d)
{
	doctor_outside_close(&d->outside);
	doctor_report_done(&d->report);
	config_done(&d->config);
}

int cmd_doctor(struct cli *cli, struct err *err)
{
	__attribute__((cleanup(doctor_done))) struct doctor d = {.cli = cli,
								 .outside = DOCTOR_OUTSIDE_NONE};
	const struct doctor_wall *separation = &d.report.wall[WALL_process_separation];
	cleanup_buf struct buf text = {0};
	struct doctor_host host;
	int r = cli_config(cli, cli->v.config, &d.config, NULL, err);

	if (r == 0)
		r = doctor_outside_open(&d.outside, &d.config, err);
	if (r == 0)
		r = examine(&d, err);
	if (d.outside.workspace != NULL)
		purge_homes(&d);
	if (r < 0)
		return r;
	doctor_judge(&d.report);
	doctor_host_read(&host);
	if (strcmp(d.config.toolchains, "none") != 0)
		doctor_toolchains(&host);
	/* The server may belong to root; only its rights count. A refusal does not show the owner
	 * of the server. */
	if (separation->known && d.report.refusal == NULL)
		host.root = separation->state != WALL_UNAVAILABLE;
	doctor_bpf_run(&d.report, host.root, d.outside.workspace);
	if (cli->v.json)
		doctor_json(&d.report, &host, &JW(&text));
	else
		doctor_print(&d.report, &host, &text);
	cli_show(cli, &text);
	return doctor_failed(&d.report) ? 1 : 0;
}
