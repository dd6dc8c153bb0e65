// SPDX-License-Identifier: Apache-2.0
/* Finds the trees, recognises their version by statfs, and finds the controllers of each. */
#include "base/fdio.h"
#include "base/mem.h"
#include "cgroup/cgroup_group.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define ROOT "/sys/fs/cgroup"
#define OURS "agentsh"
#define SERVER "agentsh-server"
#define TEXT_MAX 65536
#define WEIGHT_MOST 4 /* processes that all sessions together weigh */

static const struct {
	const char *v1, *v2; /* NULL: does not exist */
} name_of[CGROUP_CONTROLLERS] = {
	[CGROUP_MEMORY] = {"memory", "memory"}, [CGROUP_CPU] = {"cpu", "cpu"},
	[CGROUP_CPUACCT] = {"cpuacct", NULL},	[CGROUP_PIDS] = {"pids", "pids"},
	[CGROUP_IO] = {"blkio", "io"},
};

/* A tree that is being added to the host. */
struct cgroup_found {
	const char *mount;
	const char *parent; /* as the caller gave it */
	bool v2;
	unsigned controllers;
	char *own; /* the server's own group, from the tree's root */
};

static bool is_a(const char *path, long magic)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (long)fs.f_type == magic;
}

/* Words end at a space, a comma, the line or the text. */
static bool has_word(const char *text, const char *word)
{
	for (const char *s = strstr(text, word); s != NULL; s = strstr(s + 1, word))
		if ((s == text || strchr(" ,\n", s[-1]) != NULL) &&
		    strchr(" ,\n", s[strlen(word)]) != NULL)
			return true;
	return false;
}

char *cgroup_own_path(const char *text, const char *controller)
{
	while (*text != '\0') {
		const size_t len = strcspn(text, "\n");
		cleanup_free char *line = mem_strndup(text, len);
		char *names = strchr(line, ':');
		char *path = names != NULL ? strchr(names + 1, ':') : NULL;

		if (path != NULL) {
			*path++ = '\0';
			names++;
			if ((controller == NULL ? *names == '\0' : has_word(names, controller)) &&
			    strncmp(path, "/..", 3) != 0)
				return mem_strdup(path);
		}
		text += len + (text[len] == '\n');
	}
	return mem_strdup("/");
}

static int open_at(const char *mount, const char *path)
{
	cleanup_free char *whole = mem_printf("%s/%s", mount, path);

	return open(whole, CGROUP_OPEN_DIR);
}

/* Opens the group in which ours will be made. */
static int open_base(const struct cgroup_found *f)
{
	int fd;

	if (f->parent != NULL) {
		cleanup_free char *path = mem_printf("%s/%s", f->mount, f->parent);

		fdio_mkdirs(path, 0755, NULL);
		return open_at(f->mount, f->parent);
	}
	fd = open_at(f->mount, f->own);
	/* A container may see its group as the root, and the host's path in /proc. */
	return fd == -1 && errno == ENOENT ? open_at(f->mount, "") : fd;
}

static void explain(struct cgroup_host *host, unsigned controllers, const char *call)
{
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if ((controllers & 1u << c) != 0)
			snprintf(host->why[c], CGROUP_WHY, "%s: %s", call, strerror(errno));
}

/* How many processes are in a group: 0, 1 if there is only this one, else 2. A group that cannot be
 * read counts as 2. */
static int crowd_in(int dir)
{
	cleanup_buf struct buf text = {0};

	if (cgroup_load(dir, "cgroup.procs", &text) < 0)
		return 2;
	if (text.len == 0)
		return 0;
	return strtol(text.data, NULL, 10) == getpid() &&
			       strchr(text.data, '\n') == text.data + text.len - 1
		       ? 1
		       : 2;
}

/* Gives the controllers of a v2 group to its children; returns those that the children have then.
 * A group with processes could give some (cpu, pids), but no process could enter its children. */
static unsigned hand_on(struct cgroup_host *host, int dir, unsigned wanted)
{
	unsigned given = 0;

	/* only the root has no type */
	if (faccessat(dir, "cgroup.type", F_OK, 0) == 0 && crowd_in(dir) > 0) {
		errno = EBUSY;
		explain(host, wanted, "the server's cgroup has other processes");
		return 0;
	}
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		if ((wanted & 1u << c) == 0)
			continue;
		if (cgroup_write(dir, "cgroup.subtree_control", "+%s", name_of[c].v2) == 0)
			given |= 1u << c;
		else
			explain(host, 1u << c, "cgroup.subtree_control (is it delegated to us?)");
	}
	return given;
}

/* Chooses the v2 group that can have limited children: our own if we are alone in it or it is the
 * root, else the one above, as with DelegateSubgroup= of systemd. Replaces *base. */
static unsigned choose_base(struct cgroup_host *host, const struct cgroup_found *f, int *base)
{
	const char *name = strrchr(f->own, '/');
	unsigned given, more;
	int above;

	/* v2 allows a group either processes or limited children: leave our own group. */
	if (f->parent == NULL && crowd_in(*base) == 1 &&
	    (mkdirat(*base, SERVER, 0755) == 0 || errno == EEXIST)) {
		cleanup_fd int aside = openat(*base, SERVER, CGROUP_OPEN_DIR);

		if (aside != -1)
			cgroup_write(aside, "cgroup.procs", "0");
	}
	given = hand_on(host, *base, f->controllers);
	if (given == f->controllers || f->parent != NULL || name == NULL || name[1] == '\0')
		return given;
	above = openat(*base, "..", CGROUP_OPEN_DIR);
	if (above == -1)
		return given;
	more = hand_on(host, above, f->controllers & ~given);
	if (more == 0 || given != 0) {
		close(above);
		return given;
	}
	close(*base);
	*base = above;
	return more;
}

