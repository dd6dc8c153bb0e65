// SPDX-License-Identifier: Apache-2.0
/* The API child: it starts without privilege, gets everything by its link, and is started again
 * when it dies. It dies with the launcher (PDEATHSIG, set after the change of uid, which would
 * clear it), and the end of its link tells it of the launcher's end as well. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "launcher/launcher_state.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LINK_FD 3
#define EXEC_FD_MIN 16 /* out of the way of stdio and LINK_FD */
#define FAST_US 1000000
#define FAST_MAX 5
#define AGAIN_MAX_MS 32000

extern char **environ;

/* Variables that every child gets: directories, and the options of test builds. */
static const char *const env_needed[] = {"HOME",	 "XDG_RUNTIME_DIR", "TMPDIR",
					 "LOGNAME",	 "ASAN_OPTIONS",    "LSAN_OPTIONS",
					 "UBSAN_OPTIONS"};

/* "NAME" or "PREFIX*" */
static bool matches(const char *pattern, const char *var, size_t n)
{
	const size_t len = strlen(pattern);

	if (len > 0 && pattern[len - 1] == '*')
		return n >= len - 1 && memcmp(pattern, var, len - 1) == 0;
	return n == len && memcmp(pattern, var, n) == 0;
}

/* Sessions get the variables that sandbox.env_allow names; no other variable leaves the launcher.
 */
static void filter_env(const struct strv *allow, struct strv *out)
{
	for (char **e = environ; *e != NULL; e++) {
		const size_t n = strcspn(*e, "=");
		bool passes = false;

		for (size_t i = 0; i < ARRAY_LEN(env_needed); i++)
			passes |= matches(env_needed[i], *e, n);
		for (size_t i = 0; i < allow->n; i++)
			passes |= matches(allow->v[i], *e, n);
		if (passes)
			strv_add(out, *e);
	}
}

/* Leaves the uid and the capabilities of the launcher. The bounding set first: emptying it needs
 * CAP_SETPCAP. EINVAL is past the last capability of this kernel. */
