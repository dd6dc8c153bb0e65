// SPDX-License-Identifier: Apache-2.0
#include "warden/file_wall.h"
#include "base/mem.h"

#define REMEDY "choose the policy observe, or list file_rules in sandbox.allow_unenforced"

static int refuse(const struct policy *p, const struct file_view *view, uint32_t rule,
		  struct err *err)
{
	cleanup_strv struct strv places = {0};
	cleanup_buf struct buf text = {0};

	if (!file_view_served(view))
		return err_set(
			err, E_ENFORCEMENT, wall_name(WALL_file_rules),
			"rule '%s' of policy '%s' is about single files, and this session has no "
			"file server that enforces it (monitoring.mode is native, or the machine "
			"has no FUSE or no namespaces): set monitoring.mode to fuse and load the "
			"fuse module or pass /dev/fuse into the container, " REMEDY,
			policy_rule_name(p, rule), policy_name(p));
	policy_rule_held(p, rule, view, &places);
	policy_format_places(&places, &text);
	return err_set(
		err, E_ENFORCEMENT, wall_name(WALL_file_rules),
		"nothing holds rule '%s' of policy '%s' in %s; with monitoring.mode fuse single "
		"files are decided in the workspace and filesystem.monitored_paths alone; " REMEDY,
		policy_rule_name(p, rule), policy_name(p), text.data);
}

int file_wall_set(const struct policy *p, const struct file_view *view, bool may_lack,
		  struct wall_report *walls, struct err *err)
{
	const bool served = file_view_served(view);
	cleanup_buf struct buf text = {0};
	struct policy_holds holds;
	int r = 0;

	if (!policy_restricts(p, OP_FILE)) {
		wall_set(walls, WALL_file_rules, WALL_ABSENT,
			 "the policy has no rules about files%s",
			 served ? "; the file server records what is done in the workspace" : "");
		return 0;
	}
	policy_hold(p, view, &holds);
	policy_format_places(&holds.places, &text);
	if (holds.lacking == 0)
		wall_set(walls, WALL_file_rules, WALL_UP, "every rule is held");
	else if (may_lack && !served)
		wall_set(walls, WALL_file_rules, WALL_UNAVAILABLE,
			 "%u of %u rules are decided, but not enforced in %s", holds.lacking,
			 holds.rules, text.data);
	else if (may_lack || (served && holds.first_unheld == holds.rules))
		wall_set(walls, WALL_file_rules, WALL_PARTIAL, "%u of %u rules are not held in %s",
			 holds.lacking, holds.rules, text.data);
	else
		r = refuse(p, view, served ? holds.first_unheld : holds.first, err);
	strv_done(&holds.places);
	return r;
}

void file_wall_records(const struct file_records *r, struct strv *walls)
{
	const char *more =
		r->served && r->refusals ? NULL
		: r->served		 ? "refusals elsewhere are not recorded (no BPF)"
		: r->recorded ? "BPF records what is done in the workspace and other listed paths"
			      : "nothing records what is done with files";
	struct wall_report all;
	struct err err;
	char was[sizeof(all.wall[0].detail)];

	wall_report_init(&all);
	if (more == NULL || wall_unpack(&all, walls, &err) < 0)
		return;
	memcpy(was, all.wall[WALL_file_rules].detail, sizeof(was));
	wall_set(&all, WALL_file_rules, all.wall[WALL_file_rules].state, "%s; %s", was, more);
	strv_done(walls);
	wall_pack(&all, walls);
}
