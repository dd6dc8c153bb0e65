// SPDX-License-Identifier: Apache-2.0
/* Serves a directory at another place by src/fs, until that place is unmounted or SIGTERM comes.
 *
 * usage: mount_tree [--as-caller] [--passthrough] [--io-uring] [--threads N]
 *                   [--ms ENTRY_AND_ATTR] [--keep MS] [--marks N] [--also FLAG] [--never FLAG]
 *                   [--policy FILE --events FILE [--blocked PATH] [--read-only PATH]
 *                    [--room FILE] [--trash DIRECTORY [--trash-bytes N]]]
 *                   DIRECTORY PLACE
 * FLAG: FUSE_… of INIT, or "all".
 * Prints "ready" when the mount is in its place. SIGUSR1: prints how much it holds and
 * how many requests of each kind came. With a policy the root is decided as /workspace, and each
 * event is a line of the events file. A process of the name "own" stands for agentsh's own, one of
 * the name "unknown" is not in the actor table. Events have room while the --room file exists. */
#include "base/fdio.h"
#include "base/mem.h"
#include "fs/fs.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct fs_transport *transport;
static atomic_ulong requests[64]; /* by opcode */

static void handle_and_count(void *fs, const struct fs_request *q, struct fs_reply *r)
{
	if (q->opcode < 64)
		atomic_fetch_add(&requests[q->opcode], 1);
	fs_handle(fs, q, r);
}

/* ---- decisions and events ---- */

static int events = -1;

static void write_event(void *arg, const struct gate_case *k, const struct gate_report *r,
			const struct event *e)
{
	cleanup_buf struct buf line = {0};

	(void)arg, (void)k, (void)r;
	event_format(e, &line);
	buf_adds(&line, "\n");
	fdio_write_all(events, line.data, line.len); /* O_APPEND: lines stay whole */
}

static enum fs_actor find_actor(void *arg, uint32_t tid, struct actor *out)
{
	char path[64], name[32] = "";
	FILE *f;

	(void)arg;
	*out = (struct actor){.pid = (pid_t)tid};
	strcpy(out->command_id, "cmd-1");
	snprintf(path, sizeof(path), "/proc/%u/comm", tid);
	f = fopen(path, "re");
	if (f != NULL) {
		if (fgets(name, sizeof(name), f) == NULL)
			name[0] = '\0';
		fclose(f);
	}
	return strcmp(name, "own\n") == 0	? FS_ACTOR_OWN
	       : strcmp(name, "unknown\n") == 0 ? FS_ACTOR_UNKNOWN
						: FS_ACTOR_COMMAND;
}

static const char *room; /* NULL: there always is */

static bool has_room(void *arg)
{
	(void)arg;
	return room == NULL || access(room, F_OK) == 0;
}

static struct gate *gate;

/* The warden would be asked; here the answer is always the same. */
static void record_late(void *arg, uint32_t tid, const struct gate_case *k,
			const struct gate_report *r)
{
	struct gate_case now = *k;

	(void)arg, (void)tid;
	strcpy(now.actor.command_id, "cmd-late");
	gate_settle(gate, &now, r);
}

static int open_gate(const char *policy, const char *file, struct err *err)
{
	const int fd = memfd_create("policy", MFD_CLOEXEC);
	struct gate_setup s = {.policy_fd = fd, .sink = write_event};
	cleanup_buf struct buf bytes = {0};
	struct strv dirs = {0};
	int r = policy_load_file(&dirs, policy, &(struct policy_options){0}, NULL, &bytes, err);

	if (r < 0)
		return r;
	events = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || events < 0 || fdio_write_all(fd, bytes.data, bytes.len) < 0)
		return err_errno(err, E_UNAVAILABLE, file, "cannot write");
	r = gate_open(&s, &gate, err);
	close(fd);
	return r;
}

/* SIGUSR1 and SIGTERM. */
static void *take_signals(void *arg)
{
	struct fs_counts c;
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	while (sigwait(&set, &sig) == 0) {
		if (sig == SIGTERM) {
			fs_quiet(arg);
			fs_transport_stop(transport);
			break;
		}
		fs_counts(arg, &c);
		printf("%zu nodes, %zu handles, %zu directories;", c.nodes, c.handles, c.open_dirs);
		for (uint32_t i = 0; i < 64; i++)
			if (requests[i] > 0)
				printf(" %s=%lu", fs_opcode_name(i), requests[i]);
		printf("\n");
		fflush(stdout);
	}
	return NULL;
}

/* A session's file system has CAP_SYS_ADMIN permitted, and not effective. */
static void make_admin_effective(bool on)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	syscall(SYS_capget, &head, data);
	data[0].effective &= ~(1U << CAP_SYS_ADMIN);
	if (on)
		data[0].effective |= data[0].permitted & (1U << CAP_SYS_ADMIN);
	syscall(SYS_capset, &head, data);
}

static void *run_transport(void *arg)
{
	make_admin_effective(false);
	*(int *)arg = fs_transport_run(transport);
	return NULL;
}

