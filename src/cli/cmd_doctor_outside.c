// SPDX-License-Identifier: Apache-2.0
/* Makes targets outside of the throwaway session: a file, listeners, queues, and this process,
 * which waits for a signal. Every uid may use them, so that only a wall can refuse. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "cli/cmd_doctor.h"
#include "config/config.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define OTHER_UID 65533 /* neither the own uid nor that of a session */
#define TEXT_MAX (64 * 1024)
#define REMOVE_FDS 8
#define DIR_MODE 0755
#define PROGRAM_MODE 0755
#define SET_UID_MODE 04755

__attribute__((format(printf, 2, 3))) static void add_arg(struct doctor_outside *o, const char *fmt,
							  ...)
{
	cleanup_buf struct buf text = {0};
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	strv_add(&o->args, text.data);
}

static int copy_program(const char *from, const char *to, mode_t mode, struct err *err)
{
	cleanup_fd int in = open(from, O_RDONLY | O_CLOEXEC);
	cleanup_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat st;
	bool ok = in != -1 && out != -1 && fstat(in, &st) == 0;

	for (off_t done = 0; ok && done < st.st_size;)
		ok = sendfile(out, in, &done, (size_t)(st.st_size - done)) > 0;
	if (ok && mode == SET_UID_MODE)
		ok = fchown(out, OTHER_UID, OTHER_UID) == 0;
	if (ok && fchmod(out, mode) == 0)
		return 0;
	return err_errno(err, E_UNAVAILABLE, to, "cannot copy %s to %s", from, to);
}

/* Whether the configuration lets sessions see the directory. */
static bool shown(const char *dir, const struct config *c)
{
	const struct strv *const lists[] = {&c->monitored_paths, &c->read_only_paths,
					    &c->passthrough_paths};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t j = 0; j < lists[i]->n; j++)
			if (path_within(dir, lists[i]->v[j]))
				return true;
	return false;
}

static int make_files(struct doctor_outside *o, const struct config *config, struct err *err)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = mem_printf("%s/agentsh-doctor-XXXXXX", tmp != NULL ? tmp : "/tmp");
	cleanup_free char *canary = NULL, *copy = NULL, *raised = NULL;
	cleanup_fd int fd = -1;
	int r;

	if (mkdtemp(dir) == NULL) {
		r = err_errno(err, E_UNAVAILABLE, dir, "cannot make %s", dir);
		free(dir);
		return r;
	}
	o->dir = dir;
	o->workspace = mem_printf("%s/workspace", dir);
	canary = mem_printf("%s/canary", dir);
	copy = mem_printf("%s/%s", o->workspace, DOCTOR_PROGRAM);
	raised = mem_printf("%s/set-uid", o->workspace);
	fd = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd == -1 || fchmod(fd, 0644) < 0 || chmod(dir, DIR_MODE) < 0 ||
	    mkdir(o->workspace, DIR_MODE) < 0 || chmod(o->workspace, DIR_MODE) < 0)
		return err_errno(err, E_UNAVAILABLE, dir, "cannot fill %s", dir);
	if (!shown(dir, config))
		add_arg(o, "canary=%s", canary);
	r = copy_program(o->program, copy, PROGRAM_MODE, err);
	/* Only root can make a program that gives another uid. */
	if (r < 0 || geteuid() != 0)
		return r;
	add_arg(o, "set_uid=./set-uid");
	return copy_program(o->program, raised, SET_UID_MODE, err);
}

static int listener(int family, struct sockaddr *at, socklen_t len)
{
	cleanup_fd int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd == -1 || bind(fd, at, len) < 0 || listen(fd, 8) < 0 ? -1 : take_fd(fd);
}

/* Makes the targets that are not files. A target that cannot be made is left out. */
static void make_targets(struct doctor_outside *o, uint32_t number)
{
	const key_t key = (key_t)(number | 1); /* 0 would be private */
	cleanup_free char *queue = mem_printf("/agentsh-doctor-%08x", number);
	struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un abstract = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(tcp);
	sigset_t set;
	mqd_t q;

	o->tcp = listener(AF_INET, (struct sockaddr *)&tcp, len);
	if (o->tcp != -1 && getsockname(o->tcp, (struct sockaddr *)&tcp, &len) == 0)
		add_arg(o, "port=%u", ntohs(tcp.sin_port));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(queue));
	memcpy(abstract.sun_path + 1, queue + 1, strlen(queue + 1));
	o->abstract = listener(AF_UNIX, (struct sockaddr *)&abstract, len);
	if (o->abstract != -1)
		add_arg(o, "abstract=%s", queue + 1);
	o->sysv = msgget(key, IPC_CREAT | IPC_EXCL | 0666);
	if (o->sysv != -1)
		add_arg(o, "key=%ld", (long)key);
	q = mq_open(queue, O_RDWR | O_CREAT | O_EXCL, 0644, NULL);
	if (q != -1) {
		mq_close(q);
		add_arg(o, "queue=%s", queue);
		o->queue = take(queue);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	sigprocmask(SIG_BLOCK, &set, NULL);
	add_arg(o, "pid=%d", (int)getpid());
}

