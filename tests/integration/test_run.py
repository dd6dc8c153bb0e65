# SPDX-License-Identifier: Apache-2.0
"""POST /api/v1/run and `agentsh run`: a session, its one command and its end, in one request."""

import json
import os
import re
import signal
import socket
import subprocess
import threading

import harness
import pytest


def wanted(server, command="true", *args, **session):
    return {"command": command, "args": list(args), "session": {"workspace": str(server.workspace()), **session}}


def ended(server, session_id):
    """The record of a session, once it has ended."""
    path = f"/api/v1/sessions/{session_id}"
    harness.wait_for(lambda: server.get(path).json["state"] in ("stopped", "failed"), f"{session_id} ends")
    record = server.get(path).json
    assert record["state"] == "stopped", record
    return record


def types(server, session_id):
    events = server.get(f"/api/v1/sessions/{session_id}/history?limit=100").json["events"]
    return [e["type"] for e in events if e["type"] != "session_state"]


def requests(server):
    return int(re.search(r"^agentsh_http_requests_total (\d+)", server.get("/metrics").body.decode(), re.M).group(1))


WHOLE_LIFE = ["session_created", "command_queued", "command_started", "exec", "command_finished", "session_destroyed"]


def test_cli_1_run_is_one_request(server):
    before = requests(server)
    r = server.cli(
        "run", "--workspace", server.workspace(), "--", "sh", "-c", "cat; echo err >&2; exit 7", input="in"
    )
    assert (r.stdout, r.stderr, r.returncode) == (b"in", b"err\n", 7)
    assert requests(server) - before == 2  # and the one for the metrics
    (newest, *_) = sorted(server.get("/api/v1/sessions").json["sessions"], key=lambda s: s["created"], reverse=True)
    record = ended(server, newest["id"])
    assert record["command_count"] == 1 and record["config"]["idle_timeout"] == "1m"
    assert types(server, newest["id"])[-1] == "session_destroyed"


def test_exe_1_run_answers_like_exec_and_ends_the_session(server):
    a = server.post("/api/v1/run", wanted(server, "printf", "%s", "out", environment={"A": "1"}))
    assert a.status == 200 and a.json["result"]["exit_code"] == 0 and a.json["result"]["stdout"] == "out"
    session_id = a.json["session"]["id"]
    assert session_id == a.json["session_id"] and a.json["session"]["policy"]["name"]
    record = ended(server, session_id)
    assert record["environment"]["A"] == "1"
    assert types(server, session_id) == WHOLE_LIFE
    last = server.get(f"/api/v1/sessions/{session_id}/history?type=session_destroyed").json["events"][-1]
    assert last["reason"] == "destroyed by request" and last["request_id"] == a.headers["X-Request-Id"]
    # what it wrote stays
    page = server.get(f"/api/v1/sessions/{session_id}/output/{a.json['command_id']}").json
    assert page["data"] == "out" and page["complete"]


def test_exe_1_run_names_its_session_before_the_output(server):
    stdio = harness.Stdio(server, wanted(server, "echo", "out"), path="/api/v1/run")
    assert stdio.status == 101
    kind, data = stdio.frame()
    assert kind == stdio.CONTROL
    session = json.loads(data)["session"]
    out, _, answer = stdio.finish()
    assert (out, answer["session_id"]) == (b"out\n", session["id"])
    stdio.close()
    ended(server, session["id"])


def test_exe_1_run_refuses_what_it_cannot_do(server):
    good = wanted(server)
    for body, word in (
        ({"command": "true"}, "session"),
        ({**good, "session": None}, "session"),
        ({**good, "session": {}}, "workspace"),
        ({**good, "session": {"workspace": "here"}}, "workspace"),
        ({**good, "script": "true"}, "script"),
        ({**good, "nonsense": 1}, "nonsense"),
    ):
        a = server.post("/api/v1/run", body)
        assert a.status == 400 and a.code == "E_BAD_REQUEST" and word in a.body.decode(), body
    a = server.post("/api/v1/run", good, headers={"Idempotency-Key": "once"})
    assert a.status == 400 and "Idempotency-Key" in a.json["error"]["message"]
    a = server.post("/api/v1/run", wanted(server, workspace="/no/such/place"))
    b = server.post("/api/v1/sessions", {"workspace": "/no/such/place"})
    assert (a.status, a.code) == (b.status, b.code) and a.status >= 400
    assert server.call("GET", "/api/v1/run").status == 405


def test_exe_1_a_detached_run_ends_its_session_with_the_command(server):
    a = server.post("/api/v1/run", {**wanted(server, "sleep", "1000"), "detach": True})
    assert a.status == 202
    path = f"/api/v1/sessions/{a.json['session_id']}"
    assert server.get(path).json["state"] in ("ready", "busy")
    assert server.post(f"{path}/kill/{a.json['command_id']}", {"signal": "KILL"}).status == 200
    ended(server, a.json["session_id"])


