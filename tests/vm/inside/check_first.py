# SPDX-License-Identifier: Apache-2.0
"""Runs inside a guest: a command whose program can be changed by the session is executed by a descriptor, or a script by
its interpreter. On these kernels too it looks to itself and to others like one that was executed by its path."""

import os
import shutil

import harness
import pytest

ABOUT_ITSELF = "read comm </proc/$$/comm; echo $comm $0 $1; readlink /proc/$$/exe\n"


@pytest.fixture(scope="module", params=["root", "user"])
def session(request):
    server = harness.Server(uid={"root": 0, "user": harness.USER_UID}[request.param])
    try:
        server.start()
        yield server.session()
        server.stop()
        server.check_log()
    finally:
        server.cleanup()


def put(session, name, program=None, text=None):
    """A program of the session's own: a copy of another, or a script."""
    path = session.workspace / name
    if program:
        shutil.copy(program, path)
    else:
        path.write_text(text)
    path.chmod(0o755)
    os.chown(path, session.server.uid, session.server.uid)


def out(session, *argv):
    r = session.exec(*argv)["result"]
    assert r["exit_code"] == 0, r
    return r["stdout"]


@pytest.mark.parametrize("called", ["./mycat", "/workspace/mycat"])
def test_exe_2_a_program_has_its_name(session, called):
    put(session, "mycat", "/bin/cat")
    assert out(session, called, "/proc/self/comm") == "mycat\n"
    assert out(session, called, "/proc/self/stat").split()[1] == "(mycat)"
    assert out(session, called, "/proc/self/status").splitlines()[0] == "Name:\tmycat"
    # as it is where a shell executes it
    assert session.out(f"{called} /proc/self/comm") == "mycat\n"


def test_exe_2_others_see_its_name(session):
    put(session, "mydash", "/bin/dash")
    put(session, "mysleep", "/bin/sleep")
    text = "./mysleep 60 & pgrep -x mydash >/dev/null && pgrep -x mysleep >/dev/null && ps -o comm= && kill $!"
    assert {"mydash", "mysleep"} <= set(out(session, "./mydash", "-c", text).split())


def test_exe_2_a_program_finds_itself(session):
    put(session, "myreadlink", "/bin/readlink")
    assert out(session, "./myreadlink", "/proc/self/exe") == "/workspace/myreadlink\n"
    put(session, "mydash", "/bin/dash")
    again = 'exec /proc/self/exe -c "readlink /proc/\\$\\$/exe"'
    assert out(session, "./mydash", "-c", again) == "/workspace/mydash\n"


def test_exe_2_a_program_that_goes_by_its_name(session):
    put(session, "busybox", "/bin/busybox")
    for name, target in (("echo", "busybox"), ("printf", "/bin/busybox")):
        link = session.workspace / name
        if not link.is_symlink():
            link.symlink_to(target)
        assert out(session, f"./{name}", "hi").strip() == "hi"


def test_exe_2_a_program_holds_no_descriptor_of_its_own(session):
    put(session, "busybox", "/bin/busybox")
    # 3 is the directory that ls reads
    assert out(session, "./busybox", "ls", "/proc/self/fd").split() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("called", ["./tool.sh", "/workspace/tool.sh"])
def test_exe_2_a_script_has_its_path(session, called):
    """Its name is that of its interpreter, because that is what was executed."""
    put(session, "tool.sh", text="#!/bin/sh\n" + ABOUT_ITSELF)
    assert out(session, called, "one") == f"sh {called} one\n/usr/bin/dash\n"
    put(session, "mydash", "/bin/dash")
    put(session, "tool.sh", text="#!/workspace/mydash\n" + ABOUT_ITSELF)
    assert out(session, called, "one") == f"mydash {called} one\n/workspace/mydash\n"
    put(session, "tool.sh", text=ABOUT_ITSELF)
    assert out(session, called, "one") == f"sh {called} one\n/usr/bin/dash\n"
