# SPDX-License-Identifier: Apache-2.0
"""Events: order, history, SSE with resume, JSONL, the hash chain."""

import hashlib
import json
import signal
import sqlite3

import harness
import pytest


def events_of(raw):
    out = []
    for message in raw.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in message.split("\n") if ": " in line and not line.startswith(":")
        )
        if "data" in fields:
            out.append((int(fields["id"]), json.loads(fields["data"])))
    return out


def test_evt_1_lifecycle_events(session):
    r = session.exec("sleep", "0.1")
    mine = session.history(command_id=r["command_id"])
    assert [e["type"] for e in mine] == ["command_queued", "command_started", "exec", "command_finished"]
    for e in mine:
        assert e["schema"] == 1 and e["session_id"] == session.id and e["count"] == 1
        assert e["agent_id"] == session.record["agent_id"] and e["timestamp"].endswith("Z")
    assert mine[3]["command"]["exit_code"] == 0 and mine[3]["pid"] == mine[2]["pid"] > 0
    assert "pid" not in mine[1]  # it is recorded before there is a process
    seqs = [e["seq"] for e in session.history()]
    assert seqs == sorted(seqs) and len(set(seqs)) == len(seqs)


def test_evt_1_each_exec_belongs_to_its_own_command(server):
    """Two commands at once; the processes of the first have lost their parents."""
    session = server.session(background="keep")
    orphans = "mkfifo go gone; (setsid sh -c '(cat go; uname; tail /dev/null; : > gone) &' > /dev/null 2>&1 &)"
    first = session.exec(script=orphans)["command_id"]
    second = session.exec(script="sh -c '(id; : > go; cat gone; whoami); :'")["command_id"]

    def programs(command):
        return [e["exec"]["path"].rpartition("/")[2] for e in session.history(command_id=command, type="exec")]

    harness.wait_for(lambda: "tail" in programs(first), "the events of the first command are there")
    assert sorted(set(programs(first)) - {"bash", "sh", "dash"}) == ["cat", "mkfifo", "setsid", "tail", "uname"]
    assert sorted(set(programs(second)) - {"bash", "sh", "dash"}) == ["cat", "id", "whoami"]
    session.destroy()


def test_evt_3_history_filters(server, session):
    for _ in range(3):
        session.exec("true")
    h = session.get("/history?type=command_started,command_finished&limit=4&offset=1")
    assert h["total"] == 6 and len(h["events"]) == 4
    assert {e["type"] for e in h["events"]} == {"command_started", "command_finished"}
    rest = session.get(f"/history?type=command_started,command_finished&limit=100&cursor={h['next']}")
    assert [e["seq"] for e in rest["events"]] == [
        e["seq"] for e in session.history(type="command_started,command_finished") if e["seq"] > int(h["next"])
    ]
    assert session.get("/history?since=1h")["total"] == session.get("/history")["total"]
    assert session.get("/history?since=2099-01-01T00:00:00Z")["total"] == 0
    assert session.get("/history?decision=deny")["total"] == 0
    for query in ("type=nonsense", "decision=maybe", "since=yesterday", "limit=x", "nope=1"):
        assert server.get(f"{session.path}/history?{query}").status == 400, query


POLICY = """\
version: 1
name: mixed
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: no-id, commands: [id], decision: deny, message: "who you are is known"}
  - {name: ask-date, commands: [date], decision: approve}
  - {name: mark-uname, commands: [uname], decision: log}
  - {name: other-host, commands: [hostname], decision: redirect, redirect_to: /bin/true}
"""


@pytest.fixture
def mixed(new_server):
    server = new_server(start=False)
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    (directory / "mixed.yaml").write_text(POLICY)
    server.merge(server.config, {"policies": {"dir": str(directory)}})
    return server.start().session(policy="mixed")


def test_evt_3_history_by_what_a_rule_said(mixed):
    mixed.script("id; date; uname; hostname; true")
    for decision, program in (
        ("deny", "id date"),
        ("approve", "date"),
        ("log", "uname"),
        ("redirect", "hostname"),
        ("allow", "bash uname hostname"),
    ):
        found = [e["exec"]["path"].rsplit("/", 1)[1] for e in mixed.history(decision=decision)]
        assert found == program.split(), decision


def test_exe_2_a_denial_inside_is_told_in_the_result(mixed):
    answer = mixed.script("id")
    error = answer["result"]["error"]
    assert answer["result"]["exit_code"] == 126 and error["code"] == "E_POLICY_DENIED"
    assert error["path"] == "/usr/bin/id" and error["subject"] == answer["command_id"]
    assert error["policy"]["rule"] == "no-id" and error["policy"]["reason"] == "who you are is known"
    blocked = answer["events"]["blocked_operations"][0]["policy"]
    assert error["policy"] == {k: blocked[k] for k in error["policy"]}
    assert mixed.get(f"/commands/{answer['command_id']}")["error"] == error
    assert mixed.script("id; true")["result"]["error"] is None  # it did not fail by it
    r = mixed.server.cli("exec", mixed.id, "--", "id")
    body = json.loads(r.stdout)  # the same, before a process was started
    assert r.returncode == 126 and body["error"]["policy"] == error["policy"] and b"no-id" in r.stderr


