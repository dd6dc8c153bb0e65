// SPDX-License-Identifier: Apache-2.0
/* Turns acts into verdicts, and prints the report as a table or as JSON. */
#include "base/mem.h"
#include "cli/cmd_doctor.h"
#include "probe/probe.h"
#include <ctype.h>
#include <stdio.h>

#define COLUMNS 5
#define FILES_ENOUGH 10000000L
#define FAILS_OUTSIDE " (fails outside too)"

static const char *const outcomes[] = {
	[DOCTOR_UNTRIED] = "untried", [DOCTOR_REFUSED] = "refused", [DOCTOR_DONE] = "done"};
static const char *const verdicts[] = {
	[DOCTOR_OK] = "ok",	      [DOCTOR_NOT_ASKED] = "absent",
	[DOCTOR_PART] = "partial",    [DOCTOR_UNPROVEN] = "untried",
	[DOCTOR_ALLOWED] = "allowed", [DOCTOR_MISSING] = "missing",
	[DOCTOR_LIE] = "lie",
};

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
	doctor_bpf_done(r);
	*r = (struct doctor_report){0};
}

int doctor_wall_by_name(const char *name)
{
	for (unsigned w = 0; w < WALLS; w++)
		if (strcmp(wall_name(w), name) == 0)
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
		wall = doctor_wall_by_name(part[0]);
		if (wall < 0 || part[3] == NULL)
			continue;
		while (outcome != DOCTOR_UNTRIED && strcmp(outcomes[outcome], part[1]) != 0)
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
	return r->refusal != NULL || doctor_bpf_failed(r);
}

/* ---- printing ---- */

static bool needs_remedy(const struct doctor_wall *w)
{
	return (w->known && w->state == WALL_UNAVAILABLE) || w->verdict == DOCTOR_PART ||
	       w->verdict >= DOCTOR_MISSING;
}

static void find_remedies(const struct doctor_report *r, const struct doctor_host *h, enum wall w,
			  struct strv *out)
{
	/* It is usual that rules are held in part. */
	if (w != WALL_file_rules || r->wall[w].verdict != DOCTOR_PART)
		doctor_remedies(h, w, out);
	if (r->wall[w].verdict != DOCTOR_MISSING)
		return;
	if (w == WALL_user_namespace && !h->root)
		strv_add(out, "or list `namespaces` in sandbox.allow_unenforced: sessions then run "
			      "in the machine's own namespaces, behind Landlock and seccomp alone");
	else if (w != WALL_user_namespace && w != WALL_mount_namespace && w != WALL_capabilities &&
		 (w != WALL_process_separation || !h->root))
		strv_add(out, "or let it be missing: list it in sandbox.allow_unenforced");
}

static void put_host(const struct doctor_host *h, struct buf *out)
{
	const char *lacks = doctor_landlock_lacks(h->landlock_abi);

	buf_addf(out, "Kernel:        %s %s\n", h->kernel, h->machine);
	buf_addf(out, "Server:        run by %s\n", h->root ? "root" : "a normal user");
	buf_addf(out, "Container:     %s\n", h->container);
	buf_addf(out, "VM:            %s\n", h->vm);
	buf_addf(out, "cgroup:        %s (%s)\n", h->cgroup,
		 h->controllers[0] != '\0' ? h->controllers : "no controllers");
	buf_addf(out, "Landlock ABI:  %d%s%s\n", h->landlock_abi,
		 lacks[0] != '\0' ? ", lacks " : "", lacks);
	buf_addf(out, "LSMs:          %s\n", h->lsms);
	buf_addf(out, "/dev/fuse:     %s\n",
		 !h->fuse	? "no"
		 : h->fuse_shut ? "yes, but this user may not open it"
				: "yes");
	buf_addf(out, "FUSE io_uring: %s\n",
		 h->fuse_uring[0] == 'Y' ? "on"
		 : h->fuse_uring[0] == 'N'
			 ? "off; file servers are faster with it: echo Y > " FUSE_URING
			 : "not in this kernel (Linux 6.14 and later)");
	buf_addf(out, "Toolchains:    %s\n", h->toolchains[0] != '\0' ? h->toolchains : "none");
	if (h->file_max > 0 && h->file_max < FILES_ENOUGH)
		buf_addf(
			out,
			"Warning:       fs.file-max is %ld: a few sessions can open all files that "
			"the machine may have; sysctl -w fs.file-max=%ld (keep it in "
			"/etc/sysctl.d/)\n",
			h->file_max, FILES_ENOUGH);
}

/* Adds the rows of one wall; only the first row has its name. */
static void put_rows(const struct doctor_report *r, enum wall w, struct strv *cells)
{
	const struct doctor_wall *wall = &r->wall[w];
	cleanup_free char *verdict = mem_strdup(verdicts[wall->verdict]);
	bool first = true;

	for (char *c = verdict; wall->verdict >= DOCTOR_MISSING && *c != '\0'; c++)
		*c = (char)toupper((unsigned char)*c);
	for (size_t i = 0; i <= r->nacts; i++) {
		const struct doctor_act *a = i < r->nacts ? &r->act[i] : NULL;
		cleanup_buf struct buf answer = {0};

		if (a != NULL ? a->wall != w || a->answer == NULL : !first)
			continue;
		if (a != NULL)
			buf_addf(&answer, "%s%s", a->answer,
				 a->inside == DOCTOR_REFUSED && a->outside != DOCTOR_DONE
					 ? FAILS_OUTSIDE
					 : "");
		else
			buf_adds(&answer, needs_remedy(wall) ? "see below"
					  : wall->known	     ? wall->detail
							     : "");
		strv_add(cells, first ? wall_name(w) : "");
		strv_add(cells, first && wall->known ? wall_state_name(wall->state) : "");
		strv_add(cells, first ? verdict : "");
		strv_add(cells, a != NULL ? a->what : "-");
		strv_add(cells, answer.data);
		first = false;
	}
}

