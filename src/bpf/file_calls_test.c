// SPDX-License-Identifier: Apache-2.0
/* System calls of a session: bytes of open files of a FUSE mount, and records of path calls. */
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/file_layout.h"
#include "bpf/fuse_file.h"
#include "bpf/testkit/programs_testkit.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define TREE "/mnt/tree"
#define SERVED "/mnt/served"
#define FIXED "/mnt/fixed" /* read-only */
#define FILE_PATH SERVED "/" FUSE_FILE_NAME

/* A mount namespace of the test's own. */
static int make_tree(void **state)
{
	if (geteuid() != 0)
		return 0;
	return unshare(CLONE_NEWNS) == 0 &&
			       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			       mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0 &&
			       mkdir(TREE, 0755) == 0 && mkdir(SERVED, 0755) == 0 &&
			       mkdir(FIXED, 0755) == 0 &&
			       mount("tmpfs", FIXED, "tmpfs", MS_RDONLY, NULL) == 0
		       ? 0
		       : -1;
}

struct rig {
	struct bpf_programs p;
	struct programs_kit_session s;
	int slots, ring;
	struct file_slot *slot; /* all of them, mapped */
};

static void rig_start(struct rig *rig, kid_fn *fn, const struct bpf_programs_uids *uids,
		      uint32_t record)
{
	struct err err = {0};

	programs_kit_load(&file_calls_image, &rig->p);
	if (uids != NULL) {
		bpf_programs_close(&rig->p);
		assert_int_equal(bpf_programs_load(&file_calls_image, uids, &rig->p, &err), 0);
	}
	programs_kit_start(&rig->s, fn, NULL);
	if (session_map_add(&session_slots, rig->p.map[0], &rig->s.key, &rig->slots, &err) < 0 ||
	    session_map_add(&session_ring, rig->p.map[1], &rig->s.key, &rig->ring, &err) < 0)
		fail_msg("%s", err.message);
	rig->slot = mmap(NULL, FILE_SLOTS_MAX * sizeof(*rig->slot), PROT_READ | PROT_WRITE,
			 MAP_SHARED, rig->slots, 0);
	assert_ptr_not_equal(rig->slot, MAP_FAILED);
	rig->slot[0].record.record = record;
}

static void rig_end(struct rig *rig)
{
	munmap(rig->slot, FILE_SLOTS_MAX * sizeof(*rig->slot));
	close(rig->slots);
	close(rig->ring);
	bpf_programs_close(&rig->p);
}

/* ---- bytes ---- */

#define OPENS 9
#define BLOCK 1000

/* Each open has another handle, so another slot: 1, 2, … */
static int move_bytes(const void *arg)
{
	static char block[BLOCK];
	const struct iovec io[2] = {{block, BLOCK}, {block, 500}};
	int fd[OPENS + 1], pipe_fd[2], out = open(TREE "/out", O_RDWR | O_CREAT, 0600);
	loff_t at = 0, far = 100000;
	void *p, *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 1; i <= OPENS; i++) {
		fd[i] = open(FILE_PATH, O_RDWR);
		if (fd[i] < 0)
			return 1;
	}
	/* 1: read in all its forms; a read at the end counts nothing */
	if (read(fd[1], block, BLOCK) != BLOCK || pread(fd[1], block, 10, 50) != 10 ||
	    readv(fd[1], io, 2) != BLOCK + 500 || preadv(fd[1], io, 2, 0) != BLOCK + 500 ||
	    preadv2(fd[1], io, 1, 0, 0) != BLOCK || pread(fd[1], block, 1, FUSE_FILE_SIZE) != 0)
		return 2;
	/* 2: write in all its forms; a failed write counts nothing */
	if (write(fd[2], block, BLOCK) != BLOCK || pwrite(fd[2], block, 20, 0) != 20 ||
	    writev(fd[2], io, 2) != BLOCK + 500 || pwritev(fd[2], io, 2, 0) != BLOCK + 500 ||
	    pwritev2(fd[2], io, 1, 0, 0) != BLOCK || write(fd[2], unreadable, 1) != -1)
		return 3;
	if (sendfile(out, fd[3], NULL, 3000) != 3000)
		return 4;
	if (pipe(pipe_fd) != 0 || splice(fd[4], &at, pipe_fd[1], NULL, 4000, 0) != 4000 ||
	    splice(pipe_fd[0], NULL, fd[5], NULL, 4000, 0) != 4000)
		return 5;
	if (copy_file_range(fd[6], NULL, fd[7], &far, 6000, 0) != 6000)
		return 6;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd[8], 0);
	if (p == MAP_FAILED || *(volatile char *)p != 0 ||
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd[9], 0) == MAP_FAILED ||
	    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, fd[1], 0) == MAP_FAILED)
		return 7;
	/* a copy of the descriptor is the same open file */
	if (read(dup(fd[1]), block, 1) != 1)
		return 8;
	return 0;
}

