// SPDX-License-Identifier: Apache-2.0
/* The plan of a sandbox: as bytes, on its way from the stub to init, and what two plans must have
 * in common to share a prepared sandbox. */
#include "base/fdio.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#define PLAN_MAX (512 * 1024)
#define PATHS_MAX (64 * 1024)
#define NAMES_MAX 4096

#define ROW(kind, name, max) FIELD(struct sandbox_plan, kind, name, max)
static const struct field rows[] = {
	ROW(FIELD_STR, session_id, 64),
	ROW(FIELD_STR, hostname, 64),
	ROW(FIELD_U32, uid, 0),
	ROW(FIELD_U32, gid, 0),
	ROW(FIELD_U32, owner_uid, 0),
	ROW(FIELD_U32, owner_gid, 0),
	ROW(FIELD_U32, privileged, 0),
	ROW(FIELD_U32, idmap, 0),
	ROW(FIELD_STRV, unenforced, NAMES_MAX),
	ROW(FIELD_STR, state_program, PATH_MAX),
	ROW(FIELD_STR, acmd_program, PATH_MAX),
	ROW(FIELD_U32, root_inside, 0),
	ROW(FIELD_STRV, read_only_paths, PATHS_MAX),
	ROW(FIELD_STRV, passthrough_paths, PATHS_MAX),
	ROW(FIELD_STRV, monitored_paths, PATHS_MAX),
	ROW(FIELD_STRV, blocked_paths, PATHS_MAX),
	ROW(FIELD_STRV, kept_out, PATHS_MAX),
	ROW(FIELD_STRV, shut_inside, PATHS_MAX),
	ROW(FIELD_STRV, blocked_inside, PATHS_MAX),
	ROW(FIELD_U32, open_files, 0),
	ROW(FIELD_U32, open_files_max, 0),
	ROW(FIELD_U32, exec_control, 0),
	ROW(FIELD_U32, scratch_mb, 0),
	ROW(FIELD_STRV, withheld, PATHS_MAX),
	ROW(FIELD_STR, workspace, PATH_MAX),
	ROW(FIELD_STR, own_dir, PATH_MAX),
	ROW(FIELD_U32, workspace_at, 0),
	ROW(FIELD_STR, real_path, PATH_MAX),
	ROW(FIELD_STR, backing, PATH_MAX + 32),
	ROW(FIELD_STR, repository, PATH_MAX),
	ROW(FIELD_STR, worktree, PATH_MAX),
	ROW(FIELD_U32, namespaces, 0),
	ROW(FIELD_U32, trees, 0),
	ROW(FIELD_U32, fuse, 0),
	ROW(FIELD_STR, home, PATH_MAX),
	ROW(FIELD_STRV, toolchains, PATHS_MAX),
	ROW(FIELD_U32, trash, 0),
	ROW(FIELD_U32, holds, 0),
	ROW(FIELD_STRV, recorded_paths, PATHS_MAX),
	ROW(FIELD_STRV, late, 2 * PATHS_MAX),
	ROW(FIELD_STRV, served, 2 * PATHS_MAX),
};
const struct fields sandbox_plan_fields = {"sandbox_plan", sizeof(struct sandbox_plan), rows,
					   ARRAY_LEN(rows)};

const char *const sandbox_places[] = {"/workspace", "/home/agent", "/tmp",
				      "/var/tmp",   "/dev/shm",	   NULL};

void sandbox_plan_done(struct sandbox_plan *p)
{
	fields_done(&sandbox_plan_fields, p);
}

void sandbox_recipe(const struct sandbox_plan *plan, struct buf *out)
{
	struct sandbox_plan p = *plan;

	p.session_id = p.hostname = p.workspace = p.own_dir = p.real_path = p.backing = p.home =
		NULL;
	p.withheld = p.shut_inside = p.blocked_inside = p.toolchains = p.late = p.served =
		(struct strv){0};
	p.uid = p.gid = p.owner_uid = p.owner_gid = p.idmap = p.scratch_mb = p.trees = p.trash = 0;
	fields_pack(&sandbox_plan_fields, &p, out);
}

int plan_seal(const struct sandbox_plan *plan, int *fd, struct err *err)
{
	cleanup_buf struct buf text = {0};
	int made;

	fields_pack(&sandbox_plan_fields, plan, &text);
	made = fdio_sealed("agentsh-plan", text.data, text.len);
	if (made == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "memfd_create");
	*fd = made;
	return 0;
}

int plan_load(int fd, struct sandbox_plan *plan, struct err *err)
{
	cleanup_buf struct buf text = {0};
	int r;

	/* The stub has read it before init does. */
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "the plan cannot be read");
	r = fdio_load(fd, PLAN_MAX, &text, err);
	return r < 0 ? r
		     : fields_unpack(&sandbox_plan_fields, text.data, text.len, false, plan, err);
}

bool sandbox_user_namespace(const struct sandbox_plan *plan)
{
	return plan->own_dir == NULL &&
	       (!plan->privileged || (plan->root_inside && plan->uid != 0));
}

/* ---- the host paths of a recipe ----
 *
 * A sandbox binds the host's paths when it is prepared. The launcher must notice a path that leads
 * elsewhere afterwards, so the fingerprint contains the inodes. For the directories in /etc of
 * which single files are shown it contains the times as well. */

static const char *const directories[] = {"/etc", "/etc/ssl", "/etc/ssh", "/etc/pki",
					  "/etc/pki/tls"};
/* Links in /etc with a target that the host changes. */
static const char *const targets[] = {"/etc/resolv.conf"};

static void look(uint64_t *h, const char *path, bool times)
{
	struct stat st = {0};

	if (stat(path, &st) < 0)
		st = (struct stat){0};
	*h = fnv64(*h, &st.st_dev, sizeof(st.st_dev));
	*h = fnv64(*h, &st.st_ino, sizeof(st.st_ino));
	if (times)
		*h = fnv64(*h, &st.st_ctim, sizeof(st.st_ctim));
}

uint64_t sandbox_fingerprint(const struct sandbox_plan *plan)
{
	const struct strv *const lists[] = {&plan->read_only_paths, &plan->passthrough_paths,
					    &plan->monitored_paths, &plan->kept_out};
	uint64_t h = FNV64;

	for (size_t i = 0; i < ARRAY_LEN(directories); i++)
		look(&h, directories[i], true);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		look(&h, targets[i], false);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			look(&h, lists[i]->v[k], false);
	look(&h, plan->state_program, false);
	if (plan->acmd_program != NULL)
		look(&h, plan->acmd_program, false);
	return h != 0 ? h : 1;
}
