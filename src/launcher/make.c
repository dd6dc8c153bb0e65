// SPDX-License-Identifier: Apache-2.0
/* Makes a session of a request that admit.c has accepted: forks a stub, or takes a prepared one
 * from the pool, and gives it its assignment. Then the loop goes on. The stub reports the processes
 * that it starts, or why it cannot; the creation is answered when its report pipe ends. */
#include "launcher/make.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/journal.h"
#include "launcher/launcher_state.h"
#include "launcher/own_dir.h"
#include "launcher/session_limits.h"
#include "launcher/workspace_check.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

/* Everything between the request and the fork; descriptors are owned. */
struct job {
	struct launcher *l;
	const struct launcher_create *ask;
	const struct creation *c;
	struct limits asked;
	struct requester owner; /* of the workspace */
	struct session_identity id;
	const struct checked *policy; /* borrowed */

	struct sandbox_plan plan; /* strings owned */
	struct strv walls;
	char *real;
	char home[HOME_NAME];	/* of its kept home; "": none */
	dev_t device;		/* of the workspace */
	int fd[ASSIGNMENT_FDS]; /* of the assignment */
	int link_fd, report_fd; /* our ends */
	int userns;
	int repository; /* of the plan; -1 */
	struct sandbox_trees view;
	char fs[SANDBOX_FS];   /* that cannot be mapped; "" */
	struct pooled *pooled; /* NULL: none yet; owned unless it is still listed in the pool */
	uint64_t group;	       /* owned; 0: none */
};

static void job_done(struct job *j)
{
	for (size_t i = 0; i < ARRAY_LEN(j->fd); i++)
		mem_cleanup_fd(&j->fd[i]);
	mem_cleanup_fd(&j->link_fd);
	mem_cleanup_fd(&j->report_fd);
	mem_cleanup_fd(&j->userns);
	mem_cleanup_fd(&j->repository);
	if (j->pooled == NULL)
		group_drop(j->l, j->group);
	else if (!j->pooled->listed)
		pool_discard(j->pooled);
	sandbox_trees_done(&j->view);
	sandbox_plan_done(&j->plan);
	strv_done(&j->walls);
	free(j->real);
}

/* ---- checks ---- */

static int check_policy(struct job *j, struct err *err)
{
	const struct strv *allowed = &j->l->settings.config.allow_unenforced;
	const struct strv *asked = &j->ask->unenforced;

	for (size_t i = 0; i < asked->n; i++)
		if (!strv_has(allowed, asked->v[i]))
			return err_set(err, E_FORBIDDEN, asked->v[i],
				       "sandbox.allow_unenforced does not let '%s' be missing",
				       asked->v[i]);
	if (j->c->uncovered.code != E_OK) {
		*err = j->c->uncovered;
		return -(int)err->code;
	}
	/* The client itself requires these walls: no configuration can let them be missing. */
	if (j->ask->required & UINT64_C(1) << WALL_network_rules)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_network_rules),
			       "network: nothing decides on connections yet; leave it out");
	return limits_enforceable(&j->asked, sandbox_has_fs(&j->plan), err);
}

/* ---- plan and workspace ---- */

void make_recipe(const struct launcher *l, struct sandbox_plan *out)
{
	const struct config *c = &l->settings.config;
	const char *const own[] = {l->place.runtime, c->base_dir};

	*out = (struct sandbox_plan){
		.privileged = l->privileged,
		.state_program = mem_strdup(l->programs.state_path),
		.acmd_program = mem_strdup(l->programs.acmd_path),
		.exec_control = 1,
		.root_inside = c->root_inside,
		.fuse = config_serves(c) && access("/dev/fuse", R_OK | W_OK) == 0,
		.open_files = (uint32_t)c->open_files,
		.open_files_max = (uint32_t)c->open_files_max,
		.workspace_at = (strcmp(c->workspace_at, "real") != 0 ? SANDBOX_AT_WORKSPACE : 0) |
				(strcmp(c->workspace_at, "workspace") != 0 ? SANDBOX_AT_REAL : 0),
	};
	strv_copy(&out->unenforced, &c->allow_unenforced);
	strv_copy(&out->read_only_paths, &c->read_only_paths);
	strv_copy(&out->passthrough_paths, &c->passthrough_paths);
	strv_copy(&out->monitored_paths, &c->monitored_paths);
	strv_copy(&out->blocked_paths, &c->blocked_paths);
	config_watched_paths(c, &out->recorded_paths, &out->enforced_paths);
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		cleanup_free char *real = realpath(own[i], NULL);

		strv_add(&out->kept_out, real != NULL ? real : own[i]);
	}
}

