// SPDX-License-Identifier: Apache-2.0
/* How a session is made: checked, its row written, the launcher asked, its warden greeted. */
#include "base/denial.h"
#include "base/log.h"
#include "base/path.h"
#include "model/process_table.h"
#include "policy/policy.h"
#include "session/drain.h"
#include "session/homes.h"
#include "session/rows.h"
#include "session/session_env.h"
#include "session/session_policies.h"
#include "session/sessions.h"
#include <fcntl.h>
#include <inttypes.h>

#define CREATE_MS 30000 /* for the launcher's answer */
#define POLICY_OBSERVE "observe"
#define START_DIR "/workspace"
#define SESSION_FDS 24

/* The command line accepts these words in the place of an id: `agentsh events query`. */
static const char *const reserved[] = {"query", "tail", "list", "watch", "show", "grants"};

static bool is_reserved(const char *id)
{
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		if (strcmp(id, reserved[i]) == 0)
			return true;
	return false;
}

static int check_request(const struct sessions *ss, const struct caller *who,
			 const struct session_request *w, struct err *err)
{
	const char *policy = w->policy != NULL ? w->policy : ss->deps.config->policy_default;

	if (w->id != NULL && !id_valid(w->id))
		err_detail(err, "id", "must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}");
	else if (w->id != NULL && is_reserved(w->id))
		err_detail(err, "id", "'%s' is a word of the command line, not an id", w->id);
	if (w->workspace == NULL || w->workspace[0] != '/')
		err_detail(err, "workspace", "the absolute path of a directory is needed");
	if (w->working_dir != NULL && w->working_dir[0] != '/')
		err_detail(err, "working_dir", "the absolute path of a directory is needed");
	if (w->agent_id != NULL && strcmp(w->agent_id, who->agent_id) != 0)
		err_detail(err, "agent_id", "the credential is that of '%s'", who->agent_id);
	if (!id_valid(policy))
		err_detail(err, "policy", "not the name of a policy: '%.64s'", policy);
	return err_from_details(err, w->id);
}

/* Checks for the descriptors of a session (link, ring and ack, policy, files of commands) and of
 * the connections to it. Without them a session would be made that cannot be used. */
static int check_descriptors(const struct sessions *ss, struct err *err)
{
	int fd[SESSION_FDS];
	size_t n = 0;
	bool all;

	while (n < SESSION_FDS &&
	       (fd[n] = fcntl(ss->deps.launcher->link.fd, F_DUPFD_CLOEXEC, 3)) != -1)
		n++;
	all = n == SESSION_FDS;
	while (n > 0)
		close(fd[--n]);
	if (!all)
		return err_set(err, E_RESOURCE_LIMIT, NULL,
			       "the server has no file descriptors left for a session "
			       "(RLIMIT_NOFILE)");
	return 0;
}

static int check_caps(const struct sessions *ss, const struct caller *who, struct err *err)
{
	const struct config *config = ss->deps.config;
	const struct session *s;
	int64_t own = 0;

	if (ss->stopping || !ss->ready)
		return err_set(err, E_UNAVAILABLE, NULL, "the server is %s",
			       ss->stopping ? "stopping" : "finding its sessions again");
	if (ss->live >= config->max_sessions)
		return err_set(err, E_RESOURCE_LIMIT, NULL,
			       "%u sessions live already (max_sessions)", ss->live);
	if (check_descriptors(ss, err) < 0)
		return -E_RESOURCE_LIMIT;
	TAILQ_FOREACH (s, &ss->all, all)
		own += !session_is_over(s) && !s->unclaimed &&
		       strcmp(s->agent_id, who->agent_id) == 0;
	if (config->max_sessions_per_agent > 0 && own >= config->max_sessions_per_agent)
		return err_set(err, E_RESOURCE_LIMIT, who->agent_id,
			       "'%s' has %" PRId64 " sessions already (max_sessions_per_agent)",
			       who->agent_id, own);
	return 0;
}

/* Lowers the limits that the session asks for to those of the server, its agent and the policy. */
static void narrow(struct session *s, const struct limits *policy, struct strv *capped)
{
	const struct config *c = s->ss->deps.config;
	const struct limits agent = {.value = {[LIMIT_session_timeout] = c->agent_max_lifetime_ms,
					       [LIMIT_idle_timeout] = c->agent_idle_timeout_ms}};
	struct limits server = c->limits;

	limits_narrow(&server, &agent);
	s->config.limits = s->asked;
	limits_choose(&s->config.limits, &server, policy, s->ss->deps.share_mb, capped);
}

