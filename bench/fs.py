# SPDX-License-Identifier: Apache-2.0
"""File operations and jobs in a directory, by each way to it (fs_ways.py): medians, ratios, and the goal beside each."""

import os
import random
import shutil
import statistics
import subprocess

from fs_ways import Cells, Native, PassthroughLl, Served, all_ways, apart, compare, ratio, session
from table import BENCH, harness, note

# passthrough_ll has a descriptor for each file that the kernel knows
FILES, DIRECTORIES = 1000, 70
# jobs, in this order: what one leaves the next one uses
JOBS = {
    "tar xf": "mkdir made && tar xf tree.tar -C made",
    "git status": "git -C repo status --porcelain",
    "grep -r": "grep -r no-such-word repo/tree || test $? = 1",
    "cp -r": "cp -r repo/tree copy",
    "rm -rf": "rm -rf made copy",
}
DATA = ("sequential write", "first sequential read", "sequential read", "random 4k read", "random 4k write")
# at most so many times native
GOALS = {
    "/dev/fuse": {"tar xf": 3, "grep -r": 7} | dict.fromkeys(DATA, 1.2),
    "io_uring": {"tar xf": 1.7, "git status": 1.7, "grep -r": 2.5, "cp -r": 2.2} | dict.fromkeys(DATA, 1.2),
}
HYBRID, USER, LATE = 1.25, 1.0, 2.0  # each operation by hybrid; as uid 1000, and p99, against passthrough_ll


def make_tree(place):
    """A tree like a project's: many small files, few large ones. The same each time."""
    rng = random.Random(7)
    text = bytes(rng.choice(b"abcdefghij klmnopqrs\n") for _ in range(1 << 18))
    place.mkdir(parents=True)
    dirs = [place]
    for i in range(DIRECTORIES):
        dirs.append(rng.choice(dirs[: 1 + i // 3]) / f"dir{i}")
        dirs[-1].mkdir(parents=True)
    for i in range(FILES):
        size = min(int(rng.lognormvariate(7.6, 1.4)), len(text))
        (rng.choice(dirs) / f"file{i}.c").write_bytes(text[-size:] if size else b"")


def prepare(way):
    repo = way.back / "repo"
    make_tree(repo / "tree")
    (way.back / "single").mkdir()
    subprocess.run(["tar", "cf", way.back / "tree.tar", "-C", repo / "tree", "."], check=True)
    script = "git init -q && git config gc.auto 0 && git add . && git -c user.name=b -c user.email=b@b commit -qm one && git gc -q"
    subprocess.run(["sh", "-ec", script], cwd=repo, check=True)


def run(way):
    for name in ("made", "copy"):
        shutil.rmtree(way.back / name, ignore_errors=True)
    return way.run("single", "single") + way.run("jobs", *(word for job in JOBS.items() for word in job))


def goal(way, name, results):
    """At most so many times native."""
    if way == "hybrid":
        return HYBRID
    if way == "uid 1000" and "passthrough_ll" in results:
        return USER * ratio(results, name, "passthrough_ll")
    return GOALS.get(way, {}).get(name)


def show(ways, results):
    names, columns = list(results["native"]), [w.name for w in ways[1:]]
    table = Cells("times native", columns)
    for name in names:
        native = statistics.median(us for us, _ in results["native"][name])
        table.line(name, native, [(ratio(results, name, way), goal(way, name, results)) for way in columns])
    columns = [w.name for w in ways if w.is_session]
    if "passthrough_ll" not in results or "stat" not in names:
        return
    note("p99 against passthrough_ll's", "the first column is native's p99")
    table = Cells("p99", columns)
    for name in names:
        if name in JOBS or name == "readdir+stat":
            continue
        cells = [
            (ratio(results, name, way, "passthrough_ll", 1), LATE if way != "uid 1000" else None) for way in columns
        ]
        table.line(name, statistics.median(late for _, late in results["native"][name]), cells)


def fs(server):
    """BENCH_FS_DIR: where; /var/tmp by default, /dev/shm for a tmpfs."""
    rounds = int(os.environ.get("BENCH_ROUNDS", "11"))
    apart(lambda: show(*compare(all_ways(), prepare, run, rounds)))


def fs_reads(server):
    """Where the time of a read of 4 KB goes that finds its page in memory: one part more in each way."""
    off = {"bpf": "off"}
    ways = {
        "native": Native,
        "native again": Native,
        "passthrough_ll": PassthroughLl,
        "kept, no session": lambda base, name: Served(base, name, BENCH / "mount_tree", "BACK", "VIEW"),
        "passed, no session": lambda base, name: Served(
            base, name, BENCH / "mount_tree", "--passthrough", "BACK", "VIEW"
        ),
        "session": session(**harness.NATIVE, sandbox=off),
        "kept": session(sandbox=off),
        "passed": session(),
    }
    note("kept: in the page cache of the mount", "passed: by the kernel from the backing file, and counted by BPF")
    rounds = int(os.environ.get("BENCH_ROUNDS", "11"))
    apart(lambda: show(*compare(ways, lambda way: None, lambda way: way.run("reads", "file"), rounds)))
