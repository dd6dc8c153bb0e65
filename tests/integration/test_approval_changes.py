# SPDX-License-Identifier: Apache-2.0
"""Changes of directories wait for an approver before the kernel locks the directory."""

import os
import signal
from pathlib import Path

import harness
import pytest
from approvals import Approver, end_of, make, on, printed, start, the_event

POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: ask, paths: ["/workspace/ask*"], operations: [create, delete, rename, link, symlink], decision: approve}
  - {name: write, paths: ["/workspace/write*"], operations: [write], decision: approve}
  - {name: attributes, paths: ["/workspace/own*"], operations: [chmod, chown, truncate], decision: approve}
  - {name: never, paths: ["/workspace/never*"], operations: [delete, create], decision: deny}
"""


pytestmark = on("root", "user", "io_uring")


# Ten times in the directory of what is held: listings, a new file, a move, programs that are executed; it tells how long it took
AS_EVER = (
    "t=$(date +%s%N); for i in 1 2 3 4 5 6 7 8 9 10; do ls > /tmp/names; echo $i > new$i; cat new$i > /tmp/read; "
    "mv new$i moved$i; ./program; ls -a ask1 missing > /tmp/found 2>&1; done; t=$((($(date +%s%N) - t) / 1000000));"
)


def test_fil_3_a_delete_waits_and_the_directory_goes_on(asked):
    """All that the command does in the directory meanwhile takes its usual time, and is over before the answer is given."""
    for name in ("ask1", "program"):
        asked.write(name, "#!/bin/true\n")
    (asked.dir / "program").chmod(0o700)
    s = asked.session
    usual = int(s.out(f"{AS_EVER} rm moved*; echo $t"))
    command = start(s, f"rm ask1 & read x < /dev/null; {AS_EVER} echo $t; wait; ls")
    question = asked.question("file_delete /workspace/ask1")
    harness.wait_for(lambda: s.output(command)["data"], "it goes on")
    held = int(s.output(command)["data"])
    assert held < 5 * usual + 500, usual
    assert (asked.dir / "ask1").exists()
    asked.answer(question, b"y")
    assert end_of(s, command).split() == [str(held), *sorted(f"moved{i}" for i in range(1, 11)), "program"]
    event = the_event(s, command, "ask1", "file_delete")
    assert (event["decision"], event["policy"]["rule"]) == ("allow", "ask")
    assert event["policy"]["approval"] == {"required": True, "mode": "enforced", "approval_id": asked.ids[question]}
    asked.quiet()


CHANGES = [
    ("rm ask1", "file_delete /workspace/ask1", "file_delete"),
    ("rmdir askdir", "file_delete /workspace/askdir", "dir_delete"),
    ("mkdir asknew", "file_create /workspace/asknew", "dir_create"),
    ("mkdir ./asknew/", "file_create /workspace/asknew", "dir_create"),
    ("mkfifo asknew", "file_create /workspace/asknew", "file_mknod"),
    ("echo x > asknew", "file_create /workspace/asknew", "file_create"),
    ("(cd plain; echo x > ../asknew)", "file_create /workspace/asknew", "file_create"),
    ("ln -sf asknew dangling; echo x > dangling", "file_create /workspace/asknew", "file_create"),
    ("mv ask1 other", "file_rename /workspace/ask1 -> /workspace/other", "file_rename"),
    ("mv file asknew", "file_create+rename /workspace/file -> /workspace/asknew", "file_rename"),
    ("mv -T file ask1", "file_create+rename /workspace/file -> /workspace/ask1", "file_rename"),
    ("ln file asknew", "file_create+link /workspace/file -> /workspace/asknew", "file_link"),
    ("ln -s x asknew", "file_create+symlink /workspace/asknew", "symlink_create"),
    ("echo x > write1", "file_write /workspace/write1", "file_create"),
]


@pytest.mark.parametrize(("script", "question", "kind"), CHANGES)
def test_fil_3_each_change_is_asked(asked, script, question, kind):
    """Refused first: nothing has changed. Then approved. Each is one event."""
    for name in ("ask1", "file"):
        asked.write(name)
    for name in ("askdir", "plain"):
        (asked.dir / name).mkdir()
        os.chown(asked.dir / name, *[asked.dir.stat().st_uid] * 2)
    s = asked.session
    before = sorted(p.name for p in asked.dir.iterdir())
    for answer, decision in ((b"n", "deny"), (b"y", "allow")):
        command = start(s, f"set -e; {script}; echo done")
        asked.answer(asked.question(question), answer)
        assert end_of(s, command) == ("done\n" if answer == b"y" else "")
        now = sorted(p.name for p in asked.dir.iterdir() if p.name != "dangling")
        assert (now == before) == (answer == b"n")
        path = question.split()[1].removeprefix("/workspace/")
        event = the_event(s, command, path, kind)
        assert (event["decision"], event["policy"]["decision"]) == (decision, "approve")
        assert event["real_path"] == str(asked.dir / path)
        if "->" in question:
            assert event["operation"]["to"] == question.split()[3]
    asked.quiet()


# what changes, the call, its path and its event
ATTRIBUTES = [
    ("st_mode", "chmod(f, 0o640)", "own1", "chmod"),
    ("st_mode", "chmod('./own1', 0o640, dir_fd=d)", "own1", "chmod"),
    ("st_mode", "chmod('link', 0o640)", "own1", "chmod"),
    ("st_mode", "chmod('owned', 0o1750)", "owned", "chmod"),
    ("st_ctime_ns", "chown(f, u, -1)", "own1", "chown"),
    ("st_ctime_ns", "chown(f, u, -1, dir_fd=d)", "own1", "chown"),
    ("st_ctime_ns", "lchown('ownlink', u, -1)", "ownlink", "chown"),
    ("st_size", "truncate(f, 1)", "own1", "truncate"),
]


def test_fil_3_a_change_of_attributes_is_asked(asked):
    """By path. Refused first: nothing has changed. Then approved, for this one call."""
    (asked.dir / "owned").mkdir()
    for link in ("link", "ownlink"):
        (asked.dir / link).symlink_to("own1")
    for made in ("owned", "link", "ownlink"):
        os.lchown(asked.dir / made, *[asked.dir.stat().st_uid] * 2)
    s = asked.session
    for changes, call, name, operation in ATTRIBUTES:
        asked.write("own1")
        look = lambda: getattr(os.lstat(asked.dir / name), changes)  # noqa: B023, E731
        before = look()
        code = f"import os; u = os.getuid(); f = 'own1'; d = os.open('.', os.O_RDONLY); os.{call}; print('done')"
        for answer, decision in ((b"n", "deny"), (b"y", "allow")):
            command = s.exec("python3", "-c", code, detach=True, status=202)["command_id"]
            asked.answer(asked.question(f"file_{operation} /workspace/{name}"), answer)
            assert end_of(s, command) == ("done\n" if answer == b"y" else "")
            assert (look() == before) == (answer == b"n"), call
            event = the_event(s, command, name, f"file_{operation}")
            assert (event["decision"], event["policy"]["decision"]) == (decision, "approve")
    asked.quiet()


def test_fil_3_attributes_that_cannot_wait_are_denied(asked):
    """Those of an open file, and a mode that the warden sets itself."""
    asked.write("own1")
    (asked.dir / "owned").mkdir()
    os.chown(asked.dir / "owned", *[asked.dir.stat().st_uid] * 2)
    for call in ("fchmod(f, 0o640)", "fchown(f, u, -1)", "ftruncate(f, 1)", "chmod('owned', 0o2750)"):
        code = f"import os; u = os.getuid(); f = os.open('own1', os.O_RDWR); os.{call}"
        result = asked.session.exec("python3", "-c", code)["result"]
        assert "PermissionError" in result["stderr"], call
    assert (asked.dir / "own1").read_text() == "text\n"
    asked.quiet()


def test_fil_3_what_needs_no_approver_goes_on(asked):
    for name in ("never1", "plain"):
        asked.write(name)
    s = asked.session
    assert s.out("rm plain; mkdir d; touch d/f; mv d e; rm -r e; rm missing ask9; echo $?") == "1\n"
    assert s.script("rm never1")["result"]["exit_code"] == 1
    assert (asked.dir / "never1").exists()
    asked.quiet()


def test_fil_3_a_killed_command_does_not_change_anything(asking, asked):
    asked.write("ask1")
    s = asked.session
    command = start(s, "rm ask1")
    question = asked.question()
    assert asking.post(f"{s.path}/kill/{command}", {"signal": "KILL"}).status == 200
    asked.cancelled(question)
    end_of(s, command)
    asked.answer(question, b"y")
    assert s.out("ls") == "ask1\n"
    assert the_event(s, command, "ask1", "file_delete")["decision"] == "deny"


MANY = """
import os, threading
denied = threading.Semaphore(0)
def run(i):
    try:
        os.unlink(f"ask{i % 10}") if i % 2 else os.close(os.open(f"write{i % 10}", os.O_WRONLY))
    except FileNotFoundError:
        pass
    except PermissionError:
        denied.release()
        return
    os.write(1, b"y")
