# SPDX-License-Identifier: Apache-2.0
"""Flips one comparison at a time and looks whether a test turns red.

usage: tools/mutate.py [--sample N] [--module NAME]… [--seed S] [--site FILE:LINE]… [--scratch DIR] [--list]

  --sample N     how many comparisons (30), spread evenly over the modules
  --module NAME  only this folder below src (may be repeated)
  --seed S       another sample; the same seed and tree give the same one (1)
  --site F:L     only the comparisons of this line, e.g. src/base/buf.c:40 (may be repeated)
  --scratch DIR  copy and build here and keep it: the next run compiles only what changed
  --list         print what would be flipped and stop

A comparison is one of < <= > >= == != in src/MODULE/*.c outside comments, strings, preprocessor lines and static
asserts; < and <=, > and >=, == and != are exchanged. The tree is copied first and only the copy is changed. Each
flip is built with ASan and UBSan; then run the module's unit tests (those beside the changed file first) and, if
all stay green, the integration tests of INTEGRATION. Red is a failed test, a sanitizer's report, or a time-out,
twice in a row. A flip that the compiler refuses is replaced by another one.

Flipped programs do odd things, and as root: they run in their own PID, mount, UTS and IPC namespaces with the file
system read-only, except for the copy, a /tmp inside it, and an empty /run, /var/lib and /var/log. This needs root.

Survivors are listed with file, line and text. One that no test can find, because the program behaves the same,
belongs into tools/mutate_equivalent.txt: file, flipped line, reason, separated by tabs. It is then reported as
equivalent and not counted. The exit status is 1 if fewer than 90 % of the rest turned red."""

import argparse
import bisect
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PROGRAMS = [
    "agentsh",
    "agentsh-server",
    "agentsh-api",
    "agentsh-warden",
    "agentsh-init",
    "agentsh-state",
    "agentsh-probe",
]
FLIP = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JOBS = 2
LEAST = 0.9

# What shows a module's behaviour beyond its unit tests.
INTEGRATION = {
    "api": ["test_api.py", "test_auth.py", "test_events.py", "test_exec.py", "test_config.py"],
    "cli": ["test_cli.py", "test_config.py"],
    "client": ["test_cli.py"],
    "config": ["test_config.py"],
    "event": ["test_events.py"],
    "launcher": ["test_processes.py", "test_sessions.py", "test_restart.py"],
    "probe": ["test_doctor.py"],
    "prog": ["test_cli.py", "test_exec.py"],
    "sandbox": ["test_processes.py", "test_state.py", "test_exec.py"],
    "session": ["test_sessions.py", "test_exec.py", "test_output.py", "test_restart.py"],
    "terminal": ["test_output.py"],
    "warden": ["test_exec.py", "test_state.py", "test_output.py"],
    "wire": ["test_api.py"],
}

# Strings, comments, preprocessor lines and static asserts are passed over; then the longest operator wins.
TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
        |^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*
        |\b_Static_assert\b[^;]*;
        |->|<<=|>>=|<<|>>)
      |(?P<op><=|>=|==|!=|<|>)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Site:
    path: str  # below the top
    line: int
    start: int
    end: int
    op: str
    before: str  # the line
    after: str  # the flipped line

    @property
    def module(self):
        return self.path.split("/")[1]

    def __str__(self):
        return f"{self.path}:{self.line}\t{self.op} to {FLIP[self.op]}\t{self.after}"


def sites_of(path):
    text = (TOP / path).read_text()
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    for m in TOKEN.finditer(text):
        if not m["op"]:
            continue
        line = bisect.bisect_right(starts, m.start())
        begin = starts[line - 1]
        end = text.find("\n", begin)
        before = text[begin:end]
        at = m.start() - begin
        after = before[:at] + FLIP[m["op"]] + before[at + len(m["op"]) :]
        yield Site(path, line, m.start(), m.end(), m["op"], " ".join(before.split()), " ".join(after.split()))


def all_sites(modules):
    found = {}
    for path in sorted((TOP / "src").glob("*/*.c")):
        name = str(path.relative_to(TOP))
        module = name.split("/")[1]
        if path.name.endswith("_test.c") or (modules and module not in modules):
            continue
        found.setdefault(module, []).extend(sites_of(name))
    return found


def draw(sites, rng):
    """All sites in the order in which they are used: one of every module in turn."""
    piles = []
    for module in sorted(sites):
        pile = list(sites[module])
        rng.shuffle(pile)
        piles.append(pile)
    rng.shuffle(piles)
    while any(piles):
        for pile in piles:
            if pile:
                yield pile.pop()


