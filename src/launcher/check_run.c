// SPDX-License-Identifier: Apache-2.0
#include "launcher/check_run.h"
#include "base/denial.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEADLINE_MS 10000
#define SNAPSHOT_MAX (64 * 1024 * 1024)
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

static void run_next(struct launcher *l);

void checked_done(struct checked *c)
{
	msg_done(MSG_check_policy, &c->is);
	strv_done(&c->covered);
	mem_cleanup_fd(&c->fd);
	c->fd = -1;
}

int checked_error(const struct checked *c, struct err *err)
{
	if (c->is.code == NULL)
		return 0;
	if (err != NULL)
		denial_take(err, c->is.denial);
	return err_set(err, err_code_by_name(c->is.code), c->is.subject, "%s",
		       c->is.message != NULL ? c->is.message : "");
}

/* ---- answers ---- */

static bool is_whole(const struct checks *cs, const struct checked *c)
{
	const struct check_policy *p = &c->is;
	struct stat st;

	if (cs->n == cs->ask.policies || p->name == NULL ||
	    strcmp(p->name, cs->ask.name.v[cs->n]) != 0)
		return false;
	if (p->code != NULL && err_code_by_name(p->code) == E_OK)
		return false;
	if (c->fd == -1)
		return p->code != NULL;
	/* A snapshot goes to wardens: it must never change again. */
	return p->version != NULL && p->description != NULL &&
	       (fcntl(c->fd, F_GET_SEALS) & SEALS) == SEALS && fstat(c->fd, &st) == 0 &&
	       st.st_size > 0 && st.st_size <= SNAPSHOT_MAX;
}

/* LINK_OK: there is an answer. */
static enum link_status take_answer(struct checks *cs, struct err *err)
{
	struct checked c = {.fd = -1};
	struct link_msg m;
	enum link_status r = link_recv(&cs->link, &m, err);

	if (r != LINK_OK)
		return r;
	if (link_unpack(&m, &c.is, err) < 0 || limits_unpack(&c.limits, &c.is.limits, err) < 0)
		r = LINK_BROKEN;
	if (m.nfds > 0)
		c.fd = take_fd(m.fd[0]);
	link_msg_done(&m);
	if (r == LINK_OK && is_whole(cs, &c)) {
		cs->got[cs->n++] = c;
		return LINK_OK;
	}
	if (r == LINK_OK)
		err_set(err, E_BAD_REQUEST, NULL, "agentsh-check sent a broken answer");
	checked_done(&c);
	return LINK_BROKEN;
}

/* ---- a run ---- */

/* Ready for another run; got and the jobs stay. */
static void reset(struct checks *cs)
{
	watch_free(cs->readable);
	watch_free(cs->deadline);
	link_done(&cs->link);
	msg_done(MSG_check_ask, &cs->ask);
	cs->readable = cs->deadline = NULL;
	cs->got = NULL;
	cs->n = 0;
}

/* Ends the run of the first job. why: what went wrong; NULL: nothing, or the child's death explains
 * it. Everything that the child sent was read before, so the signal changes nothing that counts. */
static void finish(struct launcher *l, const char *why)
{
	struct checks *cs = &l->checks;
	struct check_job *job = STAILQ_FIRST(&cs->jobs);
	struct checked *got = cs->got;
	const size_t policies = cs->ask.policies;
	siginfo_t si = {0};
	char reason[80] = "";

	if (cs->child.pid != 0) {
		child_end(&cs->child, &si);
		death_reason("agentsh-check", &si, reason, sizeof(reason));
		if (si.si_code != CLD_EXITED && si.si_status == SIGXCPU)
			why = "agentsh-check needed too much CPU time for it";
	}
	/* A policy without an answer gets an error. */
	for (; cs->n < policies; cs->n++) {
		const char *name = cs->ask.name.v[cs->n];

		got[cs->n].fd = -1;
		got[cs->n].is = (struct check_policy){
			.name = mem_strdup(name),
			.code = mem_strdup("E_UNAVAILABLE"),
			.subject = mem_strdup(name),
			.message = mem_printf("policy '%s' could not be checked: %s; try again, or "
					      "test its file with 'agentsh policy validate'",
					      name, why != NULL ? why : reason),
		};
	}
	reset(cs);
	STAILQ_REMOVE_HEAD(&cs->jobs, next);
	job->done(l, job, got, policies);
	for (size_t i = 0; i < policies; i++)
		checked_done(&got[i]);
	free(got);
}

static void on_answer(void *arg)
{
	struct launcher *l = arg;
	struct checks *cs = &l->checks;
	struct err err = {0};
	enum link_status r = LINK_OK;

	while (r == LINK_OK && cs->n < cs->ask.policies)
		r = take_answer(cs, &err);
	if (r == LINK_AGAIN)
		return;
	finish(l, r == LINK_OK || r == LINK_EOF ? NULL : err.message);
	run_next(l);
}

static void on_deadline(void *arg)
{
	finish(arg, "agentsh-check did not answer in time");
	run_next(arg);
}

/* No other process has the child's uid: none can stop the child or read its memory. */
static int start_child(struct launcher *l, int snapshot, struct err *err)
{
	struct checks *cs = &l->checks;
	uint32_t uid = 0;
	int fd, r = l->privileged ? uids_need(l, &uid, err) : 0;
	enum link_status status;

	if (r == 0)
		r = child_start(&cs->child, l, PROGRAM_CHECK, uid, &fd, err);
	if (r < 0)
		return r;
	link_init(&cs->link, fd, SIDE_LAUNCHER, SIDE_CHECK);
	status = link_send(&cs->link, MSG_check_ask, 0, &cs->ask, &snapshot, snapshot != -1, err);
	/* The reader finds the end of a child that has died already. */
	if ((status != LINK_OK && status != LINK_EOF) || fdio_nonblock(fd) < 0)
		return -E_UNAVAILABLE;
	cs->readable = watch_readable(l->loop, fd, on_answer, l);
	cs->deadline = watch_timer(l->loop, on_deadline, l);
	watch_start(cs->readable);
	watch_after(cs->deadline, DEADLINE_MS);
	return 0;
}

static void run_next(struct launcher *l)
{
	struct checks *cs = &l->checks;
	struct check_job *job;

	while (cs->got == NULL && (job = STAILQ_FIRST(&cs->jobs)) != NULL) {
		cleanup_fd int snapshot = -1;
		struct err err = {0};

		if (!job->prepare(l, job, &cs->ask, &snapshot)) {
			STAILQ_REMOVE_HEAD(&cs->jobs, next);
			job->done(l, job, NULL, 0);
			continue;
		}
		cs->got = mem_resize(NULL, cs->ask.policies, sizeof(*cs->got));
		memset(cs->got, 0, cs->ask.policies * sizeof(*cs->got));
		if (start_child(l, snapshot, &err) < 0)
			finish(l, err.message);
	}
}

void check_start(struct launcher *l, struct check_job *job)
{
	STAILQ_INSERT_TAIL(&l->checks.jobs, job, next);
	run_next(l);
}

/* Without a link to the API child a job that is done only frees itself. */
void checks_stop(struct launcher *l)
{
	struct checks *cs = &l->checks;
	struct check_job *job;

	child_end(&cs->child, NULL);
	for (size_t i = 0; i < cs->n; i++)
		checked_done(&cs->got[i]);
	free(cs->got);
	reset(cs);
	while ((job = STAILQ_FIRST(&cs->jobs)) != NULL) {
		STAILQ_REMOVE_HEAD(&cs->jobs, next);
		job->done(l, job, NULL, 0);
	}
}
