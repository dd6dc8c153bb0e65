# SPDX-License-Identifier: Apache-2.0
"""A session whose file server does not answer for a while goes on, and so does the server."""

import os
import shutil
import signal
import time
from pathlib import Path

import harness
import pytest
from harness import wait_for

SOON = 15  # seconds; an exec waits longer for its file server
NO_CACHE = {name: "0s" for name in ("entry_timeout", "attr_timeout")}


class Hung:
    """A server whose sessions have file servers that can be stopped."""

    def __init__(self, server):
        self.server = server
        self.began = 0

    def signal(self, sig):
        for pid in self.file_servers():
            os.kill(pid, sig)

    def file_servers(self):
        beside = (p for w in self.server.warden_pids() for p in harness.children_of(w))
        return [p for p in beside if harness.program_of(p) == "agentsh-fs"]

    def is_stopped(self):
        threads = (t for p in self.file_servers() for t in Path(f"/proc/{p}/task").iterdir())
        return all("\nState:\tT" in (t / "status").read_text() for t in threads)

    def stop(self):
        self.signal(signal.SIGSTOP)
        wait_for(self.is_stopped, "all threads have stopped")
        self.began = time.monotonic()

    def go_on(self):
        self.signal(signal.SIGCONT)


class Running:
    """A session with one command, which is begun while the file servers are stopped."""

    def __init__(self, hung):
        self.server = hung.server
        self.session = self.server.session()
        for name in ("sub", "bin"):
            (self.session.workspace / name).mkdir(mode=0o777)
        for name in ("x", "bin/builder"):
            shutil.copy("/bin/true", self.session.workspace / name)
        self.session.exec("export", "PATH=/usr/bin:/bin:/workspace/bin")
        self.id = None

    def begin(self, *argv, **wanted):
        self.id = self.session.exec(*argv, detach=True, status=202, **wanted)["command_id"]

    def record(self):
        return self.session.get("/commands/" + self.id)

    def shows(self, text):
        wait_for(lambda: self.session.output(self.id)["data"] == text, text, SOON)

    def ended(self, seconds=SOON):
        wait_for(lambda: self.record()["state"] not in ("queued", "running"), "it is over", seconds)
        return self.record()

    def kill(self):
        a = self.server.post(f"{self.session.path}/kill/{self.id}", {"signal": "KILL"})
        assert a.status == 200, a.body
        assert self.ended()["state"] == "killed"
        self.is_alive()

    def is_alive(self):
        """A command that needs nothing of the workspace runs as ever."""
        before = time.monotonic()
        r = self.session.exec(script="/bin/ls /usr >/dev/null && env true && echo $PWD", working_dir="/")
        assert r["result"]["stdout"] == "/\n", r
        assert time.monotonic() - before < SOON


@pytest.fixture(params=["root", "user"])
def hung(request, new_server):
    config = {"monitoring": {"mode": "fuse"}, "sandbox": {"fuse": NO_CACHE}}
    h = Hung(new_server(uid=0 if request.param == "root" else harness.USER_UID, config=config))
    yield h
    h.go_on()


# The warden makes this change in the place of its caller.
SET_GROUP_ID = """python3 -c '
import errno, os
try:
    os.chmod("/workspace/sub", 0o2755)
except OSError as e:
    print(errno.errorcode[e.errno])'"""
INSIDE = "/workspace/x & p=$!; /bin/ls /usr >/dev/null; env true; echo alive; wait $p; echo $?"


def test_exe_5_commands_end_and_go_on_while_the_workspace_hangs(hung):
    first, last, killed, kept, cd, missing, late = (Running(hung) for _ in range(7))
    hung.stop()
    for r in (first, last):
        r.begin("/workspace/x")
    for r in (killed, kept):
        r.begin(script=INSIDE, working_dir="/")
    cd.begin("cd", "sub")
    missing.begin("env", "PATH=/usr/bin:/bin", "env", "bulider", working_dir="/")
    for r in (killed, kept):
        r.shows("alive\n")
    first.kill()
    killed.kill()
    r = late.session.exec("/workspace/x", timeout="500ms")["result"]
    assert (r["exit_code"], r["error"]["code"]) == (124, "E_COMMAND_TIMEOUT"), r
    a = late.server.call("PATCH", late.session.path, {"working_dir": "/workspace/sub"})
    assert a.status == 400, a.body
    r = late.session.exec(script=SET_GROUP_ID, working_dir="/")["result"]
    assert r["stdout"] == "EIO\n", r
    late.is_alive()
    assert missing.ended()["exit_code"] == 127
    while time.monotonic() < hung.began + 5:
        assert {r.record()["state"] for r in (last, kept, cd)} <= {"queued", "running"}
    hung.go_on()
    for r in (last, kept, cd):
        assert r.ended()["exit_code"] == 0
    kept.shows("alive\n0\n")
    assert late.server.call("PATCH", late.session.path, {"working_dir": "/workspace/sub"}).status == 200
    assert cd.session.exec("pwd")["result"]["stdout"] == "/workspace/sub\n"
    r = missing.session.exec("bulider")["result"]
    assert r["error"]["similar_files"] == ["/workspace/bin/builder"], r
    assert kept.session.out("cd bin && ./builder && pwd") == "/workspace/bin\n"
    assert kept.session.exec("pwd")["result"]["stdout"] == "/workspace/bin\n"


def test_exe_5_sessions_and_the_server_end_while_the_workspace_hangs(hung):
    ends, stays = Running(hung), Running(hung)
    hung.stop()
    for r in (ends, stays):
        r.begin("/workspace/x")
    before = time.monotonic()
    ends.session.destroy()
    assert time.monotonic() - before < SOON
    hung.server.stop(2 * SOON)
    assert hung.server.process.returncode == 0
