// SPDX-License-Identifier: Apache-2.0
/* The launcher's life: settings, places, sessions of an earlier one, API child, loop, stop. */
#include "launcher/launcher.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include "launcher/policy_snapshots.h"
#include "launcher/workspace_check.h"
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define AWAIT_MS 10000
#define LOOK_MS 1000
#define STOP_S 15
#define KILL_S 2 /* for what was killed to be gone */

/* ---- stop ---- */

static void on_deadline(void *arg)
{
	struct launcher *l = arg;

	if (l->api.child.pid == 0) {
		log_error("some wardens cannot be ended");
		loop_stop(l->loop);
		return;
	}
	log_warn("the API child does not end: killed");
	child_kill(&l->api.child);
	watch_after(l->deadline, KILL_S * 1000);
}

void launcher_stop(struct launcher *l, const char *why)
{
	if (l->stopping) {
		child_kill(&l->api.child);
		return;
	}
	log_info("stopping", "reason", why);
	l->stopping = true;
	watch_after(l->deadline, STOP_S * 1000 + (uint64_t)l->settings.config.stop_grace_ms);
	if (l->api.child.pid != 0) {
		api_link_kick(l);
		return;
	}
	entries_kill(l);
	launcher_maybe_end(l);
}

void launcher_maybe_end(struct launcher *l)
{
	if (l->stopping && l->api.child.pid == 0 && l->alive == 0)
		loop_stop(l->loop);
}

/* ---- signals ---- */

/* Zeros: there is no file. */
static struct stat config_stat(const struct launcher *l)
{
	struct stat st;

	return l->source.path != NULL && stat(l->source.path, &st) == 0 ? st : (struct stat){0};
}

/* was: see settings_load. */
static int load_settings(struct launcher *l, const struct config *was, struct buf *report,
			 struct err *err)
{
	const struct uid_range *uids;
	struct settings s;
	int r;

	l->config_seen = config_stat(l);
	r = settings_load(&l->source, was, &s, report, err);
	if (r < 0)
		return r;
	settings_start_log(&s);
	settings_done(&l->settings);
	l->settings = s;
	uids = &l->settings.config.session_uids;
	if (l->privileged && uids->first == uids->last)
		log_warn("sandbox.session_uids has one id: a session can use up what the kernel "
			 "gives to a user, and so stop the others; give a range");
	return 0;
}

void launcher_reload(struct launcher *l)
{
	const struct strv *kept = &l->settings.kept;
	cleanup_buf struct buf report = {0};
	struct err err = {0};

	if (load_settings(l, &l->settings.config, &report, &err) < 0) {
		char *next = report.len > 0 ? report.data : err.message, *line;

		while ((line = strsep(&next, "\n")) != NULL)
			if (line[0] != '\0')
				log_error("the old configuration stays", "error", line);
	} else {
		log_info("configuration read again");
		for (size_t i = 0; i < kept->n; i++) {
			cleanup_free char *key = mem_strndup(kept->v[i], strcspn(kept->v[i], "="));

			log_warn("a setting has changed and needs a restart", "key", key);
		}
		pool_start(l); /* the sandboxes of the pool have the old settings */
		api_child_hup(l);
	}
	policies_reload(l);
}

/* A server that a command has started reads its configuration again when the file changes: its user
 * has not started it, and expects the next command to follow the file. It looks at each
 * request for a session, and every second. */
void launcher_look(void *launcher)
{
	struct launcher *l = launcher;
	struct stat now;

	if (l->config_look == NULL || l->stopping)
		return;
	watch_after(l->config_look, LOOK_MS);
	now = config_stat(l);
	/* The size: a file that is written in place may have one time for several sizes. */
	if (now.st_ino == l->config_seen.st_ino && now.st_dev == l->config_seen.st_dev &&
	    now.st_size == l->config_seen.st_size &&
	    memcmp(&now.st_ctim, &l->config_seen.st_ctim, sizeof(now.st_ctim)) == 0)
		return;
	log_info("the configuration file has changed", "path", l->source.path);
	launcher_reload(l);
}

