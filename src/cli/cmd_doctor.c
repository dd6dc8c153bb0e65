// SPDX-License-Identifier: Apache-2.0
/* `agentsh doctor` makes a throwaway session, and one with limits, and tries the acts in them. */
#include "cli/cmd_doctor.h"
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include "config/config.h"
#include "gate/gate.h"
#include "probe/probe.h"
#include <stdio.h>

#define SET_UID "set_uid=./set-uid"
#define DENYING_POLICY "doctor" /* a shipped policy */

static const struct strv variables = {
	.v = (char *[]){(char[]){"preload=LD_PRELOAD"}, (char[]){"bash_env=BASH_ENV"}}, .n = 2};

struct doctor {
	struct cli *cli;
	struct doctor_outside outside;
	struct doctor_report report;
	struct strv may_lack; /* sandbox.allow_unenforced */
	uint64_t limited;     /* 1 << WALL_…: by numbers of the configuration */
	struct strv denied;   /* an argument of the probe; empty if the policy denies nothing */
};

/* Runs agentsh-probe inside and reads its lines, also if it failed. */
static int probe(struct doctor *d, const struct doctor_place *p, const char *group,
		 const struct strv *args, struct err *err)
{
	cleanup_buf struct buf text = {0};
	const int r = doctor_place_run(p, group, args, &text, err);

	if (text.len > 0)
		doctor_read_acts(&d->report, text.data, true);
	return r;
}

static int open_place(struct doctor *d, const char *policy, unsigned ask, struct doctor_place *p,
		      struct err *err)
{
	const struct doctor_place_ask what = {d->outside.workspace, policy, ask};

	return doctor_place_open(d->cli, &what, p, err);
}

static void control(struct doctor *d, const char *group, const struct strv *args)
{
	cleanup_buf struct buf text = {0};

	if (doctor_outside_run(&d->outside, group, args, &text, NULL) == 0 && text.len > 0)
		doctor_read_acts(&d->report, text.data, false);
	doctor_outside_signalled();
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
	to->may_lack = w == WALL_process_separation || wall_listed(&d->may_lack, w) ||
		       ((CGROUP_WALLS & ~d->limited) & UINT64_C(1) << w) != 0;
}

/* Tries well-known programs that the policy denies. */
static int try_programs(struct doctor *d, const struct doctor_place *at, struct err *err)
{
	static const char *const known[] = {
		"/usr/bin/su",	    "/usr/bin/sudo",	"/usr/bin/mount",   "/usr/bin/chroot",
		"/usr/sbin/chroot", "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/passwd",
		"/usr/bin/true",    "/bin/true"};
	struct cli_policies dirs = {0};
	struct cli_policy p = {0};
	cleanup_buf struct buf paths = {0};
	const bool loaded = cli_policy_open(d->cli, &dirs, NULL) == 0 &&
			    cli_policy_load(&dirs, at->policy, &p, NULL) == 0;

	for (size_t i = 0; loaded && i < ARRAY_LEN(known); i++) {
		cleanup_free char *name = mem_strdup(known[i]);
		char *words[] = {(char[]){"exec"}, name, (char[]){"--version"}};
		struct cli_operation o = {0};
		struct verdict v;

		if (access(name, X_OK) == 0 && cli_operation_read(3, words, &o, NULL) == 0) {
			policy_decide(p.p, NULL, &o.op, &v);
			gate_resolve(&v, false);
			if (!verdict_allows(&v))
				buf_addf(&paths, "%s%s", paths.len > 0 ? ":" : "denied=", name);
		}
		cli_operation_done(&o);
	}
	cli_policy_done(&p);
	cli_policy_close(&dirs);
	if (paths.len == 0)
		return 0;
	strv_add(&d->denied, paths.data);
	control(d, "programs", &d->denied);
	return probe(d, at, "programs", &d->denied, err);
}

/* Tries a session that asks for nothing. If its policy denies no program, a shipped policy that has
 * only rules about programs is tried too; policies.selectable may refuse it to a normal user. */
