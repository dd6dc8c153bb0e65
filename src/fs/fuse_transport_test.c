// SPDX-License-Identifier: Apache-2.0
/* A real mount in a mount namespace of the test's own, served by a file system of a few names. */
#include "base/testkit/child_testkit.h"
#include "fs/fuse_transport.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#define SECONDS 20 /* until a test that waits for something fails */
#define FILE_SIZE 300000
#define LONG_TIME 3600 /* cached for the whole test */
#define THREADS 4

/* Nodes are the places of these names; what each does is in the handler. */
enum { NODE_ROOT = 1, NODE_FILE, NODE_HELD, NODE_SLOW, NODE_LAST = NODE_SLOW };
static const char *const names[] = {
	[NODE_FILE] = "file", [NODE_HELD] = "held", [NODE_SLOW] = "slow"};

static char place[] = "/tmp/agentsh-fs-XXXXXX";
static struct fs_transport *transport;
static bool by_uring;
static pthread_t runner;
static int run_result;

static atomic_int seen[64]; /* requests by opcode */
static atomic_bool misaligned;
static atomic_size_t largest_write;
static _Atomic uint64_t parked, interrupted;
static atomic_int interrupts, unknown_first;
static sem_t is_parked, is_interrupted, in_handler, may_park;
static pthread_barrier_t together;
static struct fs_request last; /* of LOOKUP "file": numbers alone are looked at */

static void wait_for(sem_t *s)
{
	struct timespec until;
	int r;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SECONDS;
	do
		r = sem_timedwait(s, &until);
	while (r < 0 && errno == EINTR);
	assert_int_equal(r, 0);
}

static void attributes(uint64_t node, struct fuse_attr *a)
{
	*a = (struct fuse_attr){
		.ino = node,
		.mode = node == NODE_ROOT ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
		.size = node == NODE_FILE ? FILE_SIZE : 0,
	};
}

static char content(uint64_t offset)
{
	return (char)(offset * 31 >> 3);
}

static void answer(struct fs_reply *r, const void *p, size_t n)
{
	memcpy(r->out, p, n);
	r->len = n;
}

static void lookup(const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_entry_out e = {.entry_valid = LONG_TIME, .attr_valid = LONG_TIME};

	r->error = ENOENT;
	if (strcmp(q->name[0], "odd") == 0)
		r->error = 9999;
	if (strcmp(q->name[0], "negative") == 0)
		r->error = -ENOENT;
	if (strcmp(q->name[0], "long") == 0) {
		r->error = 0;
		r->len = sizeof(e) + 1;
	}
	if (strcmp(q->name[0], "huge") == 0) {
		r->error = 0;
		r->len = FS_MAX_IO + 1;
	}
	if (strncmp(q->name[0], "together", 8) == 0)
		pthread_barrier_wait(&together);
	for (uint64_t i = NODE_FILE; i <= NODE_LAST; i++)
		if (strcmp(q->name[0], names[i]) == 0) {
			e.nodeid = i;
			attributes(i, &e.attr);
			r->error = 0;
			answer(r, &e, sizeof(e));
		}
	if (strcmp(q->name[0], "file") == 0)
		last = *q;
}

static void do_open(const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_open_out o = {.open_flags = FOPEN_KEEP_CACHE};

	if (q->node == NODE_SLOW) {
		sem_post(&in_handler);
		sem_wait(&may_park);
	}
	if (q->node == NODE_SLOW || q->node == NODE_HELD) {
		r->parked = true;
		atomic_store(&parked, q->unique);
		sem_post(&is_parked);
		return;
	}
	answer(r, &o, sizeof(o));
}

static void do_read(const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_read_in *in = q->arg;
	char *out = r->out;

	for (; r->len < in->size && in->offset + r->len < FILE_SIZE; r->len++)
		out[r->len] = content(in->offset + r->len);
	if ((uintptr_t)out % (uintptr_t)sysconf(_SC_PAGESIZE) != 0)
		atomic_store(&misaligned, true);
}

static void do_write(const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_write_out w = {.size = (uint32_t)q->data_len};
	const char *data = q->data;

	for (size_t i = 0; i < q->data_len; i++)
		if (data[i] != content(i))
			r->error = EBADMSG;
	if ((uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE) != 0)
		atomic_store(&misaligned, true);
	if (q->data_len > atomic_load(&largest_write))
		atomic_store(&largest_write, q->data_len);
	answer(r, &w, sizeof(w));
}

