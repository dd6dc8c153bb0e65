# SPDX-License-Identifier: Apache-2.0
"""A process of a session is a row: what a process gets by a row that exists only in builds with -Dtest_processes=true."""

import os
import re
import signal
import socket
from pathlib import Path

import harness
import pytest

PROGRAM = "agentsh-test-process"
POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: ask-secret, paths: [/workspace/secret], operations: [read], decision: approve}
"""


def processes_of(server, session):
    """NAME: pid of the session's record."""
    lines = (server.runtime / f"sessions/{session.id}.meta").read_text().split()
    record = dict(line.split("=") for line in lines)
    return {key[:-4]: int(pid) for key, pid in record.items() if key.endswith("_pid")}


def expect_end(pids):
    harness.wait_for(lambda: not any(map(harness.alive, pids.values())), "all processes have ended")


class Asker:
    """Stands in for what the test process would intercept, and for its approver; see src/test_process."""

    def __init__(self, session):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(harness.DEADLINE)
        self.socket.connect(f"\0{PROGRAM}-{session.id}")

    def send(self, *words):
        self.socket.send(" ".join(map(str, words)).encode())

    def ask(self, pid, operation="read", path="/workspace/secret"):
        self.send("ask", pid, operation, path)
        return self.answer()

    def answer(self):
        return self.socket.recv(4096).decode().split()


def pid_of(parent, *argv):
    """The process below parent that runs argv."""

    def find():
        for pid in harness.descendants_of(parent):
            try:
                if Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1] == list(argv):
                    return pid
            except OSError:
                continue
        return None

    return harness.wait_for(find, f"{argv} runs")


def two_commands(session, warden):
    """Two commands at once, as (command, pid): the first has ended and left a process behind, the second runs."""
    first = session.script("setsid sleep 1001 > /dev/null 2>&1 &")["command_id"]
    second = session.exec("sleep", "1002", detach=True, status=202)["command_id"]
    return (first, pid_of(warden, "sleep", "1001")), (second, pid_of(warden, "sleep", "1002"))


def file_events(session):
    events = session.history(type="file_read")
    return [(e["command_id"], e["pid"], e["path"], e["decision"], e["policy"]["rule"]) for e in events]


@pytest.fixture(params=["pooled", "made", "user"])
def server(request, new_server):
    size = 1 if request.param == "pooled" else 0
    server = new_server(harness.USER_UID if request.param == "user" else 0, start=False)
    directory = server.dir / "policies"
    directory.mkdir(mode=0o755)
    (directory / "asking.yaml").write_text(POLICY)
    server.merge(
        server.config,
        {"policies": {"dir": str(directory)}, "sandbox": {"pool_size": size, "allow_unenforced": ["file_rules"]}},
    )
    server.start()
    harness.wait_for(lambda: len(server.waiting_pids()) == size, "sandboxes are prepared")
    return server


@pytest.fixture
def asking(server):
    return server.session(policy="asking", background="keep")


def test_sbx_6_a_process_is_started_for_each_session(server):
    s = server.session()
    pids = processes_of(server, s)
    assert list(pids) == ["warden", "fs", "init", "test"]
    status = harness.status_of(pids["test"])
    assert harness.program_of(pids["test"]) == PROGRAM
    assert int(status["PPid"]) == pids["warden"]
    assert status["Uid"] == harness.status_of(pids["warden"])["Uid"]
    assert {status[cap] for cap in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    # what it has inherited (its link is a socket), and its own listener; nothing of the launcher
    descriptors = Path(f"/proc/{pids['test']}/fd")
    # it closes the actor table when it has answered the greeting
    harness.wait_for(
        lambda: not any("actors" in os.readlink(fd) for fd in descriptors.iterdir()), "the table is closed"
    )
    links = [os.readlink(fd) for fd in descriptors.iterdir()]
    own = server.runtime / "sessions" / s.id
    assert sorted(
        re.sub(r"\[\d+\]", "", link) for link in links if not link.startswith(("anon_inode:", "pipe:"))
    ) == sorted(
        [
            "/dev/null",
            "/dev/null",
            str(server.log),
            f"{own}.ring-test",
            f"{own}.ack-test",
            "/memfd:agentsh-policy (deleted)",
        ]
        + 2 * ["socket:"]
    )
    s.destroy()
    expect_end(pids)
    harness.wait_for(lambda: not list(server.runtime.glob("sessions/*")), "its files are removed")


def test_ses_8_a_held_operation_outlives_the_server(server, asking):
    """Two commands at once; each operation is attributed, held, resumed without a server, and in the store later."""
    pids = processes_of(server, asking)
    (first, first_pid), (second, second_pid) = two_commands(asking, pids["warden"])
    asker = Asker(asking)
    assert asker.ask(first_pid) == ["1", "pending", first]
    assert asker.ask(second_pid) == ["2", "pending", second]
    assert asker.ask(second_pid, path="/workspace/plain") == ["3", "allow", second]
    api = server.api_pid()
    os.kill(api, signal.SIGKILL)
    server.process.kill()
    server.process.wait()
    asker.send("allow", 2)
    assert asker.answer() == ["2", "allow", second]
    asker.send("deny", 1)
    assert asker.answer() == ["1", "deny", first]
    server.start()
    assert processes_of(server, asking) == pids and all(map(harness.alive, pids.values()))
    harness.wait_for(lambda: len(file_events(asking)) == 3, "the events are stored", show=lambda: file_events(asking))
    assert file_events(asking) == [
        (second, second_pid, "/workspace/plain", "allow", "default"),
        (second, second_pid, "/workspace/secret", "allow", "ask-secret"),
        (first, first_pid, "/workspace/secret", "deny", "ask-secret"),
    ]
    asking.destroy()
    expect_end(pids)


def test_pol_2_an_operation_ends_with_its_command(server, asking):
    (first, first_pid), (second, second_pid) = two_commands(asking, processes_of(server, asking)["warden"])
    asker = Asker(asking)
    assert asker.ask(first_pid) == ["1", "pending", first]
    assert asker.ask(second_pid) == ["2", "pending", second]
    assert server.post(f"{asking.path}/kill/{second}", {}).status == 200
    assert asker.answer() == ["2", "deny", second]
    asker.send("allow", 1)
    assert asker.answer() == ["1", "allow", first]
    event = harness.wait_for(lambda: asking.history(command_id=second, type="file_read"), "its event is stored")[0]
    assert event["policy"]["reason"] == "the command ended while it waited for an approver"


def test_sbx_6_a_stranger_belongs_to_no_command(server, asking):
    """The table does not know the process, and neither does the warden: nothing is guessed."""
    two_commands(asking, processes_of(server, asking)["warden"])
    assert Asker(asking).ask(os.getpid(), path="/workspace/plain") == ["1", "allow", "-"]


def test_ses_8_its_death_is_the_sessions_and_is_named(server):
    s = server.session()
    pids = processes_of(server, s)
    os.kill(pids["test"], signal.SIGKILL)
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session is failed")
    assert s.get()["failure"] == "the test process was ended by signal 9"
    expect_end(pids)


def test_ses_8_it_ends_with_the_warden(server):
    s = server.session()
    pids = processes_of(server, s)
    os.kill(pids["warden"], signal.SIGKILL)
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session is failed")
    expect_end(pids)