static void fil_8_bytes_of_each_open_file_are_exact(void **state)
{
	static const struct file_bytes want[OPENS + 1] = {
		[1] = {.read = BLOCK + 10 + 2 * (BLOCK + 500) + BLOCK + 1},
		[2] = {.written = BLOCK + 20 + 2 * (BLOCK + 500) + BLOCK},
		[3] = {.read = 3000},
		[4] = {.read = 4000},
		[5] = {.written = 4000},
		[6] = {.read = 6000},
		[7] = {.written = 6000},
		[8] = {.mapped = FILE_MAPPED_READ},
		[9] = {.mapped = FILE_MAPPED_READ | FILE_MAPPED_WRITE},
	};
	struct err err = {0};
	struct rig rig;
	struct stat st;
	pid_t fuse;

	if (geteuid() == 0 && fuse_file_mount(SERVED, &fuse, &err) < 0)
		fail_msg("%s", err.message);
	rig_start(&rig, move_bytes, NULL, 0);
	assert_int_equal(stat(SERVED, &st), 0);
	rig.slot[0].record.fuse_dev = EXEC_DEV(major(st.st_dev), minor(st.st_dev));
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	for (int i = 1; i <= OPENS; i++)
		if (memcmp(&rig.slot[i].bytes, &want[i], sizeof(want[i])) != 0)
			fail_msg("slot %d: read %llu written %llu mapped %u", i,
				 (unsigned long long)rig.slot[i].bytes.read,
				 (unsigned long long)rig.slot[i].bytes.written,
				 rig.slot[i].bytes.mapped);
	rig_end(&rig);
	umount2(SERVED, MNT_DETACH);
	assert_int_equal(waitpid(fuse, NULL, 0), fuse);
}

/* ---- paths ---- */

#define CALLS_MAX 64
struct seen_call {
	struct file_call call;
	char text[4][512]; /* base, argument, base2, argument2 */
};
struct seen {
	struct seen_call at[CALLS_MAX];
	int n;
};

static void see(const void *record, size_t len, void *arg)
{
	const struct file_call *call = record;
	const char *text = (const char *)(call + 1);
	const __u16 lens[4] = {call->path[0].base_len, call->path[0].argument_len,
			       call->path[1].base_len, call->path[1].argument_len};
	struct seen *seen = arg;
	struct seen_call *to = &seen->at[seen->n++ % CALLS_MAX];

	assert_true(len >= sizeof(*call));
	to->call = *call;
	for (int i = 0; i < 4; text += lens[i++]) {
		assert_in_range(lens[i], 0, sizeof(to->text[i]) - 1);
		memcpy(to->text[i], text, lens[i]);
		to->text[i][lens[i]] = '\0';
	}
	assert_ptr_equal(text, (const char *)record + len);
}

