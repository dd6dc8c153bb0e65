// SPDX-License-Identifier: Apache-2.0
#include "fs/recorded_path.h"
#include "base/mem.h"
#include "base/path.h"
#include "model/workspace_names.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40   /* as the kernel follows */
#define STEPS_MAX 8192 /* names of one path, with those of the links */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

static const struct call_kind kinds[] = {
	[FILE_OPEN] = {OP_FILE_open, EVENT_file_open, false},
	[FILE_UNLINK] = {OP_FILE_delete, EVENT_file_delete, true},
	[FILE_RENAME] = {OP_FILE_rename, EVENT_file_rename, true},
	[FILE_LINK] = {OP_FILE_link, EVENT_file_link, true},
	[FILE_SYMLINK] = {OP_FILE_symlink, EVENT_symlink_create, true},
	[FILE_MKDIR] = {OP_FILE_create, EVENT_dir_create, true},
	[FILE_MKNOD] = {OP_FILE_create, EVENT_file_mknod, true},
	[FILE_CHMOD] = {OP_FILE_chmod, EVENT_file_chmod, false},
	[FILE_CHOWN] = {OP_FILE_chown, EVENT_file_chown, false},
	[FILE_TRUNCATE] = {OP_FILE_truncate, EVENT_file_truncate, false},
	[FILE_UTIMES] = {OP_FILE_write, EVENT_file_write, false},
	[FILE_XATTR] = {OP_FILE_write, EVENT_file_xattr, false},
	[FILE_STAT] = {OP_FILE_stat, EVENT_file_stat, false},
};

struct call_kind recorded_kind(const struct file_call *call)
{
	struct call_kind kind = kinds[call->operation];

	if (call->operation == FILE_OPEN && (call->flags & O_TMPFILE) == O_TMPFILE)
		return (struct call_kind){OP_FILE_create, EVENT_file_create, false};
	if (call->operation == FILE_OPEN && call->flags & O_DIRECTORY)
		return (struct call_kind){OP_FILE_list, EVENT_dir_list, false};
	if (call->operation == FILE_OPEN && call->created)
		return (struct call_kind){OP_FILE_create, EVENT_file_create, false};
	if (call->operation == FILE_OPEN)
		kind.link_self = call->flags & O_NOFOLLOW ||
				 (call->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
	if (call->operation == FILE_UNLINK && call->flags & AT_REMOVEDIR)
		kind.type = EVENT_dir_delete;
	return kind;
}

/* ---- names ---- */

/* Of the record's first or second path, of which the two texts begin there. */
static char *name_of(const struct file_call *call, int i, const char *text)
{
	cleanup_free char *dir = mem_strndup(text, call->path[i].base_len);
	cleanup_free char *argument =
		mem_strndup(text + call->path[i].base_len, call->path[i].argument_len);
	cleanup_free char *path = path_clean(dir, argument);

	if (call->cut & FILE_CUT_UNREAD << i)
		return mem_strdup(RECORDED_UNKNOWN);
	/* the beginning is not known */
	return call->cut & FILE_CUT_BASE && argument[0] != '/'
		       ? mem_printf(RECORDED_UNKNOWN "%s", path)
		       : take(path);
}

bool recorded_call_read(const void *record, size_t len, struct recorded_call *out)
{
	const struct file_call *call = record;
	const char *first = (const char *)(call + 1), *second;

	if (len < sizeof(*call) || call->operation >= ARRAY_LEN(kinds) ||
	    kinds[call->operation].type == 0)
		return false;
	second = first + call->path[0].base_len + call->path[0].argument_len;
	if (second + call->path[1].base_len + call->path[1].argument_len >
	    (const char *)record + len)
		return false;
	*out = (struct recorded_call){.call = call, .path = name_of(call, 0, first)};
	if (call->operation == FILE_SYMLINK)
		out->to = mem_strndup(second, call->path[1].argument_len);
	else if (call->operation == FILE_RENAME || call->operation == FILE_LINK)
		out->to = name_of(call, 1, second);
	return true;
}

bool recorded_call_unknown(const struct recorded_call *r)
{
	return r->path[0] != '/' ||
	       (r->to != NULL && r->call->operation != FILE_SYMLINK && r->to[0] != '/');
}

/* The place where the workspace is shown, or NULL. */
static const struct file_place *workspace_place(const struct file_view *view, const char *path)
{
	const struct file_place *p = path[0] == '/' ? file_view_find(view, path) : NULL;

	return p != NULL && p->canonical != NULL && path_within(p->canonical, WORKSPACE_CANONICAL)
		       ? p
		       : NULL;
}

static int open_below(int tree, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags), .resolve = BENEATH};

	return (int)syscall(SYS_openat2, tree, path[0] != '\0' ? path : ".", &how, sizeof(how));
}

