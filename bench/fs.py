# SPDX-License-Identifier: Apache-2.0
"""File operations and jobs in a directory: natively, by Debian's passthrough_ll, and by src/fs with each of its options.

Every way has a backing directory of its own on one file system. The ways take turns, and none is always the first."""

import ctypes
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from table import BENCH, lines, note, row, rows

# passthrough_ll has a descriptor for each file that the kernel knows; three trees stay below 20,000
FILES, DIRECTORIES = 4500, 300
MISSED = 3  # exit status of the child: a row missed its goal
EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
URING = Path("/sys/module/fuse/parameters/enable_uring")
CLONE_NEWNS, MS_PRIVATE, MS_REC, MNT_DETACH = 0x20000, 1 << 18, 1 << 14, 2
# jobs, in this order: what one leaves the next one uses
JOBS = {
    "tar xf": "mkdir made && tar xf ../tree.tar -C made",
    "git status": "git -C repo status --porcelain",
    "grep -r": "grep -r no-such-word repo/tree || test $? = 1",
    "cp -r": "cp -r repo/tree copy",
    "rm -rf": "rm -rf made copy",
}
DATA = ("sequential write", "first sequential read", "sequential read", "random 4k read", "random 4k write")
# at most so many times native: by /dev/fuse, by io_uring
GOALS = {name: (1.2, 1.2) for name in DATA} | {
    "tar xf": (3, 1.7),
    "git status": (None, 1.7),
    "grep -r": (7, 2.5),
    "cp -r": (None, 2.2),
}


class Way:
    """One way to serve BASE/NAME/back at BASE/NAME/view."""

    def __init__(self, base, name, command=None):
        self.name = name
        self.back = base / name.replace(" ", "_").replace("/", "_")
        self.back.mkdir()
        self.view, self.server = self.back, None
        if command:
            self.view = self.back.with_suffix(".view")
            self.view.mkdir()
            args = [str(a).replace("BACK", str(self.back)).replace("VIEW", str(self.view)) for a in command]
            self.server = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
            end = time.monotonic() + 10
            while not os.path.ismount(self.view):
                assert self.server.poll() is None and time.monotonic() < end, name
        self.is_ours = command is not None and "mount_tree" in str(command[0])

    def requests(self):
        """How many requests of each kind it has served."""
        self.server.send_signal(signal.SIGUSR1)
        line = ""
        while "directories" not in line:
            line = self.server.stdout.readline()
        return {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)", line)}

    def stop(self):
        if self.server:
            ctypes.CDLL(None).umount2(os.fsencode(self.view), MNT_DETACH)
            self.server.terminate()
            self.server.wait()


def passthrough_ll(base):
    """The example of Debian's libfuse, compiled as its head says."""
    if not EXAMPLE.exists():
        note("passthrough_ll", "left out: install libfuse3-dev")
        return None
    flags = subprocess.run(
        ["pkg-config", "fuse3", "--cflags", "--libs"], capture_output=True, text=True
    ).stdout.split()
    out = base / "debian"
    subprocess.run(["cc", "-O2", f"-I{EXAMPLE.parent}", EXAMPLE, "-o", out, *flags], check=True)
    return [out, "-f", "-o", "source=BACK,cache=auto,timeout=1,allow_other", "VIEW"]


