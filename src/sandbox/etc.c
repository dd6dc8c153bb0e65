// SPDX-License-Identifier: Apache-2.0
/* /etc: only what programs need to run and to agree with the machine. The names in the table are
 * shown as they are on the host; a few files are made here. Accounts, keys, mail, cron and the rest
 * of /etc are not shown; the configuration can list a path that is missing here in
 * filesystem.read_only_passthrough_paths. */
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define NOBODY 65534

/* Names directly in /etc; '*' at the end stands for any rest. Every entry costs every session a
 * mount, so a name that few programs read is not listed. */
static const char *const shown[] = {
	/* the dynamic linker, and alternatives of programs */
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"ld-musl-*",
	"alternatives",
	/* the system, its place and time */
	"os-release",
	"lsb-release",
	"debian_version",
	"redhat-release",
	"alpine-release",
	"localtime",
	"timezone",
	"locale.conf",
	"mtab",
	/* names of the network */
	"resolv.conf",
	"services",
	"protocols",
	/* trust */
	"ca-certificates",
	"crypto-policies",
	/* shells and terminals */
	"profile",
	"profile.d",
	"bash.bashrc",
	"bashrc",
	"zsh",
	"inputrc",
	"terminfo",
	/* languages and tools */
	"gitconfig",
	"gitattributes",
	"npmrc",
	"pip.conf",
	"python3*",
	"java*",
	"maven",
	"perl",
	"R",
	"texmf",
	"xml",
	"fonts",
	"mime.types",
	"manpath.config",
	"vim",
	"wgetrc",
};

/* Listed one by one, because other files of their directories are secret. */
static const char *const shown_below[] = {
	"ssl/certs",	    "ssl/cert.pem",	   "ssl/openssl.cnf", "pki/tls/certs",
	"pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust",    "ssh/ssh_config",
	"ssh/ssh_config.d", "ssh/ssh_known_hosts",
};

static bool is_shown(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		const size_t n = strlen(shown[i]);

		if (shown[i][n - 1] == '*' ? strncmp(name, shown[i], n - 1) == 0
					   : strcmp(name, shown[i]) == 0)
			return true;
	}
	return false;
}

/* A link in /etc to one of these directories leads to the same file inside. */
static const char *const same_inside[] = {"/usr/", "../usr/", "/etc/alternatives/", "/proc/",
					  "../proc/"};

/* Keeps a link if its target is the same inside; else (resolv.conf in /run) binds the target in the
 * link's place. */
static int show(int host, int etc, const struct dirent *e, struct err *err)
{
	struct mnt_bind bind = {host, e->d_name, etc, e->d_name, 0};
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n = -1;
	bool keep;

	if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN)
		n = readlinkat(host, e->d_name, target, sizeof(target) - 1);
	if (n < 0)
		return mnt_show(&bind, err);
	target[n] = '\0';
	keep = strchr(target, '/') == NULL;
	for (size_t i = 0; !keep && i < ARRAY_LEN(same_inside); i++)
		keep = strncmp(target, same_inside[i], strlen(same_inside[i])) == 0;
	if (keep && symlinkat(target, etc, e->d_name) < 0)
		return err_errno(err, E_ENFORCEMENT, e->d_name, "symlinkat(/etc/%s)", e->d_name);
	if (keep)
		return 0;
	/* libc resolves the link: the kernel would take a `..` that ends at "/" into the new root.
	 */
	snprintf(path, sizeof(path), "/etc/%s", e->d_name);
	bind.from_dir = AT_FDCWD;
	bind.from = target;
	return realpath(path, target) != NULL ? mnt_show(&bind, err) : 0;
}

