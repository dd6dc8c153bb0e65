// SPDX-License-Identifier: Apache-2.0
/* The two output files of a command, in designs that are run in turns: CPU time per command, for
 * silent commands and for those that write one line. Nothing is removed meanwhile, though each new
 * file must be one day: ext4 without a journal looks long for an inode where many were freed just
 * before, ten times as long as it takes else.
 *
 * usage: bench_files DIR ROUNDS COMMANDS   prints one JSON line */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 200
#define LINE "one line of output\n"

/* CREATED: made for each command. RENAMED: an empty file gets the next command's name. KEPT: files
 * have names of their own; an empty one serves the next command as it is. */
enum kind { CREATED, RENAMED, KEPT };

struct file {
	int fd;
	char id[32]; /* of the command that it is named after */
};

struct design {
	const char *name;
	enum kind kind;
	bool speaks;
	int dir;
	struct file file[2];
	unsigned commands;
	double us[ROUNDS_MAX];
};
static struct design designs[] = {
	{.name = "created", .kind = CREATED},
	{.name = "created_again", .kind = CREATED},
	{.name = "renamed", .kind = RENAMED},
	{.name = "kept", .kind = KEPT},
	{.name = "line_created", .kind = CREATED, .speaks = true},
	{.name = "line_renamed", .kind = RENAMED, .speaks = true},
	{.name = "line_kept", .kind = KEPT, .speaks = true},
};

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The file of a command's stream 1 or 2; the directory has the design's name. */
struct name {
	char text[96];
};

static struct name name_of(const struct design *d, const char *id, int which)
{
	struct name n;

	snprintf(n.text, sizeof(n.text), "%s/%s.%s", d->name, id, which == 1 ? "out" : "err");
	return n;
}

static int create(struct design *d, const char *id, int which)
{
	const struct name n = name_of(d, id, which);
	const int fd =
		openat(d->dir, n.text,
		       O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		fail(n.text);
	return fd;
}

static void pass(struct design *d, const char *from, const char *to, int which)
{
	const struct name old = name_of(d, from, which), new = name_of(d, to, which);

	if (renameat2(d->dir, old.text, d->dir, new.text, RENAME_NOREPLACE) < 0)
		fail(old.text);
}

/* The file of stream `which` for the command id, as the design has it. */
static void get_file(struct design *d, const char *id, int which)
{
	struct file *f = &d->file[which - 1];
	const struct file old = *f;
	const bool empty = old.fd != -1 && !(d->speaks && which == 1);

	if (d->kind == KEPT && empty)
		return;
	strcpy(f->id, id);
	if (d->kind == RENAMED && empty) {
		pass(d, old.id, id, which);
		return;
	}
	f->fd = create(d, id, which);
	if (old.fd != -1)
		close(old.fd);
}

static void one_command(struct design *d)
{
	char id[32];

	snprintf(id, sizeof(id), "cmd-%012u", ++d->commands);
	for (int which = 1; which <= 2; which++)
		get_file(d, id, which);
	if (d->speaks && write(d->file[0].fd, LINE, sizeof(LINE) - 1) != sizeof(LINE) - 1)
		fail("write");
}

/* The last command's files are there, with what was written. */
static void check(const struct design *d)
{
	for (int which = 1; which <= 2; which++) {
		const off_t size = d->speaks && which == 1 ? (off_t)sizeof(LINE) - 1 : 0;
		const struct name n = name_of(d, d->file[which - 1].id, which);
		struct stat st;

		if (fstatat(d->dir, n.text, &st, 0) < 0)
			fail(n.text);
		if (st.st_size != size) {
			fprintf(stderr, "bench_files: %s has a wrong size\n", n.text);
			exit(1);
		}
	}
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	const int rounds = argc == 4 ? atoi(argv[2]) : 0, commands = argc == 4 ? atoi(argv[3]) : 0;
	const int n = (int)(sizeof(designs) / sizeof(designs[0]));
	const int dir = argc == 4 ? open(argv[1], O_DIRECTORY | O_CLOEXEC) : -1;

	if (rounds < 1 || rounds > ROUNDS_MAX || commands < 1)
		return 2;
	if (dir == -1)
		fail(argv[1]);
	for (int i = 0; i < n; i++) {
		designs[i].dir = dir;
		designs[i].file[0].fd = designs[i].file[1].fd = -1;
		if (mkdirat(dir, designs[i].name, 0700) < 0)
			fail(designs[i].name);
	}
	for (int r = -1; r < rounds; r++) /* the first is not counted */
		for (int i = 0; i < n; i++) {
			struct design *d = &designs[(i + r + 1) % n]; /* none is always the first */
			const double begin = cpu_us();

			for (int c = 0; c < commands; c++)
				one_command(d);
			if (r >= 0)
				d->us[r] = (cpu_us() - begin) / commands;
			check(d);
		}
	for (int i = 0; i < n; i++) {
		qsort(designs[i].us, (size_t)rounds, sizeof(double), by_value);
		printf("%s\"%s_us\":%.2f", i > 0 ? "," : "{", designs[i].name,
		       designs[i].us[rounds / 2]);
	}
	printf("}\n");
	return 0;
}
