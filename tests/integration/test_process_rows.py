# SPDX-License-Identifier: Apache-2.0
"""A process of a session is a row: what a row gets that exists only in builds with -Dtest_processes=true."""

import os
import signal

import harness
import pytest

PROGRAM = "agentsh-test-process"
pytestmark = pytest.mark.skipif(not (harness.BUILD / PROGRAM).exists(), reason="built without -Dtest_processes=true")


def processes_of(server, session):
    """NAME: pid of the session's record."""
    lines = (server.runtime / f"sessions/{session.id}.meta").read_text().split()
    record = dict(line.split("=") for line in lines)
    return {key[:-4]: int(pid) for key, pid in record.items() if key.endswith("_pid")}


def own_events(session):
    return [e for e in session.history(type="file_stat") if e["path"] == "/test-process"]


def expect_end(pids):
    harness.wait_for(lambda: not any(map(harness.alive, pids.values())), "all processes have ended")


@pytest.fixture(params=["pooled", "made", "user"])
def server(request, new_server):
    if request.param == "user":
        return new_server(uid=harness.USER_UID)
    size = 1 if request.param == "pooled" else 0
    server = new_server(config={"sandbox": {"pool_size": size}})
    harness.wait_for(lambda: len(server.waiting_pids()) == size, "sandboxes are prepared")
    return server


def test_sbx_6_a_process_is_started_for_each_session(server):
    s = server.session()
    pids = processes_of(server, s)
    assert list(pids) == ["warden", "init", "test"]
    status = harness.status_of(pids["test"])
    assert harness.program_of(pids["test"]) == PROGRAM
    assert int(status["PPid"]) == pids["warden"]
    assert status["Uid"] == harness.status_of(pids["warden"])["Uid"]
    assert {status[cap] for cap in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    # stdio, its ring, the acknowledgement, the policy, its link, and nothing of the launcher
    assert len(os.listdir(f"/proc/{pids['test']}/fd")) <= 3 + 4 + 1
    harness.wait_for(lambda: len(own_events(s)) == 1, "its event is stored")
    s.destroy()
    expect_end(pids)
    harness.wait_for(lambda: not list(server.runtime.glob("sessions/*")), "its files are removed")


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


def test_ses_8_it_survives_the_server(server):
    s = server.session()
    pids = processes_of(server, s)
    os.kill(server.api_pid(), signal.SIGKILL)
    server.process.kill()
    server.process.wait()
    server.start()
    assert processes_of(server, s) == pids and all(map(harness.alive, pids.values()))
    harness.wait_for(lambda: len(own_events(s)) == 1, "its event is stored, once")
    assert s.out("echo fine") == "fine\n"
    s.destroy()
    expect_end(pids)
