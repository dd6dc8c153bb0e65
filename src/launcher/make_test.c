// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

#include <pthread.h>
#include <sys/mount.h>

/* ---- sessions that are made ---- */

static void ses_1_a_session_is_made_for_who_asks(void **state)
{
	struct rig *g = *state;
	struct launcher_created made;
	struct wall_report walls;
	struct link_msg m;
	struct meta meta;
	char expect[64];
	const char *text;

	rig_greeted(g);
	m = rig_make(g, "s.1");
	assert_int_equal(link_unpack(&m, &made, NULL), 0);
	assert_string_equal(made.session_id, "s.1");
	assert_string_equal(made.workspace, g->workspace);
	assert_string_equal(made.policy_name, "observe");
	assert_memory_equal(made.policy_version, "sha256:", 7);
	assert_int_equal(made.owner_uid, rig_uid());
	if (rig_root())
		assert_true(uid_range_has(&g->l.settings.config.session_uids, made.session_uid));
	else
		assert_int_equal(made.session_uid, rig_uid());
	wall_report_init(&walls);
	assert_int_equal(wall_unpack(&walls, &made.walls, NULL), 0);
	assert_int_equal(walls.wall[WALL_process_separation].state,
			 rig_root() ? WALL_UP : WALL_UNAVAILABLE);
	assert_int_equal(m.nfds, 2 * rig_ring_count() + 2);
	assert_int_equal(write(m.fd[2 * rig_ring_count() + 1], "x", 1),
			 -1); /* the policy is sealed */
	assert_int_equal(errno, EPERM);
	rig_rings(&made.rings, m.fd + 1);

	text = rig_hear(m.fd[0]);
	assert_non_null(strstr(text, "id=s.1 "));
	snprintf(expect, sizeof(expect), "Uid:\t%u\t%u\t%u\t%u\n", made.session_uid,
		 made.session_uid, made.session_uid, made.session_uid);
	assert_non_null(strstr(text, expect));
	assert_non_null(strstr(text, "CapPrm:\t0000000000000000\n"));
	assert_non_null(strstr(text, "CapEff:\t0000000000000000\n"));
	assert_non_null(strstr(text, "NoNewPrivs:\t1\n"));
	if (rig_root()) {
		snprintf(expect, sizeof(expect), "Gid:\t%u\t%u\t%u\t%u\n", made.session_uid,
			 made.session_uid, made.session_uid, made.session_uid);
		assert_non_null(strstr(text, expect));
		assert_non_null(strstr(text, "Groups:\t \n"));
		assert_non_null(strstr(text, "CapBnd:\t0000000000000000\n"));
	}

	assert_int_equal(meta_load(g->l.place.sessions_fd, "s.1", &meta, NULL), 0);
	assert_int_equal(meta.uid, made.session_uid);
	assert_int_equal(meta.owner_uid, rig_uid());
	assert_int_equal(meta.n, rig_processes());
	for (size_t i = 0; i < meta.n; i++) {
		const pid_t pid = (pid_t)meta.process[i].pid;

		assert_string_equal(meta.process[i].name, process_table[i].name);
		assert_int_equal(meta_start_time(pid), meta.process[i].start);
		assert_true(i == 0 || (uint64_t)proc_ppid(pid) == meta.process[0].pid);
	}
	assert_true(rig_file(g, "s.1.ring") && rig_file(g, "s.1.ack") && rig_file(g, "s.1.sock"));
	msg_done(MSG_launcher_created, &made);
	link_msg_done(&m);
}

