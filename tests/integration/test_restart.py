# SPDX-License-Identifier: Apache-2.0
"""Killed servers: commands go on, results and events are there afterwards, nothing is left over."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import threading
import time
import uuid

import harness
import pytest


def kill_api(server):
    pid = harness.wait_for(server.api_pid, "an API child")
    os.kill(pid, signal.SIGKILL)
    harness.wait_for(lambda: server.api_pid() not in (None, pid), "the next API child")


def kill_launcher(server, both=False):
    api = server.api_pid()
    if both and api:
        os.kill(api, signal.SIGKILL)
    server.process.kill()
    server.process.wait()
    if api:
        harness.wait_for(lambda: not harness.alive(api), "the API child ends with its launcher", 5)
    server.start()


VICTIMS = {
    "api": kill_api,
    "launcher": kill_launcher,
    "both": lambda s: kill_launcher(s, both=True),
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_ses_8_commands_survive(server, victim):
    s = server.session()
    s.exec(script="export KEPT=1; cd /tmp")
    done = s.exec("echo", "before")
    gate = harness.Gate(s)
    running = s.exec(script=f"echo half; {gate.wait}; echo whole; export LATER=2", detach=True, status=202)
    harness.wait_for(lambda: s.output(running["command_id"])["data"], "the first half")
    VICTIMS[victim](server)
    r = s.get()
    assert r["state"] == "busy" and r["environment"]["KEPT"] == "1" and r["queue"]["running"] == running["command_id"]
    assert s.output(running["command_id"])["data"] == "half\n"
    gate.open()
    harness.wait_for(lambda: s.get("/commands/" + running["command_id"])["state"] == "finished", "it finishes")
    assert s.output(running["command_id"])["data"] == "half\nwhole\n"
    assert s.output(done["command_id"])["data"] == "before\n"
    assert s.out('echo "$KEPT $LATER $PWD"') == "1 2 /tmp\n"
    types = [
        e["type"]
        for e in s.history(command_id=running["command_id"], type="command_queued,command_started,command_finished")
    ]
    assert types == ["command_queued", "command_started", "command_finished"]
    s.destroy()


@pytest.mark.parametrize("victim", VICTIMS)
def test_ses_8_results_that_came_while_nobody_listened(server, victim):
    s = server.session()
    marker = s.workspace / "done"
    c = s.exec(script="sleep 0.4; echo result; touch done; exit 7", detach=True, status=202)
    harness.wait_for(lambda: s.get("/commands/" + c["command_id"])["state"] == "running", "running")
    if victim == "api":
        kill_api(server)
    else:
        server.process.kill()
        server.process.wait()
        harness.wait_for(marker.exists, "the command ends without a server")
        server.start()
    harness.wait_for(lambda: s.get("/commands/" + c["command_id"])["state"] == "finished", "the result is known")
    assert s.get("/commands/" + c["command_id"])["exit_code"] == 7
    assert s.output(c["command_id"])["data"] == "result\n"
    s.destroy()


def test_ses_8_idempotent_retry_after_a_kill(server):
    s = server.session()
    key = uuid.uuid4().hex
    body = {"script": "echo x >> runs; sleep 0.5; echo answer"}
    errors = []

    def ask():
        try:
            server.post(f"{s.path}/exec", body, headers={"Idempotency-Key": key})
        except OSError as e:
            errors.append(e)

    t = threading.Thread(target=ask)
    t.start()
    harness.wait_for((s.workspace / "runs").exists, "it runs")
    kill_api(server)
    t.join()
    assert errors
    a = server.post(f"{s.path}/exec", body, headers={"Idempotency-Key": key})
    assert a.status == 200 and a.json["result"]["stdout"] == "answer\n", a.body
    assert (s.workspace / "runs").read_text() == "x\n"
    s.destroy()


def test_ses_8_queued_commands_are_lost_not_run(server):
    s = server.session()
    s.exec(script="sleep 2", detach=True, status=202)
    key = uuid.uuid4().hex
    body = {"script": "touch /workspace/ran", "detach": True}
    queued = server.post(f"{s.path}/exec", body, headers={"Idempotency-Key": key}).json
    kill_api(server)
    assert (
        harness.wait_for(lambda: server.get(f"/api/v1/commands/{queued['command_id']}").json, "it is known")["state"]
        == "lost"
    )
    again = server.post(f"{s.path}/exec", body, headers={"Idempotency-Key": key})
    assert again.status in (200, 202) and again.json["command_id"] == queued["command_id"], again.body
    s.exec("true")
    assert not (s.workspace / "ran").exists()
    s.destroy()


def test_ses_8_sessions_that_died_with_the_machine(new_server):
    server = new_server()
    s = server.session()
    c = s.exec(script="sleep 1000", detach=True, status=202)
    harness.wait_for(lambda: s.get("/commands/" + c["command_id"])["state"] == "running", "running")
    wardens = server.warden_pids()
    server.process.kill()
    server.process.wait()
    for w in wardens:
        os.kill(w, signal.SIGKILL)
    server.start()
    r = s.get()
    assert r["state"] == "failed" and r["failure"]
    assert s.get("/commands/" + c["command_id"])["state"] in ("killed", "lost")
    harness.wait_for(lambda: not list(server.runtime.glob("sessions/*")), "its files are swept")


def test_ses_8_many_kills_under_load(new_server):
    """Every command appends its id to a file; answers, file and store agree, no id runs twice."""
    server = new_server(config={"logging": {"level": "warn"}})
    sessions = [server.session() for _ in range(4)]
    stop = threading.Event()
    answered, asked = {}, {}

    def client(s):
        n = 0
        while not stop.is_set():
            n += 1
            cid = f"{s.id[-6:]}-{n}"
            asked[cid] = s
            with contextlib.suppress(OSError, json.JSONDecodeError):
                a = server.post(
                    f"{s.path}/exec",
                    {"script": f"echo {cid} >> /workspace/ran; echo {cid}", "command_id": cid},
                    headers={"Idempotency-Key": cid},
                )
                if a.status == 200:
                    answered[cid] = a.json

    threads = [threading.Thread(target=client, args=(s,)) for s in sessions]
    for t in threads:
        t.start()
    for i in range(6):
        time.sleep(0.3)
        (kill_api if i % 2 else kill_launcher)(server)
    stop.set()
    for t in threads:
        t.join()
    for s in sessions:
        ran = (s.workspace / "ran").read_text().split()
        assert len(ran) == len(set(ran))
        for cid, answer in answered.items():
            if asked[cid] is s and answer["result"]["exit_code"] == 0:
                assert cid in ran and answer["result"]["stdout"] == f"{cid}\n"
        for cid in [c for c, owner in asked.items() if owner is s]:
            record = server.get(f"/api/v1/commands/{cid}")
            if record.status == 404:
                assert cid not in ran
                continue
            path = f"/api/v1/commands/{cid}"
            harness.wait_for(
                lambda path=path: server.get(path).json["state"] not in ("running", "queued"), "it is settled"
            )
            state = server.get(path).json["state"]
            finished = [e for e in s.history(command_id=cid) if e["type"] == "command_finished"]
            if state == "finished":
                assert cid in ran and len(finished) == 1
            if state == "lost":
                assert cid not in ran
    assert answered
    for s in sessions:
        s.destroy()
    harness.wait_for(lambda: not server.warden_pids(), "the wardens end")


def test_ses_8_a_stopped_warden_keeps_only_its_own_session_waiting(new_server):
    """After a restart the other sessions are served although one warden says nothing."""
    server = new_server()
    stuck = server.session()
    warden = server.warden_pids()[0]
    other = server.session()
    c = stuck.exec(script="sleep 1000", detach=True, status=202)
    harness.wait_for(lambda: stuck.get("/commands/" + c["command_id"])["state"] == "running", "running")
    os.kill(warden, signal.SIGSTOP)
    try:
        kill_launcher(server)  # start() waits for the ready line, which a stopped warden must not hold back for long
        assert other.out("echo served") == "served\n"
        a = server.post(f"{stuck.path}/exec", {"command": "true"})
        assert (a.status, a.code) == (503, "E_UNAVAILABLE")
        a = server.post(f"{stuck.path}/kill/{c['command_id']}", {})
        assert (a.status, a.code) == (503, "E_UNAVAILABLE")  # not taken for one that never ran
    finally:
        os.kill(warden, signal.SIGCONT)
    harness.wait_for(lambda: stuck.get("/commands/" + c["command_id"])["state"] == "running", "it answers")
    assert stuck.get()["queue"]["running"] == c["command_id"]


def test_ses_8_one_server_for_a_state_directory(new_server):
    """Another socket is no reason to write the same database, nor to take its sessions for lost."""
    first = new_server()
    s = first.session()
    second = new_server(config={"sessions": {"base_dir": str(first.state)}}, start=False)
    second.start(wait=False)
    assert second.process.wait(harness.DEADLINE) == 125
    assert f"{first.state} is in use by another server (pid {first.pid} on {first.socket})" in second.log_text()
    # the same database by its own key
    third = new_server(config={"events": {"db": str(first.state / "agentsh.db")}}, start=False)
    third.start(wait=False)
    assert third.process.wait(harness.DEADLINE) == 125
    assert "is in use by another server (process" in third.log_text()
    assert s.out("echo unharmed") == "unharmed\n"
    kill_launcher(first)  # what a killed server held is free at once
    assert s.out("echo again") == "again\n"
    seqs = [e["seq"] for e in first.get("/api/v1/events/search?limit=1000").json["events"]]
    assert seqs == list(range(1, len(seqs) + 1))
    first.stop()
    second.start()


def test_ses_8_the_socket_of_a_living_program_is_not_taken(new_server):
    server = new_server(start=False)
    server.runtime.mkdir()
    with socket.socket(socket.AF_UNIX) as theirs, socket.socket(socket.AF_UNIX) as client:
        theirs.bind(str(server.socket))
        theirs.listen()
        server.start(wait=False)
        assert server.process.wait(harness.DEADLINE) == 125
        assert f"{server.socket} is another program's socket" in server.log_text()
        client.connect(str(server.socket))
    server.start()  # it is nobody's now


def test_ses_5_without_descriptors_sessions_are_refused_and_the_others_live(new_server):
    server = new_server(start=False)
    server.command = ["prlimit", "--nofile=100:100"]
    server.start()
    ws = str(server.workspace())
    c = server.connect()
    made = []
    while (a := server.post("/api/v1/sessions", {"workspace": ws}, connection=c)).status == 201:
        made.append(a.json["id"])
        assert len(made) < 100
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT") and "RLIMIT_NOFILE" in a.json["error"]["message"]
    api = server.api_pid()
    for sid in made[:3]:
        a = server.call("DELETE", f"/api/v1/sessions/{sid}", connection=c)
        assert a.status == 200, a.body
    for sid in made[3:]:  # what each keeps ready for its next command gives way
        a = server.post(f"/api/v1/sessions/{sid}/exec", {"script": "echo lives"}, connection=c)
        assert a.status == 200 and a.json["result"]["stdout"] == "lives\n", a.body
    c.close()
    assert server.api_pid() == api


def jsonl(server):
    return [json.loads(line) for line in (server.state / "events.jsonl").read_text().splitlines()]


def test_ses_8_a_damaged_redo_file_needs_a_word_of_the_operator(new_server):
    """Numbers that JSONL has are not given out again, and what was lost is told."""
    server = new_server()
    s = server.session()
    s.exec("true")
    api = server.api_pid()
    # Nothing gets into the database any more, but all that happens is told and safe from SIGKILL.
    with sqlite3.connect(server.state / "agentsh.db", isolation_level=None) as db:
        harness.wait_for(lambda: db.execute("SELECT max(seq) FROM events").fetchone()[0], "the first events")
        db.execute("BEGIN IMMEDIATE")
        stored = db.execute("SELECT max(seq) FROM events").fetchone()[0]
        c = server.connect()
        c.request("POST", f"{s.path}/exec", '{"command": "true"}', {"Content-Type": "application/json"})
        harness.wait_for(lambda: jsonl(server)[-1]["seq"] > stored, "events in JSONL")
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        harness.wait_for(lambda: not harness.alive(api), "the end of the API process")
        c.close()
        highest = jsonl(server)[-1]["seq"]
        db.execute("ROLLBACK")
    db.close()
    for path in server.state.glob("agentsh.db-redo*"):
        with open(path, "r+b") as f:
            f.seek(4096 + 8)
            f.write(b"damaged")
    for pid in server.warden_pids():
        os.kill(pid, signal.SIGKILL)
    server.start(wait=False)
    assert server.process.wait(timeout=harness.DEADLINE) != 0
    assert "is damaged" in server.log_text() and "--accept-loss" in server.log_text()
    server.start("--accept-loss")
    server.session().exec("true")
    seqs = [e["seq"] for e in jsonl(server)]
    assert seqs == sorted(set(seqs))
    first = next(e for e in jsonl(server) if e["seq"] > highest)
    assert first["type"] == "events_dropped" and first["seq"] == highest + 1 and first["count"] == highest - stored
    server.stop()
    assert "is damaged" in server.log_text()
    server.log.write_text("")  # errors were meant to be there
    server.start()


def test_evt_2_a_stop_brings_jsonl_up_to_date(new_server):
    server = new_server()
    for _ in range(5):
        server.session().exec("true")
    server.stop()
    with sqlite3.connect(server.state / "agentsh.db") as db:
        last = db.execute("SELECT max(seq) FROM events").fetchone()[0]
    db.close()
    assert [e["seq"] for e in jsonl(server)] == list(range(1, last + 1))


def test_cfg_1_a_symlinked_state_directory_is_named(new_server):
    server = new_server(start=False)
    real = server.dir / "real"
    real.mkdir()
    server.state.symlink_to(real)
    server.start(wait=False)
    assert server.process.wait(timeout=harness.DEADLINE) != 0
    assert f"is a symbolic link: name the directory that it leads to, {real}" in server.log_text()
    server.state.unlink()
    server.start()
