// SPDX-License-Identifier: Apache-2.0
/* A request for a session: everything in it is checked as if an attacker had written it. Then the
 * session is made (make.c), at once or when agentsh-check has answered about its policy. */
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include "launcher/own_dir.h"
#include "launcher/policy_snapshots.h"
#include <fcntl.h>
#include <stdio.h>

#define COVERED_MAX 64
#define DEAD_MAX 1024 /* ended sessions that wait for the API child to drain them */

static int check_request(struct launcher *l, const struct launcher_create *a, struct err *err)
{
	const uint64_t max = (uint64_t)l->settings.config.max_sessions;
	const struct session_entry *w;
	size_t living = 0, dead = 0;

	if (!id_valid(a->session_id))
		return err_set(err, E_BAD_REQUEST, "id", "not a session id");
	if (a->workspace == NULL || a->workspace[0] != '/')
		return err_set(err, E_BAD_REQUEST, "workspace",
			       "the workspace must be an absolute path");
	if (entry_find(l, a->session_id) != NULL ||
	    session_files_any(l->place.sessions_fd, a->session_id))
		return err_set(err, E_CONFLICT, a->session_id, "the id is taken");
	if (l->stopping)
		return err_set(err, E_UNAVAILABLE, NULL, "the server is stopping");
	/* A session that the API child has removed is about to end and does not count. */
	TAILQ_FOREACH (w, &l->entries, next) {
		dead += w->warden.pidfd == -1;
		living += w->warden.pidfd != -1 && !w->removed;
	}
	if (living >= max)
		return err_set(err, E_RESOURCE_LIMIT, "sessions.max_sessions",
			       "%zu sessions live, sessions.max_sessions is %llu", living,
			       (unsigned long long)max);
	if (dead >= DEAD_MAX)
		return err_set(err, E_UNAVAILABLE, NULL, "%zu ended sessions wait to be removed",
			       dead);
	return 0;
}

static const char *policy_of(const struct launcher *l, const struct launcher_create *ask)
{
	return ask->policy != NULL ? ask->policy : l->settings.config.policy_default;
}

/* Exactly one proof. With auth.type none a TCP connection speaks for server.auth.none_as; on a
 * normal user's server, for that user. config_check has seen to it that this is not root. */
static int prove(const struct launcher *l, struct creation *c, const struct link_msg *m,
		 struct err *err)
{
	uid_t speaker;

	if (c->ask.key.len > 0)
		return requester_has_key(&l->settings.keys, &c->ask.key, &c->who, err);
	if (m->nfds != 1)
		return err_set(err, E_UNAUTHENTICATED, NULL,
			       "neither a key nor a connection proves who asks");
	if (strcmp(l->settings.config.auth_type, "none") != 0 ||
	    !requester_by_tcp(&l->place, m->fd[0]))
		return requester_connected(&l->place, l->privileged, m->fd[0], &c->who, err);
	speaker = l->privileged ? l->settings.config.none_as : l->owner_uid;
	if (l->privileged && speaker == 0)
		return err_set(err, E_UNAUTHENTICATED, NULL, "server.auth.none_as is not set");
	c->who = (struct requester){speaker, requester_primary_gid(speaker)};
	snprintf(c->who.agent, sizeof(c->who.agent), l->privileged ? "uid-%u" : "anonymous",
		 speaker);
	return 0;
}

/* ---- the policy ---- */

/* Whether only agentsh-check can answer this request. */
static bool must_ask(const struct launcher *l, const struct creation *c)
{
	const struct checked *known = policies_find(l, policy_of(l, &c->ask));

	return c->own_dir != NULL || known == NULL || known->stale ||
	       (c->hash[0] != '\0' && !strv_has(&known->covered, c->hash));
}

/* Requests are often alike: a policy keeps the hashes of those that it covers. */
static void hash_request(const struct launcher_create *ask, char out[HASH_HEX])
{
	const struct strv *const lists[] = {&ask->domains, &ask->ports, &ask->variables};
	cleanup_buf struct buf text = {0};
	uint8_t digest[HASH_LEN];

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++) {
			buf_addc(&text, (char)('0' + i));
			buf_add(&text, lists[i]->v[k], strlen(lists[i]->v[k]) + 1);
		}
	if (text.len == 0)
		return;
	hash_sha256(digest, text.data, text.len, NULL, 0);
	hash_hex(out, digest);
}