/* stdio, then exactly the descriptors of its arguments: the ring to write, the ack to read. */
static void sbx_6_a_warden_inherits_the_descriptors_of_its_arguments(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	char *at;
	int n = 0, rw = 0, ro = 0;

	rig_greeted(g);
	m = rig_make(g, "s");
	at = strstr(rig_hear(m.fd[0]), "fds=0:2,1:2,2:");
	assert_non_null(at);
	for (char *p = strchr(at, ',') + 1; *p != '\n'; p = strchr(p, ',') + 1, n++) {
		const int access = atoi(strchr(p, ':') + 1);

		rw += access == O_RDWR;
		ro += access == O_RDONLY;
	}
	assert_int_equal(n, 2 + 5 + rig_processes() - 1 + rig_ring_count() - 1);
	/* stdout, listener, a link to the API child and to each process, the ring and the policy;
	 * the ack, and the other rings to see their heads. stderr is the test's. */
	assert_in_range(rw, 4 + rig_processes(), 5 + rig_processes());
	assert_in_range(ro, rig_ring_count(), rig_ring_count() + 1);
	link_msg_done(&m);
}

static void sbx_1_root_never_runs_as_root(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	const struct config *c = &g->l.settings.config;
	struct link_msg m = {0};
	int proof;

	if (!rig_root())
		skip();
	assert_int_equal(chown(g->workspace, 0, 0), 0);
	rig_greeted(g);
	proof = rig_client(g, 0, 0);
	rig_ask(g, 1, &ask, proof);
	rig_skip(g, MSG_launcher_policies);
	assert_true(rig_until(g, rig_received, &m));
	if (m.type == MSG_launcher_created) {
		struct launcher_created made;
		char expect[64];

		assert_int_equal(link_unpack(&m, &made, NULL), 0);
		assert_int_equal(made.owner_uid, 0);
		assert_true(uid_range_has(&c->session_uids, made.session_uid));
		assert_int_equal(made.session_gid, made.session_uid);
		snprintf(expect, sizeof(expect), "Uid:\t%u\t", made.session_uid);
		assert_non_null(strstr(rig_hear(m.fd[0]), expect));
		msg_done(MSG_launcher_created, &made);
	} else {
		/* This file system has no idmapped mounts. */
		struct launcher_refused no;

		assert_int_equal(link_unpack(&m, &no, NULL), 0);
		assert_string_equal(no.code, "E_ENFORCEMENT");
		assert_non_null(strstr(no.message, "allow_unenforced"));
		msg_done(MSG_launcher_refused, &no);
	}
	link_msg_done(&m);
	close(proof);
}

/* A file system inside a file system without idmapped mounts: /proc/sys cannot be a workspace, an
 * overlay of an overlay is not to be had everywhere, so a ramfs stands in. */
static void sbx_1_uid_0_without_capabilities_only_where_configured(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	struct launcher_created made;
	struct launcher_refused no;
	struct wall_report walls;
	struct link_msg m;
	const char *text;
	int proof;

	if (!rig_root() || mount("none", g->workspace, "ramfs", 0, NULL) < 0)
		skip();
	rig_greeted(g);
	proof = rig_client(g, 0, 0);
	rig_ask(g, 1, &ask, proof);
	m = rig_expect(g, MSG_launcher_refused);
	assert_int_equal(link_unpack(&m, &no, NULL), 0);
	assert_string_equal(no.code, "E_ENFORCEMENT");
	assert_non_null(strstr(no.message, "allow_unenforced"));
	msg_done(MSG_launcher_refused, &no);

	strv_add(&g->l.settings.config.allow_unenforced, "uid");
	rig_ask(g, 2, &ask, proof);
	m = rig_expect(g, MSG_launcher_created);
	assert_int_equal(link_unpack(&m, &made, NULL), 0);
	assert_int_equal(made.session_uid, 0);
	wall_report_init(&walls);
	assert_int_equal(wall_unpack(&walls, &made.walls, NULL), 0);
	assert_int_equal(walls.wall[WALL_process_separation].state, WALL_PARTIAL);
	text = rig_hear(m.fd[0]);
	assert_non_null(strstr(text, "Uid:\t0\t0\t0\t0\n"));
	assert_non_null(strstr(text, "CapEff:\t0000000000000000\n"));
	assert_non_null(strstr(text, "CapBnd:\t0000000000000000\n"));
	msg_done(MSG_launcher_created, &made);
	link_msg_done(&m);
	close(proof);
	assert_int_equal(umount2(g->workspace, MNT_DETACH), 0);
}

