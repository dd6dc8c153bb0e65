# SPDX-License-Identifier: Apache-2.0
"""Where a session sees its workspace: at /workspace and at its real path, and no other way around the rules."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import harness
import policy_server
import pytest

MODES = [("root", "native"), ("user", "native"), ("root", "fuse"), ("user", "fuse")]


@pytest.fixture(scope="module", params=MODES, ids="-".join)
def server(request):
    kind, mode = request.param
    harness.ensure_user()
    s = harness.Server(0 if kind == "root" else harness.USER_UID, harness.MODES[mode])
    s.start()
    yield s
    s.finish()


PLACES = ("/tmp", "/opt", "/usr/src", "/dev/shm", "/home", "/var/tmp", "/srv")


@contextmanager
def project(server, place, below="a/b"):
    """A directory of the server's user below a place of the machine."""
    top = Path(tempfile.mkdtemp(prefix="agentsh-at-", dir=place))
    try:
        path = top / below
        path.mkdir(parents=True, exist_ok=True)
        (path / "note").write_text("here\n")
        for d in (top, *top.rglob("*")):
            os.chown(d, server.uid, server.uid)
        top.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(top)


def fails(session, text):
    return session.script(text)["result"]["exit_code"] != 0


def execs(session):
    return session.history(type="exec")


@pytest.mark.parametrize("place", PLACES)
def test_sbx_1_the_workspace_is_at_both_paths(server, place):
    with project(server, place) as path:
        s = server.session(workspace=str(path))
        assert s.out("pwd").strip() == "/workspace"
        assert s.out(f"cat note {path}/note") == "here\nhere\n"
        s.out(f"echo two > {path}/two; echo three > three")
        assert s.out(f"cat two {path}/three") == "two\nthree\n"
        assert {(path / n).stat().st_uid for n in ("two", "three")} == {server.uid}
        # nothing of the host's directories above it is seen
        assert s.out(f"ls -A {path.parents[1]}").split() == ["a"] or place in ("/opt", "/usr/src")
        s.destroy()


def test_ses_1_patch_takes_a_directory_of_the_workspace_by_either_path(new_server):
    for uid in (0, harness.USER_UID):
        for at in ("both", "workspace", "real"):
            s = new_server(uid=uid, config={"sandbox": {"workspace_at": at}})
            with project(s, "/home") as path:
                (path / "sub").mkdir()
                shown = path if at == "real" else Path("/workspace")
                for start in ("sub", "."):
                    ses = s.session(workspace=str(path), working_dir=str(path / start))
                    there = str((path if at == "both" else shown) / start)
                    assert (ses.get()["working_dir"], ses.out("pwd").strip()) == (there, there)
                    ses.destroy()
                ses = s.session(workspace=str(path))
                for asked, there in (
                    (path / "sub", (path if at == "both" else shown) / "sub"),
                    ("/workspace/sub", shown / "sub"),
                    ("..", shown),
                    (path, path if at == "both" else shown),
                    ("/tmp", "/tmp"),
                ):
                    a = s.call("PATCH", ses.path, {"working_dir": str(asked)})
                    assert (a.status, a.json["working_dir"]) == (200, str(there)), (at, asked, a.body)
                    assert ses.out("pwd").strip() == str(there)
                for asked in (path / "gone", "/workspace/gone", f"{path}s", path.parent / "other"):
                    a = s.call("PATCH", ses.path, {"working_dir": str(asked)})
                    assert (a.code, ses.get()["working_dir"]) == ("E_BAD_REQUEST", "/tmp"), (at, asked)
                ses.destroy()


def test_ses_1_a_session_starts_where_it_can(server):
    with project(server, "/home") as path:
        s = server.session(workspace=str(path), working_dir=str(path / "gone"))
        record = s.get()
        assert (record["working_dir"], record["capped"]) == ("/workspace", ["working_dir"])
        assert record["config"]["working_dir"] == str(path / "gone")
        s.destroy()
        a = server.post("/api/v1/sessions", {"workspace": str(path), "working_dir": "sub"})
        assert a.code == "E_BAD_REQUEST" and a.json["error"]["details"][0]["field"] == "working_dir", a.body


