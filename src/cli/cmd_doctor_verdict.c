// SPDX-License-Identifier: Apache-2.0
/* Turns acts into verdicts. */
#include "base/mem.h"
#include "cli/cmd_doctor.h"
#include "probe/probe.h"

const char *const doctor_outcomes[] = {
	[DOCTOR_UNTRIED] = "untried", [DOCTOR_REFUSED] = "refused", [DOCTOR_DONE] = "done"};
static const char *const verdicts[] = {
	[DOCTOR_OK] = "ok",	      [DOCTOR_NOT_ASKED] = "absent",
	[DOCTOR_PART] = "partial",    [DOCTOR_UNPROVEN] = "untried",
	[DOCTOR_ALLOWED] = "allowed", [DOCTOR_MISSING] = "missing",
	[DOCTOR_LIE] = "lie",
};

const char *doctor_verdict_name(enum doctor_verdict v)
{
	return verdicts[v];
}

void doctor_report_done(struct doctor_report *r)
{
	for (size_t i = 0; i < WALLS; i++)
		free(r->wall[i].detail);
	for (size_t i = 0; i < r->nacts; i++) {
		free(r->act[i].what);
		free(r->act[i].answer);
	}
	free(r->act);
	free(r->refusal);
	*r = (struct doctor_report){0};
}

int doctor_wall_by_name(const char *name, size_t len)
{
	for (unsigned w = 0; w < WALLS; w++)
		if (strlen(wall_name(w)) == len && memcmp(wall_name(w), name, len) == 0)
			return (int)w;
	return -1;
}

struct doctor_act *doctor_act(struct doctor_report *r, enum wall w, const char *what)
{
	for (size_t i = 0; i < r->nacts; i++)
		if (r->act[i].wall == w && strcmp(r->act[i].what, what) == 0)
			return &r->act[i];
	r->act = mem_resize(r->act, r->nacts + 1, sizeof(*r->act));
	r->act[r->nacts] = (struct doctor_act){.wall = w, .what = mem_strdup(what)};
	return &r->act[r->nacts++];
}

/* A line is "wall\toutcome\twhat\tanswer"; other lines are skipped. */
void doctor_read_acts(struct doctor_report *r, const char *text, bool inside)
{
	cleanup_free char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		char *part[4] = {line};
		enum doctor_outcome outcome = DOCTOR_DONE;
		struct doctor_act *act;
		int wall;

		for (size_t i = 1; i < ARRAY_LEN(part) && part[i - 1] != NULL; i++) {
			part[i] = strchr(part[i - 1], '\t');
			if (part[i] != NULL)
				*part[i]++ = '\0';
		}
		wall = doctor_wall_by_name(part[0], strlen(part[0]));
		if (wall < 0 || part[3] == NULL)
			continue;
		while (outcome != DOCTOR_UNTRIED && strcmp(doctor_outcomes[outcome], part[1]) != 0)
			outcome--;
		act = doctor_act(r, (enum wall)wall, part[2]);
		if (inside) {
			act->inside = outcome;
			free(act->answer);
			act->answer = mem_strdup(part[3]);
		} else {
			act->outside = outcome;
		}
	}
}

/* Acts that another wall refuses in a session without namespaces. */
static const struct {
	enum wall without, by;
	const char *what;
} held[] = {
	{WALL_mount_namespace, WALL_landlock, PROBE_CANARY},
	{WALL_pid_namespace, WALL_landlock, PROBE_SIGNAL},
	{WALL_net_namespace, WALL_seccomp, PROBE_TCP},
	{WALL_net_namespace, WALL_seccomp, PROBE_ABSTRACT},
	{WALL_ipc_namespace, WALL_seccomp, PROBE_SYSV},
	{WALL_ipc_namespace, WALL_seccomp, PROBE_POSIX},
};

/* Judges a wall that the session reports as up. */
static enum doctor_verdict judge_claim(const struct doctor_report *r, enum wall w)
{
	const struct doctor_wall *mounts = &r->wall[WALL_mount_namespace];
	/* only a session without namespaces runs without a mount namespace */
	const bool bare = r->refusal == NULL && mounts->known && mounts->state == WALL_UNAVAILABLE;
	enum doctor_verdict verdict = DOCTOR_UNPROVEN;

	for (size_t i = 0; i < r->nacts; i++) {
		const struct doctor_act *a = &r->act[i];
		bool counts = a->wall == w;

		for (size_t k = 0; bare && k < ARRAY_LEN(held); k++)
			counts |= held[k].without == a->wall && held[k].by == w &&
				  strcmp(held[k].what, a->what) == 0;
		if (!counts)
			continue;
		if (a->inside == DOCTOR_DONE)
			return DOCTOR_LIE;
		if (a->inside == DOCTOR_REFUSED && a->outside == DOCTOR_DONE)
			verdict = DOCTOR_OK;
	}
	return verdict;
}

void doctor_judge(struct doctor_report *r)
{
	for (unsigned w = 0; w < WALLS; w++) {
		struct doctor_wall *wall = &r->wall[w];

		if (!wall->known)
			wall->verdict = DOCTOR_UNPROVEN;
		else if (wall->state == WALL_UP)
			wall->verdict = judge_claim(r, (enum wall)w);
		else if (wall->state == WALL_UNAVAILABLE)
			wall->verdict = wall->may_lack ? DOCTOR_ALLOWED : DOCTOR_MISSING;
		else
			wall->verdict =
				wall->state == WALL_PARTIAL ? DOCTOR_PART : DOCTOR_NOT_ASKED;
	}
}

bool doctor_failed(const struct doctor_report *r)
{
	for (unsigned w = 0; w < WALLS; w++)
		if (r->wall[w].verdict >= DOCTOR_MISSING)
			return true;
	return r->refusal != NULL;
}