/* Where owners cannot be mapped a normal user's session has that user's uid, which the wall says.
 */
static void sbx_1_without_idmapped_mounts_a_session_has_its_callers_uid(void **state)
{
	struct rig *g = *state;
	struct launcher_created made;
	struct wall_report walls;
	struct link_msg m;

	if (!rig_root() || mount("none", g->workspace, "ramfs", 0, NULL) < 0)
		skip();
	assert_int_equal(chown(g->workspace, RIG_UID, RIG_GID), 0);
	rig_greeted(g);
	m = rig_make(g, "s");
	assert_int_equal(link_unpack(&m, &made, NULL), 0);
	assert_int_equal(made.session_uid, RIG_UID);
	assert_int_equal(made.session_gid, RIG_GID);
	wall_report_init(&walls);
	assert_int_equal(wall_unpack(&walls, &made.walls, NULL), 0);
	assert_int_equal(walls.wall[WALL_process_separation].state, WALL_PARTIAL);
	assert_non_null(strstr(walls.wall[WALL_process_separation].detail, "ramfs"));
	assert_non_null(strstr(rig_hear(m.fd[0]), "Uid:\t1000\t1000\t1000\t1000\n"));
	msg_done(MSG_launcher_created, &made);
	link_msg_done(&m);
	assert_int_equal(umount2(g->workspace, MNT_DETACH), 0);
}

/* The owner of the files of root's session shows the plan. */
static void sbx_1_with_run_as_owner_it_acts_for_the_owner(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	struct launcher_created made;
	struct link_msg m;
	int proof;

	if (!rig_root())
		skip();
	rig_greeted(g);
	assert_int_equal(config_override("sandbox.run_as=owner", &g->l.settings.config, NULL), 0);
	proof = rig_client(g, 0, 0);
	rig_ask(g, 1, &ask, proof);
	m = rig_expect(g, MSG_launcher_created);
	assert_int_equal(link_unpack(&m, &made, NULL), 0);
	assert_int_equal(made.owner_uid, 0);
	assert_true(uid_range_has(&g->l.settings.config.session_uids, made.session_uid));
	assert_int_equal(g->l.pool.owner_uid, RIG_UID);
	msg_done(MSG_launcher_created, &made);
	link_msg_done(&m);
	close(proof);
}

/* ---- sessions that are not ---- */

static void refused(struct rig *g, const struct launcher_create *ask, int proof, const char *code)
{
	static uint32_t req = 100;
	struct launcher_refused no;
	struct link_msg m;

	rig_ask(g, ++req, ask, proof);
	m = rig_expect(g, MSG_launcher_refused);
	assert_int_equal(m.req, req);
	assert_int_equal(link_unpack(&m, &no, NULL), 0);
	assert_string_equal(no.code, code);
	assert_true(strlen(no.message) > 0);
	msg_done(MSG_launcher_refused, &no);
	link_msg_done(&m);
}

static void ses_3_every_bad_request_is_refused_and_leaves_nothing(void **state)
{
	struct rig *g = *state;
	const struct {
		struct launcher_create ask;
		const char *code;
	} rows[] = {
		{{.session_id = NULL, .workspace = g->workspace}, "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "", .workspace = g->workspace},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "../x", .workspace = g->workspace},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) ".x", .workspace = g->workspace},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "a/b", .workspace = g->workspace},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s"}, "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s", .workspace = (char *)(uintptr_t) "work"},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s", .workspace = (char *)(uintptr_t) ""},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s",
		  .workspace = (char *)(uintptr_t) "/nowhere/at/all"},
		 "E_NOT_FOUND"},
		{{.session_id = (char *)(uintptr_t) "s",
		  .workspace = (char *)(uintptr_t) "/etc/passwd"},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s",
		  .workspace = g->workspace,
		  .policy = (char *)(uintptr_t) "none-such"},
		 "E_BAD_REQUEST"},
		{{.session_id = (char *)(uintptr_t) "s",
		  .workspace = g->workspace,
		  .unenforced = {(char *[]){(char *)(uintptr_t) "seccomp"}, 1}},
		 "E_FORBIDDEN"},
	};
	const int proof = rig_client(g, rig_uid(), RIG_GID);

	rig_greeted(g);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		refused(g, &rows[i].ask, proof, rows[i].code);
		assert_true(TAILQ_EMPTY(&g->l.entries));
		assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	}
	close(proof);
}

