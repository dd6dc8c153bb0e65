// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_process.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "fs/byte_slots.h"
#include "fs/fs_actors.h"
#include "fs/fs_walls.h"
#include "fs/recorded_calls.h"
#include "fs/restore.h"
#include "model/workspace_names.h"
#include "process/process_self.h"
#include "sandbox/command_walls.h"
#include "spawn/assignment.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>

enum { FILES_SLOTS, FILES_RING, FILES_LINK };
#define STACK_DEPTH 2 /* passthrough, also where the workspace lies on overlayfs */

struct file_server {
	struct assignment_part part;
	int fd[PART_FDS];
	int device;	      /* owned; -1: to be opened */
	int files[AHEAD_FDS]; /* of bpf/file_layout.h; -1: none */
	struct byte_slots *slots;
	struct sandbox_plan plan;
	struct sandbox_trees trees; /* of plan.served */
	struct fs_tree *tree;	    /* owned; the same for the file system */
	struct assignment assignment;
	struct fs_session *session;
	struct fs *fs;
	struct trash *trash; /* NULL: the session keeps nothing */
	struct restores *restores;
	struct fs_transport *transport;
	pthread_t thread;
	bool serving;
	_Atomic int ended; /* 1: the transport has ended; -errno: it failed */
	struct process_self *self;
	struct fs_actors *actors;
	struct recorded_calls *calls; /* NULL: the kernel records none */
	struct fs_watch_setup watch;
};

/* ---- for the worker threads ---- */

static enum fs_actor find_actor(void *arg, uint32_t tid, struct actor *out)
{
	const struct file_server *s = arg;

	return fs_actors_find(s->actors, tid, out);
}

static bool granted(void *arg, uint32_t tid, struct file_grant *need)
{
	const struct file_server *s = arg;

	return fs_actors_granted(s->actors, tid, need);
}

static void record_late(void *arg, uint32_t tid, const struct gate_case *k,
			const struct gate_report *r)
{
	const struct file_server *s = arg;

	fs_actors_late(s->actors, tid, k, r);
}

static void failed(void *arg, uint32_t tid, int result)
{
	const struct file_server *s = arg;

	recorded_calls_answered(s->calls, tid, result);
}

static bool has_room(void *arg)
{
	struct file_server *s = arg;

	return recorder_has_room(&s->self->recorder);
}

static void on_news(void *arg)
{
	const struct file_server *s = arg;

	fs_session_news(s->session);
}

/* init does not mount over paths of the workspace: see inside_covers. */
static int add_covers(struct file_server *s, struct err *err)
{
	const struct {
		const struct strv *from;
		struct strv *to;
	} lists[] = {{&s->plan.read_only_paths, &s->watch.read_only},
		     {&s->plan.shut_inside, &s->watch.read_only},
		     {&s->plan.blocked_paths, &s->watch.blocked},
		     {&s->plan.blocked_inside, &s->watch.blocked},
		     {&s->plan.kept_out, &s->watch.blocked}};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i].from->n; k++)
			if (sandbox_serves(&s->plan, lists[i].from->v[k]))
				strv_add(lists[i].to, lists[i].from->v[k]);
	return sandbox_doubles(&s->plan, s->assignment.real, &s->watch.blocked, err);
}

/* ---- the mount ---- */

/* A normal user may mount only in init's user namespace. There it takes a mount namespace of its
 * own, because init's has no /dev/fuse. */
static int enter_namespaces(const struct file_server *s, struct err *err)
{
	cleanup_fd int init = proc_pidfd(s->part.init);
	const pid_t parent = getppid();

	if (init < 0 || setns(init, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNS) < 0)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_file_rules),
				 "cannot enter the session's user namespace");
	/* The change of credentials has cleared both. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_file_rules), "prctl");
	return 0;
}

static void wake(void *arg)
{
	const struct file_server *s = arg;

	process_wake(s->self);
}

/* It looks at the workspace also where it does not serve it. */
static int raise_walls(const struct file_server *s, bool keep_admin, struct err *err)
{
	struct sandbox_trees trees = {0};
	int r;

	sandbox_trees_add(&trees, s->fd[PART_TREE]);
	for (size_t i = 0; i < s->trees.n; i++)
		sandbox_trees_add(&trees, s->trees.fd[i]);
	r = fs_walls_raise(&s->plan, &trees, s->fd[PART_TRASH], keep_admin, err);
	free(trees.fd);
	return r;
}