static void add_tree(struct cgroup_host *host, const struct cgroup_found *f)
{
	cleanup_fd int base = open_base(f);
	unsigned has = f->controllers;
	int dir = -1;

	if (base != -1 && f->v2)
		has = choose_base(host, f, &base);
	if (base != -1 && (mkdirat(base, OURS, 0755) == 0 || errno == EEXIST))
		dir = openat(base, OURS, CGROUP_OPEN_DIR);
	if (dir == -1) {
		explain(host, has, "cannot make " OURS " in the server's cgroup");
		return;
	}
	if (f->v2)
		has = hand_on(host, dir, has);
	host->tree[host->n].dir = dir;
	host->tree[host->n].v2 = f->v2;
	host->tree[host->n++].controllers = has;
}

/* cpu and cpuacct are often one tree with two names. */
static bool same_tree(struct cgroup_host *host, const char *path, unsigned controller)
{
	struct stat a, b;

	if (stat(path, &a) < 0)
		return false;
	for (size_t i = 0; i < host->n; i++)
		if (!host->tree[i].v2 && fstat(host->tree[i].dir, &b) == 0 &&
		    a.st_dev == b.st_dev) {
			host->tree[i].controllers |= controller;
			return true;
		}
	return false;
}

static void add_v2(struct cgroup_host *host, const char *mount, const char *parent,
		   const char *groups)
{
	cleanup_free char *own = cgroup_own_path(groups, NULL);
	cleanup_free char *path = mem_printf("%s/cgroup.controllers", mount);
	struct cgroup_found f = {mount, parent, true, 0, own};
	cleanup_buf struct buf text = {0};
	char *name = strrchr(own, '/');

	if (!is_a(mount, CGROUP2_SUPER_MAGIC))
		return;
	/* The launcher before us has put itself there (choose_base). */
	if (name != NULL && strcmp(name + 1, SERVER) == 0)
		*name = '\0';
	fdio_load_path(path, TEXT_MAX, &text, NULL);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		if (name_of[c].v2 != NULL && text.len > 0 && has_word(text.data, name_of[c].v2))
			f.controllers |= 1u << c;
	add_tree(host, &f);
}

void cgroup_host_open(struct cgroup_host *host, const char *parent)
{
	cleanup_buf struct buf groups = {0};

	*host = (struct cgroup_host){0};
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++)
		snprintf(host->why[c], CGROUP_WHY, "no controller '%s' below " ROOT, name_of[c].v1);
	if (parent != NULL && parent[0] == '\0')
		parent = NULL;
	buf_adds(&groups, "");
	fdio_load_path("/proc/self/cgroup", TEXT_MAX, &groups, NULL);
	add_v2(host, ROOT, parent, groups.data);
	if (host->n > 0)
		return;
	add_v2(host, ROOT "/unified", parent, groups.data);
	for (unsigned c = 0; c < CGROUP_CONTROLLERS; c++) {
		cleanup_free char *mount = mem_printf(ROOT "/%s", name_of[c].v1);
		cleanup_free char *own = cgroup_own_path(groups.data, name_of[c].v1);

		if ((host->n == 0 || (host->tree[0].controllers & 1u << c) == 0) &&
		    is_a(mount, CGROUP_SUPER_MAGIC) && !same_tree(host, mount, 1u << c))
			add_tree(host, &(struct cgroup_found){mount, parent, false, 1u << c, own});
	}
}

bool cgroup_host_alive(const struct cgroup_host *host)
{
	for (size_t i = 0; i < host->n; i++)
		if (faccessat(host->tree[i].dir, "cgroup.procs", F_OK, 0) < 0)
			return false;
	return true;
}

void cgroup_weigh(struct cgroup_host *host, size_t sessions)
{
	static const struct {
		const char *file;
		unsigned process; /* the weight of one */
	} weight[] = {[false] = {"cpu.shares", 1024}, [true] = {"cpu.weight", 100}};
	const unsigned n = sessions < 1 ? 1 : sessions > WEIGHT_MOST ? WEIGHT_MOST : sessions;

	if (n == host->weight)
		return;
	host->weight = n;
	for (size_t i = 0; i < host->n; i++)
		if ((host->tree[i].controllers & 1u << CGROUP_CPU) != 0)
			cgroup_write(host->tree[i].dir, weight[host->tree[i].v2].file, "%u",
				     n * weight[host->tree[i].v2].process);
}

void cgroup_host_remove(struct cgroup_host *host)
{
	for (size_t i = 0; i < host->n; i++) {
		cleanup_fd int base = openat(host->tree[i].dir, "..", CGROUP_OPEN_DIR);

		if (base != -1)
			unlinkat(base, OURS, AT_REMOVEDIR);
	}
}

void cgroup_host_close(struct cgroup_host *host)
{
	while (host->n > 0)
		close(host->tree[--host->n].dir);
}
