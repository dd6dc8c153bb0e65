# SPDX-License-Identifier: Apache-2.0
"""Running commands: answer, exit codes, stdin, time-outs, kills, idempotency, streaming."""

import base64
import http.client
import json
import os
import signal
import socket
import threading
import time
import uuid

import harness
import pytest

ANSWER = {
    "command_id", "session_id", "timestamp", "request", "result", "events", "network_summary", "resources", "state",
    "enforcement",
}  # fmt: skip
RESULT = {
    "exit_code", "signal", "stdout", "stderr", "stdout_encoding", "stderr_encoding", "stdout_truncated",
    "stdout_total_bytes", "stdout_total_lines", "stderr_truncated", "stderr_total_bytes", "stderr_total_lines",
    "duration_ms", "error", "background", "pagination",
}  # fmt: skip


def test_exe_1_answer_field_for_field(session):
    r = session.exec("sh", "-c", "echo out; echo err >&2")
    assert set(r) >= ANSWER and set(r["result"]) >= RESULT
    assert r["session_id"] == session.id
    req = r["request"]
    assert (req["command"], req["args"], req["script"]) == ("sh", ["-c", "echo out; echo err >&2"], None)
    assert req["working_dir"] == "/workspace" and req["timeout"] == "5m"
    assert (r["result"]["stdout"], r["result"]["stderr"]) == ("out\n", "err\n")
    assert r["result"]["exit_code"] == 0 and r["result"]["signal"] is None and r["result"]["error"] is None
    assert set(r["events"]) >= {
        "file_operations", "network_operations", "exec_operations", "blocked_operations", "totals", "truncated", "query",
    }  # fmt: skip
    assert set(r["events"]["totals"]) == {"file", "network", "exec", "blocked"}
    assert set(r["resources"]) == {
        "cpu_time_ms", "memory_peak_mb", "disk_read_mb", "disk_write_mb", "net_sent_kb", "net_received_kb",
    }  # fmt: skip
    assert r["resources"]["memory_peak_mb"] > 0
    assert r["state"] == {"working_dir": "/workspace", "environment_changed": []}
    assert {w["wall"] for w in r["enforcement"]} == {w["wall"] for w in session.record["enforcement"]}


def test_exe_1_resources_are_the_kernels(session):
    r = session.exec("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")["resources"]
    assert r["cpu_time_ms"] > 20
    quiet = session.exec("sleep", "0.2")["resources"]
    assert quiet["cpu_time_ms"] < r["cpu_time_ms"]


@pytest.mark.parametrize(
    "argv, code, sig, error",
    [
        (["true"], 0, None, None),
        (["false"], 1, None, None),
        (["sh", "-c", "exit 42"], 42, None, None),
        (["no-such-program"], 127, None, "E_COMMAND_NOT_FOUND"),
        (["/no/such/program"], 127, None, "E_COMMAND_NOT_FOUND"),
        (["/etc/passwd"], 126, None, "E_COMMAND_NOT_EXECUTABLE"),
        (["/tmp"], 126, None, "E_COMMAND_NOT_EXECUTABLE"),
        (["sh", "-c", "kill -KILL $$"], 137, "KILL", "E_COMMAND_KILLED"),
        (["sh", "-c", "kill -TERM $$"], 143, "TERM", "E_COMMAND_KILLED"),
        (["sh", "-c", "kill -SEGV $$"], 139, "SEGV", "E_COMMAND_KILLED"),
    ],
)
def test_exe_8_exit_codes(session, argv, code, sig, error):
    r = session.exec(*argv)["result"]
    assert (r["exit_code"], r["signal"]) == (code, sig)
    assert (r["error"] or {}).get("code") == error


def test_exe_2_a_missing_program_has_context_and_help(session):
    (session.workspace / "build.sh").write_text("#!/bin/sh\n")
    (session.workspace / "build.sh").chmod(0o755)
    error = session.exec("./biuld.sh")["result"]["error"]
    assert error["path"] == "./biuld.sh" and error["similar_files"] == ["/workspace/build.sh"]
    assert [s["command"] for s in error["suggestions"]] == ["ls /workspace"]
    assert {tuple(s) for s in error["suggestions"]} == {("action", "command", "reason")}
    assert error["request_id"].startswith("req-")
    answer = session.exec("./biuld.sh", working_dir="/tmp")
    error = answer["result"]["error"]
    assert error["context"] == {"working_dir": "/tmp", "command": "./biuld.sh"} and error["similar_files"] == []
    assert session.get(f"/commands/{answer['command_id']}")["error"] == error