static int try_plain(struct doctor *d, struct err *err)
{
	struct doctor_act *signal;
	bool checks_programs;
	struct doctor_place p;
	int r = open_place(d, NULL, 0, &p, err);

	if (r < 0)
		return r;
	for (unsigned w = 0; w < WALLS; w++)
		if (p.wall[w].known)
			take_wall(d, (enum wall)w, p.wall[w].state, p.wall[w].detail);
	checks_programs = p.wall[WALL_exec_policy].state == WALL_UP;
	r = probe(d, &p, "walls", &d->outside.args, err);
	/* inside, the pid may be that of another process: only this process knows about the signal
	 */
	signal = doctor_act(&d->report, WALL_pid_namespace, PROBE_SIGNAL);
	if (!doctor_outside_signalled() && signal->inside == DOCTOR_DONE) {
		signal->inside = DOCTOR_REFUSED;
		free(signal->answer);
		signal->answer = mem_strdup("the number belongs to another process");
	}
	if (r == 0)
		r = probe(d, &p, "environment", &variables, err);
	if (r == 0 && checks_programs)
		r = try_programs(d, &p, err);
	if (r == 0)
		doctor_outside_separation(p.id, &d->report);
	doctor_place_close(&p);
	if (r == 0 && checks_programs && d->denied.n == 0) {
		if (open_place(d, DENYING_POLICY, 0, &p, NULL) == 0)
			try_programs(d, &p, NULL);
		doctor_place_close(&p);
	}
	return r;
}

/* Asks for all limits, and again without the one that the server refused. */
static int open_limited(struct doctor *d, unsigned *ask, struct doctor_place *p, struct err *err)
{
	int r;

	while ((r = open_place(d, NULL, *ask, p, err)) == -E_ENFORCEMENT && *ask != 0) {
		const unsigned before = *ask;

		for (size_t i = 0; i < DOCTOR_LIMITS; i++)
			if (strcmp(err->subject, wall_name(doctor_limits[i].wall)) == 0 &&
			    (*ask & 1U << i) != 0) {
				*ask &= ~(1U << i);
				take_wall(d, doctor_limits[i].wall, WALL_UNAVAILABLE, err->message);
			}
		if (*ask == before)
			break;
		*err = (struct err){0};
	}
	return r;
}

static int try_limits(struct doctor *d, struct err *err)
{
	unsigned ask = (1U << DOCTOR_LIMITS) - 1;
	struct strv args = {0};
	struct doctor_place p;
	int r = open_limited(d, &ask, &p, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < DOCTOR_LIMITS; i++) {
		const enum wall w = doctor_limits[i].wall;
		cleanup_free char *arg = mem_printf("%s=%lld", doctor_limits[i].probe,
						    (long long)doctor_limits[i].value);

		if ((ask & 1U << i) == 0)
			continue;
		take_wall(d, w, p.wall[w].state, p.wall[w].detail);
		if (p.wall[w].state == WALL_UP || p.wall[w].state == WALL_PARTIAL)
			strv_add(&args, arg);
	}
	if (args.n > 0) {
		control(d, "limits", &args);
		r = probe(d, &p, "limits", &args, err);
	}
	doctor_place_close(&p);
	strv_done(&args);
	return r;
}

/* A wall that the server cannot set up is a finding, not a failure of the doctor. */
static int examine(struct doctor *d, struct err *err)
{
	int r;

	control(d, "walls", &d->outside.args);
	control(d, "environment", &variables);
	r = try_plain(d, err);
	if (r == 0)
		return try_limits(d, err);
	if (r != -E_ENFORCEMENT)
		return r;
	d->report.refusal = mem_strdup(err->message);
	r = doctor_wall_by_name(err->subject, strlen(err->subject));
	if (r >= 0) {
		take_wall(d, (enum wall)r, WALL_UNAVAILABLE, err->message);
		d->report.wall[r].may_lack = false;
	}
	return 0;
}

int cmd_doctor(struct cli *cli, struct err *err)
{
	struct doctor d = {.cli = cli, .outside = DOCTOR_OUTSIDE_NONE};
	struct config c = {0};
	struct doctor_host host;
	cleanup_buf struct buf text = {0};
	const struct doctor_wall *separation = &d.report.wall[WALL_process_separation];
	int r = cli_config(cli, cli->v.config, &c, NULL, err);

	if (r == 0) {
		strv_copy(&d.may_lack, &c.allow_unenforced);
		d.limited = limits_walls(&c.limits);
		r = doctor_outside_open(&d.outside, &c, err);
	}
	config_done(&c);
	if (r == 0 && geteuid() == 0)
		strv_add(&d.outside.args, SET_UID);
	if (r == 0)
		r = examine(&d, err);
	if (r == 0) {
		doctor_judge(&d.report);
		doctor_host_read(&host);
		/* The server may belong to root; only its rights count. A refusal does not show
		 * the owner of the server. */
		if (separation->known && d.report.refusal == NULL)
			host.root = separation->state != WALL_UNAVAILABLE;
		if (cli->v.json) {
			doctor_json(&d.report, &host, &JW(&text));
			cli_print_json(&text);
		} else {
			doctor_print(&d.report, &host, &text);
			cli_print(&text);
		}
		r = doctor_failed(&d.report) ? 1 : 0;
	}
	doctor_outside_close(&d.outside);
	doctor_report_done(&d.report);
	strv_done(&d.may_lack);
	strv_done(&d.denied);
	return r;
}