def test_cli_1_sessions_of_the_cli_start_in_the_own_directory(server):
    extra = {"user": server.uid, "group": server.uid, "extra_groups": []} if server.uid else {}

    def cli(where, *argv):
        r = subprocess.run([harness.AGENTSH, *map(str, argv)], cwd=where, capture_output=True, text=True, timeout=60,
                           env=server.environment(), stdin=subprocess.DEVNULL, **extra)  # fmt: skip
        assert r.returncode == 0, r
        return r.stdout.split()

    with project(server, "/home") as path:
        as_user(server, "mkdir", path / "sub")
        for n, (where, workspace, start) in enumerate([
            (path / "sub", path, path / "sub"), (path, path, path), (path / "sub", ".", path / "sub"),
            (path.parent, path, "/workspace"), (path, path / "sub", "/workspace"),
        ]):  # fmt: skip
            name = f"own-{path.parents[1].name}-{n}"
            cli(where, "session", "create", "--id", name, "--workspace", workspace)
            assert cli("/", "exec", name, "--output", "shell", "--", "pwd") == [str(start)], (where, workspace)
            cli("/", "session", "destroy", name)
        name = f"made-{path.parents[1].name}"
        exec_ = ("exec", name, "--create", "--output", "shell")
        assert cli(path / "sub", *exec_, "--working-dir", "/tmp", "--", "pwd") == ["/tmp"]
        assert cli(path, *exec_, "--", "pwd") == [str(path / "sub")]  # the session's, which stays
        cli("/", "session", "destroy", name)


@pytest.mark.parametrize("place", PLACES)
def test_sbx_1_no_parent_of_either_path_can_be_renamed(server, place):
    with project(server, place) as path:
        s = server.session(workspace=str(path))
        for d in ("/workspace", path, path.parent, path.parents[1]):
            assert fails(s, f"mv {d} {d}-moved"), d
            assert fails(s, f"rmdir {d}"), d
            assert fails(s, f"mkdir -p /tmp/other && mv -T /tmp/other {d}"), d
        for d in (path.parent, path.parents[1]):
            assert fails(s, f"touch {d}/new"), d
            assert fails(s, f"chmod 777 {d}"), d
        assert s.out(f"cat {path}/note") == "here\n"
        # the same acts succeed on directories of the session's own
        s.out("mkdir -p /tmp/o/p other /tmp/q && mv /tmp/o /tmp/m && touch /tmp/m/p/new && mv -T /tmp/q /tmp/m/p/q")
        s.destroy()


def test_sbx_1_one_component_below_a_writable_place(server):
    with project(server, "/tmp", ".") as path:
        s = server.session(workspace=str(path))
        assert s.out(f"cat {path}/note") == "here\n"
        assert fails(s, f"mv {path} /tmp/moved") and fails(s, f"rmdir {path}")
        s.out("touch /tmp/mine")
        s.destroy()


def test_exe_1_events_name_the_workspace_by_one_name(server):
    with project(server, "/home") as path:
        tool = path / "tool"
        tool.write_text("#!/bin/sh\npwd\nexec /usr/bin/true real\n")
        tool.chmod(0o755)
        (path / "sub").mkdir()
        s = server.session(workspace=str(path))
        a = s.exec(str(tool), working_dir=str(path / "sub"))
        assert a["result"]["stdout"].strip() == str(path / "sub")
        assert a["request"]["working_dir"] == str(path / "sub")
        first, second = execs(s)[-2:]
        assert first["exec"]["cwd"] == second["exec"]["cwd"] == "/workspace/sub"
        assert first["exec"]["argv"][-1] == str(tool)
        s.out(f"cd {path}/sub && {path}/tool")
        assert s.get()["working_dir"] == str(path / "sub")
        s.exec("cp", "/usr/bin/true", f"{path}/true")
        s.exec(f"{path}/true", "argument")
        last = execs(s)[-1]
        assert last["exec"]["path"] == "/workspace/true" and last["exec"]["argv"][0] == f"{path}/true", last
        s.exec("sh", "-c", f"{path}/true inner; :")
        assert execs(s)[-1]["exec"]["path"] == "/workspace/true"
        s.destroy()


