# SPDX-License-Identifier: Apache-2.0
"""Flips one comparison at a time and looks whether a test turns red.

usage: tools/mutate.py [--sample N] [--module NAME]… [--seed S] [--site FILE:LINE]… [--scratch DIR] [--list]

  --sample N     how many comparisons (30), spread evenly over the modules
  --module NAME  only this folder below src (may be repeated)
  --seed S       another sample (1); the same seed draws the same comparisons as long as their lines stay
  --site F:L     only the comparisons of this line, e.g. src/base/buf.c:40 (may be repeated)
  --scratch DIR  copy and build here and keep it: the next run compiles only what changed
  --list         print what would be flipped and stop

A comparison is one of < <= > >= == != in src/MODULE/*.c outside comments, strings, preprocessor lines and static
asserts; < and <=, > and >=, == and != are exchanged. The tree is copied first and only the copy is changed. Each
flip is built with ASan and UBSan; then run the module's unit tests (those beside the changed file first) and, if
all stay green, the integration tests of INTEGRATION. Red is a failed test, a sanitizer's report, or a time-out,
twice in a row. A flip that the compiler refuses is replaced by the next one.

Flipped programs do odd things, and as root: they run in their own PID, mount, UTS and IPC namespaces with the file
system read-only, except for the copy, a /tmp inside it, and an empty /run, /var/lib and /var/log. This needs root.

Survivors are listed with file, line and text. One that no test can find, because the program behaves the same,
belongs into tools/mutate_equivalent.txt: file, flipped line, reason, separated by tabs. It is then listed and
replaced by the next one, unless --site names it; so is a < b ? a : b. The exit status is 1 if fewer than 90 %
turned red."""

import argparse
import bisect
import contextlib
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from programs import PROGRAMS

TOP = Path(__file__).resolve().parent.parent
FLIP = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JOBS = 2
LEAST = 0.9
SAME = "of two that are equal either may be taken"
MEMORY_LEFT = 0.2