static int open_server(struct file_server *s, int *mount, struct err *err)
{
	const struct assignment *a = &s->assignment;
	/* Where the kernel's program records opens, it counts the bytes of those files instead. */
	const bool counts = s->slots != NULL && s->plan.recorded_paths.n == 0;
	struct fs_setup files = {.trees = s->trees.n,
				 .entry_ms = a->entry_ms,
				 .attr_ms = a->attr_ms,
				 .negative_ms = a->negative_ms,
				 .passthrough = counts,
				 .slots = counts ? s->slots : NULL,
				 .kept_ms = FS_KEPT_MS,
				 .watch = &s->watch};
	struct fs_transport_setup t = {
		.handle = fs_handle,
		.on_interrupt = fs_interrupt,
		.device = take_fd(s->device),
		.uring = a->io_uring,
		.allow_other = s->plan.privileged,
		.mount_attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.wanted = {.also = (a->writeback_cache ? FUSE_WRITEBACK_CACHE : 0) |
				   (counts ? FUSE_PASSTHROUGH : 0),
			   .max_stack_depth = STACK_DEPTH,
			   .never = a->async_read ? 0 : FUSE_ASYNC_READ,
			   .max_readahead = a->max_readahead},
	};
	const struct fs_features *agreed;
	int r = s->plan.privileged ? 0 : enter_namespaces(s, err);

	files.tree = s->tree;
	t.uid = getuid();
	t.gid = getgid();
	files.other_gid = s->plan.privileged ? 0 : t.gid;
	if (r == 0 && s->fd[PART_TRASH] != -1)
		r = trash_new(s->fd[PART_TRASH], &s->trash, err);
	files.trash = s->trash;
	if (r == 0)
		r = fs_new(&files, &s->fs, err);
	t.ctx = s->fs;
	if (r == 0)
		r = fs_transport_open(&t, mount, &s->transport, err);
	if (r == 0 && counts)
		r = byte_slots_mount(s->slots, *mount, err);
	if (r == 0 && s->calls != NULL)
		r = recorded_calls_served(s->calls, *mount, err);
	if (r < 0)
		return r;
	agreed = fs_transport_features(s->transport);
	r = raise_walls(s, (agreed->flags & FUSE_PASSTHROUGH) != 0, err);
	if (r < 0)
		return r;
	fs_attach(s->fs, s->transport);
	s->restores = restores_new(s->fs, wake, s);
	log_debug("the workspace is served", "session_id", a->session_id, "async_read",
		  agreed->flags & FUSE_ASYNC_READ ? "yes" : "no", "writeback_cache",
		  agreed->flags & FUSE_WRITEBACK_CACHE ? "yes" : "no", "passthrough",
		  agreed->flags & FUSE_PASSTHROUGH ? "yes" : "no", "io_uring",
		  agreed->flags & FUSE_OVER_IO_URING ? "yes" : "no");
	return 0;
}

static void *serve(void *arg)
{
	struct file_server *s = arg;
	const int r = fs_transport_run(s->transport);

	atomic_store(&s->ended, r < 0 ? r : 1);
	process_wake(s->self);
	return NULL;
}

/* ---- the process ---- */

static int open_calls(struct file_server *s, struct err *err)
{
	const struct recorded_calls_setup setup = {.p = s->self,
						   .session = s->session,
						   .actors = s->actors,
						   .plan = &s->plan,
						   .tree = s->fd[PART_TREE],
						   .real = s->assignment.real,
						   .ring = s->files[FILES_RING],
						   .slots = byte_slots_all(s->slots),
						   .record = &byte_slots_all(s->slots)[0].record};

	return recorded_calls_new(&setup, &s->calls, err);
}

