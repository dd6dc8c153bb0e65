// SPDX-License-Identifier: Apache-2.0
/* The limits of a session: those that it begins with, and narrower ones while it lives.
 *
 * The API child has checked a request for narrower limits already. The launcher checks it again,
 * against the limits that the kernel has for the session now: that is never more than its policy
 * and the server's own limits let it have. */
#include "launcher/session_limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define MB 20 /* bits */

void limits_share(int64_t memory_mb, struct wall_report *walls, uint32_t *scratch_mb)
{
	const enum wall_state state = walls->wall[WALL_memory_limit].state;
	const int64_t half = memory_mb / 2;
	char detail[sizeof(walls->wall[0].detail)];

	if (memory_mb == 0 || (state != WALL_UP && state != WALL_PARTIAL))
		return;
	memcpy(detail, walls->wall[WALL_memory_limit].detail, sizeof(detail));
	wall_set(walls, WALL_memory_limit, state, "%.90s; /tmp counts", detail);
	if (half < (*scratch_mb != 0 ? *scratch_mb : SCRATCH_MB))
		*scratch_mb = half > 0 ? (uint32_t)half : 1;
}

uint64_t limits_required(const struct launcher_create *ask)
{
	uint64_t required = ask->required & CGROUP_WALLS;

	for (unsigned w = 0; w < WALLS; w++)
		if (wall_listed(&ask->unenforced, (enum wall)w))
			required &= ~(UINT64_C(1) << w);
	return required;
}

/* ---- narrower ---- */

/* A session whose limits are about to change; descriptors are owned. */
struct change {
	struct launcher *l;
	struct session_entry *w;
	const struct launcher_limit *ask;
	struct limits asked;
	int root; /* the session's; -1: not within reach */
	dev_t io_device;
	struct limits own; /* the server's */
	struct limits now; /* what holds the session */
	uint64_t walls;	   /* 1 << WALL_…: asked for, by cgroup */
	struct wall_report report;
};

static int check_one(const struct limits *asked, const struct limits *than, enum limit i,
		     struct err *err)
{
	const char *field = limit_rows[i].field;
	const int64_t v = asked->value[i];

	if (v < 0 || v > limit_rows[i].high)
		return err_set(err, E_BAD_REQUEST, field, "%s: is too large", field);
	if (limits_has(than, i) && v > than->value[i])
		return err_set(err, E_BAD_REQUEST, field,
			       "%s: can only become narrower, is %" PRId64, field, than->value[i]);
	return 0;
}

static int check(struct change *c, struct err *err)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < LIMITS; i++) {
		if (limit_rows[i].by != LIMIT_BY_CGROUP || !limits_has(&c->asked, i))
			continue;
		if (i == LIMIT_cpu_period_us && limits_has(&c->now, LIMIT_max_cpu_percent))
			c->walls |= UINT64_C(1) << WALL_cpu_limit;
		else if (limit_rows[i].wall != WALL_none)
			c->walls |= UINT64_C(1) << limit_rows[i].wall;
		r = check_one(&c->asked, &c->now, i, err);
		/* the server limits swap only together with memory */
		if (r == 0 && i != LIMIT_memory_swap_max_mb)
			r = check_one(&c->asked, &c->own, i, err);
	}
	return r;
}

/* All that is asked for, unless the configuration lets it be missing and it was not there. */
static uint64_t required(struct change *c)
{
	uint64_t walls = c->walls & ~c->ask->optional;

	for (unsigned w = 0; w < WALLS; w++)
		if ((limits_walls(&c->now) & UINT64_C(1) << w) == 0 &&
		    wall_listed(&c->l->settings.config.allow_unenforced, w))
			walls &= ~(UINT64_C(1) << w);
	return walls;
}

/* The limits to write: all of a wall together, changed or not. */
static struct limits wanted(const struct change *c)
{
	struct limits to = c->asked, rest = c->now;

	for (unsigned i = 0; i < LIMITS; i++)
		if (limit_rows[i].wall != WALL_none &&
		    (c->walls & UINT64_C(1) << limit_rows[i].wall) == 0)
			rest.value[i] = rest.given[i] = 0;
	limits_narrow(&to, &rest);
	limits_add_swap(&to, &c->own);
	if (!limits_has(&to, LIMIT_cpu_period_us))
		to.value[LIMIT_cpu_period_us] = c->own.value[LIMIT_cpu_period_us];
	return to;
}

