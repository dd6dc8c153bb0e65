// SPDX-License-Identifier: Apache-2.0
/* Files that are not the session's: of the host, of the server, of other sessions, of the kernel.
 */
#include "attack.h"
#include <dirent.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

static int host_file(void)
{
	const int fd = open(place("HOST_FILE"), O_RDWR | O_CLOEXEC);

	return fd == -1 ? errno : outcome(pwrite(fd, "gone", 4, 0));
}

static int host_by_parents(void)
{
	char path[4200];

	snprintf(path, sizeof(path), "../../../../../../../../../..%s", place("HOST_FILE"));
	return try_open(path, O_RDWR);
}

/* A link that lay in the workspace before the session, and one that is made in it. */
static int host_by_old_link(void)
{
	return try_open(place("LINK_IN_WORKSPACE"), O_RDWR);
}

static int host_by_new_link(void)
{
	char path[] = "/tmp/agentsh-attack-XXXXXX";

	if (mkdtemp(path) == NULL || rmdir(path) < 0 || symlink(place("HOST_FILE"), path) < 0)
		return BROKEN;
	return try_open(path, O_RDWR);
}

/* /proc/self/cwd/../… leads through the kernel's own link. */
static int host_by_magic_link(void)
{
	char path[4200];

	snprintf(path, sizeof(path), "/proc/self/root/../../..%s", place("HOST_FILE"));
	return try_open(path, O_RDWR);
}

static int host_by_root_of_process(void)
{
	char path[4200];

	snprintf(path, sizeof(path), "/proc/%ld/root/", place_number("HOST_PID"));
	return try_open(path, O_PATH | O_DIRECTORY);
}

static int host_by_descriptor_of_process(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/fd/0", place_number("HOST_PID"));
	return try_open(path, O_PATH);
}

static int memory_of_host_process(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/mem", place_number("HOST_PID"));
	return try_open(path, O_RDWR);
}

static int environment_of_host_process(void)
{
	char path[64], c;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/environ", place_number("HOST_PID"));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd == -1 ? errno : outcome(read(fd, &c, 1));
}

static int root_of_init(void)
{
	return try_open("/proc/1/root/", O_PATH | O_DIRECTORY);
}

static int namespace_of_init(void)
{
	return try_open("/proc/1/ns/mnt", O_RDONLY);
}

static int descriptors_of_init(void)
{
	return try_open("/proc/1/fd/", O_RDONLY | O_DIRECTORY);
}

/* Opens a file by its number, without a path. */
static int name_file(void)
{
	struct file_handle *h = calloc(1, sizeof(*h) + MAX_HANDLE_SZ);
	int mount_id;

	h->handle_bytes = MAX_HANDLE_SZ;
	return outcome(name_to_handle_at(AT_FDCWD, "/", h, &mount_id, 0));
}

static int open_by_number(void)
{
	struct file_handle *h = calloc(1, sizeof(*h) + MAX_HANDLE_SZ);
	const int mount = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int mount_id;

	h->handle_bytes = MAX_HANDLE_SZ;
	name_to_handle_at(AT_FDCWD, "/", h, &mount_id, 0);
	return outcome(open_by_handle_at(mount, h, O_RDONLY));
}

/* Others on the machine do not run it, so that opening it for writing does not fail for that. */
#define SYSTEM_PROGRAM "/usr/bin/tsort"

static int system_program(void)
{
	return try_open(SYSTEM_PROGRAM, O_WRONLY);
}

static int system_directory(void)
{
	const int r = try_open("/usr/bin/agentsh-attack-made", O_WRONLY | O_CREAT | O_EXCL);

	unlink("/usr/bin/agentsh-attack-made");
	return r;
}

static int user_list(void)
{
	return try_open("/etc/passwd", O_WRONLY);
}

static int passwords(void)
{
	return try_open("/etc/shadow", O_RDONLY);
}

static int second_name(void)
{
	const char *at = "agentsh-attack-second-name";
	const int r = outcome(linkat(AT_FDCWD, "/usr/bin/true", AT_FDCWD, at, 0));

	unlink(at);
	return r;
}

static int device_node(void)
{
	const char *at = "agentsh-attack-node";
	const int r = outcome(mknod(at, S_IFBLK | 0600, makedev(7, 0)));

	unlink(at);
	return r;
}

static int give_away(void)
{
	return outcome(chown(place("OWN_FILE"), 0, 12345));
}

static int own_capability(void)
{
	const uint32_t caps[5] = {0x02000001, 1U << 13}; /* revision 2, effective; CAP_NET_RAW */

	return outcome(setxattr(place("OWN_FILE"), "security.capability", caps, sizeof(caps), 0));
}

