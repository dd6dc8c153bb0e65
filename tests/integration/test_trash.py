# SPDX-License-Identifier: Apache-2.0
"""soft_delete: what a session deletes can be restored, and the session cannot change that."""

import errno
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from harness import USER_UID, wait_for
from mount_tree import PROGRAM, MountTree

FUSE = {"monitoring": {"mode": "fuse"}}
USERS = pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])
RULES = """
version: 1
name: rules
default: {files: allow, network: deny, commands: allow}
file_rules:
  - {name: fixed, paths: ["${WORKSPACE}/fixed/**"], operations: [create, write], decision: deny}
  - {name: scratch, paths: ["${WORKSPACE}/scratch/**"], operations: [delete], decision: allow}
  - {name: keep, paths: ["${WORKSPACE}/**"], operations: [delete], decision: soft_delete}
"""


@pytest.fixture
def keeping(new_server):
    """keeping(uid, **config): a server whose sessions keep what they delete."""

    def start(uid=0, **config):
        server = new_server(uid=uid, config=FUSE, start=False)
        rules = server.dir / "policies"
        rules.mkdir(mode=0o755)
        (rules / "rules.yaml").write_text(RULES)
        (rules / "rules.yaml").chmod(0o644)
        if uid:
            for path in (rules, rules / "rules.yaml"):
                os.chown(path, uid, uid)
        server.merge(server.config, {"policies": {"dir": str(rules), "default": "rules"}, **config})
        return server.start()

    return start


def trash(s, status=200):
    a = s.server.get(f"/api/v1/sessions/{s.id}/trash")
    assert a.status == status, a.body
    return a.json


def entries(s):
    return {e["real_path"][len(str(s.workspace)) + 1 :]: e for e in trash(s)["entries"]}


def restore(s, name, status=200):
    a = s.server.post(f"/api/v1/sessions/{s.id}/trash/{entries(s)[name]['id']}/restore")
    assert a.status == status, a.body
    return a.json


@USERS
def test_fil_3_a_deleted_file_is_kept_and_comes_back(keeping, uid):
    server = keeping(uid)
    s = server.session()
    s.out("mkdir -p d/e; echo text > d/e/f; chmod 640 d/e/f; touch -d 2020-01-01 d/e/f; ln -s nowhere l; mkfifo p")
    before = (s.workspace / "d/e/f").stat()
    done = s.script("rm -r d l p; ls -A")
    assert done["result"]["stdout"] == "" and done["result"]["exit_code"] == 0, done
    kept = entries(s)
    assert set(kept) == {"d/e/f", "l"}
    f = kept["d/e/f"]
    assert f["path"] == "/workspace/d/e/f" and f["type"] == "file" and f["mode"] == "0640" and f["size"] == 5
    assert f["command_id"] == done["command_id"] and f["modified"].startswith("2020-01-01")
    gone = [e for e in s.history(type="file_soft_deleted") if e["path"] == "/workspace/d/e/f"]
    assert len(gone) == 1 and gone[0]["decision"] == "allow" and gone[0]["real_path"] == f["real_path"]
    assert gone[0]["policy"]["decision"] == "soft_delete" and gone[0]["policy"]["effective_decision"] == "allow"
    assert gone[0]["policy"]["rule"] == "keep" and gone[0]["operation"]["to"] == f"trash/{f['id']}"
    # directories and pipes are simply removed
    assert {e["path"] for e in s.history(type="dir_delete")} == {"/workspace/d", "/workspace/d/e"}
    assert restore(s, "d/e/f") == {"id": f["id"]}
    restore(s, "l")
    assert s.out("cat d/e/f; readlink l") == "text\nnowhere\n"
    after = (s.workspace / "d/e/f").stat()
    assert (after.st_mode, after.st_mtime, after.st_uid) == (before.st_mode, before.st_mtime, before.st_uid)
    assert entries(s) == {}
    made = [e for e in s.history(type="file_create") if e.get("operation", {}).get("flags") == ["RESTORED"]]
    assert [e["path"] for e in made] == ["/workspace/d/e/f", "/workspace/l"]


@USERS
def test_fil_3_a_restore_replaces_nothing_and_obeys_the_policy(keeping, uid):
    server = keeping(uid)
    s = server.session()
    (s.workspace / "fixed").mkdir()
    (s.workspace / "fixed/f").write_text("text")
    for path in ("fixed", "fixed/f"):
        os.chown(s.workspace / path, uid, uid)
    s.out("echo one > a; rm a fixed/f; echo two > a")
    assert restore(s, "a", 409)["error"]["code"] == "E_CONFLICT"
    assert s.out("cat a") == "two\n"
    refused = restore(s, "fixed/f", 403)["error"]
    assert refused["code"] == "E_POLICY_DENIED" and refused["policy"]["rule"] == "fixed"
    assert not (s.workspace / "fixed/f").exists() and set(entries(s)) == {"a", "fixed/f"}
    s.out("rm a")
    assert server.post(f"/api/v1/sessions/{s.id}/trash/12/restore").status == 404
    assert server.post(f"/api/v1/sessions/{s.id}/trash/x/restore").status == 400


