# SPDX-License-Identifier: Apache-2.0
"""A workspace whose file system does not answer for a while: the session goes on, and so does the server."""

import os
import shutil
import signal
import time

import harness
import pytest
from mount_tree import PROGRAM, MountTree

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built"),
]
SOON = 4  # seconds: less than the file system is stopped for


class Hung:
    """A root server, and a workspace on FUSE that can be stopped."""

    def __init__(self, directory, new_server):
        directory.chmod(0o755)
        self.tree = MountTree(directory, "--as-caller", "--ms", "0")
        self.tree.back.chmod(0o777)
        for name in ("sub", "bin"):
            (self.tree.back / name).mkdir()
        for name in ("x", "bin/builder"):
            shutil.copy("/bin/true", self.tree.back / name)
        # FUSE has no idmapped mounts.
        self.server = new_server(start=False, config={"sandbox": {"allow_unenforced": ["uid"]}})
        self.server.command = ["nsenter", f"--mount=/proc/{self.tree.server.pid}/ns/mnt"]
        self.server.start()
        self.began = 0

    def stop(self):
        self.tree.server.send_signal(signal.SIGSTOP)
        self.began = time.monotonic()

    def go_on(self):
        self.tree.server.send_signal(signal.SIGCONT)


class Running:
    """A session of its own with one command, which is begun while the workspace hangs."""

    def __init__(self, hung):
        self.server = hung.server
        self.session = self.server.session(workspace=str(hung.tree.place))
        self.session.exec("export", "PATH=/usr/bin:/bin:/workspace/bin")
        self.id = None

    def begin(self, *argv, **wanted):
        self.id = self.session.exec(*argv, detach=True, status=202, **wanted)["command_id"]

    def record(self):
        return self.session.get("/commands/" + self.id)

    def shows(self, text):
        harness.wait_for(lambda: self.session.output(self.id)["data"] == text, text, SOON)

    def ended(self, seconds=SOON):
        harness.wait_for(lambda: self.record()["state"] not in ("queued", "running"), "it is over", seconds)
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


@pytest.fixture
def hung(tmp_path, new_server):
    h = Hung(tmp_path, new_server)
    yield h
    h.go_on()
    h.server.stop()
    h.tree.finish()


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
    late.is_alive()
    assert missing.ended()["exit_code"] == 127
    assert time.monotonic() - hung.began < 5
    time.sleep(hung.began + 5 - time.monotonic())
    assert {r.record()["state"] for r in (last, kept, cd)} <= {"queued", "running"}
    hung.go_on()
    for r in (last, kept, cd):
        assert r.ended()["exit_code"] == 0
    kept.shows("alive\n0\n")
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
    assert time.monotonic() - before < 10
    hung.server.stop(20)
    assert hung.server.process.returncode == 0