static int name_paths(const void *arg)
{
	struct open_how how = {.flags = O_RDONLY};
	int dir, fd;

	if (chdir(TREE) != 0)
		return 1;
	fd = open("made", O_RDWR | O_CREAT | O_TRUNC, 0600);	/* 0 */
	mkdir("dir", 0700);					/* 1 */
	dir = open("dir", O_RDONLY | O_DIRECTORY);		/* 2 */
	close(openat(dir, "../made", O_RDONLY));		/* 3 */
	symlink("made", "link");				/* 4 */
	close(open("link", O_RDONLY));				/* 5 */
	link("made", "hard");					/* 6 */
	rename("hard", "dir/moved");				/* 7 */
	renameat2(dir, "moved", AT_FDCWD, TREE "/back", 1);	/* 8: RENAME_NOREPLACE */
	chmod("back", 0640);					/* 9 */
	truncate(TREE "/back", 7);				/* 10 */
	unlink("back");						/* 11 */
	unlinkat(AT_FDCWD, "dir", AT_REMOVEDIR);		/* 12 */
	open("absent", O_RDONLY);				/* 13: fails */
	syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)); /* 14 */
	close(fd);
	syscall(SYS_creat, "plain", 0600); /* 15 */
	mkdir("dir", 0700);		   /* 16 */
	syscall(SYS_rmdir, "dir");	   /* 17 */
	unlink("plain");		   /* 18 */
	return 0;
}

static void fil_8_path_calls_are_recorded(void **state)
{
	static const struct {
		int operation, source, result;
		const char *text[4];
		uint32_t flags;
	} want[] = {
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {TREE "/made"}, O_RDWR | O_CREAT | O_TRUNC},
		{FILE_MKDIR, FILE_PATH_ARGUMENT, 0, {TREE, "dir"}, 0},
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {TREE "/dir"}, O_RDONLY | O_DIRECTORY},
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {TREE "/made"}, O_RDONLY},
		{FILE_SYMLINK, FILE_PATH_ARGUMENT, 0, {TREE, "link", "", "made"}, 0},
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {TREE "/made"}, O_RDONLY},
		{FILE_LINK, FILE_PATH_ARGUMENT, 0, {TREE, "made", TREE, "hard"}, 0},
		{FILE_RENAME, FILE_PATH_ARGUMENT, 0, {TREE, "hard", TREE, "dir/moved"}, 0},
		{FILE_RENAME, FILE_PATH_ARGUMENT, 0, {TREE "/dir", "moved", "", TREE "/back"}, 1},
		{FILE_CHMOD, FILE_PATH_ARGUMENT, 0, {TREE, "back"}, 0},
		{FILE_TRUNCATE, FILE_PATH_ARGUMENT, 0, {"", TREE "/back"}, 0},
		{FILE_UNLINK, FILE_PATH_ARGUMENT, 0, {TREE, "back"}, 0},
		{FILE_UNLINK, FILE_PATH_ARGUMENT, 0, {TREE, "dir"}, AT_REMOVEDIR},
		{FILE_OPEN, FILE_PATH_ARGUMENT, -ENOENT, {TREE, "absent"}, O_RDONLY},
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {"/"}, O_RDONLY},
		{FILE_OPEN, FILE_PATH_RESOLVED, 0, {TREE "/plain"}, O_CREAT | O_WRONLY | O_TRUNC},
		{FILE_MKDIR, FILE_PATH_ARGUMENT, 0, {TREE, "dir"}, 0},
		{FILE_UNLINK, FILE_PATH_ARGUMENT, 0, {TREE, "dir"}, AT_REMOVEDIR},
		{FILE_UNLINK, FILE_PATH_ARGUMENT, 0, {TREE, "plain"}, 0},
	};
	struct seen *seen = mem_new(struct seen);
	struct rig rig;
	struct stat st;

	rig_start(&rig, name_paths, NULL, FILE_WANT_DONE | FILE_WANT_REFUSED | FILE_WANT_FAILED);
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	programs_kit_read(rig.ring, see, seen);
	assert_int_equal(seen->n, ARRAY_LEN(want));
	for (int i = 0; i < seen->n; i++) {
		const struct seen_call *got = &seen->at[i];
		bool same = got->call.operation == want[i].operation &&
			    got->call.path_source == want[i].source && got->call.cut == 0 &&
			    (want[i].result < 0 ? got->call.result == want[i].result
						: got->call.result >= 0) &&
			    (got->call.flags & ~(uint32_t)O_LARGEFILE) == want[i].flags;

		for (int k = 0; k < 4; k++)
			same = same && strcmp(got->text[k],
					      want[i].text[k] != NULL ? want[i].text[k] : "") == 0;
		if (!same)
			fail_msg("%d: operation %d result %d flags %x source %d cut %d '%s' '%s' "
				 "'%s' '%s'",
				 i, got->call.operation, got->call.result, got->call.flags,
				 got->call.path_source, got->call.cut, got->text[0], got->text[1],
				 got->text[2], got->text[3]);
		assert_true(got->call.pid > (uint32_t)rig.s.init); /* as the test sees it */
		assert_int_equal(got->call.tid, got->call.pid);
		assert_int_equal(got->call.top, got->call.pid); /* a child of process 1 */
	}
	assert_int_equal(stat(TREE "/made", &st), 0);
	assert_int_equal(seen->at[0].call.ino, st.st_ino);
	assert_int_equal(seen->at[0].call.dev, EXEC_DEV(major(st.st_dev), minor(st.st_dev)));
	assert_int_equal(seen->at[0].call.created, 1);
	assert_int_equal(seen->at[3].call.created, 0);
	assert_int_equal(rig.slot[0].record.recorded, seen->n);
	assert_int_equal(rig.slot[0].record.dropped, 0);
	free(seen);
	rig_end(&rig);
}

