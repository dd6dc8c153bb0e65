# SPDX-License-Identifier: Apache-2.0
"""Every attack: what it tries, what stops it, how it is refused, and where it succeeds.

An attack counts if its control is shown: the same act succeeds where its wall is not. Controls:
  user     on the host, as the session's user
  owner    on the host, as the server's user
  root     as root in namespaces of its own that are thrown away
  host     as root on the host
  policy   in a session whose policy does not refuse it
  test     in the attack's own test
  None     this kernel cannot show one: the attack is tried, and does not count
docs/threat-model.md has these rows as a table; a test compares them."""

from dataclasses import dataclass
from pathlib import Path

# Walls that a session of the tests must report as up, by the server's user. The tests fail if one is not, and if another
# one of those that stop an attack is: then it belongs here. Attacks whose wall is not here are left out and counted.
COMMON = {
    "mount_namespace",
    "pid_namespace",
    "net_namespace",
    "ipc_namespace",
    "uts_namespace",
    "capabilities",
    "no_new_privs",
    "seccomp",
    "landlock",
    "exec_policy",
    "env_filter",
}
EXPECTED_UP = {"root": COMMON | {"memory_limit", "pids_limit"}, "user": COMMON}
# Walls that no session reports, because no session is without them.
ALWAYS = {"rlimits", "descriptors", "authorization", "capture", "tree"}

THREATS = {
    "escape": "An agent leaves the sandbox",
    "files": "An agent reads or changes files that are not its own",
    "symlinks": "An agent leaves by symbolic links",
    "exfiltration": "An agent sends data out, or reaches services of the machine",
    "channels": "An agent uses channels that are not watched",
    "exhaustion": "An agent takes the machine's resources",
    "kernel": "An agent attacks the kernel",
    "machine": "An agent changes the machine",
    "privilege": "An agent gets more rights than its user has",
    "processes": "An agent reads or changes other processes",
    "gateway": "An agent attacks agentsh: its files, its processes, its records",
    "rules": "An agent runs a program that the policy refuses",
    "others": "An agent or user reaches into another's session",
}


@dataclass(frozen=True)
class Attack:
    id: str  # a function of programs/, a script of scripts/, or a test
    target: str  # the system call or the object
    title: str
    threat: str
    wall: str  # the wall that stops it: named in the session's report
    refusal: str  # what the attacker sees: errno, signal or "exit N"; alternatives with |
    control: str | None
    also: tuple = ()  # walls behind it
    test: str = ""  # a test of its own instead of a batch

    @property
    def counts(self):
        return self.control is not None

    @property
    def policy(self):
        """The policy of the session that is attacked."""
        return "attack" if self.wall == "exec_policy" else "observe"


A = Attack
CAP = "capabilities"
SEC = ("seccomp",)

