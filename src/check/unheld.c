// SPDX-License-Identifier: Apache-2.0
#include "check/unheld.h"
#include "base/mem.h"
#include "base/path.h"
#include "check/withheld.h"
#include "model/wall.h"
#include "sandbox/sandbox.h"

int unheld_refuse(const struct policy *p, const struct unheld_ask *ask, struct err *err)
{
	cleanup_file_view struct file_view view = {0};
	cleanup_strv struct strv places = {0}, withheld = {0};
	cleanup_buf struct buf text = {0};
	struct policy_holds holds;

	if (!policy_restricts(p, OP_FILE))
		return 0;
	withheld_find(p, ask->places, &withheld);
	sandbox_file_view(
		&(struct sandbox_plan){.passthrough_paths = *ask->places, .withheld = withheld},
		&view);
	for (size_t i = 0; i < ask->closed->n; i++)
		file_view_add(&view,
			      &(struct file_place){.path = ask->closed->v[i], .rest = HOLDER_VIEW});
	policy_hold(p, &view, &holds);
	strv_done(&holds.places);
	if (holds.lacking == 0)
		return 0;
	policy_rule_held(p, holds.first, &view, &places);
	policy_format_places(&places, &text);
	return err_set(
		err, E_ENFORCEMENT, wall_name(WALL_file_rules),
		"rule '%s' of policy '%s' cannot be enforced in %s with monitoring.mode %s, "
		"where no file server decides there: set monitoring.mode to fuse and load the fuse "
		"module or pass /dev/fuse into the container, choose the policy observe, or "
		"list file_rules in sandbox.allow_unenforced",
		policy_rule_name(p, holds.first), policy_name(p), text.data, ask->mode);
}