static int drop_power(bool privileged, uid_t uid)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	const struct __user_cap_data_struct none[2] = {0};

	for (int cap = 0; privileged && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	if (privileged && (errno != EINVAL || setgroups(0, NULL) < 0 ||
			   setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* stdin and stdout are /dev/null, stderr is the log, the link has its number; the other descriptors
 * close at exec. */
static int arrange_fds(const struct launcher *l, int program, int link, int *exec_fd)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	*exec_fd = fcntl(program, F_DUPFD_CLOEXEC, EXEC_FD_MIN);
	if (*exec_fd == -1 || null == -1 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0)
		return -1;
	if (l->log_fd != STDERR_FILENO && dup2(l->log_fd, STDERR_FILENO) < 0)
		return -1;
	return link == LINK_FD ? fcntl(link, F_SETFD, 0) : dup2(link, LINK_FD);
}

void child_become(const struct launcher *l, const struct child_program *p, int link, pid_t parent)
{
	char number[16];
	char *argv[] = {p->name, (char[]){"--link-fd"}, number, NULL};
	struct strv env = {0};
	int exec_fd = -1;
	sigset_t none;

	snprintf(number, sizeof(number), "%d", LINK_FD);
	close(l->place.lock_fd);
	filter_env(p->env, &env);
	/* A terminal sends ^C and hang-up to the whole process group: the launcher acts on them. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (arrange_fds(l, p->fd, link, &exec_fd) < 0 || drop_power(l->privileged, p->uid) < 0) {
		log_error("cannot prepare a child", "program", p->name, "error", strerror(errno));
		_exit(125);
	}
	if (getppid() != parent) /* died before PDEATHSIG was set */
		_exit(125);
	syscall(SYS_execveat, exec_fd, "", argv, env.n > 0 ? env.v : (char *[]){NULL},
		AT_EMPTY_PATH);
	log_error("cannot execute a child", "program", p->name, "error", strerror(errno));
	_exit(125);
}

static void on_again(void *arg)
{
	struct launcher *l = arg;
	struct err err = {0};

	if (l->stopping || api_child_start(l, &err) == 0)
		return;
	log_error("cannot start the API child", "error", err.message);
	watch_after(l->api.again, 1000);
}

/* Starts the API child again: at once, or later if it died early several times in a row. */
static void restart(struct launcher *l, bool fast)
{
	struct api_child *api = &l->api;
	const bool came_up = l->ready || l->alive > 0;
	unsigned late;

	if (came_up)
		api->fast_deaths = fast ? api->fast_deaths + 1 : 0;
	late = api->fast_deaths < FAST_MAX ? 0 : api->fast_deaths - FAST_MAX + 1;
	/* It has never listened and no session lives; or the next command starts a server anyway.
	 */
	if (!came_up || (late > 0 && l->auto_start)) {
		l->status = err_row(E_UNAVAILABLE)->exit;
		launcher_stop(l, came_up ? "the API child does not stay"
					 : "the API child cannot start");
		return;
	}
	watch_after(api->again, late == 0 ? 0 : late > 5 ? AGAIN_MAX_MS : 500U << late);
}

static void on_death(void *arg)
{
	struct launcher *l = arg;
	struct api_child *api = &l->api;
	const bool fast = clock_mono_us(&clock_system) - api->started_us < FAST_US;
	siginfo_t si = {0};
	char reason[64];
	struct session_entry *w, *next;

	if (waitid(P_PIDFD, (id_t)api->pidfd, &si, WEXITED | WNOHANG) < 0 || si.si_pid == 0)
		return;
	death_reason("it", &si, reason, sizeof(reason));
	log_write(l->stopping ? LOG_INFO : LOG_WARN, "the API child ended", "reason", reason, NULL);
	watch_free(take(api->death));
	close(api->pidfd);
	api->pidfd = -1;
	api->pid = 0;
	api_link_end(l);
	for (w = TAILQ_FIRST(&l->entries); w != NULL; w = next) {
		next = TAILQ_NEXT(w, next);
		if (w->making != NULL)
			make_abandon(w);
	}
	if (!l->stopping)
		restart(l, fast);
	if (l->stopping) {
		entries_kill(l);
		launcher_maybe_end(l);
	}
}

int api_child_start(struct launcher *l, struct err *err)
{
	const struct child_program program = {l->programs.api_fd, (char[]){"agentsh-api"},
					      l->settings.config.api_uid,
					      &l->settings.config.env_allow};
	const pid_t parent = getpid();
	cleanup_fd int ours = -1;
	cleanup_fd int theirs = -1;
	struct api_child *api = &l->api;
	struct session_entry *w;
	int pair[2], r;
	pid_t pid;

	r = link_pair(pair, err);
	if (r < 0)
		return r;
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return err_errno(err, E_UNAVAILABLE, "agentsh-api", "fork");
	if (pid == 0)
		child_become(l, &program, theirs, parent);
	api->pid = pid;
	api->started_us = clock_mono_us(&clock_system);
	if (api->again == NULL)
		api->again = watch_timer(l->loop, on_again, l);
	api->pidfd = proc_pidfd(pid);
	if (api->pidfd == -1) {
		r = err_errno(err, E_UNAVAILABLE, "agentsh-api", "pidfd_open");
	} else {
		api->death = watch_readable(l->loop, api->pidfd, on_death, l);
		if (watch_start(api->death) < 0)
			r = err_set(err, E_UNAVAILABLE, NULL,
				    "cannot watch the API child: " LOOP_FULL);
	}
	if (r < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		watch_free(take(api->death));
		mem_cleanup_fd(&api->pidfd);
		api->pidfd = -1;
		api->pid = 0;
		return r;
	}
	TAILQ_FOREACH (w, &l->entries, next)
		w->told = false;
	r = api_link_start(l, take_fd(ours), err);
	if (r == 0)
		api_child_hello(l);
	return r;
}

/* Sealed copies of configuration and keys, if they exist; the number of descriptors or -code. */
static int copy_files(const struct settings *s, bool always, int fd[2], struct err *err)
{
	int n = 0;

	if ((s->has_config || always) && settings_fd("config", &s->config_text, err, &fd[n++]) < 0)
		return -(int)err->code;
	if (s->has_keys && settings_fd("keys", &s->keys_text, err, &fd[n++]) < 0) {
		if (n > 1)
			close(fd[0]);
		return -(int)err->code;
	}
	return n;
}

void api_child_hello(struct launcher *l)
{
	const struct settings *s = &l->settings;
	struct launcher_hello hello = {
		.version = LINK_VERSION,
		.privileged = l->privileged,
		.auto_started = l->auto_start,
		.accept_loss = l->accept_loss && !l->ready,
		.owner_uid = l->owner_uid,
		.state_dir = mem_strdup(s->config.base_dir),
		.runtime_dir = mem_strdup(l->place.runtime),
		.has_config = s->has_config,
		.has_keys = s->has_keys,
		.share_mb = (uint64_t)l->groups.share_mb,
	};
	cleanup_free char *unix_name = mem_printf("unix %s", l->place.socket);
	struct err err = {0};
	int fd[4];
	int n = copy_files(s, false, fd, &err);

	if (n < 0) {
		log_error("cannot greet the API child", "error", err.message);
		msg_done(MSG_launcher_hello, &hello);
		api_child_kill(l);
		return;
	}
	strv_copy(&hello.overrides, &l->source.overrides);
	for (size_t i = 0; i < s->kept.n; i++)
		strv_add(&hello.overrides, s->kept.v[i]);
	strv_add(&hello.listeners, unix_name);
	fd[n++] = fcntl(l->place.unix_fd, F_DUPFD_CLOEXEC, 3);
	if (l->place.tcp_fd != -1) {
		cleanup_free char *tcp_name = mem_printf("tcp %s", l->place.http);

		strv_add(&hello.listeners, tcp_name);
		fd[n++] = fcntl(l->place.tcp_fd, F_DUPFD_CLOEXEC, 3);
	}
	l->api.telling = true;
	api_link_post(l, MSG_launcher_hello, 0, &hello, fd, (size_t)n);
	api_link_kick(l);
}

void api_child_hup(struct launcher *l)
{
	struct err err = {0};
	/* The log, the configuration (an empty one holds its place), the keys if there are any. */
	int fd[3] = {fcntl(l->log_fd, F_DUPFD_CLOEXEC, 3), -1, -1};
	const int n = fd[0] < 0 ? err_errno(&err, E_INTERNAL, NULL, "cannot pass the log")
				: copy_files(&l->settings, true, fd + 1, &err);

	if (n < 0) {
		log_error("cannot tell the API child of the new configuration", "error",
			  err.message);
		if (fd[0] >= 0)
			close(fd[0]);
		return;
	}
	api_link_post(l, MSG_launcher_hup, 0, &(struct msg_empty){0}, fd, (size_t)n + 1);
}

void api_child_kill(struct launcher *l)
{
	if (l->api.pidfd != -1)
		proc_pidfd_signal(l->api.pidfd, SIGKILL);
}
