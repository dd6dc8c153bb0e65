// SPDX-License-Identifier: Apache-2.0
/* Ways to execute a program that the policy refuses: expr, or printf where an argument is added to
 * the line. It ran if 42 was printed. */
#include "attack.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DENIED "/usr/bin/expr"
#define NOT_EXECUTABLE 126 /* what a shell and env make of EACCES */
#define LOADER "/lib64/ld-linux-x86-64.so.2"

extern char **environ;
static char *const arguments[] = {"expr", "40", "+", "2", NULL};

/* Runs start() in a child whose output is read; it returns only if nothing was executed. */
static int watched(void (*start)(void))
{
	char text[16] = "";
	int out[2], status;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return BROKEN;
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		start();
		_exit(errno != 0 ? errno : BROKEN);
	}
	close(out[1]);
	if (read(out[0], text, sizeof(text) - 1) < 0)
		return BROKEN;
	status = status_of(pid);
	if (status == NOT_EXECUTABLE)
		status = EACCES;
	return strncmp(text, "42\n", 3) == 0 ? 0 : status != 0 ? status : BROKEN;
}

static void by_path(void)
{
	execve(DENIED, arguments, environ);
}

static void by_relative_path(void)
{
	if (chdir("/usr/share") == 0)
		execve(".././bin//expr", arguments, environ);
}

static void by_magic_root(void)
{
	execve("/proc/self/root" DENIED, arguments, environ);
}

static void by_descriptor(void)
{
	const int fd = open(DENIED, O_PATH | O_CLOEXEC);

	syscall(SYS_execveat, fd, "", arguments, environ, AT_EMPTY_PATH);
}

static void by_directory(void)
{
	const int fd = open("/usr/bin", O_PATH | O_DIRECTORY | O_CLOEXEC);

	syscall(SYS_execveat, fd, "expr", arguments, environ, 0);
}

static void by_magic_descriptor(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", open(DENIED, O_RDONLY));
	execve(path, arguments, environ);
}

/* A place of our own for a file; unique in this process. */
static const char *own(const char *name)
{
	static char path[2][128];
	static int next;
	char *p = path[next++ % 2];

	snprintf(p, sizeof(path[0]), "/tmp/agentsh-attack-%d-%s", getpid(), name);
	unlink(p);
	return p;
}

static void by_link(void)
{
	const char *link = own("true");

	if (symlink(DENIED, link) == 0)
		execve(link, (char *const[]){"true", "40", "+", "2", NULL}, environ);
}

static void copy(int to)
{
	const int from = open(DENIED, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fstat(from, &st) < 0 || sendfile(to, from, NULL, (size_t)st.st_size) != st.st_size)
		_exit(BROKEN);
}

static void by_memory_file(void)
{
	const int fd = memfd_create("x", MFD_CLOEXEC);

	copy(fd);
	syscall(SYS_execveat, fd, "", (char *const[]){"x", "40", "+", "2", NULL}, environ,
		AT_EMPTY_PATH);
}

static void by_deleted_file(void)
{
	const char *path = own("copy");
	const int w = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);
	int fd;

	copy(w);
	close(w);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	unlink(path);
	syscall(SYS_execveat, fd, "", (char *const[]){"x", "40", "+", "2", NULL}, environ,
		AT_EMPTY_PATH);
}

static void by_loader(void)
{
	execve(LOADER, (char *const[]){"ld", DENIED, "40", "+", "2", NULL}, environ);
}

static const char *script(const char *name, const char *interpreter)
{
	const char *path = own(name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);

	dprintf(fd, "#!%s\n", interpreter);
	close(fd);
	return path;
}

static void by_interpreter(void)
{
	const char *path = script("one", "/usr/bin/printf 42\\n");

	execve(path, (char *const[]){"one", NULL}, environ);
}

static void by_chain(void)
{
	const char *path = script("two", script("one", "/usr/bin/printf 42\\n"));

	execve(path, (char *const[]){"two", NULL}, environ);
}

/* The script's own path is the format: it must be 42. */
static void by_loader_script(void)
{
	char dir[] = "/tmp/agentsh-attack-XXXXXX";
	int fd;

	if (mkdtemp(dir) == NULL || chdir(dir) < 0)
		_exit(BROKEN);
	fd = open("42\n", O_WRONLY | O_CREAT | O_EXCL, 0700);
	dprintf(fd, "#!" LOADER " /usr/bin/printf\n");
	close(fd);
	execve("42\n", (char *const[]){"x", NULL}, environ);
}

static void by_path_at_page_end(void)
{
	const size_t page = 4096;
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *path = p + page - sizeof(DENIED);

	memcpy(path, DENIED, sizeof(DENIED));
	munmap(p + page, page);
	execve(path, arguments, environ);
}

static void by_env_line(void)
{
	const char *path = script("one", "/usr/bin/env -S /usr/bin/printf 42\\n");

	execve(path, (char *const[]){"one", NULL}, environ);
}

static void wait_and_leave(pid_t pid)
{
	_exit(status_of(pid));
}

static void by_spawn(void)
{
	pid_t pid;

	errno = posix_spawn(&pid, DENIED, NULL, NULL, arguments, environ);
	if (errno == 0)
		wait_and_leave(pid);
}

static void by_vfork(void)
{
	const pid_t pid = vfork();

	if (pid == 0) {
		execve(DENIED, arguments, environ);
		_exit(errno);
	}
	wait_and_leave(pid);
}

static void *thread(void *arg)
{
	execve(DENIED, arguments, environ);
	_exit(errno);
	return arg;
}

static void by_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, thread, NULL) == 0)
		pthread_join(t, NULL);
}

/* More bytes of arguments than anyone keeps: they must not hide the program. */
static void by_long_line(void)
{
	static char *line[20005];
	size_t n = 0;

	line[n++] = "printf";
	line[n++] = "42\\n%.0s";
	while (n < 20000)
		line[n++] = "";
	execve("/usr/bin/printf", line, environ);
}

#define ATTACK(start)                  \
	static int try_##start(void)   \
	{                              \
		return watched(start); \
	}
ATTACK(by_path)
ATTACK(by_relative_path)
ATTACK(by_magic_root)
ATTACK(by_descriptor)
ATTACK(by_directory)
ATTACK(by_magic_descriptor)
ATTACK(by_link)
ATTACK(by_memory_file)
ATTACK(by_deleted_file)
ATTACK(by_loader)
ATTACK(by_interpreter)
ATTACK(by_chain)
ATTACK(by_env_line)
ATTACK(by_loader_script)
ATTACK(by_path_at_page_end)
ATTACK(by_spawn)
ATTACK(by_vfork)
ATTACK(by_thread)
ATTACK(by_long_line)

const struct attack program_attacks[] = {
	{"exec_path", try_by_path},
	{"exec_relative", try_by_relative_path},
	{"exec_proc_root", try_by_magic_root},
	{"exec_fd", try_by_descriptor},
	{"exec_dirfd", try_by_directory},
	{"exec_proc_fd", try_by_magic_descriptor},
	{"exec_link", try_by_link},
	{"exec_memfd", try_by_memory_file},
	{"exec_deleted", try_by_deleted_file},
	{"exec_loader", try_by_loader},
	{"exec_interpreter", try_by_interpreter},
	{"exec_chain", try_by_chain},
	{"exec_env_S", try_by_env_line},
	{"exec_loader_script", try_by_loader_script},
	{"exec_page_end", try_by_path_at_page_end},
	{"exec_spawn", try_by_spawn},
	{"exec_vfork", try_by_vfork},
	{"exec_thread", try_by_thread},
	{"exec_long_line", try_by_long_line},
	{0},
};
