// SPDX-License-Identifier: Apache-2.0
/* Directories that outlive their sessions: homes, STATE/homes/NAME, and the trash of a session,
 * STATE/trash/ID.
 *
 * STATE of root's server belongs to the API child, which could put another directory there. So
 * `homes` and `trash` must belong to the launcher and be closed to the changes of all others; then
 * only the launcher has made what is in them. Everybody may reach the trash of a session by its
 * name, because its owner may use it. */
#include "base/hash.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARENT "homes"
#define TRASH "trash"
#define TRASH_MODE 0751 /* its group, the API process, may list it */

void home_name(const struct home_key *k, char out[HOME_NAME])
{
	cleanup_free char *text =
		mem_printf("%u\n%s\n%s\n%s", k->uid, k->agent, k->policy, k->workspace);
	uint8_t digest[HASH_LEN];
	char hex[HASH_HEX];

	hash_sha256(digest, text, strlen(text), NULL, 0);
	hash_hex(hex, digest);
	memcpy(out, hex, HOME_NAME - 1);
	out[HOME_NAME - 1] = '\0';
}

char *home_path(const char *state, const char *name)
{
	cleanup_free char *real = realpath(state, NULL);

	return mem_printf("%s/%s/%s", real != NULL ? real : state, PARENT, name);
}

static int open_parent(const char *state, const char *name, mode_t mode, int *out, struct err *err)
{
	cleanup_free char *path = mem_printf("%s/%s", state, name);
	cleanup_fd int fd = -1;
	struct stat st;

	if (mkdir(path, mode) == 0 || errno == EEXIST)
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1 || fstat(fd, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot use %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 0777 & ~mode) != 0)
		return err_set(err, E_UNAVAILABLE, path,
			       "%s must be a directory of uid %u with mode %04o: remove it", path,
			       geteuid(), mode);
	*out = take_fd(fd);
	return 0;
}

/* make: with this owner, if it does not exist. */
static int open_home(const char *state, const char *name, const uint32_t *make, struct home *out,
		     struct err *err)
{
	const bool trash = strncmp(name, TRASH "/", strlen(TRASH "/")) == 0;
	cleanup_fd int parent = -1, dir = -1;
	struct stat st;
	int r;

	name += trash ? strlen(TRASH "/") : 0;
	if (trash ? !id_valid(name)
		  : strspn(name, "0123456789abcdef") != HOME_NAME - 1 || name[HOME_NAME - 1] != 0)
		return err_set(err, E_NOT_FOUND, name, "no kept home '%s'", name);
	r = open_parent(state, trash ? TRASH : PARENT, trash ? TRASH_MODE : 0700, &parent, err);
	if (r < 0)
		return r;
	if (make == NULL || mkdirat(parent, name, 0700) == 0 || errno == EEXIST)
		dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir == -1 && errno == ENOENT)
		return err_set(err, E_NOT_FOUND, name, "no kept home '%s'", name);
	if (dir == -1 || fstat(dir, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, name, "cannot open the kept home %s", name);
	/* One that was made when sandbox.session_uids began elsewhere keeps its owner. */
	if (make != NULL && st.st_uid == geteuid() && st.st_uid != *make) {
		if (fchown(dir, *make, *make) < 0)
			return err_errno(err, E_UNAVAILABLE, name, "fchown(%s)", name);
		st.st_uid = *make;
	}
	*out = (struct home){
		.parent = take_fd(parent), .dir = take_fd(dir), .report = -1, .uid = st.st_uid};
	return 0;
}

int home_open(const char *state, const char *name, struct home *out, struct err *err)
{
	return open_home(state, name, NULL, out, err);
}

void home_close(struct home *h)
{
	mem_cleanup_fd(&h->parent);
	mem_cleanup_fd(&h->dir);
	mem_cleanup_fd(&h->report);
	*h = HOME_NONE;
}

