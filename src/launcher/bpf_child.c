// SPDX-License-Identifier: Apache-2.0
/* The launcher starts agentsh-bpf early and waits for it last, so that both prepare at the same
 * time. */
#include "launcher/bpf_child.h"
#include "base/log.h"
#include "base/mem.h"
#include "bpf/exec_check_link.h"
#include "launcher/launcher_state.h"

#define ANSWER_MS 10000

void bpf_child_start(struct launcher *l)
{
	const struct config *c = &l->settings.config;
	const struct check_wanted wanted = {c->session_uids.first, c->session_uids.last,
					    config_records(c), config_fuse(c)};
	struct bpf_child *b = &l->bpf;
	uint32_t uid = 0;

	if (strcmp(c->bpf, "off") == 0)
		return;
	if (!l->privileged)
		err_set(&b->why, E_ENFORCEMENT, NULL, "only root's server may load BPF programs");
	else if (bpf_caps_check(&b->why) == 0 && uids_need(l, &uid, &b->why) == 0 &&
		 child_start(&b->child, l, PROGRAM_BPF, uid, &b->link, &b->why) == 0)
		exec_check_ask(b->link, &wanted);
}

int bpf_child_collect(struct launcher *l, struct err *err)
{
	struct bpf_child *b = &l->bpf;
	siginfo_t si = {0};
	int r = 0;

	if (b->link != -1)
		r = exec_check_receive(take_fd(b->link), ANSWER_MS, &b->check, &b->why);
	child_end(&b->child, &si);
	if (r == -E_UNAVAILABLE)
		death_reason("agentsh-bpf", &si, b->why.message, sizeof(b->why.message));
	if (b->why.code != E_OK && config_needs_bpf(&l->settings.config) != NULL)
		return err_set(err, E_ENFORCEMENT, "sandbox.bpf", "%s, and BPF cannot be had: %s",
			       config_needs_bpf(&l->settings.config), b->why.message);
	if (b->why.code != E_OK)
		log_info("the kernel's BPF programs cannot all be had", "reason", b->why.message);
	return 0;
}
