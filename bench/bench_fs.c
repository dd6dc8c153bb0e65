// SPDX-License-Identifier: Apache-2.0
/* Single file operations in a directory, and jobs. One JSON line for each: its name, microseconds
 * each, and the 99th percentile.
 *
 * usage: bench_fs single DIRECTORY     the first run makes what the operations need
 *        bench_fs reads FILE           one page, again and again: the best of short runs
 *        bench_fs jobs NAME COMMAND…   each command by a shell, in turn */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES 1000
#define BLOCK 131072
#define BIG (32 << 20)
#define PAGE 4096

static char block[BLOCK];
static double took[FILES * 16];

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs one(i) n times and prints what each took: the mean of the faster 99 %. */
static void measure(const char *name, size_t n, void (*one)(size_t i))
{
	size_t count = n;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const double begin = now_us();

		one(i);
		took[i] = now_us() - begin;
	}
	qsort(took, n, sizeof(*took), by_value);
	if (n > 100) /* the slowest were interrupted by other programs */
		count -= n / 100;
	for (size_t i = 0; i < count; i++)
		sum += took[i];
	printf("{\"op\":\"%s\",\"us\":%.3f,\"p99_us\":%.3f}\n", name, sum / (double)count,
	       took[n * 99 / 100]);
}

struct path {
	char text[32];
};

static struct path path_of(const char *kind, size_t i)
{
	struct path p;

	snprintf(p.text, sizeof(p.text), "%s/%zu", kind, i % FILES);
	return p;
}

static void stat_one(size_t i)
{
	const struct path p = path_of("files", i);
	struct stat st;

	if (stat(p.text, &st) < 0)
		fail(p.text);
}

static void read_one(size_t i)
{
	const struct path p = path_of("files", i);
	const int fd = open(p.text, O_RDONLY);

	if (fd < 0 || read(fd, block, BLOCK) != PAGE || close(fd) < 0)
		fail(p.text);
}

static void list_one(size_t i)
{
	DIR *d = opendir("listed");
	struct dirent *e;
	struct stat st;
	size_t n = 0;

	(void)i;
	while (d != NULL && (e = readdir(d)) != NULL)
		n += fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (n != FILES + 2)
		fail("listed");
	closedir(d);
}

static void create_one(size_t i)
{
	const struct path p = path_of("made", i);
	const int fd = open(p.text, O_WRONLY | O_CREAT | O_EXCL, 0644);

	if (fd < 0 || close(fd) < 0)
		fail(p.text);
}

static void unlink_one(size_t i)
{
	const struct path p = path_of("made", i);

	if (unlink(p.text) < 0)
		fail(p.text);
}

static int big = -1;

static void read_block(size_t i)
{
	if (pread(big, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
		fail("big");
}

static void write_block(size_t i)
{
	if (pwrite(big, block, BLOCK, (off_t)i * BLOCK) != BLOCK)
		fail("big");
}

static off_t somewhere(size_t i)
{
	return (off_t)(i * 2654435761U % (BIG / PAGE)) * PAGE;
}

static void read_page(size_t i)
{
	if (pread(big, block, PAGE, somewhere(i)) != PAGE)
		fail("big");
}

static void write_page(size_t i)
{
	if (pwrite(big, block, PAGE, somewhere(i)) != PAGE)
		fail("big");
}

static void prepare(void)
{
	static const char *const dirs[] = {"files", "listed", "made"};

	for (size_t d = 0; d < 3; d++) {
		if (mkdir(dirs[d], 0755) < 0 && errno != EEXIST)
			fail(dirs[d]);
		for (size_t i = 0; d < 2 && i < FILES; i++) {
			const struct path p = path_of(dirs[d], i);
			const int fd = open(p.text, O_WRONLY | O_CREAT, 0644);
			struct stat st;

			if (fd < 0 || fstat(fd, &st) < 0 ||
			    (st.st_size != PAGE && write(fd, block, PAGE) != PAGE))
				fail(p.text);
			close(fd);
		}
	}
}

static void single(void)
{
	prepare();
	measure("readdir+stat", 1, list_one);
	measure("stat", 10 * (size_t)FILES, stat_one);
	measure("open+read+close", 2 * (size_t)FILES, read_one);
	measure("create", FILES, create_one);
	measure("unlink", FILES, unlink_one);
	unlink("big");
	big = open("big", O_RDWR | O_CREAT, 0644);
	if (big < 0)
		fail("big");
	measure("sequential write", BIG / BLOCK, write_block);
	close(big);
	big = open("big", O_RDWR);
	measure("first sequential read", BIG / BLOCK, read_block);
	measure("sequential read", BIG / BLOCK, read_block);
	measure("random 4k read", 16 * (size_t)FILES, read_page);
	measure("random 4k write", 4 * (size_t)FILES, write_page);
}

#define RUNS 50
#define READS 4000

/* Without a look at the clock for each. */
static void reads(const char *file)
{
	double best = 0;

	big = open(file, O_RDWR | O_CREAT, 0644);
	for (size_t i = 0; i < BIG / BLOCK; i++)
		write_block(i);
	for (size_t run = 0; run < RUNS; run++) {
		const double begin = now_us();

		for (size_t i = 0; i < READS; i++)
			read_page(i);
		if (run == 0 || now_us() - begin < best)
			best = now_us() - begin;
	}
	printf("{\"op\":\"random 4k read\",\"us\":%.4f,\"p99_us\":0}\n", best / READS);
}

static const char *command;

static void run_one(size_t i)
{
	const pid_t pid = vfork();
	int status;

	(void)i;
	if (pid == 0) {
		execl("/bin/sh", "sh", "-ec", command, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		fail(command);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "single") == 0 && chdir(argv[2]) == 0) {
		single();
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "reads") == 0) {
		reads(argv[2]);
		return 0;
	}
	if (argc < 4 || argc % 2 != 0 || strcmp(argv[1], "jobs") != 0)
		return 2;
	for (int i = 2; i < argc; i += 2) {
		command = argv[i + 1];
		measure(argv[i], 1, run_one);
		fflush(stdout);
	}
	return 0;
}
