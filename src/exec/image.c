// SPDX-License-Identifier: Apache-2.0
/* Resolution in the caller's root: openat2 with RESOLVE_IN_ROOT, so that absolute links and ".."
 * stay there. It follows no magic links. Those that name the caller itself are opened directly,
 * since /proc/self is another process for each reader; the caller's root and directory replace
 * their links. Other spellings of those links are not found. If we do
 * not find a file, the exec fails: no file can be put there between two lookups. */
#include "exec/image.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include "model/acmd_names.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#define LINKS_MAX 40 /* MAXSYMLINKS of the kernel */
#define DEPTH_MAX 5  /* interpreters of interpreters: exec_binprm */

struct resolver {
	const struct image_name *name;
	struct immutable_paths *names;
	int root;
	bool is_immutable; /* so far */
	bool last_fixed;   /* the last file alone */
};

/* One file of the chain while it is looked at. */
struct file {
	struct stat st;
	char path[PATH_MAX]; /* resolved */
	char head[BINPRM_BYTES];
};

void image_done(struct image *im)
{
	if (im->fd >= 0)
		close(im->fd);
	strv_done(&im->chain);
	strv_done(&im->canonical);
	strv_done(&im->head);
	free(im->called);
	free(im->called_canonical);
	free(im->loads);
	free(im->argv);
	*im = (struct image){.fd = -1};
}

void image_hold_path(struct image *im)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", im->fd);
	fd = im->fd >= 0 ? open(name, O_PATH | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	close(im->fd);
	im->fd = fd;
}

/* ---- opening ---- */

