# SPDX-License-Identifier: Apache-2.0
"""Runs in a session: tries every act of a table on the path BEGIN + ACT for each beginning, and prints what became of it.

file_attacks.py change|read|names|run BEGIN…; REAL is the workspace's other path.
file_attacks.py race DIRECTORY…: what was seen in each while names change.
file_attacks.py odd BEGIN…: what became of writing to each odd name, by both paths.
file_attacks.py deep DIRECTORY: how deep it can be entered, and what reading a file there gives."""

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import socket
import struct
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
HERE = -100  # AT_FDCWD
EMPTY = 0x1000  # AT_EMPTY_PATH
FOLLOW = 0x400  # AT_SYMLINK_FOLLOW
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
REAL = os.environ.get("REAL", "/workspace")
JUNK = ("mine", "moved", "linked", "sink", "script", "copy")


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def renameat2(a, b, flags):
    check(libc.renameat2(HERE, a.encode(), HERE, b.encode(), flags))


def make(path):
    with open(path, "w") as f:
        f.write("changed")


def write(path, flags=os.O_WRONLY):
    fd = os.open(path, flags)
    if flags & os.O_ACCMODE:
        os.write(fd, b"changed")
    os.close(fd)


def read(path, flags=os.O_RDONLY):
    fd = os.open(path, flags)
    os.read(fd, 100)
    os.close(fd)


def by_fd(act, flags=os.O_RDONLY):
    """The act gets an open descriptor of the path."""

    def run(path):
        fd = os.open(path, flags)
        try:
            return act(fd)
        finally:
            os.close(fd)

    return run


def link_empty(fd):
    check(libc.linkat(fd, b"", HERE, b"linked", EMPTY))


def link_proc(fd):
    check(libc.linkat(HERE, f"/proc/self/fd/{fd}".encode(), HERE, b"linked", FOLLOW))


def shared_mapping(path):
    with open(path, "r+b") as f:
        mapping = mmap.mmap(f.fileno(), 0)
        mapping[0] = 65
        mapping.flush()


def mprotect(path):
    """A mapping by a descriptor that may only read gets no right to write."""
    with open(path, "rb") as f:
        at = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, f.fileno(), ctypes.c_long(0))
    check(libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE))
    ctypes.memset(at, 65, 1)


def copy_into(path):
    with open("source", "rb") as a, open(path, "r+b") as b:
        os.copy_file_range(a.fileno(), b.fileno(), 4)


def clone_into(path):
    with open("source", "rb") as a, open(path, "r+b") as b:
        fcntl.ioctl(b, 0x40049409, a.fileno())


def punch(path):
    with open(path, "r+b") as f:
        check(libc.fallocate(f.fileno(), 3, ctypes.c_long(0), ctypes.c_long(2)))


def both(first, second):
    first()
    second()


def and_back(path, act, there):
    act(path, there)
    os.rename(there, path)


def new(act):
    """A name beside the path, made and removed."""

    def run(path):
        act(path + ".new")
        os.rmdir(path + ".new") if os.path.isdir(path + ".new") else os.unlink(path + ".new")

    return run


def tmpfile_to(path):
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
    check(libc.linkat(HERE, f"/proc/self/fd/{fd}".encode(), HERE, path.encode(), FOLLOW))


def map_files(path):
    with open(path, "rb") as f:
        kept = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)  # noqa: F841
    with open("/proc/self/maps") as f:
        line = next(line for line in f if line.endswith(f"{path}\n"))
    write("/proc/self/map_files/" + line.split()[0])