# ---- other ways to the same tree ----


@pytest.mark.parametrize("mode", ["native", "fuse"])
def test_sbx_6_lists_show_the_workspace_only_by_its_tree(new_server, mode):
    """A list that contains the workspace, by its own path, by a link and by a bind mount of the host."""
    for uid in (0, harness.USER_UID):
        s = new_server(uid=uid, config=harness.MODES[mode], start=False)
        with project(s, "/srv") as path:
            top = path.parents[1]
            link, bound = Path(f"{top}-link"), Path(f"{top}-bound")
            (path / "secret").write_text("secret\n")
            (path / "sub").mkdir()
            (path / "sub" / "file").write_text("sub\n")
            os.chown(path / "sub", uid, uid)
            link.symlink_to(top)
            bound.mkdir()
            subprocess.run(["mount", "--bind", path / "sub", bound], check=True)
            try:
                lists = [str(link), str(bound)]
                s.merge(s.config, {"filesystem": {"monitored_paths": lists, "blocked_paths": ["/workspace/secret"]}})
                s.start()
                ses = s.session(workspace=str(path))
                names = (Path("/workspace"), path, link / "a/b")
                for name in names:
                    assert ses.out(f"cat {name}/note") == "here\n"
                    assert fails(ses, f"cat {name}/secret"), name
                    for d in (name, name.parent):
                        assert fails(ses, f"mv {d} {d}-moved"), d
                assert ses.out(f"cat {bound}/file") == "sub\n"
                ses.exec("cp", "/usr/bin/true", "sub/true")
                for name in (*(n / "sub" for n in names), bound):
                    ses.exec(f"{name}/true", working_dir=str(name))
                    last = execs(ses)[-1]["exec"]
                    assert (last["path"], last["cwd"]) == ("/workspace/sub/true", "/workspace/sub"), name
                ses.destroy()
            finally:
                subprocess.run(["umount", bound], check=True)
                bound.rmdir()
                link.unlink()


def test_sbx_6_odd_names(new_server):
    for uid in (0, harness.USER_UID):
        s = new_server(uid=uid, start=False)
        with project(s, "/opt", "sp ace/back\\slash\t") as path:
            bound = Path(f"{path.parents[1]}-b d")
            (path / "secret").write_text("secret\n")
            bound.mkdir()
            subprocess.run(["mount", "--bind", path.parent, bound], check=True)
            try:
                s.merge(
                    s.config,
                    {"filesystem": {"monitored_paths": [str(bound)], "blocked_paths": ["/workspace/secret"]}},
                )
                s.start()
                ses = s.session(workspace=str(path))
                for name in ("/workspace", path, bound / path.name):
                    assert ses.out(f"cat '{name}/note'") == "here\n"
                    assert fails(ses, f"cat '{name}/secret'"), name
                ses.destroy()
            finally:
                subprocess.run(["umount", bound], check=True)
                bound.rmdir()


@pytest.mark.parametrize("mode", ["native", "fuse"])
def test_sbx_6_a_cover_holds_by_every_name(new_server, mode):
    for uid in (0, harness.USER_UID):
        s = new_server(uid=uid, config=harness.MODES[mode], start=False)
        with project(s, "/opt") as path:
            (path / "secret").write_text("secret\n")
            (path / "shut").mkdir()
            lists = {"blocked_paths": [str(path / "secret")], "read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64",
                     "/opt", "/workspace/shut"]}  # fmt: skip
            s.merge(s.config, {"filesystem": lists})
            s.start()
            ses = s.session(workspace=str(path))
            for name in ("/workspace", path):
                assert ses.out(f"cat {name}/note; touch {name}/written") == "here\n"
                assert fails(ses, f"cat {name}/secret")
                assert fails(ses, f"touch {name}/shut/x")
            ses.destroy()


