// SPDX-License-Identifier: Apache-2.0
/* Keeps a home within its size. The agent has written what is there: this runs in a process with
 * the owner's uid and no power, follows no link, and does not believe modes and times of change
 * that a program can set.
 *
 * A part is the smallest thing that is removed: half a cache could break a build. Parts of caches
 * go first, the longest unused one first; then the largest of all other parts. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/remove.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 512 /* of st_blocks */
#define NICE 10
#define GOING ".agentsh-trim" /* what is being removed */

/* Each entry of these directories is a cache of its own. */
static const char *const caches[] = {
	".cache",	".cargo/git", ".cargo/registry", ".gradle/caches", ".ivy2/cache", ".m2",
	".local/share", ".npm",	      ".nuget",		 "go/pkg",
};

struct home_part {
	char *path; /* owned; relative to the home */
	bool cache;
	uint64_t bytes;
	struct timespec used;
};
struct parts {
	struct home_part *v;
	size_t n;
	uint64_t bytes; /* of all */
};

/* A directory that has more than one part. */
static bool is_divided(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(caches); i++)
		if (path_within(caches[i], path))
			return true;
	return false;
}

static void add_part(struct parts *p, const char *path)
{
	cleanup_free char *parent = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
	struct home_part part = {.path = mem_strdup(path + 2)};

	for (size_t i = 0; strlen(parent) > 2 && i < ARRAY_LEN(caches); i++)
		part.cache |= strcmp(parent + 2, caches[i]) == 0;
	p->v = mem_resize(p->v, p->n + 1, sizeof(*p->v));
	p->v[p->n++] = part;
}

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* A program can set neither the time of the last change nor, to an earlier time without changing
 * that, the time of the last read. Reading a directory is our own doing. */
static void count(struct parts *p, struct home_part *part, const struct stat *st)
{
	const uint64_t bytes = (uint64_t)st->st_blocks * BLOCK /
			       (S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : st->st_nlink);

	part->bytes += bytes;
	p->bytes += bytes;
	if (is_later(st->st_ctim, part->used))
		part->used = st->st_ctim;
	if (S_ISREG(st->st_mode) && is_later(st->st_atim, part->used))
		part->used = st->st_atim;
}

/* The working directory is the home: fts goes down by names. whole: no directory is divided. */
static void measure(struct parts *p, bool whole)
{
	char *const top[] = {(char[]){"."}, NULL};
	FTS *fts = fts_open(top, FTS_PHYSICAL | FTS_XDEV, NULL);
	int level = 0; /* of the part that is being counted; 0: none */
	FTSENT *e;

	while (fts != NULL && (e = fts_read(fts)) != NULL) {
		if (e->fts_info == FTS_DP || e->fts_level == 0) {
			if (e->fts_level == level)
				level = 0;
			continue;
		}
		/* once more, if the owner may read it then */
		if (e->fts_info == FTS_DNR && e->fts_number++ == 0) {
			remove_open_up(AT_FDCWD, e->fts_accpath);
			fts_set(fts, e, FTS_AGAIN);
			continue;
		}
		if (!whole && level == 0 && e->fts_info == FTS_D && is_divided(e->fts_path + 2))
			continue;
		if (level == 0 || e->fts_level <= level) {
			add_part(p, e->fts_path);
			level = e->fts_level;
		}
		if (e->fts_info != FTS_NS)
			count(p, &p->v[p->n - 1], e->fts_statp);
	}
	if (fts != NULL)
		fts_close(fts);
}

static int by_worth(const void *a, const void *b)
{
	const struct home_part *one = a, *two = b;

	if (one->cache != two->cache)
		return one->cache ? -1 : 1;
	if (!one->cache)
		return one->bytes != two->bytes ? (one->bytes > two->bytes ? -1 : 1) : 0;
	return is_later(two->used, one->used) ? -1 : is_later(one->used, two->used);
}

/* A part goes at once, by a rename: a session that begins meanwhile finds all of it or nothing. */
static void remove_part(int home, const char *path)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *parent =
		slash != NULL ? mem_strndup(path, (size_t)(slash - path)) : mem_strdup(".");
	cleanup_fd int dir = fdio_openat2(home, parent, O_PATH | O_DIRECTORY,
					  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	if (dir == -1)
		return;
	remove_tree(home, GOING);
	if (renameat(dir, slash != NULL ? slash + 1 : path, home, GOING) == 0)
		remove_tree(home, GOING);
	else
		remove_tree(dir, slash != NULL ? slash + 1 : path);
}

static uint64_t trim(int home, uint64_t keep)
{
	struct parts p = {0};
	uint64_t left;

	if (fchdir(home) < 0)
		return 0;
	remove_tree(home, GOING); /* the process before may have been ended */
	measure(&p, keep == 0);
	left = p.bytes;
	if (p.n > 0)
		qsort(p.v, p.n, sizeof(*p.v), by_worth);
	for (size_t i = 0; i < p.n; i++) {
		if (left > keep || keep == 0) {
			remove_part(home, p.v[i].path);
			left -= p.v[i].bytes;
		}
		free(p.v[i].path);
	}
	free(p.v);
	return left;
}

_Noreturn void home_trim_run(const struct home *h, bool drop, pid_t parent, uint64_t keep)
{
	int fd[] = {h->dir, h->report};
	uint64_t left;

	fdio_close_except(fd, ARRAY_LEN(fd));
	if ((drop && sandbox_become_holder(h->uid, h->uid, 0, NULL) < 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	errno = 0; /* a server's own niceness may be negative, and nice() returns the sum */
	if (nice(NICE) == -1 && errno != 0)
		_exit(EXIT_FAILURE);
	left = trim(h->dir, keep);
	_exit(fdio_write_all(h->report, &left, sizeof(left)) < 0);
}