/* A child of a child that has ended: its parent is process 1 then, and it is itself the top. */
static int of_descendants(const void *arg)
{
	int go[2];
	char byte;

	if (pipe(go) != 0)
		return 1;
	unlink(TREE "/mine");
	if (fork() == 0) {
		unlink(TREE "/child");
		if (fork() == 0) {
			unlink(TREE "/grandchild");
			close(go[1]);
			(void)!read(go[0], &byte, 1);
			unlink(TREE "/orphan");
		}
		_exit(0);
	}
	wait(NULL);
	close(go[1]);
	return 0;
}

/* The ancestor that a record names shows which command the process belongs to. */
static void fil_8_a_record_names_the_ancestor(void **state)
{
	struct seen *seen = mem_new(struct seen);
	struct rig rig;
	__u32 top;

	rig_start(&rig, of_descendants, NULL, FILE_WANT_FAILED);
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	programs_kit_read(rig.ring, see, seen);
	assert_in_range(seen->n, 3, 4); /* process 1 may end before the orphan's call */
	top = seen->at[0].call.pid;
	for (int i = 0; i < 3; i++)
		assert_int_equal(seen->at[i].call.top, top);
	assert_int_not_equal(seen->at[2].call.pid, top);
	if (seen->n == 4)
		assert_int_equal(seen->at[3].call.top, seen->at[3].call.pid);
	free(seen);
	rig_end(&rig);
}

static int refused_calls(const void *arg)
{
	return mkdir(TREE "/refused", 0700) == 0 && open(TREE "/absent", O_RDONLY) == -1 &&
			       mkdir(FIXED "/x", 0700) == -1 &&
			       open(FIXED "/x", O_CREAT | O_WRONLY, 0600) == -1 &&
			       link(TREE, TREE "/hard") == -1 /* a directory */
		       ? 0
		       : 1;
}

/* What was refused (EROFS, EPERM) can be recorded alone. */
static void fil_8_only_wanted_results_are_recorded(void **state)
{
	static const struct {
		uint32_t want;
		int n;
	} rows[] = {{0, 0}, {FILE_WANT_DONE, 1}, {FILE_WANT_REFUSED, 3}, {FILE_WANT_FAILED, 1}};
	struct seen *seen = mem_new(struct seen);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig rig;

		rig_start(&rig, refused_calls, NULL, rows[i].want);
		assert_int_equal(programs_kit_finish(&rig.s), 0);
		rmdir(TREE "/refused");
		seen->n = 0;
		programs_kit_read(rig.ring, see, seen);
		assert_int_equal(seen->n, rows[i].n);
		rig_end(&rig);
	}
	free(seen);
}

