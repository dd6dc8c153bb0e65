// SPDX-License-Identifier: Apache-2.0
/* Acts against BPF programs. Each act runs in a process of its own, loads one object, and makes a
 * session for it out of namespaces; all of it ends with the process. Before the program must act,
 * the same call is tried as a control: it must work. */
#include "base/fdio.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/bpf_programs.h"
#include "bpf/exec_sessions.h"
#include "bpf/file_layout.h"
#include "bpf/fuse_file.h"
#include "bpf/net_layout.h"
#include "bpf/session_maps.h"
#include "bpf/siphash.h"
#include "probe/probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#define LOCKDOWN "/sys/kernel/security/lockdown"
#define LOCKDOWN_MAX 256
#define SELF "/proc/self/exe"
#define PROGRAM "agentsh-probe-bpf"
#define OTHER_WORD "changed"

/* Why the act cannot be tried. */
static long untried(const char *why, char detail[PROBE_DETAIL])
{
	cleanup_buf struct buf lockdown = {0};
	const bool locked = fdio_load_path(LOCKDOWN, LOCKDOWN_MAX, &lockdown, NULL) == 0 &&
			    lockdown.len > 0 && strstr(lockdown.data, "[confidentiality]") != NULL;

	snprintf(detail, PROBE_DETAIL, "%s%s",
		 locked ? "the kernel is locked down (" LOCKDOWN " says confidentiality): " : "",
		 why);
	for (char *c = detail; *c != '\0'; c++)
		if (*c == '\t' || *c == '\n')
			*c = ' ';
	return PROBE_UNTRIED;
}

static long step_failed(const char *step, char detail[PROBE_DETAIL])
{
	char text[PROBE_DETAIL];

	snprintf(text, sizeof(text), "%s: %s", step, strerror(errno));
	return untried(text, detail);
}

/* ---- execs ---- */

/* Starts process 1 of a new PID namespace. Children of this process are then born in it, with ids
 * that this process knows. Process 1 ends when this process and its children have closed the pipe,
 * by their end at the latest. */
static pid_t enter_pid_namespace(void)
{
	char path[64], byte;
	int life[2];
	pid_t init;

	if (pipe2(life, O_CLOEXEC) < 0)
		return -1;
	init = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (init == 0) {
		close(life[1]);
		_exit(read(life[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(life[0]);
	if (init == -1)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)init);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd != -1 && setns(fd, CLONE_NEWPID) == 0 ? init : -1;
}

/* Executes this program with PROBE_RAN in a process of the session; returns its wait status. The
 * want says another word, or lets any program pass. */
static int execute(int wants, uint32_t state)
{
	static const char decided[] = PROGRAM "\0" OTHER_WORD;
	union exec_entry e = {.want = {.state = state,
				       .decided.argv_len = sizeof(decided),
				       .decided_path = PROGRAM}};
	struct stat st;
	int go[2], status = -1;
	uint32_t key;
	pid_t pid;
	char byte;

	if (pipe2(go, O_CLOEXEC) < 0 || stat(SELF, &st) < 0 ||
	    getrandom(e.want.hash_key, sizeof(e.want.hash_key), 0) < 0)
		return -1;
	e.want.decided.ino = st.st_ino;
	e.want.decided.dev = EXEC_DEV(major(st.st_dev), minor(st.st_dev));
	e.want.argv_hash = siphash(e.want.hash_key, decided, sizeof(decided));
	pid = fork();
	if (pid == 0) {
		if (read(go[0], &byte, 1) == 1)
			execl(SELF, PROGRAM, PROBE_RAN, NULL);
		_exit(1);
	}
	key = (uint32_t)pid;
	if (pid == -1 || bpf_map_put(wants, &key, &e) < 0 || write(go[1], "", 1) != 1)
		return -1;
	close(go[0]);
	close(go[1]);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* What a race ends in: the program that was loaded is not the one that was decided on. */
static long exec_other(const char *value, char detail[PROBE_DETAIL])
{
	struct exec_check check;
	struct err err = {0};
	pid_t init;
	int maps[SESSION_FDS], status;

	if (exec_check_load(&exec_check_image, &check, &err) < 0)
		return untried(err.message, detail);
	init = enter_pid_namespace();
	if (init == -1)
		return step_failed("make a PID namespace", detail);
	if (exec_sessions_add(&check, init, false, maps, &err) < 0)
		return untried(err.message, detail);
	if (execute(maps[SESSION_FD_WANTS], EXEC_PASS) != 0)
		return untried("an exec that was let pass did not run", detail);
	status = execute(maps[SESSION_FD_WANTS], EXEC_COMPARE);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		snprintf(detail, PROBE_DETAIL, "killed by SIGKILL before it ran");
		return PROBE_REFUSED;
	}
	return PROBE_DONE;
}

/* ---- network ---- */

/* Moves this process into a new network namespace. */
static int enter_network(uint64_t *cookie)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	socklen_t len = sizeof(*cookie);
	cleanup_fd int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return -1;
	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, cookie, &len);
}

