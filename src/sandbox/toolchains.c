// SPDX-License-Identifier: Apache-2.0
/* Toolchains in the caller's home: a table says where their programs are and which names must never
 * be shown. A session sees what exists at its own path, read-only.
 *
 * A child looks: it has the caller's ids and no capability, follows no link below the home, and is
 * ended after a while, because a home may be a file system that does not answer. It sends the
 * opened directories, so that a path that changes in between gains nothing. */
#include "sandbox/toolchains.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 500
#define ANSWER_MAX (32 * 1024)
#define HIDDEN_MAX 64
#define PARTS 7

/* Paths are relative to the home, or absolute. Of a directory with '*' the last version counts. */
static const struct toolchain {
	const char *name;
	const char *shown[PARTS]; /* programs and what they need */
	const char *bin[4];	  /* for PATH */
	const char *variable;
	const char *hidden[2]; /* in what is shown: may hold credentials */
} rows[] = {
	{"rust",
	 {".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml", ".rustup/update-hashes"},
	 {".cargo/bin"},
	 "RUSTUP_HOME=.rustup",
	 {".cargo/bin/credentials*"}},
	{"go", {"go/bin"}, {"go/bin"}},
	{"go of the machine", {NULL}, {"/usr/local/go/bin"}},
	{"node (nvm)",
	 {".nvm/versions"},
	 {".nvm/versions/node/*/bin"},
	 NULL,
	 {".nvm/versions/*/*/etc/npmrc", ".nvm/versions/*/*/lib/node_modules/npm/npmrc"}},
	{"node (volta)",
	 {".volta/bin", ".volta/tools"},
	 {".volta/bin"},
	 "VOLTA_HOME=.volta",
	 {".volta/tools/image/node/*/etc/npmrc"}},
	{"bun", {".bun/bin"}, {".bun/bin"}},
	{"deno", {".deno/bin"}, {".deno/bin"}},
	{"python (pyenv)",
	 {".pyenv/bin", ".pyenv/libexec", ".pyenv/pyenv.d", ".pyenv/shims", ".pyenv/version",
	  ".pyenv/versions"},
	 {".pyenv/shims", ".pyenv/bin"},
	 "PYENV_ROOT=.pyenv",
	 {".pyenv/versions/*/pip.conf"}},
	{"ruby (rbenv)",
	 {".rbenv/bin", ".rbenv/libexec", ".rbenv/shims", ".rbenv/version", ".rbenv/versions"},
	 {".rbenv/shims", ".rbenv/bin"},
	 "RBENV_ROOT=.rbenv"},
	{"java (sdkman)",
	 {".sdkman/candidates"},
	 {".sdkman/candidates/java/current/bin", ".sdkman/candidates/maven/current/bin",
	  ".sdkman/candidates/gradle/current/bin"},
	 "JAVA_HOME=.sdkman/candidates/java/current",
	 {".sdkman/candidates/*/*/conf/settings.xml"}},
	{"haskell (ghcup)", {".ghcup/bin", ".ghcup/ghc"}, {".ghcup/bin"}},
	{"own programs",
	 {".local/bin", ".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/python",
	  ".local/share/uv/tools"},
	 {".local/bin"}},
};

/* What the child tells: one line for each finding, by its first letter. */
enum finding { SHOWN = 's', HIDDEN = 'h', PROGRAMS = 'p', VARIABLE = 'v', NAME = 'n' };

struct look {
	const char *home;
	struct buf text; /* owned */
	int fd[FDIO_MAX_FDS];
	size_t n;
};

static char *below(const struct look *k, const char *path)
{
	return path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", k->home, path);
}

static void tell(struct look *k, enum finding what, const char *text)
{
	if (strchr(text, '\n') == NULL && k->text.len + strlen(text) + 2 < ANSWER_MAX)
		buf_addf(&k->text, "%c%s\n", what, text);
}