static int serve(struct fs *fs, int mount, const char *place)
{
	pthread_t signals, transport_thread;
	int r = 0, tree;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&transport_thread, NULL, run_transport, &r);
	/* the tree is a name of the mount, whose root only agentsh itself sees */
	tree = open_tree(mount, "0", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 ||
	    syscall(SYS_move_mount, tree, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		perror(place);
		exit(1);
	}
	close(mount);
	close(tree);
	pthread_create(&signals, NULL, take_signals, fs);
	printf("ready\n");
	fflush(stdout);
	pthread_join(transport_thread, NULL);
	pthread_cancel(signals);
	pthread_join(signals, NULL);
	umount2(place, MNT_DETACH);
	if (r < 0)
		fprintf(stderr, "mount_tree: %s\n", strerror(-r));
	return r < 0;
}

static uint64_t flag_named(const char *name)
{
	size_t n;
	const struct fs_flag_row *rows = fs_flag_rows(&n);
	uint64_t flags = 0;

	for (size_t i = 0; i < n; i++)
		if (strcmp(name, "all") == 0 || strcmp(name, rows[i].name) == 0)
			flags |= rows[i].flag;
	return flags;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"as-caller", no_argument, NULL, 'c'},
						{"threads", required_argument, NULL, 't'},
						{"ms", required_argument, NULL, 'm'},
						{"keep", required_argument, NULL, 'k'},
						{"marks", required_argument, NULL, 'M'},
						{"passthrough", no_argument, NULL, 'p'},
						{"io-uring", no_argument, NULL, 'u'},
						{"also", required_argument, NULL, 'a'},
						{"never", required_argument, NULL, 'n'},
						{"policy", required_argument, NULL, 'P'},
						{"events", required_argument, NULL, 'e'},
						{"blocked", required_argument, NULL, 'b'},
						{"read-only", required_argument, NULL, 'r'},
						{"room", required_argument, NULL, 'R'},
						{"trash", required_argument, NULL, 'T'},
						{"trash-bytes", required_argument, NULL, 'B'},
						{0}};
	struct fs_transport_setup ts = {.handle = handle_and_count, .on_interrupt = fs_interrupt};
	struct rlimit files;
	struct err err = {0};
	struct fs *fs = NULL;
	struct fs_tree tree = {.shown = "/workspace"};
	struct fs_setup s = {.tree = &tree,
			     .trees = 1,
			     .entry_ms = 1000,
			     .attr_ms = 1000,
			     .kept_ms = FS_KEPT_MS};
	struct fs_watch_setup watch = {
		.actor = find_actor, .late = record_late, .has_room = has_room};
	const char *policy = NULL, *log = "/dev/null";
	uint64_t trash_bytes = UINT64_C(1) << 30;
	int option, mount, trash = -1, r = 0;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		if (option == 'c')
			s.as_caller = true;
		else if (option == 'p')
			s.passthrough = true;
		else if (option == 'a')
			ts.wanted.also |= flag_named(optarg);
		else if (option == 'n')
			ts.wanted.never |= flag_named(optarg);
		else if (option == 'u')
			ts.uring = true;
		else if (option == 't')
			ts.threads = (unsigned)atoi(optarg);
		else if (option == 'm')
			s.entry_ms = s.attr_ms = (unsigned)atoi(optarg);
		else if (option == 'k')
			s.kept_ms = (unsigned)atoi(optarg);
		else if (option == 'M')
			s.marks = (unsigned)atoi(optarg);
		else if (option == 'P')
			policy = optarg;
		else if (option == 'e')
			log = optarg;
		else if (option == 'b')
			strv_add(&watch.blocked, optarg);
		else if (option == 'R')
			room = optarg;
		else if (option == 'T')
			trash = open(optarg, O_PATH | O_DIRECTORY | O_CLOEXEC);
		else if (option == 'B')
			trash_bytes = strtoull(optarg, NULL, 10);
		else if (option == 'r')
			strv_add(&watch.read_only, optarg);
		else
			return 2;
	if (argc - optind != 2) {
		fprintf(stderr, "usage: mount_tree [--as-caller] DIRECTORY PLACE\n");
		return 2;
	}
	umask(0);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	tree.root = open(argv[optind], O_PATH | O_DIRECTORY | O_CLOEXEC);
	ts.uid = geteuid();
	ts.gid = getegid();
	ts.wanted.also |= s.passthrough ? FUSE_PASSTHROUGH : 0;
	ts.allow_other = ts.default_permissions = s.as_caller;
	if (policy != NULL) {
		r = open_gate(policy, log, &err);
		watch.gate = gate;
		tree.real = argv[optind];
		s.watch = &watch;
	}
	if (r == 0 && trash != -1)
		r = trash_new(trash, &s.trash, &err);
	if (s.trash != NULL)
		trash_limit(s.trash, trash_bytes, 0);
	if (r == 0)
		r = fs_new(&s, &fs, &err);
	ts.ctx = fs;
	if (r == 0)
		r = fs_transport_open(&ts, &mount, &transport, &err);
	if (r < 0) {
		fprintf(stderr, "mount_tree: %s\n", err.message);
		return 1;
	}
	fs_attach(fs, transport);
	if (ts.uring && !(fs_transport_features(transport)->flags & FUSE_OVER_IO_URING))
		fprintf(stderr, "mount_tree: the kernel offers no io_uring\n");
	r = serve(fs, mount, argv[optind + 1]);
	fs_free(fs);
	trash_free(s.trash);
	fs_transport_free(transport);
	gate_close(gate);
	strv_done(&watch.blocked);
	strv_done(&watch.read_only);
	close(tree.root);
	return r;
}