ATTACKS = [
    # --- namespaces and mounts ---
    A("mount", "mount", "mounts a file system", "escape", CAP, "EPERM", "root", SEC),
    A("remount_writable", "mount MS_REMOUNT", "makes /usr writable by a remount", "escape", CAP, "EPERM", "root", SEC),
    A("umount", "umount2", "takes a mount away to see what it covers", "escape", CAP, "EPERM", "root", SEC),
    A("pivot_root", "pivot_root", "takes another root", "escape", CAP, "EPERM", "root", SEC),
    A("chroot", "chroot", "takes another root, the first half of the old escape", "escape", CAP, "EPERM", "root", SEC),
    A("open_tree", "open_tree", "clones a tree of mounts", "escape", CAP, "EPERM", "root", SEC),
    A("open_tree_attr", "open_tree_attr", "clones a tree and makes it writable", "escape", CAP, "EPERM", "root", SEC),
    A("move_mount", "move_mount", "places a tree", "escape", CAP, "EPERM", "root", SEC),
    A("fsopen", "fsopen", "opens a new file system", "escape", CAP, "EPERM", "root", SEC),
    A("fsconfig", "fsconfig", "makes a new file system's superblock", "escape", "seccomp", "EPERM", "root"),
    A("fsmount", "fsmount", "mounts a new file system", "escape", CAP, "EPERM", "root", SEC),
    A("fspick", "fspick", "takes a mounted file system to change it", "escape", CAP, "EPERM", "root", SEC),
    A("mount_setattr", "mount_setattr", "makes /usr writable by the new call", "escape", CAP, "EPERM", "root", SEC),
    A("unshare_user", "unshare CLONE_NEWUSER", "becomes root in a user namespace", "escape", "seccomp", "EPERM", "user"),
    A("clone_user", "clone CLONE_NEWUSER", "the same with clone", "escape", "seccomp", "EPERM", "user"),
    A("clone3_user", "clone3 CLONE_NEWUSER", "the same with clone3", "escape", "seccomp", "ENOSYS", "user"),
    A("unshare_mount", "unshare CLONE_NEWNS", "takes mounts of its own", "escape", CAP, "EPERM", "root", SEC),
    A("unshare_time", "unshare CLONE_NEWTIME", "takes clocks of its own", "escape", CAP, "EPERM", "root", SEC),
    A("setns", "setns", "enters a namespace by an inherited descriptor", "escape", CAP, "EPERM", "root", SEC),
    A("setns_pidfd", "setns on a pidfd", "enters a process's namespaces", "escape", CAP, "EPERM", "root", SEC),
    A("release_agent", "cgroup v1 release_agent", "has the kernel run a program on the host", "escape", CAP, "EPERM",
      "root", SEC),
    A("cgroup_procs", "cgroup.procs", "leaves its cgroup", "escape", "mount_namespace", "ENOENT", "host"),
    A("mknod", "mknod", "makes a node of a disk", "escape", CAP, "EPERM", "root"),
    # --- files ---
    A("host_file", "a file of the host", "writes to a file that everyone may write to", "files", "mount_namespace",
      "ENOENT", "user"),
    A("host_by_parents", "..", "climbs to the host by parent directories", "files", "mount_namespace", "ENOENT", "user"),
    A("host_by_old_link", "a link in the workspace", "follows a link that lay in the workspace", "symlinks",
      "mount_namespace", "ENOENT", "user"),
    A("host_by_new_link", "symlink", "makes a link to the host and follows it", "symlinks", "mount_namespace", "ENOENT",
      "user"),
    A("host_by_magic_link", "/proc/self/root", "climbs by the kernel's own link", "symlinks", "mount_namespace",
      "ENOENT", "user"),
    A("name_to_handle_at", "name_to_handle_at", "asks for a file's number", "files", "seccomp", "EPERM", "user"),
    A("open_by_handle_at", "open_by_handle_at", "opens a file by its number, past every directory", "files", CAP,
      "EPERM", "root", SEC),
    A("system_program", "/usr/bin/tsort", "overwrites a program of the system", "files", "mount_namespace",
      "EROFS|EACCES", "root"),
    A("system_directory", "/usr/bin", "adds a program to the system", "files", "mount_namespace", "EROFS|EACCES", "root"),
    A("etc_passwd", "/etc/passwd", "changes the list of users", "files", "mount_namespace", "EROFS|EACCES", "root"),
    A("etc_shadow", "/etc/shadow", "reads the passwords", "files", "mount_namespace", "ENOENT", "root"),
    A("hard_link", "linkat", "gives a program of the system a second name", "files", "mount_namespace", "EXDEV", "root"),
    A("chown", "chown", "gives a file away", "privilege", CAP, "EPERM|EINVAL", "root"),
    A("file_capability", "setxattr security.capability", "gives a program of its own a capability", "privilege", CAP,
      "EPERM", "root"),
    A("immutable", "FS_IOC_SETFLAGS", "makes a file that its owner cannot remove", "files", CAP, "EPERM|ENOTTY", "root"),
    A("set_uid_bit", "chmod u+s", "leaves a program that runs as the workspace's owner", "privilege", "seccomp", "EPERM",
      "user"),
    A("set_gid_bit", "chmod g+s", "leaves a program that runs as the owner's group", "privilege", "seccomp", "EPERM",
      "user"),
    A("born_set_uid", "open with a set-user-ID mode", "makes a file that has the bit from the beginning", "privilege",
      "seccomp", "EPERM", "user"),
    A("workspace_device", "a device in the workspace", "opens a device by a node in the workspace", "escape",
      "mount_namespace", "EACCES", "user"),
    A("disk", "a disk of the machine", "reads the disk below all file systems", "files", "mount_namespace", "ENOENT",
      "host"),
    A("kmsg", "/dev/kmsg", "reads and writes the kernel's log", "machine", "mount_namespace", "ENOENT", "host"),
    A("dev_fuse", "/dev/fuse", "serves a file system to the kernel", "kernel", "mount_namespace", "ENOENT", "host"),
    A("dev_tun", "/dev/net/tun", "makes a network interface", "channels", "mount_namespace", "ENOENT", "host"),
    A("dev_kvm", "/dev/kvm", "runs a virtual machine", "kernel", "mount_namespace", "ENOENT", "host"),
    A("dev_console", "/dev/console", "writes to the machine's console", "machine", "mount_namespace", "ENOENT", "host"),
    A("core_pattern", "/proc/sys/kernel/core_pattern", "has the kernel run a program at a crash", "escape",
      "mount_namespace", "EROFS|EACCES", "host"),
    A("proc_hostname", "/proc/sys/kernel/hostname", "changes the name by /proc", "machine", "mount_namespace",
      "EROFS|EACCES", "root"),
    A("proc_irq", "/proc/irq", "moves interrupts", "machine", "mount_namespace", "EROFS|EACCES", "host"),
    A("proc_keys", "/proc/keys", "lists keys of the machine", "files", "mount_namespace", "EACCES", "user"),
    A("sysfs", "/sys", "changes the kernel's settings by /sys", "machine", "mount_namespace", "ENOENT", "host"),
    A("kcore", "/proc/kcore", "reads the kernel's memory", "kernel", "mount_namespace", "EACCES|ENOENT", None),
    A("sysrq", "/proc/sysrq-trigger", "restarts the machine by /proc", "machine", "mount_namespace", "EACCES|ENOENT",
      None),
    # --- other processes ---
    A("proc_root", "/proc/PID/root", "walks through a host process's root", "escape", "pid_namespace", "ENOENT", "user"),
    A("proc_fd", "/proc/PID/fd", "opens what a host process has open", "processes", "pid_namespace", "ENOENT", "user"),
    A("proc_mem_of_host", "/proc/PID/mem of the host", "writes a host process's memory", "processes", "pid_namespace",
      "ENOENT", "user"),
    A("proc_environ", "/proc/PID/environ", "reads a host process's secrets", "processes", "pid_namespace", "ENOENT",
      "user"),
    A("init_root", "/proc/1/root", "walks through init's root", "gateway", "pid_namespace", "ENOENT", "root"),
    A("init_namespace", "/proc/1/ns", "takes init's namespaces", "gateway", "pid_namespace", "ENOENT", "root"),
    A("init_descriptors", "/proc/1/fd", "opens init's descriptors", "gateway", "pid_namespace", "ENOENT", "root"),
    A("pidfd_open", "pidfd_open", "takes hold of a host process", "processes", "pid_namespace", "ESRCH", "user"),
    A("kill_host", "kill", "signals a host process", "processes", "pid_namespace", "ESRCH", "user"),
    A("kill_host_group", "kill of a group", "signals a process group of the host", "processes", "pid_namespace", "ESRCH",
      "user"),
    A("prlimit", "prlimit", "reads and sets a host process's limits", "processes", "pid_namespace", "ESRCH", "user"),
    A("setpriority_host", "setpriority", "slows a host process down", "exhaustion", "pid_namespace", "ESRCH", "user"),
    A("kill_warden", "a signal to the warden", "ends the process that guards it", "gateway", "pid_namespace", "ESRCH",
      "user"),
    A("ptrace", "ptrace PTRACE_SEIZE", "traces another process", "processes", "seccomp", "EPERM", "user"),
    A("ptrace_traceme", "ptrace PTRACE_TRACEME", "is traced by its parent", "processes", "seccomp", "EPERM", "user"),
    A("process_vm_readv", "process_vm_readv", "reads another process's memory", "processes", "seccomp", "EPERM", "user"),
    A("process_vm_writev", "process_vm_writev", "writes another process's memory", "processes", "seccomp", "EPERM",
      "user"),
    A("proc_self_mem", "/proc/self/mem", "writes its own read-only memory", "processes", "landlock", "EACCES", "user"),
    A("proc_child_mem", "/proc/PID/mem", "writes a child's memory", "processes", "landlock", "EACCES", "user"),
    A("kcmp", "kcmp", "compares kernel objects of processes", "kernel", "seccomp", "EPERM", "user"),
    A("pidfd_getfd", "pidfd_getfd", "takes a descriptor from another process", "processes", "seccomp", "EPERM", "user"),
    A("msgget", "msgget", "reads a message queue of the host", "channels", "ipc_namespace", "ENOENT", "user"),
    A("shmget", "shmget", "maps shared memory of the host", "channels", "ipc_namespace", "ENOENT", "user"),
    A("semget", "semget", "signals by semaphores of the host", "channels", "ipc_namespace", "ENOENT", "user"),
    A("mq_open", "mq_open", "opens a POSIX queue of the host", "channels", "ipc_namespace", "ENOENT", "user"),
    A("shm_open", "/dev/shm", "opens POSIX memory of the host", "channels", "mount_namespace", "ENOENT", "user"),
    # --- the kernel ---
    A("io_uring_setup", "io_uring_setup", "makes system calls that no filter sees", "kernel", "seccomp", "EPERM", "user"),
    A("io_uring_enter", "io_uring_enter", "submits to a ring", "kernel", "seccomp", "EPERM", "user"),
    A("io_uring_register", "io_uring_register", "registers files with a ring", "kernel", "seccomp", "EPERM", "user"),
    A("userfaultfd", "userfaultfd", "holds the kernel at a page fault", "kernel", "seccomp", "EPERM", "user"),
    A("bpf", "bpf", "loads programs into the kernel", "kernel", CAP, "EPERM", "root", SEC),
    A("exec_check_map", "bpf MAP_UPDATE_ELEM", "changes what the kernel expects of its execs", "rules", "seccomp", "EPERM",
      "test", test="test_pol_4_the_exec_check_is_out_of_reach"),
    A("exec_check_link", "bpf LINK_GET_FD_BY_ID", "opens the link of the kernel's exec check", "rules", "seccomp", "EPERM",
      "test", test="test_pol_4_the_exec_check_is_out_of_reach"),
    A("perf_event_open", "perf_event_open", "measures other processes", "kernel", "seccomp", "EPERM", "user"),
    A("keyctl", "keyctl", "joins a key ring", "kernel", "seccomp", "EPERM", "user"),
    A("add_key", "add_key", "stores a key, shared by all of its user", "channels", "seccomp", "EPERM", "user"),
    A("request_key", "request_key", "has the kernel look for a key", "kernel", "seccomp", "EPERM", "user"),
    A("personality", "personality", "turns off address randomisation", "kernel", "seccomp", "EPERM", "user"),
    A("modify_ldt", "modify_ldt", "changes its segment table", "kernel", "seccomp", "EPERM", "user"),
    A("seccomp_listener", "seccomp NEW_LISTENER", "answers for execs in the warden's place", "rules", "seccomp",
      "EPERM|EBUSY", "user"),
    A("int_0x80", "int 0x80", "makes calls by their 32-bit numbers", "kernel", "seccomp", "SIGSYS", "user"),
    A("x32", "x32", "makes calls by their x32 numbers", "kernel", "seccomp", "SIGSYS", None),
    A("tiocsti", "TIOCSTI", "types into a terminal", "escape", "seccomp", "EPERM", "user"),
    A("tiocsetd", "TIOCSETD", "loads a line discipline", "kernel", "seccomp", "EPERM", "user"),
    A("fanotify", "fanotify_init", "holds other processes' opens", "kernel", CAP, "EPERM", "root"),
    A("syslog", "syslog", "reads the kernel's log", "kernel", CAP, "EPERM", "root", SEC),
    # --- the machine ---
    A("sethostname", "sethostname", "renames the machine", "machine", CAP, "EPERM", "root"),
    A("setdomainname", "setdomainname", "renames its domain", "machine", CAP, "EPERM", "root"),
    A("clock_settime", "clock_settime", "sets the clock", "machine", CAP, "EPERM", "host", SEC),
    A("settimeofday", "settimeofday", "sets the time zone", "machine", CAP, "EPERM", "host", SEC),
    A("adjtimex", "adjtimex", "changes the clock's rate", "machine", CAP, "EPERM", "host"),
    A("swapon", "swapon", "adds swap", "machine", CAP, "EPERM", "host", SEC),
    A("swapoff", "swapoff", "removes swap", "machine", CAP, "EPERM", "host", SEC),
    A("acct", "acct", "turns off process accounting", "machine", CAP, "EPERM", "host", SEC),
    A("quotactl", "quotactl", "uses disk quotas", "machine", "seccomp", "EPERM", "user"),
    A("quotactl_fd", "quotactl_fd", "uses disk quotas by descriptor", "machine", "seccomp", "EPERM", "user"),
    A("reboot", "reboot", "restarts the machine", "machine", CAP, "EPERM", "host", SEC),
    A("vhangup", "vhangup", "hangs up a terminal", "machine", CAP, "EPERM", "root"),
    A("init_module", "init_module", "loads a module", "kernel", "seccomp", "EPERM", None, (CAP,)),
    A("finit_module", "finit_module", "loads a module from a file", "kernel", "seccomp", "EPERM", None, (CAP,)),
    A("delete_module", "delete_module", "removes a module", "kernel", "seccomp", "EPERM", None, (CAP,)),
    A("kexec_load", "kexec_load", "loads another kernel", "machine", "seccomp", "EPERM", None, (CAP,)),
    A("kexec_file_load", "kexec_file_load", "loads another kernel from a file", "machine", "seccomp", "EPERM", None,
      (CAP,)),
    A("ioperm", "ioperm", "reaches a port of the hardware", "kernel", "seccomp", "EPERM", None, (CAP,)),
    A("iopl", "iopl", "reaches all ports", "kernel", "seccomp", "EPERM", None, (CAP,)),
    # --- sockets ---
    A("host_path_socket", "a socket in the file system", "connects to a service of the host", "exfiltration",
      "mount_namespace", "ENOENT", "user"),
    A("host_abstract_socket", "an abstract socket", "connects to a service without a path", "exfiltration",
      "net_namespace", "ECONNREFUSED", "user", ("landlock",)),
    A("host_tcp", "127.0.0.1", "connects to a service on the host's loopback", "exfiltration", "net_namespace",
      "ECONNREFUSED", "user"),
    A("vsock", "AF_VSOCK", "speaks with the machine's hypervisor", "exfiltration", "seccomp", "EPERM", "user"),
    A("packet", "AF_PACKET", "reads and writes the wire", "exfiltration", CAP, "EPERM", "root", SEC),
    A("old_packet", "SOCK_PACKET", "the old name of a packet socket", "exfiltration", CAP, "EPERM", "root", SEC),
    A("raw", "SOCK_RAW", "makes its own packets", "exfiltration", CAP, "EPERM", "root"),
    A("raw6", "SOCK_RAW v6", "makes its own packets of version 6", "exfiltration", CAP, "EPERM", "root"),
    A("netlink_netfilter", "NETLINK_NETFILTER", "changes the packet filter", "kernel", "seccomp", "EPERM", "user"),
    A("netlink_uevent", "NETLINK_KOBJECT_UEVENT", "is notified of the machine's devices", "channels", "seccomp", "EPERM", "user"),
    A("netlink_diag", "NETLINK_SOCK_DIAG", "lists sockets", "kernel", "seccomp", "EPERM", "user"),
    A("netlink_generic", "NETLINK_GENERIC", "reaches many drivers", "kernel", "seccomp", "EPERM", "user"),
    A("xdp", "AF_XDP", "reads packets before the kernel does", "exfiltration", CAP, "EPERM", "root", SEC),
    A("alg", "AF_ALG", "uses the kernel's ciphers", "kernel", "seccomp", "EPERM", None),
    A("key_socket", "AF_KEY", "changes the kernel's keys of connections", "kernel", "seccomp", "EPERM", None),
    A("interface", "SIOCSIFFLAGS", "turns interfaces on and off", "exfiltration", CAP, "EPERM", "root"),
    A("route", "RTM_NEWADDR", "takes an address", "exfiltration", CAP, "EPERM", "root"),
    # --- agentsh itself ---
    A("server_socket", "the server's socket", "speaks to the server as its owner", "gateway", "mount_namespace",
      "ENOENT", "owner"),
    A("warden_socket", "a warden's socket", "speaks to a warden as the server does", "gateway", "mount_namespace",
      "ENOENT", "owner"),
    A("server_database", "the database", "changes the records", "gateway", "mount_namespace", "ENOENT", "owner"),
    A("server_events", "events.jsonl", "adds records", "gateway", "mount_namespace", "ENOENT", "owner"),
    A("server_config", "the configuration", "reads the configuration", "gateway", "mount_namespace", "ENOENT", "owner"),
    A("server_keys", "the API keys", "reads the keys", "gateway", "mount_namespace", "ENOENT", "owner"),
    A("server_policies", "the policies", "lists the policies' files", "gateway", "mount_namespace", "ENOENT", "owner"),
    A("state_program", "agentsh-state", "replaces the program that reports a shell's state", "gateway",
      "mount_namespace", "EROFS|EACCES|ENOENT", "host"),
    A("other_ring", "another session's journal", "changes what another session did", "others", "mount_namespace",
      "ENOENT", "owner"),
    A("other_output", "another session's output", "reads what another session wrote", "others", "mount_namespace",
      "ENOENT", "owner"),
    A("other_workspace", "another session's workspace", "changes another session's files", "others", "mount_namespace",
      "ENOENT", "owner"),
    A("leaked_descriptor", "inherited descriptors", "uses what its starter had open", "gateway", "descriptors", "EBADF",
      "user"),
    # --- more rights ---
    A("setresuid", "setresuid", "becomes another user", "privilege", CAP, "EPERM|EINVAL", "root"),
    A("setresgid", "setresgid", "takes another group", "privilege", CAP, "EPERM|EINVAL", "root"),
    A("setgroups", "setgroups", "adds groups", "privilege", CAP, "EPERM", "root"),
    A("capset", "capset", "takes a capability", "privilege", CAP, "EPERM", "root"),
    A("ambient", "PR_CAP_AMBIENT", "hands a capability on", "privilege", CAP, "EPERM", "root"),
    A("securebits", "PR_SET_SECUREBITS", "keeps capabilities over a change of user", "privilege", CAP, "EPERM", "root"),
    A("setuid_program", "a setuid program", "runs a program as its owner", "privilege", "exec_policy", "EACCES", "user",
      ("no_new_privs",)),
    A("setgid_program", "a setgid program", "runs a program as its group", "privilege", "exec_policy", "EACCES", "user",
      ("no_new_privs",)),
    A("capable_program", "a program with file capabilities", "gets a capability from a file", "privilege",
      "no_new_privs", "EPERM", "user"),
    A("sched_fifo", "SCHED_FIFO", "runs before everything else", "exhaustion", CAP, "EPERM", "root"),
    A("nice", "a negative nice value", "runs before others", "exhaustion", CAP, "EACCES|EPERM", "root"),
    A("ioprio", "ioprio_set", "reads and writes before others", "exhaustion", CAP, "EPERM", "root"),
    A("core_dump", "a core dump", "has the kernel write a file, or run a program, on the host", "escape", "rlimits",
      "EFBIG", "user"),
    A("fork_bomb", "fork", "starts processes without end", "exhaustion", "pids_limit", "EAGAIN", "user"),
    A("memory_bomb", "mmap", "takes memory without end", "exhaustion", "memory_limit", "ENOMEM", "user"),
]  # fmt: skip