# ---- the key ----


@pytest.mark.parametrize("mode", ["native", "fuse"])
def test_cfg_1_sandbox_workspace_at(new_server, mode):
    for uid in (0, harness.USER_UID):
        for at, shown, start in (
            ("workspace", [True, False], 0),
            ("real", [False, True], 1),
            ("both", [True, True], 0),
        ):
            s = new_server(uid=uid, config={**harness.MODES[mode], "sandbox": {"workspace_at": at}})
            with project(s, "/home") as path:
                ses = s.session(workspace=str(path))
                names = ["/workspace", str(path)]
                assert [not fails(ses, f"cat {n}/note") for n in names] == shown, at
                assert ses.out("pwd").strip() == names[start]
                # either name finds the directory, and events have one
                for n in names:
                    assert ses.out("cat note", working_dir=n) == "here\n"
                    assert execs(ses)[-1]["exec"]["cwd"] == "/workspace"
                ses.destroy()


def test_cfg_1_workspace_at_real_needs_a_path_of_its_own(new_server):
    s = new_server(config={"sandbox": {"workspace_at": "real", "workspaces": ["/home"]}})
    a = s.post("/api/v1/sessions", {"workspace": "/home"})
    assert a.code == "E_ENFORCEMENT" and "sandbox.workspace_at" in a.json["error"]["message"], a.body
    s = new_server(config={"sandbox": {"workspaces": ["/home"]}})
    assert s.session(workspace="/home").out("pwd").strip() == "/workspace"


@pytest.mark.parametrize("mode", ["native", "fuse"])
def test_sbx_1_a_real_path_below_workspace_is_the_only_one(new_server, mode):
    made = not os.path.exists("/workspace")
    if made:
        os.mkdir("/workspace")
    try:
        for uid in (0, harness.USER_UID):
            s = new_server(uid=uid, config=harness.MODES[mode])
            with project(s, "/workspace") as path:
                ses = s.session(workspace=str(path))
                assert ses.out("pwd").strip() == str(path)
                assert ses.out("cat note; ls /workspace").split() == ["here", path.parents[1].name]
                ses.exec("cp", "/usr/bin/true", "true")
                ses.exec("./true")
                last = execs(ses)[-1]["exec"]
                assert (last["path"], last["cwd"]) == ("/workspace/true", "/workspace")
                assert fails(ses, f"mv {path.parent} {path.parent}-x") and fails(ses, "touch /workspace/x")
                ses.destroy()
    finally:
        if made:
            os.rmdir("/workspace")


# ---- rules ----

POLICY = """
version: 1
name: names
default: {{files: allow, network: deny, commands: deny}}
command_rules:
  - name: no-real
    commands: ["{real}/denied-by-real", "{real}/deep/**"]
    decision: deny
  - name: no-canonical
    commands: [/workspace/denied-by-canonical]
    decision: deny
  - name: yes-real
    commands: ["{real}/allowed-by-real"]
    decision: allow
  - name: yes-canonical
    commands: [/workspace/allowed-by-canonical, cp, ls, mkdir, sh]
    decision: allow
"""


