# SPDX-License-Identifier: Apache-2.0
"""The launcher is killed again and again while sessions execute as fast as they can: no exec goes unverified.

Two counts must agree: the programs that a session's script saw run, and the execs that the kernel's check compared, as
read from its map by a process outside. Each of them has an event that says so."""

import contextlib
import os
from pathlib import Path

import harness
import pytest

import bpf

KILLS = 20
SESSIONS = 3
STORM = "n=0; while ! [ -e stop ]; do /bin/true && n=$((n + 1)); done; echo $n > ran"


def storms_behind_others():
    """Gives the server and the wardens the processors first, else they are late on a busy machine: nice(1) counts
    only among the processes of one terminal session where the kernel has autogroups. Returns the storms' processes."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:3] == ["sh", "-c", STORM]:
                found.append(pid)
                Path(f"/proc/{pid}/autogroup").write_text("19")
    return found


def all_events(session, command):
    found, cursor = [], ""
    while cursor is not None:
        page = session.get(f"/history?type=exec&command_id={command}&limit=1000{cursor}")
        found += page["events"]
        cursor = f"&cursor={page['next']}" if page.get("next") else None
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_pol_4_no_exec_is_unverified_while_the_launcher_is_killed(new_server):
    server = new_server(config={"sandbox": {"bpf": "required"}})
    sessions, wardens = [], {}
    for _ in range(SESSIONS):
        before = set(server.warden_pids())
        s = server.session()
        wardens[s.id] = (set(server.warden_pids()) - before).pop()
        storm = s.exec("nice", "-n", "19", "sh", "-c", STORM, detach=True, status=202, timeout="10m")
        sessions.append((s, storm["command_id"]))
    harness.wait_for(lambda: len(storms_behind_others()) == SESSIONS, "the storms run")

    def compared():
        return [bpf.record(pid)[0] for pid in wardens.values()]

    def all_go_on():
        before = compared()
        harness.wait_for(lambda: all(b > a for a, b in zip(before, compared(), strict=True)), "the storm goes on")

    for _ in range(KILLS):
        all_go_on()
        server.process.kill()
        server.process.wait(harness.DEADLINE)
        server.process.stdout.close()
        all_go_on()  # without a launcher
        server.start()
    new = server.session()
    new_command = new.script("/bin/true; /bin/true")["command_id"]
    assert [e["exec"]["verified"] for e in new.history(type="exec", command_id=new_command)].count("bpf") == 2
    for s, _ in sessions:
        (s.workspace / "stop").touch()
    for s, command in sessions:

        def state(s=s, command=command):
            return s.get(f"/commands/{command}")["state"]

        harness.wait_for(lambda state=state: state() == "finished", "the storm ends", show=state)
        ran = int((s.workspace / "ran").read_text())
        events = all_events(s, command)
        programs = [e for e in events if e["exec"]["path"] == "/usr/bin/true"]
        assert {e["exec"]["verified"] for e in programs} == {"bpf"}, s.id
        assert bpf.record(wardens[s.id]) == (ran + 1, 0) and ran > KILLS, s.id  # and the shell
        assert sum(e["count"] for e in programs) == ran, s.id
