// SPDX-License-Identifier: Apache-2.0
/* session/spare_files.h - the files that commands write their output into. */
#pragma once
#include "session/session.h"

struct output_file {
	char name[ID_MAX + 1];
	int fd; /* for writing; -1: closed, or not the server's any more */
};
#define NO_FILE ((struct output_file){.fd = -1})

int spare_take(struct session *s, struct command *c, struct err *err); /* fills c->file */
void spare_give(struct command *c); /* takes back what the ended command did not use */
void spare_fill(struct session *s);
void spare_drop(struct session *s);    /* removes the files, too */
void spares_drop(struct sessions *ss); /* of all sessions, when descriptors run out */
