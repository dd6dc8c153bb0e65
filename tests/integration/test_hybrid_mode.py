# SPDX-License-Identifier: Apache-2.0
"""monitoring.mode: hybrid: a file server for some directories, and a program in the kernel that records elsewhere."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import harness
import pytest

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or os.environ.get("AGENTSH_TEST_BPF") == "off", reason="needs root and BPF"
)
PRINTED = {
    "mode": "hybrid",
    "hybrid": {"ebpf_monitor": ["/workspace", "/tmp"], "fuse_enforce": ["/workspace/secrets"]},
}
RULES = """\
version: 1
name: rules
default: {files: allow, network: deny, commands: allow}
file_rules:
  - {name: no-key, paths: ["/workspace/secrets/key"], operations: [read, write, delete, rename, link], decision: deny}
  - {name: program, paths: ["/workspace/secrets/program"], operations: [execute], decision: deny}
  - {name: keep, paths: ["/workspace/secrets/kept"], operations: [delete], decision: soft_delete}
"""
WIDE = """\
version: 1
name: wide
default: {files: allow, network: deny, commands: allow}
file_rules:
  - {name: no-env, paths: ["**/.env"], operations: [read], decision: deny}
"""


@pytest.fixture
def hybrid(new_server):
    """hybrid(monitoring, **config): a server with the policies above."""

    def factory(monitoring=PRINTED, start=True, **config):
        server = new_server(start=False)
        rules = server.dir / "policies"
        rules.mkdir(mode=0o755)
        for name, text in (("rules", RULES), ("wide", WIDE)):
            (rules / f"{name}.yaml").write_text(text)
            (rules / f"{name}.yaml").chmod(0o644)
        server.merge(server.config, {"policies": {"dir": str(rules), "default": "rules"}})
        server.config["sandbox"].update(bpf="auto")
        server.config["monitoring"] = monitoring
        server.merge(server.config, config)
        return server.start() if start else server

    return factory


@pytest.fixture
def project():
    """A workspace that the session sees at its own path, too."""
    top = Path(tempfile.mkdtemp(prefix="agentsh-hybrid-", dir="/srv"))
    top.chmod(0o755)
    ws = top / "ws"
    (ws / "secrets/sub").mkdir(parents=True)
    (ws / "secrets/key").write_text("secret\n")
    (ws / "secrets/other").write_text("other\n")
    (ws / "plain").write_text("plain\n")
    yield ws
    shutil.rmtree(top)


def events(answer, kind="file_operations", **wanted):
    return [e for e in answer["events"][kind] if all(e.get(k) == v for k, v in wanted.items())]


def fails(session, script, message):
    r = session.script(script)["result"]
    assert r["exit_code"] != 0 and message in r["stderr"], (script, r)


def wall(session):
    return next((w["state"], w["detail"]) for w in session.get()["enforcement"] if w["wall"] == "file_rules")


def test_cfg_1_monitoring_hybrid_fuse_enforce(hybrid, project):
    """The printed example: the directory alone is a mount of the file server, by both paths of the workspace."""
    s = hybrid().session(workspace=str(project))
    lines = [line.split() for line in s.out("cat /proc/self/mountinfo").splitlines() if " fuse.agentsh " in line]
    assert sorted(f[4] for f in lines) == sorted(["/workspace/secrets", f"{project}/secrets"])
    assert "fuse" not in s.out("stat -f -c %T /workspace")
    state, detail = wall(s)
    assert state == "up" and "monitoring.hybrid.fuse_enforce" in detail and "BPF records" in detail, (state, detail)


def test_cfg_1_monitoring_hybrid_ebpf_monitor(hybrid, project):
    s = hybrid().session(workspace=str(project))
    a = s.script("echo x > /tmp/one; echo x > two; echo x > /var/tmp/three; echo x > secrets/four; cat plain")
    made = [e["path"] for e in events(a, type="file_create")]
    assert sorted(made) == ["/tmp/one", "/workspace/secrets/four", "/workspace/two"]
    for kind, path, size in (
        ("read", "/workspace/plain", 6),
        ("write", "/tmp/one", 2),
        ("write", "/workspace/secrets/four", 2),
    ):
        assert [e["operation"]["bytes"] for e in events(a, type=f"file_{kind}", path=path)] == [size], path


def test_fil_8_a_directory_is_decided_by_every_path(hybrid, project):
    server = hybrid()
    s = server.session(workspace=str(project))
    for name in ("/workspace", project):
        fails(s, f"cat {name}/secrets/key", "Permission denied")
        fails(s, f"mv {name}/secrets/key {name}/secrets/gone", "Permission denied")
        assert s.out(f"cat {name}/secrets/other") == "other\n"
    fails(s, "ln -s secrets way; cat way/key", "Permission denied")
    a = s.script("cat secrets/key")
    denied = events(a, "blocked_operations", path="/workspace/secrets/key")
    assert [(e["policy"]["rule"], e["real_path"]) for e in denied] == [("no-key", f"{project}/secrets/key")]
    shutil.copy("/usr/bin/true", project / "secrets/program")
    for name in ("/workspace", project):
        assert s.exec(f"{name}/secrets/program")["result"]["exit_code"] == 126
    fails(s, "secrets/program", "Permission denied")
    error = s.exec("cat", "secrets/othr")["result"]["error"]
    assert (error["code"], error.get("similar_files")) == ("ENOENT", ["/workspace/secrets/other"])
    error = s.exec("cat", "plan")["result"]["error"]
    assert (error["code"], error.get("similar_files")) == ("ENOENT", ["/workspace/plain"])
    # kept, as with a file server for all
    s.out("echo kept > secrets/kept; rm secrets/kept")
    kept = server.get(f"/api/v1/sessions/{s.id}/trash").json["entries"]
    assert [e["real_path"] for e in kept] == [f"{project}/secrets/kept"]
    assert server.post(f"/api/v1/sessions/{s.id}/trash/{kept[0]['id']}/restore").status == 200
    assert (project / "secrets/kept").read_text() == "kept\n"


def test_fil_8_nothing_is_recorded_twice(hybrid, project):
    s = hybrid().session(workspace=str(project))
    a = s.script(
        "ln -s secrets way; echo x > way/a; chmod 600 way/a; mv way/a way/b; rm way/b; mkdir secrets/d; rmdir way/d; "
        "(cd way/sub; echo y > ../c; rm ../c)"
    )
    assert a["result"]["exit_code"] == 0, a
    changes = [(e["type"], e["path"].replace("/workspace/", "")) for e in a["events"]["file_operations"]
               if e["type"] not in ("file_open", "file_read", "file_write", "file_stat", "dir_list")]  # fmt: skip
    assert sorted(changes) == sorted([
        ("symlink_create", "way"), ("file_create", "secrets/a"), ("file_chmod", "secrets/a"), ("file_rename", "secrets/a"),
        ("file_delete", "secrets/b"), ("dir_create", "secrets/d"), ("dir_delete", "secrets/d"), ("file_create", "secrets/c"),
        ("file_delete", "secrets/c"),
    ])  # fmt: skip


def test_fil_8_opens_that_are_not_recorded_take_no_bytes_away(hybrid, project):
    """They get the counters of recorded files that were closed before."""
    s = hybrid().session(workspace=str(project))
    act = "for i in range(300): open(f'f{i}', 'w').write('x' * 5); [open('/etc/passwd').close() for _ in range(3)]"
    a = s.exec("python3", "-c", act)
    assert a["result"]["exit_code"] == 0, a["result"]
    written = {e["path"]: e["operation"]["bytes"] for e in s.history(type="file_write", command_id=a["command_id"])}
    assert written == {f"/workspace/f{i}": 5 for i in range(300)}


def test_fil_8_what_takes_the_place_of_a_moved_directory_is_recorded(hybrid, project):
    s = hybrid().session(workspace=str(project))
    a = s.script("mv secrets elsewhere")
    assert [(e["path"], e["operation"]["error"]) for e in events(a, type="file_rename")] == [
        ("/workspace/secrets", "EBUSY")
    ]
    os.rename(project / "secrets", project / "moved")
    a = s.script("mkdir secrets; echo x > secrets/new; cat secrets/new; echo x > moved/a")
    assert a["result"]["exit_code"] == 0, a["result"]
    assert [e["path"] for e in events(a, type="dir_create")] == ["/workspace/secrets"]
    assert sorted(e["path"] for e in events(a, type="file_create")) == [
        "/workspace/secrets/a",
        "/workspace/secrets/new",
    ]
    assert events(a, type="file_read", path="/workspace/secrets/new")


def test_fil_8_no_way_around(hybrid, project):
    """The directory beneath the mount is reached by no other path, name or link."""
    (project / "a/b/secrets").mkdir(parents=True)
    (project / "a/b/secrets/key").write_text("deep\n")
    bound = project.parent / "bound"
    bound.mkdir()
    subprocess.run(["mount", "--bind", project / "secrets", bound], check=True)
    try:
        monitoring = {**PRINTED, "hybrid": {"fuse_enforce": ["/workspace/secrets", "/workspace/a/b/secrets"]}}
        lists = {"passthrough_paths": [str(bound)], "monitored_paths": ["/workspace"]}
        s = hybrid(monitoring, filesystem=lists).session(workspace=str(project))
        # where a list shows it, it is the same tree
        fails(s, f"cat {bound}/key", "Permission denied")
        assert s.out(f"cat {bound}/other") == "other\n"
        a = s.script(f"echo x > {bound}/made")
        assert [e["path"] for e in events(a, type="file_create")] == ["/workspace/secrets/made"]
        # what is above it is a mount, and stays
        for name in ("/workspace", project):
            for path in ("secrets", "a", "a/b", "a/b/secrets"):
                move = f"import os; os.rename('{name}/{path}', '{name}/elsewhere')"
                error = s.exec("python3", "-c", move)["result"]["stderr"]
                assert "resource busy" in error or "cross-device" in error, (path, error)
        assert (project / "a/b/secrets/key").exists()
        assert s.out("cat a/b/secrets/key") == "deep\n"
        fails(s, "umount /workspace/secrets", "")
        fails(s, "ln secrets/other linked", "cross-device")
        fails(s, "ln plain secrets/linked", "cross-device")
        fails(s, "unshare -Urm umount /workspace/secrets", "")
        fails(s, "cat secrets/key", "Permission denied")
        # the host moves a directory above it: the mount moves along
        os.rename(project / "a", project / "moved")
        a = s.script("echo x > moved/b/secrets/new")
        assert a["result"]["exit_code"] == 0
        assert [e["path"] for e in events(a, type="file_create")] == ["/workspace/a/b/secrets/new"]
    finally:
        subprocess.run(["umount", bound], check=True)


def test_fil_8_a_mount_of_the_machine_in_the_workspace_is_no_way_around(hybrid, project):
    """It shows a directory that is enforced, a part of one, or what is above one."""
    data = project.parent / "data"
    listed = project.parent / "listed"
    for d in (data, listed, *(project / name for name in ("same", "part", "data", "up"))):
        d.mkdir()
    (data / "key").write_text("data\n")
    (project / "secrets/sub/key").write_text("deep\n")
    mounts = [
        (project / "secrets", project / "same"), (project / "secrets/sub", project / "part"), (data, project / "data"),
        (project.parent, project / "up"), (project, listed),
    ]  # fmt: skip
    for source, at in mounts:
        subprocess.run(["mount", "--bind", source, at], check=True)
    try:
        monitoring = {**PRINTED, "hybrid": {"fuse_enforce": ["/workspace/secrets", str(data)]}}
        lists = {"passthrough_paths": [str(listed)], "monitored_paths": ["/workspace", str(data)]}
        server = hybrid(monitoring, start=False, filesystem=lists)
        rules = server.dir / "policies/rules.yaml"
        paths = f'"/workspace/secrets/**/key", "{data}/key", "/workspace/secrets/key"'
        rules.write_text(RULES.replace('"/workspace/secrets/key"', paths))
        s = server.start().session(workspace=str(project))
        for top in ("/workspace", project, listed):
            for path in ("same/key", "part/key", "data/key", "secrets/key", "secrets/sub/key"):
                fails(s, f"cat {top}/{path}", "Permission denied")
        for path in ("up/ws/secrets/key", "up/data/key"):
            fails(s, f"cat {path}", "Permission denied")
        a = s.script("echo x > same/made; cat same/other")
        assert [e["path"] for e in events(a, type="file_create")] == ["/workspace/secrets/made"]
        for path in ("same", "part", "data", "up/ws", "up/ws/secrets"):
            assert s.script(f"mv {path} elsewhere")["result"]["exit_code"] != 0, path
    finally:
        for _, at in reversed(mounts):
            subprocess.run(["umount", at], check=True)


@pytest.mark.parametrize("at", ["both", "workspace", "real"])
def test_fil_8_a_workspace_in_an_enforced_directory_stays_a_mount(hybrid, project, at):
    top = project.parent
    monitoring = {**PRINTED, "hybrid": {"fuse_enforce": ["/workspace/secrets", str(top)]}}
    lists = {"monitored_paths": ["/workspace", str(top)]}
    s = hybrid(monitoring, filesystem=lists, sandbox={"workspace_at": at}).session(workspace=str(project))
    for name in [project] if at == "real" else ["/workspace", project]:
        fails(s, f"cat {name}/secrets/key", "Permission denied")
        assert s.out(f"cd {name}; cat plain; stat -f -c %T . | grep -c fuse || true") == "plain\n0\n", name
    a = s.script(f"echo x > {top}/beside; echo x > {project}/made")
    assert sorted(e["path"] for e in events(a, type="file_create")) == [f"{top}/beside", "/workspace/made"]


def test_fil_8_a_directory_that_the_person_removes_ends_the_session(hybrid, project):
    """The kernel takes its mount away; what is made there later would not be decided."""
    s = hybrid().session(workspace=str(project))
    fails(s, "cat secrets/key", "Permission denied")
    shutil.rmtree(project / "plain-dir", ignore_errors=True)
    (project / "plain-dir").mkdir()
    (project / "plain-dir").rmdir()
    assert s.get()["state"] == "ready"  # not by any change beside it
    shutil.rmtree(project / "secrets")
    (project / "secrets").mkdir()
    (project / "secrets/key").write_text("key\n")
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session has failed", show=s.get)
    assert "a directory that the file server serves was removed" in s.get()["failure"]


def test_fil_8_a_directory_that_is_missing_is_refused(hybrid, project):
    server = hybrid()
    for change in (lambda: shutil.rmtree(project / "secrets"), lambda: (project / "secrets").symlink_to("/tmp"),
                   lambda: ((project / "secrets").unlink(), (project / "secrets").write_text("x"))):  # fmt: skip
        change()
        a = server.post("/api/v1/sessions", {"workspace": str(project)})
        assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
        message = a.json["error"]["message"]
        assert "/workspace/secrets" in message and "monitoring.hybrid.fuse_enforce" in message


def test_fil_8_a_rule_that_hybrid_cannot_enforce_is_refused(hybrid, project):
    server = hybrid()
    for policy, rule in (("wide", "no-env"), ("default", None)):
        a = server.post("/api/v1/sessions", {"workspace": str(project), "policy": policy})
        assert a.code == "E_ENFORCEMENT", a.body
        message = a.json["error"]["message"]
        assert "monitoring.mode hybrid" in message and (rule is None or f"'{rule}'" in message), message


def test_fil_8_a_monitored_path_is_enforced(hybrid, project):
    data = project.parent / "data"
    data.mkdir()
    (data / "f").write_text("f\n")
    monitoring = {"mode": "hybrid", "hybrid": {"fuse_enforce": [str(data)], "ebpf_monitor": ["/workspace"]}}
    s = hybrid(monitoring, filesystem={"monitored_paths": ["/workspace", str(data)]}).session(
        workspace=str(project), policy="observe"
    )
    a = s.script(f"cat {data}/f; echo x > {data}/g; echo x > h")
    assert [e["path"] for e in events(a, type="file_create")] == [f"{data}/g", "/workspace/h"]
    assert s.out("grep -c fuse.agentsh /proc/self/mountinfo").strip() == "1"


def test_fil_8_a_dead_file_server_ends_the_hybrid_session(hybrid, project):
    s = hybrid().session(workspace=str(project))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[0] == b"agentsh-fs" and command[1] == s.id.encode():
                os.kill(int(pid), signal.SIGKILL)
    harness.wait_for(lambda: s.get()["state"] == "failed", "the session fails")