ACL = bytes.fromhex("02000000 01000700ffffffff 04000700ffffffff 20000700ffffffff")
ME = (os.getuid(), os.getgid())
CHANGE = {
    "wronly": write,
    "rdwr": lambda p: write(p, os.O_RDWR),
    "truncating": lambda p: write(p, os.O_RDONLY | os.O_TRUNC),
    "append": lambda p: write(p, os.O_WRONLY | os.O_APPEND),
    "creat": lambda p: write(p, os.O_WRONLY | os.O_CREAT),
    "direct": lambda p: os.close(os.open(p, os.O_WRONLY | os.O_DIRECT)),
    "reopen": by_fd(lambda fd: write(f"/proc/self/fd/{fd}")),
    "reopen_path": by_fd(lambda fd: write(f"/proc/self/fd/{fd}"), os.O_PATH),
    "dev_fd": by_fd(lambda fd: write(f"/dev/fd/{fd}", os.O_RDWR)),
    "proc_cwd": lambda p: write("/proc/self/cwd/" + p),
    "proc_root": lambda p: write("/proc/thread-self/root/workspace/" + p),
    "parent_root": lambda p: write(f"/proc/{os.getppid()}/root/workspace/{p}"),
    "real": lambda p: write(f"{REAL}/{p}"),
    "dots": lambda p: write(".//" + p.replace("/", "//./")),
    "truncate": lambda p: os.truncate(p, 2),
    "chmod": lambda p: os.chmod(p, 0o640),
    "fchmod": by_fd(lambda fd: os.fchmod(fd, 0o640)),
    "chmod_proc": by_fd(lambda fd: os.chmod(f"/proc/self/fd/{fd}", 0o640), os.O_PATH),
    "fchown": by_fd(lambda fd: os.fchown(fd, *ME)),
    "fchownat": by_fd(lambda fd: check(libc.fchownat(fd, b"", *ME, EMPTY)), os.O_PATH),
    "chown_nothing": lambda p: os.chown(p, -1, -1),
    "utime": lambda p: os.utime(p, (1, 1)),
    "futime": by_fd(os.utime),
    "setxattr": lambda p: os.setxattr(p, "user.x", b"1"),
    "fsetxattr": by_fd(lambda fd: os.setxattr(fd, "user.x", b"1")),
    "setxattr_proc": by_fd(lambda fd: os.setxattr(f"/proc/self/fd/{fd}", "user.x", b"1"), os.O_PATH),
    "acl": lambda p: os.setxattr(p, "system.posix_acl_access", ACL),
    "shared_mapping": shared_mapping,
    "mprotect": mprotect,
    "copy_into": copy_into,
    "clone_into": clone_into,
    "punch": punch,
    "set_flags": by_fd(lambda fd: fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x20))),
    "map_files": map_files,
    "unlink": lambda p: both(lambda: os.unlink(p), lambda: make(p)),
    "over": lambda p: both(lambda: make("mine"), lambda: os.rename("mine", p)),
    "exchange": lambda p: both(lambda: make("mine"), lambda: renameat2("mine", p, EXCHANGE)),
    "away": lambda p: and_back(p, os.rename, "moved"),
    "whiteout": lambda p: and_back(p, lambda a, b: renameat2(a, b, WHITEOUT), "moved"),
    "link_out": lambda p: os.link(p, "linked"),
    "link_empty": by_fd(link_empty),
    "link_empty_path": by_fd(link_empty, os.O_PATH),
    "link_proc": by_fd(link_proc, os.O_PATH),
    "link_in": new(lambda p: os.link("source", p)),
    "symlink_in": new(lambda p: os.symlink("source", p)),
    "mkdir_in": new(os.mkdir),
    "fifo_in": new(os.mkfifo),
    "bind_in": new(lambda p: socket.socket(socket.AF_UNIX).bind(p)),
    "tmpfile_in": new(tmpfile_to),
    "create_in": new(make),
}
# With other numbers where system calls have them.
if os.uname().machine == "x86_64":
    CHANGE["fchmodat2"] = by_fd(lambda fd: check(libc.syscall(452, fd, b"", 0o640, EMPTY)), os.O_PATH)


def copy_out(path):
    with open(path, "rb") as a, open("sink", "wb") as b:
        os.copy_file_range(a.fileno(), b.fileno(), 100)


def send_out(path):
    with open(path, "rb") as f:
        os.sendfile(os.pipe()[1], f.fileno(), 0, 100)


def handle(path):
    room, mount = ctypes.create_string_buffer(struct.pack("I", 128), 200), ctypes.c_int()
    check(libc.name_to_handle_at(HERE, path.encode(), room, ctypes.byref(mount), 0))


