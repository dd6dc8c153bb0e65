// SPDX-License-Identifier: Apache-2.0
/* warden/processes.h - the processes of the session beside init (model/process_table.h).
 *
 * The stub has started them as children of the warden. Each has a link: the warden hands it the
 * actor table, waits until it is ready, answers its questions about actors and tells the API
 * process of its events. If one dies, the session fails, with its name in the reason. */
#pragma once
#include "base/err.h"
#include "link/msg.h"
#include "model/process_table.h"
#include <stdbool.h>
#include <stddef.h>

struct warden;
struct process_beside;

struct processes {
	struct process_beside *one[PROCESSES]; /* owned */
	size_t n;
	struct process_settings settings;
};
/* From the arguments of the warden. */
int processes_open(struct warden *w, struct err *err);
void processes_close(struct warden *w);
/* There is an actor table: greets all. */
void processes_greet(struct warden *w);
/* Sends the settings to all, with the descriptor of the log unless it is -1. */
void processes_settings(struct warden *w, int log_fd);
void processes_command_over(void *warden, const char *command_id);
bool processes_ready(const struct warden *w);
void processes_end(struct warden *w); /* closes the links: they end */
void processes_kill(struct warden *w);
bool processes_gone(const struct warden *w);