/* Loads the object, enters a network namespace and makes a map for it: 0, or PROBE_UNTRIED. */
static long net_start(const struct bpf_image *image, const struct session_map *which, int *map,
		      char detail[PROBE_DETAIL])
{
	struct bpf_programs p;
	struct err err = {0};
	uint64_t cookie;

	if (bpf_programs_load(image, NULL, &p, &err) < 0)
		return untried(err.message, detail);
	if (enter_network(&cookie) < 0)
		return step_failed("make a network namespace", detail);
	if (session_map_add(which, p.map[0], &cookie, map, &err) < 0)
		return untried(err.message, detail);
	return 0;
}

/* A socket of 127.0.0.1 that receives, and its address. */
static int receiver(int type, struct sockaddr_in *at)
{
	const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd == -1 || bind(fd, (struct sockaddr *)at, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)at, &len) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 1) < 0))
		return -1;
	return fd;
}

static long owner_unnoted(const char *value, char detail[PROBE_DETAIL])
{
	struct sockaddr_in at, peer;
	socklen_t len = sizeof(peer);
	struct net_owner owner;
	struct net_tuple tuple;
	int owners = -1, from, to;

	if (net_start(&net_owner_image, &session_owners, &owners, detail) < 0)
		return PROBE_UNTRIED;
	from = receiver(SOCK_STREAM, &at);
	to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (from == -1 || to == -1 || connect(to, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    accept4(from, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC) < 0)
		return step_failed("connect", detail);
	tuple = (struct net_tuple){
		.source.word = {0, 0, htonl(0xffff), peer.sin_addr.s_addr},
		.destination.word = {0, 0, htonl(0xffff), at.sin_addr.s_addr},
		.source_port = peer.sin_port,
		.destination_port = at.sin_port,
	};
	if (bpf_map_take(owners, &tuple, &owner) < 0 || owner.pid != (uint32_t)getpid())
		return PROBE_DONE;
	snprintf(detail, PROBE_DETAIL, "noted as process %u", owner.pid);
	return PROBE_REFUSED;
}

static int reach(int type, const struct sockaddr_in *at)
{
	cleanup_fd int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (type == SOCK_STREAM)
		return connect(fd, (const struct sockaddr *)at, sizeof(*at));
	return sendto(fd, "x", 1, 0, (const struct sockaddr *)at, sizeof(*at)) == 1 ? 0 : -1;
}

static long net_refused(int type, char detail[PROBE_DETAIL])
{
	const struct net_rule rule = {.error = EACCES};
	struct net_rule_key key = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
				   .protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP};
	struct sockaddr_in at;
	int rules = -1;

	if (net_start(&net_refuse_image, &session_rules, &rules, detail) < 0)
		return PROBE_UNTRIED;
	if (receiver(type, &at) == -1 || reach(type, &at) < 0)
		return step_failed("reach an address without a rule", detail);
	key.address.word[2] = htonl(0xffff);
	key.address.word[3] = at.sin_addr.s_addr;
	if (bpf_map_put(rules, &key, &rule) < 0)
		return untried("cannot write a rule", detail);
	return reach(type, &at);
}

static long connect_refused(const char *value, char detail[PROBE_DETAIL])
{
	return net_refused(SOCK_STREAM, detail);
}

static long sendmsg_refused(const char *value, char detail[PROBE_DETAIL])
{
	return net_refused(SOCK_DGRAM, detail);
}

static long unix_refused(const char *value, char detail[PROBE_DETAIL])
{
	/* an abstract name belongs to the network namespace, so it needs no file */
	static const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0agentsh"};
	const struct net_rule rule = {.error = EACCES};
	struct net_path path;
	int paths = -1, from, to[2];

	if (net_start(&net_unix_image, &session_paths, &paths, detail) < 0)
		return PROBE_UNTRIED;
	from = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	to[1] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(from, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(from, 2) < 0 ||
	    connect(to[0], (const struct sockaddr *)&at, sizeof(at)) < 0)
		return step_failed("reach a path without a rule", detail);
	memcpy(path.text, at.sun_path, sizeof(path.text));
	if (bpf_map_put(paths, &path, &rule) < 0)
		return untried("cannot write a rule", detail);
	return connect(to[1], (const struct sockaddr *)&at, sizeof(at));
}

