# SPDX-License-Identifier: Apache-2.0
"""Work like a configure and like a make: the same script inside a session with all walls and outside, by the same
user on the same files in turns. Counted is the CPU time of the whole tree, inside with all that our processes use."""

import os
import shutil
import statistics
import subprocess
import time
from contextlib import contextmanager

from account import LEADERS, SETTLE_S, processes, reaped_time, run_time
from table import all_walls, harness, note, row

MOST = 1.12
MOST_BPF = {"configure.sh": 1.06, "make.sh": 1.03}  # where the kernel checks execs
SOURCES = 30
FUNCTIONS = 14  # of each: 100 to 200 ms of compiling
USER = harness.USER_UID

# Some 200 small programs and 20 compilations.
CONFIGURE = """\
set -e
rm -rf conf && mkdir conf && cd conf
i=0
while [ $i -lt 20 ]; do
    i=$(expr $i + 1)
    uname -s >/dev/null
    name=$(echo "conftest-$i" | sed s/-/_/)
    echo "HAVE_$name" | tr a-z A-Z >>config.h
    printf '#include <stdio.h>\\nint f_%s(void) { return puts("%s"); }\\n' $i $name >conftest$i.c
    cat conftest$i.c >config.log
    grep -q stdio.h config.log
    cc -c conftest$i.c -o conftest$i.o
    test -s conftest$i.o && rm -f config.log && /bin/true
    dirname $PWD/conftest$i.c >/dev/null
    basename $PWD/conftest$i.c >/dev/null
done
test $(ls conftest*.o | wc -l) = 20
"""
MAKE = """\
set -e
rm -rf out && mkdir out
make -s -jJOBS
test "$(./out/all)" = SUM
"""
MAKEFILE = """\
objects = $(patsubst %.c,out/%.o,$(sort $(wildcard unit*.c)))
out/all: $(objects) main.c
\tcc -O2 -o $@ main.c $(objects)
out/%.o: %.c
\tcc -O2 -c -o $@ $<
"""
FUNCTION = """\
static unsigned f{n}(const unsigned *v, unsigned n)
{{
    unsigned sum = {n}, low = ~0u;

    for (unsigned i = 0; i < n; i++) {{
        switch ((v[i] + {n}) % 7) {{
        case 0: sum += v[i] >> 3; break;
        case 1: sum ^= v[i] * {n}u; break;
        case 2: sum -= i; break;
        case 3: sum = sum << 5 | sum >> 27; break;
        default: sum += low < v[i] ? low : v[i];
        }}
        if (v[i] < low)
            low = v[i];
    }}
    return sum + low;
}}
"""


def unit(k):
    functions = range(1, FUNCTIONS + 1)
    calls = " + ".join(f"f{n}(v, 64)" for n in functions)
    head = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nextern volatile unsigned none;\n"
    text = head + "".join(FUNCTION.format(n=n) for n in functions)
    return text + f"unsigned unit{k}(const unsigned *v)\n{{\n    return none * ({calls}) + {k};\n}}\n"


def write_sources(dir):
    for k in range(SOURCES):
        (dir / f"unit{k}.c").write_text(unit(k))
    calls = " + ".join(f"unit{k}(v)" for k in range(SOURCES))
    declared = "volatile unsigned none;\n" + "".join(
        f"unsigned unit{k}(const unsigned *v);\n" for k in range(SOURCES)
    )
    body = f'int main(void)\n{{\n    static unsigned v[64];\n\n    printf("%u\\n", {calls});\n}}\n'
    (dir / "main.c").write_text("#include <stdio.h>\n" + declared + body)
    (dir / "Makefile").write_text(MAKEFILE)
    (dir / "configure.sh").write_text(CONFIGURE)
    jobs = len(os.sched_getaffinity(0))
    (dir / "make.sh").write_text(MAKE.replace("JOBS", str(jobs)).replace("SUM", str(sum(range(SOURCES)))))
    (dir / "tmp").mkdir()
    for path in [dir, *dir.iterdir()]:
        os.chown(path, USER, USER)


@contextmanager
def as_user():
    os.seteuid(USER)
    try:
        yield
    finally:
        os.seteuid(0)


