# SPDX-License-Identifier: Apache-2.0
"""Servers in containers that lack something: what runs there and what is refused, as a table.

Each row of CONTAINERS takes one thing away, as container engines do, before the server starts, as root or uid 1000. Each row
also has a probe: the act that must fail there and must succeed outside, so that a row cannot be empty.
Executed as a program, this file is the engine: it makes the container, takes the uid and executes the rest."""

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness  # noqa: E402

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
CLONE_NAMESPACES = 0x7E020000  # all of them
PR_CAPBSET_DROP, PR_SET_SECCOMP = 24, 22
CAP_SYS_ADMIN, CAP_LAST = 21, 40
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD,
# AUDIT_WRITE, SETFCAP: what engines leave to root
ENGINE_CAPS = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
MS_REC, MS_PRIVATE, MS_BIND, MS_MOVE = 0x4000, 1 << 18, 0x1000, 0x2000
NODES = ["null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm"]
# System calls by name: number on x86_64, on aarch64.
CALLS = {
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "clone": (56, 220),
    "clone3": (435, 435),
}


# --- the engine ---
def check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags):
    check(libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, None), f"mount {target}")


def own_mounts():
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def no_user_namespaces():
    """A user namespace with all ids and a network of its own, as engines make it; no further one may be made in it."""
    ready, go = os.pipe()
    me = os.getpid()
    helper = os.fork()
    if helper == 0:  # it stays outside, where the maps may be written
        os.close(go)
        os.read(ready, 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{me}/{name}").write_text("0 0 100000\n")
        os._exit(0)
    check(libc.unshare(CLONE_NEWUSER), "unshare")
    os.close(go)
    if os.waitpid(helper, 0)[1] != 0:
        raise OSError(errno.EPERM, "uid_map")
    check(libc.unshare(CLONE_NEWNET), "unshare")
    own_mounts()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def drop(caps):
    for cap in caps:
        check(libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0), "capbset")


def no_sys_admin():
    drop([CAP_SYS_ADMIN])


def no_fuse():
    own_mounts()
    new = tempfile.mkdtemp()
    mount("dev", new, "tmpfs", 0)
    for name in NODES:
        old, own = Path("/dev", name), Path(new, name)
        if old.is_symlink():
            own.symlink_to(os.readlink(old))
            continue
        if old.is_dir():
            own.mkdir()
        else:
            own.touch()
        mount(str(old), str(own), None, MS_BIND | MS_REC)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        Path(new, name).symlink_to(target)
    mount(new, "/dev", None, MS_MOVE)
    os.rmdir(new)