def test_evt_6_sse_live_and_resume(server, session):
    c = server.connect(timeout=20)
    c.request("GET", f"{session.path}/events")
    r = c.getresponse()
    assert r.status == 200
    for _ in range(3):
        session.exec("true")
    text = ""
    while text.count('"type":"command_finished"') < 3:
        text += r.read1(65536).decode()
    live = events_of(text)
    c.close()
    assert [s for s, _ in live] == sorted({s for s, _ in live})
    middle = live[len(live) // 2][0]
    session.exec("true")
    c = server.connect(timeout=20)
    c.request("GET", f"{session.path}/events?type=command_finished", headers={"Last-Event-ID": str(middle)})
    r = c.getresponse()
    want = [e["seq"] for e in session.history(type="command_finished") if e["seq"] > middle]
    text = ""
    while len(events_of(text)) < len(want):
        text += r.read1(65536).decode()
    assert [s for s, _ in events_of(text)] == want
    c.close()


def test_evt_6_resume_gives_exactly_the_next_event(server):
    """From every event of a session: what follows it, none twice and none missing."""
    s = server.session()
    s.script("true; false")
    s.destroy()
    seqs = [e["seq"] for e in s.history()]
    assert len(seqs) > 5
    for n in range(len(seqs) - 1):
        a = server.get(f"{s.path}/events", headers={"Last-Event-ID": str(seqs[n])})  # ends with the last event
        assert [seq for seq, _ in events_of(a.body.decode())] == seqs[n + 1 :], seqs[n]


def test_evt_6_the_stream_ends_with_the_session(server):
    s = server.session()
    c = server.connect(timeout=20)
    c.request("GET", f"{s.path}/events")
    r = c.getresponse()
    s.destroy()
    assert events_of(r.read().decode())[-1][1]["type"] == "session_destroyed"
    c.close()


def test_evt_6_bad_resume_point(server, session):
    a = server.get(f"{session.path}/events", headers={"Last-Event-ID": "abc"})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST")


def test_evt_2_jsonl_has_every_event(server):
    s = server.session()
    s.exec("true")
    s.destroy()
    lines = [json.loads(line) for line in (server.state / "events.jsonl").read_text().splitlines()]
    mine = [e for e in lines if e.get("session_id") == s.id]
    assert mine == s.history()
    assert [e["seq"] for e in lines] == list(range(1, len(lines) + 1))


def test_evt_2_jsonl_rotates_and_reopens(new_server):
    server = new_server(config={"events": {"jsonl": {"max_bytes": 4096, "keep": 100}}})
    s = server.session()
    for _ in range(20):
        s.exec("true")
    files = sorted(server.state.glob("events.jsonl*"))
    assert len(files) > 2
    seqs = sorted(json.loads(x)["seq"] for f in files for x in f.read_text().splitlines())
    assert seqs == list(range(1, len(seqs) + 1))
    (server.state / "events.jsonl").rename(server.state / "moved")
    server.process.send_signal(signal.SIGHUP)
    harness.wait_for((server.state / "events.jsonl").exists, "the file is made again")
    s.exec("true")
    assert (server.state / "events.jsonl").read_text()


def test_evt_2_rotation_keeps_as_many_files_as_it_says(new_server):
    server = new_server(config={"events": {"jsonl": {"max_bytes": 4096, "keep": 3}}})
    names = ["events.jsonl.3", "events.jsonl.2", "events.jsonl.1", "events.jsonl"]  # the oldest first
    s = server.session()
    for _ in range(30):
        s.exec("true")
    s.destroy()
    assert sorted(f.name for f in server.state.glob("events.jsonl*")) == sorted(names)
    lines = [json.loads(line) for name in names for line in (server.state / name).read_text().splitlines()]
    seqs = [e["seq"] for e in lines]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs))) and lines[-1] == s.history()[-1]
    assert seqs[0] > 1  # so that some have gone


def test_evt_2_the_chain_can_be_recomputed(server):
    s = server.session()
    for i in range(5):
        s.exec("echo", str(i))
    s.destroy()
    db = sqlite3.connect(f"file:{server.state}/agentsh.db?mode=ro", uri=True)
    previous = bytes(32)
    n = 0
    for seq, body, stored in db.execute("SELECT seq, body, hash FROM events ORDER BY seq"):
        n += 1
        assert seq == n
        previous = hashlib.sha256(previous + body.encode()).digest()
        assert previous == stored, seq
    assert n > 10
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA user_version").fetchone()[0] >= 1
    db.close()


