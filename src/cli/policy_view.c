// SPDX-License-Identifier: Apache-2.0
/* What a session of this machine and configuration would see of files, with the workspace that
 * `agentsh run` would take here. So `policy` can say what holds a rule. */
#include "base/mem.h"
#include "base/path.h"
#include "check/unheld.h"
#include "check/withheld.h"
#include "cli/cmd_policy.h"
#include "sandbox/sandbox.h"
#include "sandbox/toolchains.h"
#include <stdio.h>
#include <unistd.h>

/* The places in which the policy may withhold rights, and paths in them that are shut. */
static void list_places(const struct config *c, struct strv *places, struct strv *closed)
{
	for (const char *const *own = sandbox_places; *own != NULL; own++)
		strv_add(places, *own);
	config_listed_paths(c, places, closed);
}

int cli_view_enforceable(const struct cli_policies *at, const struct policy *p, struct err *err)
{
	const struct config *c = &at->config;
	cleanup_strv struct strv places = {0}, closed = {0};

	if (config_fuse(c) || wall_listed(&c->allow_unenforced, WALL_file_rules))
		return 0;
	list_places(c, &places, &closed);
	return unheld_refuse(p, &(struct unheld_ask){c->monitoring_mode, &places, &closed}, err);
}

void cli_view_open(const struct cli_policies *at, struct policy *p, struct cli_view *out)
{
	const struct config *c = &at->config;
	cleanup_free char *here = realpath(".", NULL);
	struct sandbox_plan plan = {
		.fuse = config_fuse(c) && access("/dev/fuse", R_OK | W_OK) == 0,
		.workspace_at = (strcmp(c->workspace_at, "real") != 0 ? SANDBOX_AT_WORKSPACE : 0) |
				(strcmp(c->workspace_at, "workspace") != 0 ? SANDBOX_AT_REAL : 0)};
	cleanup_strv struct strv places = {0}, closed = {0};
	struct toolchains tools = {0};

	strv_copy(&plan.read_only_paths, &c->read_only_paths);
	strv_copy(&plan.passthrough_paths, &c->passthrough_paths);
	strv_copy(&plan.monitored_paths, &c->monitored_paths);
	strv_copy(&plan.blocked_paths, &c->blocked_paths);
	if (strcmp(c->toolchains, "none") != 0 &&
	    toolchains_find(&(struct toolchains_ask){.uid = getuid(), .gid = getgid()}, &tools)) {
		strv_copy(&plan.toolchains, &tools.shown);
		strv_copy(&plan.blocked_inside, &tools.hidden);
	}
	toolchains_done(&tools);
	if (here != NULL)
		plan.real_path = cli_run_root(here);
	sandbox_serve(&plan, NULL, NULL, NULL);
	list_places(c, &places, &closed);
	withheld_find(p, &places, &plan.withheld);
	sandbox_file_view(&plan, &out->files);
	policy_name_workspace(p, plan.real_path);
	sandbox_plan_done(&plan);
}

void cli_view_close(struct cli_view *v)
{
	file_view_done(&v->files);
	free(v->canonical);
}

/* A rule has another name for a file that is shown twice. */
void cli_view_name(struct cli_view *v, struct op *op)
{
	const struct file_place *place =
		op->class == OP_FILE ? file_view_find(&v->files, op->file.path) : NULL;

	if (place == NULL || place->canonical == NULL)
		return;
	v->canonical = path_swap(op->file.path, place->path, place->canonical);
	op->file.path = v->canonical;
}

/* Writes one sentence about the rules that are not held everywhere, or nothing. */
void cli_view_lacking(const struct cli_view *v, const struct policy *p, struct buf *out)
{
	struct policy_holds holds;

	policy_hold(p, &v->files, &holds);
	for (uint32_t i = holds.first; i < holds.rules; i++) {
		cleanup_strv struct strv places = {0};

		if (policy_rule_held(p, i, &v->files, &places) == POLICY_HELD)
			continue;
		buf_addf(out, "%s%s (in ",
			 i > holds.first ? "; " : "not held everywhere: ", policy_rule_name(p, i));
		policy_format_places(&places, out);
		buf_adds(out, ")");
	}
	strv_done(&holds.places);
}