/* A path of the session below the tree; owned. NULL: it leads elsewhere. */
static char *below_tree(const struct file_view *view, const char *path)
{
	const struct file_place *p = workspace_place(view, path);
	cleanup_free char *canonical = p != NULL ? path_swap(path, p->path, p->canonical) : NULL;
	const char *below = canonical != NULL ? canonical + strlen(WORKSPACE_CANONICAL) : NULL;

	return below != NULL ? mem_strdup(below + strspn(below, "/")) : NULL;
}

/* A path on its way through the links: `at` begins from `done`, which has no link. */
struct route {
	const struct file_view *view;
	int tree;
	bool last;  /* a link as the last name is followed */
	char *done; /* owned */
	char *text; /* owned */
	char *at;   /* in text */
};

/* False: no link, and no `..`, which is another directory where a link leads to. */
static bool has_links(const struct route *r)
{
	cleanup_free char *path = path_clean(r->done, r->at);
	cleanup_free char *below = below_tree(r->view, path);
	cleanup_fd int fd = -1;

	if (below == NULL || strstr(r->at, "..") != NULL)
		return strstr(r->at, "..") != NULL;
	fd = open_below(r->tree, below, r->last ? 0 : O_NOFOLLOW);
	return fd < 0 && errno == ELOOP;
}

/* Goes one name on. True: it was a link. */
static bool follow_one(struct route *r)
{
	const size_t len = strcspn(r->at, "/"), gap = strspn(r->at + len, "/");
	cleanup_free char *name = mem_strndup(r->at, len);
	cleanup_free char *path = path_clean(len > 0 ? r->done : "/", name);
	cleanup_free char *below = gap > 0 || r->last ? below_tree(r->view, path) : NULL;
	cleanup_fd int fd = below != NULL ? open_below(r->tree, below, O_NOFOLLOW) : -1;
	char link[PATH_MAX];
	const ssize_t n = fd >= 0 ? readlinkat(fd, "", link, sizeof(link)) : 0;

	r->at += len + gap;
	if (n > 0) {
		r->at = mem_printf("%.*s%s%s", (int)n, link, gap > 0 ? "/" : "", r->at);
		mem_replace(&r->text, r->at);
		return true;
	}
	mem_replace(&r->done, take(path));
	return false;
}

void recorded_call_follow(struct recorded_call *r, const struct file_view *view, int tree)
{
	const char *base = (const char *)(r->call + 1);
	struct route to = {.view = view, .tree = tree, .last = !recorded_kind(r->call).link_self};
	unsigned steps = 0;

	if (recorded_call_unknown(r))
		return;
	to.done = mem_strndup(base, r->call->path[0].base_len);
	to.text = to.at =
		mem_strndup(base + r->call->path[0].base_len, r->call->path[0].argument_len);
	for (bool go = has_links(&to); go && to.at[0] != '\0' && steps < STEPS_MAX; steps++)
		if (follow_one(&to)) {
			steps += STEPS_MAX / LINKS_MAX;
			go = has_links(&to);
		}
	mem_replace(&r->path,
		    steps < STEPS_MAX ? path_clean(to.done, to.at) : mem_strdup(RECORDED_UNKNOWN));
	free(to.done);
	free(to.text);
}

static void make_canonical(const struct file_view *view, char **path)
{
	const struct file_place *p =
		*path != NULL && **path == '/' ? file_view_find(view, *path) : NULL;

	if (p != NULL && p->canonical != NULL)
		mem_replace(path, path_swap(*path, p->path, p->canonical));
}

void recorded_call_name(struct recorded_call *r, const struct file_view *view)
{
	make_canonical(view, &r->path);
	if (r->call->operation != FILE_SYMLINK)
		make_canonical(view, &r->to);
}

void recorded_call_done(struct recorded_call *r)
{
	free(r->path);
	free(r->to);
}