static bool show(struct look *k, const char *part)
{
	cleanup_free char *path = below(k, part);
	cleanup_fd int fd = fdio_openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd == -1 || k->n == FDIO_MAX_FDS || fstat(fd, &st) < 0 ||
	    (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return false;
	tell(k, SHOWN, path);
	k->fd[k->n++] = take_fd(fd);
	return true;
}

/* More names than can be covered: the row is not shown. */
static bool hide(struct look *k, const char *pattern)
{
	cleanup_free char *path = below(k, pattern);
	glob_t found = {0};
	const bool fits = glob(path, GLOB_NOSORT, NULL, &found) != GLOB_NOSPACE &&
			  found.gl_pathc <= HIDDEN_MAX;

	for (size_t i = 0; fits && i < found.gl_pathc; i++)
		tell(k, HIDDEN, found.gl_pathv[i]);
	globfree(&found);
	return fits;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

static void add_programs(struct look *k, const char *pattern)
{
	cleanup_free char *path = below(k, pattern);
	glob_t found = {0};

	if (glob(path, GLOB_ONLYDIR, NULL, &found) == 0) {
		qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_version);
		tell(k, PROGRAMS, found.gl_pathv[found.gl_pathc - 1]);
	}
	globfree(&found);
}

static void look_at(struct look *k, const struct toolchain *row)
{
	const size_t before = k->n;
	bool fits = true;

	for (size_t i = 0; fits && i < ARRAY_LEN(row->hidden) && row->hidden[i] != NULL; i++)
		fits = hide(k, row->hidden[i]);
	for (size_t i = 0; fits && i < PARTS && row->shown[i] != NULL; i++)
		show(k, row->shown[i]);
	if (!fits || (k->n == before && row->shown[0] != NULL))
		return;
	for (size_t i = 0; i < ARRAY_LEN(row->bin) && row->bin[i] != NULL; i++)
		add_programs(k, row->bin[i]);
	if (row->variable != NULL) {
		const size_t len = strcspn(row->variable, "=");
		cleanup_free char *text = mem_printf("%.*s=%s/%s", (int)len, row->variable, k->home,
						     row->variable + len + 1);

		tell(k, VARIABLE, text);
	}
	tell(k, NAME, row->name);
}

static _Noreturn void toolchains_run(const struct toolchains_ask *ask, const char *dir, int sock)
{
	struct look k = {0};
	char home[PATH_MAX];

	fdio_close_except(&sock, 1);
	if (ask->drop && sandbox_become_holder(ask->uid, ask->gid, 0, NULL) < 0)
		_exit(EXIT_FAILURE);
	if (realpath(dir, home) == NULL || strcmp(home, "/") == 0)
		_exit(0);
	k.home = home;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		look_at(&k, &rows[i]);
	_exit(k.text.len > 0 && fdio_send(sock, k.text.data, k.text.len, k.fd, k.n) < 0);
}

static void take_line(struct toolchains *t, char *line, int *fd, size_t *nfd, size_t *next,
		      struct buf *path)
{
	switch ((enum finding)line[0]) {
	case SHOWN:
		if (*next < *nfd) {
			strv_add(&t->shown, line + 1);
			t->fd[t->shown.n - 1] = fd[(*next)++];
		}
		break;
	case HIDDEN:
		strv_add(&t->hidden, line + 1);
		break;
	case PROGRAMS:
		buf_addf(path, "%s%s", path->len > 0 ? ":" : "", line + 1);
		break;
	case VARIABLE:
		strv_add(&t->env, line + 1);
		break;
	case NAME:
		strv_add(&t->names, line + 1);
		break;
	}
}

static void take_answer(struct toolchains *t, int sock)
{
	cleanup_free char *text = mem_alloc(ANSWER_MAX);
	cleanup_buf struct buf path = {0};
	int fd[FDIO_MAX_FDS];
	size_t nfd = FDIO_MAX_FDS, next = 0;
	const ssize_t n = fdio_recv(sock, text, ANSWER_MAX - 1, fd, &nfd, NULL);
	char *save = NULL;

	if (n <= 0)
		return;
	text[n] = '\0';
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		take_line(t, line, fd, &nfd, &next, &path);
	while (next < nfd)
		close(fd[next++]);
	if (path.len > 0)
		strv_env_set(&t->env, "PATH", path.data);
}

bool toolchains_find(const struct toolchains_ask *ask, struct toolchains *out)
{
	const struct passwd *pw = getpwuid(ask->uid);
	struct pollfd ready;
	int pair[2];
	pid_t pid;

	*out = (struct toolchains){0};
	if (pw == NULL || pw->pw_dir == NULL || pw->pw_dir[0] != '/' ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		toolchains_run(ask, pw->pw_dir, pair[1]);
	close(pair[1]);
	ready = (struct pollfd){pair[0], POLLIN, 0};
	if (pid > 0 && poll(&ready, 1, LOOK_MS) > 0)
		take_answer(out, pair[0]);
	close(pair[0]);
	if (pid <= 0)
		return false;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	return ready.revents != 0;
}

void toolchains_done(struct toolchains *t)
{
	for (size_t i = 0; i < t->shown.n; i++)
		mem_cleanup_fd(&t->fd[i]);
	strv_done(&t->shown);
	strv_done(&t->hidden);
	strv_done(&t->env);
	strv_done(&t->names);
	*t = (struct toolchains){0};
}

int sandbox_view_of_user(struct sandbox_plan *plan, const struct sandbox_workspace_ask *ask,
			 struct sandbox_trees *out, struct err *err)
{
	const struct toolchains_ask who = {ask->uid, ask->gid, plan->privileged != 0};
	struct toolchains tools = {0};
	int r;

	if (ask->toolchains)
		toolchains_find(&who, &tools);
	r = sandbox_view(plan, ask, &tools, out, err);
	toolchains_done(&tools);
	return r;
}
