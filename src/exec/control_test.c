// SPDX-License-Identifier: Apache-2.0
/* Exec control against a real filter, as the user who runs the tests: everything is verified. */
#include "exec/testkit/exec_testkit.h"
#include <sys/mount.h>

extern char **environ;

/* A test runs twice, and finds what its first run has made. */
static void expect_made(int r)
{
	assert_true(r == 0 || errno == EEXIST);
}

static int guest_exec(void *arg)
{
	char **argv = arg;

	execve(argv[0], argv + 1, environ);
	return errno == EACCES ? KIT_NOT_RUN : errno;
}

/* POL-4: program, arguments, directory and parent are those of the process that called. */
static void pol_4_one_exec_is_one_record(void **state)
{
	char *argv[] = {(char *)kit_path("good"), (char *)"one", (char *)"two words", (char *)"",
			NULL};
	char cwd[256];

	assert_int_equal(kit_run(guest_exec, argv), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_string_equal(kit.record[0].path, argv[0]);
	assert_string_equal(kit.record[0].called, argv[0]);
	assert_string_equal(kit.record[0].script, "");
	assert_string_equal(kit.record[0].argv, "one|two words|");
	assert_int_equal(kit.record[0].argc, 3);
	assert_string_equal(kit.record[0].chain, "");
	assert_string_equal(kit.record[0].cwd, getcwd(cwd, sizeof(cwd)));
	assert_int_equal(kit.record[0].pid, kit.guest);
	assert_int_equal(kit.record[0].ppid, kit.keeper);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	assert_string_equal(kit.record[0].verified, kit.by_kernel ? "bpf" : "stop");
	assert_int_equal(kit.record[0].flags, 0);
	assert_false(kit.record[0].cut);
	assert_true(kit.record[0].latency_us > 0);
	assert_true(kit.record[0].own);
}

static void pol_4_a_denied_program_is_eacces(void **state)
{
	char *argv[] = {(char *)kit_path("evil"), (char *)"x", NULL};

	assert_int_equal(kit_run(guest_exec, argv), KIT_NOT_RUN);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].outcome, GATE_REFUSED);
	assert_int_equal(kit.record[0].decision, DECISION_deny);
}

static void pol_4_a_logged_program_runs(void **state)
{
	char *argv[] = {(char *)kit_path("watched"), (char *)"x", NULL};

	assert_int_equal(kit_run(guest_exec, argv), 0);
	assert_int_equal(kit.record[0].decision, DECISION_log);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
}

/* What the kernel would refuse gets the kernel's answer, and the gate is not asked. */
static void pol_4_what_does_not_exist_is_no_event(void **state)
{
	const struct {
		const char *path;
		int want;
	} cases[] = {
		{kit_path("missing"), ENOENT}, {kit_path("good/below"), ENOTDIR},
		{kit_path("text"), ENOEXEC},   {kit_path("plain"), KIT_NOT_RUN}, /* no x: EACCES */
		{kit.dir, KIT_NOT_RUN},	       {kit_path("loop"), ELOOP},
		{kit_path("orphan"), ENOENT},  {"", ENOENT},
		{kit_path("alien"), ENOEXEC},  {kit_path("pipe"), KIT_NOT_RUN},
	};

	kit_write("text", "no magic\n", 0755);
	kit_write("plain", "#!/bin/sh\n", 0644);
	kit_write("orphan", "#!/does/not/exist\n", 0755);
	kit_write("alien", "\177ELF\2\1\1________\2_\xf3_", 0755);
	expect_made(symlink("loop", kit_path("loop")));
	expect_made(mkfifo(kit_path("pipe"), 0755));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *argv[] = {(char *)cases[i].path, (char *)"x", NULL};

		assert_int_equal(kit_run(guest_exec, argv), cases[i].want);
		assert_int_equal(kit.nrecords, 0);
	}
}

