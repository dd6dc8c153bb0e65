# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: medians of interleaved rounds and ratios within one run; each row has its goal.

usage: ./dev bench [SECTION]…   all sections if none is named
       ./dev bench compare BUILD_A BUILD_B work|clients|scripts|latency [ROUNDS]"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from account import profile, profile_run
from cgroups import control_file
from compare import compare
from designs import designs
from exec_check import exec_check
from history import history
from jobs import jobs
from output import output
from table import BENCH, PROGRAMS, all_walls, harness, lines, note, row, rows
from weights import weights
from work import work

from fs import fs, fs_reads


def measure(server, rounds, session, wanted, ways):
    """Runs the ways in turns; prints and returns what each took."""
    os.environ["AGENTSH_SERVER"] = f"unix:{server.socket}"
    args = [rounds, server.socket, session.id, json.dumps(wanted), harness.AGENTSH, *ways]
    got = {r["way"]: r for r in lines(BENCH / "bench_exec", "latency", *args)}
    for way in ways:
        r = got[way]
        over = f"over {ways[0]} {r['over_first_us']:8.0f} us   p90 {r['p90_us']:8.0f} us"
        print(f"      {way:14} median {r['median_us']:8.0f} us   {over}")
    return got


def latency(server):
    """What is compared is run in turns, and nothing else: a new session's pool is filled again behind it, and a script
    or a CLI leaves other caches than a command does."""
    limits = all_walls(server)
    session = server.session(**limits)
    wanted = {"workspace": str(server.workspace())}
    rounds = os.environ.get("BENCH_ROUNDS", "400")
    got = measure(server, rounds, session, wanted, ["native", "native-again", "http"])
    noise = abs(got["native-again"]["over_first_us"])
    row("A/A: native against native", f"{noise:.0f} us", "the noise", True)
    http = got["http"]["over_first_us"]
    row("exec of true by HTTP over native, all walls", f"{http:.0f} us", "at most 300 us", http <= 300)
    late, native = got["http"]["p95_us"], got["native"]["p95_us"]
    row("p95 of it", f"{late:.0f} us", f"at most native's + 800 us = {native + 800:.0f} us", late <= native + 800)
    got = measure(server, rounds, session, wanted, ["sh", "sh-again", "script"])
    script = got["script"]["over_first_us"]
    row("script 'exit 0' over native sh -c", f"{script:.0f} us", "at most 1500 us", script <= 1500)
    got = measure(server, rounds, session, wanted, ["native", "sh", "cli", "cli-shell", "cli-version"])
    limit = 3 * got["sh"]["median_us"] + got["cli-version"]["median_us"]
    row(
        "CLI exec",
        f"{got['cli']['median_us']:.0f} us",
        f"at most 3 x sh + own process = {limit:.0f} us",
        got["cli"]["median_us"] <= limit,
    )
    got = measure(server, rounds, session, wanted, ["bwrap", "session"])
    both, bwrap = got["session"]["median_us"], got["bwrap"]["median_us"]
    row("session create and destroy", f"{both:.0f} us", f"below bwrap's start = {bwrap:.0f} us", both < bwrap)
    session.destroy()


def sessions(server):
    """Each create finds the pool full; the destroys are measured apart."""
    limits = all_walls(server)
    session = server.session(**limits)
    wanted = {"workspace": str(server.workspace()), **limits}
    ways = ["bwrap", "bwrap-again", "create", "destroy"]
    got = measure(server, 60, session, wanted, ways)
    bwrap, create = got["bwrap"]["median_us"], got["create"]["median_us"]
    row("A/A: bwrap against bwrap", f"{abs(got['bwrap-again']['over_first_us']):.0f} us", "the noise", True)
    row(
        "session create, all walls, from the pool",
        f"{create:.0f} us",
        f"below bwrap = {bwrap:.0f} us",
        create < bwrap,
    )
    note("session destroy", f"{got['destroy']['median_us']:.0f} us")
    session.destroy()


def run(server):
    """The CLI's own process, a session and a command. At once: a run begins when the one before it has answered."""
    os.chdir(server.workspace())
    session = server.session()
    ways = ["bwrap", "bwrap-again", "run", "run-at-once", "cli-version"]
    rounds = os.environ.get("BENCH_ROUNDS", "100")
    got = measure(server, rounds, session, {"workspace": os.getcwd()}, ways)
    first = got["bwrap"]["median_us"]
    row("A/A: bwrap against bwrap", f"{got['bwrap-again']['median_us'] / first:.2f} x", "the noise", True)
    for way, name in (("run", "agentsh run -- true"), ("run-at-once", "the same right after another")):
        us = got[way]["median_us"]
        row(name, f"{us:.0f} us = {us / first:.2f} x bwrap", "at most 1.0 x", us <= first)
    session.destroy()
    run_designs(server, rounds)
    profile_run(server)


