// SPDX-License-Identifier: Apache-2.0
/* Describes the machine and lists remedies for walls that it cannot set up. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "cli/cmd_doctor.h"
#include "model/limits.h"
#include "sandbox/toolchains.h"
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#define TEXT_MAX (256 * 1024)
#define ABI_WHOLE 6 /* the first ABI with everything that agentsh uses */

static const struct {
	int abi;
	const char *lacks;
} abis[] = {
	{0, "all of it"},
	{1, "moves between directories (all are refused), truncation, ioctl of devices, scopes"},
	{2, "truncation, ioctl of devices, scopes of signals and abstract sockets"},
	{3, "ioctl of devices, scopes of signals and abstract sockets"},
	{5, "scopes of signals and abstract sockets"},
};

const char *doctor_landlock_lacks(int abi)
{
	const char *lacks = "";

	for (size_t i = 0; abi < ABI_WHOLE && i < ARRAY_LEN(abis) && abis[i].abi <= abi; i++)
		lacks = abis[i].lacks;
	return lacks;
}

/* Reads the first line of a small file; false if it cannot be read. */
static bool first_line(const char *path, char *out, size_t size)
{
	cleanup_buf struct buf text = {0};

	if (fdio_load_path(path, TEXT_MAX, &text, NULL) < 0 || text.len == 0)
		return false;
	snprintf(out, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	return true;
}

static long setting(const char *path)
{
	char text[32];

	return first_line(path, text, sizeof(text)) ? strtol(text, NULL, 10) : -1;
}

static bool file_has(const char *path, const char *word)
{
	cleanup_buf struct buf text = {0};

	return fdio_load_path(path, TEXT_MAX, &text, NULL) == 0 && text.len > 0 &&
	       strstr(text.data, word) != NULL;
}

/* A v1 controller is in use if it has a hierarchy of its own. */
static void read_controllers(struct doctor_host *h)
{
	static const char *const wanted[] = {"memory", "cpu", "pids", "blkio"};
	size_t n = 0;

	if (strcmp(h->cgroup, "v2") == 0) {
		first_line("/sys/fs/cgroup/cgroup.controllers", h->controllers,
			   sizeof(h->controllers));
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		cleanup_free char *path = mem_printf("/sys/fs/cgroup/%s", wanted[i]);
		struct statfs fs;

		if (statfs(path, &fs) == 0 && fs.f_type == CGROUP_SUPER_MAGIC)
			n += (size_t)snprintf(h->controllers + n, sizeof(h->controllers) - n,
					      "%s%s", n > 0 ? " " : "", wanted[i]);
	}
}

static void read_container(struct doctor_host *h)
{
	static const struct {
		const char *file, *word, *name;
	} signs[] = {
		{"/.dockerenv", "", "docker"},
		{"/run/.containerenv", "", "podman"},
		{"/proc/1/environ", "container=lxc", "lxc"},
		{"/proc/1/environ", "container=systemd-nspawn", "systemd-nspawn"},
		{"/proc/1/environ", "KUBERNETES_", "kubernetes"},
		{"/proc/1/cgroup", "/docker/", "docker"},
		{"/proc/1/cgroup", "/kubepods", "kubernetes"},
		{"/proc/version", "microsoft", "wsl"},
	};

	snprintf(h->container, sizeof(h->container), "none");
	for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
		const bool there = signs[i].word[0] == '\0'
					   ? access(signs[i].file, F_OK) == 0
					   : file_has(signs[i].file, signs[i].word);

		if (there) {
			snprintf(h->container, sizeof(h->container), "%s", signs[i].name);
			return;
		}
	}
}

void doctor_toolchains(struct doctor_host *h)
{
	struct toolchains found;
	size_t n = 0;

	toolchains_find(&(struct toolchains_ask){.uid = getuid(), .gid = getgid()}, &found);
	for (size_t i = 0; i < found.names.n && n < sizeof(h->toolchains); i++)
		n += (size_t)snprintf(h->toolchains + n, sizeof(h->toolchains) - n, "%s%s",
				      i > 0 ? ", " : "", found.names.v[i]);
	toolchains_done(&found);
}