static void ses_3_what_may_be_missing_is_what_the_configuration_lists(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	const int proof = rig_client(g, rig_uid(), RIG_GID);

	rig_greeted(g);
	strv_add(&g->l.settings.config.allow_unenforced, "uts_namespace");
	strv_add(&ask.unenforced, "uts_namespace");
	ask.background = (char *)(uintptr_t) "keep";
	ask.policy = NULL;
	rig_ask(g, 1, &ask, proof);
	rig_skip(g, MSG_launcher_created);
	strv_add(&ask.unenforced, "uts_namespaces");
	ask.session_id = (char *)(uintptr_t) "t";
	refused(g, &ask, proof, "E_FORBIDDEN");
	strv_done(&ask.unenforced);
	close(proof);
}

/* What a policy was found to cover costs no other look. */
static void ses_3_a_request_like_one_before_needs_no_check(void **state)
{
	struct rig *g = *state;
	char *variable[] = {(char[]){"LANG"}}, *other[] = {(char[]){"TERM"}};
	struct launcher_create ask = rig_request(g, "s");
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	const char *const ids[] = {"first", "second"};

	rig_greeted(g);
	ask.variables = (struct strv){variable, 1};
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		ask.session_id = (char *)(uintptr_t)ids[i];
		rig_ask(g, 7, &ask, proof);
		rig_skip(g, MSG_launcher_created);
		mem_cleanup_fd(&g->l.programs.fd[PROGRAM_CHECK]);
		g->l.programs.fd[PROGRAM_CHECK] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	ask.session_id = (char *)(uintptr_t) "third";
	ask.variables = (struct strv){other, 1};
	refused(g, &ask, proof, "E_UNAVAILABLE");
	ask.variables = (struct strv){0};
	ask.domains = (struct strv){variable, 1};
	refused(g, &ask, proof, "E_UNAVAILABLE");
	close(proof);
}

static void ses_3_only_admins_choose_any_policy(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	struct config *c = &g->l.settings.config;
	int proof;

	rig_greeted(g);
	assert_int_equal(config_override("policies.default=strict", c, NULL), 0);
	assert_int_equal(config_override("policies.selectable=ci", c, NULL), 0);
	assert_int_equal(config_override("sandbox.allow_unenforced=file_rules", c, NULL), 0);
	ask.policy = (char *)(uintptr_t) "observe";
	if (rig_root()) {
		proof = rig_client(g, RIG_UID, RIG_GID);
		refused(g, &ask, proof, "E_POLICY_DENIED");
		assert_false(session_files_any(g->l.place.sessions_fd, "s"));
		ask.policy = (char *)(uintptr_t) "ci";
		ask.session_id = (char *)(uintptr_t) "chosen";
		rig_ask(g, 1, &ask, proof);
		rig_skip(g, MSG_launcher_created);
		ask.policy = (char *)(uintptr_t) "observe";
		ask.session_id = (char *)(uintptr_t) "s";
		close(proof);
	}
	proof = rig_client(g, geteuid(), getegid());
	rig_ask(g, 1, &ask, proof);
	rig_skip(g, MSG_launcher_created);
	close(proof);
}

static void api_3_without_a_proof_nobody_gets_a_session(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	uint8_t key[128];

	memset(key, 'k', sizeof(key));
	rig_greeted(g);
	refused(g, &ask, -1, "E_UNAUTHENTICATED");
	refused(g, &ask, null, "E_UNAUTHENTICATED");
	refused(g, &ask, g->l.place.unix_fd, "E_UNAUTHENTICATED");
	ask.key = (struct bytes){key, sizeof(key)};
	refused(g, &ask, -1, "E_UNAUTHENTICATED");
	assert_true(TAILQ_EMPTY(&g->l.entries));
	close(null);
}