static int draw_plan(struct job *j, struct err *err)
{
	struct launcher *l = j->l;
	struct sandbox_plan *p = &j->plan;
	int r;

	j->owner = requester_owns(j->ask->workspace, l->privileged, j->c->who);
	r = identity_choose(l->privileged, &l->settings.config, j->c->who, j->owner, &j->id, err);
	if (r < 0)
		return r;
	make_recipe(l, p);
	p->fuse &= j->c->own_dir == NULL; /* FUSE needs a mount namespace */
	strv_done(&p->unenforced);
	strv_copy(&p->unenforced, &j->ask->unenforced);
	p->session_id = mem_strdup(j->ask->session_id);
	p->hostname = mem_strdup(j->ask->session_id);
	p->uid = j->id.self.uid;
	p->gid = j->id.self.gid;
	p->owner_uid = j->id.files.uid;
	p->owner_gid = j->id.files.gid;
	sandbox_worktree(&(struct sandbox_workspace_ask){.path = j->ask->workspace,
							 .uid = j->c->who.uid,
							 .gid = j->c->who.gid,
							 .repository = &j->repository},
			 p);
	return 0;
}

/* A uid of its own, and the user namespace that maps the workspace's owner to that uid. */
static int separate(struct job *j, struct err *err)
{
	struct sandbox_plan *p = &j->plan;
	struct idmap map;
	uint32_t uid = 0;
	int r = 0;

	if (!p->privileged)
		return 0;
	j->pooled = pool_find(j->l, p);
	if (j->pooled != NULL)
		uid = j->pooled->map.shown_uid;
	else
		r = uids_need(j->l, &uid, err);
	if (r < 0)
		return r;
	p->uid = p->gid = uid;
	p->idmap = 1;
	map = (struct idmap){p->owner_uid, p->owner_gid, uid, uid};
	if (j->pooled != NULL)
		j->userns = pooled_userns(j->pooled, &map);
	return j->userns != -1 ? 0 : sandbox_idmap(&map, &j->userns, err);
}

static int open_trees(struct job *j, struct err *err)
{
	const struct config *c = &j->l->settings.config;
	const struct sandbox_workspace_ask ask = {
		j->ask->workspace, j->c->who.uid,
		j->c->who.gid,	   &c->workspaces,
		j->userns,	   j->fs,
		&j->plan.backing,  strcmp(c->toolchains, "none") != 0 && j->c->own_dir == NULL,
		&j->repository};
	int r = sandbox_workspace(&ask, &j->plan, &j->fd[ASSIGNMENT_TREE], &j->real, err);

	if (r == 0)
		mem_replace(&j->plan.real_path, mem_strdup(j->real));
	if (r == 0)
		r = sandbox_view_of_user(&j->plan, &ask, &j->view, err);
	return r;
}

/* Where the owners of files cannot be mapped, the session runs as the user who asks for it. It runs
 * as uid 0, without any capability, only if root's own configuration allows that. */
static int open_workspace(struct job *j, struct err *err)
{
	const struct config *c = &j->l->settings.config;
	int r = separate(j, err);

	if (r == 0)
		r = open_trees(j, err);
	if (r != -E_ENFORCEMENT || strcmp(err->subject, "uid") != 0 || !j->plan.idmap ||
	    (j->id.self.uid == 0 && !strv_has(&c->allow_unenforced, "uid")))
		return r;
	j->plan.uid = j->id.self.uid;
	j->plan.gid = j->id.self.uid == 0 ? 0 : j->id.self.gid;
	j->plan.idmap = 0;
	j->pooled = NULL; /* that has another uid, and stays in the pool */
	mem_cleanup_fd(&j->fd[ASSIGNMENT_TREE]);
	j->fd[ASSIGNMENT_TREE] = -1;
	free(take(j->real));
	return open_trees(j, err);
}

static struct limits chosen_limits(const struct job *j)
{
	struct limits out = j->asked;

	limits_choose(&out, &j->l->settings.config.limits, &j->policy->limits,
		      j->l->groups.share_mb, NULL);
	return out;
}

