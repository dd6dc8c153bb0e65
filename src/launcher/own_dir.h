// SPDX-License-Identifier: Apache-2.0
/* launcher/own_dir.h - home and tmp of a session without namespaces. Private to launcher/. */
#pragma once
#include "launcher/session_files.h"

struct launcher;

/* *path is owned by the caller. */
int own_dir_make(struct launcher *l, const char *id, char **path, struct err *err);
/* Where they will be; owned by the caller. */
char *own_dir_path(const struct launcher *l, const char *id);
/* Has them removed, if the session has any, once its processes are dead. */
bool own_dir_drop(struct launcher *l, const char *id, const struct meta *m);
/* Those of sessions that no longer live. */
void own_dirs_sweep(struct launcher *l);
