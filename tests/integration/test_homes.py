# SPDX-License-Identifier: Apache-2.0
"""Homes that outlive their sessions: the caches of compilers and package managers last."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from harness import USER_UID, wait_for

MIB = 1 << 20
USERS = pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])


def agent(name, uid=0):
    key = {"id": name, "agent_id": name, "role": "agent", "uid": uid,
           "sha256": hashlib.sha256(name.encode()).hexdigest()}  # fmt: skip
    return key


def caches(server, key=None):
    a = server.get("/api/v1/caches", key=key)
    assert a.status == 200, a.body
    return a.json["caches"]


def measured(server):
    """The one cache, once its size is known and no session uses it."""
    wait_for(lambda: caches(server)[0]["bytes"] is not None and not caches(server)[0]["in_use"], "its size is known")
    return caches(server)[0]


def on_disk(server):
    return server.state / "homes" / caches(server)[0]["id"]


def use(server, script, workspace, **wanted):
    s = server.session(workspace=str(workspace), **wanted)
    out = s.out(script)
    s.destroy()
    return out


@USERS
def test_fil_7_a_home_lasts_per_workspace_agent_and_policy(new_server, uid):
    server = new_server(uid, keys=[agent("a", uid), agent("b", uid)])
    ws = server.workspace()
    look = 'cat "$HOME/.cache/x" 2>/dev/null || echo none'
    use(server, 'mkdir -p "$HOME/.cache"; echo mine > "$HOME/.cache/x"', ws, key="a")
    assert use(server, look, ws, key="a") == "mine\n"
    assert use(server, look, ws, key="b") == "none\n"
    assert use(server, look, ws, key="a", policy="doctor") == "none\n"
    assert use(server, look, server.workspace(), key="a") == "none\n"
    assert len(caches(server, "b")) == 1 and len(caches(server, "a")) == 3
    assert {c["policy"] for c in caches(server, "a")} == {"doctor", "default"}
    # it survives the server, too
    server.stop()
    server.start()
    assert use(server, look, ws, key="a") == "mine\n"


def test_cfg_1_sandbox_home(new_server):
    server = new_server(config={"sandbox": {"home": "session"}})
    ws = server.workspace()
    use(server, 'echo mine > "$HOME/x"', ws)
    assert use(server, 'ls -A "$HOME"', ws) == ""
    assert caches(server) == [] and not (server.state / "homes").exists()


def test_sbx_4_a_session_with_max_disk_mb_has_a_bounded_home(new_server):
    server = new_server()
    ws = server.workspace()
    limited = {"resource_limits": {"max_disk_mb": 8}}
    use(server, 'echo mine > "$HOME/x"', ws)
    assert use(server, 'ls -A "$HOME"; ! head -c 9M /dev/zero > "$HOME/y"', ws, **limited) == ""
    assert use(server, 'ls -A "$HOME"', ws) == "x\n"


def test_sbx_6_a_kept_home_belongs_to_the_first_uid_and_is_mapped(new_server):
    server = new_server(config={"sandbox": {"session_uids": "1900100000-1900100009"}})
    ws = server.workspace()
    for _ in range(3):  # each session has another uid
        session = server.session(workspace=str(ws))
        me = session.out("id -u").strip()
        assert me != "1900100000"
        assert session.out('echo x >> "$HOME/f"; stat -c %u:%g "$HOME" "$HOME/f"') == f"{me}:{me}\n" * 2
        session.destroy()
    home = on_disk(server)
    assert {(p.stat().st_uid, p.stat().st_gid) for p in (home, home / "f")} == {(1900100000, 1900100000)}
    assert (home / "f").read_text() == "x\n" * 3
    assert (home.parent.stat().st_uid, home.parent.stat().st_mode & 0o777) == (0, 0o700)


@USERS
def test_fil_7_two_sessions_share_a_home(new_server, uid):
    server = new_server(uid)
    ws = server.workspace()
    one, two = (server.session(workspace=str(ws)) for _ in range(2))
    one.out('mkdir "$HOME/d"; echo 1 > "$HOME/d/one"')
    assert two.out('cat "$HOME/d/one"; echo 2 > "$HOME/d/two"') == "1\n"
    # a lock of one is seen by the other
    one.exec(script='flock "$HOME/lock" sleep 60', detach=True, status=202)
    busy = 'flock -n "$HOME/lock" true'
    wait_for(lambda: two.script(busy)["result"]["exit_code"] == 1, "the lock is held")
    one.destroy()
    two.out(busy)
    assert two.out('cat "$HOME/d/two"') == "2\n"  # the end of one does not touch what the other uses
    assert caches(server)[0]["in_use"]
    shown = server.cli("cache", "list").stdout.decode().splitlines()[1].split()
    assert caches(server)[0]["bytes"] is None and shown[2] == "-"
    r = server.cli("cache", "purge", caches(server)[0]["id"])
    assert r.returncode == 125 and b"E_CONFLICT" in r.stderr and two.id.encode() in r.stderr
    two.destroy()


@USERS
def test_cfg_1_sandbox_home_max_mb(new_server, uid):
    """The longest unused caches go first, whole; other files only after all caches."""
    server = new_server(uid, config={"sandbox": {"home_max_mb": 8}})
    ws = server.workspace()
    use(server, 'mkdir -p "$HOME/.cache/old" "$HOME/.cache/new" "$HOME/mine";'
        ' head -c 5M /dev/zero > "$HOME/.cache/old/f"; head -c 2M /dev/zero > "$HOME/mine/f"', ws)  # fmt: skip
    assert 7 * MIB <= measured(server)["bytes"] < 8 * MIB
    use(server, 'head -c 4M /dev/zero > "$HOME/.cache/new/f"', ws)
    wait_for(lambda: 6 * MIB <= measured(server)["bytes"] < 7 * MIB, "it was trimmed")
    assert use(server, 'cd "$HOME"; ls -A . .cache mine', ws).split() == (
        [".:", ".cache", "mine", ".cache:", "new", "mine:", "f"]
    )
    use(server, 'head -c 9M /dev/zero > "$HOME/mine/g"', ws)
    wait_for(lambda: measured(server)["bytes"] < MIB, "it was trimmed")
    assert use(server, 'ls -A "$HOME" "$HOME/.cache"', ws).count("mine") == 0


@USERS
def test_sbx_4_caches_are_listed_and_purged(new_server, uid):
    server = new_server(uid)
    ws = server.workspace()
    divided = "mkdir -p .cache/x .cargo/registry go/pkg/mod; echo x | tee .cache/x/f > go/pkg/mod/f"
    use(server, f"cd; {divided}; mkdir -p a/b; head -c 3M /dev/zero > a/b/f; chmod 0 a/b a", ws)
    one = measured(server)
    assert (one["workspace"], one["agent_id"]) == (str(ws), "uid-0")
    r = server.cli("cache", "list")
    assert r.returncode == 0 and r.stdout.split(b"\n")[0].split()[:2] == [b"ID", b"LAST"]
    assert one["id"].encode() in r.stdout and str(ws).encode() in r.stdout
    assert json.loads(server.cli("cache", "list", "--json").stdout)["caches"] == [one]
    assert b"say --all" in server.cli("cache", "purge").stderr
    assert b"no cache" in server.cli("cache", "purge", "0" * 32).stderr
    assert b"no cache" in server.cli("cache", "purge", "../sessions").stderr
    r = server.cli("cache", "purge", one["id"])
    assert (r.returncode, r.stdout) == (0, f"Cache purged: {one['id']}\n".encode()), r.stderr
    assert caches(server) == [] and os.listdir(server.state / "homes") == []
    use(server, "true", ws)
    r = server.cli("cache", "purge", "--all", "--json")
    assert json.loads(r.stdout) == {"id": one["id"]} and caches(server) == []


def test_sbx_4_a_cache_is_seen_and_purged_by_its_agent_alone(new_server):
    server = new_server(keys=[agent("a"), agent("b")])
    use(server, "true", server.workspace(), key="a")
    mine = caches(server, "a")[0]["id"]
    assert caches(server, "b") == [] and [c["id"] for c in caches(server)] == [mine]
    a = server.call("DELETE", f"/api/v1/caches/{mine}", key="b")
    assert (a.status, a.code) == (404, "E_NOT_FOUND")
    assert server.call("DELETE", f"/api/v1/caches/{mine}", key="a").status == 200


# ---- attacks: the agent has written the home ----


@USERS
def test_sbx_6_trimming_a_home_follows_no_link(new_server, tmp_path, uid):
    """Links, deep trees, forbidding modes and swapped directories: only what is in the home goes."""
    server = new_server(uid, config={"sandbox": {"home_max_mb": 1}})
    outside = Path(server.dir) / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"x" * 4 * MIB)
    for path in (outside, outside / "kept"):
        path.chmod(0o777)
        os.chown(path, 1900000000 if uid == 0 else uid, -1)
    ws = server.workspace()
    use(
        server,
        f"""cd "$HOME"; ln -s {outside} .cache; ln -s {outside} go; mkdir .npm; ln -s {outside} .npm/a
        ln -s {outside} .agentsh-trim
        mkdir d; cd d; for i in $(seq 300); do mkdir -p d; cd d; done; head -c 3M /dev/zero > f
        chmod 0 "$HOME/d" """,
        ws,
    )
    wait_for(lambda: measured(server)["bytes"] < MIB, "it was trimmed")
    assert (outside / "kept").stat().st_size == 4 * MIB
    assert not (on_disk(server) / "d").exists()
    assert server.cli("cache", "purge", "--all").returncode == 0
    assert (outside / "kept").stat().st_size == 4 * MIB and os.listdir(server.state / "homes") == []


@USERS
def test_sbx_6_a_link_in_a_home_is_no_mount_point(new_server, uid):
    """A workspace or a list below /home/agent: a home that the agent has written would lie below them."""
    server = new_server(uid)
    ws = Path("/home/agent/agentsh-test")
    if ws.parent.exists():
        pytest.skip("there is a user agent")
    try:
        ws.mkdir(parents=True)
        os.chown(ws, uid, uid)
        assert (
            use(server, f'ln -s /tmp "$HOME/{ws.name}" 2>/dev/null; echo x > "$HOME/y"; cat "$HOME/y"', ws) == "x\n"
        )
        session = server.session(workspace=str(ws))
        assert session.out(f'ls -A "$HOME"; echo in > {ws}/made') == f"{ws.name}\n"
        assert (ws / "made").read_text() == "in\n" and caches(server) == []
        assert "lies in the home of sessions" in server.log_text()
    finally:
        shutil.rmtree(ws.parent)


def test_sbx_6_a_homes_directory_of_another_is_refused(new_server):
    """The state directory belongs to the API child; the launcher uses only a directory that is its own."""
    server = new_server()
    (server.state / "homes").mkdir()
    os.chown(server.state / "homes", 12345, 12345)
    ws = server.workspace()
    use(server, 'echo mine > "$HOME/x"', ws)
    assert use(server, 'ls -A "$HOME"', ws) == "" and caches(server) == []
    assert "must be a directory of uid 0" in server.log_text()
    assert os.listdir(server.state / "homes") == []
    # nor does it follow a link
    (server.state / "homes").rmdir()
    other = server.dir / "other"
    other.mkdir(mode=0o700)
    (server.state / "homes").symlink_to(other)
    assert use(server, 'ls -A "$HOME"', ws) == "" and os.listdir(other) == []


@USERS
def test_sbx_6_a_home_is_not_reached_by_another_session(new_server, uid):
    """Neither by its path on the disk, nor with another agent's uid."""
    server = new_server(uid, keys=[agent("a", uid), agent("b", uid)])
    use(server, 'echo secret > "$HOME/x"; chmod 777 "$HOME" "$HOME/x"', server.workspace(), key="a")
    home = server.state / "homes" / caches(server, "a")[0]["id"]
    assert (home / "x").read_text() == "secret\n"  # the control
    session = server.session(workspace=str(server.workspace()), key="b")
    assert session.script(f"cat {home}/x || ls {server.state}")["result"]["exit_code"] != 0
    a = server.post("/api/v1/sessions", {"workspace": str(home)}, key="b")
    assert a.status == 403, a.body