static void on_signal(void *arg)
{
	struct launcher *l = arg;
	struct signalfd_siginfo si;

	while (read(l->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo != SIGHUP)
			launcher_stop(l, si.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
		else if (!l->stopping)
			launcher_reload(l);
	}
}

/* ---- start ---- */

/* Sessions may have half of the launcher's open files: root asks the kernel for more than most
 * systems give (fs.nr_open is the highest). Without CAP_SYS_RESOURCE the limit stays as it is. */
static int prepare_process(struct launcher *l, struct err *err)
{
	static const rlim_t wanted[] = {1048576, 131072};
	struct rlimit *files = &l->nofile, most;
	int fd;

	/* Our descriptors must not get a number below 3. */
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd != -1 && fd <= STDERR_FILENO);
	/* Descriptors that were open when the launcher started do not go to its children. */
	if (fd == -1 || close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0 ||
	    close(fd) < 0 || getrlimit(RLIMIT_NOFILE, files) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot prepare the process");
	for (size_t i = 0; l->privileged && i < ARRAY_LEN(wanted) && files->rlim_max < wanted[i];
	     i++) {
		const struct rlimit more = {files->rlim_cur, wanted[i]};

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			*files = more;
	}
	/* The launcher needs some descriptors per session. The stub puts the limit back. */
	most = *files;
	most.rlim_cur = most.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &most) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    (l->privileged && setgroups(0, NULL) < 0) || chdir("/") < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot prepare the process");
	umask(0077);
	return 0;
}

const char *program_name(size_t i)
{
	static const char *const others[] = {"agentsh-api", "agentsh-check", "agentsh-bpf"};

	return i < PROCESSES ? process_table[i].program : others[i - PROCESSES];
}

/* The programs stay open: one launcher uses one version of them. agentsh-state is bound by its
 * path: the kernel does not attach a file that was replaced, and the warden recognizes the bound
 * file. */
static int open_programs(struct programs *p, struct err *err)
{
	int r;

	for (size_t i = 0; i < PROGRAMS; i++) {
		cleanup_free char *found = NULL;

		r = proc_sibling(program_name(i), &found, err);
		if (r < 0)
			return r;
		p->fd[i] = open(found, O_RDONLY | O_CLOEXEC);
		if (p->fd[i] == -1)
			return err_errno(err, E_UNAVAILABLE, found, "cannot open %s", found);
	}
	r = proc_sibling("agentsh-init", &p->acmd_path, err);
	return r < 0 ? r : proc_sibling("agentsh-state", &p->state_path, err);
}

/* Claims the state directory. If a server on another socket has it and serves (*other), a command
 * that started us goes there. */
static int take_state(struct launcher *l, bool *other, struct err *err)
{
	struct config c = l->settings.config;
	struct runtime elsewhere = RUNTIME_NONE;
	cleanup_free char *socket = NULL, *ignored = NULL;
	int r = runtime_prepare(&c, l->privileged, &l->place, err);

	if (r == 0)
		r = runtime_claim(&c, l->privileged, &l->place, &socket, err);
	if (r != -E_CONFLICT || !l->auto_start || socket == NULL ||
	    strcmp(socket, l->place.socket) == 0)
		return r;
	/* Waits until that server answers, or has ended. */
	c.unix_socket = socket;
	r = runtime_open(&c, l->privileged, &elsewhere, err);
	if (r == 0)
		r = runtime_take(&elsewhere, true, AWAIT_MS, other, err);
	runtime_done(&elsewhere);
	if (r == 0 && !*other)
		return runtime_claim(&c, l->privileged, &l->place, &ignored, err);
	if (r == 0) {
		free(l->place.socket);
		l->place.socket = take(socket);
	}
	return r;
}

static int serve(struct launcher *l, struct err *err)
{
	sigset_t set;
	int r = open_programs(&l->programs, err);

	if (r < 0)
		return r;
	uids_open(l);
	groups_open(l); /* before a child is started: a server moves only if it is alone */
	bpf_child_start(l);
	workspace_guard(&l->guarded);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 ||
	    (l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "signalfd");
	l->signals = watch_readable(l->loop, l->signal_fd, on_signal, l);
	l->deadline = watch_timer(l->loop, on_deadline, l);
	if (watch_start(l->signals) < 0)
		return err_set(err, E_UNAVAILABLE, NULL, "cannot watch for signals: " LOOP_FULL);
	r = adopt_scan(l, err);
	if (r == 0)
		r = runtime_listen(&l->settings.config, l->privileged, &l->place, err);
	if (r == 0)
		r = api_child_start(l, err);
	if (r == 0)
		r = bpf_child_collect(l, err);
	if (r < 0)
		return r;
	pool_start(l);
	if (l->auto_start) {
		l->config_look = watch_timer(l->loop, launcher_look, l);
		watch_after(l->config_look, LOOK_MS);
	}
	return 0;
}

