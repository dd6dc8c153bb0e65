# SPDX-License-Identifier: Apache-2.0
"""filesystem.monitored_paths: the file server of a session serves them beside the workspace."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest
from approvals import FILES, end_of, on, printed, start
from harness import wait_for

POLICY = """\
version: 1
name: asking
default: {files: allow, network: allow, commands: allow}
file_rules:
  - {name: ask, paths: ["DATA/ask*"], operations: [create, delete, rename], decision: approve}
"""
USERS = pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
RULES = """\
version: 1
name: rules
default: {{files: allow, network: deny, commands: allow}}
file_rules:
  - {{name: no-key, paths: ["{data}/**/key"], operations: [read, write, delete, rename, create], decision: deny}}
  - {{name: no-secret, paths: ["/workspace/secret"], operations: ["*"], decision: deny}}
  - {{name: hidden, paths: ["{data}/hidden"], operations: ["*"], decision: deny, hide: true}}
  - {{name: program, paths: ["{data}/program"], operations: [execute], decision: deny}}
  - {{name: keep, paths: ["{data}/kept/**", "/workspace/kept"], operations: [delete], decision: soft_delete}}
"""


@pytest.fixture
def data():
    """A directory of the machine, for a list; /tmp is the session's own."""
    path = Path(tempfile.mkdtemp(prefix="agentsh-data-", dir="/srv"))
    path.chmod(0o755)
    yield path
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split()[1].startswith(f"{path}"):
            subprocess.run(["umount", "-l", line.split()[1]], check=True)
    shutil.rmtree(path)


def make(path, text=None, uid=0):
    """A file with the text, or a directory."""
    if text is None:
        path.mkdir(parents=True, exist_ok=True)
    else:
        path.write_text(text)
    os.chown(path, uid, uid)
    return path


@pytest.fixture
def serving(new_server, data):
    """serving(uid, monitored, **config): a server with the policy above that monitors these paths."""

    def factory(uid, *monitored, filesystem=None, **config):
        os.chown(data, uid, uid)
        server = new_server(uid=uid, start=False)
        rules = make(server.dir / "policies", uid=uid)
        make(rules / "rules.yaml", RULES.format(data=data), uid)
        lists = {"monitored_paths": ["/workspace", *map(str, monitored or [data])], **(filesystem or {})}
        server.merge(server.config, {"policies": {"dir": str(rules), "default": "rules"}, "filesystem": lists})
        server.merge(server.config, config)
        return server.start()

    return factory


def events(answer, kind="file_operations", **wanted):
    return [e for e in answer["events"][kind] if all(e.get(k) == v for k, v in wanted.items())]


def fails(session, script, message):
    r = session.script(script)["result"]
    assert r["exit_code"] != 0 and message in r["stderr"], (script, r)


@USERS
def test_fil_6_a_monitored_path_is_decided_and_recorded(serving, data, uid):
    for name in ("d", "hidden", "shut", "blocked"):
        make(data / name, uid=uid)
    make(data / "d/key", "secret\n", uid)
    make(data / "given", "given\n", uid)
    lists = {
        "read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", f"{data}/shut"],
        "blocked_paths": [f"{data}/blocked"],
    }
    server = serving(uid, filesystem=lists)
    s = server.session()
    a = s.script(f"cd {data} && cat given && echo made > d/made && cat d/key")
    assert a["result"]["stdout"] == "given\n" and "Permission denied" in a["result"]["stderr"]
    made = events(a, path=f"{data}/d/made", type="file_create")
    assert [(e["decision"], e.get("real_path")) for e in made] == [("allow", f"{data}/d/made")]
    denied = events(a, "blocked_operations", path=f"{data}/d/key")
    assert [(e["decision"], e["policy"]["rule"]) for e in denied] == [("deny", "no-key")]
    assert (data / "d/made").read_text() == "made\n" and (data / "d/made").stat().st_uid == uid
    assert a["result"]["error"]["path"] == f"{data}/d/key"
    fails(s, f"touch {data}/shut/x", "Read-only file system")
    fails(s, f"ls {data}/blocked", "Permission denied")
    assert s.out(f"ls {data}").split() == ["blocked", "d", "given", "shut"]  # not what is hidden
    fails(s, f"mv {data}/d/key {data}/d/other", "Permission denied")
    make(data / "program", "#!/bin/sh\necho ran\n", uid).chmod(0o755)
    s.exec(f"{data}/program", status=403)
    fails(s, f"{data}/program", "Permission denied")
    error = s.exec("cat", f"{data}/givn")["result"]["error"]
    assert (error["code"], error.get("similar_files")) == ("ENOENT", [f"{data}/given"])
    said = server.cli("policy", "test", "--policy", "rules", "--json", "file", "write", f"{data}/d/key",
                      env={"AGENTSH_CONFIG": str(server.config_file)})  # fmt: skip
    assert json.loads(said.stdout)["enforced_by"] == "agentsh-fs", said


