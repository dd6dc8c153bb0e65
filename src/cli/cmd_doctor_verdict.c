// SPDX-License-Identifier: Apache-2.0
/* From acts to verdicts. */
#include "base/mem.h"
#include "cli/cmd_doctor.h"
#include "probe/probe.h"

static const char *const outcomes[] = {
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

static enum doctor_outcome outcome_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
		if (strcmp(outcomes[i], word) == 0)
			return (enum doctor_outcome)i;
	return DOCTOR_UNTRIED;
}

/* "wall\toutcome\twhat\tanswer"; a line that is none is passed over. */
static void read_line(struct doctor_report *r, char *line, bool inside)
{
	char *part[4] = {line};
	struct doctor_act *act;
	int wall;

	for (size_t i = 1; i < ARRAY_LEN(part); i++) {
		part[i] = strchr(part[i - 1], '\t');
		if (part[i] == NULL)
			return;
		*part[i]++ = '\0';
	}
	wall = doctor_wall_by_name(part[0], strlen(part[0]));
	if (wall < 0)
		return;
	act = doctor_act(r, (enum wall)wall, part[2]);
	if (!inside) {
		act->outside = outcome_of(part[1]);
		return;
	}
	act->inside = outcome_of(part[1]);
	free(act->answer);
	act->answer = mem_strdup(part[3]);
}

void doctor_read_acts(struct doctor_report *r, const char *text, bool inside)
{
	cleanup_free char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		read_line(r, line, inside);
}

/* What other walls hold in a session that has no namespaces. */
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

/* Nothing else runs without a mount namespace. */
static bool is_bare(const struct doctor_report *r)
{
	const struct doctor_wall *w = &r->wall[WALL_mount_namespace];

	return r->refusal == NULL && w->known && w->state == WALL_UNAVAILABLE;
}

static bool is_held_by(const struct doctor_report *r, const struct doctor_act *a, enum wall w)
{
	for (size_t i = 0; is_bare(r) && i < ARRAY_LEN(held); i++)
		if (held[i].without == a->wall && held[i].by == w &&
		    strcmp(held[i].what, a->what) == 0)
			return true;
	return a->wall == w;
}

/* Of a wall that is said to be up. */
static enum doctor_verdict judge_claim(const struct doctor_report *r, enum wall w)
{
	enum doctor_verdict verdict = DOCTOR_UNPROVEN;

	for (size_t i = 0; i < r->nacts; i++) {
		const struct doctor_act *a = &r->act[i];

		if (!is_held_by(r, a, w))
			continue;
		if (a->inside == DOCTOR_DONE)
			return DOCTOR_LIE;
		if (a->inside == DOCTOR_REFUSED && a->outside == DOCTOR_DONE)
			verdict = DOCTOR_OK;
	}
	return verdict;
}

static enum doctor_verdict judge(const struct doctor_report *r, enum wall w)
{
	const struct doctor_wall *wall = &r->wall[w];

	if (!wall->known)
		return DOCTOR_UNPROVEN;
	switch (wall->state) {
	case WALL_UP:
		return judge_claim(r, w);
	case WALL_PARTIAL:
		return DOCTOR_PART;
	case WALL_UNAVAILABLE:
		return wall->may_lack ? DOCTOR_ALLOWED : DOCTOR_MISSING;
	case WALL_ABSENT:
	default:
		return DOCTOR_NOT_ASKED;
	}
}

void doctor_judge(struct doctor_report *r)
{
	for (unsigned w = 0; w < WALLS; w++)
		r->wall[w].verdict = judge(r, (enum wall)w);
}

bool doctor_failed(const struct doctor_report *r)
{
	for (unsigned w = 0; w < WALLS; w++)
		if (r->wall[w].verdict >= DOCTOR_MISSING)
			return true;
	return r->refusal != NULL;
}
