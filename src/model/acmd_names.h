// SPDX-License-Identifier: Apache-2.0
/* model/acmd_names.h - the commands that answer in JSON: one program with a name for each. */
#pragma once

#define ACMD_LIST(X)                                            \
	X(als, "[PATH]", "Lists a directory.")                  \
	X(acat, "FILE", "Reads a file, or a part of it.")       \
	X(afind, "[PATH]", "Finds files below a directory.")    \
	X(astat, "PATH...", "Shows the attributes of files.")   \
	X(aps, "", "Lists the session's processes.")            \
	X(aenv, "[NAME...]", "Shows the environment.")          \
	X(adf, "[PATH...]", "Shows the space of file systems.") \
	X(adu, "[PATH]", "Adds up the space below each directory.")

/* With namespaces, the names in ACMD_DIR are links to ACMD_FILE there. Without, they are links in
 * the directory ACMD_BESIDE beside agentsh-state. */
#define ACMD_DIR "/run/agentsh/bin"
#define ACMD_FILE "acmd"
#define ACMD_BESIDE "bin"
