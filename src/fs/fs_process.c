// SPDX-License-Identifier: Apache-2.0
#include "fs/fs_process.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "fs/byte_slots.h"
#include "fs/fs_session.h"
#include "fs/fs_walls.h"
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
	struct assignment assignment;
	struct fs_session *session;
	struct fs *fs;
	struct trash *trash; /* NULL: the session keeps nothing */
	struct restores *restores;
	struct fs_transport *transport;
	pthread_t thread;
	bool serving;
	_Atomic int ended;     /* 1: the transport has ended; -errno: it failed */
	_Atomic int actors_fd; /* of the actor table; -1: no command runs yet */
	struct process_self *self;
	pthread_mutex_t lock; /* of late */
	STAILQ_HEAD(, late_event) late;
	struct fs_watch_setup watch;
};

/* ---- who asks ---- */

/* An operation of a thread that the actor table does not have; owned. */
struct late_event {
	STAILQ_ENTRY(late_event) next;
	struct file_server *server;
	struct actor_query query;
	struct gate_case k;
	struct gate_report report;
	struct op op;
	char *text[5]; /* what op and report point to */
};

/* Of the calling thread; NULL: it cannot be had. */
static struct actor_reader *own_reader(struct file_server *s)
{
	static _Thread_local struct actor_reader *reader; /* as long as the process lives */

	if (reader == NULL && actor_reader_open(atomic_load(&s->actors_fd), &reader, NULL) < 0)
		return NULL;
	return reader;
}

static enum fs_actor find_actor(void *arg, uint32_t tid, struct actor *out)
{
	struct file_server *s = arg;
	const struct actor_query q = {
		.id = (pid_t)tid, .asked_us = clock_mono_us(&clock_system), .process = true};
	struct actor_reader *reader;

	*out = (struct actor){.pid = (pid_t)tid};
	if (atomic_load(&s->actors_fd) == -1)
		return FS_ACTOR_OWN; /* init and the warden, before the first command */
	reader = own_reader(s);
	if (reader == NULL)
		return FS_ACTOR_UNKNOWN;
	if (actor_reader_is_own(reader, (pid_t)tid))
		return FS_ACTOR_OWN;
	return tid != 0 && actor_find(reader, &q, out) ? FS_ACTOR_COMMAND : FS_ACTOR_UNKNOWN;
}

static bool granted(void *arg, uint32_t tid, struct file_grant *need)
{
	const struct actor_reader *reader = own_reader(arg);

	return reader != NULL && actor_reader_granted(reader, (pid_t)tid, need);
}

static bool has_room(void *arg)
{
	struct file_server *s = arg;

	return recorder_has_room(&s->self->recorder);
}

static const char *keep(struct late_event *l, size_t i, const char *text)
{
	return l->text[i] = text != NULL ? mem_strdup(text) : NULL;
}

static void record_late(void *arg, uint32_t tid, const struct gate_case *k,
			const struct gate_report *r)
{
	struct file_server *s = arg;
	struct late_event *l = mem_new(struct late_event);

	*l = (struct late_event){.server = s, .k = *k, .report = *r, .op = *k->op};
	l->query = (struct actor_query){
		.id = (pid_t)tid, .asked_us = clock_mono_us(&clock_system), .process = true};
	l->k.op = &l->op;
	l->op.file.path = keep(l, 0, k->op->file.path);
	l->report.real_path = keep(l, 1, r->real_path);
	l->k.to = l->report.to = keep(l, 2, r->to);
	l->report.flags = keep(l, 3, r->flags);
	l->report.file_type = keep(l, 4, r->file_type);
	fs_session_late(s->session);
	pthread_mutex_lock(&s->lock);
	STAILQ_INSERT_TAIL(&s->late, l, next);
	pthread_mutex_unlock(&s->lock);
	process_wake(s->self);
}

static void found(const struct actor *actor, void *arg)
{
	struct late_event *l = arg;

	if (actor->spawn != 0)
		l->k.actor = *actor;
	gate_settle(l->server->self->gate, &l->k, &l->report);
	fs_session_settled(l->server->session, &l->k, &l->report);
	for (size_t i = 0; i < ARRAY_LEN(l->text); i++)
		free(l->text[i]);
	free(l);
}

/* can: the warden answers. */
static void ask_warden(struct file_server *s, bool can)
{
	STAILQ_HEAD(, late_event) late = STAILQ_HEAD_INITIALIZER(late);
	struct late_event *l;

	pthread_mutex_lock(&s->lock);
	STAILQ_CONCAT(&late, &s->late);
	pthread_mutex_unlock(&s->lock);
	while ((l = STAILQ_FIRST(&late)) != NULL) {
		STAILQ_REMOVE_HEAD(&late, next);
		if (can && l->query.id != 0)
			process_find(s->self, &l->query, found, l);
		else
			found(&(struct actor){0}, l);
	}
}

static void on_news(void *arg)
{
	const struct file_server *s = arg;

	fs_session_news(s->session);
}

