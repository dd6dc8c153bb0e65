# SPDX-License-Identifier: Apache-2.0
"""Every session of a root server has a uid of its own, whoever asks; files still belong to their owner."""

import hashlib
import os
import subprocess

import harness
import pytest
from harness import USER_UID, status_of

KEY = "key-of-the-user"
AGENT = {"id": "k", "agent_id": "a", "role": "agent", "uid": USER_UID,
         "sha256": hashlib.sha256(KEY.encode()).hexdigest()}  # fmt: skip
FIRST, LAST = 1900000000, 1900065535


def separation(session):
    return next(w for w in session.record["enforcement"] if w["wall"] == "process_separation")


def own_workspace(server, mode=0o700):
    ws = server.workspace()
    os.chown(ws, USER_UID, USER_UID)
    ws.chmod(mode)
    return ws


@pytest.fixture
def users_server(new_server):
    harness.ensure_user()
    return new_server(keys=[AGENT])


def test_sbx_6_every_session_has_a_uid_of_its_own(users_server):
    s = users_server
    sessions = [s.session(), s.session()]
    sessions += [s.session(key=KEY, workspace=str(own_workspace(s))) for _ in range(2)]
    uids = [int(x.out("id -u")) for x in sessions]
    assert len(set(uids)) == 4 and all(FIRST <= uid <= LAST for uid in uids), uids
    assert {x.out("id -g; id -G") for x in sessions} == {f"{uid}\n{uid}\n" for uid in uids}
    assert {status_of(pid)["Uid"].split()[0] for pid in s.warden_pids()} == set(map(str, uids))
    assert {separation(x)["state"] for x in sessions} == {"up"}


def test_sbx_6_files_belong_to_their_owner(users_server):
    s = users_server
    ws = own_workspace(s)
    (ws / "before").write_text("mine")
    os.chown(ws / "before", USER_UID, USER_UID)
    (ws / "before").chmod(0o600)
    x = s.session(key=KEY, workspace=str(ws))
    assert x.out("cat before; echo made > made; mkdir -p a/b; stat -c %u . made before | sort -u") == (
        "mine" + x.out("id -u")
    )
    for path in ("made", "a", "a/b"):
        assert ((ws / path).stat().st_uid, (ws / path).stat().st_gid) == (USER_UID, USER_UID), path


def test_sbx_6_in_a_listed_workspace_of_another_the_files_are_the_callers(new_server):
    """The session gains no power over the files of the workspace's owner."""
    harness.ensure_user()
    s = new_server(start=False, keys=[AGENT])
    ws = s.workspace()
    ws.chmod(0o777)
    (ws / "secret").write_text("root's")
    (ws / "secret").chmod(0o600)
    s.merge(s.config, {"sandbox": {"workspaces": [str(ws)]}})
    s.start()
    x = s.session(key=KEY, workspace=str(ws))
    assert x.script("cat secret || touch mine")["result"]["stdout"] == ""
    assert (ws / "mine").stat().st_uid == USER_UID


def test_sbx_6_writable_lists_are_mapped_as_the_workspace_is(new_server, tmp_path):
    harness.ensure_user()
    tmp_path.chmod(0o755)
    for d in list(tmp_path.parents)[:2]:
        d.chmod(0o755)
    shared, fixed = tmp_path / "shared", tmp_path / "shared" / "fixed"
    fixed.mkdir(parents=True)
    for d in (shared, fixed):
        os.chown(d, USER_UID, USER_UID)
    shared.chmod(0o700)
    s = new_server(
        keys=[AGENT],
        config={"filesystem": {"passthrough_paths": [str(shared)],
                               "read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", str(fixed)]}},
    )  # fmt: skip
    x = s.session(key=KEY, workspace=str(own_workspace(s)))
    assert x.out(f"touch {shared}/made; touch {fixed}/no 2>/dev/null || echo shut") == "shut\n"
    assert (shared / "made").stat().st_uid == USER_UID
    other = s.session()
    assert other.script(f"ls {shared}")["result"]["exit_code"] != 0


def test_sbx_6_root_inside_has_its_own_uid_and_writes_as_the_owner(new_server, tmp_path):
    for d in [tmp_path, *list(tmp_path.parents)[:2]]:
        d.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o700)
    s = new_server(config={"sandbox": {"root_inside": True}, "filesystem": {"passthrough_paths": [str(shared)]}})
    x = s.session()
    assert x.out(f"id -u; touch made {shared}/made") == "0\n"
    assert (shared / "made").stat().st_uid == (x.workspace / "made").stat().st_uid == 0
    assert FIRST <= int(status_of(s.warden_pids()[0])["Uid"].split()[0]) <= LAST


def test_sbx_6_without_idmapped_mounts_the_session_is_the_callers(users_server):
    s = users_server
    ws = s.workspace()
    subprocess.run(["mount", "-t", "ramfs", "none", ws], check=True)
    try:
        a = s.post("/api/v1/sessions", {"workspace": str(ws)})
        assert (a.status, a.code) == (503, "E_ENFORCEMENT") and "ramfs" in a.json["error"]["message"], a.body
        os.chown(ws, USER_UID, USER_UID)
        x = s.session(key=KEY, workspace=str(ws))
        assert x.out("id -u; touch made") == f"{USER_UID}\n"
        assert (ws / "made").stat().st_uid == USER_UID
        wall = separation(x)
        assert wall["state"] == "partial" and "ramfs" in wall["detail"], wall
        x.destroy()
    finally:
        subprocess.run(["umount", "-l", ws], check=True)


def test_sbx_6_a_session_uid_gets_403_on_everything(users_server):
    s = users_server
    curl = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", str(s.socket)]
    key = f"Authorization: Bearer {KEY}"
    for path in ("/health", "/ready", "/metrics", "/openapi.json", "/api/v1/sessions", "/nothing"):
        for uid, expect in ((FIRST, "403"), (LAST, "403"), (LAST + 1, None), (USER_UID, None)):
            for more in ([], ["-H", key]):
                r = subprocess.run(
                    [*curl, *more, f"http://localhost{path}"], user=uid, group=uid, extra_groups=[],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
                assert (r.stdout == "403") == (expect == "403"), (path, uid, more, r.stdout)


def test_sbx_6_prepared_sandboxes_give_their_ids_to_sessions(new_server, tmp_path):
    s = new_server(config={"sandbox": {"session_uids": "1900209999-1900210001", "pool_size": 2}})
    harness.wait_for(lambda: len(s.waiting_pids()) == 2, "the pool is filled")
    # What was prepared serves no session once the host's mounts have changed.
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path], check=True)
    subprocess.run(["umount", tmp_path], check=True)
    assert {s.session().out("id -u") for _ in range(2)} == {"1900210000\n", "1900210001\n"}


def test_ses_8_after_a_restart_no_living_session_loses_its_uid(new_server):
    s = new_server(config={"sandbox": {"session_uids": "1900199999-1900200003", "pool_size": 0}})
    old = [s.session(), s.session()]
    uids = {x.out("id -u") for x in old}
    s.process.kill()
    s.process.wait()
    s.start()
    harness.wait_for(lambda: all(s.get(x.path).status == 200 for x in old), "the sessions are found")
    new = [s.session(), s.session()]
    assert {x.out("id -u") for x in old} == uids
    assert len(uids | {x.out("id -u") for x in new}) == 4
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())})
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT") and "sandbox.session_uids" in a.json["error"]["message"]
