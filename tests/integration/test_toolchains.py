# SPDX-License-Identifier: Apache-2.0
"""Compilers and tools in the caller's home: programs are shown read-only, credentials never."""

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import harness
import pytest
from harness import USER_UID

AUTO = {"sandbox": {"toolchains": "auto"}}
USERS = pytest.mark.parametrize("uid", [0, USER_UID], ids=["root", "user"])


@pytest.fixture
def home():
    """The home of the user of the tests, with a few toolchains; what was there comes back."""
    harness.ensure_user()
    path = Path(pwd.getpwuid(USER_UID).pw_dir)
    before = set(os.listdir(path))
    for program in (".cargo/bin/mycargo", "go/bin/mygo", ".local/bin/mine", ".nvm/versions/node/v9.1.0/bin/mynode",
                    ".nvm/versions/node/v10.0.0/bin/mynode"):  # fmt: skip
        (path / program).parent.mkdir(parents=True)
        (path / program).write_text(f"#!/bin/sh\necho {program}\n")
        (path / program).chmod(0o700)
    for secret in (".cargo/credentials.toml", ".npmrc", ".config/token", ".nvm/versions/node/v9.1.0/etc/npmrc",
                   ".cargo/bin/credentials", ".ssh/id_ed25519"):  # fmt: skip
        (path / secret).parent.mkdir(parents=True, exist_ok=True)
        (path / secret).write_text("SECRET")
    subprocess.run(["chown", "-R", f"{USER_UID}:{USER_UID}", path], check=True)
    yield path
    for name in set(os.listdir(path)) - before:
        shutil.rmtree(path / name, ignore_errors=True)
        (path / name).unlink(missing_ok=True)


def run(server, workspace, script):
    os.chown(workspace, USER_UID, USER_UID)
    return server.cli("run", "--workspace", workspace, "--script", script, uid=USER_UID)


def out(server, workspace, script):
    r = run(server, workspace, script)
    assert r.returncode == 0, (r.stdout, r.stderr)
    return r.stdout.decode()


@USERS
def test_fil_6_toolchains_of_the_caller_are_shown_and_in_path(new_server, home, uid):
    server = new_server(uid, config=AUTO)
    ws = server.workspace()
    assert out(server, ws, "mycargo; mygo; mine; mynode") == (
        ".cargo/bin/mycargo\ngo/bin/mygo\n.local/bin/mine\n.nvm/versions/node/v10.0.0/bin/mynode\n"
    )
    # read-only, and nothing else of the home
    assert run(server, ws, f"echo x > {home}/go/bin/mygo").returncode != 0
    assert run(server, ws, f"touch {home}/go/bin/other").returncode != 0
    assert out(server, ws, f"ls -A {home} {home}/.cargo").split() == (
        [f"{home}:", ".cargo", ".local", ".nvm", "go", f"{home}/.cargo:", "bin"]
    )
    assert (home / "go/bin/mygo").read_text().startswith("#!")


@USERS
def test_sbx_6_credentials_are_not_reached_by_any_name(new_server, home, uid):
    """Not by their path, by a link in what is shown, by `..`, nor where a table hides a name."""
    (home / "go/bin/link").symlink_to("../../.ssh/id_ed25519")
    (home / "go/bin/far").symlink_to(home / ".npmrc")
    (home / ".local/bin/up").symlink_to("../../.config")
    server = new_server(uid, config=AUTO)
    ws = server.workspace()
    assert out(server, ws, f"cat {home}/.nvm/versions/node/v10.0.0/bin/mynode").startswith("#!")  # the control
    for path in (".cargo/credentials.toml", ".npmrc", ".config/token", ".nvm/versions/node/v9.1.0/etc/npmrc",
                 ".cargo/bin/credentials", ".ssh/id_ed25519", "go/bin/link", "go/bin/far", ".local/bin/up/token",
                 "go/bin/../../.npmrc", ".cargo/bin/../credentials.toml"):  # fmt: skip
        r = run(server, ws, f"cat {home}/{path}")
        assert r.returncode != 0 and b"SECRET" not in r.stdout, path
    assert b"SECRET" not in run(server, ws, f"grep -r SECRET {home} /proc/self/root{home}").stdout