void launcher_say_ready(struct launcher *l)
{
	const struct runtime *p = &l->place;
	const int ready_fd = l->ready_fd;

	if (l->ready)
		return;
	l->ready = true;

	printf("agentsh: ready on unix:%s%s%s\n", p->socket, p->http != NULL ? " and http://" : "",
	       p->http != NULL ? p->http : "");
	fflush(stdout);
	if (ready_fd != -1) {
		cleanup_free char *line = mem_printf("ready %s\n", p->socket);

		fdio_write_all(ready_fd, line, strlen(line));
		close(ready_fd);
	}
}

void launcher_done(struct launcher *l)
{
	struct watch *const watches[] = {l->signals, l->deadline, l->api.again, l->config_look};

	child_kill(&l->api.child);
	child_forget(&l->api.child);
	api_link_stop(l);
	checks_stop(l);
	pool_stop(l);
	trims_stop(l);
	groups_close(l);
	while (!TAILQ_EMPTY(&l->entries)) {
		struct session_entry *w = TAILQ_FIRST(&l->entries);

		if (w->making != NULL)
			make_abandon(w);
		entry_free(w);
	}
	if (l->orphans.again != NULL)
		orphans_stop(l);
	mem_cleanup_fd(&l->uids.fd);
	for (size_t i = 0; i < ARRAY_LEN(watches); i++)
		watch_free(watches[i]);
	loop_free(l->loop);
	runtime_done(&l->place);
	for (size_t i = 0; i < PROGRAMS; i++)
		mem_cleanup_fd(&l->programs.fd[i]);
	mem_cleanup_fd(&l->signal_fd);
	free(l->programs.state_path);
	free(l->programs.acmd_path);
	strv_done(&l->guarded);
	policies_free(l);
	settings_done(&l->settings);
	settings_source_done(&l->source);
}

void launcher_init(struct launcher *l)
{
	*l = (struct launcher){
		.place = RUNTIME_NONE,
		.privileged = geteuid() == 0,
		.owner_uid = getuid(),
		.checks = {.child = CHILD_NONE, .link = {.fd = -1}},
		.bpf = {CHILD_NONE, -1, EXEC_CHECK_NONE, {0}},
		.api = {.child = CHILD_NONE, .peer = PEER_CLOSED},
		.uids = {.fd = -1},
		.signal_fd = -1,
		.ready_fd = -1,
		.settings = {.log_fd = STDERR_FILENO},
	};
	memset(l->programs.fd, -1, sizeof(l->programs.fd));
	TAILQ_INIT(&l->entries);
	TAILQ_INIT(&l->pool.list);
	STAILQ_INIT(&l->checks.jobs);
	l->loop = loop_new(NULL, NULL);
	ensure(l->loop != NULL);
}

int launcher_main(const struct launcher_options *o)
{
	cleanup_buf struct buf report = {0};
	struct launcher l;
	struct err err = {0};
	bool other = false;
	int r;

	launcher_init(&l);
	l.auto_start = o->auto_start;
	l.accept_loss = o->accept_loss;
	l.ready_fd = o->ready_fd;
	r = settings_source_init(o, l.privileged ? CONFIG_SYSTEM : CONFIG_USER, &l.source, &err);
	if (r == 0)
		r = prepare_process(&l, &err);
	if (r == 0)
		r = load_settings(&l, NULL, &report, &err);
	if (report.len > 0) {
		fputs(report.data, stderr); /* lines */
		err_set(&err, err.code, NULL, "the configuration cannot be used");
	}
	if (r == 0)
		r = runtime_open(&l.settings.config, l.privileged, &l.place, &err);
	if (r == 0)
		r = runtime_take(&l.place, l.auto_start, AWAIT_MS, &other, &err);
	if (r == 0 && !other)
		r = take_state(&l, &other, &err);
	if (r == 0 && !other)
		r = serve(&l, &err);
	if (r == 0 && other)
		launcher_say_ready(&l);
	if (r == 0 && !other)
		loop_run(l.loop);
	if (r < 0) {
		fprintf(stderr, "agentsh-server: %s\n", err.message);
		l.status = err_row(err.code)->exit;
	}
	launcher_done(&l);
	return l.status;
}