static void copy_request(struct session *s, const struct session_request *w)
{
	const struct config *config = s->ss->deps.config;
	struct session_request *c = &s->config;

	*c = *w;
	c->id = mem_strdup(s->id);
	c->agent_id = mem_strdup(s->agent_id);
	c->workspace = mem_strdup(w->workspace);
	c->policy = mem_strdup(w->policy != NULL ? w->policy : config->policy_default);
	c->background = mem_strdup(w->background != NULL ? w->background : "end");
	c->working_dir = w->working_dir != NULL ? mem_strdup(w->working_dir) : NULL;
	c->unset = (struct strv){0};
	c->allowed_domains = c->blocked_domains = c->allowed_ports = c->environment =
		(struct strv){0};
	strv_copy(&c->allowed_domains, &w->allowed_domains);
	strv_copy(&c->blocked_domains, &w->blocked_domains);
	strv_copy(&c->allowed_ports, &w->allowed_ports);
	strv_copy(&c->environment, &w->environment);
	request_env_strip(&c->environment);
	s->required = limits_walls(&w->limits);
	if (w->allowed_domains.n + w->blocked_domains.n + w->allowed_ports.n > 0)
		s->required |= UINT64_C(1) << WALL_network_rules;
	s->asked = w->limits;
	limits_resolve(&s->asked, s->ss->deps.share_mb);
	narrow(s, &(struct limits){0}, NULL);
}

/* ---- walls ---- */

/* The session's own loopback is its whole network. */
static void set_network_limit(struct session *s)
{
	const enum wall_state now = s->walls.wall[WALL_network_limit].state;

	/* Keep what another process has set. */
	if (s->config.limits.value[LIMIT_max_network_mb] == 0 ||
	    (now != WALL_ABSENT && now != WALL_UNAVAILABLE))
		return;
	if (s->walls.wall[WALL_net_namespace].state == WALL_UP)
		wall_set(&s->walls, WALL_network_limit, WALL_UP,
			 "nothing leaves the session: it has only its own loopback");
	else
		wall_set(&s->walls, WALL_network_limit, WALL_UNAVAILABLE,
			 "max_network_mb: the session's traffic is not counted");
}

/* The entry of the launcher has the scratch space alone. */
static void set_disk_limit(struct session *s)
{
	const char *detail = s->walls.wall[WALL_disk_limit].detail;
	const int64_t mb = s->config.limits.value[LIMIT_max_disk_mb];
	cleanup_free char *scratch = NULL;

	if (mb == 0 || s->walls.wall[WALL_disk_limit].state != WALL_PARTIAL ||
	    !session_ring_named(s, "fs") || !config_fuse(s->ss->deps.config))
		return;
	scratch = mem_strndup(detail, strcspn(detail, ";"));
	wall_set(&s->walls, WALL_disk_limit, WALL_PARTIAL,
		 "%s; %" PRId64 " MB added to the workspace", scratch, mb);
}

void session_take_walls(struct session *s, const struct strv *walls)
{
	struct err err = {0};

	if (wall_unpack(&s->walls, walls, &err) < 0)
		log_error("walls are not understood", "session_id", s->id, "error", err.message);
	set_network_limit(s);
	set_disk_limit(s);
	wall_set(&s->walls, WALL_env_filter, WALL_UP,
		 "built from an allow-list, without the server's own variables");
}

/* ---- asked ---- */

static void create_overdue(void *arg)
{
	session_over(arg, "the launcher does not answer");
}

void session_forget_proof(struct session *s)
{
	if (s->proof_fd != -1)
		close(take_fd(s->proof_fd));
	if (s->proof_key != NULL)
		explicit_bzero(s->proof_key, strlen(s->proof_key));
	free(take(s->proof_key));
}

static void ask_launcher(struct session *s)
{
	struct strv variables = {0};
	struct launcher_create m = {
		.session_id = s->id,
		.workspace = s->config.workspace,
		.policy = s->config.policy,
		.unenforced = s->ss->deps.config->allow_unenforced,
		.background = s->config.background,
		.required = s->required,
		.domains = s->config.allowed_domains,
		.ports = s->config.allowed_ports,
	};
	struct err err = {0};

	for (size_t i = 0; i < s->config.environment.n; i++) {
		const char *one = s->config.environment.v[i];
		cleanup_free char *name = mem_strndup(one, strcspn(one, "="));

		strv_add(&variables, name);
	}
	m.variables = variables;
	msg_put_limits(&s->config.limits, m.old_limits, &m.limits);
	if (s->proof_key != NULL)
		m.key = (struct bytes){(uint8_t *)s->proof_key, strlen(s->proof_key)};
	if (peer_send(s->ss->deps.launcher, MSG_launcher_create, 0, &m, &s->proof_fd,
		      s->proof_fd != -1 ? 1 : 0, &err) != LINK_OK)
		session_over(s, err.message);
	else
		session_after(s, CREATE_MS, create_overdue);
	strv_done(&variables);
	strv_done(&m.limits);
}

