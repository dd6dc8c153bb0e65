// SPDX-License-Identifier: Apache-2.0
/* STATE/server.lock: one server for a state directory, wherever its socket is. Two would write one
 * database, and each would take the other's sessions for lost. A user meets that easily:
 * XDG_RUNTIME_DIR and TMPDIR are not the same in every place where he runs agentsh, his home is. */
#include "base/fdio.h"
#include "base/file_lock.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/un.h>

#define NAME "server.lock"
#define DYING_MS 50 /* for a server that was killed a moment ago */

int runtime_state_file(const char *path, bool privileged, uid_t uid)
{
	int fd;

	if (privileged) {
		setfsgid(uid);
		setfsuid(uid);
	}
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	if (privileged) {
		setfsuid(geteuid());
		setfsgid(getegid());
	}
	return fd;
}

/* What the owner of the lock has written. */
static char *read_socket(int fd)
{
	char line[sizeof(((struct sockaddr_un *)0)->sun_path) + 1] = "";

	if (fdio_pread_full(fd, line, sizeof(line) - 1, 0) <= 0 || line[0] != '/' ||
	    strchr(line, '\n') == NULL)
		return NULL;
	return mem_strndup(line, strcspn(line, "\n"));
}

static int in_use(const char *dir, pid_t holder, const char *socket, struct err *err)
{
	return err_set(err, E_CONFLICT, dir,
		       "sessions.base_dir %s is in use by another server (pid %d%s%s): use that "
		       "one, or give this one another directory",
		       dir, (int)holder, socket != NULL ? " on " : "",
		       socket != NULL ? socket : "");
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
		return err_set(err, E_UNAVAILABLE, path, "%s is no regular file: remove it", path);
	if (file_lock_take(fd, DYING_MS, &holder) < 0) {
		if (errno != EAGAIN)
			return err_errno(err, E_UNAVAILABLE, path, "cannot lock %s", path);
		*other = read_socket(fd);
		return in_use(c->base_dir, holder, *other, err);
	}
	/* Only told to others: a full disk does not matter. */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, line, strlen(line), 0);
	p->claim_fd = take_fd(fd);
	return 0;
}
