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
#include "sandbox/as_user.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>

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
	struct findings *found;
};

static char *below(const struct look *k, const char *path)
{
	return path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", k->home, path);
}

static void tell(struct look *k, enum finding what, const char *text)
{
	if (strchr(text, '\n') == NULL && k->found->text.len + strlen(text) + 2 <= FINDINGS_MAX)
		buf_addf(&k->found->text, "%c%s\n", what, text);
}

static bool show(struct look *k, const char *part)
{
	cleanup_free char *path = below(k, part);
	cleanup_fd int fd = fdio_openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd == -1 || k->found->n == FDIO_MAX_FDS || fstat(fd, &st) < 0 ||
	    (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return false;
	tell(k, SHOWN, path);
	k->found->fd[k->found->n++] = take_fd(fd);
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
	const size_t before = k->found->n;
	bool fits = true;

	for (size_t i = 0; fits && i < ARRAY_LEN(row->hidden) && row->hidden[i] != NULL; i++)
		fits = hide(k, row->hidden[i]);
	for (size_t i = 0; fits && i < PARTS && row->shown[i] != NULL; i++)
		show(k, row->shown[i]);
	if (!fits || (k->found->n == before && row->shown[0] != NULL))
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

static void toolchains_look(void *arg, struct findings *f)
{
	const char *dir = arg;
	char home[PATH_MAX];
	struct look k = {home, f};

	if (realpath(dir, home) == NULL || strcmp(home, "/") == 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		look_at(&k, &rows[i]);
}

static void take_line(struct toolchains *t, char *line, struct findings *f, size_t *next,
		      struct buf *path)
{
	switch ((enum finding)line[0]) {
	case SHOWN:
		if (*next < f->n) {
			strv_add(&t->shown, line + 1);
			t->fd[t->shown.n - 1] = take_fd(f->fd[*next]);
			++*next;
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

bool toolchains_find(const struct toolchains_ask *ask, struct toolchains *out)
{
	const struct passwd *pw = getpwuid(ask->uid);
	struct as_user who = {ask->uid, ask->gid, ask->drop, toolchains_look, NULL};
	cleanup_buf struct buf path = {0};
	struct findings f;
	char *save = NULL;
	size_t next = 0;
	bool answered;

	*out = (struct toolchains){0};
	if (pw == NULL || pw->pw_dir == NULL || pw->pw_dir[0] != '/')
		return false;
	who.arg = pw->pw_dir;
	answered = as_user_look(&who, &f);
	if (f.text.len > 0)
		for (char *line = strtok_r(f.text.data, "\n", &save); line != NULL;
		     line = strtok_r(NULL, "\n", &save))
			take_line(out, line, &f, &next, &path);
	if (path.len > 0)
		strv_env_set(&out->env, "PATH", path.data);
	findings_done(&f);
	return answered;
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