@USERS
def test_sbx_6_a_swapped_directory_shows_nothing_else(new_server, home, uid):
    """A session whose workspace is ~/.local can change what ~/.local/bin is, but not make it another place."""
    server = new_server(uid, config=AUTO)
    os.chown(home / ".local", USER_UID, USER_UID)
    assert (
        out(server, home / ".local", f"mv bin old && ln -s {home}/.ssh bin && mkdir share && ls bin/ || echo no")
        == "no\n"
    )
    assert os.readlink(home / ".local/bin") == f"{home}/.ssh"  # the control
    r = run(server, server.workspace(), f"ls -A {home}; cat {home}/.local/bin/id_ed25519")
    assert r.returncode != 0 and b"SECRET" not in r.stdout and b".local" not in r.stdout


def test_sbx_6_another_users_toolchains_are_not_shown(new_server, home):
    """Each sees those of the proven uid: root's server shows root's to root, whatever the workspace is."""
    server = new_server(config=AUTO)
    ws = server.workspace()
    os.chown(ws, USER_UID, USER_UID)
    assert server.cli("run", "--workspace", ws, "--script", f"ls {home}/go/bin", uid=0).returncode != 0
    assert out(server, ws, f"ls {home}/go/bin") == "mygo\n"
    assert run(server, ws, "ls /root/.cargo /root/.rustup").returncode != 0


@USERS
def test_cfg_1_sandbox_toolchains(new_server, home, uid):
    server = new_server(uid, config={"sandbox": {"toolchains": "none"}})
    ws = server.workspace()
    assert out(server, ws, "echo $PATH").startswith("/usr/local/sbin:")
    assert run(server, ws, f"ls {home}/go").returncode != 0


def test_fil_6_what_a_session_sets_stays(new_server, home):
    server = new_server(config={"sandbox": {"toolchains": "auto", "env": {"RUSTUP_HOME": "/mine"}}})
    ws = server.workspace()
    assert out(server, ws, "echo $RUSTUP_HOME; echo $PATH").split("\n")[0] == "/mine"
    r = server.cli("run", "--workspace", ws, "--env", "PATH=/usr/bin", "--script", "echo $PATH", uid=USER_UID)
    assert r.stdout.startswith(b"/usr/bin") and b".cargo" not in r.stdout


def test_sbx_6_a_home_that_does_not_answer_delays_only_a_little(new_server, home):
    """The child that looks is ended; the session is made without toolchains."""
    server = new_server(config=AUTO)
    ws = server.workspace()
    # a directory with very many versions takes the child long, and the launcher never looks itself
    versions = home / ".nvm/versions/node"
    for i in range(3000):
        (versions / f"v{i}").mkdir(exist_ok=True)
    assert out(server, ws, "echo fine") == "fine\n"


def test_sbx_5_doctor_lists_toolchains(new_server, home):
    server = new_server(USER_UID, config=AUTO)
    r = server.cli("doctor", "--config", server.config_file, "--json")
    names = json.loads(r.stdout)["host"]["toolchains"].split(", ")
    assert {"rust", "go", "node (nvm)", "own programs"} <= set(names), names


@USERS
def test_fil_6_package_queries_and_man_have_answers(new_server, uid):
    if not Path("/var/lib/dpkg/status").exists():
        pytest.skip("no dpkg here")
    session = new_server(uid, config=AUTO).session()
    assert "install ok installed" in session.out("dpkg-query -s dpkg")
    if Path("/etc/manpath.config").exists():
        assert session.out("head -1 /etc/manpath.config")


@pytest.mark.parametrize("policy", ["default", "strict", "ci"])
def test_fil_6_shipped_policies_allow_what_is_shown(new_server, policy):
    server = new_server(start=False)
    for home in ("/root", "/home/me"):
        for path in (".cargo/bin/cargo", ".rustup/toolchains/x/bin/rustc", "go/bin/x", ".nvm/versions/node/v1/bin/node",
                     ".pyenv/shims/python3", ".sdkman/candidates/java/current/bin/java", ".local/bin/x"):  # fmt: skip
            for operation in ("read", "execute"):
                r = server.cli("policy", "test", "--policy", policy, "--json", "file", operation, f"{home}/{path}")
                assert json.loads(r.stdout)["decision"] == "allow", (path, operation)
            r = server.cli("policy", "test", "--policy", policy, "--json", "file", "write", f"{home}/{path}")
            assert json.loads(r.stdout)["decision"] == "deny", path
        r = server.cli(
            "policy", "test", "--policy", policy, "--json", "file", "read", f"{home}/.cargo/credentials.toml"
        )
        assert json.loads(r.stdout)["decision"] == "deny"