# --- a program that the policy refuses: command_rules of policy.yaml ---
REFUSED = [
    ("exec_path", "execve", "by its path", "EACCES"),
    ("exec_relative", "execve of a relative path", "by a relative path with detours", "EACCES"),
    ("exec_proc_root", "/proc/self/root", "through /proc/self/root", "EACCES|ENOENT", "user"),
    ("exec_fd", "execveat AT_EMPTY_PATH", "by a descriptor", "EACCES"),
    ("exec_dirfd", "execveat of a directory", "below an open directory", "EACCES"),
    ("exec_proc_fd", "/proc/self/fd", "by a descriptor's path", "EACCES"),
    ("exec_link", "a symbolic link", "by a link with another name", "EACCES"),
    ("exec_memfd", "memfd_create", "as a copy that has no file", "EACCES"),
    ("exec_deleted", "a deleted file", "as a copy whose name is gone", "EACCES"),
    ("exec_loader", "ld.so", "as an argument of the loader", "EACCES", "user"),
    ("exec_interpreter", "#!", "as the interpreter of a script", "EACCES"),
    ("exec_chain", "#! of a script", "as the interpreter of an interpreter", "EACCES"),
    ("exec_env_S", "env -S", "by the line of a script's interpreter", "EACCES"),
    ("exec_spawn", "posix_spawn", "by posix_spawn", "EACCES"),
    ("exec_vfork", "vfork", "from a vfork", "EACCES"),
    ("exec_thread", "execve in a thread", "from another thread", "EACCES"),
    ("exec_long_line", "a long line of arguments", "with more arguments than are kept", "EACCES"),
    ("exec_sh", "sh -c", "from a shell in a shell", "exit 126"),
    ("exec_env", "env", "by env", "exit 126"),
    ("exec_xargs", "xargs", "by xargs", "exit 126"),
    ("exec_find", "find -exec", "by find", "exit 0"),
    ("exec_make", "make", "by make", "exit 2"),
    ("exec_python", "python", "by Python's subprocess", "exit 1"),
    ("exec_perl", "perl", "by Perl's exec", "exit 13"),
    ("exec_node", "node", "by node's child_process", "exit 1"),
    ("exec_awk", "awk", "by awk's system()", "exit 126"),
    ("exec_busybox", "busybox", "as an applet of busybox", "exit 126"),
    ("exec_busybox_twice", "busybox busybox", "as an applet of busybox as an applet of busybox", "exit 126"),
    ("exec_busybox_path", "busybox PATH", "as an applet of busybox, named by a path", "exit 126"),
    ("exec_loader_option", "ld.so --argv0", "as an argument of the loader behind its options", "exit 126", "user"),
    ("exec_loader_script", "#! of ld.so", "by a script whose interpreter is the loader", "EACCES", "user"),
    ("exec_page_end", "a path at the end of a page", "by a path behind which there is no memory", "EACCES"),
    ("exec_timeout", "timeout", "by a program that starts others", "exit 126"),
    ("exec_git", "git", "by an alias of git", "exit 126|exit 128"),
    ("exec_tar", "tar", "by an action of tar", "exit 0"),
    ("exec_argv0", "argv[0]", "with another name in argv[0]", "exit 126"),
]
ATTACKS += [
    A(id, target, f"runs a refused program {how}", "rules", "exec_policy", refusal, *(control or ["policy"]))
    for id, target, how, refusal, *control in REFUSED
]

