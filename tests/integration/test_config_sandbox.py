# SPDX-License-Identifier: Apache-2.0
"""The keys below `sandbox:` of the configuration, each seen to work."""

import os
import resource

import harness
import pytest
from cgroups import unlimited

CAP_SYS_RESOURCE = 24


def walls(session):
    return {w["wall"]: w["state"] for w in session.record["enforcement"]}


def test_cfg_1_sandbox_session_uids(new_server):
    s = new_server(config={"sandbox": {"session_uids": "1900100000-1900100009"}})
    uids = [int(s.session().out("id -u")) for _ in range(3)]
    assert len(set(uids)) == 3 and all(1900100000 <= uid <= 1900100009 for uid in uids), uids
    assert "has one id" not in s.log_text()


def test_cfg_1_one_session_uid_is_shared_with_a_warning(new_server):
    s = new_server(config={"sandbox": {"session_uid": 54322}})
    sessions = [s.session(), s.session()]
    assert [x.out("id -u; id -g") for x in sessions] == ["54322\n54322\n"] * 2
    wall = next(w for w in sessions[0].record["enforcement"] if w["wall"] == "process_separation")
    assert wall["state"] == "partial" and "shared by all sessions" in wall["detail"]
    assert "sandbox.session_uids has one id" in s.log_text()


@pytest.mark.parametrize("value", ["5-4", "0-9", "x", "1-", "-1", "1-4294967295", "1 - 2"])
def test_cfg_1_a_wrong_range_of_session_uids_is_refused(new_server, value):
    s = new_server(start=False, config={"sandbox": {"session_uids": value}})
    s.start(wait=False)
    assert s.process.wait(harness.DEADLINE) != 0
    assert "sandbox.session_uids: must be A-B" in s.log_text()


def test_cfg_1_sandbox_run_as(new_server):
    harness.ensure_user()
    s = new_server(config={"sandbox": {"run_as": "owner"}})
    ws = s.workspace()
    os.chown(ws, 1000, 1000)
    assert s.session(workspace=str(ws)).out("touch made") == ""
    assert ((ws / "made").stat().st_uid, (ws / "made").stat().st_gid) == (1000, 1000)


def test_cfg_1_sandbox_resource_limits_open_files(new_server):
    s = new_server()
    assert s.session().out("ulimit -Sn") == "4096\n"
    s = new_server(config={"sandbox": {"resource_limits": {"open_files": 100}}})
    assert s.session().out("ulimit -Sn") == "100\n"


def test_cfg_1_sandbox_resource_limits_open_files_max(new_server):
    s = new_server()
    may_raise = int(harness.status_of("self")["CapEff"], 16) >> CAP_SYS_RESOURCE & 1
    half = resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2
    assert int(s.session().out("ulimit -Hn")) == (65536 if may_raise else min(half, 65536))
    s = new_server(config={"sandbox": {"resource_limits": {"open_files": 100, "open_files_max": 200}}})
    session = s.session()
    assert session.out("ulimit -Sn; ulimit -Hn; ulimit -n 200; ulimit -n") == "100\n200\n200\n"
    assert session.script("ulimit -n 201")["result"]["exit_code"] != 0
    s = new_server(start=False, config={"sandbox": {"resource_limits": {"open_files": 300, "open_files_max": 200}}})
    s.start(wait=False)
    assert s.process.wait(harness.DEADLINE) != 0
    assert "sandbox.resource_limits.open_files: must not be larger" in s.log_text()


@pytest.mark.parametrize("shell, name", [("/bin/sh", "sh"), ("/bin/bash", "bash")])
def test_cfg_1_sandbox_shell(new_server, shell, name):
    s = new_server(config={"sandbox": {"shell": shell}})
    assert s.session().out("cat /proc/$$/comm").strip() == name


def test_cfg_1_sandbox_workspaces(new_server):
    harness.ensure_user()
    s = new_server(start=False)
    shared = s.workspace()
    s.merge(s.config, {"sandbox": {"workspaces": [str(shared)]}})
    s.keys_file.write_text("")
    s.start()
    r = s.cli("session", "create", "--workspace", shared, uid=1000)
    assert r.returncode == 0, r.stderr
    r = s.cli("session", "create", "--workspace", s.workspace(), uid=1000)
    assert r.returncode == 125 and b"E_FORBIDDEN" in r.stderr


def test_sbx_6_a_directory_of_the_system_is_no_workspace(new_server, tmp_path):
    """Not even root's, unless the configuration means it."""
    tmp_path.chmod(0o755)
    for part in ("shown", "listed", "own"):
        (tmp_path / part).mkdir()
    paths = [str(tmp_path / "shown"), str(tmp_path / "listed")]
    s = new_server(
        config={
            "filesystem": {"read_only_passthrough_paths": ["/usr", "/bin", "/lib", "/lib64", "/opt", *paths]},
            "sandbox": {"workspaces": ["/", paths[1]]},
        }
    )
    for path in (
        "/etc",
        "/etc/cron.d",
        "/usr",
        "/boot",
        "/var",
        "/opt",
        os.path.realpath("/bin"),
        paths[0],
        str(tmp_path),
    ):
        a = s.post("/api/v1/sessions", {"workspace": path})
        assert (a.status, a.code) == (403, "E_FORBIDDEN"), (path, a.body)
        # the directory of policies is in /etc
        assert path == "/etc" or "sandbox.workspaces" in a.json["error"]["message"]
    for path in (paths[1], tmp_path / "own"):
        assert s.post("/api/v1/sessions", {"workspace": str(path)}).status == 201
    a = s.post("/api/v1/sessions", {"workspace": str(s.dir)})
    assert a.code == "E_FORBIDDEN" and "--workspace DIR" in a.json["error"]["message"]


