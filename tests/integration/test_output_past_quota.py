# SPDX-License-Identifier: Apache-2.0
"""Output past output.command_quota: all of it reaches a reader that is attached, in bounded memory; the rest is counted."""

import base64
import hashlib
import json
import os
import signal
import subprocess
import threading

import harness
import pytest

QUOTA = 100_000
LAST = 900_000  # seq to here is 6.2 MB: several times the window behind the quota
SEQ = "".join(f"{i}\n" for i in range(1, LAST + 1)).encode()


@pytest.fixture
def small(new_server):
    return new_server(config={"output": {"command_quota": QUOTA}})


def digest(data):
    return hashlib.sha256(data).hexdigest(), len(data)


class Sse:
    """A reader of exec/stream that takes its time."""

    def __init__(self, server, session, wanted, key=None):
        self.connection = server.connect()
        headers = {"Idempotency-Key": key} if key else {}
        self.connection.request("POST", f"{session.path}/exec/stream", json.dumps(wanted), headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        self.data, self.gaps, self.result = {"stdout": b"", "stderr": b""}, [], None
        self.next = {"stdout": 0, "stderr": 0}

    def message(self):
        lines = []
        while (line := self.response.readline().decode()) not in ("\n", ""):
            lines.append(line.rstrip("\n"))
        if not lines or lines[0].startswith(":"):
            return bool(lines)
        m = dict(line.split(": ", 1) for line in lines)
        doc = json.loads(m["data"])
        name = m["event"]
        if name in self.data:
            raw = doc["data"].encode() if doc["encoding"] == "text" else base64.b64decode(doc["data"])
            if doc["offset"] != self.next[name]:
                self.gaps.append((self.next[name], doc["offset"]))
            self.next[name] = doc["offset"] + len(raw)
            self.data[name] += raw
        elif name == "result":
            self.result = doc
        return self.result is None

    def finish(self):
        while self.message():
            pass
        self.connection.close()
        return self


def check_kept(session, cid):
    """What was kept stays readable; an offset behind it gets a clear answer."""
    p = session.output(cid, limit=1_000_000)
    assert p["data"].encode() == SEQ[:QUOTA] and p["has_more"] is False and p["complete"] is True
    assert (p["total_bytes"], p["total_lines"], p["kept_bytes"]) == (len(SEQ), LAST, QUOTA)
    p = session.output(cid, offset=QUOTA + 5)
    assert (p["data"], p["total_bytes"], p["kept_bytes"], p["has_more"]) == ("", len(SEQ), QUOTA, False)


@pytest.mark.parametrize("uid", [0, harness.USER_UID])
def test_exe_6_the_cli_passes_all(new_server, uid):
    server = new_server(uid=uid, config={"output": {"command_quota": QUOTA}})
    session = server.session()
    r = server.cli("run", "--workspace", str(session.workspace), "--", "seq", "1", str(LAST), uid=uid)
    assert r.returncode == 0 and digest(r.stdout) == digest(SEQ), r.stderr
    r = server.cli("exec", session.id, "--output", "shell", "--", "seq", "1", str(LAST), uid=uid)
    assert r.returncode == 0 and digest(r.stdout) == digest(SEQ), r.stderr
    cid = session.get("/commands")["commands"][-1]["command_id"]
    r = server.cli("output", cid, uid=uid)
    assert r.returncode == 0 and r.stdout == SEQ[:QUOTA]
    said = f"agentsh: of {len(SEQ)} bytes of stdout the first {QUOTA} are kept (output.command_quota)\n"
    assert r.stderr.decode().endswith(said)
    r = server.cli("exec", session.id, "--stream", "--", "seq", "1", str(LAST), uid=uid)
    lines = [n for n in r.stdout.splitlines(keepends=True) if n.startswith(b"[stdout] ")]
    assert digest(b"".join(n[9:] for n in lines)) == digest(SEQ), r.stderr


def test_exe_6_a_stream_without_lines_is_printed_in_pieces(small):
    session = small.session()
    r = small.cli("exec", session.id, "--stream", "--", "head", "-c", "3000000", "/dev/zero")
    lines = r.stdout.split(b"\n")
    assert r.returncode == 0 and b"".join(lines).replace(b"[stdout] ", b"") == b"\0" * 3_000_000
    assert max(len(n) for n in lines) < 200_000


def test_exe_6_stdio_and_sse_pass_all(small):
    session = small.session()
    s = harness.Stdio(session, {"command": "seq", "args": ["1", str(LAST)]})
    out, err, answer = s.finish()
    assert digest(out) == digest(SEQ) and err == b"" and answer["result"]["error"] is None
    assert (answer["result"]["stdout_total_bytes"], answer["result"]["stdout_total_lines"]) == (len(SEQ), LAST)
    assert answer["result"]["stdout_truncated"] is True
    check_kept(session, answer["command_id"])
    sse = Sse(small, session, {"script": f"seq 1 {LAST}; seq 1 {LAST} >&2"}).finish()
    assert not sse.gaps and sse.result["result"]["error"] is None
    assert digest(sse.data["stdout"]) == digest(SEQ) and digest(sse.data["stderr"]) == digest(SEQ)
    check_kept(session, sse.result["command_id"])


def held(session, cid):
    """Whether the command is past the quota and blocked in a write."""
    started = session.history(command_id=cid, type="exec")
    if not started or session.output(cid)["total_bytes"] <= QUOTA:
        return False
    with open(f"/proc/{started[0]['pid']}/wchan") as f:
        return "pipe_write" in f.read()


@pytest.mark.parametrize("end", ["read", "kill", "timeout", "leave", "warden"])
def test_exe_6_a_reader_that_stalls_holds_the_command(small, end):
    session = small.session()
    cid = f"held-{end}"
    wanted = {"command": "seq", "args": ["1", str(LAST)], "command_id": cid}
    s = harness.Stdio(session, wanted | ({"timeout": "3s"} if end == "timeout" else {}), auto_credit=False)
    s.control(credit={"stream": "stdout", "bytes": 1 << 30})  # credit alone gives no room behind the quota
    if end != "timeout":
        harness.wait_for(lambda: held(session, cid), "the command waits for its reader")
        assert session.output(cid)["total_bytes"] < QUOTA + (4 << 20)
    if end == "kill":
        assert small.post(f"{session.path}/kill/{cid}", {"signal": "KILL"}).status == 200
    if end == "warden":
        os.kill(small.warden_pids()[0], signal.SIGKILL)
    if end == "leave":
        s.close()
    if end != "read":
        harness.wait_for(lambda: session.get(f"/commands/{cid}")["state"] == "killed", "it ends unread")
    if end == "leave":
        return
    out, _, answer = s.finish()
    assert SEQ.startswith(out) and len(out) > QUOTA
    if end == "read":
        assert digest(out) == digest(SEQ) and answer["result"]["error"] is None
    else:
        assert len(out) == answer["result"]["stdout_total_bytes"]


def test_exe_6_the_slowest_of_two_readers_holds(small):
    session = small.session()
    gate = harness.Gate(session)
    wanted = {"script": f"{gate.wait}; seq 1 {LAST}"}
    a, b = (Sse(small, session, wanted, key="two") for _ in range(2))
    gate.open()
    while a.next["stdout"] <= QUOTA:
        a.message()
    reading = threading.Thread(target=a.finish)
    reading.start()
    b.finish()
    reading.join()
    for sse in (a, b):
        assert not sse.gaps and digest(sse.data["stdout"]) == digest(SEQ) and sse.result["result"]["error"] is None


def test_exe_6_a_reader_that_comes_late_is_told_of_the_gap(small):
    session = small.session()
    first_gate, second_gate = harness.Gate(session, "one"), harness.Gate(session, "two")
    script = f"{first_gate.wait}; seq 1 {LAST}; {second_gate.wait}; seq 1 5"
    wanted = {"script": script, "command_id": "late"}
    first = threading.Thread(target=session.exec, kwargs=wanted | {"headers": {"Idempotency-Key": "late"}})
    first.start()
    harness.wait_for(lambda: small.get(f"{session.path}/commands/late").status == 200, "it is there")
    first_gate.open()
    harness.wait_for(lambda: session.output("late")["total_bytes"] == len(SEQ), "all was produced and dropped")
    p = session.output("late", offset=QUOTA)
    assert (p["data"], p["kept_bytes"], p["total_lines"], p["complete"]) == ("", QUOTA, LAST, False)
    readers = [Sse(small, session, wanted, key="late") for _ in range(2)]
    for late in readers:
        while late.next["stdout"] < QUOTA:
            late.message()
    second_gate.open()
    for late in readers:
        late.finish()
    first.join()
    assert readers[0].result["result"] == late.result["result"]  # one reader's gap is not added to another's
    assert late.gaps == [(QUOTA, len(SEQ))] and late.data["stdout"] == SEQ[:QUOTA] + b"1\n2\n3\n4\n5\n"
    error = late.result["result"]["error"]
    assert (
        error["code"] == "E_RESOURCE_LIMIT" and f"the bytes {QUOTA} to {len(SEQ) - 1} of stdout" in error["message"]
    )
    assert session.get("/commands/late")["error"] is None


def test_exe_6_background_writers_go_on_after_the_end(small):
    session = small.session(background="keep")
    s = harness.Stdio(session, {"script": f"seq 1 {LAST}; (seq 1 {LAST}; echo over > over) &"}, auto_credit=True)
    out, _, answer = s.finish()
    assert out.startswith(SEQ) and answer["result"]["exit_code"] == 0
    harness.wait_for((session.workspace / "over").exists, "what stays behind is not held by a reader that has gone")


def test_ses_8_a_killed_api_process_is_told_with_the_gap(small):
    session = small.session()
    cid = "through"
    body = {"command": "seq", "args": ["1", str(LAST)], "command_id": cid}
    s = harness.Stdio(session, body, auto_credit=False)
    harness.wait_for(lambda: session.output(cid)["total_bytes"], "it writes")
    cli = subprocess.Popen(
        [harness.AGENTSH, "--server", f"unix:{small.socket}", "run", "--", "seq", "1", str(LAST)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=session.workspace,
    )
    got = os.read(cli.stdout.fileno(), 100)
    os.kill(small.api_pid(), signal.SIGKILL)
    while s.frame() is not None:
        pass  # the connection ends
    rest, said = cli.communicate(timeout=harness.DEADLINE)
    got += rest
    assert cli.returncode == 125 and SEQ.startswith(got)
    assert f"the server went away before the command's result, after {len(got)} bytes of stdout" in said.decode()
    harness.wait_for(lambda: session.get(f"/commands/{cid}")["state"] == "finished", "it goes on without a reader")
    check_kept(session, cid)


def test_exe_6_64_mb_behind_the_quota_in_bounded_memory(small):
    session = small.session()
    s = harness.Stdio(session, {"script": "head -c 64000000 /dev/zero"}, auto_credit=True)
    n = 0
    while (f := s.frame())[0] != s.RESULT:
        n += len(f[1]) if f[0] == s.STDOUT else 0
    assert n == 64_000_000
    for pid in [small.api_pid(), *small.warden_pids()]:
        peak = int(harness.status_of(pid)["VmHWM"].split()[0])
        assert peak < 200_000, (pid, peak)  # kB; sanitizers included
    files = [f.stat().st_size for f in small.state.rglob("*.out")]
    assert max(files) <= QUOTA + (2 << 20)