def test_exe_1_the_first_exec_knows_its_parent(session):
    # An exec that follows at once is seen before the leader says that its command runs.
    for _ in range(10):
        first, second = session.exec("env", "env", "true")["events"]["exec_operations"][:2]
        assert first["pid"] == second["pid"] and first["exec"]["ppid"] == second["exec"]["ppid"] > 0


def test_exe_4_stdin_env_cwd_argv0(session):
    assert session.exec("cat", stdin="hello\n")["result"]["stdout"] == "hello\n"
    data = bytes(range(256))
    r = session.exec("cat", stdin=base64.b64encode(data).decode(), encoding="base64")["result"]
    assert r["stdout_encoding"] == "base64" and base64.b64decode(r["stdout"]) == data
    assert session.exec("sh", "-c", "echo $X", env={"X": "only here"})["result"]["stdout"] == "only here\n"
    assert session.out("echo $X") == "\n"
    assert session.exec("pwd", working_dir="/tmp")["result"]["stdout"] == "/tmp\n"
    assert session.get()["working_dir"] == "/workspace"
    assert session.exec("sh", "-c", "echo $0; cat /proc/$$/cmdline | tr '\\0' ' '", argv0="custom")["result"][
        "stdout"
    ].endswith("custom -c echo $0; cat /proc/$$/cmdline | tr '\\0' ' ' ")
    assert session.exec("cat")["result"]["stdout"] == ""  # no stdin is empty, not a hang


def test_exe_4_missing_working_dir_is_refused(server, session):
    a = server.post(f"{session.path}/exec", {"command": "true", "working_dir": "/no/such"})
    assert a.status == 400, a.body
    assert "working_dir" in a.body.decode()


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"command": "true", "script": "true"},
        {"command": ""},
        {"command": 5},
        {"command": "true", "args": "x"},
        {"command": "true", "args": [1]},
        {"command": "true", "timeout": "soon"},
        {"command": "true", "timeout": 5},
        {"command": "true", "encoding": "latin1"},
        {"command": "true", "stdin": "!!!", "encoding": "base64"},
        {"command": "true", "max_output_bytes": -1},
        {"command": "true", "command_id": "a b"},
        {"command": "true", "env": {"A=B": "x"}},
        {"command": "true", "surprise": 1},
        {"command": "a\0b"},
    ],
)
def test_exe_4_bad_requests(server, session, wanted):
    a = server.post(f"{session.path}/exec", wanted)
    assert (a.status, a.code) == (400, "E_BAD_REQUEST"), a.body


def test_exe_4_script_too_long_is_said_so(server, session):
    a = server.post(f"{session.path}/exec", {"script": "#" * 200_000})
    assert a.status in (400, 413), a.body
    assert "script" in a.body.decode()


STUBBORN = [
    "trap '' TERM HUP INT; sleep 1000",
    "setsid sleep 1000 & setsid sleep 1000 & sleep 1000",
    "(sleep 1000 & ) ; (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & ) ; sleep 1000",
    "sh -c 'kill -STOP $$' & sleep 1000",
    "f() { sleep 1000 & f2; }; f2() { :; }; for i in 1 2 3 4 5 6 7 8; do (setsid sleep 1000 &) ; done; sleep 1000",
]


@pytest.mark.parametrize("script", STUBBORN)
def test_exe_4_timeout_ends_the_whole_tree(server, session, script):
    begun = time.monotonic()
    r = session.exec(script=f"echo partial; {script}", timeout="500ms")
    assert time.monotonic() - begun < 5
    assert r["result"]["exit_code"] == 124 and r["result"]["error"]["code"] == "E_COMMAND_TIMEOUT"
    assert r["result"]["stdout"] == "partial\n"
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")
    assert "command_timeout" in [e["type"] for e in session.history(command_id=r["command_id"])]


def test_exe_4_fork_storm_is_ended(session):
    r = session.exec(
        script="storm() { while :; do (sleep 0.01; :) & done; }; storm & storm & sleep 100", timeout="300ms"
    )
    assert r["result"]["exit_code"] == 124
    assert session.out("echo alive") == "alive\n"
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")


