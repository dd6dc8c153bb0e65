// SPDX-License-Identifier: Apache-2.0
/* fs/fs_session.h - the end of commands and the limits that they meet, as the file server sees
 * them. Process agentsh-fs. */
#pragma once
#include "fs/fs.h"
#include "process/process_self.h"

struct fs_session;
struct recorded_calls;

/* On the loop, before the worker threads start. */
struct fs_session *fs_session_new(struct process_self *p);
void fs_session_free(struct fs_session *s); /* after the worker threads have ended; NULL is fine */
struct tally *fs_session_tally(struct fs_session *s); /* for fs_watch_setup; borrowed */

/* Any thread. */
void fs_session_late(struct fs_session *s);  /* an event waits for its actor */
void fs_session_named(struct fs_session *s); /* it does not any more */
/* That event is settled, too. */
void fs_session_settled(struct fs_session *s, const struct gate_case *k,
			const struct gate_report *r);
/* The event of a recorded call is settled: the call could not be refused. */
void fs_session_recorded(struct fs_session *s, const struct gate_case *k,
			 const struct gate_report *r);
/* A file was closed, or a command has met a limit. */
void fs_session_news(struct fs_session *s);

/* Functions of struct process_program, on the loop. */
void fs_session_woken(struct fs_session *s);
void fs_session_settle(struct fs_session *s, struct fs *fs, const struct recorded_calls *calls,
		       const char *command_id);
void fs_session_settings(struct fs_session *s, const struct process_settings *settings);