static void api_3_another_uids_workspace_is_refused(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	cleanup_free char *set = NULL;
	int proof;

	if (!rig_root())
		skip();
	set = mem_printf("sandbox.workspaces=%s", g->dir);
	rig_greeted(g);
	proof = rig_client(g, RIG_UID + 1, RIG_GID);
	refused(g, &ask, proof, "E_FORBIDDEN");
	/* Listed, it is open to all; the files are the caller's. */
	assert_int_equal(config_override(set, &g->l.settings.config, NULL), 0);
	rig_ask(g, 1, &ask, proof);
	rig_skip(g, MSG_launcher_created);
	assert_int_equal(entry_find(&g->l, "s")->meta.owner_uid, RIG_UID + 1);
	assert_int_equal(g->l.pool.owner_uid, RIG_UID + 1);
	close(proof);
	proof = rig_client(g, g->l.settings.config.api_uid, RIG_GID);
	ask.session_id = (char *)(uintptr_t) "t";
	refused(g, &ask, proof, "E_FORBIDDEN");
	close(proof);
}

static void sbx_6_the_servers_own_directory_is_no_workspace(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	cleanup_free char *beside = NULL;
	int proof;

	if (!rig_root())
		skip();
	beside = mem_printf("%s/ru", g->dir);
	rig_greeted(g);
	proof = rig_client(g, 0, 0);
	ask.workspace = g->dir;
	refused(g, &ask, proof, "E_FORBIDDEN");
	ask.workspace = g->l.place.runtime;
	refused(g, &ask, proof, "E_FORBIDDEN");
	ask.workspace = (char *)(uintptr_t) "/etc";
	refused(g, &ask, proof, "E_FORBIDDEN");
	/* A path that only begins alike is another place. */
	assert_int_equal(mkdir(beside, 0755), 0);
	assert_int_equal(chown(beside, RIG_UID, RIG_GID), 0);
	assert_int_equal(config_override("sandbox.run_as=owner", &g->l.settings.config, NULL), 0);
	ask.workspace = beside;
	rig_ask(g, 1, &ask, proof);
	rig_skip(g, MSG_launcher_created);
	close(proof);
}

