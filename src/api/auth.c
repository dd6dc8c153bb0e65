// SPDX-License-Identifier: Apache-2.0
/* Identifies the caller: the owner of a key, else the peer of a unix connection, else (TCP with
 * auth.type none) the user of server.auth.none_as, or anonymous on a normal user's server. */
#include "api/api.h"
#include "base/mem.h"
#include <stdio.h>

static int by_key(struct call *call, const char *secret, struct err *err)
{
	const struct api_key *key = api_keys_find(&call->api->keys, secret, strlen(secret));
	struct caller *who = &call->who;
	cleanup_free char *peer = NULL;

	if (key == NULL)
		return err_set(err, E_UNAUTHENTICATED, NULL, "this API key is not known");
	peer = mem_printf("key-%s", key->id);
	if (!call->provider->set_peer(call, peer))
		return err_set(err, E_UNAVAILABLE, key->id,
			       "this API key has its share of the server's connections open "
			       "already: close some of them");
	snprintf(who->agent_id, sizeof(who->agent_id), "%s", key->agent_id);
	snprintf(who->key, sizeof(who->key), "%s", secret);
	who->role = key->role;
	who->uid = key->uid;
	return 0;
}

int call_admit_peer(const struct call *call, struct err *err)
{
	const struct api *api = call->api;

	if (!api->privileged || call->uid == CALL_NO_UID ||
	    !uid_range_has(&api->config.session_uids, call->uid))
		return 0;
	return err_set(err, E_FORBIDDEN, NULL,
		       "uid %u belongs to a session, and sessions may not use this server",
		       call->uid);
}

int call_authenticate(struct call *call, struct err *err)
{
	const struct api *api = call->api;
	struct caller *who = &call->who;
	const char *secret = NULL;
	int r = call->provider->credential(call, &secret, err);

	if (r < 0)
		return r;
	if (secret != NULL)
		return by_key(call, secret, err);
	who->conn_fd = call->fd;
	who->role = ROLE_AGENT;
	if (call->listener == LISTENER_UNIX) {
		if (call->uid == CALL_NO_UID)
			return err_set(err, E_UNAUTHENTICATED, NULL,
				       "the kernel does not tell who is connected");
		/* The role approver needs a key. */
		if (call->uid == 0 || call->uid == api->owner_uid)
			who->role = ROLE_ADMIN;
		who->uid = call->uid;
	} else if (strcmp(api->config.auth_type, "none") != 0) {
		return err_set(err, E_UNAUTHENTICATED, NULL,
			       "an API key is needed: Authorization: Bearer KEY");
	} else if (call->from_page) {
		/* A browser lets every page post to loopback, and names the page. */
		return err_set(err, E_FORBIDDEN, "Origin", "a web page needs an API key");
	} else {
		who->uid = api->privileged ? api->config.none_as : api->owner_uid;
	}
	if (call->listener == LISTENER_UNIX || api->privileged)
		snprintf(who->agent_id, sizeof(who->agent_id), "uid-%u", who->uid);
	else
		snprintf(who->agent_id, sizeof(who->agent_id), "anonymous");
	return 0;
}
