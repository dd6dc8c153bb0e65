# SPDX-License-Identifier: Apache-2.0
"""What a session must not reach by its workspace: the server's programs, blocked paths of the host, all terminals."""

import os

import harness
import pytest
from harness import USER_UID


def with_path(new_server, tmp_path, uid):
    for d in [tmp_path, *list(tmp_path.parents)[:2]]:
        d.chmod(0o755)
    if uid:
        harness.ensure_user()
    project = tmp_path / "project"
    (project / "bin" / "deep").mkdir(parents=True)
    (project / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
    (project / "bin" / "tool").chmod(0o755)
    for path in [project, *project.rglob("*")]:
        os.chown(path, uid, uid)
    s = new_server(uid=uid, start=False)
    s.command = ["env", f"PATH={project / 'bin'}:relative:{os.environ['PATH']}"]
    s.start()
    return s, project


@pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])
def test_sbx_6_a_workspace_in_a_directory_of_programs_is_refused(new_server, tmp_path, uid):
    s, project = with_path(new_server, tmp_path, uid)
    for ws in (project / "bin", project / "bin" / "deep"):
        a = s.post("/api/v1/sessions", {"workspace": str(ws)})
        assert (a.status, a.code) == (403, "E_FORBIDDEN"), a.body
        assert str(project / "bin") in a.json["error"]["message"]
    if uid == 0:
        a = s.post("/api/v1/sessions", {"workspace": str(harness.BUILD)})
        assert (a.status, a.code) == (403, "E_FORBIDDEN"), a.body


@pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])
def test_sbx_6_a_directory_of_programs_in_the_workspace_is_shut(new_server, tmp_path, uid):
    s, project = with_path(new_server, tmp_path, uid)
    x = s.session(workspace=str(project))
    assert x.out("bin/tool; touch made") == "tool\n"
    for act in (
        "echo x > bin/tool",
        "rm bin/tool",
        "touch bin/new",
        "mv bin away",
        "touch bin/deep/x",
        "chmod 0 bin",
    ):
        assert x.script(act)["result"]["exit_code"] != 0, act
    assert (project / "bin" / "tool").read_text().endswith("tool\n")


@pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])
def test_fil_6_blocked_paths_of_the_host_hold_in_the_workspace(new_server, tmp_path, uid):
    if uid:
        harness.ensure_user()
    for d in [tmp_path, *list(tmp_path.parents)[:2]]:
        d.chmod(0o755)
    project = tmp_path / "project"
    (project / "a" / "secret" / "inner").mkdir(parents=True)
    (project / "a" / "secret" / "key").write_text("private")
    (project / "plain").write_text("seen")
    (tmp_path / "link").symlink_to(project / "a")
    for path in [project, *project.rglob("*")]:
        os.chown(path, uid, uid)
    s = new_server(uid=uid, config={"filesystem": {"blocked_paths": [str(tmp_path / "link" / "secret")]}})
    x = s.session(workspace=str(project))
    assert x.out("cat plain") == "seen"
    for act in ("cat a/secret/key", "ls a/secret", "mv a b", "mv a/secret other", "rm -r a/secret"):
        assert x.script(act)["result"]["exit_code"] != 0, act
    for ws in ("a/secret", "a/secret/inner"):
        a = s.post("/api/v1/sessions", {"workspace": str(project / ws)})
        assert (a.status, a.code) == (403, "E_FORBIDDEN"), a.body
        assert "filesystem.blocked_paths" in a.json["error"]["message"]
    assert (project / "a" / "secret" / "key").read_text() == "private"


@pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])
def test_sbx_4_a_session_has_64_terminals(new_server, uid):
    """The kernel's terminals are for all; the pairs that a session opens are its own 64 and no more."""
    if uid:
        harness.ensure_user()
    s = new_server(uid=uid)
    count = """
import os
held = []
try:
    while len(held) < 1000:
        held.append(os.openpty())
except OSError as e:
    print(len(held), e.errno)
"""
    n, errno = map(int, s.session().exec("/usr/bin/python3", "-c", count)["result"]["stdout"].split())
    assert n == 64 and errno == 28, (n, errno)