bool doctor_outside_signalled(void)
{
	const struct timespec now = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGURG);
	return sigtimedwait(&set, NULL, &now) == SIGURG;
}

int doctor_outside_open(struct doctor_outside *o, const struct config *config, struct err *err)
{
	char host[256] = "", link[64] = "";
	uint32_t number = 0;
	int r;

	r = proc_sibling(DOCTOR_PROGRAM, &o->program, err);
	if (r == 0)
		r = make_files(o, config, err);
	if (r < 0)
		return r;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return err_errno(err, E_UNAVAILABLE, NULL, "getrandom");
	make_targets(o, number);

	add_arg(o, "other=%d", OTHER_UID);
	if (gethostname(host, sizeof(host) - 1) == 0)
		add_arg(o, "hostname=%s", host);
	if (readlink("/proc/self/ns/cgroup", link, sizeof(link) - 1) > 0)
		add_arg(o, "cgroup=%s", link);
	memset(link, 0, sizeof(link));
	if (readlink("/proc/self/ns/mnt", link, sizeof(link) - 1) > 0)
		add_arg(o, "mounts=%s", link);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

void doctor_outside_close(struct doctor_outside *o)
{
	if (o->dir != NULL)
		nftw(o->dir, remove_one, REMOVE_FDS, FTW_DEPTH | FTW_PHYS);
	mem_cleanup_fd(&o->tcp);
	mem_cleanup_fd(&o->abstract);
	if (o->sysv != -1)
		msgctl(o->sysv, IPC_RMID, NULL);
	if (o->queue != NULL)
		mq_unlink(o->queue);
	free(o->dir);
	free(o->workspace);
	free(o->program);
	free(o->queue);
	strv_done(&o->args);
}

void doctor_outside_run(const struct doctor_outside *o, const char *group, const struct strv *args,
			struct doctor_report *r)
{
	cleanup_strv struct strv argv = {0}, env = {0};
	cleanup_buf struct buf text = {0};

	strv_add(&argv, o->program);
	strv_add(&argv, group);
	for (size_t i = 0; i < args->n; i++)
		strv_add(&argv, args->v[i]);
	for (char **e = environ; *e != NULL; e++)
		strv_add(&env, *e);
	/* the variables that a session must not let through */
	strv_env_set(&env, "LD_PRELOAD", "");
	strv_env_set(&env, "BASH_ENV", "/dev/null");
	cli_program_output(argv.v, o->workspace, env.v, &text);
	if (text.len > 0)
		doctor_read_acts(r, text.data, false);
	doctor_outside_signalled(); /* the control may have sent the signal */
}

/* ---- uids ---- */

/* Finds a process by its name and the first argument or, without an argument, by its parent. */
static pid_t find_process(const char *name, const char *arg, pid_t parent)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	pid_t found = -1;

	while (found == -1 && proc != NULL && (e = readdir(proc)) != NULL) {
		const pid_t pid = atoi(e->d_name);
		cleanup_free char *path = mem_printf("/proc/%d/cmdline", (int)pid);
		cleanup_buf struct buf line = {0};

		if (pid > 0 && fdio_load_path(path, TEXT_MAX, &line, NULL) == 0 &&
		    line.len > strlen(name) && strcmp(line.data, name) == 0 &&
		    (arg != NULL ? strcmp(line.data + strlen(name) + 1, arg) == 0
				 : proc_ppid(pid) == parent))
			found = pid;
	}
	if (proc != NULL)
		closedir(proc);
	return found;
}

/* Returns the real uid, or -1 if the process cannot be seen. */
static long uid_of(pid_t pid)
{
	cleanup_free char *path = mem_printf("/proc/%d/status", (int)pid);
	cleanup_buf struct buf text = {0};
	const char *at = NULL;

	if (fdio_load_path(path, TEXT_MAX, &text, NULL) == 0 && text.len > 0)
		at = strstr(text.data, "\nUid:");
	return at != NULL ? strtol(at + strlen("\nUid:"), NULL, 10) : -1;
}

void doctor_outside_separation(const char *session, struct doctor_report *r)
{
	struct doctor_act *act = doctor_act(r, WALL_process_separation, "share the server's uid");
	const pid_t warden = find_process("agentsh-warden", session, 0);
	const pid_t launcher = proc_ppid(warden);
	const long of_warden = uid_of(warden), of_launcher = uid_of(launcher),
		   of_api = uid_of(find_process("agentsh-api", NULL, launcher));

	act->outside = DOCTOR_DONE; /* a process inherits its uid */
	if (of_warden < 0 || of_launcher < 0 || of_api < 0) {
		act->answer = mem_strdup("the server's processes cannot be seen from here");
		return;
	}
	act->answer =
		mem_printf("launcher %ld, api %ld, session %ld", of_launcher, of_api, of_warden);
	act->inside =
		of_warden != of_launcher && of_warden != of_api ? DOCTOR_REFUSED : DOCTOR_DONE;
}
