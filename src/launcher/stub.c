// SPDX-License-Identifier: Apache-2.0
/* The stub: forked from the launcher, still privileged, starts init and becomes the warden. It says
 * over a pipe what went well and what did not; the pipe closes at exec, and that is the success. It
 * listens before it gives up its uid, so that whoever connects to the session's socket sees this
 * pid. */
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/state.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WARDEN_BACKLOG 16
/* A session out of memory loses a command, not the one who tells of it. */
#define WARDEN_OOM_SCORE "-900"

int stub_leave_launcher(const struct launcher *l, struct err *err)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0022);
	if (null == -1 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(l->log_fd, STDERR_FILENO) < 0 || setsid() < 0 || chdir("/") < 0 ||
	    setrlimit(RLIMIT_NOFILE, &l->nofile) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot prepare the warden");
	return 0;
}

static int be_found(const struct stub *s, struct err *err)
{
	if (listen(s->listen_fd, WARDEN_BACKLOG) < 0)
		return err_errno(err, E_UNAVAILABLE, s->session_id,
				 "cannot listen for the session");
	/* Only now: the next launcher must find this session, or it would never end. */
	close(s->lock_fd);
	return 0;
}

/* Whatever is started from now on is held by the session's limits. */
static int enter_group(const struct stub *s, struct cgroup_files *files, struct err *err)
{
	const struct cgroup_host *host = &s->l->groups.host;
	char id[GROUP_ID_MAX];
	int r;

	if (s->group == 0)
		return 0;
	group_id(s->l, s->group, id);
	r = s->joined ? 0 : cgroup_join(host, id, 0, err);
	if (r == 0)
		cgroup_files_open(host, id, &s->limits, files);
	return r;
}

/* After init was started, whose children would have it too. A normal user may not. */
static void spare_warden(void)
{
	cleanup_fd int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		fdio_write_all(fd, WARDEN_OOM_SCORE, strlen(WARDEN_OOM_SCORE));
}

static int pass_on(int fd)
{
	return fd < 0 ? 0 : fcntl(fd, F_SETFD, 0);
}

static int pass_files(const struct cgroup_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (pass_on(f->file[i].fd) < 0)
			return -1;
	return pass_on(f->event) < 0 || pass_on(f->notify) < 0 ? -1 : 0;
}

static int become_warden(const struct stub *s, pid_t init_pid, const struct cgroup_files *files,
			 struct err *err)
{
	const struct launcher *l = s->l;
	enum log_level level = LOG_INFO;
	struct strv counters = {0};

	cgroup_files_format(files, &counters);
	log_level_parse(l->settings.config.log_level, &level);
	const struct launcher_warden w = {
		.session_id = s->session_id,
		.listen_fd = s->listen_fd,
		.api_fd = s->api_fd,
		.init_fd = s->init_fd,
		.ring_fd = s->ring_fd,
		.ack_fd = s->ack_fd,
		.state_prog_fd = l->programs.state_fd,
		.policy_fd = s->policy_fd,
		.init_pid = init_pid,
		.api_uid = l->privileged ? l->settings.config.api_uid : geteuid(),
		.walls = s->walls,
		.counters = &counters,
		.log_level = (int)level,
		.log_format =
			strcmp(l->settings.config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT,
	};
	const int keep[] = {w.listen_fd, w.api_fd,	  w.init_fd,  w.ring_fd,
			    w.ack_fd,	 w.state_prog_fd, w.policy_fd};
	struct strv argv = {0};

	l->warden_argv(&w, &argv);
	for (size_t i = 0; i < ARRAY_LEN(keep); i++)
		if (pass_on(keep[i]) < 0)
			return err_errno(err, E_INTERNAL, s->session_id,
					 "cannot pass a descriptor");
	if (pass_files(files) < 0)
		return err_errno(err, E_INTERNAL, s->session_id, "cannot pass a counter");
	return sandbox_become_warden(s->plan, l->programs.warden_fd, argv.v, err);
}

static _Noreturn void give_up(const struct stub *s, const struct err *err)
{
	struct stub_report report = {.err = *err};

	if (report.err.code == E_OK)
		report.err.code = E_INTERNAL;
	fdio_write_all(s->report_fd, &report, sizeof(report));
	_exit(125);
}

void stub_go_on(const struct stub *s)
{
	const struct sandbox_start start = {s->plan, s->l->programs.init_fd, s->init_link,
					    s->tree_fd};
	struct stub_report report = {0};
	struct err err = {0};
	struct cgroup_files files = CGROUP_FILES_NONE;
	pid_t init_pid = 0;
	int r = be_found(s, &err);

	if (r == 0)
		r = enter_group(s, &files, &err);
	if (r == 0)
		r = sandbox_start_init(&start, &init_pid, &err);
	if (r == 0) {
		report.init_pid = init_pid;
		if (fdio_write_all(s->report_fd, &report, sizeof(report)) < 0)
			_exit(125);
		spare_warden();
		become_warden(s, init_pid, &files, &err);
	}
	give_up(s, &err);
}

void stub_main(const struct stub *s)
{
	struct err err = {0};

	if (stub_leave_launcher(s->l, &err) < 0)
		give_up(s, &err);
	stub_go_on(s);
}