/* If a home cannot be kept, or its size must be bounded, the session gets an empty one. */
static void keep_home(struct job *j)
{
	const struct config *c = &j->l->settings.config;
	struct sandbox_plan *p = &j->plan;
	const struct idmap map = home_map(j->l, p->uid);
	cleanup_fd int userns = j->pooled != NULL ? pooled_userns(j->pooled, &map) : -1;
	const struct home_ask ask = {c->base_dir, p, j->real, p->privileged ? &map : NULL, userns};
	struct err why = {0};

	if (strcmp(c->home, "workspace") != 0 || (p->privileged && !p->idmap) ||
	    (j->c->own_dir == NULL && chosen_limits(j).value[LIMIT_max_disk_mb] > 0))
		return;
	home_name(&(struct home_key){j->c->who.uid, j->c->who.agent, j->policy->is.name, j->real},
		  j->home);
	if (trim_allows(j->l, j->home, &why) < 0 || home_keep(&ask, j->home, &j->view, &why) < 0) {
		j->home[0] = '\0';
		log_warn("the home of a session is not kept", "session_id", j->ask->session_id,
			 "error", why.message);
	}
}

/* Without namespaces the session sees the machine's own files: its directories lie there, and its
 * policy was compiled for them. */
static int choose_view(struct job *j, struct err *err)
{
	struct sandbox_plan *p = &j->plan;
	int r;

	ensure(!p->privileged);
	if (p->shut_inside.n > 0)
		return err_set(
			err, E_ENFORCEMENT, p->shut_inside.v[0],
			"%s is the server's or in its PATH, and cannot be shut without a mount "
			"namespace; choose another workspace",
			p->shut_inside.v[0]);
	orphans_start(j->l);
	p->workspace = mem_strdup(j->real);
	r = own_dir_make(j->l, j->ask->session_id, &p->own_dir, err);
	if (r == 0 &&
	    (strcmp(p->workspace, j->c->workspace) != 0 || strcmp(p->own_dir, j->c->own_dir) != 0 ||
	     (p->home == NULL) != (j->c->home == NULL) ||
	     (p->home != NULL && strcmp(p->home, j->c->home) != 0)))
		r = err_set(err, E_CONFLICT, j->real, "workspace %s changed while it was opened",
			    j->real);
	return r;
}

static void report_separation(struct job *j)
{
	const struct sandbox_plan *p = &j->plan;
	const uint32_t api = j->l->settings.config.api_uid;
	const struct uid_range *range = &j->l->settings.config.session_uids;
	struct wall_report report;

	wall_report_init(&report);
	if (!p->privileged)
		wall_set(&report, WALL_process_separation, WALL_UNAVAILABLE,
			 "server, warden and session share uid %u: only root can keep them apart",
			 p->uid);
	else if (!p->idmap)
		wall_set(&report, WALL_process_separation, WALL_PARTIAL,
			 "uid %u%s, shared with others: %s cannot be idmapped; api uid %u", p->uid,
			 p->uid == 0 ? " without capabilities" : "",
			 j->fs[0] != '\0' ? j->fs : "without user namespaces a mount", api);
	else if (range->first == range->last)
		wall_set(&report, WALL_process_separation, WALL_PARTIAL,
			 "session uid %u, shared by all sessions: sandbox.session_uids has one id",
			 p->uid);
	else
		wall_set(&report, WALL_process_separation, WALL_UP,
			 "launcher uid 0, api uid %u, session uid %u", api, p->uid);
	wall_pack(&report, &j->walls);
}

/* ---- limits ---- */

static int set_limits(struct job *j, struct err *err)
{
	const struct cgroup_host *host = &j->l->groups.host;
	char id[GROUP_ID_MAX];
	struct cgroup_ask ask = {.id = id,
				 .io_device = j->device,
				 .limits = chosen_limits(j),
				 .required = limits_required(j->ask),
				 .swap = limits_has(&j->asked, LIMIT_memory_swap_max_mb)};
	struct wall_report report;
	struct err why = {0};
	int64_t disk;
	int r;

	disk = ask.limits.value[LIMIT_max_disk_mb];
	j->plan.scratch_mb = disk < UINT32_MAX ? (uint32_t)disk : UINT32_MAX;
	if (j->pooled != NULL)
		pool_take(j->pooled);
	j->group = j->pooled != NULL ? j->pooled->group : group_next(j->l);
	group_id(j->l, j->group, id);
	wall_report_init(&report);
	r = j->pooled != NULL ? cgroup_limit(host, &ask, &report, &why)
			      : cgroup_create(host, &ask, &report, &why);
	if (r < 0)
		return err_set(err, why.code, why.subject,
			       "%s (%s; the server needs a cgroup of its own, such as Delegate=yes "
			       "of a systemd service, or %s in sandbox.allow_unenforced)",
			       why.subject, why.message, why.subject);
	if (j->plan.own_dir == NULL)
		limits_share(ask.limits.value[LIMIT_max_memory_mb], &report, &j->plan.scratch_mb);
	wall_pack(&report, &j->walls);
	return 0;
}