static void put_remedies(const struct doctor_report *r, const struct doctor_host *h, enum wall w,
			 struct buf *out)
{
	cleanup_strv struct strv texts = {0};
	const char *detail = r->wall[w].detail;
	const size_t len = strlen(wall_name(w));

	/* the detail may begin with the name already */
	if (strncmp(detail, wall_name(w), len) == 0 && strncmp(detail + len, ": ", 2) == 0)
		detail += len + 2;
	buf_addf(out, "\n%s: %s\n", wall_name(w), detail);
	find_remedies(r, h, w, &texts);
	for (size_t i = 0; i < texts.n; i++) {
		const char *mark = "- ";
		char *save = NULL;

		for (char *line = strtok_r(texts.v[i], "\n", &save); line != NULL;
		     line = strtok_r(NULL, "\n", &save)) {
			buf_addf(out, "  %s%s\n", mark, line);
			mark = "      ";
		}
	}
}

void doctor_print(const struct doctor_report *r, const struct doctor_host *h, struct buf *out)
{
	static const char *const head[COLUMNS] = {"WALL", "STATE", "VERDICT", "TRIED", "CAME BACK"};
	cleanup_strv struct strv cells = {0};

	put_host(h, out);
	if (r->refusal != NULL)
		buf_addf(out, "\nNo session can be made: %s\n", r->refusal);
	for (size_t i = 0; i < COLUMNS; i++)
		strv_add(&cells, head[i]);
	for (unsigned w = 0; w < WALLS; w++)
		put_rows(r, (enum wall)w, &cells);
	buf_addc(out, '\n');
	cli_columns((const char *const *)cells.v, COLUMNS, cells.n / COLUMNS, out);
	doctor_bpf_print(r, out);
	for (unsigned w = 0; w < WALLS; w++)
		if (needs_remedy(&r->wall[w]))
			put_remedies(r, h, (enum wall)w, out);
	buf_addf(out, "\n%s\n",
		 doctor_failed(r) ? "A wall that was asked for is missing or does not hold."
				  : "Every wall that was asked for holds.");
}

static void host_json(const struct doctor_host *h, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "kernel", h->kernel);
	jw_kstr(w, "machine", h->machine);
	jw_kbool(w, "server_root", h->root);
	jw_kstr(w, "container", h->container);
	jw_kstr(w, "vm", h->vm);
	jw_kstr(w, "cgroup", h->cgroup);
	jw_kstr(w, "controllers", h->controllers);
	jw_kint(w, "landlock_abi", h->landlock_abi);
	jw_kstr(w, "landlock_lacks", doctor_landlock_lacks(h->landlock_abi));
	jw_kstr(w, "lsms", h->lsms);
	jw_kbool(w, "fuse", h->fuse);
	jw_kbool(w, "fuse_io_uring", h->fuse_uring[0] == 'Y');
	jw_kstr(w, "toolchains", h->toolchains);
	jw_kint(w, "max_user_namespaces", h->max_user_namespaces);
	jw_kint(w, "unprivileged_userns_clone", h->unprivileged_userns_clone);
	jw_kint(w, "apparmor_restrict_unprivileged_userns", h->apparmor_restrict_userns);
	jw_kint(w, "yama_ptrace_scope", h->yama_ptrace_scope);
	jw_kint(w, "file_max", h->file_max);
	jw_obj_end(w);
}

static void wall_json(const struct doctor_report *r, const struct doctor_host *h, enum wall wall,
		      struct jw *w)
{
	const struct doctor_wall *one = &r->wall[wall];
	cleanup_strv struct strv texts = {0};

	if (needs_remedy(one))
		find_remedies(r, h, wall, &texts);
	jw_obj(w);
	jw_kstr(w, "wall", wall_name(wall));
	jw_kstr(w, "state", one->known ? wall_state_name(one->state) : NULL);
	jw_kstr(w, "detail", one->detail);
	jw_kstr(w, "verdict", verdicts[one->verdict]);
	jw_karr(w, "acts");
	for (size_t i = 0; i < r->nacts; i++) {
		const struct doctor_act *a = &r->act[i];

		if (a->wall != wall)
			continue;
		jw_obj(w);
		jw_kstr(w, "what", a->what);
		jw_kstr(w, "inside", outcomes[a->inside]);
		jw_kstr(w, "outside", outcomes[a->outside]);
		jw_kstr(w, "answer", a->answer);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_kstrv(w, "remedies", &texts);
	jw_obj_end(w);
}

void doctor_json(const struct doctor_report *r, const struct doctor_host *h, struct jw *w)
{
	jw_obj(w);
	jw_kbool(w, "ok", !doctor_failed(r));
	jw_kstr(w, "refusal", r->refusal);
	jw_key(w, "host");
	host_json(h, w);
	jw_karr(w, "walls");
	for (unsigned wall = 0; wall < WALLS; wall++)
		wall_json(r, h, (enum wall)wall, w);
	jw_arr_end(w);
	doctor_bpf_json(r, w);
	jw_obj_end(w);
}
