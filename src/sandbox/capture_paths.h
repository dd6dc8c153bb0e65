// SPDX-License-Identifier: Apache-2.0
/* sandbox/capture_paths.h - paths of the session's view by which a shell reports its state. */
#pragma once

#define CAPTURE_DIR "/run/agentsh"
#define CAPTURE_SOCKET "/run/agentsh/state.sock"
#define CAPTURE_PROGRAM "/run/agentsh/bin/state"
#define CAPTURE_PROOF "/run/agentsh/session" /* SHM-3: holds the session id */
