// SPDX-License-Identifier: Apache-2.0
/* What a session sees of the machine: /etc, the file-system lists, its network, root inside.
 * Sessions are made by root and by a normal user; each test makes its own. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "spawn/testkit/init_testkit.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define UID 64999

static bool ready, by_root;
static char data[128]; /* a directory of the host, outside the workspace */

static void plan_for(struct box_session *s)
{
	if (!ready) {
		print_message("# skipped: agentsh-init and agentsh-state are not built beside the "
			      "test, or not root\n");
		skip();
	}
	*s = (struct box_session){0};
	box_plan(&s->plan, by_root ? UID : geteuid(), by_root);
	s->plan.idmap = by_root;
}

static void open_planned(struct box_session *s)
{
	box_open(s, by_root ? 0 : geteuid());
}

/* The session must not start, and say this. */
static void expect_no_session(struct box_session *s, const char *wall, const char *text)
{
	struct init_failed failed;
	struct link_msg m;

	box_start(s, by_root ? 0 : geteuid(), &m);
	assert_int_equal(m.type, MSG_init_failed);
	assert_int_equal(link_unpack(&m, &failed, NULL), 0);
	assert_string_equal(failed.wall, wall);
	if (strstr(failed.message, text) == NULL)
		fail_msg("'%s' has no '%s'", failed.message, text);
	msg_done(MSG_init_failed, &failed);
	link_done(&s->init);
	assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
	sandbox_plan_done(&s->plan);
}

static void fil_6_the_home_of_sessions_is_not_covered(void **state)
{
	static const char *const bad[] = {"/home", "/home/agent"};
	struct box_session s;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (access(bad[i], F_OK) < 0)
			continue;
		plan_for(&s);
		strv_add(&s.plan.read_only_paths, bad[i]);
		expect_no_session(&s, "mount_namespace", "the home of sessions is in it");
	}
	plan_for(&s);
	strv_add(&s.plan.read_only_paths, "/var");
	open_planned(&s);
	box_expect(&s, "touch /var/tmp/x $HOME/x && touch /var/x 2>/dev/null || ls -d /var/lib",
		   "/var/lib\n");
	box_close(&s);
}

static void sbx_1_etc_is_a_list_with_users_of_its_own(void **state)
{
	struct box_session s;
	cleanup_free char *users = NULL;

	plan_for(&s);
	users = mem_printf("root:x:0:0:root:/:/bin/sh\n"
			   "agent:x:%u:%u:session:/home/agent:/bin/sh\n"
			   "nobody:x:65534:65534:nobody:/:/bin/false\n"
			   "root:x:0:\nagent:x:%u:\nnogroup:x:65534:\nagent\n",
			   s.plan.uid, s.plan.gid, s.plan.gid);
	open_planned(&s);
	box_expect(&s, "cat /etc/passwd /etc/group; id -un", users);
	box_expect(&s,
		   "ls /etc/shadow /etc/gshadow /etc/crontab /etc/ssl/private /etc/pam.d "
		   "/etc/fstab /etc/machine-id 2>/dev/null; echo none",
		   "none\n");
	box_expect(&s,
		   "cat /etc/hostname; grep -c session-test /etc/hosts; grep ^passwd "
		   "/etc/nsswitch.conf",
		   "session-test\n1\npasswd: files\n");
	box_expect(&s, "test -s /etc/ld.so.cache && test -r /etc/os-release && echo there",
		   "there\n");
	box_expect(
		&s,
		"for f in passwd ld.so.cache new; do (echo x >> /etc/$f) 2>/dev/null && echo $f; "
		"done; rm -f /etc/passwd 2>/dev/null; test -e /etc/passwd && echo stays",
		"stays\n");
	box_expect(&s, "grep ' /etc/' /proc/self/mounts | grep -vc ' ro,nosuid,nodev'; true",
		   "0\n");
	box_close(&s);
}

static void sbx_1_only_loopback_is_there(void **state)
{
	struct box_session s;

	plan_for(&s);
	open_planned(&s);
	assert_int_equal(s.walls.wall[WALL_net_namespace].state, WALL_UP);
	box_expect(
		&s,
		"sed 1,2d /proc/net/dev | tr -d ' ' | cut -d: -f1; cut -c1-32 /proc/net/if_inet6 "
		"2>/dev/null | head -n 1; sed 1d /proc/net/route; cut -d: -f3 /proc/self/cgroup | "
		"sort -u",
		"lo\n00000000000000000000000000000001\n/\n");
	box_close(&s);
}

