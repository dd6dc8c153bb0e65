// SPDX-License-Identifier: Apache-2.0
/* fs/fs_process.h - agentsh-fs: the file server of one session.
 *
 * The stub starts it before the session is known. It has the session's uid, and CAP_SYS_ADMIN where
 * root started the server. With its assignment it makes the FUSE mount, serves it on threads of its
 * own, and hands the mount to the warden, which gives it to init as the workspace. */
#pragma once

int fs_process_main(int argc, char **argv); /* the exit status */