def test_evt_3_search_is_for_admins(new_server):
    keys = [
        {
            "id": "a",
            "agent_id": "agent-1",
            "role": "agent",
            "uid": 1000,
            "sha256": hashlib.sha256(b"k1").hexdigest(),
        },
    ]
    server = new_server(keys=keys)
    s = server.session()
    found = server.get(f"/api/v1/events/search?session_id={s.id}").json
    assert found["total"] > 0 and all(e["session_id"] == s.id for e in found["events"])
    a = server.get("/api/v1/events/search", key="k1")
    assert (a.status, a.code) == (403, "E_FORBIDDEN")


def test_evt_6_a_stopping_server_ends_its_streams(new_server):
    server = new_server()
    s = server.session()
    c = server.connect()
    c.request("GET", s.path + "/events")
    r = c.getresponse()
    server.stop()
    events = [e for _, e in events_of(r.read().decode())]  # raises if the last chunk is missing
    assert [e["type"] for e in events][-1] == "session_destroyed"
    c.close()


def test_obs_1_metrics(server):
    s = server.session()
    s.exec("true")
    text = server.get("/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
    assert values["agentsh_up"] == "1" and int(values["agentsh_sessions_active"]) >= 1
    assert int(values["agentsh_events_total"]) > 3
    assert int(values['agentsh_events_by_type_total{type="command_finished"}']) >= 1
    assert any(k.startswith("agentsh_command_latency_seconds_bucket") for k in values)
    s.destroy()


MANY = 120000


def fill(db, session):
    """Many allowed execs, and a refused one at the very end, as if a server had written them."""
    with sqlite3.connect(db) as c:
        last, agent = c.execute("SELECT seq, agent_id FROM events ORDER BY seq DESC").fetchone()
        body = '{{"seq":{},"type":"exec","session_id":"{}","decision":"{}"}}'

        def rows():
            for n in range(last + 1, last + MANY + 1):
                decision = "deny" if n == last + MANY else "allow"
                yield n, n, session, agent, decision, body.format(n, session, decision), bytes(32)

        c.executemany(
            "INSERT INTO events(seq, time_us, type, session_id, agent_id, decision, path, body, hash)"
            " VALUES(?,?,'exec',?,?,?,'',?,?)",
            rows(),
        )
    c.close()
    return last + MANY


def pages(s, query):
    cursor, out = "", []
    while True:
        out.append(s.get(f"/history?{query}{cursor}"))
        if not out[-1]["next"]:
            return out
        assert not cursor.endswith("=" + out[-1]["next"])
        cursor = f"&cursor={out[-1]['next']}"


def test_evt_3_a_long_history_is_answered_in_parts(new_server):
    server = new_server()
    s = server.session()
    s.exec("true")
    server.stop()
    last = fill(server.state / "agentsh.db", s.id)
    server.start()
    first = s.get("/history?type=exec&limit=10")
    assert len(first["events"]) == 10 and first["partial"] is False
    assert first["total"] == 10000 and first["total_exact"] is False and first["next"]
    # An index finds it at once.
    found = s.get("/history?decision=deny")
    assert [e["seq"] for e in found["events"]] == [last] and found["total"] == 1
    assert found["total_exact"] is True and found["partial"] is False and found["next"] == ""
    # What no index has is looked for in parts, in which nothing is missed and nothing comes twice.
    parts = pages(s, "decision=redirect")
    assert len(parts) >= 3 and all(p["partial"] for p in parts[:-1]) and not parts[-1]["partial"]
    assert sum(len(p["events"]) for p in parts) == 0 and parts[-1]["total_exact"] is True
    both = pages(s, "type=exec,command_started&limit=10000&since=1970-01-01T00:00:00Z")
    seen = [e["seq"] for p in both for e in p["events"]]
    assert seen == sorted(set(seen)) and len(seen) == MANY + 2
    # An offset that the first part does not reach goes on in the next ones.
    far = pages(s, f"type=exec&limit=10&offset={MANY - 5}")
    assert len(far) >= 2 and [e["seq"] for p in far for e in p["events"]] == list(range(last - 5, last + 1))


def test_evt_6_a_stream_catches_up_with_a_long_history(new_server):
    server = new_server()
    server.session()
    server.stop()
    last = fill(server.state / "agentsh.db", "long")
    server.start()
    s = server.session(id="long")
    seqs = []
    c = server.connect()
    c.request("GET", f"{s.path}/events?type=exec", headers={"Last-Event-ID": "0"})
    answer = c.getresponse()
    for line in answer:
        if line.startswith(b"id: "):
            seqs.append(int(line[4:]))
        if seqs and seqs[-1] == last:
            break
    c.close()
    assert seqs == list(range(last - MANY + 1, last + 1))