def equivalents():
    path = TOP / "tools/mutate_equivalent.txt"
    table = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line and not line.startswith("#"):
            name, text, reason = line.split("\t")
            table[name, text] = reason
    return table


class Copy:
    """The copy of the tree: built once, then changed in one place at a time."""

    def __init__(self, scratch):
        self.dir = Path(scratch)
        self.tree = self.dir / "tree"
        self.build = self.dir / "build"
        self.tmp = self.dir / "tmp"
        self.venv = self.dir / "venv"
        for d in (self.dir, self.tree):
            d.mkdir(exist_ok=True)
            d.chmod(0o755)
        self.venv.mkdir(exist_ok=True)
        self.seconds = {}  # test -> how long it took without a flip
        self.refresh()

    def refresh(self):
        """Copies what differs, so that ninja compiles only that."""
        wanted = {}
        for top in TOP.iterdir():
            if top.name.startswith((".", "build")):
                continue
            for f in [top] if top.is_file() else top.rglob("*"):
                if f.is_file() and "__pycache__" not in f.parts:
                    wanted[str(f.relative_to(TOP))] = f
        for f in [f for f in self.tree.rglob("*") if f.is_file() and str(f.relative_to(self.tree)) not in wanted]:
            f.unlink()
        for name, f in wanted.items():
            to = self.tree / name
            if not to.exists() or to.read_bytes() != f.read_bytes():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(f, to)
                shutil.copymode(f, to)

    def configure(self):
        again = ["--reconfigure"] if (self.build / "build.ninja").exists() else []
        options = ["--buildtype=debug", "-Doptimization=1", "-Dsanitize=true"]
        subprocess.run(
            ["meson", "setup", *again, *options, self.build, self.tree], check=True, stdout=subprocess.DEVNULL
        )
        listed = subprocess.run(
            ["ninja", "-C", self.build, "-t", "targets", "all"], check=True, capture_output=True, text=True
        ).stdout
        self.units = sorted(set(re.findall(r"^(unit-[\w-]+):", listed, re.M)))

    def units_of(self, module, stem=""):
        mine = [u for u in self.units if u.startswith(f"unit-{module}-")]
        beside = f"unit-{module}-{stem}_test"
        return sorted(mine, key=lambda u: (u != beside, self.seconds.get(u, 0)))

    def make(self, targets):
        """True if it builds."""
        if not targets:
            return True
        done = subprocess.run(["ninja", "-j", str(JOBS), "-C", self.build, *targets], capture_output=True, text=True)
        (self.dir / "build.log").write_text(done.stdout + done.stderr)
        return done.returncode == 0

    def walled(self, name, command, seconds, env):
        """Runs a command in namespaces of its own; returns None if it went well, else why not."""
        tmp = Path(tempfile.mkdtemp(dir=self.dir, prefix="tmp-"))
        tmp.chmod(0o1777)
        # the shell stays: process 1 must bury orphans
        wall = (
            'for d in /run /var/lib /var/log; do mount -t tmpfs none "$d" || exit; done; '
            'mount --bind "$1" "$1" && mount --bind "$3" "$1/venv" && mount -o remount,bind,ro / && '
            'mount --bind "$2" /tmp && cd "$1/tree" && shift 3 && ulimit -f 2097152 && "$@"; exit $?'
        )
        full = [
            *"unshare --fork --kill-child --pid --mount --uts --ipc --mount-proc sh -c".split(),
            wall,
            "sh",
            *map(str, (self.dir, tmp, TOP / ".dev/venv", *command)),
        ]
        base = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        with open(self.dir / f"{tmp.name}.log", "w+b") as log:
            child = subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**base, **env})
            try:
                status = child.wait(seconds)
                why = f"exit status {status}" if status else None
            except subprocess.TimeoutExpired:
                child.kill()  # --kill-child: and with it everything inside
                child.wait()
                why = f"time-out after {seconds:.0f} s"
        if why:
            shutil.copyfile(log.name, self.dir / f"red-{Path(name).name}.log")
        os.unlink(log.name)
        shutil.rmtree(tmp, ignore_errors=True)
        return why

    def limit(self, test, least):
        return max(least, 5 * self.seconds[test]) if test in self.seconds else 600

    def unit(self, name):
        env = {"ASAN_OPTIONS": "detect_leaks=1:hard_rss_limit_mb=2000", "AGENTSH_BUILD_DIR": str(self.build)}
        return self.walled(name, [self.build / name], self.limit(name, 20), env)

    def integration(self, name):
        env = {"ASAN_OPTIONS": "detect_leaks=0:hard_rss_limit_mb=2000", "AGENTSH_BUILD_DIR": str(self.build)}
        # as root only: both kinds of server run the same code but for what has unit tests; and nothing long
        command = [self.dir / "venv/bin/python", "-m", "pytest", "-q", "-x", "-k", "not user and not thousand"]
        return self.walled(name, [*command, f"tests/integration/{name}"], self.limit(name, 60), env)

    def baseline(self, modules):
        """Measures every test without a flip; what is red already cannot show anything."""
        tests = [(u, self.unit) for m in modules for u in self.units_of(m)]
        names = sorted({t for m in modules for t in INTEGRATION.get(m, [])})
        tests += [(t, self.integration) for t in names]
        self.red = set()

        def measure(test):
            name, run = test
            began = time.monotonic()
            why = run(name)
            if why:
                print(f"red without a flip, not used: {name}: {why}", flush=True)
                self.red.add(name)
            return name, time.monotonic() - began

        with ThreadPoolExecutor(JOBS) as pool:
            self.seconds = dict(pool.map(measure, tests))

    def first_red(self, names, run):
        """What is red twice: a test that failed by chance shows nothing."""
        with ThreadPoolExecutor(JOBS) as pool:
            for i in range(0, len(names), JOBS):
                part = names[i : i + JOBS]
                for name, why in zip(part, pool.map(run, part), strict=True):
                    if why and run(name):
                        return f"{name}: {why}"
                    if why:
                        print(f"red by chance: {name}: {why}", flush=True)
        return None

    def judge(self, site):
        """'refused' by the compiler, None if it survived, else what turned red."""
        target = self.tree / site.path
        good = target.read_text()
        target.write_text(good[: site.start] + FLIP[site.op] + good[site.end :])
        try:
            units = [u for u in self.units_of(site.module, Path(site.path).stem) if u not in self.red]
            more = [t for t in INTEGRATION.get(site.module, []) if t not in self.red]
            # linking costs more than running: the test beside the file mostly suffices
            stages = [
                (units[:1], units[:1], self.unit),
                (units[1:], units[1:], self.unit),
                (PROGRAMS, more, self.integration),
            ]
            red = None
            for targets, names, run in stages:
                if names and red is None:
                    if not self.make(targets):
                        return "refused"
                    red = self.first_red(names, run)
            return red
        finally:
            target.write_text(good)


