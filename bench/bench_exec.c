// SPDX-License-Identifier: Apache-2.0
/* Latency and throughput of running `true`, several ways in interleaved rounds, so that noise hits
 * all alike. WISH is the body that asks for a session; a path stands for {"workspace": path}. A WAY
 * is a name, or NAME@SOCKET#SESSION#AGENTSH for another server and CLI than the first.
 *
 * usage: bench_exec latency ROUNDS SOCKET SESSION WISH AGENTSH WAY…   prints one JSON line per way
 *        bench_exec clients N SECONDS SOCKET WISH    prints commands per second and the 99th
 *                                                    percentile of their times, ours and native */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REST_MS 100

struct runtime {
	const char *socket, *session, *request, *agentsh;
	int fd;		/* keep-alive connection */
	char made[128]; /* session of way_create and way_destroy */
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_exec: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		fail(path);
	return fd;
}

/* One request on a keep-alive connection; the status. body_out gets the answer's start. */
static int call(int fd, const char *method, const char *path, const char *body, char *out,
		size_t size)
{
	char buf[65536];
	int n = snprintf(buf, sizeof(buf),
			 "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n%s", method, path,
			 strlen(body), body);
	size_t have = 0, want = 0;
	char *head;

	if (write(fd, buf, (size_t)n) != n)
		fail("write");
	while (want == 0 || have < want) {
		ssize_t r = read(fd, buf + have, sizeof(buf) - 1 - have);

		if (r <= 0)
			fail("read");
		have += (size_t)r;
		buf[have] = '\0';
		head = strstr(buf, "\r\n\r\n");
		if (want == 0 && head != NULL) {
			const char *len = strcasestr(buf, "content-length: ");

			want = (size_t)(head + 4 - buf) + (len ? strtoul(len + 16, NULL, 10) : 0);
		}
	}
	if (out != NULL)
		snprintf(out, size, "%s", strstr(buf, "\r\n\r\n") + 4);
	return atoi(buf + 9);
}