/* A missing namespace is a missing wall; if it may be missing, the report has it. */
static void sbx_1_namespaces_are_other_than_ours(void **state)
{
	static const char *const names[] = {"mnt", "pid", "net", "ipc", "uts", "cgroup"};
	struct box_session s;

	plan_for(&s);
	open_planned(&s);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cleanup_free char *ours = mem_printf("/proc/self/ns/%s", names[i]);
		cleanup_free char *ask = mem_printf("readlink /proc/self/ns/%s", names[i]);
		struct box_run run;
		char name[64];
		const ssize_t n = readlink(ours, name, sizeof(name) - 2);

		assert_true(n > 0);
		name[n] = '\n';
		name[n + 1] = '\0';
		assert_int_equal(box_script(&s, ask, &run), 0);
		assert_true(strncmp(run.text.data, names[i], strlen(names[i])) == 0);
		assert_string_not_equal(run.text.data, name);
		box_run_done(&run);
	}
	box_close(&s);
}

static void put(const char *name, const char *text)
{
	cleanup_free char *path = mem_printf("%s/%s", data, name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
}

static char *under(const char *name)
{
	return mem_printf("%s/%s", data, name);
}

static void list(struct strv *paths, const char *name)
{
	cleanup_free char *path = under(name);

	strv_add(paths, path);
}

static void fil_6_lists_say_what_is_seen_and_how(void **state)
{
	cleanup_free char *script = NULL;
	struct box_session s;

	plan_for(&s);
	list(&s.plan.passthrough_paths, "open");
	list(&s.plan.read_only_paths, "open/shut"); /* below one that is open */
	list(&s.plan.read_only_paths, "file");
	list(&s.plan.monitored_paths, "watched");
	list(&s.plan.monitored_paths, "missing");
	list(&s.plan.read_only_paths, "link"); /* leads to a place that is not listed */
	list(&s.plan.read_only_paths, "here"); /* leads to one that is */
	list(&s.plan.read_only_paths, "up");   /* through the root's `..` */
	strv_add(&s.plan.monitored_paths, "/workspace");
	open_planned(&s);
	script = mem_printf(
		"cd %s; ls; for f in open/a open/shut/b watched/c file link/d; do (echo x > $f) "
		"2>/dev/null && echo $f; done; cat file open/shut/e link/d up/d; test -L here && "
		"echo "
		"inside; cat "
		"here/e; "
		"test -L link || echo mounted; rm open/a watched/c",
		data);
	box_expect(&s, script,
		   "file\nhere\nlink\nopen\nup\nwatched\nopen/a\nwatched/"
		   "c\nfile\nshut\nhidden\nhidden\n"
		   "inside\nshut\nmounted\n");
	box_expect(&s, "grep 'nosuid,nodev' /proc/self/mounts | grep -c /view-data/open", "2\n");
	box_close(&s);
}

static void fil_6_the_system_stays_read_only_in_every_list(void **state)
{
	struct box_session s;

	plan_for(&s);
	strv_add(&s.plan.passthrough_paths, "/usr/share");
	strv_add(&s.plan.monitored_paths, "/etc/shells");
	open_planned(&s);
	box_expect(&s,
		   "grep -E ' /(usr/share|etc/shells) ' /proc/self/mounts | grep -c ' "
		   "ro,nosuid,nodev'; "
		   "ls -d /usr/share",
		   "2\n/usr/share\n");
	box_close(&s);
}

static void fil_6_blocked_paths_cannot_be_opened(void **state)
{
	cleanup_free char *secret = mem_printf("%s/secret", box_workspace);
	cleanup_free char *keys = mem_printf("%s/keys", box_workspace);
	struct box_session s;

	plan_for(&s);
	assert_int_equal(mkdir(keys, 0777), 0);
	assert_int_equal(mknod(secret, S_IFREG | 0666, 0), 0);
	strv_add(&s.plan.blocked_paths, "/workspace/secret");
	strv_add(&s.plan.blocked_paths, "/workspace/keys");
	strv_add(&s.plan.blocked_paths, "/workspace/none");
	strv_add(&s.plan.blocked_paths, "/usr/share/doc");
	strv_add(&s.plan.blocked_paths, "/bin/cat"); /* through a link of the root */
	strv_add(&s.plan.read_only_paths, "/workspace/keys");
	open_planned(&s);
	box_expect(
		&s,
		"for f in secret keys/x; do (: < $f) 2>/dev/null && echo read $f; "
		"(: >> $f) 2>/dev/null && echo wrote $f; chmod 777 $f 2>/dev/null && echo took $f; "
		"done; ls keys /usr/share/doc 2>/dev/null; /usr/bin/cat /dev/null 2>/dev/null || "
		"echo no cat; "
		"rm -rf secret keys 2>/dev/null; ls -d keys secret; touch other && rm other",
		"no cat\nkeys\nsecret\n");
	box_close(&s);
	unlink(secret);
	rmdir(keys);
}

static void run_plain(const char *script)
{
	struct box_session s;

	plan_for(&s);
	open_planned(&s);
	box_expect(&s, script, "");
	box_close(&s);
}

/* FIL-6: if a directory above a covered path could be moved, the next session would see the path.
 */
static void fil_6_what_is_covered_stays_where_it_is(void **state)
{
	static const char *const paths[] = {"/workspace/a/b/secret", "/workspace/a/b/other",
					    "/workspace/a/none"};
	struct box_session s;

	run_plain("mkdir -p a/b a/c; echo x > a/b/secret; echo y > a/b/other");
	for (int i = 0; i < 2; i++) {
		plan_for(&s);
		for (size_t k = 0; k < ARRAY_LEN(paths); k++)
			strv_add(&s.plan.blocked_paths, paths[k]);
		strv_add(&s.plan.read_only_paths, "/workspace/a/c");
		open_planned(&s);
		box_expect(&s,
			   "exec 2>/dev/null; mv a z && echo moved; mv a/b a/z && echo moved; "
			   "mv a/c a/z && echo moved; cat a/b/secret a/b/other; echo > a/c/x && "
			   "echo wrote; echo new > a/b/n && mv a/b/n a/n && cat a/n && rm a/n",
			   "new\n");
		box_close(&s);
	}
	run_plain("rm -r a");
}

static void fil_6_the_workspace_can_be_read_only_in_part(void **state)
{
	cleanup_free char *dir = mem_printf("%s/shut", box_workspace);
	struct box_session s;

	plan_for(&s);
	assert_int_equal(mkdir(dir, 0777), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	strv_add(&s.plan.read_only_paths, "/workspace/shut");
	open_planned(&s);
	box_expect(&s, "touch shut/x 2>/dev/null && echo wrote; touch y && rm y && echo open",
		   "open\n");
	box_close(&s);
	rmdir(dir);
}

/* Neither by a link, nor by `..`, nor because something is mounted there. */
static void fil_6_the_machine_is_in_no_list(void **state)
{
	static const char *const bad[] = {
		"/proc", "/sys/kernel", "/dev", "/usr/../proc/self", "/run/agentsh", "/"};
	struct box_session s;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (access(bad[i], F_OK) < 0)
			continue;
		plan_for(&s);
		strv_add(&s.plan.passthrough_paths, bad[i]);
		expect_no_session(&s, "mount_namespace", "the file-system lists must not show");
	}
	plan_for(&s);
	list(&s.plan.read_only_paths, "to-proc");
	expect_no_session(&s, "mount_namespace", "/to-proc: it leads to /proc/sys");
	plan_for(&s);
	list(&s.plan.read_only_paths, "open");
	list(&s.plan.kept_out, "open/shut");
	expect_no_session(&s, "mount_namespace",
			  "/open/shut, which is the machine's or the server's");
}

/* FIL-6: a session does not see the directories of a server below /opt or /usr. */
static void fil_6_the_servers_own_below_the_systems_is_covered(void **state)
{
	cleanup_free char *dir = mem_printf("/opt/agentsh-test-%d", (int)getpid());
	cleanup_free char *script =
		mem_printf("ls %s 2>/dev/null || echo shut; ls -d /opt/agentsh-test-*", dir);
	cleanup_free char *expected = mem_printf("shut\n%s\n", dir);
	struct box_session s;

	if (!by_root) /* cannot make one there */
		return;
	assert_int_equal(mkdir(dir, 0755), 0);
	plan_for(&s);
	strv_add(&s.plan.read_only_paths, "/opt");
	strv_add(&s.plan.kept_out, dir);
	box_open(&s, 0);
	box_expect(&s, script, expected);
	box_close(&s);
	rmdir(dir);
}

static void fil_6_a_proc_below_a_listed_path_is_found(void **state)
{
	struct box_session s;

	if (!by_root) /* no process has mounted it */
		return;
	plan_for(&s);
	list(&s.plan.read_only_paths, "jail");
	expect_no_session(&s, "mount_namespace", "/jail/proc");
}

static void sbx_1_root_inside_is_only_a_name(void **state)
{
	struct box_session s;
	struct stat st;
	cleanup_free char *file = mem_printf("%s/made", box_workspace);

	plan_for(&s);
	s.plan.root_inside = 1;
	open_planned(&s);
	assert_int_equal(s.walls.wall[WALL_user_namespace].state, WALL_UP);
	box_expect(&s,
		   "id -u; id -g; id -un; grep -E '^Cap(Eff|Bnd|Prm)' /proc/self/status; echo hi > "
		   "made; "
		   "stat -c '%u %g' made $HOME",
		   "0\n0\nroot\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
		   "CapBnd:\t0000000000000000\n0 0\n0 0\n");
	box_expect(&s,
		   "for f in /etc/passwd /proc/sys/kernel/hostname /usr/x; do (echo x > $f) "
		   "2>/dev/null && "
		   "echo $f; done; mount -t tmpfs none /tmp 2>/dev/null || echo no",
		   "no\n");
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_uid, by_root ? 0 : geteuid());
	unlink(file);
	box_close(&s);
}

