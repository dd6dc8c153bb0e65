# SPDX-License-Identifier: Apache-2.0
"""An approver for tests. The server has none yet: its warden is the program of src/warden/approval_test.c here, which
passes each question to the test and takes the answer from it.

A test module gives POLICY and, if it wants to, CONFIG, and says on which servers it runs: `pytestmark = on("root", "user")`."""

import contextlib
import os
import queue
import select
import shutil
import socket
import struct
import threading
from pathlib import Path

import harness
import pytest
from mount_tree import URING, enable_io_uring

WARDEN = harness.BUILD / "unit-warden-approval_test"
PROGRAMS = ["agentsh", "agentsh-server", "agentsh-api", "agentsh-bpf", "agentsh-init", "agentsh-fs", "agentsh-state"]
MESSAGE = struct.Struct("Qc7x")  # id, and 'a' asked, 'c' cancelled, 'y' yes, 'n' no, 't' its time in ms


class Approver:
    """Of one session."""

    def __init__(self, server, wardens, **wanted):
        self.session = server.session(policy="asking", **wanted)
        self.wardens = wardens
        self.socket = wardens.get(timeout=harness.DEADLINE)
        self.socket.settimeout(harness.DEADLINE)
        self.asked = {}  # number: what
        self.ids = {}  # number: the approval's id

    def message(self):
        """(what, number) of the next message."""
        m = self.socket.recv(8192)
        number, what = MESSAGE.unpack(m[: MESSAGE.size])
        if what == b"a":
            self.ids[number], self.asked[number] = m[MESSAGE.size :].decode().split(" ", 1)
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


# ---- fixtures ----

FILES = {
    "monitoring": {"mode": "fuse"},
    "sandbox": {"allow_unenforced": ["network_rules"], "fuse": {"io_uring": "off"}},
    "logging": {"level": "debug"},
}


def on(*kinds):
    """The kinds of server that a module's tests run on: root, user, io_uring."""
    return pytest.mark.parametrize("asking", kinds, indirect=True)


@pytest.fixture
def io_uring():
    """The operator's switch of the machine, for the time of the test."""
    before = URING.read_text() if URING.exists() else None
    enable_io_uring()
    yield
    URING.write_text(before)


@pytest.fixture
def asking(request, new_server, monkeypatch):
    """A server with the module's POLICY."""
    uid = harness.USER_UID if request.param == "user" else 0
    config = getattr(request.module, "CONFIG", FILES)
    if request.param == "io_uring":
        request.getfixturevalue("io_uring")
    server = asking_server(new_server, monkeypatch, request.module.POLICY, uid, **config)
    if request.param == "io_uring":
        server.merge(server.config, {"sandbox": {"fuse": {"io_uring": "auto"}}})
    server.start()
    server.uring = request.param == "io_uring"
    return server


# the approver has so many ms
HURRIED = pytest.mark.parametrize("wardens", [200], indirect=True)


@pytest.fixture
def wardens(asking, request):
    with listening(asking, getattr(request, "param", 1000 * harness.DEADLINE)) as made:
        yield made


@pytest.fixture
def asked(asking, wardens):
    """An approver, and the workspace of its session."""
    a = Approver(asking, wardens)
    assert ("io_uring=yes" in asking.log.read_text()) == asking.uring
    a.dir = Path(a.session.workspace)
    a.write = lambda name, text="text\n": make(asking, a.dir / name, text)
    return a