READ = {
    "open": read,
    "rdwr": lambda p: read(p, os.O_RDWR),
    "creat": lambda p: read(p, os.O_RDWR | os.O_CREAT),
    "noatime": lambda p: read(p, os.O_NOATIME),
    "exec_flag": lambda p: read(p, 0x20),  # the kernel's own flag of an execve
    "reopen_path": by_fd(lambda fd: read(f"/proc/self/fd/{fd}"), os.O_PATH),
    "reopen_wronly": by_fd(lambda fd: read(f"/proc/self/fd/{fd}"), os.O_WRONLY),
    "real": lambda p: read(f"{REAL}/{p}"),
    "copy_out": copy_out,
    "send_out": send_out,
    "mapping": by_fd(lambda fd: mmap.mmap(fd, 0, prot=mmap.PROT_READ)[0]),
    "access": lambda p: check(libc.access(p.encode(), os.R_OK)),
    "by_symlink": lambda p: both(lambda: os.symlink(p, "linked"), lambda: read("linked")),
    "by_link": lambda p: both(lambda: os.link(p, "linked"), lambda: read("linked")),
    "by_rename": lambda p: and_back(p, os.rename, "moved"),
    "by_exchange": lambda p: both(
        lambda: both(lambda: make("mine"), lambda: renameat2("mine", p, EXCHANGE)),
        lambda: renameat2("mine", p, EXCHANGE),
    ),
    "handle": handle,
}
# What is the same whether the name exists or not.
NAMES = {
    "stat": os.stat,
    "slash": lambda p: os.stat(p + "/"),
    "chdir": os.chdir,
    "listdir": os.listdir,
    "statfs": os.statvfs,
    "getxattr": lambda p: os.getxattr(p, "user.x"),
    "readlink": os.readlink,
    "inotify": lambda p: check(libc.inotify_add_watch(libc.inotify_init(), p.encode(), 0xFFF)),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "mkdir": os.mkdir,
    "symlink": lambda p: os.symlink("x", p),
    "fifo": os.mkfifo,
    "excl": lambda p: os.open(p, os.O_CREAT | os.O_EXCL),
    "link": lambda p: os.link("source", p),
    "over": lambda p: both(lambda: make("mine"), lambda: os.rename("mine", p)),
    "noreplace": lambda p: both(lambda: make("mine"), lambda: renameat2("mine", p, NOREPLACE)),
    "exchange": lambda p: both(lambda: make("mine"), lambda: renameat2("mine", p, EXCHANGE)),
}
LOADER = next((p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p)), "")


def executed(act):
    """Like the act in another process; a program that runs writes RAN."""

    def run(path):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(into, 1)
            try:
                act(path)
                code = ctypes.get_errno()
            except OSError as e:
                code = e.errno
            os._exit(code)
        os.close(into)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if b"RAN" not in os.read(out, 100):
            raise OSError({126: errno.EACCES, 127: errno.ENOENT}.get(code, code), "")

    return run


def exec_empty(fd):
    os.set_inheritable(fd, True)
    argv, env = (ctypes.c_char_p * 3)(b"echo", b"RAN", None), (ctypes.c_char_p * 1)(None)
    libc.execveat(fd, b"", argv, env, EMPTY)


def exec_proc(fd):
    os.set_inheritable(fd, True)
    os.execv(f"/proc/self/fd/{fd}", ["echo", "RAN"])


def exec_script(path):
    with open("script", "w") as f:
        f.write(f"#!/workspace/{path} RAN\n")
    os.chmod("script", 0o755)
    os.execv("script", ["script"])


RUN = {
    "execve": lambda p: os.execv(p, ["echo", "RAN"]),
    "real": lambda p: os.execv(f"{REAL}/{p}", ["echo", "RAN"]),
    "descriptor": by_fd(exec_empty),
    "o_path": by_fd(exec_empty, os.O_PATH),
    "proc_fd": by_fd(exec_proc),
    "proc_o_path": by_fd(exec_proc, os.O_PATH),
    "interpreter": exec_script,
    "env": lambda p: os.execv("/usr/bin/env", ["env", "/workspace/" + p, "RAN"]),
    "by_link": lambda p: both(lambda: os.link(p, "linked"), lambda: os.execv("linked", ["echo", "RAN"])),
    "loader": lambda p: os.execv(LOADER, [LOADER, p, "RAN"]),
    "loader_argv0": lambda p: os.execv(LOADER, [LOADER, "--argv0", "x", "/workspace/" + p, "RAN"]),
    "copy": lambda p: both(
        lambda: subprocess.run(["cp", p, "copy"], check=True), lambda: os.execv("copy", ["echo", "RAN"])
    ),
}
RUN = {name: executed(act) for name, act in RUN.items()}
ROUNDS = 150


def quietly(act, *args):
    with contextlib.suppress(OSError):
        return act(*args)


