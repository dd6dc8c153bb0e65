# SPDX-License-Identifier: Apache-2.0
"""The error of a command that an approver has refused, or that nobody has approved in time."""

import harness
import pytest
from approvals import HURRIED, on, start

POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: ask, paths: ["/workspace/ask*"], operations: [read, delete, create, rename], decision: approve}
command_rules:
  - {name: ask-expr, commands: [expr], decision: approve}
"""

pytestmark = on("root", "user")

# script, operation, target, rule: parked by agentsh-fs, held before the call, held at its exec
CASES = [
    ("cat ask1", "file_read", "/workspace/ask1", "ask"),
    ("rm ask1", "file_delete", "/workspace/ask1", "ask"),
    ("mv file ask2", "file_create", "/workspace/ask2", "ask"),
    ("/usr/bin/expr 1 + 1", "exec", "/usr/bin/expr", "ask-expr"),
]


def expect(asked, command, number, case, code):
    """The record of the command, and the event."""
    script, operation, target, rule = case
    record = harness.wait_for(lambda: finished(asked.session, command), "it is over")
    error, context = record["error"], record["error"]["context"]
    assert (error["code"], error["path"]) == (code, target)
    assert context == {
        "working_dir": "/workspace",
        "command": context["command"],
        "operation": operation,
        "path": target,
        "rule": rule,
        "approval_id": asked.ids[number],
    }
    (event,) = asked.session.history(command_id=command, decision="deny")
    assert event["policy"]["approval"] == {
        "required": True,
        "mode": "enforced",
        "approval_id": asked.ids[number],
        "error": code,
    }
    assert (event["policy"]["rule"], event["policy"]["operation"]) == (rule, operation)


def finished(session, command):
    record = session.get(f"/commands/{command}")
    return record if record["state"] == "finished" else None


@pytest.mark.parametrize("case", CASES)
def test_apr_7_the_error_says_what_was_refused(asked, case):
    for name in ("ask1", "file"):
        asked.write(name)
    command = start(asked.session, case[0])
    number = asked.question()
    asked.answer(number, b"n")
    expect(asked, command, number, case, "E_APPROVAL_DENIED")
    # what is approved has no error, and its event says by which approval
    command = start(asked.session, case[0])
    number = asked.question()
    asked.answer(number, b"y")
    record = harness.wait_for(lambda: finished(asked.session, command), "it is over")
    assert (record["exit_code"], record["error"]) == (0, None)
    ids = {e["policy"]["approval"]["approval_id"] for e in approved(asked.session, command)}
    assert ids == {asked.ids[number]}


def approved(session, command):
    """Reads and writes are events of the open file, not of the approved open."""
    harness.wait_for(lambda: opened(session, command), "the event is stored")
    return opened(session, command)


def opened(session, command):
    events = session.history(command_id=command, decision="approve")
    return [e for e in events if e["type"] not in ("file_read", "file_write")]


@HURRIED
@pytest.mark.parametrize("case", CASES)
def test_apr_7_the_error_says_what_nobody_approved_in_time(asked, case):
    for name in ("ask1", "file"):
        asked.write(name)
    answer = asked.session.script(case[0])
    number = asked.question()
    expect(asked, answer["command_id"], number, case, "E_APPROVAL_TIMEOUT")
    assert answer["result"]["error"]["code"] == "E_APPROVAL_TIMEOUT"
    (blocked,) = answer["events"]["blocked_operations"]
    assert blocked["policy"]["approval"]["error"] == "E_APPROVAL_TIMEOUT"
    asked.cancelled(number)


def test_apr_7_a_refused_command_has_the_error_itself(asking, asked):
    """Its initial program: a command that is not started."""
    s = asked.session
    command = s.exec("expr", "1", "+", "1", detach=True, status=202)["command_id"]
    number = asked.question()
    asked.answer(number, b"n")
    error = harness.wait_for(lambda: finished(s, command), "it is over")["error"]
    assert (error["code"], error["policy"]["approval_id"]) == ("E_APPROVAL_DENIED", asked.ids[number])


def test_apr_7_a_command_that_does_not_fail_has_no_error(asked):
    asked.write("ask1")
    command = start(asked.session, "rm ask1 2>/dev/null; echo $?")
    asked.answer(asked.question(), b"n")
    assert harness.wait_for(lambda: finished(asked.session, command), "it is over")["error"] is None