/* POL-4: the program is the interpreter, the script is named; both levels of `#!`. */
static void pol_4_scripts_are_followed(void **state)
{
	char text[256], want[512];
	char *one[] = {(char *)kit_path("script"), (char *)"name", (char *)"arg", NULL};
	char *two[] = {(char *)kit_path("outer"), (char *)"name", (char *)"arg", NULL};

	snprintf(text, sizeof(text), "#! %s  -a b \n", kit_path("good"));
	kit_write("script", text, 0755);
	assert_int_equal(kit_run(guest_exec, one), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_string_equal(kit.record[0].path, kit_path("good"));
	assert_string_equal(kit.record[0].script, one[0]);
	snprintf(want, sizeof(want), "%s|-a b|%s|arg", kit_path("good"), one[0]);
	assert_string_equal(kit.record[0].argv, want);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);

	snprintf(text, sizeof(text), "#!%s", kit_path("script"));
	kit_write("outer", text, 0755);
	assert_int_equal(kit_run(guest_exec, two), 0);
	snprintf(want, sizeof(want), "%s|-a b|%s|%s|arg", kit_path("good"), kit_path("script"),
		 two[0]);
	assert_string_equal(kit.record[0].argv, want);
	snprintf(want, sizeof(want), "%s|%s", two[0], kit_path("script"));
	assert_string_equal(kit.record[0].chain, want);
	assert_string_equal(kit.record[0].path, kit_path("good"));
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
}

/* Five interpreters of interpreters are followed, as the kernel does; six are a loop. */
static void pol_4_the_chain_ends_where_the_kernel_ends(void **state)
{
	for (int n = 5; n <= 6; n++) {
		char name[8], text[256];
		char *argv[] = {(char *)kit_path("s1"), (char *)"x", NULL};

		for (int i = 1; i <= n; i++) {
			char next[8];

			snprintf(next, sizeof(next), "s%d", i + 1);
			snprintf(text, sizeof(text), "#!%s\n", kit_path(i < n ? next : "good"));
			snprintf(name, sizeof(name), "s%d", i);
			kit_write(name, text, 0755);
		}
		assert_int_equal(kit_run(guest_exec, argv), n == 5 ? 0 : ELOOP);
		assert_int_equal(kit.nrecords, n == 5);
	}
}

static void pol_4_a_script_of_a_denied_interpreter_is_denied(void **state)
{
	char text[256];
	char *argv[] = {(char *)kit_path("innocent"), (char *)"x", NULL};

	snprintf(text, sizeof(text), "#!%s\n", kit_path("evil"));
	kit_write("innocent", text, 0755);
	assert_int_equal(kit_run(guest_exec, argv), KIT_NOT_RUN);
	assert_int_equal(kit.record[0].outcome, GATE_REFUSED);
}

/* POL-4: ld.so is an interpreter. What it loads later by name must not be replaceable. */
static void pol_4_the_loader_is_decided_by_its_program(void **state)
{
	static const char loader[] = "/lib64/ld-linux-x86-64.so.2";
	char *evil[] = {(char *)loader, (char *)loader,		  (char *)"--argv0",
			(char *)"x",	(char *)kit_path("evil"), NULL};
	char *good[] = {(char *)loader, (char *)loader, (char *)kit_path("good"), NULL};
	char *look[] = {(char *)loader, (char *)loader, (char *)"--verify",
			(char *)kit_path("good"), NULL};
	char *none[] = {(char *)loader, (char *)loader, (char *)"--version", NULL};
	char *bare[] = {(char *)loader, (char *)loader, (char *)"true", NULL};

	assert_int_equal(kit_run(guest_exec, evil), KIT_NOT_RUN);
	assert_string_equal(kit.record[0].script, kit_path("evil"));
	assert_int_equal(kit.record[0].flags, OP_EXEC_LOADER);
	assert_int_equal(kit.record[0].decision, DECISION_deny);
	assert_int_equal(kit_run(guest_exec, good), KIT_NOT_RUN);
	assert_string_equal(kit.record[0].script, kit_path("good"));
	assert_int_equal(kit_run(guest_exec, look), 0);
	assert_int_equal(kit_run(guest_exec, none), 0);
	assert_int_equal(kit_run(guest_exec, bare), KIT_NOT_RUN);
	kit_start(guest_exec, good);
	kit_stop(); /* without the thread: no exec at all */
	kit_go();
	assert_int_equal(kit_wait(), ENOSYS);
}

/* ---- descriptors ---- */

static int guest_memfd(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	cleanup_buf struct buf b = {0};
	int fd = memfd_create("m", MFD_CLOEXEC);

	if (fdio_load_path(arg, 16 << 20, &b, NULL) < 0 || fdio_write_all(fd, b.data, b.len) < 0)
		return KIT_BROKEN;
	syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
	return errno == EACCES ? KIT_NOT_RUN : errno;
}

