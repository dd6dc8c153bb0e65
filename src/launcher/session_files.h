// SPDX-License-Identifier: Apache-2.0
/* launcher/session_files.h - what a session has below RUNTIME/sessions. Private to launcher/. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "base/id.h"
#include "model/process_table.h"
#include <sys/types.h>

/* Ring and ack of the main process; those of the other rings follow, two by two. */
enum session_file {
	FILE_SOCK,
	FILE_META,
	FILE_NEW,
	FILE_RING,
	FILE_ACK,
	SESSION_FILES = FILE_RING + 2 * PROCESS_RINGS
};
#define SESSION_FILE_NAME_MAX (ID_MAX + 32)
void session_files_name(char out[SESSION_FILE_NAME_MAX], const char *id, enum session_file kind);
/* Takes the id from "ID.kind"; false if the name has another form. */
bool session_files_parse(const char *name, char id[ID_MAX + 1]);
bool session_files_any(int dir, const char *id);
/* Removes what a dead session cannot use (socket, half-written record), or all. */
void session_files_remove(int dir, const char *id, bool all);
int session_files_open(int dir, const char *id, enum session_file kind, int flags); /* -1/errno */
/* For the API process: the rings that are there, by name, and the descriptors (owned) of each: the
 * ring to read, the ack to write. Returns how many descriptors: 0 without the main process's. */
#define RINGS_FDS (2 * PROCESS_RINGS)
size_t session_files_rings(int dir, const char *id, struct strv *names, int fd[RINGS_FDS]);
/* Binds ID.sock (not yet listening); connects to it. -1/errno */
int session_files_bind(int dir, const char *id);
int session_files_connect(int dir, const char *id);

/* RUNTIME/sessions/ID.meta: written before a creation is answered. Another version may have made
 * the session, with other processes. */
#define META_NAME 16
#define META_PROCESSES 8
struct meta {
	struct meta_process {
		char name[META_NAME];
		uint64_t pid, start; /* see meta_start_time */
	} process[META_PROCESSES];   /* the main process is the first */
	size_t n;
	uint64_t uid, gid, owner_uid;
	uint64_t group;	 /* number of its cgroup; 0: none */
	uint64_t device; /* that holds the workspace; 0: not known */
};
void meta_add(struct meta *m, enum process process, pid_t pid, uint64_t start);
/* The process inside the namespaces; pid 0: not recorded. */
const struct meta_process *meta_inside(const struct meta *m);
int meta_save(int dir, const char *id, const struct meta *m, struct err *err);
int meta_load(int dir, const char *id, struct meta *out, struct err *err);
uint64_t meta_start_time(pid_t pid); /* clock ticks since boot; 0 if it has gone */
/* A descriptor of the process if it is still the one that was written down; else -1. */
int meta_pidfd(const struct meta_process *p);
void meta_kill(const struct meta_process *p);
void meta_kill_others(const struct meta *m); /* all but the main process */