def test_exe_1_a_client_that_leaves_run_ends_command_and_session(server):
    command = wanted(server, "sh", "-c", "trap 'exit 9' HUP; echo up; cat")
    stdio = harness.Stdio(server, command, path="/api/v1/run")
    session_id = json.loads(stdio.frame()[1])["session"]["id"]
    assert stdio.frame() == (stdio.STDOUT, b"up\n")
    stdio.close()
    ended(server, session_id)
    (command,) = server.get(f"/api/v1/sessions/{session_id}/commands").json["commands"]
    assert command["state"] in ("finished", "killed")
    assert types(server, session_id)[-1] == "session_destroyed"


def test_exe_1_a_client_that_leaves_before_the_session_is_made_leaves_none(new_server):
    server = new_server()
    os.kill(server.pid, signal.SIGSTOP)  # the launcher
    try:
        body = json.dumps(wanted(server, "sleep", "1000")).encode()
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(str(server.socket))
        client.sendall(b"POST /api/v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        listed = lambda: server.get("/api/v1/sessions").json["sessions"]  # noqa: E731
        (session,) = harness.wait_for(listed, "the session is being made")
        assert session["state"] == "creating"
        client.close()
        # a request behind the end of the connection has been handled
        harness.wait_for(lambda: "abandoned" in server.log_text(), "the server notices")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    record = ended(server, session["id"])
    assert record["command_count"] == 0


def test_ses_2_run_ends_its_session_when_the_api_process_died(new_server):
    server = new_server()
    run = subprocess.Popen(
        [harness.AGENTSH, "run", "--workspace", server.workspace(), "--", "sh", "-c", "echo up; sleep 1000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=server.environment(),
    )
    assert run.stdout.readline() == b"up\n"
    os.kill(server.api_pid(), signal.SIGKILL)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 125 and b"went away" in stderr and b"could not" not in stderr
    (session,) = server.get("/api/v1/sessions").json["sessions"]
    ended(server, session["id"])


def test_ses_5_runs_in_a_row_need_room_for_one_session(new_server):
    server = new_server(config={"sessions": {"max_sessions_per_agent": 1}})
    for i in range(8):
        r = server.cli("run", "--workspace", server.workspace(), "--", "sh", "-c", f"echo {i}; sleep 60 & exit 3")
        assert (r.stdout, r.returncode) == (b"%d\n" % i, 3), r.stderr
    # one that stays is counted
    session = server.session()
    a = server.post("/api/v1/run", wanted(server))
    assert a.status == 429 and a.code == "E_RESOURCE_LIMIT"
    session.destroy()
    assert server.post("/api/v1/run", wanted(server)).status == 200


POLICY = """\
version: 1
name: strict
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: no-id, commands: [id], decision: deny}
"""


@pytest.mark.parametrize("output", ["shell", "text", "json"])
def test_pol_4_a_run_that_policy_refuses_leaves_no_session(new_server, output):
    server = new_server(start=False)
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    (directory / "strict.yaml").write_text(POLICY)
    server.merge(server.config, {"policies": {"dir": str(directory), "default": "strict"}})
    server.start()
    run = ("run", "--workspace", server.workspace(), "--output", output, "--")
    r = server.cli(*run, "id")
    assert r.returncode == 126 and b"no-id" in r.stdout + r.stderr
    (session,) = server.get("/api/v1/sessions").json["sessions"]
    ended(server, session["id"])
    assert server.cli(*run, "true").returncode == 0


def test_cli_1_run_works_with_a_server_that_has_no_such_path(server, tmp_path):
    """A server of the version before answers 404; then there are three requests."""
    place = tmp_path / "old.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(place))
    listener.listen()
    error = json.dumps(
        {"error": {"code": "E_NOT_FOUND", "message": "no such path", "subject": "/api/v1/run"}}
    ).encode()
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(error)
    asked = []

    def pump(a, b):
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)

    def serve(client):
        first = client.recv(65536)
        asked.append(first.split()[1])
        if first.startswith(b"POST /api/v1/run "):
            client.sendall(refusal + error)
            first = client.recv(65536)
        real = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        real.connect(str(server.socket))
        real.sendall(first)
        threading.Thread(target=pump, args=(client, real), daemon=True).start()
        pump(real, client)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    r = subprocess.run(
        [harness.AGENTSH, "--server", f"unix:{place}", "run", "--workspace", server.workspace(), "--", "sh", "-c",
         "echo out; exit 3"],
        capture_output=True, stdin=subprocess.DEVNULL, env=server.environment(), timeout=60,
    )  # fmt: skip
    assert (r.stdout, r.returncode) == (b"out\n", 3), r.stderr
    assert asked[0] == b"/api/v1/run"