static void handle(void *ctx, const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_attr_out a = {.attr_valid = LONG_TIME};

	if (q->opcode < ARRAY_LEN(seen))
		atomic_fetch_add(&seen[q->opcode], 1);
	switch (q->opcode) {
	case FUSE_LOOKUP:
		lookup(q, r);
		return;
	case FUSE_GETATTR:
		attributes(q->node, &a.attr);
		answer(r, &a, sizeof(a));
		return;
	case FUSE_OPEN:
		do_open(q, r);
		return;
	case FUSE_READ:
		do_read(q, r);
		return;
	case FUSE_WRITE:
		do_write(q, r);
		return;
	case FUSE_RELEASE:
	case FUSE_FLUSH:
		return;
	case FUSE_TMPFILE:
		r->error = q->name[0] == NULL ? EDQUOT : EBADMSG;
		return;
	default:
		r->error = ENOSYS;
	}
}

static bool on_interrupt(void *ctx, uint64_t unique)
{
	struct fs_reply r = {.error = EINTR};

	atomic_fetch_add(&interrupts, 1);
	if (atomic_fetch_sub(&unknown_first, 1) > 0)
		return false;
	if (unique != atomic_load(&parked))
		return false;
	atomic_store(&interrupted, unique);
	(void)fs_transport_answer(transport, unique, &r);
	sem_post(&is_interrupted);
	return true;
}

static void *run(void *arg)
{
	run_result = fs_transport_run(transport);
	return NULL;
}

static void start(unsigned threads, uint64_t never)
{
	struct fs_transport_setup s = {.handle = handle,
				       .on_interrupt = on_interrupt,
				       .threads = threads,
				       .uring = by_uring,
				       .wanted = {.never = never},
				       .allow_other = true,
				       .mount_attributes = MOUNT_ATTR_NOSUID};
	cleanup_fd int mount = -1;
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(seen); i++)
		atomic_store(&seen[i], 0);
	atomic_store(&interrupts, 0);
	atomic_store(&unknown_first, 0);
	atomic_store(&parked, 0);
	atomic_store(&misaligned, false);
	atomic_store(&largest_write, 0);
	sem_init(&is_parked, 0, 0);
	sem_init(&is_interrupted, 0, 0);
	sem_init(&in_handler, 0, 0);
	sem_init(&may_park, 0, 0);
	if (fs_transport_open(&s, &mount, &transport, &err) < 0)
		fail_msg("%s", err.message);
	if (by_uring && !(fs_transport_features(transport)->flags & FUSE_OVER_IO_URING))
		skip(); /* the kernel is too old */
	assert_int_equal(move_mount(mount, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH), 0);
	assert_int_equal(pthread_create(&runner, NULL, run, NULL), 0);
}

static void join(void)
{
	pthread_join(runner, NULL);
	assert_int_equal(run_result, 0);
	fs_transport_free(transport);
	transport = NULL;
}

static void end(void)
{
	assert_int_equal(umount2(place, MNT_DETACH), 0);
	join();
}

static const char *at(const char *name)
{
	static _Thread_local char path[512];

	snprintf(path, sizeof(path), "%s/%s", place, name);
	return path;
}

static int stat_error(const char *name)
{
	struct stat st;

	return kid_errno(stat(at(name), &st));
}

/* A child that opens a name; its exit status is the errno. It must not keep a copy of the device:
 * the connection would outlive the server, and the child would wait for ever. */
