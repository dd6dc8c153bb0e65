// SPDX-License-Identifier: Apache-2.0
/* cli/cmd_doctor.h - `agentsh doctor` tries every wall; private to this folder.
 *
 * agentsh-probe tries the same acts outside and in a throwaway session. An act that works outside
 * and fails inside proves a wall. An act that works inside although the session's report says `up`
 * proves that the report lies. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "cli/cli.h"
#include "model/wall.h"

#define DOCTOR_PROGRAM "agentsh-probe" /* beside this program, and its copy in the workspace */

enum doctor_outcome { DOCTOR_UNTRIED, DOCTOR_REFUSED, DOCTOR_DONE };
struct doctor_act {
	enum wall wall;
	char *what; /* owned */
	enum doctor_outcome inside, outside;
	char *answer; /* owned; the result inside, NULL if it was not tried there */
};

enum doctor_verdict {
	DOCTOR_OK, /* claimed, and an act that works outside was refused */
	DOCTOR_NOT_ASKED,
	DOCTOR_PART,	 /* up in part, as the report says */
	DOCTOR_UNPROVEN, /* claimed; no act that works outside could be tried */
	DOCTOR_ALLOWED,	 /* unavailable, and it may be missing */
	DOCTOR_MISSING,	 /* required and unavailable */
	DOCTOR_LIE,	 /* claimed, and the act succeeded */
};
struct doctor_wall {
	bool known; /* a session has reported it */
	enum wall_state state;
	char *detail;  /* owned */
	bool may_lack; /* not required, or the configuration lets it be missing */
	enum doctor_verdict verdict;
};
struct doctor_program; /* an act that a BPF program must refuse, count or record */
struct doctor_report {
	struct doctor_wall wall[WALLS];
	struct doctor_act *act; /* owned */
	size_t nacts;
	char *refusal;			/* owned; why no session could be made, NULL if one was */
	struct doctor_program *program; /* owned */
	size_t nprograms;
	char *no_bpf; /* owned; why no BPF program was tried, NULL if they were */
};

/* cmd_doctor_host.c */
#define FUSE_URING "/sys/module/fuse/parameters/enable_uring"
struct doctor_host {
	char kernel[96], machine[32], lsms[128], controllers[128], container[64], vm[64];
	char toolchains[256]; /* of the user who asks; may be empty */
	const char *cgroup;   /* "v1", "v2", "hybrid", "none" */
	int landlock_abi;
	bool root;	      /* root runs the server */
	bool fuse, fuse_shut; /* /dev/fuse is there; the server may not open it */
	char fuse_uring[4]; /* may the kernel send requests by io_uring: "Y", "N"; "": it cannot */
	bool seccomp, masked_proc;
	/* -1 if the kernel does not have the setting */
	long max_user_namespaces, unprivileged_userns_clone, apparmor_restrict_userns,
		yama_ptrace_scope, file_max;
};
void doctor_host_read(struct doctor_host *h);
void doctor_toolchains(struct doctor_host *h);
/* Returns what this ABI of Landlock lacks, or "". */
const char *doctor_landlock_lacks(int abi);
/* Adds what to do about a wall that is not up; a text can have several lines. */
void doctor_remedies(const struct doctor_host *h, enum wall w, struct strv *out);

/* cmd_doctor_report.c */
void doctor_report_done(struct doctor_report *r);
/* Reads lines of agentsh-probe, from its run inside or outside. */
void doctor_read_acts(struct doctor_report *r, const char *text, bool inside);
struct doctor_act *doctor_act(struct doctor_report *r, enum wall w, const char *what);
void doctor_judge(struct doctor_report *r);
/* Whether a required wall is missing, or a report lies. */
bool doctor_failed(const struct doctor_report *r);
/* Returns the wall of this name, or -1. */
int doctor_wall_by_name(const char *name);
void doctor_print(const struct doctor_report *r, const struct doctor_host *h, struct buf *out);
void doctor_json(const struct doctor_report *r, const struct doctor_host *h, struct jw *w);

/* cmd_doctor_bpf.c: the BPF programs, which agentsh-probe-bpf tries. */
#define DOCTOR_BPF_PROGRAM "agentsh-probe-bpf"
/* Runs it if this process is root's; else says why not, by whether root runs the server. */
void doctor_bpf_run(struct doctor_report *r, bool root_server, const char *dir);
/* Reads its lines. */
void doctor_bpf_read(struct doctor_report *r, const char *text);
bool doctor_bpf_failed(const struct doctor_report *r); /* a program that was loaded let an act go */
void doctor_bpf_print(const struct doctor_report *r, struct buf *out);
void doctor_bpf_json(const struct doctor_report *r, struct jw *w);
void doctor_bpf_done(struct doctor_report *r);

/* cmd_doctor_outside.c: the targets that the probe tries to reach from inside. */
struct doctor_outside {
	char *dir, *workspace; /* owned; dir is removed with all in it */
	char *program;	       /* owned; agentsh-probe on the host */
	int tcp, abstract;     /* listeners */
	int sysv;	       /* -1 or a queue */
	char *queue;	       /* owned; NULL or a POSIX queue */
	struct strv args;      /* KEY=VALUE for agentsh-probe */
};
#define DOCTOR_OUTSIDE_NONE                           \
	{                                             \
		.tcp = -1, .abstract = -1, .sysv = -1 \
	}
struct config;
/* o is DOCTOR_OUTSIDE_NONE before, and doctor_outside_close frees it in any case. */
int doctor_outside_open(struct doctor_outside *o, const struct config *config, struct err *err);
void doctor_outside_close(struct doctor_outside *o);
/* Runs agentsh-probe outside and adds its acts. */
void doctor_outside_run(const struct doctor_outside *o, const char *group, const struct strv *args,
			struct doctor_report *r);
/* Whether SIGURG came since the last call. */
bool doctor_outside_signalled(void);
/* Looks in /proc whether the server's processes have uids of their own, and fills the act. */
void doctor_outside_separation(const char *session, struct doctor_report *r);
