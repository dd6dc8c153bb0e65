// SPDX-License-Identifier: Apache-2.0
/* Narrower limits for a living session. The API child has checked the request already; it is done
 * again here, against what the kernel says holds the session now: that is never more than its
 * policy and the server's own limits let it have. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "sandbox/scratch.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define MB 20 /* bits */

static const struct row {
	const char *field;
	size_t asked; /* in struct launcher_limit */
	size_t limit; /* in struct cgroup_limits */
	size_t own;   /* in struct config */
	unsigned bits;
	enum wall wall;
} rows[] = {
#define ROW(field_, limit_, bits_, wall_)                                                        \
	{                                                                                        \
		"resource_limits." #field_, offsetof(struct launcher_limit, field_),             \
			offsetof(struct cgroup_limits, limit_), offsetof(struct config, field_), \
			bits_, WALL_##wall_##_limit                                              \
	}
	ROW(max_memory_mb, memory_bytes, MB, memory),
	ROW(max_cpu_percent, cpu_percent, 0, cpu),
	ROW(pids_max, pids, 0, pids),
	ROW(io_read_bps_max, io_read_bps, 0, io),
	ROW(io_write_bps_max, io_write_bps, 0, io),
#undef ROW
};

/* A session whose limits are about to change; descriptors are owned. */
struct change {
	struct launcher *l;
	struct session_entry *w;
	const struct launcher_limit *ask;
	int root;		  /* the session's; -1: not within reach */
	struct cgroup_limits now; /* what holds it */
	uint64_t walls;		  /* 1 << WALL_…: asked for, by cgroup */
	struct wall_report report;
};

static uint64_t asked(const struct change *c, const struct row *r)
{
	return *(const uint64_t *)((const char *)c->ask + r->asked);
}

static uint64_t *limit(struct cgroup_limits *l, const struct row *r)
{
	return (uint64_t *)((char *)l + r->limit);
}

static int too_wide(const char *field, uint64_t is, struct err *err)
{
	return err_set(err, E_BAD_REQUEST, field, "%s: can only become narrower, is %" PRIu64,
		       field, is);
}

static int check(struct change *c, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		const uint64_t v = asked(c, r), now = *limit(&c->now, r);
		const int64_t own =
			*(const int64_t *)((const char *)&c->l->settings.config + r->own);

		if (v == 0)
			continue;
		c->walls |= UINT64_C(1) << r->wall;
		if (now != CGROUP_NO_LIMIT && v > now >> r->bits)
			return too_wide(r->field, now >> r->bits, err);
		if (own > 0 && v > (uint64_t)own)
			return too_wide(r->field, (uint64_t)own, err);
		if (v > CGROUP_NO_LIMIT >> (r->bits + 1))
			return err_set(err, E_BAD_REQUEST, r->field, "%s: is too large", r->field);
	}
	return 0;
}

/* All that is asked for, unless the configuration lets it be missing and it was not there. */
static uint64_t required(struct change *c)
{
	uint64_t walls = c->walls;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (*limit(&c->now, &rows[i]) == CGROUP_NO_LIMIT &&
		    wall_listed(&c->l->settings.config.allow_unenforced, rows[i].wall))
			walls &= ~(UINT64_C(1) << rows[i].wall);
	return walls;
}

/* The limits to write: those of a wall go together, what has not changed with what has. */
static struct cgroup_limits wanted(struct change *c)
{
	const struct config *config = &c->l->settings.config;
	struct cgroup_limits to = {CGROUP_NO_LIMIT,	 CGROUP_NO_LIMIT, CGROUP_NO_LIMIT,
				   c->now.cpu_period_us, CGROUP_NO_LIMIT, CGROUP_NO_LIMIT,
				   CGROUP_NO_LIMIT,	 c->now.io_device};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const uint64_t v = asked(c, &rows[i]);