@pytest.mark.parametrize("mode", ["native", "fuse"])
def test_pol_1_a_deny_matches_either_name_and_an_allow_the_canonical_one(policies, mode):
    for uid in (0, harness.USER_UID):
        for at in ("both", "workspace", "real"):
            s = policies(uid=uid, config={**harness.MODES[mode], "sandbox": {"workspace_at": at}}, start=False)
            with project(s, "/home") as path:
                policy_server.write(s.policies, "names", text=POLICY.format(real=path))
                s.start()
                ses = s.session(workspace=str(path), policy="names")
                ses.exec("mkdir", "deep")
                names = ["/workspace"] * (at != "real") + [str(path)] * (at != "workspace")
                for file, runs in (
                    ("denied-by-real", False), ("deep/er", False), ("denied-by-canonical", False),
                    ("allowed-by-real", False), ("allowed-by-canonical", True),
                ):  # fmt: skip
                    ses.exec("cp", "/usr/bin/true", file)
                    for name in names:
                        r = ses.exec("sh", "-c", f"{name}/{file}")["result"]
                        assert (r["exit_code"] == 0) == runs, (at, name, file, r)
                ses.destroy()


FILES = """
version: 1
name: files
default: {{files: deny, network: deny, commands: allow}}
file_rules:
  - {{name: no-real, paths: ["{real}/secret/**", "{real}/by-real"], decision: deny}}
  - {{name: no-canonical, paths: [/workspace/by-canonical], decision: deny}}
  - {{name: useless, paths: ["{real}/only-real"], decision: allow}}
  - {{name: rest, paths: [/workspace, /workspace/open, /workspace/open/**, /workspace/secret, "/workspace/by-*",
      /workspace/secret/**], decision: allow}}
  - {{name: system, paths: ["/usr/**", "/lib*/**", "/etc/**", "/bin/**", "/dev/**", "/proc/**"], decision: allow}}
"""


def test_fil_3_file_rules_hold_by_either_name(policies):
    for uid in (0, harness.USER_UID):
        s = policies(uid=uid, start=False)
        with project(s, "/home") as path:
            for name in ("by-real", "by-canonical", "only-real", "open/x", "secret/x"):
                as_user(s, "mkdir", "-p", (path / name).parent)
                as_user(s, "sh", "-c", f"echo text > {path / name}")
            policy_server.write(s.policies, "files", text=FILES.format(real=path))
            s.start()
            ses = s.session(workspace=str(path), policy="files")
            for at in ("/workspace", path):
                assert ses.out(f"cat {at}/open/x") == "text\n"
                for name in ("by-real", "by-canonical", "only-real", "secret/x"):
                    assert fails(ses, f"cat {at}/{name}"), (at, name)
                assert fails(ses, f"mv {at}/secret {at}/open/moved"), at
                assert fails(ses, f"ln {at}/by-real {at}/open/linked"), at
            reads = [e for e in ses.history(limit=1000) if e["type"].startswith("file_")]
            assert reads and all(e["path"].startswith("/workspace") for e in reads)
            assert {e["path"] for e in reads if e.get("decision", {}) and "open/x" in e["path"]} == {
                "/workspace/open/x"
            }
            ses.destroy()


# ---- projects that know their path ----


def as_user(server, *argv, cwd=None, **kw):
    """Runs a program as the server's user, outside of any session."""
    extra = {"user": server.uid, "group": server.uid, "extra_groups": []} if server.uid else {}
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **IDENTITY}
    return subprocess.run([str(a) for a in argv], cwd=cwd, env=env, check=True, capture_output=True, text=True,
                          **extra, **kw).stdout  # fmt: skip


