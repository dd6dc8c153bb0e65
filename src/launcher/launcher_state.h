// SPDX-License-Identifier: Apache-2.0
/* launcher/launcher_state.h - the launcher's whole state. Private to launcher/.
 *
 * Start and stop: launcher.c, server_options.c (flags), settings.c (configuration and keys).
 * RUNTIME and the state directory: runtime.c. Children: child.c, api_child.c. A request for a
 * session: requester.c (who asks), admit.c, workspace_check.c, policy_snapshots.c, check_run.c
 * (agentsh-check). The kernel's exec check: bpf_child.c. A session: make.c, stub.c, pool.c
 * (prepared sandboxes), group.c (control groups), session_uids.c, session_limits.c. Its files:
 * session_files.c, own_dir.c, trim.c (kept homes). Its end: entries.c, orphans.c. */
#pragma once
#include "launcher/api_child.h"
#include "launcher/bpf_child.h"
#include "launcher/check_run.h"
#include "launcher/entries.h"
#include "launcher/group.h"
#include "launcher/orphans.h"
#include "launcher/pool.h"
#include "launcher/runtime.h"
#include "launcher/session_uids.h"
#include "launcher/settings.h"
#include "launcher/trim.h"
#include <sys/resource.h>
#include <sys/stat.h>

/* Behind those of the process table. */
enum { PROGRAM_API = PROCESSES, PROGRAM_CHECK, PROGRAM_BPF, PROGRAMS };
const char *program_name(size_t i);
struct programs {
	int fd[PROGRAMS];
	/* of agentsh-state, and of agentsh-init as als and so on; opened anew for each session */
	char *state_path, *acmd_path;
};

struct launcher {
	struct loop *loop;
	bool privileged, auto_start, accept_loss, stopping;
	bool ready;   /* an API child has listened, and the ready line was printed */
	int ready_fd; /* for the ready line, too; or -1 */
	uid_t owner_uid;
	struct settings_source source;
	struct settings settings;
	struct runtime place;
	struct programs programs;
	struct strv guarded; /* of workspace_guard */
	TAILQ_HEAD(, session_entry) entries;
	SLIST_HEAD(, snapshot) policies; /* that sessions have used */
	struct checks checks;
	struct bpf_child bpf;
	struct groups groups;
	struct pool pool;
	struct orphans orphans;
	struct trims trims;
	struct uids uids;
	size_t alive; /* entries with a living warden */
	struct api_child api;
	int signal_fd;
	struct watch *signals, *deadline;
	struct watch *config_look; /* NULL: the server does not look at its file by itself */
	struct stat config_seen;   /* the file as it was read; zeros: there was none */
	struct rlimit nofile;	   /* of this process at its start */
	int status;
};

void launcher_init(struct launcher *l); /* an empty one with a loop; launcher_done frees */
void launcher_done(struct launcher *l);
void launcher_stop(struct launcher *l, const char *why);
/* SIGHUP: reads the files again; what cannot be used changes nothing and is logged. */
void launcher_reload(struct launcher *l);
/* The same if the file has changed; only in a server that a command has started. */
void launcher_look(void *launcher);
/* Ends the loop once the API child and every warden have gone. */
void launcher_maybe_end(struct launcher *l);
/* Prints the ready line once; called when the API child listens. */
void launcher_say_ready(struct launcher *l);