def test_exe_4_timeout_is_capped_by_the_session(server):
    s = server.session(resource_limits={"command_timeout": "300ms"})
    r = s.exec("sleep", "100", timeout="1h")
    assert r["result"]["exit_code"] == 124 and r["request"]["timeout"] == "300ms"
    s.destroy()


def test_exe_5_kill(server, session):
    c = session.exec(
        script="trap 'echo got; exit 3' USR1; echo up > up; while :; do sleep 0.05; done",
        detach=True,
        status=202,
    )
    harness.wait_for((session.workspace / "up").exists, "the command is up")
    a = server.post(f"{session.path}/kill/{c['command_id']}", {"signal": "USR1", "grace": "10s"})
    assert a.status == 200, a.body
    harness.wait_for(
        lambda: session.get("/commands/" + c["command_id"])["state"] not in ("queued", "running"), "it ends"
    )
    record = session.get("/commands/" + c["command_id"])
    assert record["exit_code"] == 3, record
    again = server.post(f"{session.path}/kill/{c['command_id']}", {})
    assert (again.status, again.code) == (409, "E_CONFLICT")
    assert server.post(f"{session.path}/kill/{c['command_id']}", {"signal": "NOPE"}).status == 400


def test_exe_5_kill_takes_what_ignores_term(server, session):
    c = session.exec(
        script="trap '' TERM; (setsid sleep 1000 &); echo up > up; while :; do sleep 0.05; done",
        detach=True,
        status=202,
    )
    harness.wait_for((session.workspace / "up").exists, "the command is up")
    server.post(f"{session.path}/kill/{c['command_id']}", {"signal": "TERM", "grace": "200ms"})
    harness.wait_for(lambda: session.get("/commands/" + c["command_id"])["state"] == "killed", "it is killed")
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")


def test_exe_5_kill_unknown_command(server, session):
    a = server.post(f"{session.path}/kill/cmd-nope", {})
    assert (a.status, a.code) == (404, "E_NOT_FOUND")


def test_exe_1_client_chooses_the_id_once(server, session):
    cid = "cmd-" + uuid.uuid4().hex
    assert session.exec("true", command_id=cid)["command_id"] == cid
    a = server.post(f"{session.path}/exec", {"command": "true", "command_id": cid})
    assert (a.status, a.code) == (409, "E_CONFLICT")
    assert server.get(f"/api/v1/commands/{cid}").json["state"] == "finished"
    assert cid in [c["command_id"] for c in session.get("/commands")["commands"]]


def test_exe_1_idempotency_key(server, session):
    key = uuid.uuid4().hex
    body = {"script": "echo run >> runs; sleep 0.3; echo done"}
    answers = []

    def ask():
        answers.append(server.post(f"{session.path}/exec", body, headers={"Idempotency-Key": key}))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ask()
    assert [a.status for a in answers] == [200] * 5
    assert len({a.json["command_id"] for a in answers}) == 1
    assert {a.json["result"]["stdout"] for a in answers} == {"done\n"}
    assert (session.workspace / "runs").read_text() == "run\n"
    # what it says counts, not how it is written
    body = {"detach": False, **body}
    first = server.post(f"{session.path}/exec", body, headers={"Idempotency-Key": key + "-2"}).json
    body = dict(reversed(body.items()))
    again = server.post(f"{session.path}/exec", body, headers={"Idempotency-Key": key + "-2"}).json
    assert again["command_id"] == first["command_id"]
    other = server.post(f"{session.path}/exec", {"command": "true"}, headers={"Idempotency-Key": key})
    assert (other.status, other.code) == (409, "E_CONFLICT")


def test_exe_6_stream(server, session):
    c = server.connect()
    c.request(
        "POST",
        f"{session.path}/exec/stream",
        json.dumps({"script": "echo one; sleep 0.2; echo two >&2; echo three"}),
    )
    r = c.getresponse()
    assert r.status == 200 and r.getheader("Content-Type").startswith("text/event-stream")
    messages = [m for m in r.read().decode().split("\n\n") if m and not m.startswith(":")]
    parsed = []
    for m in messages:
        lines = dict(line.split(": ", 1) for line in m.split("\n"))
        parsed.append((lines["event"], json.loads(lines["data"])))
    assert "".join(d["data"] for n, d in parsed if n == "stdout") == "one\nthree\n"
    assert "".join(d["data"] for n, d in parsed if n == "stderr") == "two\n"
    assert {d["type"] for n, d in parsed if n == "event"} >= {"command_started", "command_finished"}
    name, result = parsed[-1]
    assert name == "result" and result["result"]["exit_code"] == 0 and set(result) >= ANSWER
    c.close()