		if (v > 0)
			*limit(&to, &rows[i]) = v << rows[i].bits;
		else if ((c->walls & UINT64_C(1) << rows[i].wall) != 0)
			*limit(&to, &rows[i]) = *limit(&c->now, &rows[i]);
	}
	if (to.memory_bytes != CGROUP_NO_LIMIT)
		to.swap_bytes = c->now.swap_bytes != CGROUP_NO_LIMIT
					? c->now.swap_bytes
					: (uint64_t)config->memory_swap_max_mb << MB;
	if (to.cpu_period_us == CGROUP_NO_LIMIT)
		to.cpu_period_us = (uint64_t)config->cpu_period_us;
	return to;
}

static int change_group(struct change *c, struct err *err)
{
	const struct cgroup_host *host = &c->l->groups.host;
	char id[GROUP_ID_MAX];
	struct cgroup_ask ask = {.id = id};
	int r;

	group_id(c->l, c->w->meta.group, id);
	cgroup_limits_get(host, id, &c->now, NULL); /* without a group nothing holds the session */
	r = check(c, err);
	if (r < 0 || c->walls == 0)
		return r;
	ask.limits = wanted(c);
	ask.required = required(c);
	return cgroup_change(host, &ask, &c->report, err);
}

/* Less memory, less of it for scratch files; those that there are stay. */
static void share_memory(struct change *c)
{
	uint32_t mb = 0;
	struct err err = {0};

	if (c->ask->max_memory_mb == 0 || c->root == -1)
		return;
	limits_share(c->ask->max_memory_mb << MB, &c->report, &mb);
	if (mb > 0 && scratch_lower(c->root, (uint64_t)mb << MB, &c->report, &err) < 0)
		log_warn("scratch space stays as it was", "session_id", c->w->id, "error",
			 err.message);
}

/* The space first: it can be given back. */
static int apply(struct change *c, struct err *err)
{
	const uint64_t mb = c->ask->max_disk_mb;
	const int64_t own = c->l->settings.config.max_disk_mb;
	uint64_t before = 0;
	int r = mb > 0 ? scratch_get(c->root, &before, err) : 0;

	if (r == 0 && mb > before >> MB)
		r = too_wide("resource_limits.max_disk_mb", before >> MB, err);
	if (r == 0 && own > 0 && mb > (uint64_t)own)
		r = too_wide("resource_limits.max_disk_mb", (uint64_t)own, err);
	if (r == 0 && mb > 0)
		r = scratch_set(c->root, mb << MB, &c->report, err);
	if (r < 0)
		return r;
	r = change_group(c, err);
	if (r < 0 && mb > 0)
		scratch_set(c->root, before, &(struct wall_report){0}, NULL);
	if (r == 0)
		share_memory(c);
	return r;
}

static int narrow(struct launcher *l, const struct launcher_limit *ask, struct strv *walls,
		  struct err *err)
{
	struct change c = {.l = l, .ask = ask, .root = -1};
	cleanup_fd int root = -1, pidfd = -1;
	struct stat st;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		*limit(&c.now, &rows[i]) = CGROUP_NO_LIMIT;
	c.now.swap_bytes = c.now.cpu_period_us = CGROUP_NO_LIMIT;
	c.w = id_valid(ask->session_id) ? entry_find(l, ask->session_id) : NULL;
	if (c.w == NULL || c.w->state != ENTRY_ALIVE || c.w->killed)
		return err_set(err, E_SESSION_STOPPED, NULL, "the session has ended");
	wall_report_init(&c.report);
	pidfd = meta_pidfd(meta_inside(&c.w->meta));
	if (pidfd != -1)
		c.root = root = scratch_root((pid_t)meta_inside(&c.w->meta)->pid);
	if (c.root != -1 && fstatat(c.root, SCRATCH_WORKSPACE, &st, AT_SYMLINK_NOFOLLOW) == 0)
		c.now.io_device = st.st_dev;
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