static int guest_deleted(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	char path[32];
	int fd = open(arg, O_RDONLY | O_CLOEXEC);

	unlink(arg);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	execve(path, argv, environ);
	return errno == EACCES ? KIT_NOT_RUN : errno;
}

static void pol_4_files_without_a_name_are_told(void **state)
{
	assert_int_equal(kit_run(guest_memfd, (void *)kit_path("good")), KIT_NOT_RUN);
	assert_int_equal(kit.record[0].flags, OP_EXEC_MEMFD);
	kit_copy("/usr/bin/true", "soon", 0755);
	assert_int_equal(kit_run(guest_deleted, (void *)kit_path("soon")), KIT_NOT_RUN);
	assert_int_equal(kit.record[0].flags, OP_EXEC_DELETED);
}

static int guest_relative(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	const char *how = arg;
	int dir = open(kit.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file = open(kit_path("good"), O_RDONLY | O_CLOEXEC);

	if (strcmp(how, "cwd") == 0 && chdir(kit.dir) == 0)
		execve("./good", argv, environ);
	else if (strcmp(how, "dir") == 0)
		syscall(SYS_execveat, dir, "good", argv, environ, 0);
	else if (strcmp(how, "file") == 0)
		syscall(SYS_execveat, file, "", argv, environ, AT_EMPTY_PATH);
	else if (strcmp(how, "nofollow") == 0)
		syscall(SYS_execveat, dir, "link", argv, environ, AT_SYMLINK_NOFOLLOW);
	else if (strcmp(how, "link") == 0)
		syscall(SYS_execveat, dir, "link", argv, environ, 0);
	else if (strcmp(how, "script") == 0)
		syscall(SYS_execveat, dup(dir), "fdscript", argv, environ, 0);
	else if (strcmp(how, "empty") == 0)
		syscall(SYS_execveat, file, "", argv, environ, 0);
	return errno == EACCES ? KIT_NOT_RUN : errno;
}

static void pol_4_every_way_to_name_a_file(void **state)
{
	static const struct {
		const char *how;
		int want;
	} cases[] = {{"cwd", 0},	  {"dir", 0},	 {"file", 0},	   {"link", 0},
		     {"nofollow", ELOOP}, {"script", 0}, {"empty", ENOENT}};
	char text[256];

	snprintf(text, sizeof(text), "#!%s -x\n", kit_path("good"));
	kit_write("fdscript", text, 0755);
	expect_made(symlink("good", kit_path("link")));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(kit_run(guest_relative, (void *)(uintptr_t)cases[i].how),
				 cases[i].want);
		assert_int_equal(kit.nrecords, cases[i].want == 0);
		if (cases[i].want == 0) {
			assert_string_equal(kit.record[0].path, kit_path("good"));
			assert_int_equal(kit.record[0].outcome, GATE_DONE);
		}
	}
}

/* In a root of its own, as a session has it: the system below a file system in memory. */
static int enter_root(void)
{
	char usr[128], bin[128], lib[128], lib64[128];

	snprintf(usr, sizeof(usr), "%s/usr", kit_path("root"));
	snprintf(bin, sizeof(bin), "%s/bin", kit_path("root"));
	snprintf(lib, sizeof(lib), "%s/lib", kit_path("root"));
	snprintf(lib64, sizeof(lib64), "%s/lib64", kit_path("root"));
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", kit_path("root"), "tmpfs", 0, NULL) < 0 || mkdir(usr, 0755) < 0 ||
	    mount("/usr", usr, NULL, MS_BIND, NULL) < 0 || symlink("/usr/bin", bin) < 0 ||
	    symlink("usr/lib", lib) < 0 || symlink("usr/lib64", lib64) < 0)
		return KIT_BROKEN;
	if (chdir(kit_path("root")) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0)
		return KIT_BROKEN;
	return chdir("/usr");
}

static int guest_elsewhere(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	execve(arg, argv, environ);
	return errno;
}

static void pol_4_paths_are_those_of_the_callers_root(void **state)
{
	if (geteuid() != 0)
		skip(); /* mounting */
	expect_made(mkdir(kit_path("root"), 0755));
	kit.enter = enter_root;
	assert_int_equal(kit_run(guest_elsewhere, (void *)(uintptr_t) "/bin/true"), 0);
	assert_string_equal(kit.record[0].path, "/usr/bin/true");
	assert_string_equal(kit.record[0].called, "/bin/true");
	assert_string_equal(kit.record[0].cwd, "/usr");
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	assert_int_equal(kit_run(guest_elsewhere, (void *)(uintptr_t) "bin/../../bin/true"), 0);
	assert_string_equal(kit.record[0].path, "/usr/bin/true");
	assert_int_equal(kit_run(guest_elsewhere, (void *)kit_path("good")), ENOENT);
	kit.enter = NULL;
}