def make_tree(base):
    """A tree like a project's: many small files, few large ones."""
    top, rng = base / "source", random.Random(7)
    text = bytes(rng.choice(b"abcdefghij klmnopqrs\n") for _ in range(1 << 18))
    dirs = [top]
    for i in range(DIRECTORIES):
        dirs.append(rng.choice(dirs[: 1 + i // 3]) / f"dir{i}")
        dirs[-1].mkdir(parents=True)
    for i in range(FILES):
        size = min(int(rng.lognormvariate(7.6, 1.4)), len(text))
        (rng.choice(dirs) / f"file{i}.c").write_bytes(text[-size:] if size else b"")
    subprocess.run(["tar", "cf", base / "tree.tar", "-C", top, "."], check=True)
    return top


def prepare(way, source):
    repo = way.back / "repo"
    shutil.copytree(source, repo / "tree")
    (way.back / "single").mkdir()
    script = "git init -q && git config gc.auto 0 && git add . && git -c user.name=b -c user.email=b@b commit -qm one && git gc -q"
    subprocess.run(["sh", "-ec", script], cwd=repo, check=True)


def run_round(way, results):
    os.sync()  # what another way has written
    for r in lines(BENCH / "bench_fs", way.view / "single"):
        results.setdefault(r["op"], []).append((r["us"], r["p99_us"]))
    for job, command in JOBS.items():
        before = way.requests() if way.is_ours else {}
        os.sync()
        begin = time.monotonic()
        subprocess.run(["sh", "-ec", command], cwd=way.view, check=True, stdout=subprocess.DEVNULL)
        took = (time.monotonic() - begin) * 1e6
        results.setdefault(job, []).append((took, took))
        if way.is_ours:
            results[f"requests of {job}"] = {k: n - before.get(k, 0) for k, n in way.requests().items()}


def show(ways, results):
    native = results["native"]
    print(f"      {'':22} {'native us':>11} " + "".join(f"{w.name:>16}" for w in ways[1:]))
    for name in [n for n in native if not n.startswith("requests")]:
        base = [us for us, _ in native[name]]
        cells = []
        for way in ways[1:]:
            ratio = statistics.median(us / b for (us, _), b in zip(results[way.name][name], base, strict=True))
            late = statistics.median(p for _, p in results[way.name][name])
            cells.append((way, ratio, late))
        print(f"      {name:22} {statistics.median(base):11.1f} " + "".join(f"{r:15.2f}x" for _, r, _ in cells))
        for way, ratio, _ in cells:
            goal = GOALS.get(name, (None, None))[way.name.startswith("io_uring")]
            if goal and way.is_ours and way.name in ("/dev/fuse", "io_uring"):
                row(f"{name}, {way.name}", f"{ratio:.2f} x native", f"at most {goal} x", ratio <= goal)
        debian = [late for way, _, late in cells if way.name == "passthrough_ll"]
        for way, _, late in cells:
            if way.is_ours and debian and name not in JOBS and name != "readdir+stat":
                note(f"{name}, {way.name}, p99", f"{late:.1f} us = {late / debian[0]:.2f} x passthrough_ll's")
    for way in ways:
        for job in JOBS if way.is_ours else ():
            got = results[way.name][f"requests of {job}"]
            text = ", ".join(
                f"{k} {n / FILES:.2f}" for k, n in sorted(got.items(), key=lambda x: -x[1]) if n > FILES // 50
            )
            note(f"requests a file: {job}, {way.name}", text)


def our_ways(base):
    """BENCH_BEFORE names the build directory of another version of mount_tree."""
    tree, before = BENCH / "mount_tree", os.environ.get("BENCH_BEFORE")
    ways = {
        "/dev/fuse plain": [tree, "BACK", "VIEW"],
        "/dev/fuse": [tree, "--passthrough", "BACK", "VIEW"],
    }
    if before:
        ways["before"] = [Path(before) / "mount_tree", "--passthrough", "BACK", "VIEW"]
    if URING.exists() and URING.read_text().strip() == "Y":
        ways["io_uring"] = [tree, "--passthrough", "--io-uring", "BACK", "VIEW"]
        ways["io_uring 1 s"] = [tree, "--passthrough", "--io-uring", "--keep", "0", "BACK", "VIEW"]
        if before:
            ways["io_uring before"] = [
                Path(before) / "mount_tree", "--passthrough", "--io-uring", "BACK", "VIEW",
            ]  # fmt: skip
    else:
        note("io_uring", "left out: switch on /sys/module/fuse/parameters/enable_uring")
    return ways


def measure(base):
    source, rounds = make_tree(base), int(os.environ.get("BENCH_ROUNDS", "11"))
    commands = {"native": None, "native again": None}
    debian = passthrough_ll(base)
    if debian:
        commands["passthrough_ll"] = debian
    commands |= our_ways(base)
    wanted = os.environ.get("BENCH_WAYS")
    if wanted:
        commands = {n: c for n, c in commands.items() if n == "native" or n in wanted.split(",")}
    ways = []
    try:
        for name, command in commands.items():
            ways.append(Way(base, name, command))
            prepare(ways[-1], source)
        results = {w.name: {} for w in ways}
        for i in range(rounds + 1):
            for k in range(len(ways)):
                way = ways[(i + k) % len(ways)]
                run_round(way, {} if i == 0 else results[way.name])
        show(ways, results)
    finally:
        for way in ways:
            way.stop()


def fs(server):
    """In a mount namespace of its own. BENCH_FS_DIR: where; /var/tmp by default, /dev/shm for a tmpfs."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            assert libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_PRIVATE | MS_REC, None) == 0
            with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FS_DIR", "/var/tmp")) as place:
                measure(Path(place))
            status = 0 if all(rows) else MISSED
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, MISSED)
    rows.append(status == 0)