for i in range(300):
    threading.Thread(target=run, args=(i,)).start()
for i in range(44):
    denied.acquire()
os.system("echo x > new; cat new; rm new; /bin/true; ls | wc -l")
"""


def test_fil_3_three_hundred_operations_at_once(asking, asked):
    """256 wait for 10 answers, the others are denied at once. Nothing hangs, also when the command is killed."""
    s = asked.session
    for end in ("killed", "finished"):
        for i in range(10):
            asked.write(f"ask{i}")
            asked.write(f"write{i}")
        command = s.exec("python3", "-c", MANY, detach=True, status=202)["command_id"]
        questions = {asked.question() for _ in range(10)}
        printed(s, command, "x\n20\n")
        if end == "killed":
            assert asking.post(f"{s.path}/kill/{command}", {"signal": "KILL"}).status == 200
            assert {asked.message() for _ in questions} == {(b"c", question) for question in questions}
            assert end_of(s, command) == "x\n20\n"
            continue
        for question in questions:
            asked.answer(question, b"y")
        assert end_of(s, command) == "x\n20\n" + "y" * 256
    assert s.out("rm -v write0; ls | wc -l") == "removed 'write0'\n14\n"  # five that were to be removed are gone
    asked.quiet()


def test_ses_1_a_session_ends_while_operations_wait(asking, asked):
    for name in ("ask1", "write1"):
        asked.write(name)
    other = Approver(asking, asked.wardens)
    make(asking, Path(other.session.workspace) / "ask1", "text")
    start(asked.session, "rm ask1 & : >> write1")
    start(other.session, "rm ask1")
    for approver, n in ((asked, 2), (other, 1)):
        assert {approver.message()[0] for _ in range(n)} == {b"a"}
    asked.session.destroy()
    assert sorted(p.name for p in asked.dir.iterdir()) == ["ask1", "write1"]
    # also by the end of the server
    asking.stop()
    assert asking.process.returncode == 0
    assert (Path(other.session.workspace) / "ask1").exists()


def test_fil_3_a_change_outlives_the_server(asking, asked):
    asked.write("ask1")
    s = asked.session
    command = start(s, "rm ask1; ls")
    question = asked.question()
    os.kill(asking.api_pid(), signal.SIGKILL)
    asking.process.kill()
    asking.process.wait()
    asked.answer(question, b"y")
    asking.start()
    assert end_of(s, command) == ""
    assert list(asked.dir.iterdir()) == []


def test_fil_3_opens_and_changes_have_one_cap(asked):
    """What execs, opens and changes wait for is counted together."""
    for i in range(34):
        asked.write(f"ask{i}")
        asked.write(f"write{i}")
    s = asked.session
    script = (
        "for i in $(seq 0 15); do rm ask$i & : 2> /dev/null >> write$i & done; until [ -e go ]; do :; done; "
        "rm ask32; echo $?; : >> write33; echo $?; wait"
    )
    command = start(s, script)
    questions = [asked.question() for _ in range(32)]
    asked.write("go")
    printed(s, command, "1\n1\n")
    for path, kind in (("ask32", "file_delete"), ("write33", "file_open")):
        assert the_event(s, command, path, kind)["policy"]["reason"] == "too many operations wait for an approver"
    for question in questions:
        asked.answer(question, b"n")
    end_of(s, command)
    asked.quiet()


RACE = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
call, paths, changed, trigger = sys.argv[1], sys.argv[2].split(), sys.argv[3].encode(), sys.argv[4]
buffers = [ctypes.create_string_buffer(p.encode(), 4096) for p in paths]
def change():
    while not os.path.exists(trigger):
        pass
    buffers[-1].value = changed
    os.write(1, b"changed\\n")
threading.Thread(target=change).start()
more = {"open": [os.O_CREAT | os.O_WRONLY, 0o600], "mkdir": [0o700], "chmod": [0o640], "truncate": [1]}
r = getattr(libc, call)(*buffers, *more.get(call, []))
os.write(1, b"%d\\n" % (ctypes.get_errno() if r < 0 else 0))
"""


