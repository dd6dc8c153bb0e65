# SPDX-License-Identifier: Apache-2.0
"""The server that commands use, by the command line: one that a command has started, and the system's."""

import json
import os
import re
import signal
import subprocess

import harness
import pytest

USER = harness.USER_UID


class Home:
    """A normal user's fresh home; commands find no server and start one."""

    def __init__(self, path):
        harness.ensure_user()
        for part in (path, *path.parents[:2]):
            os.chmod(part, 0o755)
        self.path = path
        self.project = path / "project"
        self.runtime = path / "run"
        for directory in (self.project, self.runtime):
            directory.mkdir(mode=0o700)
        self.config = path / ".config/agentsh/config.yaml"
        self.env = {
            "PATH": f"{harness.BUILD}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(path), "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.runtime), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""),
        }  # fmt: skip
        self.own()

    def own(self):
        for p in (self.path, *self.path.rglob("*")):
            os.chown(p, USER, USER)

    def write_config(self, text):
        """As an editor saves a file: a new one takes the name of the old one."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        new = self.config.with_suffix(".new")
        new.write_text(text)
        self.own()
        new.rename(self.config)

    def run(self, *argv):
        return subprocess.run(
            [str(a) for a in argv], capture_output=True, text=True, env=self.env, cwd=self.project, timeout=60,
            user=USER, group=USER, extra_groups=[], stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def agentsh(self, *args):
        return self.run(harness.AGENTSH, *args)

    def status(self):
        return json.loads(self.agentsh("server", "status", "--json").stdout)


@pytest.fixture
def home(tmp_path):
    h = Home(tmp_path)
    yield h
    h.agentsh("server", "stop")


def test_cli_1_a_server_that_a_command_started_is_told_of_and_stopped(home):
    r = home.agentsh("server", "status")
    assert (r.returncode, r.stdout) == (3, "No server is running; a command that needs one starts it.\n")
    assert home.status() == {"running": False}
    r = home.agentsh("server", "stop")
    assert (r.returncode, r.stdout) == (0, "No server is running.\n")
    r = home.agentsh("server", "reload")
    assert r.returncode == 125 and "no server is running" in r.stderr

    assert home.agentsh("session", "create", "--id", "one").returncode == 0
    got = home.status()
    assert (got["running"], got["ready"], got["auto"], got["sessions"], got["uid"]) == (True, True, True, 1, USER)
    assert harness.program_of(got["pid"]) == "agentsh-server"
    r = home.agentsh("server", "status")
    assert r.returncode == 0 and re.match(r"Server:   ready, version \S+, 1 living sessions\n", r.stdout)
    assert f"Process:  {got['pid']}, uid {USER}, started by a command" in r.stdout

    r = home.agentsh("server", "stop")
    assert (r.returncode, r.stdout) == (0, f"Server stopped: {got['socket']}\n")
    assert not harness.alive(got["pid"]) and home.agentsh("server", "status").returncode == 3
    r = home.agentsh("server", "logs")  # of the last one
    assert r.returncode == 0 and "stopping reason=SIGTERM" in r.stdout


def test_cli_1_reload_reads_the_configuration_again_and_names_its_errors(home):
    home.write_config("logging: {level: debug}\n")
    assert home.agentsh("session", "create").returncode == 0
    home.agentsh("server", "reload")
    harness.wait_for(
        lambda: "configuration read again" in home.agentsh("server", "logs").stdout, "the server reloads"
    )
    home.write_config("logging: {colour: red}\n")
    r = home.agentsh("server", "reload")
    assert r.returncode == 125 and "colour" in r.stderr
    assert home.status()["ready"]


def test_cfg_1_a_server_that_a_command_started_notices_a_changed_file(home):
    """Also where neither the file nor its directory were there when it started."""

    def policy_of_a_new_session():
        return json.loads(home.agentsh("session", "create", "--json").stdout)["config"]["idle_timeout"]

    before = policy_of_a_new_session()
    pid = home.status()["pid"]
    for minutes in ("7m", "9m"):
        assert minutes != before
        home.write_config(f"sessions: {{default_idle_timeout: {minutes}}}\n")
        harness.wait_for(lambda m=minutes: policy_of_a_new_session() == m, "the new configuration holds")
    home.write_config("sessions: {default_idle_timeout: never ever}\n")
    harness.wait_for(lambda: "the old configuration stays" in home.agentsh("server", "logs").stdout, "it is refused")
    assert policy_of_a_new_session() == "9m" and home.status()["pid"] == pid


def test_cli_1_the_walk_of_the_readme_works_twice(home):
    text = (harness.TOP / "README.md").read_text()
    walk = text[text.index("## A first session") : text.index("## What it does")]
    lines = [line[6:].split("  #")[0] for line in walk.splitlines() if line.startswith("    $ ")]
    assert len(lines) >= 6
    (home.project / "src").mkdir()
    for place in (home.project, home.project / "src"):
        (place / "Makefile").write_text("test:\n\t@echo tested\n")
    home.own()
    for _ in range(2):
        r = home.run("bash", "-euc", "cd ~/project\n" + "\n".join(lines))
        assert r.returncode == 0, (r.stdout, r.stderr)
        assert f"hello from {home.project}/src\n" in r.stdout and r.stderr == ""


SYSTEM = """
set -eu
mount -t tmpfs tmpfs /run
echo "sessions: {{base_dir: {dir}/state}}" >{dir}/config.yaml
chmod 644 {dir}/config.yaml
exec 3< <({agentsh} server --config {dir}/config.yaml 2>{dir}/log & echo $! && wait)
read -r server <&3
read -r ready <&3
user() {{ setpriv --reuid {uid} --regid {uid} --clear-groups {agentsh} "$@"; }}
user session list 2>{dir}/first
user session list 2>{dir}/second
user server status --json >{dir}/status 2>{dir}/third
user server stop 2>{dir}/stop || echo "stop $?" >>{dir}/stop
user --server unix:/run/agentsh/agentsh.sock session list 2>{dir}/named
kill "$server"
cat <&3
"""


def test_cli_1_a_user_is_told_once_that_the_server_is_the_systems(home):
    place = home.path / "system"
    place.mkdir(mode=0o755)
    script = SYSTEM.format(dir=place, agentsh=harness.AGENTSH, uid=USER)
    subprocess.run(["unshare", "-m", "bash", "-c", script], check=True, env=home.env, timeout=60, cwd="/")
    said = "agentsh: using the server of uid 0 at /run/agentsh/agentsh.sock; no server of your own is running\n"
    assert (place / "first").read_text() == said
    assert [(place / name).read_text() for name in ("second", "third", "named")] == ["", "", ""]
    status = json.loads((place / "status").read_text())
    assert (status["uid"], status["auto"], status["ready"]) == (0, False, True)
    assert "belongs to uid 0: only that user and root can do this" in (place / "stop").read_text()
    assert (place / "stop").read_text().endswith("stop 125\n")


def test_cli_1_a_server_out_of_reach_is_not_told_as_none(new_server):
    harness.ensure_user()
    server = new_server()
    os.chmod(server.runtime, 0o700)
    for command in ("stop", "status", "reload", "logs"):
        r = server.cli("server", command, uid=USER)
        assert (r.returncode, r.stdout) == (125, b"") and b"E_FORBIDDEN" in r.stderr, (command, r)
    server.stop()
    r = server.cli("server", "status")
    assert r.returncode == 3 and r.stdout.decode().startswith(
        f"No server is running: no server at unix:{server.socket}"
    )


def test_cli_1_a_server_that_does_not_answer_is_told_so(new_server):
    server = new_server()
    api = server.api_pid()
    os.kill(api, signal.SIGSTOP)
    try:
        r = server.cli("server", "status")
    finally:
        os.kill(api, signal.SIGCONT)
    assert r.returncode == 1 and r.stdout.decode().startswith("Server:   running, does not answer\n")
    assert f"Process:  {server.pid}, ".encode() in r.stdout


def test_cli_1_logs_of_a_server_in_the_foreground(new_server):
    server = new_server()
    r = server.cli("server", "logs")
    assert r.returncode == 125 and b"logging.output names a file" in r.stderr
    server.stop()
    server.config["logging"]["output"] = str(server.dir / "own.log")
    server.start()
    r = server.cli("server", "logs")
    assert r.returncode == 0 and r.stdout.decode() == (server.dir / "own.log").read_text() != ""
    assert server.cli("server", "stop").returncode == 0 and server.process.wait(harness.DEADLINE) == 0
    assert server.cli("server", "status").returncode == 3