static void spawn_wait(const char *const argv[])
{
	pid_t pid = vfork();
	int status;

	if (pid == 0) {
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		fail(argv[0]);
}

static void way_native(struct runtime *p)
{
	spawn_wait((const char *[]){"/bin/true", NULL});
}

static void way_sh(struct runtime *p)
{
	spawn_wait((const char *[]){"/bin/sh", "-c", "exit 0", NULL});
}

static void way_bwrap(struct runtime *p)
{
	spawn_wait((const char *[]){"/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/",
				    "--dev", "/dev", "--proc", "/proc", "/bin/true", NULL});
}

static void exec_by_http(struct runtime *p, const char *body)
{
	char path[256], answer[2048];

	snprintf(path, sizeof(path), "/api/v1/sessions/%s/exec", p->session);
	if (call(p->fd, "POST", path, body, answer, sizeof(answer)) != 200 ||
	    strstr(answer, "\"exit_code\":0,") == NULL)
		fail(answer);
}

static void way_http(struct runtime *p)
{
	exec_by_http(p, "{\"command\":\"/bin/true\"}");
}

static void way_script(struct runtime *p)
{
	exec_by_http(p, "{\"script\":\"exit 0\"}");
}

static void way_cli(struct runtime *p)
{
	spawn_wait((const char *[]){p->agentsh, "exec", p->session, "--", "/bin/true", NULL});
}

static void way_cli_shell(struct runtime *p)
{
	spawn_wait((const char *[]){p->agentsh, "exec", p->session, "--output", "shell", "--",
				    "/bin/true", NULL});
}

static void way_version(struct runtime *p)
{
	spawn_wait((const char *[]){p->agentsh, "version", NULL});
}

/* In the current directory. */
static void way_run(struct runtime *p)
{
	char server[256];

	snprintf(server, sizeof(server), "unix:%s", p->socket);
	spawn_wait(
		(const char *[]){p->agentsh, "--server", server, "run", "--", "/bin/true", NULL});
}

static void way_health(struct runtime *p)
{
	if (call(p->fd, "GET", "/health", "", NULL, 0) != 200)
		fail("health");
}

static void make(struct runtime *p, char id[128])
{
	char body[512], answer[512];

	snprintf(body, sizeof(body), p->request[0] == '{' ? "%s" : "{\"workspace\":\"%s\"}",
		 p->request);
	if (call(p->fd, "POST", "/api/v1/sessions", body, answer, sizeof(answer)) != 201 ||
	    sscanf(answer, "{\"id\":\"%100[^\"]", id) != 1)
		fail("create");
}

static void end(struct runtime *p, const char *id)
{
	char path[256];

	snprintf(path, sizeof(path), "/api/v1/sessions/%s", id);
	if (call(p->fd, "DELETE", path, "", NULL, 0) != 200)
		fail("destroy");
}

static void way_session(struct runtime *p)
{
	char id[128];

	make(p, id);
	end(p, id);
}

static void way_create(struct runtime *p)
{
	make(p, p->made);
}

static void way_destroy(struct runtime *p)
{
	end(p, p->made);
}

/* Until what the destroy left is cleared away and the pool of sandboxes is full again. */
static void rest(struct runtime *p)
{
	nanosleep(&(struct timespec){.tv_nsec = REST_MS * 1000000L}, NULL);
}

static void make_and_rest(struct runtime *p)
{
	make(p, p->made);
	rest(p);
}

static void end_and_rest(struct runtime *p)
{
	end(p, p->made);
	rest(p);
}

static const struct way {
	const char *name;
	void (*run)(struct runtime *p);
	void (*before)(struct runtime *p), (*after)(struct runtime *p); /* not measured */
} ways[] = {
	{"native", way_native},
	{"native-again", way_native},
	{"sh", way_sh},
	{"sh-again", way_sh},
	{"bwrap", way_bwrap},
	{"bwrap-again", way_bwrap},
	{"http", way_http},
	{"script", way_script},
	{"cli", way_cli},
	{"cli-shell", way_cli_shell},
	{"cli-version", way_version},
	{"run", way_run, NULL, rest},
	{"run-at-once", way_run, way_run, rest},
	{"health", way_health},
	{"session", way_session},
	{"create", way_create, NULL, end_and_rest},
	{"destroy", way_destroy, make_and_rest, rest},
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int latency(int argc, char **argv)
{
	int rounds = atoi(argv[0]), n = argc - 5;
	struct runtime p[16];
	const struct way *way[16];
	double *t = calloc((size_t)rounds * 16, sizeof(double));
	double *diff = calloc((size_t)rounds, sizeof(double));
	double *one = calloc((size_t)rounds, sizeof(double));
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = dup(1);

	for (int i = 0; i < n; i++) {
		char *at = strchr(argv[5 + i], '@'), *id = at != NULL ? strchr(at, '#') : NULL;
		char *cli = id != NULL ? strchr(id + 1, '#') : NULL;

		if (cli != NULL)
			*at = *id = *cli = '\0';
		p[i] = (struct runtime){.socket = cli != NULL ? at + 1 : argv[1],
					.session = cli != NULL ? id + 1 : argv[2],
					.request = argv[3],
					.agentsh = cli != NULL ? cli + 1 : argv[4]};
		p[i].fd = dial(p[i].socket);
		way[i] = NULL;
		for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++)
			if (strcmp(ways[k].name, argv[5 + i]) == 0)
				way[i] = &ways[k];
		if (way[i] == NULL)
			fail(argv[5 + i]);
	}
	dup2(null, 1); /* what the programs print is not part of it */
	for (int r = -5; r < rounds; r++) {
		for (int i = 0; i < n; i++) {
			int k = r & 1 ? n - 1 - i
				      : i; /* there and back: no way is always the first */
			double begin;

			if (way[k]->before != NULL)
				way[k]->before(&p[k]);
			begin = now_us();
			way[k]->run(&p[k]);
			if (r >= 0)
				t[k * rounds + r] = now_us() - begin;
			if (way[k]->after != NULL)
				way[k]->after(&p[k]);
		}
	}
	dup2(out, 1);
	for (int i = 0; i < n; i++) {
		for (int r = 0; r < rounds; r++) {
			diff[r] = t[i * rounds + r] - t[r];
			one[r] = t[i * rounds + r];
		}
		double middle = median(one, rounds); /* sorts */

		printf("{\"way\":\"%s\",\"rounds\":%d,\"median_us\":%.1f,\"over_first_us\":%.1f,"
		       "\"p90_us\":%.1f,\"p95_us\":%.1f}\n",
		       way[i]->name, rounds, middle, median(diff, rounds), one[rounds * 9 / 10],
		       one[rounds * 19 / 20]);
	}
	return 0;
}

/* --- throughput --- */

#define TIMES 20000 /* of one worker in one round */

struct worker {
	pthread_t thread;
	struct runtime p;
	char session[128];
	double until;
	bool native;
	long done;
	double *took; /* TIMES */
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (double begin = now_us(), end; begin < w->until && w->done < TIMES; begin = end) {
		if (w->native)
			way_native(&w->p);
		else
			way_http(&w->p);
		end = now_us();
		w->took[w->done++] = end - begin;
	}
	return NULL;
}

/* Commands per second; *p99 is the 99th percentile of their times. */
static double rate(struct worker *w, int n, double seconds, bool native, double *p99)
{
	double begin = now_us(), *all = calloc((size_t)n * TIMES, sizeof(double)), per_s;
	long total = 0;

	for (int i = 0; i < n; i++) {
		w[i].until = begin + seconds * 1e6;
		w[i].native = native;
		w[i].done = 0;
		if (pthread_create(&w[i].thread, NULL, work, &w[i]) != 0)
			fail("thread");
	}
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		memcpy(all + total, w[i].took, (size_t)w[i].done * sizeof(double));
		total += w[i].done;
	}
	per_s = (double)total / ((now_us() - begin) / 1e6);
	qsort(all, (size_t)total, sizeof(*all), by_value);
	*p99 = all[total * 99 / 100];
	free(all);
	return per_s;
}

