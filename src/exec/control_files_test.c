// SPDX-License-Identifier: Apache-2.0
/* Programs on file systems of many kinds: the right one runs, and is verified by the kernel where
 * its numbers compare. Another one that takes its name after the decision is killed. */
#include "exec/testkit/exec_testkit.h"
#include "exec/testkit/fuse_server.h"
#include <sys/mount.h>

extern char **environ;

#define PLACE "m" /* where the file system is mounted */
#define MAPPED_UID 10000

struct kind {
	int (*mount)(const char *where);
	const char *verified; /* where the kernel checks execs */
	const char *missing;  /* what a machine needs that cannot mount it */
};
static const struct kind *kind;

static int make_files(const char *where)
{
	static const struct fuse_file files[] = {
		{"good", "/usr/bin/true"}, {"held", "/usr/bin/true"}, {"evil", "/usr/bin/false"}};
	char command[256];

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(command, sizeof(command), "cp %s %s/%s", files[i].from, where,
			 files[i].name);
		if (system(command) != 0)
			return -1;
	}
	return 0;
}

static int mount_tmpfs(const char *where)
{
	return mount("none", where, "tmpfs", 0, NULL) == 0 ? make_files(where) : -1;
}

/* The lower layer has the programs. */
static int mount_overlay(const char *where, const char *lower)
{
	char options[512];

	if (mkdir(kit_path("base/upper"), 0755) < 0 || mkdir(kit_path("base/work"), 0755) < 0 ||
	    make_files(lower) < 0)
		return -1;
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", lower,
		 kit_path("base/upper"), kit_path("base/work"));
	return mount("none", where, "overlay", 0, options);
}

static int mount_base(void)
{
	return mount("none", kit_path("base"), "tmpfs", 0, NULL);
}

static int mount_overlay_same(const char *where)
{
	if (mount_base() < 0 || mkdir(kit_path("base/lower"), 0755) < 0)
		return -1;
	return mount_overlay(where, kit_path("base/lower"));
}

/* The lower layer is on another file system than the upper one. */
static int mount_overlay_other(const char *where)
{
	return mount_base() < 0 ? -1 : mount_overlay(where, kit_path("lower"));
}

static int mount_btrfs(const char *where)
{
	char command[512];

	if (mount_base() < 0)
		return -1;
	snprintf(command, sizeof(command),
		 "truncate -s 128M %s/image && mkfs.btrfs -q %s/image >/dev/null 2>&1 && mount -o "
		 "loop %s/image %s",
		 kit_path("base"), kit_path("base"), kit_path("base"), where);
	return system(command) == 0 ? make_files(where) : -1;
}

static int mapping_fd = -1;

/* A user namespace, for its mapping. Made outside of the guest, which has other process ids. */
static int new_mapping(void)
{
	const pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	char path[64], text[64];
	int fd;

	if (pid == 0)
		for (;;)
			pause();
	snprintf(text, sizeof(text), "0 %d 65536", MAPPED_UID);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, i == 0 ? "uid_map" : "gid_map");
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || fdio_write_all(fd, text, strlen(text)) < 0)
			return -1;
		close(fd);
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return fd;
}

static int mount_mapped(const char *where)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	int tree;

	if (mount_base() < 0 || make_files(kit_path("base")) < 0)
		return -1;
	tree = open_tree(AT_FDCWD, kit_path("base"), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	attr.userns_fd = (uint64_t)mapping_fd;
	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -1;
	return move_mount(tree, "", AT_FDCWD, where, MOVE_MOUNT_F_EMPTY_PATH);
}

static int mount_fuse(const char *where)
{
	static const struct fuse_file files[] = {
		{"good", "/usr/bin/true"}, {"held", "/usr/bin/true"}, {"evil", "/usr/bin/false"}};

	return fuse_server_start(where, files, ARRAY_LEN(files));
}

/* In the guest, which has a mount namespace of its own. */
static int enter(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return kind->mount(kit_path(PLACE));
}

