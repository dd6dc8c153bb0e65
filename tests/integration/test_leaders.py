# SPDX-License-Identifier: Apache-2.0
"""Commands that kill their leader: recorded as what they were, and the session goes on."""

import os
import signal

import harness
import pytest

REASON = "ended without a result; it may have run"
EVERYTHING = "unlink($ARGV[0]); kill 9, -1"


def started_and_executed(session, command_id):
    types = [e["type"] for e in session.history(command_id=command_id)]
    assert types.index("command_started") < types.index("exec"), types
    return types


def check_killed(session, answer):
    r = answer["result"]
    assert (r["exit_code"], r["signal"], r["error"]["code"]) == (137, "KILL", "E_COMMAND_KILLED"), r
    assert REASON in r["error"]["message"]
    assert session.get(f"/commands/{answer['command_id']}")["state"] == "killed"


def test_ses_8_a_command_that_did_its_work_is_never_lost(server, session):
    for i in range(120):
        work = session.workspace / f"work{i}"
        work.touch()
        os.chown(work, server.uid, server.uid)
        a = session.exec("perl", "-e", EVERYTHING, work.name)
        assert not work.exists()
        check_killed(session, a)
        assert started_and_executed(session, a["command_id"])[-1] == "command_killed"


@pytest.mark.parametrize("background", ["end", "keep"])
def test_ses_8_a_session_outlives_its_leaders(server, background):
    session = server.session(background=background)
    session.exec(script="cd /tmp; export STAYS=yes")
    for i in range(200):
        a = session.exec(script=["kill -9 -1", "kill -9 $PPID", "sleep 1000 & kill -9 $PPID"][i % 3])
        check_killed(session, a)
        assert session.out("echo $STAYS $PWD") == "yes /tmp\n"
    assert session.get()["state"] == "ready"
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")
    session.destroy()


def test_ses_8_waiting_and_running_commands_when_everything_is_killed(session):
    """What ran is killed, what waited runs, background processes of earlier commands are gone."""
    gate = harness.Gate(session)
    wanted = {"script": f"touch runs; {gate.wait}; kill -9 -1", "detach": True}
    running = session.exec(status=202, **wanted)["command_id"]
    waiting = [session.exec(script=f"echo {i}", detach=True, status=202)["command_id"] for i in range(5)]
    harness.wait_for((session.workspace / "runs").exists, "it runs")
    gate.open()
    for i, command in enumerate(waiting):
        harness.wait_for(lambda c=command: session.get(f"/commands/{c}")["state"] == "finished", "it ran")
        assert session.output(command)["data"] == f"{i}\n"
    assert session.get(f"/commands/{running}")["state"] == "killed"


def test_ses_8_no_signal_of_a_command_makes_init_end_what_runs(session):
    assert session.out("for i in $(seq 64); do kill -$i 1 2>/dev/null; done; echo still") == "still\n"


@pytest.mark.parametrize("victim", ["agentsh-warden", "agentsh-init"])
def test_ses_8_handed_over_and_without_a_result_is_killed(server, victim):
    before = set(server.warden_pids())
    session = server.session()
    (mine,) = set(server.warden_pids()) - before
    ran = session.exec(script="sleep 1000", detach=True, status=202)["command_id"]
    waits = session.exec(script="true", detach=True, status=202)["command_id"]
    harness.wait_for(lambda: "sleep" in map(harness.program_of, harness.descendants_of(mine)), "it runs")
    os.kill(next(p for p in [mine, *harness.descendants_of(mine)] if harness.program_of(p) == victim), signal.SIGKILL)
    harness.wait_for(lambda: session.get()["state"] == "failed", "the session is failed")
    record = session.get(f"/commands/{ran}")
    assert record["state"] == "killed" and REASON in record["error"]["message"], record
    started_and_executed(session, ran)
    assert session.get(f"/commands/{waits}")["started"] is None