/* ---- files and links ---- */

/* Ring i, and its descriptors for the session's processes: ring to write, ack[, ring to read]. */
static int make_ring(struct job *j, unsigned i, struct err *err)
{
	const int dir = j->l->place.sessions_fd;
	const char *id = j->ask->session_id;
	const enum session_file file = FILE_RING + 2 * i;
	int *fd = j->fd + (i == 0 ? ASSIGNMENT_RING : ASSIGNMENT_OTHERS + 3 * (i - 1));
	char ring[SESSION_FILE_NAME_MAX], ack[SESSION_FILE_NAME_MAX];
	cleanup_fd int ack_rw = -1;
	int r;

	session_files_name(ring, id, file);
	session_files_name(ack, id, file + 1);
	r = journal_create(dir, ring, ack, (uint32_t)j->l->settings.config.ring_bytes, &fd[0],
			   &ack_rw, err);
	if (r < 0)
		return r;
	fd[1] = session_files_open(dir, id, file + 1, O_RDONLY);
	if (i > 0)
		fd[2] = session_files_open(dir, id, file, O_RDONLY);
	return fd[1] == -1 || (i > 0 && fd[2] == -1)
		       ? err_errno(err, E_UNAVAILABLE, id, "cannot open a ring of session %s", id)
		       : 0;
}

/* ---- the answer ---- */

struct making {
	uint32_t req;
	struct launcher_created answer;	   /* owned */
	int link_fd, policy_fd, report_fd; /* owned; the first two go with the answer */
	struct watch *reported;
	struct err failure;	 /* as reported */
	size_t processes, rings; /* that the session has */
};

static void making_free(struct session_entry *w)
{
	struct making *k = w->making;

	w->making = NULL;
	watch_free(k->reported);
	mem_cleanup_fd(&k->report_fd);
	mem_cleanup_fd(&k->link_fd);
	mem_cleanup_fd(&k->policy_fd);
	msg_done(MSG_launcher_created, &k->answer);
	free(k);
}

void make_abandon(struct session_entry *w)
{
	making_free(w);
	entry_kill(w);
}

static void refuse(struct session_entry *w, const struct err *why)
{
	api_link_refuse(w->l, w->making->req, w->id, why);
	make_abandon(w);
}

static void answer(struct session_entry *w)
{
	struct making *k = w->making;
	const int dir = w->l->place.sessions_fd;
	int fd[RINGS_FDS + 2] = {k->link_fd};
	struct err err = {0};
	size_t n;

	/* once the main process is dead the numbers may be others' already */
	for (size_t i = 1; i < w->meta.n && w->warden.pidfd != -1; i++)
		w->meta.process[i].start = meta_start_time((pid_t)w->meta.process[i].pid);
	n = 1 + session_files_rings(dir, w->id, &k->answer.rings, fd + 1);
	if (n < 1 + 2 * k->rings)
		err_errno(&err, E_UNAVAILABLE, w->id, "cannot open the rings of session %s", w->id);
	else
		meta_save(dir, w->id, &w->meta, &err);
	if (err.code != E_OK) {
		while (--n > 0)
			close(fd[n]);
		refuse(w, &err);
		return;
	}
	fd[n++] = k->policy_fd;
	log_info("session made", "session_id", w->id);
	w->state = ENTRY_ALIVE;
	w->silent = false;
	api_link_post(w->l, MSG_launcher_created, k->req, &k->answer, fd, n);
	k->link_fd = k->policy_fd = -1;
	making_free(w);
}

_Static_assert(sizeof(struct assignment_report) <= PIPE_BUF, "a report is one write");