def swap(own):
    """Names change their meaning, by all ways, while race() uses them."""
    for _ in range(ROUNDS):
        for act, *args in (
            (os.symlink, "secret", "swap"),
            (os.unlink, "swap"),
            (os.symlink, "open", "swap"),
            (renameat2, "open", "open2", EXCHANGE),
            (os.unlink, "swap"),
            (renameat2, "secret", "open", EXCHANGE),
            (renameat2, "secret", "open", EXCHANGE),
            (renameat2, "secret/f", "open/f", EXCHANGE),
            (renameat2, "secret/f", "open/f", EXCHANGE),
            (os.link, "secret/f", "open/g"),
            (os.unlink, "open/g"),
            (os.rename, "secret", "moved"),
            (os.rename, "moved", "secret"),
            (os.rename, f"../{own}", "../parent"),
            (os.rename, "../parent", f"../{own}"),
        ):
            quietly(act, *args)


def race(directory):
    """What was read and written through names that change: texts that were seen, and how often a write was done."""
    os.chdir(f"/workspace/{directory}")
    children = []
    for _ in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            swap(directory)
            os._exit(0)
    seen, held = set(), os.open("secret", os.O_PATH)
    paths = ["swap/f", "open/f", "open2/f", "open/g", "moved/f", f"/proc/self/fd/{held}/f"]
    paths += [f"{top}/{directory}/{name}" for top in ("/workspace", REAL) for name in ("swap/f", "open/f", "open/g")]
    while children:
        children = [c for c in children if os.waitpid(c, os.WNOHANG)[0] == 0]
        for path in paths:
            for flags in (os.O_RDONLY, os.O_RDWR):
                fd = quietly(os.open, path, flags)
                if fd is not None:
                    seen.add(os.read(fd, 100).decode())
                    if flags:
                        os.pwrite(fd, b"+", 10)
                    os.close(fd)
    return sorted(seen)


# Bytes that are special to a shell, a pattern, JSON or a terminal, and the longest name.
ODD = (
    b"new\nline",
    b"\xff\xfe",
    b"\xc3",
    b"n" * 240,
    b"dots...",
    b"...",
    b" ",
    b"*",
    b"[a]",
    b"tab\t\\",
    b"-rf",
    b"\x1b[0m",
)
ODD = [os.fsdecode(name) for name in ODD]


def odd(begin):
    """Also of a name of 256 bytes."""
    long = "x" * (256 - len(begin.rpartition("/")[2]))
    return [attempt(write, at + begin + name) for name in [*ODD, long] for at in ("", REAL + "/")]


def deep(directory):
    os.chdir(directory)
    levels = 0
    try:
        while not os.path.exists("bottom"):
            os.chdir("d")
            levels += 1
    except OSError as e:
        return [levels, errno.errorcode[e.errno]]
    return [levels, attempt(read, "bottom")]


TABLES = {"change": CHANGE, "read": READ, "names": NAMES, "run": RUN}


def attempt(act, path):
    for name in JUNK:
        if os.path.lexists(name):
            os.unlink(name)
    try:
        act(path)
        return "done"
    except OSError as e:
        return errno.errorcode[e.errno]


PASSED = os.path.expanduser("~/passed")


def take():
    """Takes the directory that give() passes, and tries what it may do by it."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(PASSED)
        s.listen()
        directory = socket.recv_fds(s.accept()[0], 1, 1)[1][0]
    os.unlink(PASSED)
    return {
        "read": attempt(lambda p: os.close(os.open(p, os.O_RDONLY, dir_fd=directory)), "source"),
        "make": attempt(lambda p: os.close(os.open(p, os.O_CREAT | os.O_EXCL, dir_fd=directory)), "made"),
    }


def give():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(PASSED)
        socket.send_fds(s, [b"x"], [os.open("/workspace", os.O_RDONLY)])
        s.recv(1)


if __name__ == "__main__":
    if sys.argv[1] in ("take", "give"):
        print(json.dumps(take() if sys.argv[1] == "take" else give()))
        sys.exit()
    if sys.argv[1] == "race":
        print(json.dumps([race(directory) for directory in sys.argv[2:]]))
        sys.exit()
    if sys.argv[1] in ("odd", "deep"):
        print(json.dumps([{"odd": odd, "deep": deep}[sys.argv[1]](begin) for begin in sys.argv[2:]]))
        sys.exit()
    table = TABLES[sys.argv[1]]
    print(json.dumps({name: [attempt(act, begin + name) for begin in sys.argv[2:]] for name, act in table.items()}))