static int take_proof(struct session *s, const struct caller *who, struct err *err)
{
	if (who->key[0] != '\0') {
		s->proof_key = mem_strdup(who->key);
		return 0;
	}
	if (who->conn_fd < 0)
		return 0; /* auth.type none: the launcher has the same setting */
	s->proof_fd = fcntl(who->conn_fd, F_DUPFD_CLOEXEC, 3);
	if (s->proof_fd < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot pass the connection on");
	return 0;
}

static int prepare(struct session *s, const struct caller *who,
		   const struct session_request *request, struct err *err)
{
	size_t bytes = 0;

	copy_request(s, request);
	s->owner_uid = who->uid;
	session_is_active(s);
	s->created_us = s->last_activity_us;
	s->created_boot_us = s->active_boot_us;
	s->workspace = mem_strdup(s->config.workspace);
	s->policy_name = mem_strdup(s->config.policy);
	s->cwd = s->config.working_dir != NULL ? path_clean("/", s->config.working_dir)
					       : mem_strdup(START_DIR);
	memcpy(s->request_id, who->request_id, sizeof(s->request_id));
	session_env(s->ss->deps.config, &s->config.environment, &s->env);
	for (size_t i = 0; i < s->env.n; i++)
		bytes += strlen(s->env.v[i]) + 1;
	if (bytes > REQUEST_ENV_MAX) {
		err_detail(err, "environment", "has more than %d bytes with the defaults",
			   REQUEST_ENV_MAX);
		return err_from_details(err, s->id);
	}
	return take_proof(s, who, err);
}

int session_id_taken(const char *id, struct err *err)
{
	char stem[ID_MAX - 15], other[ID_MAX + 1]; /* id_make adds 13 characters */

	snprintf(stem, sizeof(stem), "%s", id);
	id_make(other, stem);
	err_detail(err, "id", "the id is taken; '%s' is free", other);
	return err_set(err, E_CONFLICT, id, "the id is taken; '%s' is free", other);
}

void session_create(struct sessions *ss, const struct caller *who,
		    const struct session_request *request, session_done_fn *done, void *arg)
{
	char id[ID_MAX + 1] = "";
	struct session *s;
	struct err err = {0};
	int r = store_failing(ss->deps.store, &err);

	if (r == 0)
		r = check_request(ss, who, request, &err);
	if (r == 0)
		r = check_caps(ss, who, &err);
	if (r < 0) {
		done(&err, NULL, arg);
		return;
	}
	if (request->id != NULL)
		memcpy(id, request->id, strlen(request->id));
	else
		id_make(id, "session");
	s = session_new(ss, id, who->agent_id);
	s->create_done = done;
	s->create_arg = arg;
	r = prepare(s, who, request, &err);
	if (r == 0 && request->id != NULL)
		r = rows_session_free(ss, id, &err);
	if (r < 0) {
		done(&err, NULL, arg);
	} else {
		rows_session_write(s);
		sessions_add(ss, s);
		session_when_safe(s, ask_launcher);
	}
	session_unref(s);
}

/* ---- answered ---- */

/* A prepared sandbox was of no use, because its file server was stopped or dead. The launcher has
 * thrown the others away, too: the next one is a new one. */
static bool was_the_pool(const struct launcher_refused *m)
{
	return m->code != NULL && err_code_by_name(m->code) == E_UNAVAILABLE &&
	       m->subject != NULL &&
	       strcmp(m->subject, process_table[process_of(PROCESS_AHEAD)].program) == 0;
}

/* The refused session has no row any more, and its id is free. */
static void deleted(struct session *s)
{
	session_done_fn *done = take(s->create_done);

	sessions_drop(s);
	if (done != NULL)
		done(s->refusal, NULL, s->create_arg);
	session_tell_waiters(s, s->refusal);
	sessions_check_stopped(s->ss);
}

/* The session that waits for this answer of the launcher, or NULL. */
static struct session *being_made(struct sessions *ss, const char *id)
{
	struct session *s = sessions_find(ss, id);

	return s != NULL && s->state == SESSION_CREATING && !session_is_linked(s) &&
			       !session_is_over(s)
		       ? s
		       : NULL;
}

void session_on_refused(void *ctx, void *msg, struct link_msg *link)
{
	const struct launcher_refused *m = msg;
	struct session *s = being_made(ctx, m->session_id);

	if (s == NULL)
		return;
	log_info("session refused", "session_id", s->id, "code", m->code, "reason", m->message);
	if (was_the_pool(m) && !s->asked_again) {
		s->asked_again = true;
		ask_launcher(s);
		return;
	}
	session_forget_proof(s);
	s->phase = SESSION_OVER;
	watch_stop(s->timer);
	s->refusal = mem_new(struct err);
	err_set(s->refusal, m->code != NULL ? err_code_by_name(m->code) : E_INTERNAL, m->subject,
		"%s", m->message != NULL ? m->message : "the launcher refused it");
	if (s->refusal->code == E_CONFLICT && strcmp(s->refusal->subject, s->id) == 0)
		session_id_taken(s->id, s->refusal);
	denial_take(s->refusal, m->policy);
	if (s->refusal->code == E_POLICY_DENIED && m->policy == NULL)
		denial_of_choice(s->ss->deps.config, s->refusal);
	if (s->refusal->code == E_POLICY_DENIED)
		policy_violation(s, s->request_id, s->refusal);
	if (s->refusal->code == E_ENFORCEMENT) { /* a wall could not be raised */
		cleanup_free char *reason =
			mem_printf("%s: %s", s->refusal->subject, s->refusal->message);

		session_event(s, EVENT_enforcement_failed, reason);
	}
	rows_session_delete(s);
	session_when_safe(s, deleted);
}

/* Descriptors: link, rings, policy. */
void session_on_created(void *ctx, void *msg, struct link_msg *link)
{
	struct launcher_created *m = msg;
	struct session *s = being_made(ctx, m->session_id);
	const size_t policy = 1 + session_ring_fds(&m->rings);
	struct err err = {0};
	int r;

	if (s == NULL)
		return;
	session_forget_proof(s);
	if (m->workspace != NULL)
		mem_replace(&s->workspace, take(m->workspace));
	if (m->policy_name != NULL)
		mem_replace(&s->policy_name, take(m->policy_name));
	if (m->policy_version != NULL)
		mem_replace(&s->policy_version, take(m->policy_version));
	mem_replace(&s->home, take(m->home));
	session_env_toolchains(&s->env, &m->env);
	s->owner_uid = m->owner_uid;
	session_take_walls(s, &m->walls);
	r = session_policy_take(s, link->nfds > policy ? link->fd[policy] : -1, &err);
	/* The launcher lowers the limits in the same way, and refuses what it cannot enforce. */
	if (r == 0)
		narrow(s, policy_limits(session_policy(s)), &s->capped);
	if (r < 0 || warden_attach(s, &m->rings, link->fd, link->nfds, &err) < 0)
		session_over(s, err.message);
	else
		spare_fill(s);
}

static void ready_committed(struct session *s)
{
	session_done_fn *done;
	cleanup_free char *reason = NULL; /* of a destroy that came meanwhile */

	if (session_is_over(s))
		return;
	log_info("session ready", "session_id", s->id, "agent_id", s->agent_id);
	done = take(s->create_done);
	reason = take(s->end_reason);
	s->request_id[0] = '\0';
	if (done != NULL)
		done(NULL, s, s->create_arg);
	if (reason != NULL)
		session_begin_stop(s, reason, "");
	sessions_check_ready(s->ss);
}

void session_on_ready(struct session *s)
{
	s->phase = SESSION_SETTLED;
	watch_stop(s->timer);
	if (s->settings_due)
		warden_tell_settings(s);
	session_event(s, EVENT_session_created, NULL);
	session_set_state(s, SESSION_READY, NULL);
	rows_session_write(s);
	home_used(s);
	session_policy_save(s);
	session_when_safe(s, ready_committed);
}

/* The wall that a reason of the form "WALL: text" names; NULL if it names no wall. */
static const char *missing_wall(const char *why)
{
	const size_t len = strcspn(why, ":");

	for (unsigned w = 0; why[len] == ':' && w < WALLS; w++) {
		const char *name = wall_name((enum wall)w);

		if (strlen(name) == len && memcmp(name, why, len) == 0)
			return name;
	}
	return NULL;
}

void session_create_ends(struct session *s, const char *why)
{
	if (s->create_done != NULL && missing_wall(why) != NULL)
		session_event(s, EVENT_enforcement_failed, why);
}

void session_create_failed(struct session *s, const char *why)
{
	session_done_fn *done = take(s->create_done);
	const char *wall = missing_wall(why);
	struct err err = {0};

	if (wall != NULL)
		err_set(&err, E_ENFORCEMENT, wall, "session '%s' was not made: %s", s->id, why);
	else
		err_set(&err, s->end_reason != NULL ? E_SESSION_STOPPED : E_UNAVAILABLE, s->id,
			"session '%s' was not made: %s", s->id, why);
	done(&err, NULL, s->create_arg);
}
