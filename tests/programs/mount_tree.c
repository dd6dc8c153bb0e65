// SPDX-License-Identifier: Apache-2.0
/* Serves a directory at another place by src/fs, until that place is unmounted or SIGTERM comes.
 *
 * usage: mount_tree [--as-caller] [--passthrough] [--threads N] [--ms ENTRY_AND_ATTR]
 *                   [--also FLAG] [--never FLAG] DIRECTORY PLACE
 * FLAG: FUSE_… of INIT, or "all".
 * Prints "ready" when the mount is in its place. SIGUSR1: prints how much it holds and
 * how many requests of each kind came. */
#include "fs/fs.h"
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

static void on_term(int sig)
{
	(void)sig;
	fs_transport_stop(transport);
}

static void *print_counts(void *arg)
{
	struct fs_counts c;
	sigset_t usr1;
	int sig;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	while (sigwait(&usr1, &sig) == 0) {
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

static int serve(struct fs *fs, int mount, const char *place)
{
	sigset_t usr1;
	pthread_t counter;
	int r;

	if (syscall(SYS_move_mount, mount, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		perror(place);
		return 1;
	}
	close(mount);
	signal(SIGTERM, on_term);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	pthread_create(&counter, NULL, print_counts, fs);
	printf("ready\n");
	fflush(stdout);
	make_admin_effective(false);
	r = fs_transport_run(transport);
	make_admin_effective(true);
	pthread_cancel(counter);
	pthread_join(counter, NULL);
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
						{"passthrough", no_argument, NULL, 'p'},
						{"also", required_argument, NULL, 'a'},
						{"never", required_argument, NULL, 'n'},
						{0}};
	struct fs_setup s = {.entry_ms = 1000, .attr_ms = 1000};
	struct fs_transport_setup ts = {.handle = handle_and_count, .on_interrupt = fs_interrupt};
	struct rlimit files;
	struct err err = {0};
	struct fs *fs = NULL;
	int option, mount, r;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
		if (option == 'c')
			s.as_caller = true;
		else if (option == 'p')
			s.passthrough = true;
		else if (option == 'a')
			ts.wanted.also |= flag_named(optarg);
		else if (option == 'n')
			ts.wanted.never |= flag_named(optarg);
		else if (option == 't')
			ts.threads = (unsigned)atoi(optarg);
		else if (option == 'm')
			s.entry_ms = s.attr_ms = (unsigned)atoi(optarg);
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
	s.root = open(argv[optind], O_PATH | O_DIRECTORY | O_CLOEXEC);
	ts.uid = geteuid();
	ts.gid = getegid();
	ts.wanted.also |= s.passthrough ? FUSE_PASSTHROUGH : 0;
	ts.allow_other = ts.default_permissions = s.as_caller;
	r = fs_new(&s, &fs, &err);
	ts.ctx = fs;
	if (r == 0)
		r = fs_transport_open(&ts, &mount, &transport, &err);
	if (r < 0) {
		fprintf(stderr, "mount_tree: %s\n", err.message);
		return 1;
	}
	fs_attach(fs, transport);
	r = serve(fs, mount, argv[optind + 1]);
	fs_free(fs);
	fs_transport_free(transport);
	close(s.root);
	return r;
}