static int start(struct process_self *p, int *mount, struct err *err)
{
	struct file_server *s = p->program;
	int r = 0;

	if (s->files[FILES_SLOTS] != -1)
		r = byte_slots_open(s->files[FILES_SLOTS], &s->slots, err);
	if (r == 0 && s->files[FILES_RING] != -1)
		r = open_calls(s, err);
	if (r == 0 && s->calls == NULL && s->plan.recorded_paths.n > 0)
		return err_set(
			err, E_ENFORCEMENT, wall_name(WALL_file_rules),
			"monitoring.mode is ebpf or hybrid, and this server has no BPF program for "
			"files: restart the server, which says what is missing, or set "
			"monitoring.mode to fuse");
	if (r == 0 && s->plan.fuse == 0)
		return raise_walls(s, false, err);
	if (r == 0)
		r = open_server(s, mount, err);
	if (r == 0 && (errno = pthread_create(&s->thread, NULL, serve, s)) != 0)
		r = err_errno(err, E_UNAVAILABLE, NULL, "pthread_create");
	s->serving = r == 0;
	return r;
}

/* The mount is served before the warden can give it to init, which looks at it. */
static int begin(struct process_self *p, struct err *err)
{
	struct file_server *s = p->program;
	cleanup_fd int mount = -1;
	struct err answer = {0};

	s->self = p;
	gate_name_workspace(p->gate, s->assignment.real);
	s->watch.gate = p->gate;
	s->watch.actor = find_actor;
	s->watch.late = record_late;
	s->watch.failed = failed;
	s->watch.has_room = has_room;
	s->session = fs_session_new(p);
	s->actors = fs_actors_new(p, s->session);
	s->watch.tally = fs_session_tally(s->session);
	s->watch.news = on_news;
	s->watch.asker = &p->asker;
	s->watch.granted = granted;
	s->watch.arg = s;
	if ((add_covers(s, &answer) < 0 || start(p, &mount, &answer) < 0) && answer.code == E_OK)
		answer.code = E_INTERNAL;
	if (fdio_send(p->args.link_fd, &answer, sizeof(answer), &mount, mount != -1) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "the warden does not listen");
	*err = answer;
	return -(int)answer.code;
}

static int open_program(struct process_self *p, struct err *err)
{
	const struct file_server *s = p->program;

	return fs_actors_open(s->actors, err);
}

static void tell(struct process_self *p, struct process_ready *m)
{
	const struct file_server *s = p->program;

	m->sees_refusals = s->calls != NULL;
	m->records = s->plan.recorded_paths.n > 0;
}

static bool settle(struct process_self *p, const struct process_settle *command)
{
	struct file_server *s = p->program;

	fs_actors_over(s->actors, command);
	fs_actors_woken(s->actors);
	recorded_calls_drain(s->calls);
	if (s->trash != NULL)
		trash_expire(s->trash);
	fs_session_settle(s->session, s->fs, s->calls, command->command_id);
	return true;
}

/* Also the processes that it has left behind have ended. */
static void over(struct process_self *p, const struct process_settle *command)
{
	const struct file_server *s = p->program;

	fs_actors_over(s->actors, command);
}

static void settings(struct process_self *p, const struct process_settings *m)
{
	const struct file_server *s = p->program;

	if (s->fs != NULL)
		fs_limit_added(s->fs, m->max_disk_mb << 20);
	fs_session_settings(s->session, m);
	if (s->trash != NULL)
		trash_limit(s->trash, m->trash_max_bytes, (int64_t)m->trash_max_age_ms * 1000);
}

static void restore(struct process_self *p, uint64_t entry, uint32_t req)
{
	static const struct err none = {.code = E_NOT_FOUND,
					.message = "this session keeps nothing in a trash"};
	const struct file_server *s = p->program;

	if (s->restores != NULL)
		restore_start(s->restores, entry, req);
	else
		process_tell_restored(p, req, &none);
}

