# SPDX-License-Identifier: Apache-2.0
"""A long history: how long each filter takes to answer, and what a client that asks all the time costs the others."""

import json
import os
import sqlite3
import subprocess
import sys
import time

from table import BENCH, all_walls, harness, lines, row

EVENTS = 1000000
SESSIONS = 50
TIMES = 9  # each filter
FILTERS = (
    "",
    "session_id=bench-1",
    "type=file_write",
    "type=net_close",
    "type=exec,file_write",
    "decision=deny",
    "decision=allow",
    "decision=redirect",
    "session_id=bench-1&type=exec",
    "session_id=bench-1&decision=deny",
    "session_id=bench-1&type=exec,file_write&decision=allow",
    "command_id=cmd-77",
    "since=1970-01-01T00:16:39Z",
    "until=1970-01-01T00:00:01Z",
    "since=1970-01-01T00:05:00Z&type=exec",
    "limit=10000",
    "offset=500000",
)
ASK = """
import sys
sys.path[:0] = [sys.argv[1]]
import harness
c = harness.UnixConnection(sys.argv[2])
while True:
    for q in sys.argv[3:]:
        c.request("GET", "/api/v1/events/search?" + q)
        assert c.getresponse().read()
"""


def fill(db):
    """As if so many had been written, one each millisecond since 1970: nineteen of twenty execs, some refused."""

    def rows():
        for n in range(1, EVENTS + 1):
            kind = "file_write" if n % 20 == 0 else "exec"
            decision = "deny" if n % 100 == 0 else "allow"
            session, command = f"bench-{n % SESSIONS}", f"cmd-{n // 500}"
            path = f"/workspace/src/file-{n % 1000}.c"
            body = {"seq": n, "type": kind, "session_id": session, "command_id": command, "decision": decision}
            text = json.dumps({**body, "path": path, "argv": ["x" * 200], "policy": {"rule": "r" * 60}})
            yield n, n * 1000, kind, session, command, decision, path, text, bytes(32)

    with sqlite3.connect(db) as c:
        c.execute("DELETE FROM events")
        c.executemany("INSERT INTO events VALUES(?,'ring',1,?,?,?,?,'uid-0',?,?,NULL,?,?,NULL)", rows())
    c.close()


def latency(server, session):
    wanted = json.dumps({"workspace": str(server.workspace())})
    args = [os.environ.get("BENCH_ROUNDS", "400"), server.socket, session.id, wanted, harness.AGENTSH]
    got = lines(BENCH / "bench_exec", "latency", *args, "http")
    return got[0]["median_us"]


def history(_):
    server = harness.Server(config={"logging": {"level": "warn"}, "events": {"jsonl": {"path": "none"}}})
    try:
        server.start()
        server.session().destroy()
        server.stop()
        fill(server.state / "agentsh.db")
        server.start()
        measure(server)
    finally:
        server.cleanup()


def measure(server):
    c = server.connect()
    for q in FILTERS:
        took = []
        for _ in range(TIMES):
            begin = time.monotonic()
            a = server.get(f"/api/v1/events/search?{q}", connection=c)
            took.append(time.monotonic() - begin)
            assert a.status == 200, a.body
        ms = sorted(took)[TIMES // 2] * 1000
        found = f"{len(a.json['events'])} of {a.json['total']}{' partial' if a.json.get('partial') else ''}"
        row(f"history ?{q}"[:44], f"{ms:.1f} ms, {found}", "at most 50 ms", ms <= 50)
    session = server.session(**all_walls(server))
    alone, beside = [], []
    for _ in range(5):
        alone.append(latency(server, session))
        ask = [sys.executable, "-c", ASK, harness.__file__.rsplit("/", 1)[0], server.socket, *FILTERS]
        asking = subprocess.Popen(ask)
        beside.append(latency(server, session))
        asking.kill()
        asking.wait()
    a, b = sorted(alone)[2], sorted(beside)[2]
    text = f"{b:.0f} us, {a:.0f} us without = {b / a:.2f}"
    row("exec by HTTP beside a client that queries", text, "at most 1.1 x", b <= 1.1 * a)
    session.destroy()