# What shows a module's behaviour beyond its unit tests.
INTEGRATION = {
    "api": [
        "test_api.py",
        "test_auth.py",
        "test_events.py",
        "test_exec.py",
        "test_config.py",
        "test_policy_server.py",
    ],
    "cli": ["test_cli.py", "test_config.py", "test_policy.py", "test_doctor.py"],
    "client": ["test_cli.py"],
    "config": ["test_config.py", "test_config_file.py"],
    "event": ["test_events.py"],
    "exec": ["test_policy.py"],
    "launcher": [
        "test_processes.py",
        "test_sessions.py",
        "test_restart.py",
        "test_limits.py",
        "test_limits_narrower.py",
        "test_pool.py",
    ],
    "policy": ["test_policy.py", "test_policy_server.py"],
    "probe": ["test_doctor.py"],
    "prog": ["test_cli.py", "test_exec.py"],
    "sandbox": [
        "test_processes.py",
        "test_state.py",
        "test_exec.py",
        "test_limits.py",
        "test_limits_narrower.py",
        "test_view.py",
    ],
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
# The smaller or the larger of two: if they are equal, it does not matter which.
CAST = r"(?:\(\w+\))?"
TERM = rf"{CAST}[\w.>-]+"
OPERAND = rf"{TERM}(?: [-+*/] {TERM})*"
EXTREME = re.compile(
    rf"(?:[=(,?:&|*]|\breturn)\s*(?P<a>{OPERAND}) (?P<op>[<>]=?) (?P<b>{OPERAND}) \? "
    rf"{CAST}(?:(?P=a) : (?P=b)|(?P=b) : (?P=a))\s*[;,):]"
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
    extreme: bool

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
        extreme = any(e.start("op") == at for e in EXTREME.finditer(before))
        texts = (" ".join(t.split()) for t in (before, after))
        yield Site(path, line, m.start(), m.end(), m["op"], *texts, extreme)


def all_sites(modules):
    found = {}
    for path in sorted((TOP / "src").glob("*/*.c")):
        name = str(path.relative_to(TOP))
        module = name.split("/")[1]
        if path.name.endswith("_test.c") or (modules and module not in modules):
            continue
        found.setdefault(module, []).extend(sites_of(name))
    return found


def draw(sites, seed):
    """A shuffled pile of every module; a site's place in it depends on its line alone, not on the rest of the tree."""

    def place(*what):
        return hashlib.sha256("\0".join(map(str, (seed, *what))).encode()).digest()

    return [sorted(sites[m], key=lambda s: place(s.path, s.after)) for m in sorted(sites, key=place)]


def in_turn(piles):
    """One of every pile in turn."""
    rest = list(piles)
    while rest:
        for pile in list(rest):
            site = next(pile, None)
            if site:
                yield site
            else:
                rest.remove(pile)


def equivalents():
    path = TOP / "tools/mutate_equivalent.txt"
    table = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if line and not line.startswith("#"):
            name, text, reason = line.split("\t")
            table[name, text] = reason
    return table


class Passed:
    """What is equivalent, as far as it was drawn."""

    def __init__(self, sites):
        self.known = equivalents()
        self.count = 0
        there = {(s.path, s.after) for pile in sites.values() for s in pile}
        for path, text in self.known:
            if path.split("/")[1] in sites and (path, text) not in there:
                print(f"not in the tree any more: {path}\t{text}", flush=True)

    def over(self, pile):
        for site in pile:
            reason = SAME if site.extreme else self.known.get((site.path, site.after))
            if reason:
                self.count += 1
                print(f"equivalent {site}\t({reason})", flush=True)
            else:
                yield site


def memory_left():
    """The part of the memory that is available."""
    kb = dict(re.findall(r"^(\w+):\s+(\d+)", Path("/proc/meminfo").read_text(), re.M))
    return int(kb["MemAvailable"]) / int(kb["MemTotal"])


def watch(child, seconds):
    """None if it ends well, else why not. The machine's memory is watched from here: ASan's limit is a thread, and
    there are programs that count their threads."""
    end = time.monotonic() + seconds
    why = None
    while not why:
        try:
            status = child.wait(0.5)
            return f"exit status {status}" if status else None
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                why = f"time-out after {seconds:.0f} s"
            elif memory_left() < MEMORY_LEFT:
                why = "the memory runs out"
    child.kill()  # --kill-child: and with it everything inside
    child.wait()
    return why


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
        self.stale = False  # the programs hold a flip
        self.red = set()  # those that fail without one: they cannot show anything
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
            why = watch(child, seconds)
        if why:
            shutil.copyfile(log.name, self.dir / f"red-{Path(name).name}.log")
        os.unlink(log.name)
        shutil.rmtree(tmp, ignore_errors=True)
        return why

    def limit(self, test, least):
        return max(least, 5 * self.seconds[test]) if test in self.seconds else 600

    def unit(self, name):
        env = {"ASAN_OPTIONS": "detect_leaks=1", "AGENTSH_BUILD_DIR": str(self.build)}
        return self.walled(name, [self.build / name], self.limit(name, 20), env)

    def integration(self, name):
        env = {"ASAN_OPTIONS": "detect_leaks=0"}
        env |= {name: str(self.build) for name in ("AGENTSH_BUILD_DIR", "AGENTSH_RELEASE_DIR")}
        # as root only: both kinds of server run the same code but for what has unit tests; and nothing long
        command = [self.dir / "venv/bin/python", "-m", "pytest", "-q", "-x", "-k", "not user and not thousand"]
        return self.walled(name, [*command, f"tests/integration/{name}"], self.limit(name, 60), env)

    def make_clean(self, targets):
        """Without a flip. The programs too, since unit tests may run them."""
        if not self.make([*PROGRAMS, *targets]):
            sys.exit("mutate.py: the tree does not build")
        self.stale = False

    def usable(self, targets, names, run):
        """Those that are green without a flip; each is measured once."""
        new = [n for n in names if n not in self.seconds]
        if new:
            self.make_clean(targets)

        def measure(name):
            began = time.monotonic()
            why = run(name) and run(name)
            if why:
                print(f"red without a flip, not used: {name}: {why}", flush=True)
                self.red.add(name)
            return name, time.monotonic() - began

        with ThreadPoolExecutor(JOBS) as pool:
            self.seconds |= dict(pool.map(measure, new))
        return [n for n in names if n not in self.red]

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

    @contextlib.contextmanager
    def flipped(self, site):
        target = self.tree / site.path
        good = target.read_text()
        target.write_text(good[: site.start] + FLIP[site.op] + good[site.end :])
        try:
            yield
        finally:
            target.write_text(good)

    def judge(self, site):
        """'refused' by the compiler, None if it survived, else what turned red."""
        beside = f"unit-{site.module}-{Path(site.path).stem}_test"
        mine = [u for u in self.units if u.startswith(f"unit-{site.module}-")]
        if self.stale:
            self.make_clean([])
        units = self.usable(mine, mine, self.unit)
        units.sort(key=lambda u: (u != beside, self.seconds[u]))
        with self.flipped(site):
            # linking costs more than running: the test beside the file mostly suffices
            for part, programs in ((units[:1], []), (units[1:], PROGRAMS)):
                self.stale = bool(programs)
                if not self.make([*part, *programs]):
                    return "refused"
                red = self.first_red(part, self.unit)
                if red:
                    return red
        more = self.usable([], INTEGRATION.get(site.module, []), self.integration)
        with self.flipped(site):
            self.stale = True
            if not self.make(PROGRAMS):
                return "refused"
            return self.first_red(more, self.integration)


def run(copy, order, sample, passed):
    survivors, refused, killed = [], 0, 0
    for site in order:
        began = time.monotonic()
        red = copy.judge(site)
        if red == "refused":
            refused += 1
            print(f"refused   {site}", flush=True)
            continue
        if red:
            killed += 1
        else:
            survivors.append(site)
        word, note = ("killed", red) if red else ("SURVIVED", site.before)
        print(f"{word:9} {site}\t({note}; {time.monotonic() - began:.0f} s)", flush=True)
        if killed + len(survivors) == sample:
            break
    total = killed + len(survivors)
    print(f"{killed} of {total} turned tests red; replaced were {passed.count} equivalent and {refused} refused ones")
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
    print(f"{sum(map(len, sites.values()))} comparisons in {len(sites)} modules, seed {args.seed}", flush=True)
    passed = Passed(sites)
    piles = draw(sites, args.seed)[: args.sample]
    modules = {pile[0].module for pile in piles}
    order = in_turn([iter(pile) if args.site else passed.over(pile) for pile in piles])
    if args.list:
        print("\n".join(map(str, itertools.islice(order, args.sample))))
        return 0
    if os.geteuid() != 0:
        sys.exit("mutate.py: needs root, to run flipped programs in namespaces of their own")
    scratch = args.scratch or tempfile.mkdtemp(dir="/var/tmp", prefix="agentsh-mutate-")
    try:
        copy = Copy(scratch)
        copy.configure()
        if not copy.make([*PROGRAMS, *(u for u in copy.units if u.split("-")[1] in modules)]):
            log = (copy.dir / "build.log").read_text()
            sys.exit(f"mutate.py: the tree does not build\n{log[max(0, log.find('FAILED:')) :][:4000]}")
        return 0 if run(copy, order, args.sample, passed) else 1
    finally:
        if not args.scratch:
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