/* ---- files ---- */

/* A directory for a FUSE mount, in a mount namespace of this process. */
static int enter_mounts(char dir[])
{
	return unshare(CLONE_NEWNS) == 0 &&
			       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			       mkdtemp(dir) != NULL
		       ? 0
		       : -1;
}

/* In a process of the session: opens the file and reads one byte. */
static bool read_in_session(const char *path)
{
	const pid_t pid = fork();
	int status = -1;
	char byte;

	if (pid == 0)
		_exit(read(open(path, O_RDONLY), &byte, 1) == 1 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The session's slots, mapped; NULL: detail says why. */
static struct file_slot *files_start(uint32_t fuse_dev, char detail[PROBE_DETAIL])
{
	struct exec_session_key key;
	struct bpf_programs p;
	struct err err = {0};
	struct file_slot *slot;
	struct stat st;
	int slots, ring;

	if (bpf_programs_load(&file_calls_image, NULL, &p, &err) < 0) {
		untried(err.message, detail);
		return NULL;
	}
	key.init = (uint32_t)enter_pid_namespace();
	/* the namespace of the children, not of this process */
	if (key.init == (uint32_t)-1 || stat("/proc/self/ns/pid_for_children", &st) < 0) {
		step_failed("make a PID namespace", detail);
		return NULL;
	}
	key.pid_namespace = (uint32_t)st.st_ino;
	if (session_map_add(&session_slots, p.map[0], &key, &slots, &err) < 0 ||
	    session_map_add(&session_ring, p.map[1], &key, &ring, &err) < 0) {
		untried(err.message, detail);
		return NULL;
	}
	slot = mmap(NULL, FILE_SLOTS_MAX * sizeof(*slot), PROT_READ | PROT_WRITE, MAP_SHARED, slots,
		    0);
	if (slot == MAP_FAILED) {
		step_failed("map the counters", detail);
		return NULL;
	}
	slot[0].record.fuse_dev = fuse_dev;
	slot[0].record.record = FILE_WANT_DONE;
	return slot;
}

static long read_uncounted(const char *value, char detail[PROBE_DETAIL])
{
	char dir[] = "/tmp/agentsh-probe-XXXXXX", path[64];
	struct file_slot *slot;
	struct err err = {0};
	struct stat st;
	bool done = false;
	pid_t fuse;

	if (enter_mounts(dir) < 0)
		return step_failed("make a mount namespace", detail);
	if (fuse_file_mount(dir, &fuse, &err) < 0) {
		rmdir(dir);
		return untried(err.message, detail);
	}
	snprintf(path, sizeof(path), "%s/" FUSE_FILE_NAME, dir);
	slot = stat(dir, &st) == 0
		       ? files_start(EXEC_DEV(major(st.st_dev), minor(st.st_dev)), detail)
		       : NULL;
	if (slot != NULL)
		done = read_in_session(path);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	if (slot == NULL)
		return PROBE_UNTRIED;
	if (!done)
		return untried("cannot read from a FUSE mount", detail);
	if (slot[1].bytes.read != 1)
		return PROBE_DONE;
	snprintf(detail, PROBE_DETAIL, "counted: 1 byte");
	return PROBE_REFUSED;
}

static long open_unrecorded(const char *value, char detail[PROBE_DETAIL])
{
	struct file_slot *slot = files_start(0, detail);

	if (slot == NULL)
		return PROBE_UNTRIED;
	if (!read_in_session(SELF))
		return untried("cannot read a file in the session", detail);
	if (slot[0].record.recorded != 1)
		return PROBE_DONE;
	snprintf(detail, PROBE_DETAIL, "recorded");
	return PROBE_REFUSED;
}

const struct probe_act probe_bpf_acts[] = {
	{"bpf", "exec_check", "run another program than was decided", exec_other, NULL},
	{"bpf", "net_owner", "open a connection without being noted", owner_unnoted, NULL},
	{"bpf", "net_refuse", "connect to a refused address", connect_refused, NULL},
	{"bpf", "net_refuse", "send a datagram to a refused address", sendmsg_refused, NULL},
	{"bpf", "net_unix", "connect to a refused unix socket", unix_refused, NULL},
	{"bpf", "file_calls", "read a byte without being counted", read_uncounted, NULL},
	{"bpf", "file_calls", "open a file without a record", open_unrecorded, NULL},
	{NULL},
};