def test_cfg_1_sandbox_allow_unenforced(new_server):
    """A wall that cannot be raised (sethostname fails) stops the session, unless the configuration allows it."""

    def under_strace(config):
        s = new_server(start=False, config=config)
        s.command = ["strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "inject=sethostname:error=EPERM"]
        return s.start()

    s = under_strace({})
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())})
    assert (a.status, a.code) == (503, "E_ENFORCEMENT") and "uts_namespace" in a.body.decode(), a.body
    harness.wait_for(lambda: not s.warden_pids(), "nothing of it is left")
    s = under_strace({"sandbox": {"allow_unenforced": ["uts_namespace"]}})
    session = s.session()
    assert walls(session)["uts_namespace"] == "unavailable"
    assert session.out("echo runs") == "runs\n"


def test_cfg_1_sandbox_env_allow(new_server):
    s = new_server(config={"sandbox": {"env_allow": ["PATH"]}})
    env = s.session().record["environment"]
    assert "PATH" in env and "LANG" not in env and "TERM" not in env


def test_cfg_1_sandbox_env(new_server):
    s = new_server(config={"sandbox": {"env": {"TEAM": "red", "LANG": "C"}}})
    env = s.session().record["environment"]
    assert env["TEAM"] == "red" and env["LANG"] == "C"


def limit_is_reported(new_server, key, wall):
    s = new_server(config={"sandbox": {"resource_limits": {key: 200}}})
    assert walls(s.session())[wall] in ("up", "partial", "unavailable")
    assert walls(unlimited(new_server).session())[wall] == "absent"


def test_cfg_1_sandbox_resource_limits_max_memory_mb(new_server):
    limit_is_reported(new_server, "max_memory_mb", "memory_limit")


def test_cfg_1_sandbox_resource_limits_max_cpu_percent(new_server):
    limit_is_reported(new_server, "max_cpu_percent", "cpu_limit")


def test_cfg_1_sandbox_resource_limits_max_disk_mb(new_server):
    limit_is_reported(new_server, "max_disk_mb", "disk_limit")


def test_cfg_1_sandbox_resource_limits_max_network_mb(new_server):
    limit_is_reported(new_server, "max_network_mb", "network_limit")


def test_cfg_1_sandbox_resource_limits_pids_max(new_server):
    limit_is_reported(new_server, "pids_max", "pids_limit")


def limit_is_refused(new_server, key):
    s = new_server(start=False, config={"sandbox": {"resource_limits": {key: 1}}})
    s.start(wait=False)
    assert s.process.wait(harness.DEADLINE) != 0
    assert f"sandbox.resource_limits.{key}: nothing enforces this limit yet; leave it out" in s.log_text()


def test_cfg_1_sandbox_resource_limits_net_bandwidth_mbps(new_server):
    limit_is_refused(new_server, "net_bandwidth_mbps")


def test_cfg_1_sandbox_resource_limits_max_file_ops(new_server):
    s = new_server(start=False, config={"sandbox": {"resource_limits": {"max_file_ops": 1}}, **harness.NATIVE})
    s.start(wait=False)
    assert s.process.wait(harness.DEADLINE) != 0
    assert "sandbox.resource_limits.max_file_ops: operations on files are not counted where" in s.log_text()
    s = new_server(config={"sandbox": {"resource_limits": {"max_file_ops": 5}}})
    session = s.session(limits={"max_file_ops": 9})
    assert session.record["config"]["limits"]["max_file_ops"] == 5
    assert session.record["capped"] == ["limits.max_file_ops"]


def test_cfg_1_sandbox_resource_limits_max_net_ops(new_server):
    limit_is_refused(new_server, "max_net_ops")


def test_cfg_1_sandbox_resource_limits_max_commands(new_server):
    s = new_server(config={"sandbox": {"resource_limits": {"max_commands": 1}}})
    session = s.session(limits={"max_commands": 5})
    assert session.record["config"]["limits"]["max_commands"] == 1
    assert session.record["capped"] == ["limits.max_commands"]
    assert session.exec("true")["result"]["exit_code"] == 0
    assert s.post(f"{session.path}/exec", {"command": "true"}).status in (410, 429)


def test_cfg_1_sandbox_resource_limits_command_timeout(new_server):
    s = new_server(config={"sandbox": {"resource_limits": {"command_timeout": "300ms"}}})
    assert s.session().exec("sleep", "100")["result"]["exit_code"] == 124