@USERS
def test_fil_6_the_trees_are_apart(serving, data, uid):
    """Two file systems with the same numbers of inodes, and the workspace."""
    for name in ("one", "two"):
        make(data / name)
        owner = f"uid={uid},gid={uid}" if uid else "mode=755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", owner, "none", data / name], check=True)
        make(data / name / "file", name, uid)
    assert (data / "one/file").stat().st_ino == (data / "two/file").stat().st_ino
    s = serving(uid, data / "one", data / "two").session()
    found = s.out(f"echo ws > w; stat -c '%d %i' {data}/one/file {data}/two/file w {data}/one {data}/two .").split()
    assert len(set(found[::2])) == 1 and len(set(found[1::2])) == 6, found
    assert s.out(f"cat {data}/one/file {data}/two/file; cd {data}/two; pwd -P; cat ../one/file") == (
        f"onetwo{data}/two\none"
    )
    act = """
import errno, os, sys
for act in (os.rename, os.link, lambda a, b: os.link(f"/proc/self/fd/{os.open(a, os.O_RDONLY)}", b, follow_symlinks=True)):
    for a, b in (("w", "DATA/one/w"), ("DATA/one/file", "DATA/two/x"), ("DATA/two/file", "/workspace/x")):
        try:
            act(a, b)
            print("done", act, a, b)
        except OSError as e:
            print(errno.errorcode[e.errno], end=" ")
"""
    assert (
        s.exec("python3", "-c", act.replace("DATA", str(data)), working_dir="/workspace")["result"]["stdout"].split()
        == ["EXDEV"] * 9
    )
    s.out(
        f"cd /workspace; mv {data}/one/file {data}/two/moved; cp {data}/two/moved copied; sync -f w; df {data}/one > /dev/null"
    )
    assert (data / "two/moved").read_text() == "one" and not (data / "one/file").exists()


@USERS
def test_fil_6_a_tree_looks_like_any_mount(serving, data, uid):
    s = serving(uid).session()
    lines = s.out("grep fuse.agentsh /proc/self/mountinfo").splitlines()
    points = [line.split()[4] for line in lines]
    assert sorted(points) == sorted({"/workspace", str(s.workspace), str(data)} - {p for p in [str(s.workspace)] if p.startswith("/tmp") and p not in points})  # fmt: skip
    assert len({line.split()[2] for line in lines}) == 1 and all(line.split()[3] != "/" for line in lines), lines
    assert s.out(f"findmnt -n -o TARGET --target {data}/.").strip() == str(data)
    out = s.out(
        f"cd {data}; mkdir -p a/b; cd a/b; pwd -P; readlink /proc/self/cwd; cd {data}; git init -q .; "
        "git config user.email a@example.com; git config user.name a; echo 1 > f; git add f; git commit -qm one; git status --short; "
        "exec 5< f; readlink /proc/self/fd/5"
    )
    assert out.split() == [f"{data}/a/b", f"{data}/a/b", f"{data}/f"]
    a = s.exec("cat", f"{data}/f", working_dir=f"{data}/a")
    assert a["result"]["stdout"] == "1\n" and a["result"].get("working_dir", f"{data}/a") == f"{data}/a"
    make(data / "f", "the host's\n", uid)
    wait_for(lambda: s.out(f"cat {data}/f") == "the host's\n", "the change is seen", seconds=5)
    # the mount's own root is in no view
    assert s.out("cat /proc/self/mountinfo").count("fuse.agentsh") == len(lines)


