// SPDX-License-Identifier: Apache-2.0
/* launcher/requester.h - who asks for a session, and as which user it runs. Private to launcher/.
 */
#pragma once
#include "base/id.h"
#include "launcher/runtime.h"

struct requester {
	uid_t uid;
	gid_t gid;
	bool admin;
	char agent[ID_MAX + 1]; /* as the API child names it; only of the caller */
};
/* The peer of a connection that was accepted from our unix socket. E_UNAUTHENTICATED for any other
 * descriptor. */
int requester_connected(const struct runtime *p, bool privileged, int fd, struct requester *out,
			struct err *err);
/* A connection to our TCP listener: proves nothing but that, for auth.type none. */
bool requester_by_tcp(const struct runtime *p, int fd);
int requester_has_key(const struct api_keys *keys, const struct bytes *key, struct requester *out,
		      struct err *err);

struct session_identity {
	struct requester
		self; /* the session runs as this user where the owners of files cannot be mapped */
	struct requester files; /* owner of the files that it makes */
};
/* For which user the session acts: run is proven, owner has the workspace. E_FORBIDDEN for the uids
 * of agentsh itself. */
int identity_choose(bool privileged, const struct config *c, struct requester run,
		    struct requester owner, struct session_identity *out, struct err *err);
/* Owner of a path as the caller sees it; the caller itself where that fails (then opening it will
 * fail, too). */
struct requester requester_owns(const char *path, bool privileged, struct requester caller);
gid_t requester_primary_gid(uid_t uid);