@pytest.mark.parametrize(
    ("call", "paths", "changed"),
    [
        ("unlink", "ask1", "ask2"),
        ("unlink", "ask1", "/workspace/d/../ask2"),
        ("rename", "ask1 ask3", "ask2"),
        ("rename", "ask1 ask3", "free"),
        ("link", "ask1 ask3", "free"),
        ("open", "ask3", "ask4"),
        ("mkdir", "ask3", "ask4"),
        ("chmod", "own1", "own2"),
        ("truncate", "own1", "own2"),
    ],
)
def test_fil_3_a_path_that_changes_after_the_approval_is_denied(asked, call, paths, changed):
    """With a positive control: the same call goes ahead if the path stays."""
    for name in ("ask1", "ask2", "own1", "own2"):
        asked.write(name)
    (asked.dir / "d").mkdir()
    s = asked.session

    def tree():
        files = [p for p in asked.dir.iterdir() if p.is_file() and not p.name.startswith("go")]
        return {(p.name, p.stat().st_mode, p.stat().st_size) for p in files} | set(asked.dir.glob("ask?"))

    before = tree()
    for new in (changed, paths.split()[-1]):
        argv = ["-c", RACE, call, paths, new, f"go-{new == changed}"]
        command = s.exec("python3", *argv, detach=True, status=202)["command_id"]
        question = asked.question()
        asked.write(f"go-{new == changed}")
        printed(s, command, "changed\n")
        asked.answer(question, b"y")
        text = end_of(s, command)
        assert (text, tree() == before) == (("changed\n13\n", True) if new == changed else ("changed\n0\n", False))
    asked.quiet()


