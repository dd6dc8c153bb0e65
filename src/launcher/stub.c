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

static int leave_launcher(const struct stub *s, struct err *err)
{
	const struct launcher *l = s->l;
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(0022);
	if (null == -1 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(l->log_fd, STDERR_FILENO) < 0 || setsid() < 0 || chdir("/") < 0 ||
	    setrlimit(RLIMIT_NOFILE, &l->nofile) < 0)
		return err_errno(err, E_UNAVAILABLE, s->session_id, "cannot prepare the warden");
	if (listen(s->listen_fd, WARDEN_BACKLOG) < 0)
		return err_errno(err, E_UNAVAILABLE, s->session_id,
				 "cannot listen for the session");
	/* Only now: the next launcher must find this session, or it would never end. */
	close(l->place.lock_fd);
	return 0;
}

static int become_warden(const struct stub *s, pid_t init_pid, struct err *err)
{
	const struct launcher *l = s->l;
	enum log_level level = LOG_INFO;

	log_level_parse(l->settings.config.log_level, &level);
	const struct launcher_warden w = {
		.session_id = s->session_id,
		.listen_fd = s->listen_fd,
		.api_fd = s->api_fd,
		.init_fd = s->init_fd,
		.ring_fd = s->ring_fd,
		.ack_fd = s->ack_fd,
		.state_prog_fd = l->programs.state_fd,
		.init_pid = init_pid,
		.api_uid = l->privileged ? l->settings.config.api_uid : geteuid(),
		.walls = s->walls,
		.log_level = (int)level,
		.log_format =
			strcmp(l->settings.config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT,
	};
	const int keep[] = {w.listen_fd, w.api_fd, w.init_fd, w.ring_fd, w.ack_fd, w.state_prog_fd};
	struct strv argv = {0};

	l->warden_argv(&w, &argv);
	for (size_t i = 0; i < ARRAY_LEN(keep); i++)
		if (fcntl(keep[i], F_SETFD, 0) < 0)
			return err_errno(err, E_INTERNAL, s->session_id,
					 "cannot pass a descriptor");
	return sandbox_become_warden(s->plan, l->programs.warden_fd, argv.v, err);
}

void stub_main(const struct stub *s)
{
	const struct sandbox_start start = {s->plan, s->l->programs.init_fd, s->init_link,
					    s->tree_fd};
	struct stub_report report = {0};
	struct err err = {0};
	pid_t init_pid = 0;
	int r = leave_launcher(s, &err);

	if (r == 0)
		r = sandbox_start_init(&start, &init_pid, &err);
	if (r == 0) {
		report.init_pid = init_pid;
		if (fdio_write_all(s->report_fd, &report, sizeof(report)) < 0)
			_exit(125);
		become_warden(s, init_pid, &err);
	}
	report = (struct stub_report){.err = err};
	if (report.err.code == E_OK)
		report.err.code = E_INTERNAL;
	fdio_write_all(s->report_fd, &report, sizeof(report));
	_exit(125);
}