static void ses_1_an_id_is_taken_until_its_files_are_gone(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct link_msg m;

	rig_greeted(g);
	m = rig_make(g, "s");
	refused(g, &ask, proof, "E_CONFLICT");
	link_msg_done(&m);
	close(openat(g->l.place.sessions_fd, "t.ring", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	ask.session_id = (char *)(uintptr_t) "t";
	refused(g, &ask, proof, "E_CONFLICT");
	assert_true(rig_file(g, "t.ring"));
	close(proof);
}

static void ses_5_there_is_an_end_to_the_number_of_sessions(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "c");
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct link_msg m;

	g->l.settings.config.max_sessions = 2;
	rig_greeted(g);
	m = rig_make(g, "a");
	link_msg_done(&m);
	m = rig_make(g, "b");
	link_msg_done(&m);
	refused(g, &ask, proof, "E_RESOURCE_LIMIT");
	g->l.settings.config.max_sessions = 3;
	m = rig_make(g, "c");
	link_msg_done(&m);
	close(proof);
}

static void ses_8_a_stopping_server_makes_no_sessions(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s");
	const int proof = rig_client(g, rig_uid(), RIG_GID);

	rig_greeted(g);
	g->l.stopping = g->l.api.stop_told = true;
	refused(g, &ask, proof, "E_UNAVAILABLE");
	close(proof);
}

static void broken_program(struct rig *g, int *program, const char *code)
{
	const struct launcher_create ask = rig_request(g, "s");
	const int proof = rig_client(g, rig_uid(), RIG_GID);

	rig_greeted(g);
	close(*program);
	*program = open("/dev/null", O_RDONLY | O_CLOEXEC);
	refused(g, &ask, proof, code);
	assert_true(rig_until(g, rig_no_entries, NULL));
	assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	assert_int_equal(g->l.alive, 0);
	assert_int_equal(rig_entries(g), 0);
	close(proof);
}

static void ses_2_a_warden_that_cannot_start_is_an_answer(void **state)
{
	struct rig *g = *state;

	broken_program(g, &g->l.programs.fd[process_of(PROCESS_MAIN)], "E_UNAVAILABLE");
}

static void ses_2_an_init_that_cannot_start_is_an_answer(void **state)
{
	struct rig *g = *state;

	broken_program(g, &g->l.programs.fd[process_of(PROCESS_INSIDE)], "E_UNAVAILABLE");
}

static bool children_stay;

/* Called in each child that is forked. */
static void stay(void)
{
	while (children_stay)
		pause();
}

/* A session with a stub that has its assignment and is stopped. */
static struct session_entry *begin_for_ever(struct rig *g, int proof)
{
	const struct launcher_create ask = rig_request(g, "s");

	rig_greeted(g);
	rig_use_policy(g);
	rig_ask(g, 5, &ask, proof);
	children_stay = true;
	while (TAILQ_EMPTY(&g->l.entries))
		loop_settle(g->l.loop);
	children_stay = false;
	return TAILQ_FIRST(&g->l.entries);
}

static void ses_2_a_stub_that_dies_is_an_answer(void **state)
{
	struct rig *g = *state;
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct launcher_refused no;
	struct link_msg m;

	proc_pidfd_signal(begin_for_ever(g, proof)->warden.pidfd, SIGKILL);
	m = rig_expect(g, MSG_launcher_refused);
	assert_int_equal(m.req, 5);
	assert_int_equal(link_unpack(&m, &no, NULL), 0);
	assert_string_equal(no.code, "E_INTERNAL");
	msg_done(MSG_launcher_refused, &no);
	link_msg_done(&m);
	assert_true(rig_until(g, rig_no_entries, NULL));
	assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	close(proof);
}

static void ses_8_a_session_that_nobody_waits_for_is_dropped(void **state)
{
	struct rig *g = *state;
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct session_entry *w = begin_for_ever(g, proof);

	assert_int_equal(w->state, ENTRY_MAKING);
	make_abandon(w);
	assert_true(rig_until(g, rig_no_entries, NULL));
	assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	close(proof);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(ses_1_a_session_is_made_for_who_asks),
		T(sbx_6_a_warden_inherits_the_descriptors_of_its_arguments),
		T(sbx_1_root_never_runs_as_root),
		T(sbx_1_uid_0_without_capabilities_only_where_configured),
		T(sbx_1_without_idmapped_mounts_a_session_has_its_callers_uid),
		T(sbx_1_with_run_as_owner_it_acts_for_the_owner),
		T(ses_3_every_bad_request_is_refused_and_leaves_nothing),
		T(ses_3_what_may_be_missing_is_what_the_configuration_lists),
		T(ses_3_only_admins_choose_any_policy),
		T(ses_3_a_request_like_one_before_needs_no_check),
		T(api_3_without_a_proof_nobody_gets_a_session),
		T(api_3_another_uids_workspace_is_refused),
		T(sbx_6_the_servers_own_directory_is_no_workspace),
		T(ses_1_an_id_is_taken_until_its_files_are_gone),
		T(ses_5_there_is_an_end_to_the_number_of_sessions),
		T(ses_8_a_stopping_server_makes_no_sessions),
		T(ses_2_a_warden_that_cannot_start_is_an_answer),
		T(ses_2_an_init_that_cannot_start_is_an_answer),
		T(ses_2_a_stub_that_dies_is_an_answer),
		T(ses_8_a_session_that_nobody_waits_for_is_dropped),
	};

	rig_main(argv);
	pthread_atfork(NULL, NULL, stay);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
