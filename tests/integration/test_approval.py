# SPDX-License-Identifier: Apache-2.0
"""A command whose program waits for an approver holds up its session's queue, and nothing else."""

from pathlib import Path

import harness
from approvals import Approver, on

POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
command_rules:
  - {name: ask, commands: [expr], decision: approve}
"""


CONFIG = {"sandbox": {"allow_unenforced": ["file_rules", "network_rules"]}}
pytestmark = on("root")


def state_of(session, command):
    return session.get(f"/commands/{command}")["state"]


def test_pol_2_the_queue_waits_behind_a_held_initial_exec(asking, wardens):
    held, other = Approver(asking, wardens), Approver(asking, wardens)
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
    assert asking.call("PATCH", s.path, {"environment": {"APP_X": "1"}}).status == 200
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


def test_pol_2_a_disapproved_command_lets_the_queue_go_on(asking, wardens):
    held = Approver(asking, wardens)
    s = held.session
    first = s.exec("expr", "1", "+", "1", detach=True, status=202)["command_id"]
    question = held.question()
    second = s.exec("echo", "second", detach=True, status=202)["command_id"]
    held.answer(question, b"n")
    harness.wait_for(lambda: state_of(s, second) == "finished", "the next one has run")
    assert state_of(s, first) == "finished"
    assert s.output(second)["data"] == "second\n"
