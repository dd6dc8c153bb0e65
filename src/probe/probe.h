// SPDX-License-Identifier: Apache-2.0
/* probe/probe.h - forbidden acts, tried one after the other.
 *
 * `agentsh doctor` copies the program into a throwaway session's workspace and runs it there, where
 * every act must fail, and once outside. An act that succeeds outside and fails inside proves a
 * wall. The program uses libc alone and harms nothing where an act succeeds.
 *
 * usage: agentsh-probe GROUP [KEY=VALUE]...
 * Prints one line for each act, "wall\toutcome\twhat was tried\tresult". An act that needs a KEY is
 * left out if the KEY is missing. */
#pragma once

#define PROBE_SIGNAL "signal a process of the machine" /* only the target can say if it worked */
/* Acts that other walls refuse in a session without namespaces. */
#define PROBE_CANARY "open a file beside the workspace"
#define PROBE_TCP "connect to a port of the machine"
#define PROBE_ABSTRACT "connect to an abstract socket"
#define PROBE_SYSV "find a System V queue"
#define PROBE_POSIX "open a POSIX queue"
#define PROBE_EUID "euid" /* with this word, the status is 1 if the uids differ */

#define PROBE_RAN "ran" /* agentsh-probe-bpf with this word ends at once */

#define PROBE_DETAIL 320
enum { PROBE_DONE = 0, PROBE_REFUSED = -1, PROBE_UNTRIED = -2 };
/* Tries the act on the value of its key. A result >= 0 means that it succeeded. A detail that stays
 * empty becomes errno's name. */
typedef long probe_fn(const char *value, char detail[PROBE_DETAIL]);
struct probe_act {
	const char *group, *wall, *what;
	probe_fn *run;
	const char *key; /* names a target that the doctor made outside; NULL: needs none */
};
extern const struct probe_act probe_acts[]; /* ends with group NULL */
/* Acts of agentsh-probe-bpf, which root runs outside of sessions: each loads a BPF program, makes a
 * session for it, and does what the program must refuse, count or record. `wall` is the object's
 * name. An act that cannot be tried says why this machine does not let it have the program. */
extern const struct probe_act probe_bpf_acts[];

/* Tries the act in a child, which may die of it, and prints its line. */
void probe_try(const struct probe_act *act, const char *value);
/* The program; returns the exit status: 0, or 2 for a wrong usage. */
int probe_main(int argc, char **argv);