static int clients(char **argv)
{
	int n = atoi(argv[0]), rounds = 5;
	double seconds = atof(argv[1]), ours[5], native[5], ours_p99[5], native_p99[5];
	struct worker *w = calloc((size_t)n, sizeof(*w));

	for (int i = 0; i < n; i++) {
		w[i].p = (struct runtime){.socket = argv[2], .request = argv[3]};
		w[i].p.fd = dial(argv[2]);
		make(&w[i].p, w[i].session);
		w[i].p.session = w[i].session;
		w[i].took = calloc(TIMES, sizeof(double));
	}
	for (int r = 0; r < rounds; r++) {
		native[r] = rate(w, n, seconds / rounds, true, &native_p99[r]);
		ours[r] = rate(w, n, seconds / rounds, false, &ours_p99[r]);
	}
	for (int i = 0; i < n; i++)
		end(&w[i].p, w[i].session);
	printf("{\"clients\":%d,\"ours_per_s\":%.0f,\"native_per_s\":%.0f,\"ours_p99_us\":%.0f,"
	       "\"native_p99_us\":%.0f}\n",
	       n, median(ours, rounds), median(native, rounds), median(ours_p99, rounds),
	       median(native_p99, rounds));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 8 && strcmp(argv[1], "latency") == 0)
		return latency(argc - 2, argv + 2);
	if (argc == 6 && strcmp(argv[1], "clients") == 0)
		return clients(argv + 2);
	fprintf(stderr, "usage: bench_exec latency ROUNDS SOCKET SESSION WISH AGENTSH WAY...\n"
			"       bench_exec clients N SECONDS SOCKET WISH\n");
	return 2;
}
