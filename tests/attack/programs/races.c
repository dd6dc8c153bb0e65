// SPDX-License-Identifier: Apache-2.0
/* A program whose path, argument or file changes while it is being decided: `races KIND TRIES
 * [SECONDS]` prints how often the refused one ran. true is allowed and ends with 0, expr is not and
 * ends with 2 or 3 if its arguments are no expression; of sh, "exit 5" is allowed and "exit 7" is
 * not. `races keep KIND SECONDS` only makes the changes, for others to run into; `races keep
 * pressure SECONDS` makes memory short, which the kind given_back needs. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOT_RUN 98
#define BROKEN 99
#define PATH_RAN 2
#define DIR "/tmp/agentsh-race"
#define ARGUMENT_RAN 7
#define PAGE 4096

extern char **environ;

struct flip {
	_Alignas(16) char path[64], argument[16];
	char *argv[4];
	atomic_bool stop;
};
struct kind {
	const char *name;
	void (*start)(struct flip *f);
	void (*once)(struct flip *f); /* one change */
	const char *path;
	bool other;    /* another process makes the changes: the flip lies in shared memory */
	int fine, ran; /* exit status of the allowed program and of the refused one */
};

static const struct kind *race;

static void change_path(struct flip *f)
{
	memcpy(f->path + 9, f->path[9] == 't' ? "expr" : "true", 4);
}

static void change_argument(struct flip *f)
{
	f->argument[5] = f->argument[5] == '5' ? '7' : '5';
}

/* Two names that change places. */
static void exchange(const char *name)
{
	char other[64];

	snprintf(other, sizeof(other), "%s.other", name);
	renameat2(AT_FDCWD, name, AT_FDCWD, other, RENAME_EXCHANGE);
}

static void change_link(struct flip *f)
{
	(void)f;
	exchange(DIR "/link");
}

static void change_directory(struct flip *f)
{
	(void)f;
	exchange(DIR "/d");
}

static void change_interpreter(struct flip *f)
{
	(void)f;
	exchange(DIR "/interpreter");
}

/* The first line of a script, in place. */
static void change_script(struct flip *f)
{
	static bool evil;
	const int fd = open(DIR "/script", O_WRONLY | O_CLOEXEC);

	(void)f;
	evil = !evil;
	if (pwrite(fd, evil ? "expr" : "true", 4, strlen("#!/usr/bin/")) < 0)
		_exit(BROKEN);
	close(fd);
}

/* The file of a private mapping: what nobody has written to there is still the file's. */
static void change_mapped_file(struct flip *f)
{
	static bool evil;
	const int fd = open(DIR "/strings", O_WRONLY | O_CLOEXEC);

	(void)f;
	evil = !evil;
	if (pwrite(fd, evil ? "expr" : "true", 4, strlen("/usr/bin/")) < 0)
		_exit(BROKEN);
	close(fd);
}

static void write_script(const char *path, const char *interpreter)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	dprintf(fd, "#!%s (\n", interpreter);
	close(fd);
}

