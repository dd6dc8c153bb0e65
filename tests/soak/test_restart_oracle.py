# SPDX-License-Identifier: Apache-2.0
"""The restart oracle: servers are killed under load, and witnesses outside agentsh say what really happened.

Every command appends its id to a file of its workspace with one write, and tells a FIFO when it starts and ends. Eight
clients log every answer. After the kills file, answers and store must agree one to one, and nothing may be left over.
Orphans become children of this process (it is their subreaper), so whatever is left is ours to see."""

import collections
import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import random
import select
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

import harness
import pytest

CLIENTS = 8
START_US = 5000  # a kill this soon after a command's start counts as one at the start
RECOVERY_S = 0.3  # a kill this soon after another one hits a server that still finds its sessions
PR_SET_CHILD_SUBREAPER = 36

# How many kills of which victim, at which moment; the two are paired by chance (the seed is printed).
# start, end: at once when a command says so. asked: while a request is on its way. running: in the middle of a command.
# recovering: while the server comes back from the kill before.
PLANS = {
    "root": {
        "victims": {"launcher": 18, "api": 20, "both": 12},
        "moments": {"start": 16, "end": 10, "asked": 10, "running": 8, "recovering": 6},
        "least": {"launcher": 15, "running": 25, "start": 5},
    },
    "user": {
        "victims": {"launcher": 5, "api": 5, "both": 2},
        "moments": {"start": 4, "end": 2, "asked": 2, "running": 2, "recovering": 2},
        "least": {"launcher": 5, "running": 6, "start": 1},
    },
}

# The append comes first: whatever was started at all is in the file. N shows that the shell's state went on.
SCRIPT = """echo {id} >> /workspace/ran
printf '%s start {id}\\n' $EPOCHREALTIME > {signals}
export N=$((N + 1))
sleep {seconds}
echo {id} $N
printf '%s end {id}\\n' $EPOCHREALTIME > {signals}
"""


def now_us():
    return time.time_ns() // 1000