def test_fil_3_an_approval_is_good_for_one_call(asked):
    """The same thread asks again for the same change, and is asked again."""
    s = asked.session
    code = "import os; os.mkdir('ask1'); os.rmdir('ask1'); os.mkdir('ask1')"
    command = s.exec("python3", "-c", code, detach=True, status=202)["command_id"]
    asked.answer(asked.question("file_create /workspace/ask1"), b"y")
    asked.answer(asked.question("file_delete /workspace/ask1"), b"y")
    asked.answer(asked.question("file_create /workspace/ask1"), b"n")
    end_of(s, command)
    assert not (asked.dir / "ask1").exists()
    # what was approved for a file that is made is not approved for its next open
    code = "import os; [os.close(os.open('write1', os.O_WRONLY | f, 0o600)) for f in (os.O_CREAT, 0)]"
    command = s.exec("python3", "-c", code, detach=True, status=202)["command_id"]
    asked.answer(asked.question("file_write /workspace/write1"), b"y")
    asked.answer(asked.question("file_write /workspace/write1"), b"n")
    end_of(s, command)
    assert "PermissionError" in s.output(command, "stderr")["data"]


def test_fil_3_the_other_path_of_the_workspace_is_asked_about_by_the_canonical_one(asked):
    s = asked.session
    command = start(s, f"mkdir {asked.dir}/ask1; cd /; rmdir workspace/ask1")
    asked.answer(asked.question("file_create /workspace/ask1"), b"y")
    asked.answer(asked.question("file_delete /workspace/ask1"), b"y")
    end_of(s, command)
    assert list(asked.dir.iterdir()) == []