static void write_strings(void)
{
	const int fd = open(DIR "/strings", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (pwrite(fd, "/usr/bin/true", sizeof("/usr/bin/true"), 0) < 0)
		_exit(BROKEN);
	close(fd);
}

static void link_pair(const char *name, const char *one, const char *two)
{
	char other[64];

	snprintf(other, sizeof(other), "%s.other", name);
	unlink(name);
	unlink(other);
	if (symlink(one, name) < 0 || symlink(two, other) < 0)
		_exit(BROKEN);
}

/* What the files' races are about. */
static void prepare_files(void)
{
	mkdir(DIR, 0700);
	mkdir(DIR "/d", 0700);
	mkdir(DIR "/d.other", 0700);
	link_pair(DIR "/link", "/usr/bin/true", "/usr/bin/expr");
	link_pair(DIR "/interpreter", "/usr/bin/true", "/usr/bin/expr");
	unlink(DIR "/d/run");
	unlink(DIR "/d.other/run");
	if (symlink("/usr/bin/true", DIR "/d/run") < 0 ||
	    symlink("/usr/bin/expr", DIR "/d.other/run") < 0)
		_exit(BROKEN);
	write_script(DIR "/script", "/usr/bin/true");
	write_strings();
	write_script(DIR "/by-link", DIR "/interpreter");
}

static void *flip_on(void *arg)
{
	struct flip *f = arg;

	while (!f->stop) {
		race->once(f);
		__asm__ volatile("" ::: "memory");
	}
	return NULL;
}

static int flip_process(void *arg)
{
	flip_on(arg);
	return 0;
}

static void flip_init(struct flip *f)
{
	static char name[] = "x", option[] = "-c";
	const bool shell = race->once == change_argument;

	snprintf(f->path, sizeof(f->path), "%s", race->path);
	strcpy(f->argument, "exit 5");
	f->argv[0] = name;
	f->argv[1] = shell ? option : NULL;
	f->argv[2] = f->argument;
	f->argv[3] = NULL;
	f->stop = false;
}

static void alone(struct flip *f)
{
	execve(f->path, f->argv, environ);
	_exit(NOT_RUN);
}

static void from_private_file(struct flip *f)
{
	const int fd = open(DIR "/strings", O_RDONLY | O_CLOEXEC);
	const char *path = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	if (path == MAP_FAILED)
		_exit(BROKEN);
	execve(path, f->argv, environ);
	_exit(NOT_RUN);
}

static void beside_a_thread(struct flip *f)
{
	pthread_t t;

	if (pthread_create(&t, NULL, flip_on, f) != 0)
		_exit(BROKEN);
	alone(f);
}

static void beside_a_process(struct flip *f)
{
	static char stack[16384] __attribute__((aligned(16)));

	if (clone(flip_process, stack + sizeof(stack), CLONE_VM | SIGCHLD, f) == -1)
		_exit(BROKEN);
	execve(f->path, f->argv, environ);
	f->stop = true;
	_exit(NOT_RUN);
}

/* ---- pages that the kernel takes ---- */

#define PRESSED (128 << 20) /* more than the session's limit */
#define STEP (64 * PAGE)
#define GAP_MOST 1536	    /* pages */
#define PADDING (16 * 1024) /* few pages, read again and again */
#define PADDED 330
#define KEPT "/usr/bin/sh"
#define LONGER "/usr/bin/sha256sum"

/* Takes memory and gives it back at once, again and again: the kernel drops the oldest pages that
 * were given back. */
static void press(struct flip *f)
{
	static _Alignas(PAGE) char at[PRESSED];

	(void)f;
	for (size_t i = 0; i < PRESSED; i += STEP) {
		memset(at + i, 1, STEP);
		madvise(at + i, STEP, MADV_FREE);
	}
}

/* Until the kernel has dropped a page, or five seconds have passed; pages go in the order in which
 * they were given back. */
static void await_drop(char *page)
{
	const time_t end = time(NULL) + 5;
	unsigned char there = 1;

	while (mincore(page, PAGE, &there) == 0 && (there & 1) != 0 && time(NULL) < end)
		sched_yield();
}

/* The path's end lies in the last page that is given back; the first one tells when it is soon its
 * turn. The arguments are long, so that reading them takes time. */
static void given_back(struct flip *f)
{
	char name[] = "x", option[] = "-c", script[] = "exit 7", padding[PADDING];
	const size_t gap = 1 + (size_t)getpid() % GAP_MOST, last = 1 + gap;
	char *at = mmap(NULL, (last + 1) * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *argv[4 + PADDED] = {name, option, script};
	char *path = at + last * PAGE - strlen(KEPT);

	if (at == MAP_FAILED)
		_exit(BROKEN);
	(void)f;
	memset(padding, 'x', PADDING - 1);
	padding[PADDING - 1] = '\0';
	for (int i = 0; i < PADDED; i++)
		argv[3 + i] = padding;
	setrlimit(RLIMIT_STACK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}); /* room for them */
	memset(at, 1, gap * PAGE);
	strcpy(path, LONGER);
	if (madvise(at, gap * PAGE, MADV_FREE) < 0 ||
	    madvise(at + last * PAGE, PAGE, MADV_FREE) < 0)
		_exit(BROKEN);
	await_drop(at);
	execve(path, argv, environ);
	_exit(NOT_RUN);
}

static const struct kind kinds[] = {
	{"thread", beside_a_thread, change_path, "/usr/bin/true", false, 0, PATH_RAN},
	{"clone_vm", beside_a_process, change_path, "/usr/bin/true", false, 0, PATH_RAN},
	{"shared", alone, change_path, "/usr/bin/true", true, 0, PATH_RAN},
	{"mapped_file", from_private_file, change_mapped_file, "", true, 0, PATH_RAN},
	{"argument", beside_a_thread, change_argument, "/bin/sh", false, 5, ARGUMENT_RAN},
	{"link", alone, change_link, DIR "/link", true, 0, PATH_RAN},
	{"directory", alone, change_directory, DIR "/d/run", true, 0, PATH_RAN},
	{"script", alone, change_script, DIR "/script", true, 0, PATH_RAN},
	{"interpreter", alone, change_interpreter, DIR "/by-link", true, 0, PATH_RAN},
	/* sha256sum finds no list of sums */
	{"given_back", given_back, NULL, "", false, 1, ARGUMENT_RAN},
	{"pressure", NULL, press, "", false, 0, 0},
};

static int status_of(pid_t pid)
{
	int status;

	if (pid == -1 || waitpid(pid, &status, __WALL) != pid)
		return BROKEN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* One exec with somebody who changes it; whoever shared its memory is ended with it. */
static int once(struct flip *f)
{
	pid_t pid, other = -1;
	int status;

	flip_init(f);
	if (race->other && (other = fork()) == 0)
		_exit(flip_process(f));
	pid = fork();
	if (pid == 0) {
		const int null = open("/dev/null", O_WRONLY);

		setpgid(0, 0);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		race->start(f);
	}
	setpgid(pid, pid);
	status = status_of(pid);
	kill(-pid, SIGKILL);
	f->stop = true;
	if (other > 0)
		status_of(other);
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
		;
	return status;
}

static void run(int tries, int seconds)
{
	const time_t end = time(NULL) + seconds;
	struct flip *f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE,
			      (race->other ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
	int ran = 0, fine = 0, refused = 0, killed = 0, broken = 0;

	prepare_files();
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (int i = 0; i < tries && (seconds == 0 || time(NULL) < end); i++) {
		const int status = once(f);

		ran += status == race->ran;
		fine += status == race->fine;
		refused += status == NOT_RUN;
		killed += status == 128 + SIGKILL;
		broken += status == BROKEN;
	}
	printf("{\"race\": \"%s\", \"ran\": %d, \"fine\": %d, \"refused\": %d, \"killed\": %d, "
	       "\"broken\": %d}\n",
	       race->name, ran, fine, refused, killed, broken);
}

static void keep_on(int seconds)
{
	static struct flip f;
	pthread_t t;

	prepare_files();
	alarm((unsigned)seconds);
	if (pthread_create(&t, NULL, flip_on, &f) == 0)
		pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	const bool keep = argc == 4 && strcmp(argv[1], "keep") == 0;

	for (size_t i = 0; (argc == 3 || argc == 4) && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(kinds[i].name, argv[keep ? 2 : 1]) == 0) {
			race = &kinds[i];
			if (keep)
				keep_on(atoi(argv[3]));
			else
				run(atoi(argv[2]), argc == 4 ? atoi(argv[3]) : 0);
		}
	return 0;
}