class Signals(threading.Thread):
    """Reads what the commands say of themselves; an armed action runs in this thread, at once."""

    def __init__(self, paths):
        super().__init__(daemon=True)
        self.fds = [os.open(p, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for p in paths]
        self.rest = dict.fromkeys(self.fds, b"")
        self.times = {"start": {}, "end": {}}
        self.lock = threading.Lock()
        self.armed = None
        self.over = threading.Event()

    def run(self):
        poll = select.poll()
        for fd in self.fds:
            poll.register(fd, select.POLLIN)
        while not self.over.is_set():
            for fd, _ in poll.poll(100):
                *lines, self.rest[fd] = (self.rest[fd] + os.read(fd, 65536)).split(b"\n")
                for line in lines:
                    self.take(*line.decode().split())

    def take(self, when, kind, cid):
        with self.lock:
            action = self.armed[1] if self.armed and self.armed[0] == kind else None
            if action:
                self.armed = None
        if action:
            action()
        self.times[kind].setdefault(cid, []).append(round(float(when) * 1e6))

    def arm(self, kind, action):
        with self.lock:
            self.armed = (kind, action)

    def stop(self):
        self.over.set()
        self.join()
        for fd in self.fds:
            os.close(fd)


class Client(threading.Thread):
    """One agent with one session: asks, and asks again with the same key until it knows what became of it."""

    def __init__(self, number, session, over, signals=None):
        super().__init__(daemon=True)
        self.number = number
        self.session = session
        self.server = session.server
        self.over = over
        self.signals = signals
        self.random = random.Random(number)
        self.count = 0
        self.bodies = {}
        self.answers = collections.defaultdict(list)
        self.errors = collections.Counter()
        self.asking = threading.Event()
        self.failure = None

    def run(self):
        try:
            while not self.over.is_set():
                self.round()
        except BaseException as e:
            self.failure = e

    def round(self):
        # every third one waits in the queue behind a detached one
        ids = [self.new_id(detach=True)] if self.count % 3 == 0 else []
        ids.append(self.new_id(detach=False))
        for cid in ids:
            self.ask(cid)
        for cid in ids[:-1]:
            self.watch(cid)

    def new_id(self, detach):
        self.count += 1
        cid = f"c{self.number}-{self.count}"
        seconds = self.random.choice([0, 0.01, 0.1, 0.4])
        self.bodies[cid] = {
            "script": SCRIPT.format(id=cid, seconds=seconds, signals=self.signals),
            "command_id": cid,
            "detach": detach,
        }
        return cid

    def until(self, call, good):
        """Repeats a call over dying servers; any answer but a good one or 503 is a failure."""
        end = time.monotonic() + 2 * harness.DEADLINE
        while True:
            assert time.monotonic() < end, f"no answer: {self.errors}"
            try:
                a = call()
            except (OSError, http.client.HTTPException) as e:
                self.errors[type(e).__name__] += 1
                time.sleep(0.01)
                continue
            if a.status in good:
                return a.json
            assert a.status == 503, (a.status, a.body)
            self.errors["503"] += 1
            time.sleep(0.01)

    def ask(self, cid):
        def call():
            self.asking.set()
            return self.server.post(f"{self.session.path}/exec", self.bodies[cid], headers={"Idempotency-Key": cid})

        self.answers[cid].append(self.until(call, (200, 202)))

    def watch(self, cid):
        while True:
            record = self.until(lambda: self.server.get(f"/api/v1/commands/{cid}"), (200,))
            if record["state"] not in ("queued", "running"):
                self.answers[cid].append(record)
                return
            time.sleep(0.02)


class Maker(Client):
    """Makes and destroys sessions all the time, so that kills also hit these; a retry may find its work done."""

    def round(self):
        self.count += 1
        sid = f"made-{self.count}"
        wanted = {"id": sid, "workspace": str(self.session.workspace)}
        self.until(lambda: self.server.post("/api/v1/sessions", wanted), (201, 409))
        self.until(lambda: self.server.call("DELETE", f"/api/v1/sessions/{sid}"), (200, 404, 409))


class Killer:
    """Kills the server as planned and brings it back; logs victim, moment and time."""

    def __init__(self, server, clients, signals, seed):
        self.server = server
        self.clients = clients
        self.signals = signals
        self.random = random.Random(seed)
        self.log = []
        self.seen_namespaces = set()

    def run(self, plan):
        victims = [v for v, n in plan["victims"].items() for _ in range(n)]
        moments = [m for m, n in plan["moments"].items() for _ in range(n)]
        self.random.shuffle(victims)
        self.random.shuffle(moments)
        for i, (victim, moment) in enumerate(zip(victims, moments, strict=True)):
            self.one(victim, moment)
            recover = i + 1 < len(moments) and moments[i + 1] == "recovering"
            self.bring_back(victim, wait=not recover)
            failed = [c.failure for c in self.clients if c.failure]
            assert not failed, failed

    def one(self, victim, moment):
        if moment == "recovering":
            time.sleep(self.random.uniform(0, RECOVERY_S))
        else:
            harness.wait_for(lambda: self.up(), "the server answers")
            self.seen_namespaces |= namespaces(harness.descendants_of(os.getpid()))
            time.sleep(self.random.uniform(0.05, 0.4))
        api = harness.wait_for(self.server.api_pid, "an API child") if victim == "api" else self.server.api_pid()
        pids = {"api": [api], "launcher": [self.server.pid], "both": [api, self.server.pid]}[victim]
        pids = [p for p in pids if p]

        def kill():
            when = now_us()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.log.append({"victim": victim, "moment": moment, "us": when})

        before = len(self.log)
        if moment in ("start", "end"):
            self.signals.arm(moment, kill)
            harness.wait_for(lambda: len(self.log) > before, f"a command's {moment}")
        else:
            self.wait_moment(moment)
            kill()
        for pid in pids:
            if pid != self.server.pid:
                harness.wait_for(lambda pid=pid: not harness.alive(pid), "the victim is dead")

    def wait_moment(self, moment):
        if moment == "asked":
            client = self.random.choice(self.clients[:CLIENTS])
            client.asking.clear()
            client.asking.wait(harness.DEADLINE)
            time.sleep(self.random.uniform(0, 0.008))
        elif moment == "running":
            harness.wait_for(self.some_runs, "a command runs")

    def some_runs(self):
        times = self.signals.times
        return any(c not in times["end"] for c in list(times["start"]))

    def up(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.server.get("/ready").status == 200
        return False

    def bring_back(self, victim, wait):
        if victim == "api":
            return
        api = [p for p in harness.children_of(self.server.pid) if harness.program_of(p) == "agentsh-api"]
        self.server.process.wait()
        self.server.process.stdout.close()
        for pid in api:
            harness.wait_for(lambda pid=pid: not harness.alive(pid), "the API child ends with its launcher", 5)
        reap(self.server.pid)
        self.server.start(wait=wait)

    def summary(self):
        starts = sorted((t, c) for c, ts in self.signals.times["start"].items() for t in ts)
        for kill in self.log:
            ends = self.signals.times["end"]
            kill["running"] = sum(1 for t, c in starts if t <= kill["us"] <= ends[c][0])
            kill["since_start_us"] = min((kill["us"] - t for t, _ in starts if t <= kill["us"]), default=None)
        return {
            "launcher": sum(k["victim"] == "launcher" for k in self.log),
            "running": sum(k["running"] > 0 for k in self.log),
            "start": sum(k["since_start_us"] is not None and k["since_start_us"] <= START_US for k in self.log),
        }


def reap(besides):
    """Buries the orphans that became our children."""
    for pid in harness.children_of(os.getpid()):
        if pid != besides and not harness.alive(pid):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def namespaces(pids):
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/ns"):
                found.add(os.readlink(f"/proc/{pid}/ns/{name}"))
    return found


def all_pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def programs():
    """Processes that run a program of this build, also one that was replaced."""
    mine = f"{harness.BUILD}/agentsh"
    found = set()
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/exe").startswith(mine):
                found.add((pid, harness.program_of(pid)))
    return found


def lines_with(path, words):
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if any(w in line for w in words)]


@pytest.fixture
def subreaper():
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # the thread that kills must not wait for its turn
    yield
    sys.setswitchinterval(interval)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class Before:
    """What was there before the server; compare() finds what it left over."""

    def __init__(self):
        self.mounts = Path("/proc/self/mountinfo").read_text()
        self.namespaces = namespaces(all_pids())
        self.children = set(harness.children_of(os.getpid()))
        self.programs = programs()

    def compare(self, server, seen_namespaces):
        paths = [str(server.dir), *map(str, server.workspaces)]
        harness.wait_for(lambda: not self.orphans(), f"no orphan: {self.orphans()}", 5)
        assert not programs() - self.programs
        assert Path("/proc/self/mountinfo").read_text() == self.mounts
        left = [(p, line) for p in all_pids() for line in lines_with(f"/proc/{p}/mountinfo", paths)]
        assert not left, "mounts in other namespaces"
        assert not lines_with("/proc/net/unix", paths)
        # Numbers are given out again: only what a process below this one holds is ours, and orphans come to us.
        held = namespaces(harness.descendants_of(os.getpid())) - self.namespaces
        assert not held, "namespaces of ended sessions are in use"
        assert len(seen_namespaces - self.namespaces) >= 3 * CLIENTS, "the sessions had namespaces of their own"
        files = sorted(str(f.relative_to(server.runtime)) for f in server.runtime.rglob("*"))
        assert files in (["server.lock", "sessions"], ["server.lock"], []), files

    def orphans(self):
        reap(0)
        return [(p, harness.program_of(p)) for p in harness.children_of(os.getpid()) if p not in self.children]


class Books:
    """File, answers and store of one run, to be laid side by side."""

    def __init__(self, server, clients):
        self.clients = clients
        self.jsonl = (server.state / "events.jsonl").read_text().splitlines()
        db = sqlite3.connect(f"file:{server.state}/agentsh.db?mode=ro", uri=True)
        with contextlib.closing(db):
            db.row_factory = sqlite3.Row
            self.rows = {r["id"]: r for r in db.execute("SELECT * FROM commands")}
            self.row_count = db.execute("SELECT count(*) FROM commands").fetchone()[0]
            self.events = db.execute(
                "SELECT seq, type, session_id, command_id, body, hash FROM events ORDER BY seq"
            ).fetchall()
        self.of_command = collections.defaultdict(list)
        for e in self.events:
            if e["command_id"]:
                self.of_command[e["command_id"]].append(e["type"])

    def check_chain(self):
        prev = bytes(32)
        for n, e in enumerate(self.events, 1):
            assert e["seq"] == n, f"seq {n} is missing"
            prev = hashlib.sha256(prev + e["body"].encode()).digest()
            assert e["hash"] == prev, f"the chain breaks at {n}"
            assert json.loads(e["body"])["seq"] == n
        assert self.jsonl == [e["body"] for e in self.events]

    def check_client(self, client, extra):
        ran = (client.session.workspace / "ran").read_text().splitlines()
        twice = [c for c, n in collections.Counter(ran).items() if n > 1]
        assert not twice, f"ran twice: {twice}"
        place = {cid: n for n, cid in enumerate(ran, 1)}
        assert not set(ran) - set(client.bodies), "in the file, but never asked"
        rows = {c: r for c, r in self.rows.items() if r["session_id"] == client.session.id and c not in extra}
        assert set(rows) == set(client.bodies), "asked and stored"
        finished = {c for c, r in rows.items() if r["state"] == "finished"}
        assert {r["state"] for r in rows.values()} <= {"finished", "lost"}
        assert finished == set(ran), (finished - set(ran), set(ran) - finished)
        for cid, row in rows.items():
            self.check_command(cid, row, place.get(cid), client.answers[cid])
        return len(ran), len(rows) - len(ran)

    def check_command(self, cid, row, place, answers):
        assert row["idempotency_key"] == cid
        if place is None:
            assert row["exit_code"] is None and row["started_us"] in (0, None), tuple(row)
            assert self.of_command[cid] == ["command_queued", "command_killed"], (cid, self.of_command[cid])
        else:
            assert row["exit_code"] == 0 and row["signal"] is None, tuple(row)
            assert row["stdout_bytes"] == len(f"{cid} {place}\n") and row["stderr_bytes"] == 0, tuple(row)
            types = ["command_queued", "command_started", "command_finished"]
            assert [t for t in self.of_command[cid] if t != "exec"] == types, (cid, self.of_command[cid])
        assert answers, cid
        for a in answers:
            assert a["command_id"] == cid
            self.check_answer(a, cid, place)

    @staticmethod
    def check_answer(a, cid, place):
        if "result" in a:
            r = a["result"]
            if place is None:
                assert r["exit_code"] is None and r["error"]["code"] == "E_UNAVAILABLE" and not r["stdout"], a
            else:
                assert r["exit_code"] == 0 and r["error"] is None and r["stdout"] == f"{cid} {place}\n", a
        elif a["state"] not in ("queued", "running"):
            assert a["state"] == ("lost" if place is None else "finished"), a


def check_again(client):
    """What was answered once is answered the same way for ever; the output is still there."""
    for cid, answers in list(client.answers.items())[::5]:
        again = client.server.post(
            f"{client.session.path}/exec", client.bodies[cid], headers={"Idempotency-Key": cid}
        ).json
        last = answers[-1]
        if "result" in last:
            assert again["result"] == last["result"] and again["timestamp"] == last["timestamp"], (again, last)
            assert client.session.output(cid)["data"] == last["result"]["stdout"]
        else:
            assert again["state"] == last["state"], (again, last)


@pytest.mark.parametrize("kind", PLANS)
def test_ses_8_restart_oracle(new_server, subreaper, kind, capsys):
    plan = PLANS[kind]
    seed = int(os.environ.get("AGENTSH_ORACLE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    began = time.monotonic()
    before = Before()
    server = new_server(uid=0 if kind == "root" else harness.USER_UID, start=False)
    pipes = server.dir / "signals"  # of the machine: a FIFO in the workspace would be the session's own
    pipes.mkdir()
    server.merge(server.config, {"logging": {"level": "info"}, "filesystem": {"passthrough_paths": [str(pipes)]}})
    server.start()
    over = threading.Event()
    clients = [Client(n, server.session(), over, pipes / str(n)) for n in range(CLIENTS)]
    for c in clients:
        os.mkfifo(c.signals)
        c.signals.chmod(0o666)
    maker = Maker(CLIENTS, server.session(), over)
    signals = Signals([c.signals for c in clients])
    killer = Killer(server, [*clients, maker], signals, seed)
    try:
        for t in (signals, *killer.clients):
            t.start()
        killer.run(plan)
    finally:
        over.set()
        for c in killer.clients:
            c.join(3 * harness.DEADLINE)
        signals.stop()
        with capsys.disabled():
            print(f"\n{kind}: seed {seed}, {len(killer.log)} kills")
    assert not [(c.failure, c.errors) for c in killer.clients if c.failure or c.is_alive()]
    counts = killer.summary()
    for c in clients:
        check_again(c)
    for c in killer.clients:
        c.session.destroy()
    left = [s for s in server.get("/api/v1/sessions").json["sessions"] if s["state"] not in ("stopped", "failed")]
    assert not left
    # a warden closes its link to the server, which ends the session, shortly before it ends itself
    harness.wait_for(lambda: not server.warden_pids(), "the wardens are gone", 5)
    server.stop()
    books = Books(server, clients)
    books.check_chain()
    assert len(books.rows) == books.row_count
    totals = [books.check_client(c, extra=()) for c in clients]
    before.compare(server, killer.seen_namespaces)
    with capsys.disabled():
        for n, k in enumerate(killer.log, 1):
            since = "-" if k["since_start_us"] is None else f"{k['since_start_us'] / 1000:.1f}"
            print(f"  {n:2} {k['victim']:8} {k['moment']:10} {k['running']} commands ran, {since} ms after a start")
        print(f"  of the launcher alone {counts['launcher']}, while a command ran {counts['running']}, ", end="")
        print(f"within {START_US // 1000} ms of a start {counts['start']}")
        errors = sum((c.errors for c in clients), collections.Counter())
        print(
            f"  {sum(t[0] for t in totals)} commands ran, {sum(t[1] for t in totals)} were lost and did not run, ",
            end="",
        )
        print(
            f"{len(books.events)} events, {maker.count} other sessions; clients met {dict(errors)}; {time.monotonic() - began:.0f} s"
        )
    for what, least in plan["least"].items():
        assert counts[what] >= least, (what, counts)