# --- attacks with a test of their own ---
ATTACKS += [
    A("race_thread", "a path that a thread changes", "changes the path while it is decided", "rules", "exec_policy",
      "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_clone_vm", "a path that a process with the same memory changes", "the same by clone with CLONE_VM", "rules",
      "exec_policy", "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_shared", "a path in shared memory", "the same by a shared mapping", "rules", "exec_policy",
      "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_argument", "an argument that a thread changes", "changes an argument while it is decided", "rules",
      "exec_policy", "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_mapped_file", "a path in a file's private mapping", "changes the file of a private mapping", "rules",
      "exec_policy", "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_link", "a link that changes", "changes where a link leads", "rules", "exec_policy", "EACCES|SIGKILL", "policy",
      test="test_pol_4_race"),
    A("race_directory", "directories that change places", "changes a directory of the path", "rules", "exec_policy",
      "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_script", "a script that is written to", "changes a script's first line", "rules", "exec_policy",
      "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_interpreter", "an interpreter's link that changes", "changes where a script's interpreter leads", "rules",
      "exec_policy", "EACCES|SIGKILL", "policy", test="test_pol_4_race"),
    A("race_given_back", "a path in a page after MADV_FREE", "has the kernel cut the path, when memory is short", "rules",
      "exec_policy", "EACCES|SIGKILL", "policy", test="test_pol_4_dropped_pages"),
    A("first_link", "a link that the command of a request is", "changes where the command's link leads, from another command",
      "rules", "exec_policy", "403", "policy", test="test_pol_4_first_exec_race"),
    A("first_directory", "directories that change places around the command", "changes a directory of the command's path",
      "rules", "exec_policy", "403", "policy", test="test_pol_4_first_exec_race"),
    A("first_script", "a command that is a script and is written to", "changes the first line of the command's script", "rules",
      "exec_policy", "403", "policy", test="test_pol_4_first_exec_race"),
    A("first_interpreter", "the link of a command's interpreter", "changes where the interpreter of the command's script leads",
      "rules", "exec_policy", "403", "policy", test="test_pol_4_first_exec_race"),
    A("first_exec", "the command of a request", "asks for a refused program itself", "rules", "exec_policy", "403",
      "policy", test="test_pol_4_first_exec"),
    A("ld_preload", "LD_PRELOAD", "puts a library into later commands", "gateway", "env_filter", "not kept", "test",
      test="test_sbx_6_variables"),
    A("bash_env", "BASH_ENV", "runs a file in later shells", "gateway", "env_filter", "not kept", "test",
      test="test_sbx_6_variables"),
    A("bash_func", "BASH_FUNC_", "replaces a command of later shells by a function", "gateway", "env_filter", "not kept",
      "test", test="test_sbx_6_variables"),
    A("forged_state", "state.sock", "reports a shell's state that is not so", "gateway", "capture", "ignored", "test",
      test="test_sbx_6_forged_state"),
    A("descriptor_passing", "SCM_RIGHTS", "hands descriptors out to the warden", "gateway", "capture", "closed", "test",
      test="test_sbx_6_descriptor_passing"),
    A("kill_all", "kill(-1)", "ends everything that it may signal", "gateway", "pid_namespace", "only its session ends",
      "test", test="test_sbx_6_kill_all"),
    A("daemon", "setsid and a second fork", "leaves a process behind its command", "exhaustion", "tree", "ended", "test",
      test="test_sbx_6_daemon"),
    A("in_flight", "SCM_RIGHTS without end", "keeps its user's other sessions from running commands", "exhaustion",
      "rlimits", "only its own are refused", "test", test="test_sbx_6_in_flight"),
    A("linked_workspace", "a workspace that is a link", "asks for a workspace that is another's", "symlinks",
      "authorization", "403", "test", test="test_sbx_6_linked_workspace"),
    A("server_as_workspace", "a workspace that is the server's", "asks for the server's own directory to work in",
      "gateway", "authorization", "403", "test", test="test_sbx_6_server_as_workspace"),
    A("other_session", "another user's session by the API", "asks the server for another's session", "others",
      "authorization", "404", "test", test="test_sbx_6_other_session"),
]  # fmt: skip

