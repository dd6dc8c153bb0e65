// SPDX-License-Identifier: Apache-2.0
#include "exec/program_cache.h"
#include "base/fdio.h"
#include "base/fnv.h"
#include "base/mem.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static void forget(struct known *k)
{
	free(k->path);
	free(k->resolved);
	*k = (struct known){0};
}

struct exec_looker *exec_looker_new(int root_fd, const struct workspace_names *names)
{
	struct exec_looker *p = mem_new(struct exec_looker);

	p->root = root_fd;
	p->workspace = names;
	p->names.workspace = names != NULL ? names->shown.v[0] : NULL;
	return p;
}

void exec_looker_stay_near(struct exec_looker *p)
{
	p->names.near = true;
}

struct exec_looker *exec_looker_lend(struct exec_looker *p)
{
	struct exec_looker *lent =
		p->spare != NULL ? take(p->spare) : exec_looker_new(p->root, p->workspace);

	lent->lent = true;
	lent->for_kernel = p->for_kernel;
	return lent;
}

void exec_looker_return(struct exec_looker *p, struct exec_looker *lent)
{
	exec_looker_free(p->spare);
	p->spare = lent;
}

void exec_looker_free(struct exec_looker *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < PROGRAM_CACHE_MAX; i++)
		forget(&p->known[i]);
	immutable_paths_done(&p->names);
	exec_looker_free(p->spare);
	free(p);
}

static struct known *place_of(struct exec_looker *p, const char *path)
{
	return &p->known[fnv32(FNV32, path, strlen(path)) % PROGRAM_CACHE_MAX];
}

/* Differs between any two files. A change of mode or owner changes the ctime as well. */
static bool read_mark(int dir, const char *path, struct statx *out)
{
	if (statx(dir, path, AT_EMPTY_PATH, STATX_BASIC_STATS, out) < 0)
		return false;
	out->stx_atime = (struct statx_timestamp){0};
	return true;
}

static const char *below_root(const char *path)
{
	return path + strspn(path, "/");
}

/* Fills the image if the program is known and still the same. */
static bool recall(struct exec_looker *p, const char *path, struct image *out)
{
	struct known *k = place_of(p, path);
	struct statx now;
	cleanup_fd int fd = -1;
	bool found;

	if (k->path == NULL || strcmp(k->path, path) != 0)
		return false;
	/* statx has no RESOLVE_IN_ROOT; a plain path does not need it. */
	if (!k->plain)
		fd = fdio_openat2(p->root, path, O_PATH, RESOLVE_IN_ROOT);
	found = k->plain ? read_mark(p->root, below_root(path), &now)
			 : fd >= 0 && read_mark(fd, "", &now);
	if (!found || memcmp(&now, &k->mark, sizeof(now)) != 0) {
		forget(k);
		return false;
	}
	*out = (struct image){.fd = -1,
			      .dev = makedev(now.stx_dev_major, now.stx_dev_minor),
			      .ino = (ino_t)now.stx_ino,
			      .fixed = true,
			      .comparable = k->comparable,
			      .program_immutable = true};
	out->called = mem_strdup(path);
	strv_add(&out->chain, k->resolved);
	return true;
}

/* Not a script, which depends on several files, nor ld.so, which depends on its arguments. */
static void remember(struct exec_looker *p, const char *path, const struct image *im)
{
	struct known *k = place_of(p, path);
	cleanup_fd int fd = -1;

	if (!im->fixed || im->chain.n != 1 || im->flags != 0)
		return;
	forget(k);
	if (!read_mark(im->fd, "", &k->mark))
		return;
	fd = fdio_openat2(p->root, below_root(path), O_PATH,
			  RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	k->plain = fd >= 0;
	k->comparable = im->comparable;
	k->path = mem_strdup(path);
	k->resolved = mem_strdup(im->chain.v[0]);
}

int program_cache_resolve(struct exec_looker *p, const struct image_name *name,
			  const struct args *args, struct image *out)
{
	const bool plain = name->path[0] == '/' && name->flags == 0;

	if (!plain || !recall(p, name->path, out)) {
		const int r = image_resolve(p->root, name, args, &p->names, out);

		if (r != 0)
			return r;
		out->comparable =
			p->for_kernel &&
			file_numbers_compare(&p->mounts, out->fd, out->dev, out->ino, name->tid);
		if (plain)
			remember(p, name->path, out);
		if (p->lent)
			image_hold_path(out);
	}
	image_fill_op(out, args, p->workspace);
	return 0;
}