static int make_data(void)
{
	const uid_t owner = BOX_USER;
	static const char *const dirs[] = {"",	      "/open", "/open/shut", "/watched",
					   "/hidden", "/jail", "/jail/proc"};

	cleanup_free char *up = NULL;

	snprintf(data, sizeof(data), "%s/view-data", box_dir);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		cleanup_free char *dir = mem_printf("%s%s", data, dirs[i]);

		if (mkdir(dir, 0777) < 0 || chmod(dir, 0777) < 0 || chown(dir, owner, owner) < 0)
			return -1;
	}
	put("file", "file\n");
	put("open/shut/e", "shut\n");
	put("hidden/d", "hidden\n");
	up = mem_printf("../../../../..%s/hidden", data);
	for (size_t i = 0; i < 4; i++) {
		const char *const links[][2] = {{"hidden", "link"},
						{"open/shut", "here"},
						{"/proc/sys", "to-proc"},
						{up, "up"}};
		cleanup_free char *at = under(links[i][1]);

		if (symlink(links[i][0], at) < 0)
			return -1;
	}
	return 0;
}

static int run_group(void);

/* The same as a normal user, who owns the workspace. The child's results are shown only if one is
 * bad: a program has one list of them. */
static void sbx_5_a_normal_user_sees_the_same(void **state)
{
	const int log = memfd_create("log", 0);
	char text[16384] = "";
	int status;
	pid_t pid;

	if (!by_root)
		return;
	assert_int_equal(chown(box_workspace, BOX_USER, BOX_USER), 0);
	pid = fork();
	if (pid == 0) {
		by_root = false;
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		exit(box_run_as_user(run_group));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	if (status != 0)
		fail_msg("%s", text);
	close(log);
}

static int run_group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_etc_is_a_list_with_users_of_its_own),
		cmocka_unit_test(sbx_1_only_loopback_is_there),
		cmocka_unit_test(sbx_1_namespaces_are_other_than_ours),
		cmocka_unit_test(fil_6_lists_say_what_is_seen_and_how),
		cmocka_unit_test(fil_6_the_system_stays_read_only_in_every_list),
		cmocka_unit_test(fil_6_blocked_paths_cannot_be_opened),
		cmocka_unit_test(fil_6_what_is_covered_stays_where_it_is),
		cmocka_unit_test(fil_6_the_workspace_can_be_read_only_in_part),
		cmocka_unit_test(fil_6_the_home_of_sessions_is_not_covered),
		cmocka_unit_test(fil_6_the_machine_is_in_no_list),
		cmocka_unit_test(fil_6_the_servers_own_below_the_systems_is_covered),
		cmocka_unit_test(fil_6_a_proc_below_a_listed_path_is_found),
		cmocka_unit_test(sbx_1_root_inside_is_only_a_name),
		cmocka_unit_test(sbx_5_a_normal_user_sees_the_same), /* the last: it cleans up */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A mount of proc that only this program sees. */
static int mount_jail(void)
{
	cleanup_free char *proc = under("jail/proc");

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return mount("proc", proc, "proc", 0, NULL);
}

int main(void)
{
	const bool root = geteuid() == 0;

	ready = box_prepare(root ? BOX_USER : geteuid()) == 0 && root && make_data() == 0;
	/* Root's workspace belongs to root. */
	ready = ready && chown(box_workspace, 0, 0) == 0 && mount_jail() == 0;
	by_root = ready;
	return run_group();
}
