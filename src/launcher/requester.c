// SPDX-License-Identifier: Apache-2.0
/* The user who asks for a session, and the user that it runs as. The API child only passes the
 * proof on.
 *
 * A connection proves its peer only if it was accepted from our socket. A captured API child could
 * connect to another daemon of root and show that end: SO_PEERCRED would be root. In a mount
 * namespace of its own it could even give that end our address. Therefore the inode behind the
 * address is compared (SIOCUNIXFILE, unix(7); needs CAP_NET_ADMIN). */
#include "launcher/requester.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#ifndef SIOCUNIXFILE /* linux/un.h, which cannot stand beside sys/un.h */
#define SIOCUNIXFILE (SIOCPROTOPRIVATE + 0)
#endif

static int foreign(struct err *err, const char *what)
{
	return err_set(err, E_UNAUTHENTICATED, NULL,
		       "the proof is not a connection to this server: %s", what);
}

static int option(int fd, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	return getsockopt(fd, SOL_SOCKET, name, &v, &len) < 0 ? -1 : v;
}

static int check_inode(const struct runtime *p, int fd, struct err *err)
{
	cleanup_fd int file = ioctl(fd, SIOCUNIXFILE, 0);
	struct stat st;

	if (file == -1 && errno == EPERM)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_process_separation),
			       "%s: cannot check who asks (SIOCUNIXFILE); the server needs "
			       "CAP_NET_ADMIN, or to be a normal user's",
			       wall_name(WALL_process_separation));
	if (file == -1 || fstat(file, &st) < 0 || st.st_dev != p->socket_dev ||
	    st.st_ino != p->socket_ino)
		return foreign(err, "accepted elsewhere");
	return 0;
}

int requester_connected(const struct runtime *p, bool privileged, int fd, struct requester *out,
			struct err *err)
{
	struct sockaddr_un a = {0};
	socklen_t len = sizeof(a) - 1;
	struct ucred cred;
	socklen_t cred_len = sizeof(cred);
	int r;

	if (option(fd, SO_DOMAIN) != AF_UNIX || option(fd, SO_TYPE) != SOCK_STREAM ||
	    option(fd, SO_ACCEPTCONN) != 0)
		return foreign(err, "not a connected unix stream socket");
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0 || a.sun_family != AF_UNIX ||
	    strcmp(a.sun_path, p->socket) != 0)
		return foreign(err, "another address");
	/* Without privilege every peer has the same uid: a false proof gains nothing. */
	r = privileged ? check_inode(p, fd, err) : 0;
	if (r < 0)
		return r;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0 || cred.pid <= 0 ||
	    cred.uid == (uid_t)-1)
		return foreign(err, "its peer is unknown");
	*out = (struct requester){cred.uid, cred.gid, cred.uid == 0 || cred.uid == getuid()};
	/* Root is admin on a user's server too, and can only act for that user there. */
	if (!privileged && out->uid == 0)
		*out = (struct requester){geteuid(), getegid(), true};
	snprintf(out->agent, sizeof(out->agent), "uid-%u", cred.uid);
	return 0;
}

bool requester_by_tcp(const struct runtime *p, int fd)
{
	struct sockaddr_storage ours = {0}, local = {0};
	socklen_t n = sizeof(ours), m = sizeof(local);

	return p->tcp_fd != -1 && option(fd, SO_TYPE) == SOCK_STREAM &&
	       option(fd, SO_ACCEPTCONN) == 0 &&
	       getsockname(p->tcp_fd, (struct sockaddr *)&ours, &n) == 0 &&
	       getsockname(fd, (struct sockaddr *)&local, &m) == 0 && n == m &&
	       (local.ss_family == AF_INET || local.ss_family == AF_INET6) &&
	       memcmp(&ours, &local, n) == 0;
}

gid_t requester_primary_gid(uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	return pw != NULL ? pw->pw_gid : (gid_t)uid;
}

int requester_has_key(const struct api_keys *keys, const struct bytes *key, struct requester *out,
		      struct err *err)
{
	const struct api_key *found = api_keys_find(keys, key->data, key->len);

	if (found == NULL)
		return err_set(err, E_UNAUTHENTICATED, NULL, "this API key is not known");
	if (found->role == ROLE_APPROVER || found->uid == (uid_t)-1)
		return err_set(err, E_FORBIDDEN, found->id, "this API key may not make sessions");
	*out = (struct requester){found->uid, requester_primary_gid(found->uid),
				  found->role == ROLE_ADMIN};
	snprintf(out->agent, sizeof(out->agent), "%s", found->agent_id);
	return 0;
}

struct requester requester_owns(const char *path, bool privileged, struct requester caller)
{
	cleanup_fd int fd = open_as(path, O_PATH, privileged, caller.uid, caller.gid);
	struct stat st;

	return fd == -1 || fstat(fd, &st) < 0 ? caller : (struct requester){st.st_uid, st.st_gid};
}

/* A uid that separates the server from sessions, or sessions from users: no session may run as it.
 */
static bool is_own_uid(const struct config *c, uid_t uid)
{
	return uid == c->api_uid || uid_range_has(&c->session_uids, uid);
}

int identity_choose(bool privileged, const struct config *c, struct requester run,
		    struct requester owner, struct session_identity *out, struct err *err)
{
	if (!privileged && run.uid != geteuid())
		return err_set(err, E_FORBIDDEN, NULL,
			       "this server runs as uid %u and makes sessions for that uid only, "
			       "not for uid %u",
			       geteuid(), run.uid);
	if (!privileged) {
		run = (struct requester){geteuid(), getegid()};
		*out = (struct session_identity){run, run};
		return 0;
	}
	if (is_own_uid(c, run.uid))
		return err_set(err, E_FORBIDDEN, NULL, "uid %u belongs to agentsh itself", run.uid);
	if (strcmp(c->run_as, "owner") == 0 && owner.uid != run.uid)
		run = (struct requester){owner.uid, requester_primary_gid(owner.uid)};
	if (is_own_uid(c, run.uid))
		return err_set(err, E_FORBIDDEN, NULL,
			       "the workspace belongs to uid %u, which is agentsh's own", run.uid);
	/* Root acts for the owner of the workspace; other users may not. */
	*out = (struct session_identity){run, run.uid == 0 ? owner : run};
	return 0;
}
