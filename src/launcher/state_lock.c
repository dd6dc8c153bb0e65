// SPDX-License-Identifier: Apache-2.0
/* STATE/server.lock: one server for a state directory, wherever its socket is. Two servers would
 * write to one database, and each would count the other's sessions as lost. This happens easily:
 * XDG_RUNTIME_DIR and TMPDIR may differ between two shells of a user, the home directory does not.
 */
#include "base/fdio.h"
#include "base/file_lock.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#define NAME "server.lock"
#define DYING_MS 50 /* for a server that was killed a moment ago */

int runtime_state_file(const char *path, bool privileged, uid_t uid)
{
	return open_as(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, privileged, uid,
		       uid);
}

int runtime_claim(const struct config *c, bool privileged, struct runtime *p, char **other,
		  struct err *err)
{
	cleanup_free char *path = mem_printf("%s/%s", c->base_dir, NAME);
	cleanup_free char *line = mem_printf("%s\n", p->socket);
	cleanup_fd int fd = runtime_state_file(path, privileged, c->api_uid);
	struct stat st;
	pid_t holder = 0;

	if (fd == -1 || fstat(fd, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, path, "cannot open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_UNAVAILABLE, path, "%s is not a regular file: remove it",
			       path);
	if (file_lock_take(fd, DYING_MS, &holder) < 0) {
		/* The other server has written the path of its socket. */
		char socket[sizeof(((struct sockaddr_un *)0)->sun_path) + 1] = "";

		if (errno != EAGAIN)
			return err_errno(err, E_UNAVAILABLE, path, "cannot lock %s", path);
		if (fdio_pread_full(fd, socket, sizeof(socket) - 1, 0) > 0 && socket[0] == '/' &&
		    strchr(socket, '\n') != NULL)
			*other = mem_strndup(socket, strcspn(socket, "\n"));
		return err_set(err, E_CONFLICT, c->base_dir,
			       "sessions.base_dir %s is in use by another server (pid %d%s%s): use "
			       "that one, or give this one another directory",
			       c->base_dir, (int)holder, *other != NULL ? " on " : "",
			       *other != NULL ? *other : "");
	}
	/* This line is only information for others: a full disk does not matter. */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, line, strlen(line), 0);
	p->claim_fd = take_fd(fd);
	return 0;
}