IDENTITY = {
    f"GIT_{who}_{what}": f"{who}@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def repository(server, path):
    as_user(server, "git", "init", "-q", cwd=path)
    (path / "src").mkdir()
    (path / "src" / "file").write_text("one\n")
    for d in (path / "src", path / "src" / "file"):
        os.chown(d, server.uid, server.uid)
    as_user(server, "git", "add", ".", cwd=path)
    as_user(server, "git", "commit", "-q", "-m", "first", cwd=path)


def run_in(server, directory, *argv):
    extra = {"user": server.uid, "group": server.uid, "extra_groups": []} if server.uid else {}
    return subprocess.run([harness.AGENTSH, "run", "--quiet", *map(str, argv)], cwd=directory, capture_output=True,
                          text=True, env={**server.environment(), "HOME": "/nonexistent"}, timeout=120,
                          stdin=subprocess.DEVNULL, **extra)  # fmt: skip


def test_cli_1_run_starts_in_the_own_directory_of_the_repository(server):
    with project(server, "/home") as path:
        repository(server, path)
        for where in (path, path / "src"):
            r = run_in(server, where, "--", "sh", "-c", "pwd; git status --porcelain; git rev-parse --show-toplevel")
            assert (r.stdout.split(), r.stderr) == ([str(where), str(path)], ""), r
        r = run_in(server, path / "src", "--workspace", path / "src", "--", "sh", "-c", "pwd; ls -A ..")
        assert r.stdout.split() == [str(path / "src"), "src"]
        r = run_in(server, "/", "--workspace", path, "--", "pwd")
        assert r.stdout.split() == ["/workspace"]


def test_cli_1_a_linked_worktree_has_its_repository(server):
    with project(server, "/home", "main") as path:
        repository(server, path)
        other = path.parent / "linked"
        as_user(server, "git", "worktree", "add", "-q", other, cwd=path)
        r = run_in(server, other / "src", "--env", "GIT_AUTHOR_NAME=a", "--script",
                   "export GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a; pwd && git status --porcelain"
                   " && echo two > file && git commit -qam second && git log --format=%s")  # fmt: skip
        assert (r.stdout.split(), r.returncode) == ([str(other / "src"), "second", "first"], 0), r
        assert as_user(server, "git", "log", "--format=%s", "linked", cwd=path).split() == ["second", "first"]
        assert as_user(server, "git", "status", "--porcelain", cwd=other) == ""
        # nothing else of the repository's directory
        r = run_in(server, other, "--script", f"ls -A {path}")
        assert r.stdout.split() == [".git"]


@pytest.mark.parametrize("uid", [0, harness.USER_UID], ids=["root", "user"])
@pytest.mark.parametrize("policy", ["default", "ci", "strict"])
def test_fil_3_a_linked_worktree_does_not_change_what_git_runs(new_server, uid, policy):
    server = new_server(uid=uid)
    with project(server, "/home", "main") as path:
        repository(server, path)
        other = path.parent / "linked"
        as_user(server, "git", "worktree", "add", "-q", other, cwd=path)
        git = path / ".git"
        (git / "hooks").mkdir(exist_ok=True)
        os.chown(git / "hooks", server.uid, server.uid)
        before = (git / "config").read_text()
        r = run_in(server, other, "--policy", policy, "--script", "echo 2 > new; git add . && git status --porcelain")
        assert (r.stdout, r.stderr, r.returncode) == ("A  new\n", "", 0), r
        for change in (f"echo x > {git}/hooks/pre-commit", f"git config a.b c; echo >> {git}/config",
                       f"mv {git}/hooks {git}/h", f"echo ../x > {git}/commondir"):  # fmt: skip
            r = run_in(server, other, "--policy", policy, "--script", change)
            assert r.returncode and "deny-git-control-writes" in r.stderr, (change, r)
        assert (git / "config").read_text() == before and not list((git / "hooks").glob("pre-commit"))


def test_sbx_6_a_forged_git_file_shows_nothing(server):
    with project(server, "/home", "ws") as path:
        top = path.parent
        repository(server, path)
        shutil.rmtree(path / ".git")
        secret = top / "secret"
        as_user(server, "mkdir", "-p", secret / "objects", secret / "refs", secret / "worktrees/x")
        as_user(server, "touch", secret / "HEAD", secret / "key")
        gitdir = secret / "worktrees/x/gitdir"

        def shown(text):
            (path / ".git").write_text(text)
            os.chown(path / ".git", server.uid, server.uid)
            s = server.session(workspace=str(path))
            seen = not fails(s, f"cat {secret}/key")
            assert fails(s, "echo > /proc/self/comm") and fails(s, "ls /root")
            s.destroy()
            return seen

        forged = f"gitdir: {secret}/worktrees/x\n"
        assert not shown(forged)  # it names no worktree
        as_user(server, "sh", "-c", f"echo {path}-other/.git > {gitdir}")
        assert not shown(forged)  # another one
        as_user(server, "sh", "-c", f"echo {path}/.git > {gitdir}")
        assert shown(forged)  # the control
        for text in (f"gitdir: {secret}\n", f"gitdir: {secret}/worktrees\n", f"gitdir: {secret}/worktrees/../x\n",
                     f"gitdir: {secret}/worktrees/y\n", "gitdir: /proc/worktrees/self\n", "gitdir: /worktrees/x\n",
                     "gitdir: \n", "", f"gitdir: {secret}/worktrees/x\0", "x" * 10000):  # fmt: skip
            assert not shown(text), text
        (path / ".git").unlink()
        os.mkfifo(path / ".git")
        server.session(workspace=str(path)).destroy()
        (path / ".git").unlink()
        # by a link, of another user, and without the parts of a repository
        (top / "link").symlink_to(secret)
        assert not shown(f"gitdir: {top}/link/worktrees/x\n")
        os.chown(secret, 12345, 12345)
        assert not shown(forged)
        os.chown(secret, server.uid, server.uid)
        (secret / "refs").rmdir()
        assert not shown(forged)


def test_cli_1_an_editable_virtual_environment_works(server):
    with project(server, "/home") as path:
        (path / "pyproject.toml").write_text("[project]\nname = 'thing'\nversion = '1'\n")
        package = path / "thing"
        package.mkdir()
        (package / "__init__.py").write_text("def main():\n    print('imported', __file__)\n")
        as_user(server, "/usr/bin/python3", "-m", "venv", "--without-pip", path / "venv")
        site = next((path / "venv/lib").glob("python*/site-packages"))
        (site / "__editable__.thing.pth").write_text(f"{path}\n")
        script = path / "venv/bin/thing"
        script.write_text(f"#!{path}/venv/bin/python3\nfrom thing import main\nmain()\n")
        script.chmod(0o755)
        outside = as_user(server, script, cwd="/")
        r = run_in(server, path, "--", script)
        assert (r.stdout, r.returncode) == (outside, 0), r
        assert outside == f"imported {package}/__init__.py\n"


def test_cli_1_a_configured_cmake_tree_builds(server):
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    with project(server, "/home") as path:
        (path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.10)\nproject(t C)\nadd_executable(t t.c)\n"
        )
        (path / "t.c").write_text("int main(void) { return 7; }\n")
        as_user(server, "cmake", "-S", path, "-B", path / "build")
        r = run_in(server, path, "--script", "cmake --build build && build/t")
        assert r.returncode == 7, r
        assert as_user(server, "cmake", "--build", path / "build") and (path / "build/t").stat().st_uid == server.uid


@contextmanager
def home_of_agent():
    """The host has a user 'agent': its projects lie where sessions have their home."""
    made = [d for d in (Path("/home"), Path("/home/agent")) if not d.exists()]
    for d in made:
        d.mkdir()
    try:
        yield "/home/agent"
    finally:
        for d in reversed(made):
            d.rmdir()


def test_sbx_1_a_workspace_in_a_home_of_the_same_name(server):
    with home_of_agent() as home, project(server, home) as path:
        first = path.parents[1].name
        for _ in range(2):
            s = server.session(workspace=str(path))
            assert s.out(f"cat {path}/note; pwd; echo $HOME").split() == ["here", "/workspace", "/home/agent"]
            assert fails(s, f"mv ~/{first} ~/moved") and fails(s, f"touch ~/{first}/new")
            assert s.out(f"touch ~/mine; mv {path}/note ~/note && mv ~/note /workspace/note") == ""
            s.destroy()