def run_designs(server, rounds):
    """The same in turns with servers that differ in one thing: the rings on a tmpfs, as /run is one, and no pool."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        os.chmod(place, 0o755)
        path = Path(place) / "agentsh.sock"
        tmpfs = harness.Server(config={"logging": {"level": "warn"}, "server": {"unix_socket": str(path)}})
        tmpfs.socket, tmpfs.runtime = path, Path(place)
        empty = harness.Server(config={"logging": {"level": "warn"}, "sandbox": {"pool_size": 0}})
        designs = {"as it is": server, "rings on a tmpfs": tmpfs, "no pool": empty}
        try:
            ways = [f"run@{s.socket}#none#{harness.AGENTSH}" for s in (server, tmpfs.start(), empty.start())]
            args = [rounds, server.socket, "none", "{}", harness.AGENTSH, "bwrap", *ways]
            bwrap, *got = lines(BENCH / "bench_exec", "latency", *args)
        finally:
            tmpfs.cleanup()
            empty.cleanup()
    for name, r in zip(designs, got, strict=True):
        ratio = r["median_us"] / bwrap["median_us"]
        note(f"run, {name}", f"{r['median_us']:.0f} us = {ratio:.2f} x bwrap, p90 {r['p90_us']:.0f} us")


BOMB = "perl -e 'fork while 1'"


def neighbours(server):
    """Both sessions have the default policy's limits, and CPU groups of equal weight. A round without the bomb comes
    before and after it."""
    quiet, bomb = server.session(), server.session()
    wanted = {"workspace": str(server.workspace())}
    before = measure(server, 200, quiet, wanted, ["http"])["http"]["median_us"]
    command = bomb.exec(script=BOMB, detach=True, status=202)
    size = lambda: int(control_file(server, bomb, "pids.current") or 0)  # noqa: E731
    harness.wait_for(lambda: size() >= 4000, "the bomb meets pids_max", show=size)
    during = measure(server, 200, quiet, wanted, ["http"])["http"]["median_us"]
    state = server.get(f"{bomb.path}/commands/{command['command_id']}").json["state"]
    bomb.destroy()
    after = measure(server, 200, quiet, wanted, ["http"])["http"]["median_us"]
    row("exec beside a fork bomb, A/A of the idle ones", f"{after / before:.2f} x", "the noise", True)
    row(
        "exec beside a fork bomb in another session",
        f"{during:.0f} us of {before:.0f} us = {during / before:.1f} x",
        "at most 10 x idle, the bomb runs on",
        during <= 10 * before and state == "running",
    )
    quiet.destroy()


def clients(server):
    """Commands per second and the 99th percentile of their times, beside plain vfork+exec by as many threads."""
    limits = all_walls(server)
    for n, more, name, goal in (
        (1, {}, "1 client", 0),
        (8, {}, "8 clients", 0),
        (32, {}, "32 clients", 0.60),
        (32, limits, "32 clients, sessions with limits", 0.57),
    ):
        wanted = {"workspace": str(server.workspace()), **more}
        r = lines(BENCH / "bench_exec", "clients", n, 10, server.socket, json.dumps(wanted))[0]
        ratio = r["ours_per_s"] / r["native_per_s"]
        text = f"{r['ours_per_s']}/s of {r['native_per_s']}/s = {ratio:.2f}"
        row(name, text, f"at least {goal} x native" if goal else "no failure", ratio >= goal)
        slow = r["ours_p99_us"] / r["native_p99_us"]
        text = f"{r['ours_p99_us'] / 1000:.1f} ms of {r['native_p99_us'] / 1000:.1f} ms = {slow:.2f} x"
        if n < 32:
            note(f"{name}, p99", text)
        else:
            row(f"{name}, p99", text, "at most 1.5 x native", slow <= 1.5)


def events(server):
    with tempfile.TemporaryDirectory(dir=server.dir) as d:
        r = lines(BENCH / "bench_events", d, 9, 20000)[0]
    row(
        "events into the store, synthetic",
        f"{r['ours_per_s']}/s of {r['bare_per_s']}/s = {r['ratio']:.2f}",
        "at least 0.5 x bare SQLite, none lost",
        r["ratio"] >= 0.5 and r["stored"] == r["sent"] and r["chain_bad"] == 0,
    )
    session = server.session()
    before = session.get("/history?limit=1")["total"]
    n = 300
    c = server.connect()
    for _ in range(n):
        server.post(f"{session.path}/exec", {"command": "/bin/true"}, connection=c)
    c.close()
    made = session.get("/history?limit=1")["total"] - before
    # queued, started, exec, finished, ready->busy, busy->ready
    row("events by real operations", f"{made} of {n} commands", f"{6 * n}: none lost", made == 6 * n)
    session.destroy()


def pss(pid, without=()):
    total, skip = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            skip = any(w in line for w in without)
        elif line.startswith("Pss:") and not skip:
            total += int(line.split()[1])
    return total / 1024


def memory(server):
    made = [server.session() for _ in range(8)]
    for s in made:
        s.exec("true")
    whole = pss(server.pid) + pss(server.api_pid())
    row("PSS of the server (launcher + API)", f"{whole:.1f} MB", "at most 10 MB", whole <= 10)
    wardens = [pss(w, without=(".ring", ".ack")) for w in server.warden_pids()]
    row("PSS of a warden without the rings", f"{max(wardens):.2f} MB", "at most 2 MB", max(wardens) <= 2)
    for s in made:
        s.destroy()
    file_server(server)
    after_sessions(500)


def file_server(server):
    """Of agentsh-fs: as the session begins, and when it knows every name of a tree."""
    s = server.session()
    s.exec("true")

    def most():
        pids = [p for p in harness.descendants_of(server.pid) if harness.program_of(p) == "agentsh-fs"]
        return max(pss(p, without=(".ring", ".ack")) for p in pids)

    idle = most()
    row("PSS of agentsh-fs, idle", f"{idle:.2f} MB", "at most 3 MB", idle <= 3)
    s.out(
        "for d in $(seq 120); do mkdir $d; (cd $d; seq -f file%g.c 100 | xargs touch); done; test $(find . -type f -size 0 | wc -l) = 12000"
    )
    after = most()
    row("PSS of agentsh-fs after a tree of 12,000 files", f"{after:.2f} MB", "at most 3 MB", after <= 3)
    s.destroy()


def after_sessions(n):
    """What stays with the API process when n sessions, all alive at once, have ended and the reaper has come by."""
    interval = 1
    server = harness.Server(config={"logging": {"level": "warn"}, "sessions": {"cleanup_interval": f"{interval}s"}})
    try:
        server.start()
        server.session().exec("true")
        before = pss(server.api_pid())
        made = [server.session() for _ in range(n)]
        for s in made:
            s.exec("true")
            s.get("/history?limit=100")
        most = pss(server.api_pid())
        for s in made:
            s.destroy()
        with contextlib.suppress(AssertionError):  # then the row is a miss
            harness.wait_for(lambda: pss(server.api_pid()) <= 5, "the reaper gives memory back", 10 * interval)
        after = pss(server.api_pid())
    finally:
        server.cleanup()
    note(f"PSS of the API process with {n} sessions", f"{most:.1f} MB ({before:.1f} MB with one)")
    row(f"PSS of the API process after {n} sessions have ended", f"{after:.1f} MB", "at most 5 MB", after <= 5)


def size(server):
    total = 0
    for name in PROGRAMS:
        if (harness.BUILD / name).is_symlink():  # another name of the same file
            continue
        out = server.dir / name
        subprocess.run(["strip", "-o", out, harness.BUILD / name], check=True)
        print(f"      {name:16} {out.stat().st_size / 1024:8.0f} KB")
        total += out.stat().st_size
    row("stripped programs together", f"{total / 1e6:.2f} MB", "at most 3.6 MB", total <= 3.6e6)


def policy(server):
    r = lines(BENCH / "bench_policy", 1000, 10000, 200)[0]
    row("decision, 1,000 rules, cached", f"{r['cached_us']:.3f} us", "under 1 us", r["cached_us"] < 1)
    row("decision, 1,000 rules, not cached", f"{r['uncached_us']:.3f} us", "under 20 us", r["uncached_us"] < 20)
    row("load of 10,000 rules", f"{r['load_ms']:.0f} ms", "under 1000 ms", r["load_ms"] < 1000)


def bpf(server):
    """What each BPF program costs a process that is in no session; an empty one shows the price of the hook itself."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    cgroup = next(where for _, where, kind, *_ in mounts if kind == "cgroup2")
    for r in lines(BENCH / "bench_bpf", 10, 4000, cgroup):
        got = f"{r['more_ns'] / 1e3:+.3f} us (A/A {r['same_ns'] / 1e3:+.3f}, without {r['without_ns'] / 1e3:.2f})"
        goal = "at most 0.1 us" if r["program"] != "empty" else "for comparison"
        row(f"{r['call']}, {r['program']}", got, goal, r["program"] == "empty" or r["more_ns"] <= 100)


SECTIONS = {
    "size": size,
    "memory": memory,
    "latency": latency,
    "sessions": sessions,
    "run": run,
    "neighbours": neighbours,
    "clients": clients,
    "weights": weights,
    "work": work,
    "exec_check": exec_check,
    "output": output,
    "events": events,
    "history": history,
    "fs": fs,
    "fs_reads": fs_reads,
    "jobs": jobs,
    "policy": policy,
    "bpf": bpf,
    "designs": designs,
    "profile": profile,
}


def main():
    names = sys.argv[1:] or list(SECTIONS)
    if names[0] == "compare":
        return compare(names[1:])
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        sys.exit(f"no benchmark '{unknown[0]}' (known: {' '.join(SECTIONS)})")
    server = harness.Server(config={"logging": {"level": "warn"}})
    try:
        server.start()
        for name in names:
            print(f"== {name}")
            SECTIONS[name](server)
    finally:
        server.cleanup()
    return 0 if all(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