static int unchangeable(void)
{
	const int fd = open(place("OWN_FILE"), O_RDONLY | O_CLOEXEC);
	int flags, r;

	/* the file server of a session has no such flags */
	if (fd != -1 && ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 && errno == ENOTTY)
		return ENOTTY;
	if (fd == -1 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return BROKEN;
	flags |= FS_IMMUTABLE_FL;
	r = outcome(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	flags &= ~FS_IMMUTABLE_FL;
	ioctl(fd, FS_IOC_SETFLAGS, &flags);
	return r;
}

/* A file without a name: nothing is left where it succeeds. */
static int set_id(int at_birth, mode_t later)
{
	const int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0700 | at_birth);
	struct stat st;

	if (fd == -1)
		return at_birth != 0 ? errno : BROKEN;
	if (later != 0 && fchmod(fd, 0755 | later) < 0)
		return errno;
	if (fstat(fd, &st) < 0)
		return BROKEN;
	return (st.st_mode & (S_ISUID | S_ISGID)) != 0 ? 0 : EPERM;
}

static int set_uid_bit(void)
{
	return set_id(0, S_ISUID);
}

static int set_gid_bit(void)
{
	return set_id(0, S_ISGID);
}

static int born_set_uid(void)
{
	return set_id(S_ISUID, 0);
}

static int device_in_workspace(void)
{
	return try_open(place("NODE_IN_WORKSPACE"), O_RDWR);
}

/* Entries of /proc/self/fd besides the three and the directory itself. */
static int leaked_descriptor(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int found = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.' && atoi(e->d_name) > 2 && atoi(e->d_name) != dirfd(d))
			found++;
	return d == NULL ? BROKEN : found > 0 ? 0 : EBADF;
}

#define OPENS(name, key, flags)                       \
	static int name(void)                         \
	{                                             \
		return try_open(place(key), (flags)); \
	}
OPENS(server_database, "SERVER_DATABASE", O_RDWR)
OPENS(server_config, "SERVER_CONFIG", O_RDONLY)
OPENS(server_keys, "SERVER_KEYS", O_RDONLY)
OPENS(server_events, "SERVER_EVENTS", O_WRONLY | O_APPEND)
OPENS(server_policies, "SERVER_POLICIES", O_RDONLY | O_DIRECTORY)
OPENS(other_output, "OTHER_OUTPUT", O_RDONLY)
OPENS(other_workspace, "OTHER_WORKSPACE", O_RDWR)
OPENS(other_ring, "OTHER_RING", O_RDWR)
OPENS(state_program, "STATE_PROGRAM", O_WRONLY)
OPENS(disk, "DISK", O_RDONLY)
OPENS(kernel_log, "KMSG", O_RDONLY)
OPENS(fuse, "FUSE", O_RDWR)
OPENS(tunnel, "TUN", O_RDWR)
OPENS(virtual_machine, "KVM", O_RDWR)
OPENS(console, "CONSOLE", O_WRONLY | O_NOCTTY)
OPENS(cgroup_files, "CGROUP_PROCS", O_WRONLY)
OPENS(kernel_core, "KCORE", O_RDONLY)
OPENS(system_request, "SYSRQ", O_WRONLY)
OPENS(core_pattern, "CORE_PATTERN", O_WRONLY)
OPENS(proc_hostname, "PROC_HOSTNAME", O_WRONLY)
OPENS(interrupts, "IRQ", O_WRONLY)
OPENS(kernel_keys, "KEYS", O_RDONLY)
OPENS(kernel_settings, "SYSFS", O_WRONLY)

const struct attack file_attacks[] = {
	{"host_file", host_file},
	{"host_by_parents", host_by_parents},
	{"host_by_old_link", host_by_old_link},
	{"host_by_new_link", host_by_new_link},
	{"host_by_magic_link", host_by_magic_link},
	{"proc_root", host_by_root_of_process},
	{"proc_fd", host_by_descriptor_of_process},
	{"proc_mem_of_host", memory_of_host_process},
	{"proc_environ", environment_of_host_process},
	{"init_root", root_of_init},
	{"init_namespace", namespace_of_init},
	{"init_descriptors", descriptors_of_init},
	{"name_to_handle_at", name_file},
	{"open_by_handle_at", open_by_number},
	{"system_program", system_program},
	{"system_directory", system_directory},
	{"etc_passwd", user_list},
	{"etc_shadow", passwords},
	{"hard_link", second_name},
	{"mknod", device_node},
	{"chown", give_away},
	{"file_capability", own_capability},
	{"immutable", unchangeable},
	{"set_uid_bit", set_uid_bit},
	{"set_gid_bit", set_gid_bit},
	{"born_set_uid", born_set_uid},
	{"workspace_device", device_in_workspace},
	{"leaked_descriptor", leaked_descriptor},
	{"server_database", server_database},
	{"server_config", server_config},
	{"server_keys", server_keys},
	{"server_events", server_events},
	{"server_policies", server_policies},
	{"other_output", other_output},
	{"other_workspace", other_workspace},
	{"other_ring", other_ring},
	{"state_program", state_program},
	{"disk", disk},
	{"kmsg", kernel_log},
	{"dev_fuse", fuse},
	{"dev_tun", tunnel},
	{"dev_kvm", virtual_machine},
	{"dev_console", console},
	{"cgroup_procs", cgroup_files},
	{"kcore", kernel_core},
	{"sysrq", system_request},
	{"core_pattern", core_pattern},
	{"proc_hostname", proc_hostname},
	{"proc_irq", interrupts},
	{"proc_keys", kernel_keys},
	{"sysfs", kernel_settings},
	{0},
};
