// SPDX-License-Identifier: Apache-2.0
/* command/session_commands.h - the commands of one session, and what their owner (the warden) hands
 * in.
 *
 * Everything runs on the owner's loop thread. At the end of each loop turn the owner calls
 * run_start_held, sends the messages that are due, and calls run_free. */
#pragma once
#include "base/clock.h"
#include "base/loop.h"
#include "command/leaders.h"
#include "command/limit_counters.h"
#include "command/results.h"
#include "command/run.h"
#include "event/recorder.h"
#include "exec/exec.h"
#include "shell/capture_in.h"
#include "shell/shell_memory.h"

struct commands {
	/* From the start; borrowed. */
	const char *session_id;
	pid_t init_pid;
	struct link *init; /* starts new leaders */
	const struct clock *clock;
	struct loop *loop;
	struct recorder *recorder;
	struct shell_memory *memory;
	const struct warden_hello *settings;
	/* Tells the client that a command did not start. */
	void (*refuse)(void *owner, const char *command_id, uint32_t req, const struct err *err);
	/* The leader of this command died without being asked to. */
	void (*leader_died)(void *owner, const char *command_id);
	/* The command has ended; processes of it may live on. */
	void (*over)(void *owner, const char *command_id);
	void *owner;
	/* From the time when init is ready. The owner opens and closes them. */
	bool namespaces;	   /* the session has them, and a root of its own */
	int root_fd, null_fd;	   /* the session's root and its /dev/null */
	const char *state_program; /* reports a shell's state; a word of the shell */
	char *shell;		   /* runs scripts */
	struct gate *gate;
	struct gate_asker *asker;
	struct actor_table *actors;
	struct exec_control *control; /* NULL: execs are not watched */
	struct exec_looker *looker;
	struct capture_in *captures;
	/* What the owner does with the session. */
	bool closed;   /* it ends: no command is accepted */
	bool in_grace; /* it ends, and every process has been asked to end */
	bool sweeping; /* init ends all that runs; no command starts meanwhile */
	/* The commands' own. */
	struct run_list runs; /* in the order of their requests */
	struct leader_list idle;
	struct results results;
	struct limit_counters limits;
	uint64_t started; /* commands so far */
};

/* How execs of all commands have ended so far. */
struct exec_counts commands_exec_counts(const struct commands *cs);
