// SPDX-License-Identifier: Apache-2.0
/* Who asks: a key in the header, else the peer of a unix connection, else (TCP with auth.type none)
 * the user of server.auth.none_as, or anonymous on a normal user's server. */
#include "api/api.h"
#include "base/mem.h"
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

static int by_key(struct api *api, struct http_request *req, const char *secret, struct caller *who,
		  struct err *err)
{
	const struct api_key *key = api_keys_find(&api->keys, secret, strlen(secret));
	cleanup_free char *peer = NULL;

	if (key == NULL)
		return err_set(err, E_UNAUTHENTICATED, NULL, "this API key is not known");
	peer = mem_printf("key-%s", key->id);
	if (!http_set_peer(req, peer))
		return err_set(err, E_UNAVAILABLE, key->id,
			       "this API key has its share of the server's connections open "
			       "already: close some of them");
	snprintf(who->agent_id, sizeof(who->agent_id), "%s", key->agent_id);
	snprintf(who->key, sizeof(who->key), "%s", secret);
	who->role = key->role;
	who->uid = key->uid;
	return 0;
}

/* Nobody is approver by uid; root and the server's owner are admin. */
static int by_peer(struct api *api, int fd, struct caller *who, struct err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_errno(err, E_UNAUTHENTICATED, NULL, "cannot tell who is connected");
	snprintf(who->agent_id, sizeof(who->agent_id), "uid-%u", peer.uid);
	who->role = peer.uid == 0 || peer.uid == api->owner_uid ? ROLE_ADMIN : ROLE_AGENT;
	who->uid = peer.uid;
	who->conn_fd = fd;
	return 0;
}

int api_admit_peer(const struct api *api, struct http_request *req, struct err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (!api->privileged || !api->listener_unix[http_tag(req)] ||
	    getsockopt(http_fd(req), SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
	    !uid_range_has(&api->config.session_uids, peer.uid))
		return 0;
	return err_set(err, E_FORBIDDEN, NULL,
		       "uid %u belongs to a session, and sessions may not use this server",
		       peer.uid);
}

/* "Authorization: Bearer KEY" or "X-API-Key: KEY"; both with different keys is refused. */
static int find_secret(struct http_request *req, const char **secret, struct err *err)
{
	const char *bearer = http_header(req, "Authorization");
	const char *plain = http_header(req, "X-API-Key");

	if (bearer != NULL) {
		if (strncasecmp(bearer, "Bearer ", 7) != 0)
			return err_set(err, E_UNAUTHENTICATED, NULL,
				       "Authorization must be 'Bearer KEY'");
		bearer += 7;
		while (*bearer == ' ')
			bearer++;
		if (plain != NULL && strcmp(plain, bearer) != 0)
			return err_set(err, E_UNAUTHENTICATED, NULL,
				       "Authorization and X-API-Key name different keys");
	}
	*secret = bearer != NULL ? bearer : plain;
	return 0;
}

int api_check_host(const struct api *api, const struct http_request *req, struct err *err)
{
	static const char six[] = "[::1]";
	const char *host = http_header(req, "Host");
	cleanup_free char *name = NULL;
	const char *port;

	if (host == NULL || api->listener_unix[http_tag(req)])
		return 0;
	port = host + (strncmp(host, six, strlen(six)) == 0 ? strlen(six) : strcspn(host, ":"));
	name = mem_strndup(host, (size_t)(port - host));
	if ((strcasecmp(name, "localhost") == 0 || strcmp(name, six) == 0 ||
	     config_is_loopback(name)) &&
	    (*port == '\0' || (*port == ':' && port[1 + strspn(port + 1, "0123456789")] == '\0')))
		return 0;
	return err_set(err, E_FORBIDDEN, "Host",
		       "'%.100s' is not a name of this machine alone: use localhost or an address "
		       "of loopback",
		       host);
}

int api_authenticate(struct api *api, struct http_request *req, struct caller *who, struct err *err)
{
	const char *secret = NULL;
	int r = find_secret(req, &secret, err);

	if (r < 0)
		return r;
	who->conn_fd = -1;
	if (secret != NULL)
		return by_key(api, req, secret, who, err);
	if (api->listener_unix[http_tag(req)])
		return by_peer(api, http_fd(req), who, err);
	if (strcmp(api->config.auth_type, "none") != 0)
		return err_set(err, E_UNAUTHENTICATED, NULL,
			       "an API key is needed: Authorization: Bearer KEY");
	/* A browser lets every page post to loopback, and then says in whose name. */
	if (http_header(req, "Origin") != NULL)
		return err_set(err, E_FORBIDDEN, "Origin", "a web page needs an API key");
	who->role = ROLE_AGENT;
	who->uid = api->privileged ? api->config.none_as : api->owner_uid;
	if (api->privileged)
		snprintf(who->agent_id, sizeof(who->agent_id), "uid-%u", who->uid);
	else
		snprintf(who->agent_id, sizeof(who->agent_id), "anonymous");
	who->conn_fd = http_fd(req);
	return 0;
}
