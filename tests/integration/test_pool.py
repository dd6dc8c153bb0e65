# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are prepared before a session is asked for: who asks cannot tell, but by the clock."""

import os
import signal
import subprocess
import time

import pytest
from harness import USER_UID, children_of, status_of, wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server prepares sandboxes")


def prepared(server, n=2):
    wait_for(lambda: len(server.waiting_pids()) == n, f"{n} are prepared")
    return set(server.waiting_pids())


def listed(new_server, tmp_path, kind="read_only_passthrough_paths"):
    for parent in [tmp_path, *tmp_path.parents]:
        if parent.stat().st_mode & 0o055 != 0o055:
            parent.chmod(0o755)
    place = tmp_path / "listed"
    place.mkdir()
    (place / "which").write_text("old\n")
    server = new_server(config={"filesystem": {kind: ["/usr", "/bin", "/lib", "/lib64", str(place)]}})
    return server, place


def file_servers(server):
    """agentsh-fs of each prepared sandbox."""
    pids = [child for parent in server.waiting_pids() for child in children_of(parent)]
    return [pid for pid in pids if status_of(pid)["Name"] == "agentsh-fs"]


def warden_of(server, session):
    meta = dict(x.split("=") for x in (server.runtime / f"sessions/{session.id}.meta").read_text().split())
    return int(meta["warden_pid"])


def test_sbx_4_a_session_is_a_prepared_one(new_server):
    server = new_server()
    pids = prepared(server)
    s = server.session()
    warden = warden_of(server, s)
    assert warden in pids
    assert status_of(warden)["Name"] == "agentsh-warden"
    with open(f"/proc/{warden}/cmdline") as f:
        assert f.read().split("\0")[:2] == ["agentsh-warden", s.id]
    assert s.out("cat /etc/hostname") == f"{s.id}\n"


def test_sbx_1_a_prepared_one_has_no_power_once_it_is_bound(new_server):
    server = new_server()
    prepared(server)
    s = server.session()
    status = status_of(warden_of(server, s))
    assert "0" not in status["Uid"].split() + status["Gid"].split()
    assert all(int(status[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert status["NoNewPrivs"] == "1" and status["Groups"].split() == []


def test_sbx_1_no_process_of_its_uid_reads_the_memory_of_a_prepared_one(new_server):
    for pid in prepared(new_server()):
        assert "0" not in status_of(pid)["Uid"].split()
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0  # as of any process that is not dumpable


def test_ses_3_two_users_get_what_is_theirs(new_server):
    """The ids are bound last: whoever asks may have any of the pool."""
    server = new_server(config={"sandbox": {"run_as": "owner"}})
    pids = prepared(server)
    workspace = server.workspace()
    os.chown(workspace, USER_UID, USER_UID)
    root, user = server.session(), server.session(workspace=str(workspace))
    assert {warden_of(server, s) for s in (root, user)} == pids
    assert user.out("id -u") != root.out("id -u")
    for s in (root, user):
        assert s.out("touch ~/mine /workspace/mine && stat -c %u ~/mine") == s.out("id -u")
    assert (workspace / "mine").stat().st_uid == USER_UID
    assert (root.workspace / "mine").stat().st_uid == 0


def test_fil_6_a_listed_directory_that_was_replaced_is_seen(new_server, tmp_path):
    server, place = listed(new_server, tmp_path)
    prepared(server)
    place.rename(tmp_path / "away")
    place.mkdir()
    (place / "which").write_text("new\n")
    assert server.session().out(f"cat {place}/which") == "new\n"
    prepared(server)
    assert server.session().out(f"cat {place}/which") == "new\n"


def test_fil_6_what_is_mounted_below_a_listed_directory_is_seen(new_server, tmp_path):
    server, place = listed(new_server, tmp_path)
    (place / "below").mkdir()
    prepared(server)
    subprocess.run(["mount", "-t", "tmpfs", "none", place / "below"], check=True)
    try:
        (place / "below/which").write_text("mounted\n")
        assert server.session().out(f"cat {place}/below/which") == "mounted\n"
    finally:
        subprocess.run(["umount", "-l", place / "below"], check=True)


@pytest.mark.parametrize("what", [signal.SIGSTOP, signal.SIGKILL])
def test_ses_1_a_stopped_or_dead_file_server_of_the_pool_does_not_hold_a_session(new_server, what):
    server = new_server()
    before = prepared(server)
    theirs = file_servers(server)
    assert len(theirs) == 2
    for pid in theirs:
        os.kill(pid, what)
    begin = time.monotonic()
    s = server.session()
    took = time.monotonic() - begin
    assert s.out("echo mine > f && cat f") == "mine\n" and (s.workspace / "f").read_text() == "mine\n"
    assert warden_of(server, s) not in before
    assert took < 15 and (what == signal.SIGKILL or took >= 5), took
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in theirs), "both have gone", show=lambda: theirs)
    assert not prepared(server) & before
    begin = time.monotonic()
    server.session().exec("true")
    assert time.monotonic() - begin < 5, "the new ones serve"