/* ---- waiting ---- */

static int guest_held_and_other(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	pid_t held = fork();

	if (held == 0) {
		execve(kit_path("held"), argv, environ);
		_exit(errno == EACCES ? KIT_NOT_RUN : KIT_BROKEN);
	}
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			execve(kit_path("good"), argv, environ);
			_exit(KIT_BROKEN);
		}
		if (kit_status(pid) != 0)
			return KIT_BROKEN;
	}
	if (arg != NULL)
		kill(held, SIGKILL);
	return kit_status(held);
}

static void wait_records(size_t n)
{
	pthread_mutex_lock(&kit.lock);
	while (kit.nrecords < n)
		pthread_cond_wait(&kit.came, &kit.lock);
	pthread_mutex_unlock(&kit.lock);
}

static void pol_4_a_waiting_exec_stops_nobody_else(void **state)
{
	for (int deny = 0; deny < 2; deny++) {
		kit_start(guest_held_and_other, NULL);
		kit_go();
		kit_wait_u64(&kit.parked, 1);
		wait_records(3);
		while (exec_control_count(kit.control, GATE_DONE) < 3) /* the last is loading */
			sched_yield();
		assert_int_equal(exec_control_count(kit.control, GATE_REFUSED), 0);
		gate_answer(kit.gate, kit.parked + 1000, true); /* nothing waits by this number */
		gate_answer(kit.gate, kit.parked, !deny);
		assert_int_equal(kit_end(), deny ? KIT_NOT_RUN : 0);
		assert_int_equal(kit.nrecords, 4);
		assert_int_equal(kit.record[3].outcome, deny ? GATE_REFUSED : GATE_DONE);
		assert_int_equal(kit.gone, 0);
	}
}

static void pol_4_a_dead_caller_does_not_wait(void **state)
{
	kit_start(guest_held_and_other, kit.dir);
	kit_go();
	kit_wait_u64(&kit.gone, 1);
	assert_int_equal(kit.gone, kit.parked);
	assert_int_equal(kit_end(), 128 + SIGKILL);
	assert_int_equal(kit.record[3].outcome, GATE_FAILED);
}

/* ---- redirect ---- */

static void pol_4_a_redirect_runs_the_other_program(void **state)
{
	char text[256];
	cleanup_buf struct buf out = {0};
	char *argv[] = {(char *)kit_path("other"),
			(char *)"name",
			(char *)"a b",
			(char *)"",
			(char *)"c",
			NULL};

	snprintf(text, sizeof(text), "#!/bin/sh\nprintf '%%s,' \"$0\" \"$@\" > %s\n",
		 kit_path("out"));
	kit_write("instead", text, 0755);
	kit.target = kit_path("instead");
	assert_int_equal(kit_run(guest_exec, argv), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].decision, DECISION_redirect);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	assert_string_equal(kit.record[0].path, kit_path("other"));
	assert_int_equal(fdio_load_path(kit_path("out"), 4096, &out, NULL), 0);
	snprintf(text, sizeof(text), "%s,a b,,c,", kit_path("instead"));
	assert_string_equal(out.data, text);

	kit.target = kit_path("missing");
	assert_int_equal(kit_run(guest_exec, argv), KIT_NOT_RUN);
	assert_int_equal(kit.record[0].outcome, GATE_REFUSED);
}

/* ---- failing and odd callers ---- */

/* A program that the kernel refuses after we let it go: the caller runs on, gets its signals, and
 * its next exec is held like the first. */
static int guest_fails(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	if (execve(kit_path("broken"), argv, environ) != -1 || errno != ENOEXEC)
		return KIT_BROKEN;
	if (arg != NULL) { /* long enough to be let go */
		poll(NULL, 0, 200);
		if (raise(SIGCHLD) != 0)
			return KIT_BROKEN;
	}
	if (execve(kit_path("evil"), argv, environ) != -1 || errno != EACCES)
		return KIT_BROKEN;
	execve(kit_path("good"), argv, environ);
	return KIT_BROKEN;
}

