# SPDX-License-Identifier: Apache-2.0
"""An approver for tests. The server has none yet: its warden is the program of src/warden/approval_test.c here, which
passes each question to the test and takes the answer from it."""

import contextlib
import os
import queue
import select
import shutil
import socket
import struct
import threading

import harness
import pytest

WARDEN = harness.BUILD / "unit-warden-approval_test"
PROGRAMS = ["agentsh", "agentsh-server", "agentsh-api", "agentsh-bpf", "agentsh-init", "agentsh-fs", "agentsh-state"]
MESSAGE = struct.Struct("Qc7x")  # id, and 'a' asked, 'c' cancelled, 'y' yes, 'n' no, 't' its time in ms


class Approver:
    """Of one session."""

    def __init__(self, server, wardens, **wanted):
        self.session = server.session(policy="asking", **wanted)
        self.socket = wardens.get(timeout=harness.DEADLINE)
        self.socket.settimeout(harness.DEADLINE)
        self.asked = {}

    def message(self):
        """(what, number) of the next message."""
        m = self.socket.recv(8192)
        number, what = MESSAGE.unpack(m[: MESSAGE.size])
        if what == b"a":
            self.asked[number] = m[MESSAGE.size :].decode()
        return what, number

    def question(self, text=None):
        what, number = self.message()
        assert what == b"a"
        assert text in (None, self.asked[number])
        return number

    def cancelled(self, number):
        assert self.message() == (b"c", number)

    def answer(self, number, what):
        self.socket.send(MESSAGE.pack(number, what))

    def quiet(self):
        """Nothing was asked that was not read."""
        assert select.select([self.socket], [], [], 0)[0] == []


def asking_server(new_server, monkeypatch, policy, uid=0, **config):
    """A server, not yet started, whose wardens ask the test."""
    if not WARDEN.exists():
        pytest.skip("the unit tests are not built")
    server = new_server(uid, start=False)
    programs = server.dir / "programs"
    policies = server.dir / "policies"
    for directory in (programs, policies):
        directory.mkdir(mode=0o755)
    for name in PROGRAMS:
        shutil.copy(harness.BUILD / name, programs / name)
    shutil.copy(WARDEN, programs / "agentsh-warden")
    (programs / "agentsh-check").symlink_to("agentsh")
    (policies / "asking.yaml").write_text(policy)
    server.merge(server.config, {"policies": {"dir": str(policies)}, "sandbox": {"pool_size": 0}})
    server.merge(server.config, config)
    monkeypatch.setattr(harness, "AGENTSH", str(programs / "agentsh"))
    return server


@contextlib.contextmanager
def listening(server, timeout_ms=1000 * harness.DEADLINE):
    """The connections of wardens. A warden goes on when it is told how long an approver may take."""
    made = queue.Queue()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0agentsh-approver-{server.pid}")
    listener.listen()

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.send(MESSAGE.pack(timeout_ms, b"t"))
                made.put(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    yield made
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def make(server, path, text):
    path.write_text(text)
    os.chown(path, server.uid, server.uid)
    path.chmod(0o600)


def start(session, script):
    """A command that runs on; its id."""
    return session.exec(script=script, detach=True, status=202)["command_id"]


def end_of(session, command):
    harness.wait_for(lambda: session.get(f"/commands/{command}")["state"] in ("finished", "killed"), "it is over")
    return session.output(command)["data"]


def printed(session, command, text):
    shown = lambda: session.output(command)["data"]  # noqa: E731
    harness.wait_for(lambda: shown() == text, f"it prints {text!r}", show=shown)


def events(session, command, path, kind="file_open"):
    found = session.history(command_id=command, type=kind)
    return [e for e in found if e["path"] == f"/workspace/{path}"]


def the_event(session, command, path, kind="file_open"):
    harness.wait_for(lambda: events(session, command, path, kind), "the event is stored")
    (event,) = events(session, command, path, kind)
    return event