def refuse(*names, namespaces=False):
    """A seccomp filter: EPERM for these calls; with namespaces also for a clone that makes one (clone3: ENOSYS)."""
    column = 0 if platform.machine() == "x86_64" else 1
    errno_of = 0x00050000
    rows = [struct.pack("<HBBI", 0x20, 0, 0, 0)]  # the call's number
    for name in names:
        rows.append(struct.pack("<HBBI", 0x15, 0, 1, CALLS[name][column]))
        rows.append(struct.pack("<HBBI", 0x06, 0, 0, errno_of | errno.EPERM))
    if namespaces:
        rows.append(struct.pack("<HBBI", 0x15, 0, 1, CALLS["clone3"][column]))
        rows.append(struct.pack("<HBBI", 0x06, 0, 0, errno_of | errno.ENOSYS))
        rows.append(struct.pack("<HBBI", 0x15, 0, 3, CALLS["clone"][column]))
        rows.append(struct.pack("<HBBI", 0x20, 0, 0, 16))  # its flags
        rows.append(struct.pack("<HBBI", 0x45, 0, 1, CLONE_NAMESPACES))
        rows.append(struct.pack("<HBBI", 0x06, 0, 0, errno_of | errno.EPERM))
    rows.append(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(rows))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(rows), ctypes.addressof(code)))
    check(libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def no_ptrace():
    refuse("ptrace")


def engine_default():
    refuse(*[c for c in CALLS if c not in ("clone", "clone3", "ptrace")], namespaces=True)
    drop(set(range(CAP_LAST + 1)) - ENGINE_CAPS)


# Probes: a shell command that succeeds outside and fails in the container.
USERNS = "unshare --user true"
CONTAINERS = {
    "no_user_namespaces": (no_user_namespaces, USERNS),
    "no_sys_admin": (no_sys_admin, "unshare --mount true"),
    "no_fuse": (no_fuse, "test -e /dev/fuse"),
    "no_ptrace": (no_ptrace, "strace -o /dev/null true"),
    "engine_default": (engine_default, USERNS),
}


def enter(name, uid, argv):
    if name != "none":
        CONTAINERS[name][0]()
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    enter(sys.argv[1], int(sys.argv[2]), sys.argv[3:])

import pytest  # noqa: E402

UIDS = {"root": 0, "user": harness.USER_UID}


class Contained(harness.Server):
    """A server in a container; the engine takes the uid, after it has used root's rights."""

    def __init__(self, name, uid, config=None):
        super().__init__(uid=uid, config=config)
        self.command = engine(name, uid)

    def as_user(self):
        return {}

    def connect(self, timeout=60):
        """A client of the container's network: a connection belongs to the one where it was asked for."""
        c = super().connect(timeout)
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        server = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        check(libc.setns(server, CLONE_NEWNET), "setns")
        try:
            c.connect()
        finally:
            check(libc.setns(own, CLONE_NEWNET), "setns")
            os.close(own)
            os.close(server)
        return c


def engine(name, uid):
    return [sys.executable, __file__, name, str(uid)]


@pytest.fixture
def contained():
    made = []

    def factory(name, uid, config=None):
        if uid:
            harness.ensure_user()
        s = Contained(name, uid, config)
        made.append(s)
        return s.start()

    yield factory
    for s in made:
        s.finish()


@pytest.mark.parametrize("name", CONTAINERS)
def test_dep_2_container_lacks_what_it_says(name):
    probe = ["sh", "-c", CONTAINERS[name][1]]
    outside = subprocess.run([*engine("none", 0), *probe], capture_output=True, timeout=60)
    assert outside.returncode == 0, outside
    inside = subprocess.run([*engine(name, 0), *probe], capture_output=True, timeout=60)
    assert inside.returncode != 0 and b"Traceback" not in inside.stderr, inside


# What is refused, and as what: (container, server) -> code and subject. Every other pair runs.
REFUSED = {
    ("no_user_namespaces", "root"): ("E_ENFORCEMENT", "uid"),  # the workspace's idmapped mount needs one
    ("no_user_namespaces", "user"): ("E_ENFORCEMENT", "user_namespace"),
    ("no_sys_admin", "root"): ("E_ENFORCEMENT", "mount_namespace"),
    ("no_fuse", "root"): ("E_ENFORCEMENT", "file_rules"),
    ("no_fuse", "user"): ("E_ENFORCEMENT", "file_rules"),
    ("no_ptrace", "root"): ("E_ENFORCEMENT", "exec_policy"),
    ("no_ptrace", "user"): ("E_ENFORCEMENT", "exec_policy"),
    ("engine_default", "root"): ("E_ENFORCEMENT", "process_separation"),  # CAP_NET_ADMIN, to check who asks
    ("engine_default", "user"): ("E_ENFORCEMENT", "user_namespace"),
}
# What the message must say that helps.
REMEDY = {
    ("no_user_namespaces", "root"): "allow_unenforced",
    ("no_user_namespaces", "user"): "user.max_user_namespaces",
    ("no_sys_admin", "root"): "CAP_SYS_ADMIN",
    ("no_fuse", "root"): "/dev/fuse",
    ("no_fuse", "user"): "/dev/fuse",
    ("no_ptrace", "root"): "allow_unenforced",
    ("no_ptrace", "user"): "allow_unenforced",
    ("engine_default", "root"): "CAP_NET_ADMIN",
    ("engine_default", "user"): "user.max_user_namespaces",
}
# A refusal that the configuration may lift: (container, server) -> sandbox.allow_unenforced.
LIFTED = {
    ("no_user_namespaces", "root"): ["uid"],
    ("no_user_namespaces", "user"): ["namespaces", "file_rules"],
    ("no_fuse", "root"): ["file_rules"],
    ("no_fuse", "user"): ["file_rules"],
    ("no_ptrace", "root"): ["exec_policy"],
    ("no_ptrace", "user"): ["exec_policy"],
    ("engine_default", "user"): ["namespaces", "file_rules"],
}
# What is up wherever a session runs, and instead where it has no namespaces.
ALWAYS = {
    "mount_namespace",
    "pid_namespace",
    "ipc_namespace",
    "uts_namespace",
    "capabilities",
    "no_new_privs",
    "env_filter",
}
BARE = {"no_new_privs", "seccomp", "landlock", "exec_policy", "env_filter"}


def runs(server, bare=False):
    s = server.session()
    up = {e["wall"] for e in s.record["enforcement"] if e["state"] == "up"}
    assert up >= (BARE if bare else ALWAYS), up
    assert ("mount_namespace" in up) != bare
    assert s.out("cd; cd - > made-by; echo $((6 * 7)); echo made > made") == "42\n"
    assert s.record["working_dir"] == (str(s.workspace) if bare else "/workspace")
    assert (s.workspace / "made").stat().st_uid == server.uid
    status = s.out("cat /proc/self/status")
    assert "NoNewPrivs:\t1\n" in status and "CapEff:\t0000000000000000\n" in status
    s.destroy()


@pytest.mark.parametrize("kind", UIDS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_sbx_5_container(contained, name, kind):
    server = contained(name, UIDS[kind])
    if (name, kind) not in REFUSED:
        runs(server)
        return
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace())})
    error = a.json["error"]
    assert (a.status, error["code"], error.get("subject")) == (503, *REFUSED[name, kind]), a.body
    assert REMEDY[name, kind] in error["message"], error
    harness.wait_for(lambda: not server.warden_pids(), "the warden is gone")
    if (name, kind) in LIFTED:
        unenforced = {"sandbox": {"allow_unenforced": LIFTED[name, kind]}}
        runs(contained(name, UIDS[kind], config=unenforced), "namespaces" in LIFTED[name, kind])


# The table of docs/containers.md: what each row of CONTAINERS is called there.
DOCUMENTED = {
    "no_user_namespaces": "user namespaces",
    "no_sys_admin": "CAP_SYS_ADMIN",
    "no_fuse": "/dev/fuse",
    "no_ptrace": "ptrace",
    "engine_default": "all that an engine takes by default",
}


def documented(name, kind):
    if (name, kind) not in REFUSED:
        return "runs"
    words = LIFTED.get((name, kind))
    return f"refused: `{REFUSED[name, kind][1]}`" + (f"; runs with `{'`, `'.join(words)}`" if words else "")


def test_dep_2_the_documented_table_is_this_one():
    text = (harness.TOP / "docs/containers.md").read_text()
    for name, title in DOCUMENTED.items():
        row = f"| {title} | {documented(name, 'root')} | {documented(name, 'user')} |"
        assert row in text, row
