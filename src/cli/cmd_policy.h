// SPDX-License-Identifier: Apache-2.0
/* cli/cmd_policy.h - functions that the `policy` commands share. Private to this folder. */
#pragma once
#include "cli/cli.h"
#include "config/config.h"
#include "exec/exec.h"
#include "policy/policy.h"

struct cli_policies {
	struct config config;
	struct strv dirs;
	bool strict;
};
struct cli_policy {
	struct policy *p;
	struct buf bytes, report;
};

/* Reads the configuration. The caller has zeroed *p and calls cli_policy_close in any case. */
int cli_policy_open(struct cli *cli, struct cli_policies *p, struct err *err);
void cli_policy_close(struct cli_policies *p);
#define cleanup_policies __attribute__((cleanup(cli_policy_close)))
/* Loads a policy by name, or a file (a word with a slash or with the ending .yaml or .yml); the
 * caller has zeroed *out and calls cli_policy_done in any case. */
int cli_policy_load(const struct cli_policies *at, const char *name, struct cli_policy *out,
		    struct err *err);
void cli_policy_done(struct cli_policy *p);
#define cleanup_policy __attribute__((cleanup(cli_policy_done)))

/* policy_view.c: what a session would see of files. The caller has zeroed *out. */
struct cli_view {
	struct file_view files;
	char *canonical; /* owned */
};
/* Names the workspace to the policy. */
void cli_view_open(const struct cli_policies *at, struct policy *p, struct cli_view *out);
void cli_view_close(struct cli_view *v);
#define cleanup_view __attribute__((cleanup(cli_view_close)))
/* Names the operation's file as rules do; the name belongs to the view. */
void cli_view_name(struct cli_view *v, struct op *op);
/* Refuses a policy with a rule that the configured mode cannot enforce, as the server does when it
 * loads the policy. E_ENFORCEMENT. */
int cli_view_enforceable(const struct cli_policies *at, const struct policy *p, struct err *err);
/* "not held everywhere: NAME (in PLACES); …"; nothing if all rules about files are held. */
void cli_view_lacking(const struct cli_view *v, const struct policy *p, struct buf *out);

/* policy_operation.c: an operation from the words of `policy test`. */
struct cli_operation {
	struct op op; /* points into the following, which is owned */
	char *text[2];
	struct strv argv;
	int root; /* the looker's */
	struct exec_looker *looker;
	struct exec_initial *initial; /* of exec, if the program exists */
};
int cli_operation_read(int argc, char **argv, struct cli_operation *out, struct err *err);
void cli_operation_done(struct cli_operation *o);
#define cleanup_operation __attribute__((cleanup(cli_operation_done)))