static int clone_home(int dir, int userns, int *tree, struct err *err)
{
	cleanup_fd int made = -1;
	char real[PATH_MAX];
	int r = mnt_name(dir, real) > 0
			? mnt_clone(dir, "", &made, err)
			: err_errno(err, E_UNAVAILABLE, NULL, "readlink(/proc/self/fd/%d)", dir);

	if (r == 0)
		r = mnt_set(made, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, real, err);
	if (r == 0)
		r = idmap_tree(made, userns, real, NULL, err);
	if (r == 0)
		*tree = take_fd(made);
	return r;
}

/* In a kept home the agent may have left a link at a mount point. */
static int check_mounts(const struct sandbox_plan *p, const char *workspace, struct err *err)
{
	const struct strv *const lists[] = {&p->read_only_paths, &p->passthrough_paths,
					    &p->monitored_paths};
	const char *in = path_within(workspace, "/" INSIDE_HOME) ? workspace : NULL;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (path_within(lists[i]->v[k], "/" INSIDE_HOME))
				in = lists[i]->v[k];
	return in == NULL ? 0
			  : err_set(err, E_UNAVAILABLE, in, "%s lies in the home of sessions", in);
}

/* One that exists may belong to another user: it is left alone. */
int trash_make(const struct home_ask *ask, struct sandbox_trees *view, struct err *err)
{
	struct sandbox_plan *p = ask->plan;
	cleanup_fd int parent = -1, dir = -1;
	int tree = -1;
	int r = open_parent(ask->state, TRASH, TRASH_MODE, &parent, err);

	if (r < 0)
		return r;
	if (mkdirat(parent, p->session_id, 0700) == 0)
		dir = openat(parent, p->session_id,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir == -1 || (p->privileged &&
			  (fchown(dir, p->owner_uid, ask->readers) < 0 || fchmod(dir, 02750) < 0 ||
			   fchown(parent, 0, ask->readers) < 0 || fchmod(parent, TRASH_MODE) < 0)))
		return err_errno(err, E_UNAVAILABLE, TRASH, "cannot make the trash of session %s",
				 p->session_id);
	if (p->idmap && clone_home(dir, ask->userns, &tree, err) < 0)
		return -(int)err->code;
	sandbox_trees_add(view, p->idmap ? tree : take_fd(dir));
	p->trash = 1;
	return 0;
}

int home_keep(const struct home_ask *ask, const char *name, struct sandbox_trees *view,
	      struct err *err)
{
	const uint32_t own = geteuid();
	struct home home = HOME_NONE;
	cleanup_fd int made = -1;
	struct idmap map;
	int tree = -1;
	int r = check_mounts(ask->plan, ask->workspace, err);

	if (r == 0)
		r = open_home(ask->state, name, ask->map != NULL ? &ask->map->disk_uid : &own,
			      &home, err);
	if (r == 0 && ask->map != NULL) {
		map = *ask->map;
		map.disk_uid = map.disk_gid = home.uid;
		if (ask->userns == -1 || home.uid != ask->map->disk_uid)
			r = sandbox_idmap(&map, &made, err);
		if (r == 0)
			r = clone_home(home.dir, made != -1 ? made : ask->userns, &tree, err);
		if (r == 0)
			sandbox_trees_add(view, tree);
	}
	if (r == 0) {
		ask->plan->home = home_path(ask->state, name);
		ask->plan->trees = (uint32_t)view->n;
	}
	home_close(&home);
	return r;
}

/* ---- keeping a home within its size ---- */

int home_trim(struct home *h, bool drop, uint64_t keep, pid_t *pid, struct err *err)
{
	const pid_t parent = getpid();
	int report[2];

	if (pipe2(report, O_CLOEXEC) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "pipe2");
	h->report = report[1];
	*pid = fork();
	if (*pid == 0)
		home_trim_run(h, drop, parent, keep);
	close(report[1]);
	h->report = report[0];
	return 0;
}

const char *home_trimmed(const struct home *h, const char *name, bool purge, uint64_t *left)
{
	if (read(h->report, left, sizeof(*left)) != (ssize_t)sizeof(*left))
		return "the process that trims it was ended";
	if (purge && unlinkat(h->parent, basename(name), AT_REMOVEDIR) < 0)
		return "a part of it cannot be removed";
	return NULL;
}