static void pol_4_a_failed_exec_does_not_hang(void **state)
{
	kit_write("broken", "", 0755);
	kit_copy("/usr/bin/true", "broken", 0755);
	assert_int_equal(truncate(kit_path("broken"), 100), 0);
	for (int slow = 0; slow < 2; slow++) {
		assert_int_equal(kit_run(guest_fails, slow ? kit.dir : NULL), 0);
		assert_int_equal(kit.nrecords, 3);
		/* The kernel does not tell of an exec that fails: it is recorded before. */
		assert_int_equal(kit.record[0].outcome, kit.by_kernel ? GATE_DONE : GATE_FAILED);
		assert_int_equal(kit.record[1].outcome, GATE_REFUSED);
		assert_int_equal(kit.record[2].outcome, GATE_DONE);
		assert_int_equal(kit.outcome[GATE_FAILED], 1);
		assert_int_equal(kit.outcome[GATE_DONE], 1);
	}
}

static void *exec_in_thread(void *arg)
{
	char *argv[] = {(char *)"x", (char *)"y", NULL};

	execve(kit_path("good"), argv, environ);
	_exit(KIT_BROKEN);
}

static int guest_thread(void *arg)
{
	pthread_t t;

	if (pthread_create(&t, NULL, exec_in_thread, NULL) != 0)
		return KIT_BROKEN;
	while (pause() == -1)
		;
	return KIT_BROKEN;
}

/* The thread takes over the group's id; the record names the process. */
static void pol_4_a_thread_executes(void **state)
{
	assert_int_equal(kit_run(guest_thread, NULL), 0);
	assert_int_equal(kit.nrecords, 1);
	assert_int_equal(kit.record[0].pid, kit.guest);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
}

/* dash goes on with the next directory after EACCES: one command, one event. */
static void pol_4_a_path_search_is_one_refusal(void **state)
{
	char path[256];
	char *argv[] = {(char *)"/bin/sh", (char *)"sh", (char *)"-c", path, NULL};

	expect_made(mkdir(kit_path("second"), 0755));
	kit_copy("/usr/bin/false", "second/evil", 0755);
	snprintf(path, sizeof(path), "PATH=/nowhere:%s:%s/second; evil; good; evil; exit 7",
		 kit.dir, kit.dir);
	assert_int_equal(kit_run(guest_exec, argv), 7);
	assert_int_equal(kit.nrecords, 4);
	assert_int_equal(kit.record[0].outcome, GATE_DONE); /* sh */
	assert_int_equal(kit.record[1].outcome, GATE_REFUSED);
	assert_int_equal(kit.record[2].outcome, GATE_DONE);
	assert_int_equal(kit.record[3].outcome, GATE_REFUSED);
}

/* More than is kept is compared by its hash. */
static int guest_long(void *arg)
{
	static char word[100001];
	char *argv[7] = {(char *)"x"};

	memset(word, 'a', sizeof(word) - 1);
	for (int i = 1; i < 6; i++)
		argv[i] = word;
	execve(kit_path("good"), argv, environ);
	return errno;
}

static void pol_4_long_arguments_are_cut_and_still_compared(void **state)
{
	assert_int_equal(kit_run(guest_long, NULL), 0);
	assert_true(kit.record[0].cut);
	assert_string_equal(kit.record[0].verified, "stop");
	assert_int_equal(kit.record[0].argc, 2);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
}

static int guest_bad_memory(void *arg)
{
	char *argv[] = {(char *)"x", (char *)8, NULL};

	if (syscall(SYS_execve, (char *)8, argv, environ) != -1 || errno != EFAULT)
		return KIT_BROKEN;
	if (syscall(SYS_execve, kit_path("good"), argv, environ) != -1 || errno != EFAULT)
		return KIT_BROKEN;
	argv[1] = NULL;
	syscall(SYS_execve, kit_path("good"), NULL, environ);
	return KIT_BROKEN;
}

static void pol_4_bad_pointers_get_the_kernels_answer(void **state)
{
	assert_int_equal(kit_run(guest_bad_memory, NULL), 0);
	assert_int_equal(kit.nrecords, 1); /* no argv at all */
	assert_string_equal(kit.record[0].argv, "");
	assert_int_equal(kit.record[0].argc, 1);
}

/* arg is shared memory: the key is made when the guest is there. */
static int guest_shows_key(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	syscall(SYS_execve, kit_path("evil"), argv, environ, 0L, 0L, *(const uint64_t *)arg);
	return KIT_NOT_RUN;
}

