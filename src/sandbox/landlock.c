// SPDX-License-Identifier: Apache-2.0
/* What each ABI added: 1 files (Linux 5.13), 2 REFER (5.19; before it no rename or link leaves its
 * directory), 3 TRUNCATE (6.2), 4 TCP ports (6.7; not used, the network namespace is the wall), 5
 * IOCTL_DEV (6.10), 6 scopes (6.12), 7 audit (6.15). */
#include "sandbox/landlock.h"
#include "base/buf.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Debian 12's headers end with ABI 2. */
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_IOCTL_DEV (UINT64_C(1) << 15)
#ifdef LANDLOCK_ACCESS_FS_TRUNCATE
_Static_assert(LANDLOCK_ACCESS_FS_TRUNCATE == FS_TRUNCATE, "linux/landlock.h");
#endif
#ifdef LANDLOCK_ACCESS_FS_IOCTL_DEV
_Static_assert(LANDLOCK_ACCESS_FS_IOCTL_DEV == FS_IOCTL_DEV, "linux/landlock.h");
#endif
#ifdef LANDLOCK_SCOPE_SIGNAL
_Static_assert(LANDLOCK_SCOPE_SIGNAL == (int)LANDLOCK_SIGNALS, "linux/landlock.h");
_Static_assert(LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET == (int)LANDLOCK_ABSTRACT_SOCKETS,
	       "linux/landlock.h");
#endif
/* The kernel's struct as of ABI 6; an older kernel accepts it while the unknown members are 0. */
struct ruleset_attr {
	uint64_t fs, net, scoped;
};
_Static_assert(sizeof(struct ruleset_attr) == 24, "linux/landlock.h");

#define TREE_READ LANDLOCK_ACCESS_FS_READ_DIR
#define TREE_MAKE                                                     \
	(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define TREE_REMOVE (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define TREE_ONLY                                                            \
	(TREE_READ | TREE_MAKE | TREE_REMOVE | LANDLOCK_ACCESS_FS_MAKE_SYM | \
	 LANDLOCK_ACCESS_FS_REFER)

static const struct {
	enum landlock_access access;
	uint64_t rights;
} classes[] = {
	{LANDLOCK_READ, TREE_READ | LANDLOCK_ACCESS_FS_READ_FILE},
	{LANDLOCK_CHANGE, LANDLOCK_ACCESS_FS_WRITE_FILE | FS_IOCTL_DEV},
	{LANDLOCK_EXEC, LANDLOCK_ACCESS_FS_EXECUTE},
	{LANDLOCK_LIST, TREE_READ},
	{LANDLOCK_TRUNCATE, FS_TRUNCATE},
	{LANDLOCK_MAKE, TREE_MAKE},
	{LANDLOCK_REMOVE, TREE_REMOVE},
	{LANDLOCK_SYMLINK, LANDLOCK_ACCESS_FS_MAKE_SYM},
	{LANDLOCK_MOVE, LANDLOCK_ACCESS_FS_REFER},
};

static const struct {
	int abi;
	uint64_t rights;
	const char *lacking;
} since[] = {
	{2, LANDLOCK_ACCESS_FS_REFER, "moves between directories are all refused"},
	{LANDLOCK_TRUNCATE_ABI, FS_TRUNCATE, "truncation is not refused"},
	{5, FS_IOCTL_DEV, "ioctl of devices is not refused"},
};

static const struct {
	mode_t type;
	const char *name;
} kinds[] = {
	[LANDLOCK_TREE] = {S_IFDIR, "a directory"},
	[LANDLOCK_FILE] = {S_IFREG, "a regular file"},
	[LANDLOCK_DEVICE] = {S_IFCHR, "a device"},
};

int landlock_abi(void)
{
	const long r =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return r < 0 ? 0 : (int)r;
}

static uint64_t rights_of(unsigned access, int abi)
{
	uint64_t rights = 0;

	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if ((access & classes[i].access) != 0)
			rights |= classes[i].rights;
	for (size_t i = 0; i < ARRAY_LEN(since); i++)
		if (abi < since[i].abi)
			rights &= ~since[i].rights;
	return rights;
}

static int failed(struct err *err, const struct landlock_rule *rule, const char *call)
{
	return err_errno(err, E_ENFORCEMENT, wall_name(WALL_landlock), "%s(%s)", call,
			 rule->path != NULL ? rule->path : "a directory");
}

static int add_rule(int ruleset, const struct landlock_rule *rule, int abi, struct err *err)
{
	struct landlock_path_beneath_attr attr = {.allowed_access = rights_of(rule->access, abi)};
	cleanup_fd int opened = -1;
	struct stat st;

	attr.parent_fd = rule->dir;
	if (rule->path != NULL) {
		attr.parent_fd = opened = openat(rule->dir, rule->path, O_PATH | O_CLOEXEC);
		/* A path that the session's user cannot reach needs no rule. */
		if (opened == -1 && rule->may_lack &&
		    (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
			return 0;
		if (opened == -1)
			return failed(err, rule, "open");
	}
	if (fstat(attr.parent_fd, &st) < 0)
		return failed(err, rule, "fstat");
	if ((st.st_mode & S_IFMT) != kinds[rule->kind].type)
		return err_set(err, E_ENFORCEMENT, wall_name(WALL_landlock), "%s is not %s",
			       rule->path != NULL ? rule->path : "a rule's descriptor",
			       kinds[rule->kind].name);
	if (rule->kind != LANDLOCK_TREE)
		attr.allowed_access &= ~(uint64_t)TREE_ONLY;
	/* a rule that gives nothing is the default */
	if (attr.allowed_access != 0 &&
	    syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return failed(err, rule, "landlock_add_rule");
	return 0;
}

int landlock_prepare(const struct landlock_ask *ask, int *ruleset, struct wall_report *walls,
		     struct err *err)
{
	const int running = landlock_abi();
	const int abi = ask->abi > 0 && ask->abi < running ? ask->abi : running;
	const struct ruleset_attr attr = {
		.fs = rights_of(LANDLOCK_ALL, abi),
		.scoped = abi >= LANDLOCK_SCOPES_ABI ? ask->scopes : 0,
	};
	cleanup_fd int made = -1;
	cleanup_buf struct buf lacking = {0};
	int r = 0, to = *ruleset;

	if (running == 0)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_landlock),
				 "the kernel has no Landlock (5.13, and 'landlock' in lsm=)");
	if (to == -1)
		to = made = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (to == -1)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_landlock),
				 "landlock_create_ruleset");
	for (size_t i = 0; r == 0 && i < ask->nrules; i++)
		r = add_rule(to, &ask->rules[i], abi, err);
	if (r < 0 || made == -1) /* what it lacks was written when it was made */
		return r;
	for (size_t i = 0; i < ARRAY_LEN(since); i++)
		if (abi < since[i].abi)
			buf_addf(&lacking, "; %s", since[i].lacking);
	if (abi < LANDLOCK_SCOPES_ABI && ask->scopes != 0)
		buf_adds(&lacking, "; no scopes");
	wall_set(walls, WALL_landlock, lacking.len == 0 ? WALL_UP : WALL_PARTIAL, "ABI %d%s", abi,
		 lacking.len > 0 ? lacking.data : "");
	*ruleset = take_fd(made);
	return 0;
}

int landlock_enter(int ruleset)
{
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? errno : 0;
}

int landlock_enter_scopes(unsigned scopes)
{
	const struct ruleset_attr attr = {.scoped = scopes};
	cleanup_fd int made = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	return made == -1 ? errno : landlock_enter(made);
}