static int deep_and_long(const void *arg)
{
	char name[201], longest[5000];
	int n = 0;

	if (chdir(TREE) != 0)
		return 1;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	while (n < 30 && mkdir(name, 0700) == 0 && chdir(name) == 0)
		n++;
	memset(longest, '/', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	close(open("end", O_CREAT | O_RDWR, 0600));
	return open(longest, O_RDONLY) == -1 && errno == ENAMETOOLONG ? 0 : 1;
}

static void cut_of(const void *record, size_t len, void *arg)
{
	const struct file_call *call = record;
	unsigned *cut = arg;

	cut[0] |= call->operation == FILE_OPEN ? call->cut : 0;
	cut[1]++;
}

/* A path of more than 4096 bytes is cut, and says so. */
static void fil_8_long_paths_are_cut(void **state)
{
	unsigned cut[2] = {0};
	struct rig rig;

	rig_start(&rig, deep_and_long, NULL, FILE_WANT_DONE | FILE_WANT_FAILED);
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	programs_kit_read(rig.ring, cut_of, cut);
	assert_int_equal(cut[0], FILE_CUT_BASE | FILE_CUT_ARGUMENT);
	assert_true(rig.slot[0].record.recorded + rig.slot[0].record.dropped == 32);
	rig_end(&rig);
}

#define STORM 20000
static int storm(const void *arg)
{
	for (int i = 0; i < STORM; i++)
		unlink(TREE "/nothing");
	return 0;
}

static void fil_8_records_that_do_not_fit_are_counted(void **state)
{
	struct rig rig;
	int n;

	rig_start(&rig, storm, NULL, FILE_WANT_FAILED);
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	n = programs_kit_read(rig.ring, NULL, NULL);
	assert_in_range(n, 100, STORM - 1);
	assert_int_equal(rig.slot[0].record.recorded, n);
	assert_int_equal(rig.slot[0].record.dropped, STORM - n);
	rig_end(&rig);
}

/* Neither this process, nor init, nor a session that has ended. */
static void fil_8_others_are_not_looked_at(void **state)
{
	struct rig rig;

	rig_start(&rig, name_paths, NULL, FILE_WANT_DONE);
	unlink(TREE "/link");
	close(open("/", O_RDONLY));
	assert_int_equal(bpf_map_drop(rig.p.map[0], &rig.s.key), 0);
	assert_int_equal(programs_kit_finish(&rig.s), 0);
	assert_int_equal(programs_kit_read(rig.ring, NULL, NULL), 0);
	rig_end(&rig);
}

/* Processes with other uids than sessions have are left at once. */
static void fil_8_other_uids_are_not_looked_at(void **state)
{
	static const struct {
		struct bpf_programs_uids uids;
		bool seen;
	} rows[] = {{{1, 65535}, false}, {{0, 0}, true}, {{0, UINT32_MAX}, true}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig rig;

		rig_start(&rig, storm, &rows[i].uids, FILE_WANT_FAILED);
		assert_int_equal(programs_kit_finish(&rig.s), 0);
		assert_int_equal(rig.slot[0].record.recorded > 0, rows[i].seen);
		rig_end(&rig);
	}
}

static void fil_8_a_damaged_object_is_refused(void **state)
{
	programs_kit_damage(&file_calls_image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_8_bytes_of_each_open_file_are_exact),
		cmocka_unit_test(fil_8_path_calls_are_recorded),
		cmocka_unit_test(fil_8_a_record_names_the_ancestor),
		cmocka_unit_test(fil_8_only_wanted_results_are_recorded),
		cmocka_unit_test(fil_8_long_paths_are_cut),
		cmocka_unit_test(fil_8_records_that_do_not_fit_are_counted),
		cmocka_unit_test(fil_8_others_are_not_looked_at),
		cmocka_unit_test(fil_8_other_uids_are_not_looked_at),
		cmocka_unit_test(fil_8_a_damaged_object_is_refused),
	};

	return cmocka_run_group_tests(tests, make_tree, NULL);
}