void doctor_host_read(struct doctor_host *h)
{
	const long abi =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	const bool v1 = file_has("/proc/self/mounts", " cgroup ");
	const bool both = v1 && file_has("/proc/self/mounts", " cgroup2 ");
	const bool vm = file_has("/proc/cpuinfo", " hypervisor");
	struct utsname u = {0};
	struct statfs fs;
	char vendor[48];

	*h = (struct doctor_host){.root = geteuid() == 0,
				  .fuse = access("/dev/fuse", F_OK) == 0,
				  .fuse_shut = access("/dev/fuse", R_OK | W_OK) != 0,
				  .seccomp = file_has("/proc/self/status", "\nSeccomp:"),
				  .masked_proc = file_has("/proc/self/mounts", " /proc/kcore "),
				  .landlock_abi = abi > 0 ? (int)abi : 0,
				  .cgroup = both ? "hybrid"
					    : v1 ? "v1"
						 : "none"};
	if (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
		h->cgroup = "v2";
	snprintf(h->vm, sizeof(h->vm), "%s", vm ? "yes" : "no");
	if (vm && first_line("/sys/class/dmi/id/sys_vendor", vendor, sizeof(vendor)))
		snprintf(h->vm, sizeof(h->vm), "yes (%s)", vendor);
	uname(&u);
	snprintf(h->kernel, sizeof(h->kernel), "%.15s %.70s", u.sysname, u.release);
	snprintf(h->machine, sizeof(h->machine), "%.31s", u.machine);
	if (!first_line("/sys/kernel/security/lsm", h->lsms, sizeof(h->lsms)))
		snprintf(h->lsms, sizeof(h->lsms), "unknown (securityfs is not mounted)");
	first_line(FUSE_URING, h->fuse_uring, sizeof(h->fuse_uring));
	read_controllers(h);
	read_container(h);

	h->max_user_namespaces = setting("/proc/sys/user/max_user_namespaces");
	h->unprivileged_userns_clone = setting("/proc/sys/kernel/unprivileged_userns_clone");
	h->apparmor_restrict_userns =
		setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
	h->file_max = setting("/proc/sys/fs/file-max");
	h->yama_ptrace_scope = setting("/proc/sys/kernel/yama/ptrace_scope");
}

#define W(name) (UINT64_C(1) << WALL_##name)

void doctor_remedies(const struct doctor_host *h, enum wall w, struct strv *out)
{
	const bool user = !h->root, contained = strcmp(h->container, "none") != 0,
		   contained_root = contained && h->root, v2 = strcmp(h->cgroup, "v2") == 0,
		   apparmor = user && h->apparmor_restrict_userns > 0;
	cleanup_free char *profile = mem_printf(
		"AppArmor restricts user namespaces. Write /etc/apparmor.d/agentsh and load it "
		"with `apparmor_parser -r /etc/apparmor.d/agentsh`:\n"
		"abi <abi/4.0>,\n"
		"include <tunables/global>\n"
		"profile agentsh %s/agentsh{,-*} flags=(unconfined) {\n"
		"  userns,\n"
		"}",
		proc_self_dir());
	const struct {
		uint64_t walls;
		bool applies;
		const char *text;
	} remedies[] = {
		{W(user_namespace), h->max_user_namespaces == 0,
		 "sysctl -w user.max_user_namespaces=10000 (now 0; keep it in /etc/sysctl.d/)"},
		{W(user_namespace), user && h->unprivileged_userns_clone == 0,
		 "sysctl -w kernel.unprivileged_userns_clone=1 (now 0; keep it in /etc/sysctl.d/)"},
		{W(user_namespace), apparmor, profile},
		{W(user_namespace), contained,
		 "start the container with --security-opt seccomp=unconfined (or a profile that "
		 "allows clone, unshare, mount and pivot_root)"},
		{W(user_namespace), user, "or run the server as root: it needs no user namespace"},
		{W(file_rules), !h->fuse,
		 "load the fuse module (modprobe fuse), or pass the device into the container "
		 "(--device /dev/fuse)"},
		{W(file_rules), h->fuse && h->fuse_shut, "chmod 666 /dev/fuse, as udev does"},
		{W(file_rules), true,
		 "or choose a policy without rules about files (--policy observe)"},
		{W(mount_namespace), contained_root,
		 "start the container with --cap-add SYS_ADMIN --security-opt seccomp=unconfined "
		 "--security-opt apparmor=unconfined"},
		{W(mount_namespace), h->root, "or run the server as a normal user"},
		{W(mount_namespace), apparmor,
		 "AppArmor lets user namespaces be made but not mount: see the remedy of "
		 "user_namespace"},
		{W(pid_namespace), contained || h->masked_proc,
		 "start the container with --security-opt systempaths=unconfined (a new /proc "
		 "needs an unmasked one)"},
		{W(capabilities), contained_root,
		 "start the container with --cap-add SETUID --cap-add SETGID --cap-add SETPCAP"},
		{W(seccomp), !h->seccomp, "a kernel with CONFIG_SECCOMP_FILTER"},
		{W(landlock), h->landlock_abi == 0,
		 "Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and `landlock` first in the "
		 "kernel parameter lsm="},
		{W(landlock), h->landlock_abi > 0 && h->landlock_abi < ABI_WHOLE,
		 "a newer kernel (6.12 has all that is used)"},
		{W(exec_policy), h->yama_ptrace_scope == 3,
		 "kernel.yama.ptrace_scope is 3: no exec can be verified; set it to 1 in "
		 "/etc/sysctl.d/ and restart (it cannot be lowered)"},
		{CGROUP_WALLS, strcmp(h->cgroup, "none") == 0,
		 "mount a cgroup v2 file system at /sys/fs/cgroup"},
		{CGROUP_WALLS, user && v2,
		 "have the controllers delegated: `systemctl --user edit` a unit with "
		 "Delegate=yes, or `systemd-run --user --scope -p Delegate=yes agentsh server`"},
		{CGROUP_WALLS, user && !v2,
		 "cgroup v1 is root's: run the server as root, or start the machine with "
		 "systemd.unified_cgroup_hierarchy=1"},
		{CGROUP_WALLS, contained_root,
		 "mount the container's cgroup file system writable (--cgroupns=private with "
		 "cgroup v2)"},
		{W(process_separation), user,
		 "run the server as root: only root can give processes uids of their own"},
		{W(process_separation), contained_root,
		 "start the container with --cap-add NET_ADMIN --cap-add SYS_ADMIN --security-opt "
		 "seccomp=unconfined --security-opt apparmor=unconfined"},
		{W(process_separation), h->root, "or run the server as a normal user"},
	};

	for (size_t i = 0; i < ARRAY_LEN(remedies); i++)
		if ((remedies[i].walls & UINT64_C(1) << w) != 0 && remedies[i].applies)
			strv_add(out, remedies[i].text);
}