def test_exe_6_output_comes_while_it_runs(server, session):
    c = server.connect()
    gate = harness.Gate(session)
    c.request("POST", f"{session.path}/exec/stream", json.dumps({"script": f"echo early; {gate.wait}"}))
    r = c.getresponse()
    seen = b""
    while b"early" not in seen:
        seen += r.read1(65536)
    gate.open()
    assert b"event: result" in r.read()
    c.close()


def test_exe_4_client_gone_ends_the_command(server, session):
    body = json.dumps({"script": "echo up > up; sleep 1000", "command_id": "gone-1-" + session.id}).encode()
    s = socket.socket(socket.AF_UNIX)
    s.connect(str(server.socket))
    s.sendall(f"POST {session.path}/exec HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    harness.wait_for((session.workspace / "up").exists, "the command runs")
    s.close()
    harness.wait_for(
        lambda: session.get("/commands/gone-1-" + session.id)["state"] == "killed", "it ends with its client"
    )


def test_exe_4_detached_commands_run_on(server, session):
    c = session.exec(script="sleep 0.3; echo finished", detach=True, status=202)
    assert c["state"] in ("queued", "running")
    harness.wait_for(lambda: session.get("/commands/" + c["command_id"])["state"] == "finished", "it finishes")
    assert session.output(c["command_id"])["data"] == "finished\n"


# --- the stdio stream ---


def test_exe_4_stdio_passes_everything(session):
    s = harness.Stdio(session, {"script": "cat; echo err >&2; exit 7"})
    assert s.status == 101
    s.send(s.STDIN, b"hello \x00\xff\n")
    s.control(eof=True)
    out, err, answer = s.finish()
    assert (out, err, answer["result"]["exit_code"]) == (b"hello \x00\xff\n", b"err\n", 7)
    assert s.frame() is None
    s.close()


def test_exe_4_stdio_64_mb_both_ways(session):
    total = 64 << 20
    s = harness.Stdio(session, {"command": "cat"})
    got = 0
    sent = 0
    chunk = os.urandom(65536)
    answer = None
    while answer is None:
        while sent < total and s.stdin_credit >= len(chunk):
            s.send(s.STDIN, chunk)
            s.stdin_credit -= len(chunk)
            sent += len(chunk)
            if sent == total:
                s.control(eof=True)
        f = s.frame()
        assert f is not None
        if f[0] == s.STDOUT:
            assert f[1] == (chunk * 3)[got % 65536 :][: len(f[1])]
            got += len(f[1])
        elif f[0] == s.RESULT:
            answer = json.loads(f[1])
    assert got == total and answer["result"]["stdout_total_bytes"] == total
    s.close()


def test_exe_4_stdio_back_pressure(server, session):
    """A reader that grants no credit stops the writer; it goes on with credit."""
    s = harness.Stdio(session, {"script": "yes | head -c 20000000"}, auto_credit=False)
    got = 0
    while got < 65536:
        kind, data = s.frame()
        if kind == s.STDOUT:
            got += len(data)
    assert got == 65536
    cid = session.get()["queue"]["running"]
    sizes = set()
    for _ in range(20):
        sizes.add(session.output(cid, limit=1)["total_bytes"])
        time.sleep(0.02)
    assert max(sizes) < 4_000_000
    s.auto_credit = True
    s.control(credit={"stream": "stdout", "bytes": 65536})
    out, _, answer = s.finish()
    assert got + len(out) == 20_000_000 and answer["result"]["exit_code"] == 0
    s.close()


def test_exe_4_stdio_signals(session):
    s = harness.Stdio(session, {"script": "trap 'echo int; exit 9' INT; echo up; while :; do sleep 0.02; done"})
    while s.frame() != (s.STDOUT, b"up\n"):
        pass
    s.control(signal="INT")
    out, _, answer = s.finish()
    assert out == b"int\n" and answer["result"]["exit_code"] == 9
    s.close()


def test_exe_4_stdio_client_gone(session):
    s = harness.Stdio(session, {"script": "echo up; sleep 1000", "command_id": "gone-2-" + session.id})
    while s.frame() != (s.STDOUT, b"up\n"):
        pass
    s.close()
    harness.wait_for(
        lambda: session.get("/commands/gone-2-" + session.id)["state"] == "killed", "it ends with its client"
    )


def test_exe_4_stdio_client_gone_on_tcp(new_server):
    """A silent command: nothing is written to the client that would show that it has gone."""
    server = new_server(config={"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "none", "none_as": 1000}}})
    port = int(server.ready_line.rsplit(":", 1)[1])
    tcp = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    workspace = server.workspace()
    os.chown(workspace, 1000, 1000)
    made = server.post("/api/v1/sessions", {"workspace": str(workspace)}, connection=tcp)
    tcp.close()
    session = harness.Session(server, made.json)

    def dial():
        return socket.create_connection(("127.0.0.1", port), 60)

    for early in (False, True):
        name = f"gone-tcp-{early}"
        s = harness.Stdio(session, {"script": "echo up; sleep 1000", "command_id": name}, sock=dial())
        while s.frame() != (s.STDOUT, b"up\n"):
            pass
        if early:  # its input has ended before
            s.sock.shutdown(socket.SHUT_WR)
            while s.frame() != (s.CONTROL, b'{"credit":{"stream":"stdin","bytes":0}}'):
                pass
            assert session.get(f"/commands/{name}")["state"] == "running"
        s.close()
        harness.wait_for(lambda name=name: session.get(f"/commands/{name}")["state"] == "killed", "it ends", 20)
    s = harness.Stdio(session, {"script": "cat; sleep 1; echo end"}, auto_credit=False, sock=dial())
    s.send(s.STDIN, b"in")
    s.sock.shutdown(socket.SHUT_WR)
    out, _, answer = s.finish()
    assert out == b"inend\n" and answer["result"]["exit_code"] == 0
    s.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\x09\0\0\0\0\0\0\1x",
        b"\x01\0\0\0\0\0\0\1x",
        b"\x00\0\0\1\0\0\0\1x",
        b"\x00\0\0\0\xff\xff\xff\xff",
        b"\x03\0\0\0\0\0\0\3{]}",
        b"\x03\0\0\0\0\0\0\x0f" + b'{"unknown":true}'[:15],
    ],
)
def test_exe_4_stdio_broken_frames_end_the_command(session, frame):
    cid = "broken-" + uuid.uuid4().hex[:8]
    s = harness.Stdio(session, {"script": "sleep 1000", "command_id": cid})
    s.sock.sendall(frame)
    while s.frame() is not None:
        pass
    s.close()
    harness.wait_for(lambda: session.get("/commands/" + cid)["state"] == "killed", "the command ends")
    assert session.out("echo fine") == "fine\n"


def test_exe_4_stdio_refusal_is_plain_http(server, session):
    s = harness.Stdio(session, {"command": "true", "script": "true"})
    assert s.status == 400
    s.close()


def test_exe_1_signal_names(session):
    for name in ("HUP", "INT", "QUIT", "ABRT", "PIPE"):
        r = session.exec("sh", "-c", f"kill -{name} $$")["result"]
        assert (r["signal"], r["exit_code"]) == (name, 128 + getattr(signal, f"SIG{name}"))


# Inside a command: what is executed, its exit status, the error's code and path.
NESTED = [
    ("./none", 127, "E_COMMAND_NOT_FOUND", "./none"),
    ("env no-such-program", 127, "E_COMMAND_NOT_FOUND", "no-such-program"),
    ("env ./closed", 126, "E_COMMAND_NOT_EXECUTABLE", "./closed"),
    ("sh -c ./closed", 126, "E_COMMAND_NOT_EXECUTABLE", "./closed"),
    ("no-such-program", 127, "E_COMMAND_NOT_FOUND", None),
    ("./none || true; exit 3", 3, "ENOENT", "/workspace/none"),  # what it met last in its workspace
    ("no-such-program || true; exit 3", 3, None, None),
    ("./none || true; sh -c 'exit 127'; true", 0, None, None),
    ("env ./none || sh -c 'exit 126'", 126, None, None),
]


@pytest.mark.parametrize("script, code, error, path", NESTED)
def test_exe_2_a_nested_exec_that_fails_is_the_error(session, script, code, error, path):
    (session.workspace / "closed").write_text("#!/bin/sh\n")
    (session.workspace / "closed").chmod(0o644)
    r = session.script(script)["result"]
    assert r["exit_code"] == code
    assert (r["error"] and (r["error"]["code"], r["error"]["path"])) == (error and (error, path))
    if path:
        assert path in r["error"]["message"] and r["error"]["suggestions"]
