# SPDX-License-Identifier: Apache-2.0
"""File operations that wait for an approver, in sessions with a file server."""

import os
import signal
from pathlib import Path

import harness
import pytest
from approvals import end_of, on, printed, start, the_event

POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: ask-read, paths: ["/workspace/secret*"], operations: [read], decision: approve}
  - {name: ask-write, paths: ["/workspace/secret*"], operations: [write], decision: approve}
  - {name: ask-list, paths: ["/workspace/shut"], operations: [list], decision: approve}
  - {name: ask-chmod, paths: ["/workspace/mode"], operations: [chmod], decision: approve}
  - {name: never, paths: ["/workspace/never"], operations: [read], decision: deny}
"""


pytestmark = on("root", "user", "io_uring")


@pytest.fixture(autouse=True)
def secret(asked):
    asked.write("secret")


def test_fil_3_an_open_waits_and_nothing_else_does(asking, asked):
    """The directory goes on meanwhile: what else the command does there is over before the answer is given."""
    s = asked.session
    command = start(s, "cat secret & ls; echo x > new; cat new; /bin/true; wait; echo over")
    question = asked.question("file_read /workspace/secret")
    printed(s, command, "secret\nx\n")
    asked.answer(question, b"y")
    assert end_of(s, command) == "secret\nx\ntext\nover\n"
    event = the_event(s, command, "secret")
    assert (event["decision"], event["policy"]["rule"]) == ("allow", "ask-read")
    assert event["policy"]["approval"] == {"required": True, "mode": "enforced", "approval_id": asked.ids[question]}
    asked.quiet()


def test_fil_3_a_disapproved_open_fails(asked):
    s = asked.session
    command = start(s, "cat secret; echo $?")
    asked.answer(asked.question(), b"n")
    assert end_of(s, command) == "1\n"
    assert "Permission denied" in s.output(command, "stderr")["data"]
    event = the_event(s, command, "secret")
    assert (event["decision"], event["policy"]["rule"]) == ("deny", "ask-read")
    assert event["policy"]["reason"] == "the approver said no"


def test_fil_3_one_question_for_all_operations_of_an_open(asked):
    s = asked.session
    command = start(s, "exec 3<>secret; cat <&3; echo more >&3; exec 3<&-; echo over")
    asked.answer(asked.question("file_read+write /workspace/secret"), b"y")
    assert end_of(s, command) == "text\nover\n"
    assert (asked.dir / "secret").read_text() == "text\nmore\n"
    asked.quiet()
    # an answer is good for one open
    command = start(s, "cat secret; echo $?")
    asked.answer(asked.question("file_read /workspace/secret"), b"n")
    assert end_of(s, command) == "1\n"


def test_fil_3_a_listing_waits(asked):
    (asked.dir / "shut").mkdir()
    (asked.dir / "shut/x").touch()
    os.chown(asked.dir / "shut", *[asked.dir.stat().st_uid] * 2)
    s = asked.session
    command = start(s, "ls shut")
    asked.answer(asked.question("file_list /workspace/shut"), b"y")
    assert end_of(s, command) == "x\n"


def test_fil_3_what_is_denied_is_not_asked(asked):
    asked.write("never")
    assert asked.session.script("cat never")["result"]["exit_code"] == 1
    asked.quiet()


def test_fil_3_what_cannot_wait_is_denied(asked):
    """The kernel has locked the file by then."""
    asked.write("mode")
    s = asked.session
    a = s.exec("python3", "-c", "import os; os.fchmod(os.open('mode', os.O_RDONLY), 0o644)")
    assert a["result"]["exit_code"] == 1
    event = the_event(s, a["command_id"], "mode", "file_chmod")
    assert event["policy"]["reason"] == "an approver was not asked about this before the call"
    asked.quiet()


def test_fil_3_a_killed_command_does_not_wait(asking, asked):
    s = asked.session
    command = start(s, "cat secret")
    question = asked.question()
    assert asking.post(f"{s.path}/kill/{command}", {"signal": "KILL"}).status == 200
    asked.cancelled(question)
    end_of(s, command)
    asked.answer(question, b"y")
    event = the_event(s, command, "secret")
    assert event["decision"] == "deny"
    assert s.out("echo after") == "after\n"


def test_fil_3_a_signal_ends_the_wait(asked):
    s = asked.session
    command = start(s, "cat secret & echo $!; wait $!; echo $?")
    question = asked.question()
    harness.wait_for(lambda: s.output(command)["data"], "it prints the pid")
    pid = s.output(command)["data"].strip()
    harness.wait_for(lambda: cats(s), "cat waits")
    (cat,) = cats(s)
    os.kill(cat, signal.SIGTERM)
    asked.cancelled(question)
    assert end_of(s, command) == f"{pid}\n143\n"


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def test_fil_3_a_signal_with_a_handler_ends_the_wait(asked):
    """The kernel asks agentsh-fs to interrupt the request; the caller goes on."""
    s = asked.session
    command = s.exec("python3", "-c", INTERRUPTED, detach=True, status=202)["command_id"]
    question = asked.question("file_read /workspace/secret")
    asked.write("go")
    asked.cancelled(question)
    assert end_of(s, command) == "signalled\n"
    assert the_event(s, command, "secret")["decision"] == "deny"
    asked.answer(question, b"y")
    assert s.out("echo after") == "after\n"


INTERRUPTED = """
import os, signal, threading
def handler(*_):
    raise InterruptedError