static int show_host(int etc, struct err *err)
{
	DIR *dir = opendir("/etc");
	const struct dirent *e;
	int r = 0;

	if (dir == NULL)
		return err_errno(err, E_ENFORCEMENT, "/etc", "opendir(/etc)");
	while (r == 0 && (e = readdir(dir)) != NULL)
		if (is_shown(e->d_name))
			r = show(dirfd(dir), etc, e, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(shown_below); i++) {
		const struct mnt_bind bind = {dirfd(dir), shown_below[i], etc, shown_below[i], 0};

		r = mnt_show(&bind, err);
	}
	closedir(dir);
	return r;
}

/* ---- the same for a session that sees the machine's own /etc ---- */

/* Files that agentsh makes for a session with its own /etc; every user may read those of the host.
 */
static const char *const replaced[] = {"passwd", "group", "hosts", "hostname", "nsswitch.conf"};

static void add_path(struct strv *out, const char *name)
{
	cleanup_free char *path = mem_printf("/etc/%s", name);

	strv_add(out, path);
}

void inside_etc_paths(struct strv *out)
{
	DIR *dir = opendir("/etc");
	const struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (is_shown(e->d_name))
			add_path(out, e->d_name);
	if (dir != NULL)
		closedir(dir);
	for (size_t i = 0; i < ARRAY_LEN(shown_below); i++)
		add_path(out, shown_below[i]);
	for (size_t i = 0; i < ARRAY_LEN(replaced); i++)
		add_path(out, replaced[i]);
}

/* ---- files that agentsh makes ---- */

static const char switches[] = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			       "networks: files\nprotocols: files\nservices: files\nrpc: files\n";

/* The accounts: root, the session's user as the session sees it (0 with root_inside), and the user
 * of ids that are not mapped. */
int inside_names(struct inside *in, struct err *err)
{
	cleanup_buf struct buf passwd = {0}, group = {0}, hosts = {0}, name = {0};
	const uint32_t uid = inside_uid(in), gid = inside_gid(in);
	const struct {
		const char *path;
		const struct buf *text;
	} files[] = {
		{"passwd", &passwd}, {"group", &group}, {"hosts", &hosts}, {"hostname", &name}};
	int r = 0;

	buf_addf(&passwd, "root:x:0:0:root:%s:/bin/sh\n", uid == 0 ? "/" INSIDE_HOME : "/");
	buf_addf(&group, "root:x:0:\n");
	if (uid != 0)
		buf_addf(&passwd, INSIDE_USER ":x:%u:%u:session:/" INSIDE_HOME ":/bin/sh\n", uid,
			 gid);
	if (gid != 0)
		buf_addf(&group, INSIDE_USER ":x:%u:\n", gid);
	if (uid != NOBODY)
		buf_addf(&passwd, "nobody:x:%u:%u:nobody:/:/bin/false\n", NOBODY, NOBODY);
	if (gid != NOBODY)
		buf_addf(&group, "nogroup:x:%u:\n", NOBODY);
	buf_addf(&hosts,
		 "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n",
		 in->plan.hostname);
	buf_addf(&name, "%s\n", in->plan.hostname);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
		r = inside_file(in->etc_fd, files[i].path, files[i].text->data, err);
	return r;
}

int inside_etc(struct inside *in, struct err *err)
{
	struct mount_attr shut = {.attr_set = MNT_SHUT};
	struct mount_attr open = {.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV};
	int r;

	in->etc_fd = openat(in->root_fd, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->etc_fd == -1)
		return err_errno(err, E_ENFORCEMENT, "/etc", "openat(/etc)");
	r = show_host(in->etc_fd, err);
	if (r == 0)
		r = inside_file(in->etc_fd, "nsswitch.conf", switches, err);
	/* Shut all mounts at once; then open the root again, which is still being filled. */
	if (r == 0 && (mount_setattr(in->root_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &shut,
				     sizeof(shut)) < 0 ||
		       mount_setattr(in->root_fd, "", AT_EMPTY_PATH, &open, sizeof(open)) < 0))
		r = err_errno(err, E_ENFORCEMENT, "/etc", "mount_setattr(/etc)");
	return r;
}
