// SPDX-License-Identifier: Apache-2.0
/* Ways to show a part of /etc in a new mount namespace, in interleaved rounds: what each costs to
 * make, and what it costs when the namespace goes (the end of its last process).
 *
 * nothing      an empty tmpfs, what all of them stand on
 * binds        one mount per entry; twice, for the noise
 * copies       small files and links are copied, directories bound
 * tree         the mounts were made once, detached; a namespace gets a copy of all in one call
 * directory    everything was copied once into a directory; a namespace gets one bind of it
 *
 * usage: bench_etc ROUNDS   (as root) prints one JSON line per way */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPY_MAX 65536
#define WAYS 6

/* Of the session's list what this machine has. */
static const char *const names[] = {
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"alternatives",
	"os-release",
	"lsb-release",
	"debian_version",
	"localtime",
	"timezone",
	"locale.conf",
	"mtab",
	"resolv.conf",
	"services",
	"protocols",
	"ca-certificates",
	"profile",
	"profile.d",
	"bash.bashrc",
	"inputrc",
	"terminfo",
	"gitconfig",
	"npmrc",
	"pip.conf",
	"python3",
	"python3.11",
	"java",
	"maven",
	"perl",
	"xml",
	"fonts",
	"mime.types",
	"vim",
	"wgetrc",
	"ssl",
	"rpc",
	"networks",
	"hosts.conf",
	"shells",
	"environment",
	"deluser.conf",
	"gai.conf",
	"host.conf",
	"issue",
	"login.defs",
	"motd",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_etc: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int new_tmpfs(void)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), made;

	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		fail("tmpfs");
	made = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	close(fs);
	return made;
}

/* ---- one entry ---- */

static void copy_file(int from, int to, const char *name)
{
	static char text[COPY_MAX];
	int in = openat(from, name, O_RDONLY | O_CLOEXEC);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	ssize_t n;

	while ((n = read(in, text, sizeof(text))) > 0)
		if (write(out, text, (size_t)n) != n)
			fail(name);
	close(in);
	close(out);
}

static void copy_link(int from, int to, const char *name)
{
	char target[4096];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	target[n > 0 ? n : 0] = '\0';
	if (symlinkat(target, to, name) < 0)
		fail(name);
}