@USERS
def test_ses_1_the_owner_restores_after_the_session_and_a_restart(keeping, uid):
    server = keeping(uid)
    s = server.session()
    s.out("mkdir d; echo text > d/f; echo other > g; rm -r d g")
    server.stop()
    server.start()
    assert set(entries(s)) == {"d/f", "g"}
    s.destroy()
    assert restore(s, "g", 410)["error"]["code"] == "E_SESSION_STOPPED"
    f, g = entries(s)["d/f"]["id"], entries(s)["g"]["id"]
    listed = server.cli("trash", "list", "--session", s.id)
    assert (
        listed.returncode == 0 and f in listed.stdout.decode() and str(s.workspace / "d/f") in listed.stdout.decode()
    )
    done = server.cli("trash", "restore", f, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == {"restored": [f]}, done.stderr
    assert (s.workspace / "d/f").read_text() == "text\n" and (s.workspace / "d/f").stat().st_uid == uid
    assert server.cli("trash", "purge", g).returncode == 0
    assert entries(s) == {} and not (s.workspace / "g").exists()
    assert server.cli("trash", "restore", g).returncode == 125


def test_sbx_6_only_the_owner_restores_from_the_trash_of_roots_server(keeping):
    server = keeping(0)
    ws = server.workspace()
    os.chown(ws, USER_UID, USER_UID)
    (ws / "f").write_text("text")
    os.chown(ws / "f", USER_UID, USER_UID)
    s = server.session(workspace=str(ws))
    s.out("rm f")
    s.destroy()
    where = Path(trash(s)["directory"])
    assert (where.stat().st_uid, stat.S_IMODE(where.stat().st_mode)) == (USER_UID, 0o2750)
    assert where.parent.stat().st_uid == 0 and stat.S_IMODE(where.parent.stat().st_mode) == 0o751
    entry = entries(s)["f"]["id"]
    data = where / "files" / entry
    assert data.stat().st_uid == USER_UID and data.stat().st_mode & 0o777 == 0o600
    assert stat.S_IMODE((where / "files").stat().st_mode) == 0o700
    # root is not the owner, and gets no rights over it by agentsh
    r = server.cli("trash", "restore", entry, "--session", s.id)
    assert r.returncode == 125 and b"belongs to uid" in r.stderr and not (ws / "f").exists()


@USERS
def test_fil_3_a_move_does_not_lead_around_the_trash(keeping, uid):
    server = keeping(uid)
    s = server.session()
    s.out("mkdir scratch d; echo 1 > scratch/x; rm scratch/x; echo 2 > a; echo 3 > d/b")
    assert entries(s) == {}  # the rule before it lets it go
    assert s.script("mv a scratch/a")["result"]["exit_code"] == 1
    assert s.script("mv d scratch/d")["result"]["exit_code"] == 1
    s.out("mv scratch/ s2; mv s2 scratch; mv a d/a; rm -r d")  # the other way nothing is lost
    assert set(entries(s)) == {"d/a", "d/b"}


@USERS
def test_cfg_1_sandbox_trash_max_bytes(keeping, uid):
    """What has no room is not deleted, and the answer says why."""
    server = keeping(uid, sandbox={"trash": {"max_bytes": 1 << 20}})
    s = server.session()
    s.out("head -c 600000 /dev/urandom > a; cp a b; truncate -s 1G hole; rm hole a")
    refused = s.script("rm b")
    assert refused["result"]["exit_code"] == 1 and (s.workspace / "b").stat().st_size == 600000
    event = next(e for e in s.history(type="file_delete") if e["decision"] == "deny")
    assert event["policy"]["rule"] == "sandbox.trash.max_bytes" and event["operation"]["error"] == "EDQUOT"
    # the owner makes room, also while the session lives
    assert server.cli("trash", "purge", entries(s)["a"]["id"]).returncode == 0
    s.out("rm b")
    assert set(entries(s)) == {"b", "hole"}
    restore(s, "hole")
    hole = (s.workspace / "hole").stat()
    assert hole.st_size == 1 << 30 and hole.st_blocks < 100


@USERS
def test_cfg_1_sandbox_trash_max_age(keeping, uid):
    server = keeping(uid, sandbox={"trash": {"max_age": "1s"}})
    s = server.session()
    s.out("echo a > a; rm a")
    where = Path(trash(s)["directory"])
    wait_for(lambda: entries(s) == {}, "the entry is too old")
    s.out("echo b > b; rm b")
    assert len(list((where / "files").iterdir())) == 1
    s.destroy()


@USERS
def test_ses_1_an_empty_trash_ends_with_its_session(keeping, uid):
    server = keeping(uid)
    s = server.session()
    where = Path(trash(s)["directory"])
    s.out("echo a > a")
    assert where.is_dir()
    s.destroy()
    wait_for(lambda: not where.exists(), "the directory is gone")
    assert trash(s) == {"session_id": s.id, "directory": str(where), "entries": [], "next": "", "total": 0}


@pytest.mark.parametrize("lives", [True, False])
def test_fil_3_an_entry_that_cannot_be_restored_does_not_keep_the_others(keeping, lives):
    server = keeping()
    s = server.session()
    s.out("for f in a b c; do echo $f > $f; done; rm a b c; echo busy > b")
    if not lives:
        s.destroy()
    r = server.cli("trash", "restore", "--all", "--session", s.id)
    assert r.returncode == 125 and r.stderr.count(b"E_CONFLICT") == 1, r
    assert sorted(r.stdout.decode().split()[1::2]) == [str(s.workspace / "a"), str(s.workspace / "c")]
    assert [(s.workspace / f).read_text() for f in "abc"] == ["a\n", "busy\n", "c\n"]


@USERS
def test_fil_3_odd_names_are_kept_as_they_are(keeping, uid):
    server = keeping(uid)
    s = server.session()
    names = [b"a\nb", b"\xff\xfe", b'q"\\', b"\x01trash", b"x" * 255]
    for name in names:
        path = os.fsencode(s.workspace) + b"/" + name
        with open(path, "wb") as f:
            f.write(name)
        os.chown(path, uid, uid)
    s.out("rm -- *")
    assert trash(s)["total"] == len(names) and not os.listdir(s.workspace)
    s.destroy()
    assert server.cli("trash", "restore", "--all", "--session", s.id).returncode == 0
    assert sorted(os.listdir(os.fsencode(s.workspace))) == sorted(names)
    assert all((Path(os.fsdecode(os.fsencode(s.workspace) + b"/" + n))).read_bytes() == n for n in names)


@USERS
def test_fil_3_an_open_file_and_a_link_do_not_reach_into_the_trash(keeping, uid):
    server = keeping(uid)
    s = server.session()
    s.out("echo before > a; exec 9>> a; rm a; echo later >&9; exec 9>&-; echo one > b; ln b c; rm b; echo two > c")
    restore(s, "a")
    restore(s, "b")
    assert s.out("cat a b c") == "before\none\ntwo\n"


@USERS
def test_fil_3_a_large_file_is_copied_while_others_work(keeping, uid):
    server = keeping(uid)
    s = server.session()
    s.out(
        "head -c 30M /dev/urandom > big; sha256sum big > sum; rm big & for i in $(seq 50); do ls > /dev/null; done; wait"
    )
    restore(s, "big")
    assert s.out("sha256sum -c sum") == "big: OK\n"


@USERS
def test_sbx_6_a_session_sees_no_trash(keeping, uid):
    server = keeping(uid)
    s, other = server.session(), server.session()
    s.out("echo secret > a; rm a")
    where = Path(trash(s)["directory"])
    assert (where / "files" / entries(s)["a"]["id"]).read_text() == "secret\n"  # the control: it is there
    look = f"cat {where}/index {where}/files/* 2>&1; ls {where.parent} 2>&1; find / -name '{entries(s)['a']['id']}' 2> /dev/null"
    for session in (s, other):
        answer = session.script(look)["result"]["stdout"]
        assert "secret" not in answer and "Permission" not in answer.replace(str(where), ""), answer
        assert entries(s)["a"]["id"] not in answer.replace(look, "")


def fill_and_remove():
    Path("large").write_bytes(os.urandom(100000))
    Path("small").write_text("text")
    with pytest.raises(OSError) as e:
        os.unlink("large")
    assert e.value.errno == errno.ENOSPC
    os.unlink("small")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(not PROGRAM.exists(), reason="the unit tests are not built")
def test_fil_3_a_full_disk_loses_nothing(tmp_path):
    disk = tmp_path / "disk"
    (tmp_path / "back").mkdir()
    disk.mkdir()
    (tmp_path / "policy.yaml").write_text(RULES)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    tree = MountTree(tmp_path, "--policy", tmp_path / "policy.yaml", "--trash", disk)
    try:
        tree.run(fill_and_remove)
        assert (tree.back / "large").stat().st_size == 100000 and not (tree.back / "small").exists()
        assert [p.read_text() for p in (disk / "files").iterdir()] == ["text"]
    finally:
        tree.finish()
        subprocess.run(["umount", disk], check=True)