void make_finish(void *session_entry)
{
	struct session_entry *w = session_entry;
	struct making *k = w->making;
	struct assignment_report got;
	struct err why;
	ssize_t n;

	while ((n = read(k->report_fd, &got, sizeof(got))) == (ssize_t)sizeof(got)) {
		if (got.err.code != E_OK)
			k->failure = got.err;
		else
			meta_add(&w->meta, got.process, got.pid, 0);
	}
	if (k->failure.code != E_OK)
		watch_stop(k->reported); /* its death follows: then the id is free again */
	if (w->warden.pidfd != -1 && (n != 0 || k->failure.code != E_OK))
		return; /* more reports may follow */
	/* If the main process is dead already, its last messages are in the link that the API child
	 * gets. */
	if (k->failure.code == E_OK && w->meta.n < k->processes)
		err_set(&k->failure, E_INTERNAL, w->id, "%s of %s did not start: %s",
			MAIN_PROCESS->title, w->id,
			w->reason[0] != '\0' ? w->reason : "its stub ended early");
	why = k->failure;
	if (why.code == E_UNAVAILABLE) /* the rest of the pool may be no better */
		pool_empty(w->l);
	if (why.code != E_OK)
		refuse(w, &why);
	else
		answer(w);
}

/* ---- the fork ---- */

/* Gives the assignment to a sandbox of the pool, or to a new one. */
static int start_stub(struct job *j, uint32_t req, struct err *err)
{
	const struct launcher *l = j->l;
	const struct config *c = &l->settings.config;
	struct assignment o = {
		.session_id = (char *)j->ask->session_id,
		.walls = j->walls,
		.api_uid = l->privileged ? l->settings.config.api_uid : geteuid(),
		.log_level = l->settings.log_level,
		.log_format = l->settings.log_format,
		.real = j->real,
		.entry_ms = (uint32_t)c->fuse_entry_ms,
		.attr_ms = (uint32_t)c->fuse_attr_ms,
		.negative_ms = (uint32_t)c->fuse_negative_ms,
		.max_readahead = (uint32_t)c->fuse_max_readahead,
		.async_read = c->fuse_async_read,
		.writeback_cache = c->fuse_writeback_cache,
		.io_uring = strcmp(c->fuse_io_uring, "auto") == 0,
	};
	struct stub new = {.l = l,
			   .plan = &j->plan,
			   .group = j->group,
			   .tree_fd =
				   sandbox_user_namespace(&j->plan) ? j->fd[ASSIGNMENT_TREE] : -1};
	struct session_entry *w;
	struct making *k;
	struct child stub;
	int r;

	if (j->pooled == NULL && (j->pooled = pool_make(j->l, &new, err)) == NULL)
		return -E_UNAVAILABLE;
	j->fd[ASSIGNMENT_LOCK] = l->place.lock_fd; /* borrowed */
	r = assignment_send(j->pooled->sock, &o, &j->plan, j->fd, &j->view, err);
	j->fd[ASSIGNMENT_LOCK] = -1;
	if (r < 0)
		return r;
	stub = pool_release(take(j->pooled));
	w = entry_new(j->l, j->ask->session_id);
	w->told = w->silent = true;
	w->meta = (struct meta){.uid = j->plan.uid,
				.gid = j->plan.gid,
				.owner_uid = j->c->who.uid,
				.group = j->group,
				.device = j->device};
	meta_add(&w->meta, process_of(PROCESS_MAIN), stub.pid, meta_start_time(stub.pid));
	if (entry_watch(w, stub, err) < 0) {
		entry_free(w);
		return -E_UNAVAILABLE;
	}
	j->group = 0;
	k = mem_new(struct making);
	*k = (struct making){
		.req = req,
		.answer = {.session_id = mem_strdup(w->id),
			   .workspace = take(j->real),
			   .policy_name = mem_strdup(j->policy->is.name),
			   .policy_version = mem_strdup(j->policy->is.version),
			   .owner_uid = j->c->who.uid,
			   .session_uid = j->plan.uid,
			   .session_gid = j->plan.gid,
			   .home = j->home[0] != '\0' ? mem_strdup(j->home) : NULL},
		.link_fd = take_fd(j->link_fd),
		.policy_fd = take_fd(j->fd[ASSIGNMENT_POLICY]),
		.report_fd = take_fd(j->report_fd),
	};
	k->processes = process_count(sandbox_has_fs(&j->plan), &k->rings);
	strv_copy(&k->answer.walls, &j->walls);
	strv_copy(&k->answer.env, &j->view.env);
	fdio_nonblock(k->report_fd);
	k->reported = watch_readable(w->l->loop, k->report_fd, make_finish, w);
	w->making = k;
	w->state = ENTRY_MAKING;
	if (watch_start(k->reported) < 0) {
		const struct err full = {.code = E_UNAVAILABLE,
					 .message = "cannot watch a new session: " LOOP_FULL};

		refuse(w, &full);
	}
	return 0;
}