static void woken(struct process_self *p)
{
	struct file_server *s = p->program;
	const int ended = atomic_load(&s->ended);
	struct restored over;
	struct err err;

	fs_actors_woken(s->actors);
	fs_session_woken(s->session);
	while (s->restores != NULL && restores_next(s->restores, &over))
		process_tell_restored(p, over.req, &over.err);
	/* Without an error it is init's end, and the warden closes the link soon. */
	if (ended < 0) {
		errno = -ended;
		err_errno(&err, E_UNAVAILABLE, NULL, "the FUSE connection failed");
		process_fail(p, &err);
	}
}

static void close_program(struct process_self *p)
{
	struct file_server *s = p->program;

	if (s->fs != NULL)
		fs_quiet(s->fs);
	if (s->serving) {
		fs_transport_stop(s->transport);
		pthread_join(s->thread, NULL);
	}
	restores_free(s->restores);
	fs_free(s->fs);
	trash_free(s->trash);
	fs_transport_free(s->transport);
	recorded_calls_free(s->calls);
	fs_actors_free(s->actors);
	strv_done(&s->watch.read_only);
	strv_done(&s->watch.blocked);
	byte_slots_free(s->slots);
	fs_session_free(s->session);
	free(s->tree);
}

static const struct process_program program = {
	.begin = begin,
	.open = open_program,
	.close = close_program,
	.woken = woken,
	.tell = tell,
	.settle = settle,
	.over = over,
	.settings = settings,
	.restore = restore,
};

/* The workspace comes with the part, the others come behind it. Only the workspace and what is in
 * it has two names. */
static int receive_trees(struct file_server *s, int link, struct err *err)
{
	const bool workspace = sandbox_serves(&s->plan, WORKSPACE_CANONICAL);
	struct sandbox_trees t;
	int r = trees_receive(link, s->plan.served.n / 2 - workspace, &t, err);

	if (workspace)
		sandbox_trees_add(&s->trees, s->fd[PART_TREE]);
	for (size_t i = 0; i < t.n; i++)
		sandbox_trees_add(&s->trees, t.fd[i]);
	free(t.fd);
	s->tree = mem_resize(NULL, s->trees.n, sizeof(*s->tree));
	for (size_t i = 0; i < s->trees.n; i++) {
		const char *shown = s->plan.served.v[2 * i];
		char *real = path_swap(shown, WORKSPACE_CANONICAL, s->assignment.real);

		if (real == NULL) /* a link in a list is shown as a directory */
			real = realpath(shown, NULL);
		s->tree[i] = (struct fs_tree){s->trees.fd[i], shown, real != NULL ? real : shown};
	}
	return r;
}

int fs_process_main(int argc, char **argv)
{
	struct file_server s = {.files = {-1, -1, -1}};
	struct process_args args;
	struct err err = {0};

	if (process_start(&process_table[PROCESS_fs], argc, argv, &args) < 0)
		return 2;
	rlimit_raise_files();
	if (!ahead_receive(args.link_fd, s.files) ||
	    !assignment_part_receive(args.link_fd, &s.part, s.fd))
		return 0; /* no session needs it */
	if (assignment_part_load(s.fd, &s.plan, &s.assignment, &err) < 0 ||
	    receive_trees(&s, args.link_fd, &err) < 0) {
		fdio_send(args.link_fd, &err, sizeof(err), NULL, 0);
		return 1;
	}
	close(s.fd[PART_PLAN]);
	close(s.fd[PART_TEXT]);
	/* ps shows the session's id, and not what the process waited with */
	memset(argv[1], 0, strlen(ASSIGNMENT_ID));
	memcpy(argv[1], s.assignment.session_id, strlen(s.assignment.session_id));
	args.session_id = argv[1];
	s.device = args.fuse_fd;
	args.ring_fd = s.fd[PART_RING];
	args.ack_fd = s.fd[PART_ACK];
	args.policy_fd = s.fd[PART_POLICY];
	args.log_level = (int)s.assignment.log_level;
	args.log_format = (int)s.assignment.log_format;
	return process_serve(&program, &args, &s);
}