static int change_group(struct change *c, struct err *err)
{
	const struct cgroup_host *host = &c->l->groups.host;
	char id[GROUP_ID_MAX];
	struct cgroup_ask ask = {.id = id, .io_device = c->io_device};
	int r;

	group_id(c->l, c->w->meta.group, id);
	cgroup_limits_get(host, id, c->io_device, &c->now,
			  NULL); /* without a group nothing holds the session */
	r = check(c, err);
	if (r < 0 || c->walls == 0)
		return r;
	ask.limits = wanted(c);
	ask.required = required(c);
	ask.swap = limits_has(&c->asked, LIMIT_memory_swap_max_mb);
	return cgroup_change(host, &ask, &c->report, err);
}

/* Less memory, less of it for scratch files; those that there are stay. */
static void share_memory(struct change *c)
{
	uint32_t mb = 0;
	struct err err = {0};

	if (c->asked.value[LIMIT_max_memory_mb] == 0 || c->root == -1)
		return;
	limits_share(c->asked.value[LIMIT_max_memory_mb], &c->report, &mb);
	if (mb > 0 && scratch_lower(c->root, (uint64_t)mb << MB, &c->report, &err) < 0)
		log_warn("scratch space stays as it was", "session_id", c->w->id, "error",
			 err.message);
}

/* The space first: it can be given back. */
static int apply(struct change *c, struct err *err)
{
	const int64_t mb = c->asked.value[LIMIT_max_disk_mb];
	uint64_t before = 0;
	int r = mb != 0 ? scratch_get(c->root, &before, err) : 0;

	c->now.value[LIMIT_max_disk_mb] = (int64_t)(before >> MB);
	if (r == 0 && mb != 0)
		r = check_one(&c->asked, &c->now, LIMIT_max_disk_mb, err);
	if (r == 0 && mb != 0)
		r = check_one(&c->asked, &c->own, LIMIT_max_disk_mb, err);
	if (r == 0 && mb != 0)
		r = scratch_set(c->root, (uint64_t)mb << MB, &c->report, err);
	if (r < 0)
		return r;
	r = change_group(c, err);
	if (r < 0 && mb != 0)
		scratch_set(c->root, before, &(struct wall_report){0}, NULL);
	if (r == 0)
		share_memory(c);
	return r;
}

static int narrow(struct launcher *l, const struct launcher_limit *ask, struct strv *walls,
		  struct err *err)
{
	struct change c = {.l = l, .ask = ask, .root = -1, .own = l->settings.config.limits};
	cleanup_fd int root = -1, pidfd = -1;
	int r = msg_get_limits(ask->old_limits, &ask->limits, &c.asked, err);

	if (r == 0)
		r = limits_enforceable(&c.asked, config_records(&l->settings.config), err);
	if (r < 0)
		return r;
	limits_resolve(&c.own, l->groups.share_mb);
	c.w = id_valid(ask->session_id) ? entry_find(l, ask->session_id) : NULL;
	if (c.w == NULL || c.w->state != ENTRY_ALIVE || c.w->killed)
		return err_set(err, E_SESSION_STOPPED, NULL, "the session has ended");
	wall_report_init(&c.report);
	pidfd = meta_pidfd(meta_inside(&c.w->meta));
	if (pidfd != -1)
		c.root = root = scratch_root((pid_t)meta_inside(&c.w->meta)->pid);
	c.io_device = c.w->meta.device;
	r = apply(&c, err);
	if (r == 0)
		wall_pack(&c.report, walls);
	return r;
}

void narrow_session(void *launcher, void *msg, struct link_msg *m)
{
	struct launcher_limited answer = {0};
	const struct launcher_limit *ask = msg;
	struct launcher *l = launcher;
	struct err why = {0};

	answer.session_id = mem_strdup(id_valid(ask->session_id) ? ask->session_id : "");
	if (narrow(l, ask, &answer.walls, &why) < 0) {
		answer.code = mem_strdup(err_row(why.code)->name);
		answer.subject = mem_strdup(why.subject);
		answer.message = mem_strdup(why.message);
		log_info("limits refused", "session_id", answer.session_id, "code", answer.code,
			 "error", answer.message);
	}
	api_link_post(l, MSG_launcher_limited, m->req, &answer, NULL, 0);
}