/* Tries it in a process that ends. */
static bool can_enter(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(enter() == 0 ? 0 : 1);
	return kit_status(pid) == 0;
}

static int run(const char *path)
{
	char name[] = "x";
	char *argv[] = {name, NULL};
	const pid_t pid = fork();

	if (pid == 0) {
		execve(path, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int guest(void *arg)
{
	const int good = run(kit_path(PLACE "/good"));

	return good != 0 ? good : run(kit_path(PLACE "/held"));
}

/* Between the decision and the kernel's lookup another program takes the name. */
static void swap(void)
{
	if (renameat(kit.root, kit_path(PLACE "/evil") + 1, kit.root, kit_path(PLACE "/held") + 1) <
	    0)
		print_message("# rename: %s\n", strerror(errno));
}

static void *answer_one(void *arg)
{
	kit_wait_u64(&kit.parked, 1);
	gate_answer(kit.gate, 1, true);
	return NULL;
}

static void check(const struct kind *k)
{
	pthread_t answering;
	const struct kit_record *last;

	if (geteuid() != 0) {
		print_message("# skipped: mounting needs root\n");
		skip();
	}
	kind = k;
	if (!can_enter()) {
		print_message("# skipped: needs %s\n", k->missing);
		skip();
	}
	kit.enter = enter;
	kit.on_ask = swap;
	kit_start(guest, NULL);
	assert_int_equal(pthread_create(&answering, NULL, answer_one, NULL), 0);
	kit_go();
	assert_int_equal(kit_wait(), 128 + SIGKILL);
	pthread_join(answering, NULL);
	kit_stop();
	kit.enter = NULL;
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	assert_string_equal(kit.record[0].verified, kit.by_kernel ? k->verified : "stop");
	last = &kit.record[kit.nrecords - 1];
	assert_int_equal(last->type, EVENT_policy_violation);
	assert_int_equal(last->outcome, GATE_MISMATCHED);
	assert_true(kit_ends(last->path, PLACE "/held"));
	assert_true(kit_ends(last->loaded, "/held"));
	assert_int_equal(kit.outcome[GATE_MISMATCHED], 1);
}

static void pol_4_on_tmpfs(void **state)
{
	check(&(struct kind){mount_tmpfs, "bpf", "tmpfs"});
}

static void pol_4_on_overlayfs_of_one_file_system(void **state)
{
	check(&(struct kind){mount_overlay_same, "bpf", "overlayfs"});
}

static void pol_4_on_overlayfs_of_two_file_systems(void **state)
{
	check(&(struct kind){mount_overlay_other, "stop", "overlayfs"});
}

static void pol_4_on_btrfs(void **state)
{
	check(&(struct kind){mount_btrfs, "stop", "btrfs, mkfs.btrfs and a loop device"});
}

static void pol_4_on_an_idmapped_mount(void **state)
{
	check(&(struct kind){mount_mapped, "bpf", "idmapped mounts of tmpfs (Linux 6.3)"});
}

static void pol_4_on_fuse(void **state)
{
	check(&(struct kind){mount_fuse, "bpf", "/dev/fuse"});
}

static int prepare(void **state)
{
	if (kit_prepare(state) < 0 || mkdir(kit_path(PLACE), 0755) < 0 ||
	    mkdir(kit_path("base"), 0755) < 0)
		return -1;
	if (geteuid() == 0)
		mapping_fd = new_mapping();
	return mkdir(kit_path("lower"), 0755);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_BOTH(pol_4_on_tmpfs),
		KIT_BOTH(pol_4_on_overlayfs_of_one_file_system),
		KIT_BOTH(pol_4_on_overlayfs_of_two_file_systems),
		KIT_BOTH(pol_4_on_btrfs),
		KIT_BOTH(pol_4_on_an_idmapped_mount),
		KIT_BOTH(pol_4_on_fuse),
	};

	return cmocka_run_group_tests(tests, prepare, kit_clean);
}