/* init does not mount over paths of the workspace: see inside_covers. */
static void add_covers(struct file_server *s)
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
			if (path_within(lists[i].from->v[k], WORKSPACE_CANONICAL))
				strv_add(lists[i].to, lists[i].from->v[k]);
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

static int open_server(struct file_server *s, int *mount, struct err *err)
{
	const struct assignment *a = &s->assignment;
	struct fs_setup files = {.root = s->fd[PART_TREE],
				 .entry_ms = a->entry_ms,
				 .attr_ms = a->attr_ms,
				 .negative_ms = a->negative_ms,
				 .passthrough = s->slots != NULL,
				 .slots = s->slots,
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
				   (s->slots != NULL ? FUSE_PASSTHROUGH : 0),
			   .max_stack_depth = STACK_DEPTH,
			   .never = a->async_read ? 0 : FUSE_ASYNC_READ,
			   .max_readahead = a->max_readahead},
	};
	const struct fs_features *agreed;
	int r = s->plan.privileged ? 0 : enter_namespaces(s, err);

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
	if (r == 0 && s->slots != NULL)
		r = byte_slots_mount(s->slots, *mount, err);
	if (r < 0)
		return r;
	agreed = fs_transport_features(s->transport);
	r = fs_walls_raise(&s->plan, s->fd[PART_TREE], s->fd[PART_TRASH],
			   (agreed->flags & FUSE_PASSTHROUGH) != 0, err);
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

static int start(struct process_self *p, int *mount, struct err *err)
{
	struct file_server *s = p->program;
	int r = 0;

	if (s->files[FILES_SLOTS] != -1)
		r = byte_slots_open(s->files[FILES_SLOTS], &s->slots, err);
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
	add_covers(s);
	gate_name_workspace(p->gate, s->assignment.real);
	s->watch.gate = p->gate;
	s->watch.shown = WORKSPACE_CANONICAL;
	s->watch.real = s->assignment.real;
	s->watch.actor = find_actor;
	s->watch.late = record_late;
	s->watch.has_room = has_room;
	s->session = fs_session_new(p);
	s->watch.tally = fs_session_tally(s->session);
	s->watch.news = on_news;
	s->watch.asker = &p->asker;
	s->watch.granted = granted;
	s->watch.arg = s;
	if (start(p, &mount, &answer) < 0 && answer.code == E_OK)
		answer.code = E_INTERNAL;
	if (fdio_send(p->args.link_fd, &answer, sizeof(answer), &mount, mount != -1) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "the warden does not listen");
	*err = answer;
	return -(int)answer.code;
}

static int open_program(struct process_self *p, struct err *err)
{
	const int fd = fcntl(p->actors_fd, F_DUPFD_CLOEXEC, 3);
	struct file_server *s = p->program;

	if (fd == -1)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot keep the actor table");
	atomic_store(&s->actors_fd, fd);
	return 0;
}

static bool settle(struct process_self *p, const char *command_id)
{
	struct file_server *s = p->program;

	ask_warden(s, true);
	if (s->trash != NULL)
		trash_expire(s->trash);
	fs_session_settle(s->session, s->fs, command_id);
	return true;
}

static void settings(struct process_self *p, const struct process_settings *m)
{
	const struct file_server *s = p->program;

	fs_limit_added(s->fs, m->max_disk_mb << 20);
	fs_session_settings(s->session, m);
	if (s->trash != NULL)
		trash_limit(s->trash, m->trash_max_bytes, (int64_t)m->trash_max_age_ms * 1000);
}

static void restore(struct process_self *p, uint64_t entry, uint32_t req)
{
	const struct file_server *s = p->program;

	restore_start(s->restores, entry, req);
}

static void woken(struct process_self *p)
{
	struct file_server *s = p->program;
	const int ended = atomic_load(&s->ended);
	struct restored over;
	struct err err;

	ask_warden(s, true);
	fs_session_woken(s->session);
	while (restores_next(s->restores, &over))
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

	fs_quiet(s->fs);
	if (s->serving) {
		fs_transport_stop(s->transport);
		pthread_join(s->thread, NULL);
	}
	restores_free(s->restores);
	fs_free(s->fs);
	trash_free(s->trash);
	fs_transport_free(s->transport);
	ask_warden(s, false);
	strv_done(&s->watch.read_only);
	strv_done(&s->watch.blocked);
	byte_slots_free(s->slots);
	fs_session_free(s->session);
}

static const struct process_program program = {
	.begin = begin,
	.open = open_program,
	.close = close_program,
	.woken = woken,
	.settle = settle,
	.settings = settings,
	.restore = restore,
};

int fs_process_main(int argc, char **argv)
{
	struct file_server s = {
		.actors_fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .files = {-1, -1, -1}};
	struct process_args args;
	struct err err = {0};

	STAILQ_INIT(&s.late);
	if (process_start(&process_table[PROCESS_fs], argc, argv, &args) < 0)
		return 2;
	rlimit_raise_files();
	if (!ahead_receive(args.link_fd, s.files) ||
	    !assignment_part_receive(args.link_fd, &s.part, s.fd))
		return 0; /* no session needs it */
	if (assignment_part_load(s.fd, &s.plan, &s.assignment, &err) < 0) {
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