static bool may_execute(int fd)
{
	return syscall(SYS_faccessat2, fd, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

/* What follows /proc/self/ or /proc/thread-self/ in a path, else NULL. *process: the first. */
static const char *after_self(const char *path, bool *process)
{
	static const char *const names[] = {"/proc/self/", "/proc/thread-self/"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		*process = i == 0;
		if (strncmp(path, names[i], strlen(names[i])) == 0)
			return path + strlen(names[i]);
	}
	return NULL;
}

/* "exe" of /proc/self/exe, "fd/3" of /dev/fd/3; NULL for other paths. */
static const char *self_link(const char *path)
{
	bool process;
	const char *link = after_self(path, &process);

	if (link != NULL && (strcmp(link, "exe") == 0 || strncmp(link, "fd/", 3) == 0))
		return link;
	return strncmp(path, "/dev/fd/", 8) == 0 ? path + strlen("/dev/") : NULL;
}

static int open_self(const struct resolver *r, const char *link)
{
	if (r->name->tid == 0)
		return -ENOENT;
	if (link[0] == 'f' && strspn(link + 3, "0123456789") != strlen(link + 3))
		return -ENOENT;
	return caller_open(r->name->tid, link, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

/* base/rest as the absolute path it is now. 0 or an errno. */
static int make_absolute(const char *base, const char *path, char **out)
{
	if (path[0] == '/') {
		*out = mem_strdup(path);
		return 0;
	}
	if (base[0] != '/')
		return EPERM;
	*out = mem_printf("%s%s%s", base, base[1] == '\0' ? "" : "/", path);
	if (strlen(*out) < PATH_MAX)
		return 0;
	free(take(*out));
	return ENAMETOOLONG;
}

/* Puts the caller's own root or directory in place of the link that an absolute path begins with;
 * *out is NULL if it begins with neither. To have another root than other threads needs a
 * capability. 0 or an errno. */
static int replace_link(const struct resolver *r, const char *path, char **out)
{
	const pid_t tid = r->name->tid;
	struct proc_ids ids;
	char cwd[PATH_MAX];
	bool process;
	const char *link = after_self(path, &process);
	const size_t len = link != NULL ? strcspn(link, "/") : 0;

	*out = NULL;
	if (len == 4 && strncmp(link, "root", len) == 0) {
		*out = mem_strdup(link[len] == '\0' ? "/" : link + len);
		return 0;
	}
	if (len != 3 || strncmp(link, "cwd", len) != 0)
		return 0;
	if (tid == 0)
		snprintf(cwd, sizeof(cwd), "%s", r->name->cwd);
	else if ((process && proc_ids(tid, &ids) != 0) ||
		 caller_link(process ? ids.pid : tid, "cwd", cwd) != 0)
		return EPERM;
	return make_absolute(cwd, link + len + strspn(link + len, "/"), out);
}

/* Opens a file that is not below the workspace, and asks the file system of the workspace nothing:
 * it uses the kernel's cache of names, or a path that nothing of the session can lead there. */
static int open_near(const struct resolver *r, const char *path, uint64_t flags)
{
	cleanup_fd int at =
		fdio_openat2(r->root, path, O_PATH | flags, RESOLVE_IN_ROOT | RESOLVE_CACHED);
	int e = at < 0 ? errno : 0, fd;
	char name[32];

	if (e == EAGAIN && immutable_path(r->names, r->root, path)) {
		at = fdio_openat2(r->root, path, O_PATH | flags, RESOLVE_IN_ROOT);
		e = at < 0 ? errno : 0;
	}
	if (e == ENOENT || e == ENOTDIR)
		return -e;
	if (at < 0 || immutable_paths_far(r->names, r->root, at))
		return -EXEC_FAR;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
	fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : -EXEC_FAR;
}

/* flags: 0 or O_NOFOLLOW. A descriptor or -errno. With O_NONBLOCK no FIFO or lease blocks us. */
static int open_plain(const struct resolver *r, const char *path, uint64_t flags)
{
	const char *link = self_link(path);
	int fd;

	if (r->names->near)
		return link != NULL ? -EXEC_FAR : open_near(r, path, flags);
	if (link != NULL)
		return open_self(r, link);
	fd = fdio_openat2(r->root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags, RESOLVE_IN_ROOT);
	if (fd >= 0)
		return fd;
	if (errno == EACCES) {
		/* A file that may be executed but not read: its contents are unknown. */
		cleanup_fd int found = fdio_openat2(r->root, path, O_PATH | flags, RESOLVE_IN_ROOT);

		return found >= 0 && may_execute(found) ? -EPERM : -EACCES;
	}
	return errno == EWOULDBLOCK || errno == EXDEV ? -EPERM : -errno;
}

/* The same; the path may begin with links to the caller's own root and directory. They are counted,
 * since the directory of an initial exec is a text that need not be a real path. */
static int open_path(const struct resolver *r, const char *path, uint64_t flags)
{
	cleanup_free char *now = mem_strdup(path);

	for (unsigned links = 0; links <= LINKS_MAX; links++) {
		char *next;
		int e = replace_link(r, now, &next);

		if (e != 0)
			return -e;
		if (next == NULL)
			return open_plain(r, now, flags);
		free(now);
		now = next;
	}
	return -ELOOP;
}

/* ---- looking ---- */

/* init has mounted agentsh's own programs read-only. When an upgrade replaces them on the machine,
 * the old files lose their names there and keep those in the session. */
static void keep_own_name(struct file *f)
{
	char *gone = strstr(f->path, " (deleted)");

	if (f->st.st_nlink > 0 || !path_within(f->path, ACMD_DIR))
		return;
	if (gone != NULL)
		*gone = '\0';
	f->st.st_nlink = 1;
}

/* Fills *f; 0 or an errno. For a file that is not executable (EACCES) it fills all but the head. */
static int look(int fd, struct file *f)
{
	struct statvfs fs;
	char link[32];

	snprintf(link, sizeof(link), "fd/%d", fd);
	if (fstat(fd, &f->st) == -1 || caller_link(getpid(), link, f->path) != 0 ||
	    fstatvfs(fd, &fs) == -1)
		return EPERM;
	keep_own_name(f);
	if (!S_ISREG(f->st.st_mode) || (fs.f_flag & ST_NOEXEC) != 0 || !may_execute(fd))
		return EACCES;
	memset(f->head, 0, sizeof(f->head));
	if (fdio_pread_full(fd, f->head, sizeof(f->head), 0) < 0)
		return EPERM;
	return 0;
}

static unsigned file_flags(const struct file *f)
{
	const unsigned set_id = (f->st.st_mode & (S_ISUID | S_ISGID)) != 0 ? OP_EXEC_SETID : 0;

	if (strncmp(f->path, "/memfd:", 7) == 0 && f->st.st_nlink == 0)
		return set_id | OP_EXEC_MEMFD;
	return set_id | (f->st.st_nlink == 0 ? OP_EXEC_DELETED : 0);
}

/* The kernel runs this machine's programs (and 32-bit ones of its family, whose calls the filter
 * ends). Other files need binfmt_misc, which would run a program without a decision. */
static bool is_program(const struct file *f)
{
	static const uint16_t machines[] = {
#if defined(__x86_64__)
		EM_X86_64,
		EM_386,
#elif defined(__aarch64__)
		EM_AARCH64,
		EM_ARM,
#endif
	};
	Elf64_Ehdr h; /* e_type and e_machine stand at the same place in 32 bits */

	memcpy(&h, f->head, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || (h.e_type != ET_EXEC && h.e_type != ET_DYN))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(machines); i++)
		if (h.e_machine == machines[i])
			return true;
	return false;
}

/* ---- the chain ---- */

/* The first file, by path or descriptor; *called is owned by the caller. A descriptor or -errno. */
static int open_first(struct resolver *r, char **called)
{
	const struct image_name *n = r->name;
	char base[PATH_MAX], link[32];
	int e;

	snprintf(link, sizeof(link), "fd/%d", n->dirfd);
	if (n->path[0] == '\0') {
		if ((n->flags & AT_EMPTY_PATH) == 0 || n->dirfd < 0)
			return -ENOENT;
		r->is_immutable = false;
		*called = mem_printf("/dev/fd/%d", n->dirfd);
		return open_self(r, link);
	}
	snprintf(base, sizeof(base), "%s", n->cwd);
	if (n->path[0] != '/') {
		/* Directories may be shared with others: CLONE_FS, CLONE_FILES. */
		r->is_immutable = false;
		if (n->dirfd != AT_FDCWD && caller_link(n->tid, link, base) != 0)
			return -EBADF;
	}
	e = make_absolute(base, n->path, called);
	if (e != 0)
		return -e;
	return open_path(r, *called, (n->flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0);
}

static bool path_is_immutable(const struct resolver *r, const char *path)
{
	return self_link(path) == NULL && immutable_path(r->names, r->root, path);
}

/* Follows `#!` from the file in im->fd until a program. 0 or an errno. */
static int follow(struct resolver *r, struct image *im, struct file *f)
{
	const struct image_name *n = r->name;
	cleanup_free char *script = NULL; /* the name that the kernel gives to the script */

	if (n->dirfd == AT_FDCWD || n->path[0] == '/')
		script = mem_strdup(n->path);
	else
		script = mem_printf("/dev/fd/%d%s%s", n->dirfd, n->path[0] != '\0' ? "/" : "",
				    n->path);
	for (int depth = 0;; depth++) {
		cleanup_free char *path = NULL;
		struct shebang s;
		int e = look(im->fd, f);

		if (e != 0)
			return e;
		strv_add(&im->chain, f->path);
		im->flags |= file_flags(f);
		if (is_program(f))
			return 0;
		e = shebang_parse(f->head, &s);
		if (e != 0)
			return e;
		if (depth == DEPTH_MAX)
			return ELOOP;
		if (s.name[0] == '\0')
			return ENOENT;
		/* As load_script does it. */
		args_replace_first(&im->head,
				   (char *[]){s.name, s.has_arg ? s.arg : script, script},
				   s.has_arg ? 3 : 2);
		free(script);
		script = mem_strdup(s.name);
		e = make_absolute(n->cwd, s.name, &path);
		if (e != 0)
			return e;
		r->last_fixed = s.name[0] == '/' && path_is_immutable(r, path);
		r->is_immutable = r->is_immutable && r->last_fixed;
		close(im->fd);
		im->fd = open_path(r, path, 0);
		if (im->fd < 0)
			return -im->fd;
	}
}

/* ---- argv ---- */

/* argv as the kernel gives it to the program, with NULL at its end. The strings stay borrowed. */
static char **whole_argv(const struct image *im, const struct args *args, size_t *argc)
{
	const size_t skip = im->head.n > 0 ? 1 : 0;
	char **v;

	*argc = im->head.n + args->n - skip;
	v = mem_resize(NULL, *argc + 1, sizeof(*v));
	for (size_t i = 0; i < im->head.n; i++)
		v[i] = im->head.v[i];
	for (size_t i = skip; i < args->n; i++)
		v[im->head.n + i - skip] = args->v[i];
	v[*argc] = NULL;
	return v;
}

void image_new_argv(const struct image *im, const char *argv0, const struct args *args,
		    struct buf *out)
{
	const size_t first = strlen(args->v[0]) + 1;

	for (size_t i = 0; i < im->head.n; i++)
		buf_add(out, im->head.v[i], strlen(im->head.v[i]) + 1);
	if (im->head.n == 0)
		buf_add(out, argv0, strlen(argv0) + 1);
	if (!args->cut)
		buf_add(out, args->text.data + first, args->text.len - first);
}

/* ---- ld.so ---- */

static const char *const loader_paths[] = {
	"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux.so.2",	   "/lib/ld-linux-aarch64.so.1",
	"/libx32/ld-linux-x32.so.2",   "/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"};

static bool is_loader(const struct resolver *r, const struct file *f)
{
	const char *slash = strrchr(f->path, '/'), *name = slash != NULL ? slash + 1 : f->path;

	if (strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.so", 5) == 0)
		return true;
	if (strstr(name, ".so") == NULL) /* a loader is installed as a library */
		return false;
	for (size_t i = 0; i < ARRAY_LEN(loader_paths); i++) {
		cleanup_fd int fd = fdio_openat2(r->root, loader_paths[i], O_PATH, RESOLVE_IN_ROOT);
		struct stat st;

		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == f->st.st_dev &&
		    st.st_ino == f->st.st_ino)
			return true;
	}
	return false;
}

/* The program that ld.so will open itself, later and by name. It searches a name without a slash in
 * places that we do not know. 0 or an errno. */
static int follow_loader(struct resolver *r, struct image *im, const struct args *args)
{
	cleanup_free char *path = NULL;
	size_t argc;
	cleanup_free char **argv = whole_argv(im, args, &argc);
	struct loader_call call;
	struct file *f;
	int fd, e;

	im->flags |= OP_EXEC_LOADER;
	loader_parse(argv, argc, &call);
	if (call.program == NULL)
		return args->cut ? EPERM : 0;
	if (strchr(call.program, '/') == NULL)
		return EPERM;
	e = make_absolute(r->name->cwd, call.program, &path);
	fd = e != 0 ? -e : open_path(r, path, 0);
	if (fd < 0)
		return -fd == EPERM || -fd == EXEC_FAR ? -fd : 0; /* else ld.so finds none */
	f = mem_new(struct file);
	e = look(fd, f);
	if (e == 0 || e == EACCES) {
		im->loads = mem_strdup(f->path);
		im->flags |= file_flags(f);
		im->swappable =
			call.runs && !(call.program[0] == '/' && path_is_immutable(r, path));
		e = 0;
	}
	free(f);
	close(fd);
	return e;
}

int image_resolve(int root, const struct image_name *name, const struct args *args,
		  struct immutable_paths *names, struct image *out)
{
	struct resolver r = {name, names, root, .is_immutable = true};
	cleanup_free struct file *f = NULL;
	struct image im = {.fd = -1};
	bool named; /* the name of the first file always leads to it */
	int e;

	im.fd = open_first(&r, &im.called);
	if (im.fd < 0) {
		e = -im.fd;
		image_done(&im);
		return e;
	}
	f = mem_new(struct file);
	named = r.is_immutable = r.last_fixed = r.is_immutable && path_is_immutable(&r, im.called);
	e = follow(&r, &im, f);
	im.dev = f->st.st_dev;
	im.ino = f->st.st_ino;
	/* A session that can write a file need not put another one in its place. */
	if (e == 0 && im.chain.n > 1 && !named && path_is_immutable(&r, im.chain.v[0]))
		im.flags |= OP_EXEC_LOOSE;
	im.fixed = r.is_immutable;
	im.program_immutable = r.last_fixed;
	if (e == 0 && is_loader(&r, f))
		e = follow_loader(&r, &im, args);
	if (e != 0) {
		image_done(&im);
		return e;
	}
	*out = im;
	return 0;
}

/* The path itself if it is not in the workspace; the caller frees the result. */
static char *canonical(const struct workspace_names *names, const char *path)
{
	char *to = names != NULL ? workspace_canonical(names, path) : NULL;

	return to != NULL ? to : mem_strdup(path);
}

void image_fill_op(struct image *im, const struct args *args, const struct workspace_names *names)
{
	const size_t links = im->chain.n - 1; /* by `#!` */
	const char *const *chain;

	for (size_t i = 0; i < im->chain.n; i++) {
		cleanup_free char *path = canonical(names, im->chain.v[i]);

		strv_add(&im->canonical, path);
	}
	chain = (const char *const *)im->canonical.v;
	im->called_canonical = canonical(names, im->called);
	im->op = (struct op){.class = OP_EXEC,
			     .exec = {.path = chain[links],
				      .called = im->called_canonical,
				      .script = links > 0 ? chain[0] : NULL,
				      .chain = chain,
				      .nchain = links,
				      .own = im->head.n,
				      .flags = im->flags | (args->cut ? OP_EXEC_CUT : 0)}};
	if (im->loads != NULL) {
		mem_replace(&im->loads, canonical(names, im->loads));
		im->op.exec.script = im->loads;
	}
	im->argv = whole_argv(im, args, &im->op.exec.argc);
	im->op.exec.argv = (const char *const *)im->argv;
}
