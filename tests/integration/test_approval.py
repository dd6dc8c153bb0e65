# SPDX-License-Identifier: Apache-2.0
"""A command whose program waits for an approver holds up its session's queue, and nothing else.

The server has no approver yet. Here its warden is the program of src/warden/approval_test.c, which passes each
question to this test and takes the answer from it."""

import contextlib
import queue
import shutil
import socket
import struct
import threading
from pathlib import Path

import harness
import pytest

WARDEN = harness.BUILD / "unit-warden-approval_test"
PROGRAMS = ["agentsh", "agentsh-server", "agentsh-api", "agentsh-bpf", "agentsh-init", "agentsh-fs", "agentsh-state"]
MESSAGE = struct.Struct("Qc7x")  # id, and 'a' asked, 'c' cancelled, 'y' yes, 'n' no, 't' its time in ms
POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: ask, commands: [expr], decision: approve}
"""


class Approver:
    """Of one session."""

    def __init__(self, server, wardens):
        self.session = server.session(policy="asking")
        self.socket = wardens.get(timeout=harness.DEADLINE)
        self.socket.settimeout(harness.DEADLINE)

    def question(self):
        number, what = MESSAGE.unpack(self.socket.recv(MESSAGE.size))
        assert what == b"a"
        return number

    def answer(self, number, what):
        self.socket.send(MESSAGE.pack(number, what))


@pytest.fixture
def server(new_server, monkeypatch):
    if not WARDEN.exists():
        pytest.skip("the unit tests are not built")
    server = new_server(start=False)
    programs = server.dir / "programs"
    policies = server.dir / "policies"
    for directory in (programs, policies):
        directory.mkdir(mode=0o755)
    for name in PROGRAMS:
        shutil.copy(harness.BUILD / name, programs / name)
    shutil.copy(WARDEN, programs / "agentsh-warden")
    (programs / "agentsh-check").symlink_to("agentsh")
    (policies / "asking.yaml").write_text(POLICY)
    server.merge(
        server.config,
        {
            "policies": {"dir": str(policies)},
            "sandbox": {"pool_size": 0, "allow_unenforced": ["file_rules", "network_rules"]},
        },
    )
    monkeypatch.setattr(harness, "AGENTSH", str(programs / "agentsh"))
    server.start()
    return server


@pytest.fixture
def wardens(server):
    """The connections of wardens. A warden goes on when it is told how long an approver may take."""
    made = queue.Queue()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0agentsh-approver-{server.pid}")
    listener.listen()

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.send(MESSAGE.pack(1000 * harness.DEADLINE, b"t"))
                made.put(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    yield made
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def state_of(session, command):
    return session.get(f"/commands/{command}")["state"]


def test_pol_2_the_queue_waits_behind_a_held_initial_exec(server, wardens):
    held, other = Approver(server, wardens), Approver(server, wardens)
    s = held.session
    first = s.exec("expr", "1", "+", "1", detach=True, status=202)["command_id"]
    question = held.question()
    second = s.exec("touch", "/workspace/second", detach=True, status=202)["command_id"]

    # another session goes on, also with a program that must be approved
    assert other.session.exec("echo", "other")["result"]["stdout"] == "other\n"
    asked = other.session.exec("expr", "2", "+", "2", detach=True, status=202)["command_id"]
    other.answer(other.question(), b"y")
    harness.wait_for(lambda: state_of(other.session, asked) == "finished", "it is approved")
    # so does the loop of the warden: it answers a change of its session
    assert server.call("PATCH", s.path, {"environment": {"APP_X": "1"}}).status == 200
    # the session's own queue waits
    assert [state_of(s, c) for c in (first, second)] == ["queued", "queued"]
    assert not (Path(s.workspace) / "second").exists()
    types = [(e["type"], e["command_id"]) for e in s.history() if "command_id" in e]
    assert types == [("command_queued", first), ("command_queued", second)]

    held.answer(question, b"y")
    harness.wait_for(lambda: state_of(s, second) == "finished", "both have run")
    assert s.output(first)["data"] == "2\n"
    assert (Path(s.workspace) / "second").exists()
    ends = [e["command_id"] for e in s.history(type="command_finished")]
    assert ends == [first, second]


def test_pol_2_a_disapproved_command_lets_the_queue_go_on(server, wardens):
    held = Approver(server, wardens)
    s = held.session
    first = s.exec("expr", "1", "+", "1", detach=True, status=202)["command_id"]
    question = held.question()
    second = s.exec("echo", "second", detach=True, status=202)["command_id"]
    held.answer(question, b"n")
    harness.wait_for(lambda: state_of(s, second) == "finished", "the next one has run")
    assert state_of(s, first) == "finished"
    assert s.output(second)["data"] == "second\n"