@USERS
def test_fil_6_a_nested_path_belongs_to_the_outer_tree(serving, data, uid):
    for name in ("a", "fast", "a/key"):
        make(data / name, uid=uid)
    lists = {"passthrough_paths": [f"{data}/fast"]}
    server = serving(uid, data / "a", data, data / "missing", filesystem=lists)
    s = server.session()
    a = s.script(f"echo x > {data}/a/one; echo x > {data}/fast/two; mv {data}/a/one {data}/fast/three")
    assert a["result"]["exit_code"] == 0, a
    assert {e["path"] for e in events(a, type="file_create")} == {f"{data}/a/one", f"{data}/fast/two"}
    assert (data / "fast/three").exists()
    fails(s, f"echo x > {data}/a/key/key", "Permission denied")
    # a path in the workspace is a part of the workspace
    inner = server.workspace()
    make(inner / "data", uid=uid)
    server.stop()
    server.config["filesystem"] = {"monitored_paths": ["/workspace", str(inner / "data")]}
    server.start()
    s = server.session(workspace=str(inner))
    a = s.script(f"echo x > data/one; cd {inner}/data 2>/dev/null && echo x > two")
    assert {e["path"] for e in events(a, type="file_create")} <= {"/workspace/data/one", "/workspace/data/two"}
    assert events(a, path="/workspace/data/one")


@pytest.mark.parametrize("at", ["both", "workspace", "real"])
@USERS
def test_fil_6_the_workspace_below_a_monitored_path(serving, data, uid, at):
    """By whatever path it is reached, rules and events know its files by one name."""
    project = make(data / "projects/one", uid=uid)
    os.chown(data / "projects", uid, uid)
    make(project / "secret", "secret\n", uid)
    make(project / "note", "here\n", uid)
    s = serving(uid, sandbox={"workspace_at": at}).session(workspace=str(project))
    names = [project] if at == "real" else ["/workspace", project]
    for name in names:
        assert s.out(f"cat {name}/note") == "here\n"
        fails(s, f"cat {name}/secret", "Permission denied")
        a = s.script(f"echo x > {name}/made; rm {name}/made")
        assert {e["path"] for e in events(a, type="file_create")} == {"/workspace/made"}, name
    for d in (project, project.parent):
        fails(s, f"mv {d} {d}-moved", "")
    a = s.script(f"echo x > {data}/projects/beside")
    assert {e["path"] for e in events(a, type="file_create")} == {f"{data}/projects/beside"}
    # the host moves it: the other tree shows it at a path at which nothing is mounted
    project.rename(data / "projects/moved")
    moved = data / "projects/moved"
    wait_for(lambda: s.script(f"cat {moved}/note")["result"]["stdout"] == "here\n", "it is seen there")
    fails(s, f"cat {moved}/secret", "Permission denied")
    a = s.script(f"echo x > {moved}/made; mkdir {moved}/d; echo x > {moved}/d/e")
    assert {e["path"] for e in events(a, type="file_create")} == {"/workspace/made", "/workspace/d/e"}
    assert {e.get("real_path") for e in events(a, type="file_create")} == {f"{project}/made", f"{project}/d/e"}


@USERS
def test_fil_6_a_mount_of_the_machine_gives_no_second_name(serving, data, uid):
    """What it shows of one tree in another one would be decided by other rules."""
    one, two, project = (make(data / name, uid=uid) for name in ("one", "two", "top/ws"))
    for path, text in (
        (one / "d/key", "key\n"), (one / "here", None), (one / "beside", None), (two / "d", None), (two / "own", None),
        (two / "f", None), (project / "sub/secret", "secret\n"), (project / "d", None), (project / "again", None),
    ):  # fmt: skip
        make(path.parent, uid=uid)
        make(path, text, uid)
    make(two / "file", "", uid)
    make(two / "own/f", "f\n", uid)
    for source, at in (
        (project / "sub", one / "here"), (one / "d", two / "d"), (one / "d/key", two / "file"), (one, project / "d"),
        (two / "own", two / "f"), (project / "sub", project / "again"), (project, one / "beside"),
    ):  # fmt: skip
        subprocess.run(["mount", "--bind", source, at], check=True)
    s = serving(uid, one, two).session(workspace=str(project))
    for path in (one / "here/secret", two / "d/key", two / "file", "d/d/key", one / "d/key"):
        fails(s, f"cat {path}", "Permission denied")
    a = s.script(f"ls {two}/d")
    (denied,) = events(a, "blocked_operations")
    assert (denied["path"], denied["policy"]["rule"]) == (f"{two}/d", "filesystem.blocked_paths")
    # mounts within a tree, and the workspace's own root, are known by their names
    assert s.out(f"cat {two}/f/f again/secret {one}/beside/sub/secret") == "f\nsecret\nsecret\n"
    (opened,) = events(s.script(f"cat {one}/beside/sub/secret"), type="file_open")
    assert opened["path"] == "/workspace/sub/secret"