def interrupt():
    while not os.path.exists("go"):
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
signal.signal(signal.SIGUSR1, handler)
threading.Thread(target=interrupt).start()
try:
    os.open("secret", os.O_RDONLY)
except InterruptedError:
    print("signalled")
"""

MAPPED = """
import mmap, os
fd = os.open("secret", os.O_RDWR)
m = mmap.mmap(fd, 0)
for again in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}", "secret", "/proc/self/cwd/secret"):
    try:
        os.close(os.open(again, os.O_RDWR))
        print("opened", flush=True)
    except PermissionError:
        print("refused", flush=True)
os.close(fd)
m[:4] = b"more"
m.flush()
"""


def test_fil_3_a_mapping_outlives_its_approval_and_gives_no_other(asked):
    """It stays as long as the kernel keeps it. Each further open is asked about, whatever way leads to it."""
    s = asked.session
    for answer, text in ((b"n", "refused\n"), (b"y", "opened\n")):
        asked.write("secret")
        command = s.exec("python3", "-c", MAPPED, detach=True, status=202)["command_id"]
        asked.answer(asked.question("file_read+write /workspace/secret"), b"y")
        for _ in range(4):
            asked.answer(asked.question("file_read+write /workspace/secret"), answer)
        assert end_of(s, command) == 4 * text
        assert (asked.dir / "secret").read_text() == "more\n"
        if answer == b"n":
            written = the_event(s, command, "secret", "file_write")["operation"]
            assert written.get("mapped") or written["bytes"]
    asked.quiet()


def cats(session):
    return [p for p in harness.descendants_of(session.server.pid) if comm(p) == "cat"]


def test_fil_3_equal_opens_share_a_question(asked):
    s = asked.session
    command = start(s, "for i in 1 2 3; do cat secret & done; wait; echo over")
    question = asked.question()
    harness.wait_for(lambda: len(cats(s)) == 3, "three wait")
    asked.answer(question, b"y")
    # one that came after the answer has a question of its own
    while not events_done(s, command):
        try:
            asked.socket.settimeout(0.2)
            asked.answer(asked.question(), b"y")
        except TimeoutError:
            continue
    assert end_of(s, command) == "text\n" * 3 + "over\n"


def events_done(session, command):
    return session.get(f"/commands/{command}")["state"] == "finished"


def test_fil_3_no_more_than_the_cap_wait(asked):
    """32 questions; the next operation is denied at once, and others go on."""
    for i in range(33):
        asked.write(f"secret{i}")
    s = asked.session
    script = (
        "for i in $(seq 0 31); do cat secret$i > /dev/null & done; echo started; "
        "until [ -e go ]; do :; done; cat secret32; echo $?; wait"
    )
    command = start(s, script)
    questions = [asked.question() for _ in range(32)]
    asked.write("go")
    printed(s, command, "started\n1\n")
    event = the_event(s, command, "secret32")
    assert event["policy"]["reason"] == "too many operations wait for an approver"
    asked.quiet()
    for question in questions:
        asked.answer(question, b"y")
    end_of(s, command)


def test_fil_3_an_open_outlives_the_server(asking, asked):
    s = asked.session
    command = start(s, "cat secret")
    question = asked.question()
    os.kill(asking.api_pid(), signal.SIGKILL)
    asking.process.kill()
    asking.process.wait()
    asked.answer(question, b"y")
    asking.start()
    assert end_of(s, command) == "text\n"