static int guest_shows_key_at(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	const int fd = open(kit_path("evil"), O_PATH | O_CLOEXEC);

	syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH, *(const uint64_t *)arg);
	return KIT_NOT_RUN;
}

/* The guest shows the key of a command, changed by this. */
static int run_with_key(kit_guest_fn *fn, uint64_t change)
{
	uint64_t *key =
		mmap(NULL, sizeof(*key), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct exec_looker *l = exec_looker_new(root, NULL);
	struct exec_initial *i;
	int status;

	kit_start(fn, key);
	i = kit_initial(l, "cmd-1");
	*key = exec_expect(kit.control, 1, i) ^ change;
	kit_go();
	status = kit_wait();
	exec_over(kit.control, 1);
	exec_initial_free(i);
	kit_stop();
	exec_looker_free(l);
	munmap(key, sizeof(*key));
	return status;
}

static void expect_initial(kit_guest_fn *fn)
{
	assert_int_equal(run_with_key(fn, 0), 1);
	assert_int_equal(kit.nrecords, 1);
	assert_true(kit.record[0].initial);
	assert_string_equal(kit.record[0].path, "/usr/bin/true");
	assert_int_equal(kit.record[0].pid, kit.guest);
	for (int o = 0; o < GATE_OUTCOMES; o++)
		assert_int_equal(kit.count[o], 0);
}

/* The initial exec is ours: neither read nor asked about. It is known by what only we know. */
static void exe_2_the_initial_exec_goes_at_once(void **state)
{
	static const uint64_t wrong[] = {1, UINT64_C(1) << 63, UINT64_C(0xffffffff) << 32,
					 UINT32_MAX};

	expect_initial(guest_shows_key);
	expect_initial(guest_shows_key_at);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		assert_int_equal(run_with_key(guest_shows_key, wrong[i]), KIT_NOT_RUN);
		assert_int_equal(run_with_key(guest_shows_key_at, wrong[i]), KIT_NOT_RUN);
		assert_int_equal(kit.count[GATE_REFUSED], 1);
		assert_int_equal(kit.nrecords, 1);
	}
}

static int guest_sleeps(void *arg)
{
	while (pause() == -1)
		;
	return KIT_BROKEN;
}

static void exe_2_the_thread_can_be_stopped_at_any_time(void **state)
{
	kit_start(guest_sleeps, NULL);
	kit_stop();
	kill(kit.guest, SIGKILL);
	assert_int_equal(kit_wait(), 128 + SIGKILL);
	listener_stop(NULL);
	exec_control_close(NULL);

	kit_start(guest_held_and_other, NULL); /* with one that waits */
	kit_go();
	kit_wait_u64(&kit.parked, 1);
	kit_stop();
	assert_int_equal(kit_wait(), KIT_BROKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_BOTH(pol_4_one_exec_is_one_record),
		KIT_BOTH(pol_4_a_denied_program_is_eacces),
		KIT_BOTH(pol_4_a_logged_program_runs),
		KIT_BOTH(pol_4_what_does_not_exist_is_no_event),
		KIT_BOTH(pol_4_scripts_are_followed),
		KIT_BOTH(pol_4_the_chain_ends_where_the_kernel_ends),
		KIT_BOTH(pol_4_a_script_of_a_denied_interpreter_is_denied),
		KIT_BOTH(pol_4_the_loader_is_decided_by_its_program),
		KIT_BOTH(pol_4_files_without_a_name_are_told),
		KIT_BOTH(pol_4_every_way_to_name_a_file),
		KIT_BOTH(pol_4_paths_are_those_of_the_callers_root),
		KIT_BOTH(pol_4_a_waiting_exec_stops_nobody_else),
		KIT_BOTH(pol_4_a_dead_caller_does_not_wait),
		KIT_BOTH(pol_4_a_redirect_runs_the_other_program),
		KIT_BOTH(pol_4_a_failed_exec_does_not_hang),
		KIT_BOTH(pol_4_a_thread_executes),
		KIT_BOTH(pol_4_a_path_search_is_one_refusal),
		KIT_BOTH(pol_4_long_arguments_are_cut_and_still_compared),
		KIT_BOTH(pol_4_bad_pointers_get_the_kernels_answer),
		KIT_BOTH(exe_2_the_initial_exec_goes_at_once),
		KIT_BOTH(exe_2_the_thread_can_be_stopped_at_any_time),
	};

	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