@USERS
def test_fil_6_a_dead_file_server_leaves_no_mount(serving, data, uid):
    server = serving(uid)
    s = server.session()
    device = s.out(f"grep ' {data} ' /proc/self/mountinfo").split()[2]
    victims = [
        int(pid)
        for pid in filter(str.isdigit, os.listdir("/proc"))
        if harness.program_of(int(pid)) == "agentsh-fs"
        and Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] == s.id.encode()
    ]
    assert len(victims) == 1
    os.kill(victims[0], signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session fails")

    def mounted():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
                if any(line.split()[2] == device and " fuse.agentsh " in line for line in lines):
                    return True
        return False

    wait_for(lambda: not mounted(), "no mount is left")


@USERS
def test_fil_6_the_trash_and_the_space_are_one(serving, data, uid):
    make(data / "kept", uid=uid)
    server = serving(uid)
    s = server.session()
    s.out(
        f"echo one > {data}/kept/one; mkdir {data}/kept/d; echo two > {data}/kept/d/two; echo ws > kept; rm -r {data}/kept/* kept"
    )
    assert not (data / "kept/d").exists()

    def entries():
        found = server.get(f"/api/v1/sessions/{s.id}/trash").json["entries"]
        return {e["real_path"]: e["id"] for e in found}

    assert set(entries()) == {f"{data}/kept/one", f"{data}/kept/d/two", f"{s.workspace}/kept"}
    for path in (data / "kept/d/two", s.workspace / "kept"):
        a = server.post(f"/api/v1/sessions/{s.id}/trash/{entries()[str(path)]}/restore")
        assert a.status == 200, a.body
    assert (data / "kept/d/two").read_text() == "two\n" and (s.workspace / "kept").read_text() == "ws\n"
    left = entries()[f"{data}/kept/one"]
    s.destroy()
    done = server.cli("trash", "restore", left)
    assert done.returncode == 0 and (data / "kept/one").read_text() == "one\n", done
    s = server.session(resource_limits={"max_disk_mb": 8})
    assert s.script(f"head -c 6M /dev/zero > {data}/big; sync -f {data}/big")["result"]["exit_code"] == 0
    fails(s, "head -c 6M /dev/zero > big && sync -f big", "No space left")


def test_fil_6_what_a_link_in_the_list_showed_is_restored_after_the_session(serving, data):
    """No link leads to its real_path."""
    uid = harness.USER_UID
    make(data / "there", uid=uid)
    (data / "link").symlink_to("there")
    server = serving(uid, data / "link")
    rules = server.dir / "policies/rules.yaml"
    rules.write_text(rules.read_text().replace(f"{data}/kept/**", f"{data}/link/**"))
    server.stop()
    server.start()
    s = server.session()
    a = s.script(f"echo x > {data}/link/f; rm {data}/link/f")
    (kept,) = events(a, type="file_soft_deleted")
    assert (kept["path"], kept["real_path"]) == (f"{data}/link/f", f"{data}/there/f")
    s.destroy()
    done = server.cli("trash", "restore", kept["operation"]["to"].removeprefix("trash/"))
    assert done.returncode == 0 and (data / "there/f").read_text() == "x\n", done


@pytest.fixture
def asked_about(monkeypatch, data):
    """The policy of the approver's tests names the directory."""
    os.chown(data, harness.USER_UID, harness.USER_UID)
    data.chmod(0o777)
    monkeypatch.setitem(globals(), "POLICY", POLICY.replace("DATA", str(data)))
    lists = {"filesystem": {"monitored_paths": ["/workspace", str(data)]}}
    monkeypatch.setitem(globals(), "CONFIG", {**FILES, **lists})
    return data


@on("root", "user")
def test_fil_3_a_change_of_a_monitored_path_waits(asked_about, asking, asked):
    s, name = asked.session, f"{asked_about}/ask1"
    command = start(s, f"cd {asked_about}; echo x > ask1; cat ask1; rm ask1; ls")
    asked.answer(asked.question(f"file_create {name}"), b"y")
    question = asked.question(f"file_delete {name}")
    printed(s, command, "x\n")
    asked.answer(question, b"n")
    assert end_of(s, command).endswith("ask1\n")
    (event,) = s.history(command_id=command, type="file_delete")
    assert (event["decision"], event["path"], event["real_path"]) == ("deny", name, name)
    asked.quiet()
