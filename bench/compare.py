# SPDX-License-Identifier: Apache-2.0
"""Two build directories in turns within one run: the CPU time of a section's work with the first, with the second, and
with the first again, which shows the noise. Counted are the commands and our own processes. `latency` tells the time
of one `true` by HTTP over plain vfork and exec.

usage: ./dev bench compare BUILD_A BUILD_B work|clients|scripts|latency [ROUNDS]"""

import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from account import LEADERS, SETTLE_S, processes, reaped_time, run_time
from table import BENCH, all_walls, harness, lines, note
from work import Place, write_sources

ROUNDS = 31
CLIENTS = 8
COMMANDS = 100  # of each client


class Work:
    """Work like a configure, with all walls."""

    def __init__(self, server):
        self.place = Place(server)
        write_sources(self.place.workspace)

    def run(self):
        return self.place.run("configure.sh")[0]


class Clients:
    """Many clients with a session each, which run `true`."""

    request = {"command": "/bin/true"}

    def __init__(self, server):
        self.server = server
        self.sessions = [server.session() for _ in range(CLIENTS)]

    def used(self):
        total = run_time(self.server.pid) + run_time(self.server.api_pid())
        for session in self.sessions:
            who = processes(self.server, session)
            total += sum(map(run_time, who["warden"] + who[LEADERS])) + sum(map(reaped_time, who[LEADERS]))
        return total

    def run_one(self, session):
        c = self.server.connect()
        for _ in range(COMMANDS):
            a = self.server.post(f"{session.path}/exec", self.request, connection=c)
            assert a.status == 200, a.body
        c.close()

    def run(self):
        before = self.used()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self.run_one, self.sessions))
        time.sleep(SETTLE_S)
        return self.used() - before


class Scripts(Clients):
    request = {"script": "exit 0"}


SECTIONS = {"work": Work, "clients": Clients, "scripts": Scripts}


def start(build):
    harness.BUILD, harness.AGENTSH = build, build / "agentsh"
    return harness.Server(config={"logging": {"level": "warn"}}).start()


def latency(builds, rounds):
    """Each build has two servers: the programs of one build with more servers than the other would be in caches more."""
    servers = [start(b) for b in (*builds, *builds)]
    try:
        sessions = [s.session(**all_walls(s)) for s in servers]
        ways = [f"http@{s.socket}#{session.id}#" for s, session in zip(servers, sessions, strict=True)]
        args = (BENCH / "bench_exec", "latency", rounds, servers[0].socket, sessions[0].id, "{}", harness.AGENTSH)
        native, *got, _ = lines(*args, "native", *ways, "native-again")  # what is at an end runs twice in a row
    finally:
        for s in servers:
            s.cleanup()
    note("native", f"median {native['median_us']:.0f} us, p95 {native['p95_us']:.0f} us")
    for name, r in zip(("A", "B", "A again", "B again"), got, strict=True):
        note(f"true by HTTP, {name}", f"over native {r['over_first_us']:.0f} us, p95 {r['p95_us']:.0f} us")
    return 0


def compare(args):
    if len(args) not in (3, 4) or args[2] not in (*SECTIONS, "latency"):
        sys.exit(__doc__)
    harness.ensure_user()
    builds = [Path(d).resolve() for d in args[:2]]
    if args[2] == "latency":
        return latency(builds, int(args[3]) if len(args) == 4 else 1000)
    servers = [start(b) for b in builds]
    try:
        a, b = (SECTIONS[args[2]](s) for s in servers)
        for one in (a, b):  # files and programs are in the page cache then
            one.run()
        got = [[one.run() for one in (a, b, a)] for _ in range(int(args[3]) if len(args) == 4 else ROUNDS)]
    finally:
        for s in servers:
            s.cleanup()
    first, second, again = (statistics.median(t) * 1000 for t in zip(*got, strict=True))
    note(f"{args[2]}, A: {builds[0]}", f"CPU {first:.0f} ms, again {again:.0f} ms")
    note(f"{args[2]}, B: {builds[1]}", f"CPU {second:.0f} ms")
    note("A/A, the noise", f"{statistics.median(z / x for x, _, z in got):.3f} x")
    note("B/A", f"{statistics.median(2 * y / (x + z) for x, y, z in got):.3f} x")
    return 0