static pid_t opener(const char *name)
{
	pid_t pid = fork();

	if (pid == 0) {
		close_range(3, UINT_MAX, 0);
		alarm(KID_SECONDS);
		_exit(kid_errno(open(at(name), O_RDONLY | O_CLOEXEC)));
	}
	assert_true(pid > 0);
	return pid;
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void fil_7_a_mount_is_served_until_it_is_gone(void **state)
{
	const struct fs_features *f;
	struct stat st;

	start(THREADS, 0);
	f = fs_transport_features(transport);
	assert_true(f->minor >= FUSE_OLDEST_MINOR);
	assert_int_equal(f->max_write, FS_MAX_IO);
	assert_true((f->flags & FUSE_MAX_PAGES) != 0);
	assert_int_equal(stat(at("file"), &st), 0);
	assert_int_equal(st.st_size, FILE_SIZE);
	assert_int_equal(st.st_ino, NODE_FILE);
	assert_int_equal(stat_error("nothing"), ENOENT);
	assert_int_equal(last.uid, getuid());
	assert_int_equal(last.pid, gettid());
	assert_int_equal(last.node, NODE_ROOT);
	assert_int_equal(atomic_load(&seen[FUSE_INIT]), 0);
	end();
	assert_int_equal(stat_error("file"), ENOENT);
}

static void fil_7_data_go_through_in_pieces_of_131072_bytes(void **state)
{
	static char data[FILE_SIZE];
	int fd;

	start(2, 0);
	fd = open(at("file"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, data, FILE_SIZE), FILE_SIZE);
	for (size_t i = 0; i < FILE_SIZE; i++)
		assert_int_equal(data[i], content(i));
	assert_int_equal(pwrite(fd, data, FS_MAX_IO, 0), FS_MAX_IO);
	assert_int_equal(atomic_load(&largest_write), FS_MAX_IO);
	assert_int_equal(atomic_load(&seen[FUSE_WRITE]), 1);
	assert_false(atomic_load(&misaligned));
	close(fd);
	end();
}

static void fil_7_without_big_writes_a_page_is_written_at_a_time(void **state)
{
	char data[8192];
	int fd;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = content(i % 4096);
	start(1, FUSE_BIG_WRITES);
	fd = open(at("file"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
	assert_int_equal(atomic_load(&seen[FUSE_WRITE]), 2);
	close(fd);
	end();
}

static void fil_7_a_bad_answer_is_an_error_and_never_a_hang(void **state)
{
	char name[257];

	start(1, 0);
	assert_int_equal(stat_error("odd"), EIO);
	assert_int_equal(stat_error("negative"), EIO);
	assert_int_equal(stat_error("long"), by_uring ? EINVAL : EIO);
	assert_int_equal(stat_error("huge"), EIO);
	assert_int_equal(atomic_load(&seen[FUSE_LOOKUP]), 4);
	/* Never reaches the handler. */
	memset(name, 'x', 256);
	name[256] = '\0';
	assert_int_equal(stat_error(name), ENAMETOOLONG);
	assert_int_equal(atomic_load(&seen[FUSE_LOOKUP]), 4);
	assert_int_equal(kid_errno(open(place, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)), EDQUOT);
	assert_int_equal(stat_error("file"), 0);
	end();
}

static void *stat_together(void *name)
{
	return (void *)(intptr_t)stat_error(name);
}

static void fil_7_as_many_requests_as_threads_are_handled_at_once(void **state)
{
	static char name[THREADS][32];
	pthread_t thread[THREADS];
	void *result;

	start(THREADS, 0);
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		snprintf(name[i], sizeof(name[i]), "together%d", i);
		assert_int_equal(pthread_create(&thread[i], NULL, stat_together, name[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &result);
		assert_int_equal((intptr_t)result, ENOENT);
	}
	pthread_barrier_destroy(&together);
	end();
}

static void fil_7_a_parked_request_holds_no_worker_and_is_answered_later(void **state)
{
	struct fuse_open_out o = {0};
	struct fs_reply r = {.out = &o, .len = sizeof(o)};
	pid_t first, second;
	uint64_t unique;

	start(1, 0);
	first = opener("held");
	wait_for(&is_parked);
	unique = atomic_load(&parked);
	second = opener("held");
	wait_for(&is_parked);
	assert_int_equal(stat_error("file"), 0);
	assert_int_equal(fs_transport_answer(transport, atomic_load(&parked), &r), 0);
	assert_int_equal(status_of(second), 0);
	r = (struct fs_reply){.error = EACCES};
	assert_int_equal(fs_transport_answer(transport, unique, &r), 0);
	assert_int_equal(WEXITSTATUS(status_of(first)), EACCES);
	/* The kernel does not wait for it any more. */
	assert_int_equal(fs_transport_answer(transport, unique, &r), -ENOENT);
	assert_int_equal(atomic_load(&interrupts), 0);
	end();
}

static void fil_7_a_killed_client_of_a_parked_request_is_told_of(void **state)
{
	pid_t pid;

	start(1, 0);
	pid = opener("held");
	wait_for(&is_parked);
	kill(pid, SIGKILL);
	wait_for(&is_interrupted);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGKILL);
	assert_int_equal(atomic_load(&interrupted), atomic_load(&parked));
	end();
}

/* An interrupt that its owner does not know yet is sent again. */
static void fil_7_an_unknown_interrupt_comes_again(void **state)
{
	pid_t pid;

	start(1, 0);
	atomic_store(&unknown_first, 3);
	pid = opener("held");
	wait_for(&is_parked);
	kill(pid, SIGKILL);
	wait_for(&is_interrupted);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGKILL);
	assert_int_equal(atomic_load(&interrupts), 4);
	end();
}

static void wait_for_state_d(pid_t pid)
{
	time_t until = time(NULL) + SECONDS;
	char path[64], text[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (;;) {
		cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		assert_true(n > 0 && time(NULL) < until);
		text[n] = '\0';
		if (strstr(text, ") D ") != NULL)
			return;
		sched_yield();
	}
}

/* The kernel has queued INTERRUPT when the killed client is in state D, and gives it out before
 * other requests: after a stat it has been read, while the handler had not yet parked. */
static void fil_7_an_interrupt_during_the_handler_is_told_after_it(void **state)
{
	pid_t pid;

	start(2, 0);
	pid = opener("slow");
	wait_for(&in_handler);
	kill(pid, SIGKILL);
	wait_for_state_d(pid);
	assert_int_equal(stat_error("nothing"), ENOENT);
	assert_int_equal(atomic_load(&interrupts), 0);
	sem_post(&may_park);
	wait_for(&is_interrupted);
	assert_int_equal(WTERMSIG(status_of(pid)), SIGKILL);
	assert_int_equal(atomic_load(&interrupts), 1);
	end();
}

static void *stop_transport(void *arg)
{
	fs_transport_stop(transport);
	fs_transport_stop(transport);
	return NULL;
}

static void check_stopped(void)
{
	int r;

	join();
	while ((r = stat_error("nothing")) != ENOTCONN)
		assert_true(by_uring); /* the connection ends a moment later */
	assert_int_equal(umount2(place, MNT_DETACH), 0);
}

static void fil_7_stop_ends_sleeping_workers_and_waiting_clients(void **state)
{
	pthread_t thread;
	pid_t pid;

	start(THREADS, 0);
	pid = opener("held");
	wait_for(&is_parked);
	assert_int_equal(pthread_create(&thread, NULL, stop_transport, NULL), 0);
	pthread_join(thread, NULL);
	check_stopped();
	assert_int_equal(WEXITSTATUS(status_of(pid)), ECONNABORTED);
}

static void on_signal(int sig)
{
	fs_transport_stop(transport);
}

static void fil_7_a_signal_handler_may_stop_it(void **state)
{
	struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	start(2, 0);
	assert_int_equal(stat_error("file"), 0);
	sigaction(SIGUSR1, &on, NULL);
	pthread_kill(runner, SIGUSR1);
	check_stopped();
}

/* Whenever the stop comes: before, during or after the start of the threads. */
static void fil_7_a_stop_is_never_missed(void **state)
{
	for (int i = 0; i < 300; i++) {
		start(THREADS, 0);
		for (int k = 0; k < i % 50; k++)
			sched_yield();
		fs_transport_stop(transport);
		check_stopped();
	}
}

static void fil_7_the_kernel_forgets_a_name_and_data(void **state)
{
	char byte, name[2 * PATH_MAX] = {0};
	cleanup_fd int fd = -1;
	int before;

	start(2, 0);
	assert_int_equal(stat_error("file"), 0);
	assert_int_equal(stat_error("file"), 0);
	assert_int_equal(atomic_load(&seen[FUSE_LOOKUP]), 1);
	assert_int_equal(fs_transport_forget_entry(transport, NODE_ROOT, "file"), 0);
	assert_int_equal(stat_error("file"), 0);
	assert_int_equal(atomic_load(&seen[FUSE_LOOKUP]), 2);

	fd = open(at("file"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	before = atomic_load(&seen[FUSE_READ]);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(atomic_load(&seen[FUSE_READ]), before);
	assert_int_equal(fs_transport_forget_data(transport, NODE_FILE, 0, 0), 0);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_true(atomic_load(&seen[FUSE_READ]) > before);

	/* What the kernel does not know is forgotten already. */
	assert_int_equal(fs_transport_forget_entry(transport, NODE_ROOT, "nothing"), 0);
	assert_int_equal(fs_transport_forget_data(transport, 4711, 0, 0), 0);
	memset(name, 'x', sizeof(name) - 1);
	assert_int_equal(fs_transport_forget_entry(transport, NODE_ROOT, name), -ENAMETOOLONG);
	close(take_fd(fd));
	end();
}

static int open_without_device(const void *arg)
{
	struct fs_transport_setup s = {.handle = handle};
	struct err err = {0};
	int made = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/dev", "tmpfs", 0, NULL) < 0)
		return 100;
	return fs_transport_open(&s, &made, &transport, &err) == -E_ENFORCEMENT && made == -1 &&
			       strstr(err.message, "/dev/fuse") != NULL
		       ? 0
		       : 1;
}

static void fil_7_without_the_device_the_error_says_what_to_do(void **state)
{
	assert_int_equal(kid_run(open_without_device, NULL, false), 0);
}

static int put(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* As a normal user's server does it: a user namespace of its own, and no allow_other. */
static int serve_in_user_namespace(const void *arg)
{
	struct fs_transport_setup s = {.handle = handle};
	struct err err = {0};
	int mount = -1, r;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || put("/proc/self/setgroups", "deny") < 0 ||
	    put("/proc/self/uid_map", "0 0 1") < 0 || put("/proc/self/gid_map", "0 0 1") < 0)
		return 100;
	if (fs_transport_open(&s, &mount, &transport, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 101;
	}
	if (move_mount(mount, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    pthread_create(&runner, NULL, run, NULL) != 0)
		return 102;
	close(mount);
	r = stat_error("file");
	if (umount2(place, MNT_DETACH) < 0)
		return 103;
	pthread_join(runner, NULL);
	fs_transport_free(transport);
	return r != 0 ? r : -run_result;
}

static void fil_7_a_user_namespace_may_mount_it(void **state)
{
	if (access("/proc/sys/user/max_user_namespaces", F_OK) < 0)
		skip();
	assert_int_equal(kid_run(serve_in_user_namespace, NULL, false), 0);
}

static int enter(void)
{
	if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) < 0)
		return 0;
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	return mkdtemp(place) != NULL ? 0 : -1;
}

static int need_fuse(void **state)
{
	if (access(place, F_OK) < 0) {
		print_message("needs root and /dev/fuse\n");
		skip();
	}
	by_uring = false;
	alarm(KID_SECONDS);
	return 0;
}

#define URING "/sys/module/fuse/parameters/enable_uring"
static char uring_before; /* 0: the kernel has no FUSE over io_uring, or nothing was changed */

static char read_uring(void)
{
	cleanup_fd int fd = open(URING, O_RDONLY | O_CLOEXEC);
	char c = 0;

	return fd != -1 && read(fd, &c, 1) == 1 ? c : 0;
}

/* The test is the operator here; agentsh never changes it. */
static void write_uring(char value)
{
	cleanup_fd int fd = open(URING, O_WRONLY | O_CLOEXEC);

	assert_int_equal(write(fd, &value, 1), 1);
}

/* Also after a failed test. */
static int clean(void **state)
{
	if (uring_before == 'N')
		write_uring('N');
	uring_before = 0;
	if (transport != NULL) {
		fs_transport_stop(transport);
		pthread_join(runner, NULL);
		fs_transport_free(transport);
		transport = NULL;
		umount2(place, MNT_DETACH);
	}
	return 0;
}

static int need_uring(void **state)
{
	const int r = need_fuse(state);

	by_uring = true;
	uring_before = read_uring();
	if (uring_before == 'N')
		write_uring('Y');
	return r;
}

#define MOUNTED(f) cmocka_unit_test_setup_teardown(f, need_fuse, clean)
#define BY_BOTH(f)                                            \
	MOUNTED(f),                                           \
	{                                                     \
#f "_by_io_uring", f, need_uring, clean, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MOUNTED(fil_7_without_big_writes_a_page_is_written_at_a_time),
		MOUNTED(fil_7_as_many_requests_as_threads_are_handled_at_once),
		MOUNTED(fil_7_an_unknown_interrupt_comes_again),
		MOUNTED(fil_7_an_interrupt_during_the_handler_is_told_after_it),
		MOUNTED(fil_7_a_user_namespace_may_mount_it),
		MOUNTED(fil_7_without_the_device_the_error_says_what_to_do),
		BY_BOTH(fil_7_a_mount_is_served_until_it_is_gone),
		BY_BOTH(fil_7_data_go_through_in_pieces_of_131072_bytes),
		BY_BOTH(fil_7_a_bad_answer_is_an_error_and_never_a_hang),
		BY_BOTH(fil_7_a_parked_request_holds_no_worker_and_is_answered_later),
		BY_BOTH(fil_7_a_killed_client_of_a_parked_request_is_told_of),
		BY_BOTH(fil_7_stop_ends_sleeping_workers_and_waiting_clients),
		BY_BOTH(fil_7_a_signal_handler_may_stop_it),
		BY_BOTH(fil_7_a_stop_is_never_missed),
		BY_BOTH(fil_7_the_kernel_forgets_a_name_and_data),
	};
	int failed;

	if (enter() < 0)
		return 1;
	failed = cmocka_run_group_tests_name("fuse_transport", tests, NULL, NULL);
	if (strstr(place, "XXXXXX") == NULL)
		rmdir(place);
	return failed;
}