# What the machine must have for an attack: without it the attack is left out there, and does not count.
NEEDS = {
    "dev_fuse": "/dev/fuse",
    "dev_tun": "/dev/net/tun",
    "dev_kvm": "/dev/kvm",
    "dev_console": "/dev/console",
    "kmsg": "/dev/kmsg",
    "sysfs": "/sys/kernel/mm/transparent_hugepage/enabled",
    "proc_irq": "/proc/irq/default_smp_affinity",
    "release_agent": "/sys/fs/cgroup/pids/release_agent",
    "cgroup_procs": "/sys/fs/cgroup/pids/cgroup.procs",
    "exec_python": "/usr/bin/python3",
    "in_flight": "/usr/bin/python3",
    "exec_busybox": "/usr/bin/busybox",
    "exec_busybox_twice": "/usr/bin/busybox",
    "exec_busybox_path": "/usr/bin/busybox",
    **{f"exec_{name}": f"/usr/bin/{name}" for name in ("node", "perl", "make", "git", "awk", "tar")},
}


def here(attack):
    """Whether the machine has what the attack needs."""
    return Path(NEEDS.get(attack.id, "/")).exists()


CONTROLS = {
    "user": "on the host, as the session's user",
    "owner": "on the host, as the server's user",
    "root": "as root, in namespaces of its own",
    "host": "as root, on the host",
    "policy": "in a session whose policy allows it",
    "test": "in the attack's own test",
    None: "not shown: does not count",
}
BEGIN, END = "<!-- generated: attacks -->\n", "<!-- end: attacks -->\n"


def table():
    """The rows as Markdown, one table for each threat."""
    out = []
    for threat, title in THREATS.items():
        out += [
            f"\n### {title}\n",
            "| Attack | By | Stopped by | The attacker sees | Succeeds |",
            "|---|---|---|---|---|",
        ]
        for a in ATTACKS:
            if a.threat != threat:
                continue
            walls = ", then ".join(f"`{w}`" for w in (a.wall, *a.also))
            sees = " or ".join(a.refusal.split("|"))
            out.append(f"| {a.title} | `{a.target}` | {walls} | {sees} | {CONTROLS[a.control]} |")
    return "\n".join(out) + "\n\n"


def write_table(path):
    """Puts the table into the page, between its marks."""
    text = path.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    counted = sum(a.counts for a in ATTACKS)
    path.write_text(
        f"{head}{BEGIN}{counted} attacks count; {len(ATTACKS) - counted} more are tried.\n{table()}{END}{tail}"
    )


if __name__ == "__main__":
    write_table(Path(__file__).resolve().parent.parent.parent / "docs/threat-model.md")
