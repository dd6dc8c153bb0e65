# SPDX-License-Identifier: Apache-2.0
"""Execs that are compared at their stop, and execs that the kernel checks: two servers of one build in turns."""

import statistics

from compare import Clients
from table import BENCH, harness, lines, note
from work import can_work, compare_work

WAYS = {"stop": "off", "bpf": "required"}
ROUNDS = 5
TRUES = 300  # by one script
SCRIPT = f"i=0; while [ $i -lt {TRUES} ]; do /bin/true || exit; i=$((i + 1)); done"


def latency_of(server, session):
    args = [100, server.socket, session.id, "{}", harness.AGENTSH, "native", "http"]
    got = {r["way"]: r for r in lines(BENCH / "bench_exec", "latency", *args)}
    return got["http"]["over_first_us"]


def script_of(server, session):
    """Of one program that a shell starts."""
    return session.script(SCRIPT)["result"]["duration_ms"] * 1000 / TRUES


def in_turns(servers, what, one):
    sessions = {way: s.session() for way, s in servers.items()}
    got = {way: [] for way in servers}
    for r in range(ROUNDS):
        for way in list(servers) if r % 2 == 0 else reversed(list(servers)):
            got[way].append(one(servers[way], sessions[way]))
    for way, times in got.items():
        note(f"{what}, {way}", f"{statistics.median(times):8.0f} us")
        sessions[way].destroy()


def exec_check(_):
    servers = {
        way: harness.Server(config={"logging": {"level": "warn"}, "sandbox": {"bpf": setting}})
        for way, setting in WAYS.items()
    }
    try:
        for server in servers.values():
            server.start()
        if can_work():
            compare_work(servers)
        in_turns(servers, "true by HTTP over native", latency_of)
        in_turns(servers, "true by a script", script_of)
        clients = {way: Clients(s) for way, s in servers.items()}
        used = {way: [] for way in servers}
        for _ in range(ROUNDS):
            for way in servers:
                used[way].append(clients[way].run() * 1000)
        for way, times in used.items():
            note(f"8 clients, 800 times true, {way}", f"CPU {statistics.median(times):8.0f} ms")
    finally:
        for s in servers.values():
            s.cleanup()
