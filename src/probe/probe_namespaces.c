// SPDX-License-Identifier: Apache-2.0
/* Acts against the namespaces: each tries to reach a target outside. */
#include "probe/probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_LEN 256
#define TEXT_LEN 4096

/* The owner of a system directory is root; in a user namespace that does not map root it is nobody.
 */
static enum probe_outcome see_ids(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	struct stat st;

	if (stat("/usr", &st) < 0)
		return probe_said(-1, detail);
	snprintf(detail, PROBE_DETAIL, "/usr belongs to %u", st.st_uid);
	return st.st_uid == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static enum probe_outcome open_canary(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const int fd = open(a->canary, O_RDONLY | O_CLOEXEC);
	const enum probe_outcome outcome = probe_said(fd, detail);

	if (fd >= 0)
		close(fd);
	return outcome;
}

static enum probe_outcome signal_host(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	return probe_said(kill(atoi(a->pid), SIGURG), detail);
}

/* The process is `agentsh doctor` or `agentsh detect`. */
static enum probe_outcome see_host(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	char path[64], text[TEXT_LEN + 1] = "";
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", atoi(a->pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return probe_said(fd, detail);
	n = read(fd, text, TEXT_LEN);
	close(fd);
	if (n > 0 && memmem(text, (size_t)n, "agentsh", 7) != NULL)
		return probe_said(0, detail);
	snprintf(detail, PROBE_DETAIL, "the number belongs to another process");
	return PROBE_REFUSED;
}

static enum probe_outcome try_connect(const struct sockaddr *at, socklen_t len,
				      char detail[PROBE_DETAIL])
{
	const int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enum probe_outcome outcome = probe_said(fd, detail);

	if (fd < 0)
		return outcome;
	outcome = probe_said(connect(fd, at, len), detail);
	close(fd);
	return outcome;
}

static enum probe_outcome connect_tcp(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)atoi(a->port)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return try_connect((const struct sockaddr *)&at, sizeof(at), detail);
}

static enum probe_outcome connect_abstract(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const size_t n = strnlen(a->abstract, sizeof(at.sun_path) - 1);

	memcpy(at.sun_path + 1, a->abstract, n);
	return try_connect((const struct sockaddr *)&at,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n), detail);
}

static enum probe_outcome find_sysv(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	return probe_said(msgget((key_t)strtol(a->key, NULL, 10), 0), detail);
}

static enum probe_outcome find_posix(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const mqd_t q = mq_open(a->queue, O_RDONLY | O_CLOEXEC);
	const enum probe_outcome outcome = probe_said(q, detail);

	if (q >= 0)
		mq_close(q);
	return outcome;
}

static enum probe_outcome see_hostname(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	char name[NAME_LEN] = "";

	gethostname(name, sizeof(name) - 1);
	snprintf(detail, PROBE_DETAIL, "the name is '%.100s'", name);
	return strcmp(name, a->hostname) == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static enum probe_outcome see_cgroup(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	char line[TEXT_LEN];
	FILE *f = fopen("/proc/self/cgroup", "re");

	snprintf(detail, PROBE_DETAIL, "every path is /");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		const char *path = strrchr(line, ':');

		if (path == NULL || strcmp(path, ":/\n") == 0)
			continue;
		snprintf(detail, PROBE_DETAIL, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
		fclose(f);
		return PROBE_DONE;
	}
	if (f == NULL)
		return probe_said(-1, detail);
	fclose(f);
	return PROBE_REFUSED;
}

static enum probe_outcome share(const char *path, const char *outside, char detail[PROBE_DETAIL])
{
	char link[NAME_LEN] = "";

	if (readlink(path, link, sizeof(link) - 1) < 0)
		return probe_said(-1, detail);
	snprintf(detail, PROBE_DETAIL, "%.100s", link);
	return strcmp(link, outside) == 0 ? PROBE_DONE : PROBE_REFUSED;
}

static enum probe_outcome share_mounts(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	return share("/proc/self/ns/mnt", a->mounts, detail);
}

static enum probe_outcome share_cgroup(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	return share("/proc/self/ns/cgroup", a->cgroup, detail);
}

#define NEEDS(name) offsetof(struct probe_args, name)
const struct probe_act probe_places[] = {
	{"user_namespace", "see the machine's user ids", see_ids, PROBE_ALWAYS},
	{"mount_namespace", PROBE_CANARY, open_canary, NEEDS(canary)},
	{"mount_namespace", "share the machine's mounts", share_mounts, NEEDS(mounts)},
	{"pid_namespace", PROBE_SIGNAL, signal_host, NEEDS(pid)},
	{"pid_namespace", "read its command line in /proc", see_host, NEEDS(pid)},
	{"net_namespace", PROBE_TCP, connect_tcp, NEEDS(port)},
	{"net_namespace", PROBE_ABSTRACT, connect_abstract, NEEDS(abstract)},
	{"ipc_namespace", PROBE_SYSV, find_sysv, NEEDS(key)},
	{"ipc_namespace", PROBE_POSIX, find_posix, NEEDS(queue)},
	{"uts_namespace", "read the machine's name", see_hostname, NEEDS(hostname)},
	{"cgroup_namespace", "see a cgroup of the machine", see_cgroup, PROBE_ALWAYS},
	{"cgroup_namespace", "share the machine's cgroups", share_cgroup, NEEDS(cgroup)},
	{NULL},
};
