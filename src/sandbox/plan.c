// SPDX-License-Identifier: Apache-2.0
#include "sandbox/plan.h"
#include "base/fdio.h"
#include "base/mem.h"
#include <endian.h>
#include <limits.h>

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
	ROW(FIELD_U32, bare, 0),
	ROW(FIELD_STR, workspace, PATH_MAX),
	ROW(FIELD_STR, own_dir, PATH_MAX),
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

	p.session_id = p.hostname = p.workspace = p.own_dir = NULL;
	p.withheld = p.shut_inside = p.blocked_inside = (struct strv){0};
	p.uid = p.gid = p.owner_uid = p.owner_gid = p.idmap = p.scratch_mb = 0;
	fields_pack(&sandbox_plan_fields, &p, out);
}

int plan_seal(const struct sandbox_plan *plan, uint32_t namespaces, int *fd, struct err *err)
{
	const uint32_t head = htole32(namespaces);
	cleanup_buf struct buf text = {0};
	int made;

	buf_add(&text, &head, sizeof(head));
	fields_pack(&sandbox_plan_fields, plan, &text);
	made = fdio_sealed("agentsh-plan", text.data, text.len);
	if (made == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "memfd_create");
	*fd = made;
	return 0;
}

int plan_load(int fd, struct sandbox_plan *plan, uint32_t *namespaces, struct err *err)
{
	cleanup_buf struct buf text = {0};
	uint32_t head;
	int r = fdio_load(fd, PLAN_MAX, &text, err);

	if (r < 0)
		return r;
	if (text.len < sizeof(head))
		return err_set(err, E_BAD_REQUEST, NULL, "the plan is too short");
	r = fields_unpack(&sandbox_plan_fields, text.data + sizeof(head), text.len - sizeof(head),
			  false, plan, err);
	if (r < 0)
		return r;
	memcpy(&head, text.data, sizeof(head));
	*namespaces = le32toh(head);
	return 0;
}

bool plan_may_lack(const struct sandbox_plan *plan, enum wall w)
{
	return wall_listed(&plan->unenforced, w);
}

bool sandbox_user_namespace(const struct sandbox_plan *plan)
{
	return !plan->bare && (!plan->privileged || (plan->root_inside && plan->uid != 0));
}
