# SPDX-License-Identifier: Apache-2.0
"""Ways to reach a directory: natively, by Debian's passthrough_ll, and in sessions of real servers, each of which has
one configuration. Every way has a directory of its own on one file system."""

import ctypes
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from table import BENCH, harness, note, rows

MISSED = 3  # exit status of the child: a row missed its goal
EXAMPLE = Path("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c")
URING = Path("/sys/module/fuse/parameters/enable_uring")
CLONE_NEWNS, MS_PRIVATE, MS_REC, MNT_DETACH = 0x20000, 1 << 18, 1 << 14, 2
PROGRAM = BENCH / "bench_fs"
ENFORCED = "enforced"  # with hybrid: what the file server serves; the work is beside it


class Native:
    """A directory as it is."""

    is_session = False

    def __init__(self, base, name, uid=0):
        self.name, self.uid = name, uid
        self.back = base / name.replace(" ", "_").replace("/", "_")
        self.back.mkdir(mode=0o755)
        self.view = self.back

    def give(self):
        """The files are all there; they belong to the one who works with them."""
        if self.uid:
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", self.back], check=True)

    def run(self, *args):
        """The lines that the program prints there."""
        out = subprocess.run([PROGRAM, *args], cwd=self.view, check=True, capture_output=True, text=True)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def stop(self):
        pass