def run(copy, order, sample):
    known = equivalents()
    survivors, equivalent, killed = [], [], 0
    for site in order:
        if killed + len(survivors) + len(equivalent) >= sample:
            break
        began = time.monotonic()
        red = copy.judge(site)
        if red == "refused":
            print(f"refused   {site}", flush=True)
            continue
        reason = known.get((site.path, site.after))
        if red:
            killed += 1
            word, note = "killed", red
        elif reason:
            equivalent.append(site)
            word, note = "equivalent", reason
        else:
            survivors.append(site)
            word, note = "SURVIVED", site.before
        print(f"{word:9} {site}\t({note}; {time.monotonic() - began:.0f} s)", flush=True)
    total = killed + len(survivors)
    print(f"{killed} of {total} turned tests red, {len(equivalent)} more are equivalent")
    for site in survivors:
        print(f"survived: {site}")
    return total > 0 and killed >= LEAST * total


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--sample", type=int, default=30)
    ap.add_argument("--module", action="append")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--site", action="append")
    ap.add_argument("--scratch")
    ap.add_argument("--list", action="store_true")
    args = ap.parse_args()
    sites = all_sites(args.module)
    if args.site:
        sites = {m: [s for s in v if f"{s.path}:{s.line}" in args.site] for m, v in sites.items()}
        sites = {m: v for m, v in sites.items() if v}
    if not sites:
        ap.error("there is nothing to flip")
    order = list(draw(sites, random.Random(args.seed)))
    print(f"{len(order)} comparisons in {len(sites)} modules, seed {args.seed}", flush=True)
    if args.list:
        print("\n".join(map(str, order[: args.sample])))
        return 0
    if os.geteuid() != 0:
        sys.exit("mutate.py: needs root, to run flipped programs in namespaces of their own")
    scratch = args.scratch or tempfile.mkdtemp(dir="/var/tmp", prefix="agentsh-mutate-")
    try:
        copy = Copy(scratch)
        copy.configure()
        modules = sorted({s.module for s in order[: args.sample]})
        if not copy.make([*PROGRAMS, *(u for m in modules for u in copy.units_of(m))]):
            log = (copy.dir / "build.log").read_text()
            sys.exit(f"mutate.py: the tree does not build\n{log[max(0, log.find('FAILED:')) :][:4000]}")
        copy.baseline(modules)
        return 0 if run(copy, order, args.sample) else 1
    finally:
        if not args.scratch:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