static void bind_entry(int from, int to, const char *name, mode_t mode)
{
	int tree = open_tree(from, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (S_ISDIR(mode) ? mkdirat(to, name, 0755) : mknodat(to, name, S_IFREG | 0444, 0))
		fail(name);
	if (tree < 0 || move_mount(tree, "", to, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail(name);
	close(tree);
}

static void copy_tree(int from, int to, const char *name)
{
	int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), out;
	DIR *dir = fdopendir(in);
	const struct dirent *e;

	mkdirat(to, name, 0755);
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		if (e->d_type == DT_DIR)
			copy_tree(in, out, e->d_name);
		else if (e->d_type == DT_LNK)
			copy_link(in, out, e->d_name);
		else
			copy_file(in, out, e->d_name);
	}
	close(out);
	closedir(dir);
}

static void each(int to, void (*show)(int from, int to, const char *name, mode_t mode))
{
	int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	for (size_t i = 0; i < NAMES; i++)
		if (fstatat(etc, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			show(etc, to, names[i], st.st_mode);
	close(etc);
}

static void by_bind(int from, int to, const char *name, mode_t mode)
{
	if (S_ISLNK(mode))
		copy_link(from, to, name);
	else
		bind_entry(from, to, name, mode);
}

static void by_copy(int from, int to, const char *name, mode_t mode)
{
	if (S_ISREG(mode))
		copy_file(from, to, name);
	else
		by_bind(from, to, name, mode);
}

static void all_copied(int from, int to, const char *name, mode_t mode)
{
	if (S_ISDIR(mode))
		copy_tree(from, to, name);
	else
		by_copy(from, to, name, mode);
}

/* ---- the ways; root is an attached tmpfs of the namespace ---- */

static int prepared_tree, prepared_dir;

static void way_binds(int root, int prepared)
{
	each(root, by_bind);
}

static void way_copies(int root, int prepared)
{
	each(root, by_copy);
}

static void way_prepared(int root, int prepared)
{
	mkdirat(root, "etc", 0755);
	if (move_mount(prepared, "", root, "etc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail("the prepared tree");
}

static void way_nothing(int root, int prepared)
{
}

static const struct way {
	const char *name;
	void (*run)(int root, int prepared);
	const int *prepared; /* cloned by the one who has it: only its own namespace may */
} ways[WAYS] = {{"nothing", way_nothing, NULL},		{"binds", way_binds, NULL},
		{"binds_again", way_binds, NULL},	{"copies", way_copies, NULL},
		{"tree", way_prepared, &prepared_tree}, {"directory", way_prepared, &prepared_dir}};

static int clone_mounts(int from)
{
	int tree = open_tree(from, "",
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);

	if (tree < 0)
		fail("open_tree");
	return tree;
}

/* Says how long it took, and goes when it is told. */
static _Noreturn void child(const struct way *way, int prepared, int word, int go)
{
	double begin, took;
	int root;
	char byte;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("unshare");
	root = new_tmpfs();
	if (move_mount(root, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail("/mnt");
	begin = now_us();
	way->run(root, prepared);
	took = now_us() - begin;
	close(root);
	close(prepared);
	if (write(word, &took, sizeof(took)) != sizeof(took) || read(go, &byte, 1) < 0)
		fail("word");
	_exit(0);
}

static void once(const struct way *way, double *make, double *end)
{
	int word[2], go[2], prepared = -1;
	double begin = now_us(), cloned = 0;
	int status;
	pid_t pid;

	if (way->prepared != NULL) {
		prepared = clone_mounts(*way->prepared);
		cloned = now_us() - begin;
	}
	if (pipe2(word, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		fail("pipe");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		child(way, prepared, word[1], go[0]);
	}
	close(prepared);
	close(word[1]);
	close(go[0]);
	if (read(word[0], make, sizeof(*make)) != sizeof(*make))
		fail("child");
	*make += cloned;
	begin = now_us();
	close(go[1]);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		fail("child's end");
	*end = now_us() - begin;
	close(word[0]);
}

/* Made in a namespace of our own and taken out of it again, so that the others do not begin with
 * it. */
static void prepare(void)
{
	int base, dir, tree;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("unshare");
	base = new_tmpfs();
	tree = new_tmpfs();
	if (move_mount(base, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    mkdirat(base, "dir", 0755) < 0 || mkdirat(base, "tree", 0755) < 0 ||
	    move_mount(tree, "", base, "tree", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		fail("/mnt");
	dir = openat(base, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	each(dir, all_copied);
	each(tree, by_bind);
	prepared_dir = clone_mounts(dir);
	prepared_tree = clone_mounts(tree);
	if (umount2("/mnt", MNT_DETACH) < 0)
		fail("umount2");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 0;
	double *make[WAYS], *end[WAYS];

	if (rounds <= 0) {
		fprintf(stderr, "usage: bench_etc ROUNDS\n");
		return 2;
	}
	prepare();
	for (int i = 0; i < WAYS; i++) {
		make[i] = calloc((size_t)rounds, sizeof(double));
		end[i] = calloc((size_t)rounds, sizeof(double));
	}
	for (int r = 0; r < rounds; r++)
		for (int i = 0; i < WAYS; i++) {
			const int w = (i + r) % WAYS; /* none is always the first */

			once(&ways[w], &make[w][r], &end[w][r]);
		}
	for (int i = 0; i < WAYS; i++)
		printf("{\"way\":\"%s\",\"rounds\":%d,\"make_us\":%.1f,\"end_us\":%.1f}\n",
		       ways[i].name, rounds, median(make[i], rounds), median(end[i], rounds));
	return 0;
}