/* Without namespaces the policy is compiled for the session's own directories. */
static void add_own_places(const struct creation *c, struct check_ask *ask)
{
	cleanup_free char *tmp = mem_printf("%s/%s", c->own_dir, SANDBOX_OWN_TMP);

	ask->workspace = mem_strdup(c->workspace);
	ask->home = c->home != NULL ? mem_strdup(c->home)
				    : mem_printf("%s/%s", c->own_dir, SANDBOX_OWN_HOME);
	strv_add(&ask->places, c->workspace);
	strv_add(&ask->places, ask->home);
	strv_add(&ask->places, tmp);
}

static bool creation_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			     int *snapshot)
{
	struct creation *c = (struct creation *)job;
	char *name = (char *)(uintptr_t)policy_of(l, &c->ask);
	const struct checked *known = policies_find(l, name);

	if (!must_ask(l, c))
		return false;
	strv_copy(&ask->domains, &c->ask.domains);
	strv_copy(&ask->ports, &c->ask.ports);
	strv_copy(&ask->variables, &c->ask.variables);
	if (c->own_dir != NULL)
		add_own_places(c, ask);
	else if (known != NULL)
		*snapshot = fcntl(known->fd, F_DUPFD_CLOEXEC, 3);
	policies_question(l, &(struct strv){&name, 1}, *snapshot == -1, ask);
	return true;
}

static void creation_done(struct creation *c)
{
	msg_done(MSG_launcher_create, &c->ask);
	free(c->workspace);
	free(c->own_dir);
	free(c->home);
}

/* agentsh-check has answered, or did not have to. */
static int go_on(struct launcher *l, struct creation *c, struct checked *got, struct err *err)
{
	c->policy = policies_find(l, policy_of(l, &c->ask));
	if (got != NULL && got->fd == -1)
		return checked_error(got, err);
	if (got != NULL) {
		const bool covered = checked_error(got, &c->uncovered) == 0 && c->own_dir == NULL;

		if (c->policy == NULL && c->own_dir == NULL)
			c->policy = policies_add(l, got);
		if (covered && c->hash[0] != '\0' && c->policy->covered.n < COVERED_MAX)
			strv_add_new(&c->policy->covered, c->hash);
		if (got->fd != -1) /* else it was added */
			c->policy = got;
	}
	return make_session(l, c, err);
}

static void creation_checked(struct launcher *l, struct check_job *job, struct checked *got,
			     size_t n)
{
	struct creation *c = (struct creation *)job;
	struct err why = {0};

	if (l->api.peer.link.fd != -1 && c->asked_by == l->api.started_us &&
	    (check_request(l, &c->ask, &why) < 0 || go_on(l, c, n > 0 ? got : NULL, &why) < 0))
		api_link_refuse(l, c->req, c->ask.session_id, &why);
	creation_done(c);
	free(c);
}

/* Of a session without namespaces. */
static void choose_places(const struct launcher *l, struct creation *c)
{
	const struct config *config = &l->settings.config;
	char name[HOME_NAME];

	c->workspace = realpath(c->ask.workspace, NULL);
	if (c->workspace == NULL) /* make_session will fail to open it, too */
		c->workspace = mem_strdup(c->ask.workspace);
	c->own_dir = own_dir_path(l, c->ask.session_id);
	if (strcmp(config->home, "workspace") != 0)
		return;
	home_name(&(struct home_key){c->who.uid, c->who.agent, policy_of(l, &c->ask), c->workspace},
		  name);
	c->home = home_path(config->base_dir, name);
}

/* ---- the request ---- */

void admit_session(void *launcher, void *msg, struct link_msg *m)
{
	struct launcher *l = launcher;
	struct launcher_create *ask = msg;
	struct creation *c, now = {.req = m->req, .asked_by = l->api.started_us, .ask = *ask};
	struct err why = {0};
	int r;

	*ask = (struct launcher_create){0};
	launcher_look(l);
	hash_request(&now.ask, now.hash);
	r = check_request(l, &now.ask, &why);
	if (r == 0)
		r = prove(l, &now, m, &why);
	if (r == 0 && !now.who.admin)
		r = policies_selectable(&l->settings.config, policy_of(l, &now.ask), &why);
	if (r == 0 && sandbox_without_namespaces(&(struct sandbox_plan){
			      .privileged = l->privileged, .unenforced = now.ask.unenforced})) {
		choose_places(l, &now);
	}
	if (r == 0 && must_ask(l, &now)) {
		c = mem_dup(&now, sizeof(now));
		c->job = (struct check_job){.prepare = creation_prepare, .done = creation_checked};
		check_start(l, &c->job);
		return;
	}
	if (r == 0)
		r = go_on(l, &now, NULL, &why);
	if (r < 0)
		api_link_refuse(l, m->req, now.ask.session_id, &why);
	creation_done(&now);
}