@USERS
def test_sbx_6_a_set_uid_program_in_a_home_gives_nothing(new_server, uid):
    server = new_server(uid)
    ws = server.workspace()
    use(server, 'cp /usr/bin/id "$HOME/id"', ws)
    (on_disk(server) / "id").chmod(0o6755)  # the session's filter refuses this
    session = server.session(workspace=str(ws))
    assert session.out('stat -c %A "$HOME/id"').startswith("-rws")  # the control
    assert session.script('"$HOME/id" -u')["result"]["error"]["policy"]["rule"] == "no-privilege"
    assert "nosuid" in session.out("grep ' /home/agent ' /proc/self/mountinfo")


def test_fil_7_without_namespaces_a_home_is_kept_too(new_server):
    server = new_server(USER_UID, config={"sandbox": {"allow_unenforced": ["namespaces"]}})
    ws = server.workspace()
    use(server, 'echo mine > "$HOME/x"', ws)
    assert use(server, 'cat "$HOME/x"', ws) == "mine\n"


def test_fil_7_a_home_that_cannot_be_kept_is_empty_and_the_log_says_so(new_server):
    server = new_server(USER_UID)
    ws = server.workspace()
    (server.state / "homes").write_text("not a directory")
    assert use(server, 'echo mine > "$HOME/x"; cat "$HOME/x"', ws) == "mine\n"
    assert use(server, 'ls -A "$HOME"', ws) == ""
    assert "the home of a session is not kept" in server.log_text()