class Place:
    """A session and its workspace."""

    def __init__(self, server):
        self.server = server
        limits = all_walls(server)
        self.workspace = server.workspace()
        os.chown(self.workspace, USER, USER)
        with as_user():
            a = server.post("/api/v1/sessions", {"workspace": str(self.workspace), **limits})
            assert a.status == 201, a.body
            self.session = harness.Session(server, a.json)
            self.session.exec("true")
        self.parts = []  # what each of our processes used in each run inside

    def used(self):
        who = processes(self.server, self.session)
        return {name: sum(map(run_time, pids)) for name, pids in who.items()}, sum(map(reaped_time, who[LEADERS]))

    def environment(self, top):
        path = self.session.record["environment"]["PATH"]
        return {"PATH": path, "LC_ALL": "C.UTF-8", "TMPDIR": f"{top}/tmp"}

    def run_outside(self, script):
        begin = time.monotonic()
        p = subprocess.Popen(
            ["/bin/sh", script],
            cwd=self.workspace,
            env=self.environment(self.workspace),
            user=USER,
            group=USER,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
        )
        _, status, use = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        assert p.returncode == 0, (script, p.returncode)
        return use.ru_utime + use.ru_stime, time.monotonic() - begin

    def run(self, script):
        ours, reaped = self.used()
        begin = time.monotonic()
        with as_user():
            a = self.session.exec("/bin/sh", script, env=self.environment("/workspace"))
        wall = time.monotonic() - begin
        assert a["result"]["exit_code"] == 0, a["result"]
        command = a["resources"]["cpu_time_ms"] / 1000
        time.sleep(SETTLE_S)
        now = self.used()
        # what the command says of itself is what the kernel says of the leader's children
        assert abs(now[1] - reaped - command) < 0.1, (now[1] - reaped, command)
        self.parts.append({name: now[0][name] - ours[name] for name in ours})
        return command + sum(self.parts[-1].values()), wall


def median_ratio(runs, way, against, what):
    """Against the mean of the others in the same round, between which it ran."""
    rounds = zip(runs[way], *(runs[other] for other in against), strict=True)
    return statistics.median(mine[what] / statistics.mean(o[what] for o in others) for mine, *others in rounds)


def compare(places, name, script, rounds):
    """places: by their name, which is "bpf" where the kernel checks execs."""
    outside = next(iter(places.values())).run_outside
    ways = {"outside": outside, **{way: p.run for way, p in places.items()}, "outside again": outside}
    runs = {way: [] for way in ways}
    for place in places.values():
        place.parts = []
    for r in range(rounds):
        for way in list(ways) if r % 2 == 0 else reversed(list(ways)):
            runs[way].append(ways[way](script))
    for way, got in runs.items():
        cpu, wall = (statistics.median(v) for v in zip(*got, strict=True))
        note(f"{name}, {way}", f"CPU {cpu:6.2f} s   wall {wall:6.2f} s")
    noise = median_ratio(runs, "outside again", ["outside"], 0)
    row(f"A/A: {name} outside against outside", f"CPU {noise:.3f} x", "the noise", True)
    for way, place in places.items():
        parts = {who: statistics.median(p[who] for p in place.parts) for who in place.parts[0]}
        note(f"{name}, {way}: our own", ", ".join(f"{who} {used * 1000:.0f} ms" for who, used in parts.items()))
        ratio, wall = (median_ratio(runs, way, ["outside", "outside again"], what) for what in (0, 1))
        most = MOST_BPF[script] if way == "bpf" else MOST
        row(f"{name}, {way}", f"CPU {ratio:.3f} x, wall {wall:.3f} x", f"CPU at most {most} x", ratio <= most)


def can_work():
    if os.geteuid() != 0:
        row("work inside and outside", "not measured", "run by root, for the same user on both sides", False)
        return False
    for program in ("cc", "make"):
        if shutil.which(program) is None:
            row("work inside and outside", f"no {program}", "is installed", False)
            return False
    harness.ensure_user()
    return True


def compare_work(servers, rounds=(7, 3)):
    """servers: by the name of the way in which they verify execs, or any other."""
    places = {way: Place(server) for way, server in servers.items()}
    for place in places.values():
        write_sources(place.workspace)
        for run in (place.run_outside, place.run):  # files and programs are in the page cache then
            run("configure.sh")
    compare(places, "configure-like", "configure.sh", rounds[0])
    compare(places, "make-like", "make.sh", rounds[1])
    for place in places.values():
        with as_user():
            place.session.destroy()


def work(server):
    if can_work():
        compare_work({"all walls": server})