/* Once the id was found free, its files are ours to remove. */
static int fill(struct job *j, uint32_t req, struct err *err)
{
	const int dir = j->l->place.sessions_fd;
	const char *id = j->ask->session_id;
	int link[2], report[2], r;

	report_separation(j);
	r = set_limits(j, err);
	if (r == 0)
		r = link_pair(link, err);
	if (r < 0)
		return r;
	j->link_fd = link[0];
	j->fd[ASSIGNMENT_API] = link[1];
	for (unsigned i = 0; i < PROCESS_RINGS && r == 0; i++)
		if (process_used(process_with_ring(i), sandbox_has_fs(&j->plan)))
			r = make_ring(j, i, err);
	if (r == 0) {
		j->fd[ASSIGNMENT_POLICY] = fcntl(j->policy->fd, F_DUPFD_CLOEXEC, 3);
		j->fd[ASSIGNMENT_LISTEN] = session_files_bind(dir, id);
		if (j->fd[ASSIGNMENT_POLICY] == -1 || j->fd[ASSIGNMENT_LISTEN] == -1 ||
		    pipe2(report, O_CLOEXEC) < 0)
			r = err_errno(err, E_UNAVAILABLE, id, "cannot make the files of session %s",
				      id);
	}
	if (r == 0) {
		j->report_fd = report[0];
		j->fd[ASSIGNMENT_REPORT] = report[1];
		r = start_stub(j, req, err);
	}
	if (r < 0)
		session_files_remove(dir, id, true);
	return r;
}

static int create(struct job *j, uint32_t req, struct err *err)
{
	struct stat st;
	int r = draw_plan(j, err);

	if (r == 0)
		r = check_policy(j, err);
	if (r == 0)
		r = open_workspace(j, err);
	if (r < 0)
		return r;
	/* The owner of the path decided the uid of the session's files: the directory that was
	 * opened must have the same owner. */
	if (fstat(j->fd[ASSIGNMENT_TREE], &st) < 0)
		return err_errno(err, E_INTERNAL, j->real, "cannot stat workspace %s", j->real);
	j->device = st.st_dev;
	if (st.st_uid !=
	    (j->plan.idmap && j->owner.uid == j->plan.owner_uid ? j->plan.uid : j->owner.uid))
		return err_set(err, E_CONFLICT, j->real, "workspace %s changed while it was opened",
			       j->real);
	r = workspace_check(j->l, j->real, &j->plan, err);
	if (r < 0)
		return r;
	keep_home(j);
	if (j->policy->is.soft_delete && j->plan.fuse)
		r = trash_make(&(struct home_ask){j->l->settings.config.base_dir, &j->plan,
						  .userns = j->userns,
						  .readers = j->l->settings.config.api_uid},
			       &j->view, err);
	if (r == 0 && j->c->own_dir != NULL)
		r = choose_view(j, err);
	if (r == 0) {
		strv_copy(&j->plan.withheld, &j->policy->is.withheld);
		r = fill(j, req, err);
	}
	if (r < 0 && j->plan.workspace != NULL)
		own_dir_drop(j->l, j->ask->session_id, &(struct meta){0});
	return r;
}

int make_session(struct launcher *l, const struct creation *c, struct err *err)
{
	struct job j = {.l = l,
			.c = c,
			.ask = &c->ask,
			.policy = c->policy,
			.link_fd = -1,
			.report_fd = -1,
			.userns = -1,
			.repository = -1};
	int r = msg_get_limits(c->ask.old_limits, &c->ask.limits, &j.asked, err);

	memset(j.fd, -1, sizeof(j.fd));
	if (r == 0)
		r = create(&j, c->req, err);
	job_done(&j);
	return r;
}
