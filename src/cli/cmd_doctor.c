// SPDX-License-Identifier: Apache-2.0
/* `agentsh doctor`: a throwaway session as anyone's, one with limits, and the acts in them. */
#include "cli/cmd_doctor.h"
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include "config/config.h"
#include "gate/gate.h"
#include "probe/probe.h"
#include <stdio.h>

#define SET_UID "set_uid=./set-uid"
#define DENYING_POLICY "doctor" /* shipped for this */

struct doctor {
	struct cli *cli;
	struct doctor_outside outside;
	struct doctor_report report;
	struct strv may_lack; /* sandbox.allow_unenforced */
	struct strv denied;   /* programs, as arguments of the probe */
};

/* Runs agentsh-probe inside; its lines go to the report, whatever its end. */
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
	/* Nobody can ask for uids of their own but by starting the server as root. */
	to->may_lack = w == WALL_process_separation || wall_listed(&d->may_lack, w);
}

/* Programs that people know, of which the policy denies some. */
static void find_denied(struct doctor *d, const char *policy)
{
	static const char *const known[] = {
		"/usr/bin/su",	    "/usr/bin/sudo",	"/usr/bin/mount",   "/usr/bin/chroot",
		"/usr/sbin/chroot", "/usr/bin/unshare", "/usr/bin/nsenter", "/usr/bin/passwd",
		"/usr/bin/true",    "/bin/true"};
	struct cli_policies at = {0};
	struct cli_policy p = {0};

	if (cli_policy_open(d->cli, &at, NULL) == 0 && cli_policy_load(&at, policy, &p, NULL) == 0)
		for (size_t i = 0; i < ARRAY_LEN(known) && d->denied.n < PROBE_DENIED; i++) {
			char *words[] = {(char[]){"exec"}, mem_strdup(known[i]),
					 (char[]){"--version"}};
			cleanup_free char *arg = mem_printf("denied=%s", known[i]);
			struct cli_operation o = {0};
			struct verdict v;

			if (access(known[i], X_OK) == 0 &&
			    cli_operation_read(3, words, &o, NULL) == 0) {
				policy_decide(p.p, NULL, &o.op, &v);
				gate_resolve(&v, false);
				if (!verdict_allows(&v))
					strv_add(&d->denied, arg);
			}
			cli_operation_done(&o);
			free(words[1]);
		}
	cli_policy_done(&p);
	cli_policy_close(&at);
}

static int try_programs(struct doctor *d, const struct doctor_place *p, struct err *err)
{
	find_denied(d, p->policy);
	if (d->denied.n == 0)
		return 0;
	control(d, "programs", &d->denied);
	return probe(d, p, "programs", &d->denied, err);
}

/* A policy that denies nothing leaves nothing to try. The one that we ship for it has rules about
 * programs alone, so that it can start wherever the other could; but who is no admin may be refused
 * it (policies.selectable). */
static void try_denying_policy(struct doctor *d)
{
	struct doctor_place p;

	if (open_place(d, DENYING_POLICY, 0, &p, NULL) == 0)
		try_programs(d, &p, NULL);
	doctor_place_close(&p);
}

/* Whether the signal came is known here; inside, the number may be another process's. */
static void check_signal(struct doctor *d)
{
	struct doctor_act *act = doctor_act(&d->report, WALL_pid_namespace, PROBE_SIGNAL);

	if (doctor_outside_signalled() || act->inside != DOCTOR_DONE)
		return;
	act->inside = DOCTOR_REFUSED;
	free(act->answer);
	act->answer = mem_strdup("the number is another process's");
}

/* A session as anyone's who asks for nothing. */
static int try_plain(struct doctor *d, struct err *err)
{
	static const struct strv none = {0};
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
	check_signal(d);
	if (r == 0)
		r = probe(d, &p, "environment", &none, err);
	if (r == 0 && checks_programs)
		r = try_programs(d, &p, err);
	if (r == 0)
		doctor_outside_separation(p.id, &d->report);
	doctor_place_close(&p);
	if (r == 0 && checks_programs && d->denied.n == 0)
		try_denying_policy(d);
	return r;
}

/* A limit that nobody asked for may be missing. */
static void take_limit(struct doctor *d, size_t i, enum wall_state state, const char *detail)
{
	struct doctor_wall *w = &d->report.wall[doctor_limits[i].wall];
	const bool asked = w->known && w->state != WALL_ABSENT;

	take_wall(d, doctor_limits[i].wall, state, detail);
	w->may_lack |= !asked;
}

/* Asks for all, and again without the one that was refused. */
static int open_limited(struct doctor *d, unsigned *ask, struct doctor_place *p, struct err *err)
{
	int r;

	while ((r = open_place(d, NULL, *ask, p, err)) == -E_ENFORCEMENT && *ask != 0) {
		const unsigned before = *ask;

		for (size_t i = 0; i < DOCTOR_LIMITS; i++)
			if (strcmp(err->subject, wall_name(doctor_limits[i].wall)) == 0 &&
			    (*ask & 1U << i) != 0) {
				*ask &= ~(1U << i);
				take_limit(d, i, WALL_UNAVAILABLE, err->message);
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
		take_limit(d, i, p.wall[w].state, p.wall[w].detail);
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

/* A wall that cannot be raised is a finding, not a failure of ours. */
static int examine(struct doctor *d, struct err *err)
{
	static const struct strv none = {0};
	int r;

	control(d, "walls", &d->outside.args);
	control(d, "environment", &none);
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

static void print(const struct doctor *d)
{
	struct doctor_host host;
	cleanup_buf struct buf text = {0};
	cleanup_buf struct buf pretty = {0};
	struct jw w = JW(&text);

	doctor_host_read(&host);
	/* Another's server may be root's, and only the server's power counts. A refusal does not
	 * tell whose it is. */
	if (d->report.wall[WALL_process_separation].known && d->report.refusal == NULL)
		host.root = d->report.wall[WALL_process_separation].state != WALL_UNAVAILABLE;
	if (!d->cli->v.json) {
		doctor_print(&d->report, &host, &text);
		cli_print(&text);
		return;
	}
	doctor_json(&d->report, &host, &w);
	cli_pretty(text.data, text.len, &pretty);
	cli_print(&pretty);
}

int cmd_doctor(struct cli *cli, struct err *err)
{
	struct doctor d = {.cli = cli, .outside = DOCTOR_OUTSIDE_NONE};
	struct config c = {0};
	int r = cli_config(cli, cli->v.config, &c, NULL, err);

	if (r == 0) {
		strv_copy(&d.may_lack, &c.allow_unenforced);
		r = doctor_outside_open(&d.outside, &c, err);
	}
	config_done(&c);
	if (r == 0 && geteuid() == 0)
		strv_add(&d.outside.args, SET_UID);
	if (r == 0)
		r = examine(&d, err);
	if (r == 0) {
		doctor_judge(&d.report);
		print(&d);
		r = doctor_failed(&d.report) ? 1 : 0;
	}
	doctor_outside_close(&d.outside);
	doctor_report_done(&d.report);
	strv_done(&d.may_lack);
	strv_done(&d.denied);
	return r;
}
