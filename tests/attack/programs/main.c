// SPDX-License-Identifier: Apache-2.0
/* Runs the attacks that are named, each in a process of its own with a time limit, and prints one
 * JSON line for each: {"attack": "NAME", "result": "done" | errno | signal | "exit N"}. A name that
 * is not of this program is the script scripts/NAME.sh beside it: it is done if it prints 42. */
#include "attack.h"
#include <limits.h>
#include <sys/wait.h>

#define SECONDS 20
#define PLACES "places"

static const struct attack *const tables[] = {
	mount_attacks,	file_attacks,	   process_attacks, kernel_attacks, machine_attacks,
	socket_attacks, privilege_attacks, program_attacks, limit_attacks,  gateway_attacks,
};
static char here[PATH_MAX]; /* the directory of this program */

const char *place(const char *key)
{
	static char line[PATH_MAX];
	const size_t n = strlen(key);
	char path[PATH_MAX + sizeof(PLACES) + 1];
	FILE *f;

	snprintf(path, sizeof(path), "%s/" PLACES, here);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, key, n) == 0 && line[n] == '=') {
			fclose(f);
			return line + n + 1;
		}
	}
	_exit(BROKEN);
}

long place_number(const char *key)
{
	return strtol(place(key), NULL, 10);
}

int status_of(pid_t pid)
{
	int status;

	if (pid == -1 || waitpid(pid, &status, __WALL) != pid)
		return BROKEN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const struct attack *find(const char *name)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct attack *a = tables[i]; a->name != NULL; a++)
			if (strcmp(a->name, name) == 0)
				return a;
	return NULL;
}

static void be_script(const char *name)
{
	char path[PATH_MAX + 300];

	snprintf(path, sizeof(path), "%s/scripts/%s.sh", here, name);
	execl("/bin/sh", "sh", path, (char *)NULL);
	_exit(BROKEN);
}

static _Noreturn void be_attack(const char *name, const int out[2])
{
	const struct attack *a = find(name);
	const int null = open("/dev/null", O_RDWR);

	alarm(SECONDS);
	setpgid(0, 0);
	dup2(null, STDIN_FILENO);
	dup2(a == NULL ? out[1] : null, STDOUT_FILENO);
	if (getenv("ATTACK_DEBUG") == NULL)
		dup2(null, STDERR_FILENO);
	close(null);
	close(out[0]);
	close(out[1]);
	if (a == NULL)
		be_script(name);
	_exit(a->run());
}

static bool printed_42(int fd)
{
	char text[4096];
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return strncmp(text, "42\n", 3) == 0 || strstr(text, "\n42\n") != NULL;
}

static void report(const char *name, int status, bool is_script, bool printed)
{
	char text[64];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (WEXITSTATUS(status) == BROKEN)
		snprintf(text, sizeof(text), "broken");
	else if (is_script ? printed : WEXITSTATUS(status) == 0)
		snprintf(text, sizeof(text), "done");
	else if (is_script || strerrorname_np(WEXITSTATUS(status)) == NULL)
		snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
	else
		snprintf(text, sizeof(text), "%s", strerrorname_np(WEXITSTATUS(status)));
	printf("{\"attack\": \"%s\", \"result\": \"%s\"}\n", name, text);
	fflush(stdout);
}

static void try(const char *name)
{
	bool printed = false;
	int out[2], status;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0 || (pid = fork()) == -1) {
		report(name, BROKEN << 8, false, false);
		return;
	}
	if (pid == 0)
		be_attack(name, out);
	setpgid(pid, pid);
	close(out[1]);
	if (find(name) == NULL)
		printed = printed_42(out[0]);
	close(out[0]);
	if (waitpid(pid, &status, 0) != pid)
		status = BROKEN << 8;
	kill(-pid, SIGKILL);
	report(name, status, find(name) == NULL, printed);
}

int main(int argc, char **argv)
{
	const ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

	if (n <= 0)
		return BROKEN;
	*strrchr(here, '/') = '\0';
	for (int i = 1; i < argc; i++)
		try(argv[i]);
	return 0;
}