class Served(Native):
    """A directory that a program serves at another place."""

    def __init__(self, base, name, *command):
        super().__init__(base, name)
        self.view = self.back.with_suffix(".view")
        self.view.mkdir()
        args = [str(a).replace("BACK", str(self.back)).replace("VIEW", str(self.view)) for a in command]
        self.server = subprocess.Popen(args, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while not os.path.ismount(self.view):
            assert self.server.poll() is None and time.monotonic() < end, name

    def stop(self):
        self.server.terminate()
        self.server.wait()
        ctypes.CDLL(None).umount2(os.fsencode(self.view), MNT_DETACH)


class PassthroughLl(Served):
    """The example of Debian's libfuse, compiled as its head says."""

    def __init__(self, base, name):
        flags = subprocess.run(
            ["pkg-config", "fuse3", "--cflags", "--libs"], check=True, capture_output=True, text=True
        ).stdout.split()
        program = base / "debian"
        subprocess.run(["cc", "-O2", f"-I{EXAMPLE.parent}", EXAMPLE, "-o", program, *flags], check=True)
        options = "source=BACK,cache=auto,timeout=1,allow_other"
        super().__init__(base, name, program, "-f", "-o", options, "VIEW")


class InSession(Native):
    """/workspace of a session, whose server has this configuration. build: where the programs are.

    Each server has user ids of its own: the BPF programs of another server leave a process by its uid."""

    is_session = True
    next_uid = 1_800_000_000

    def __init__(self, base, name, config, uid=0, build=None):
        super().__init__(base, name, uid)
        built = harness.AGENTSH
        if build:
            harness.AGENTSH = Path(build) / "agentsh"
        first = InSession.next_uid
        InSession.next_uid += 100
        try:
            self.server = harness.Server(uid=uid, config={"logging": {"level": "warn"}})
            self.server.merge(self.server.config, json.loads(json.dumps(config)))
            if not uid:
                self.server.config["sandbox"]["session_uids"] = f"{first}-{first + 99}"
            self.server.start()
        finally:
            harness.AGENTSH = built

    def give(self):
        shutil.copy(PROGRAM, self.back / "bench_fs")
        (self.back / ENFORCED).mkdir()
        super().give()
        wanted = {"workspace": str(self.back)}
        self.session = self.server.session(**wanted)

    def run(self, *args):
        r = self.session.exec("./bench_fs", *args, max_output_bytes=1 << 20)["result"]
        assert r["exit_code"] == 0, r
        return [json.loads(line) for line in r["stdout"].splitlines()]

    def stop(self):
        self.server.cleanup()


def fuse(**keys):
    return {"sandbox": {"fuse": keys}}


def refused(config):
    """Why a server does not start with this configuration, or None."""
    server = harness.Server(config=config)
    try:
        server.start()
    except AssertionError:
        return server.log_text().strip().splitlines()[0].split(": ", 1)[-1]
    finally:
        server.cleanup()
    return None


HYBRID = {
    "monitoring": {"mode": "hybrid", "hybrid": {"fuse_enforce": [f"/workspace/{ENFORCED}"]}},
    "policies": {"default": "observe"},  # the rules of `default` need a file server everywhere
}


def session(**config):
    """How a session of root's server with this configuration is made."""
    return lambda base, name: InSession(base, name, config)


def all_ways():
    """How each way is made, by its name; what this machine does not have is left out, and said."""
    ways = {
        "native": Native,
        "native again": Native,
        "passthrough_ll": PassthroughLl,
        "/dev/fuse": session(**fuse(io_uring="off")),
        "io_uring": session(**fuse(io_uring="auto")),
        "hybrid": session(**HYBRID),
        "uid 1000": lambda base, name: InSession(base, name, fuse(io_uring="off"), harness.USER_UID),
    }
    if not EXAMPLE.exists():
        note("passthrough_ll", "left out: install libfuse3-dev")
        del ways["passthrough_ll"]
    if not URING.exists() or URING.read_text().strip() != "Y":
        note("io_uring", f"left out: switch on {URING}")
        del ways["io_uring"]
    why = refused(HYBRID)
    if why:
        note("hybrid", f"left out: {why}")
        del ways["hybrid"]
    return ways


def chosen(ways):
    """BENCH_WAYS names some of them; BENCH_BEFORE, the build directory of another version, adds one."""
    wanted, before = os.environ.get("BENCH_WAYS"), os.environ.get("BENCH_BEFORE")
    if before:
        ways["before"] = lambda base, name: InSession(base, name, {}, build=before)
    return {n: w for n, w in ways.items() if not wanted or n in ("native", *wanted.split(","))}


def compare(made, prepare, run, rounds):
    """made: how each way is made, by its name. prepare(way) fills way.back; run(way) gives the lines of a round. The
    ways take turns, and none is always the first. Returns the ways, and by way and by operation what each round took."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FS_DIR", "/var/tmp")) as place:
        os.chmod(place, 0o755)
        ways, base = [], Path(place)
        try:
            for name, make in chosen(made).items():
                ways.append(make(base, name))
                prepare(ways[-1])
                ways[-1].give()
            results = {w.name: {} for w in ways}
            for i in range(rounds + 1):  # the first one makes files and caches warm
                os.sync()
                for k in range(len(ways)):
                    way = ways[(i + k) % len(ways)]
                    for r in run(way):
                        if i > 0:
                            results[way.name].setdefault(r["op"], []).append((r["us"], r["p99_us"]))
        finally:
            for way in ways:
                way.stop()
    return ways, results


def ratio(results, name, way, against="native", which=0):
    """The median of the ratios within each round."""
    pairs = zip(results[way][name], results[against][name], strict=True)
    return statistics.median(a[which] / b[which] for a, b in pairs)


class Cells:
    """A table of ratios, each with its goal."""

    def __init__(self, title, columns):
        print(f"      {title:22} {'native us':>11}" + "".join(f"{c:>23}" for c in columns))

    def line(self, name, first, cells):
        """cells: a ratio and its goal or None."""
        text = ""
        for value, goal in cells:
            cell = f"{value:.2f}x"
            if goal is not None:
                rows.append(value <= goal)
                cell += f" of {goal:.2f}" + ("" if value <= goal else " missed")
            text += f"{cell:>23}"
        print(f"      {name:22} {first:>11.1f}{text}", flush=True)


def apart(measure):
    """Runs measure() in a child with a mount namespace of its own; its rows count."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            assert libc.unshare(CLONE_NEWNS) == 0 and libc.mount(b"none", b"/", None, MS_PRIVATE | MS_REC, None) == 0
            measure()
            status = 0 if all(rows) else MISSED
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, MISSED)
    rows.append(status == 0)
