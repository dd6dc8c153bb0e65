# SPDX-License-Identifier: Apache-2.0
"""The command line as people and harnesses use it."""

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import harness
import pytest


def test_cli_1_session_commands(server):
    ws = server.workspace()
    r = server.cli("session", "create", "--workspace", ws, "--policy", "observe", "--idle-timeout", "30m")
    assert r.returncode == 0, r.stderr
    m = re.fullmatch(rb"Session created: (\S+)\n", r.stdout)
    sid = m[1].decode()
    assert server.get(f"/api/v1/sessions/{sid}").json["config"]["idle_timeout"] == "30m"
    info = server.cli("session", "info", sid).stdout.decode().splitlines()
    assert info[0] == f"ID:            {sid}" and info[1] == "State:         ready"
    assert [line.split(":")[0] for line in info] == [
        "ID", "State", "Created", "Last Activity", "Commands", "File Ops", "Net Ops", "Working Dir",
    ]  # fmt: skip
    assert json.loads(server.cli("session", "info", sid, "--json").stdout)["id"] == sid
    r = server.cli("session", "destroy", sid)
    assert (r.returncode, r.stdout.decode()) == (0, f"Session destroyed: {sid}\n")
    r = server.cli("session", "info", "no-such")
    assert r.returncode == 125 and b"E_SESSION_NOT_FOUND" in r.stderr and r.stdout == b""


def test_cli_1_who_reads_json_gets_errors_as_json(server, session):
    for args, code in (
        (("session", "info", "no-such", "--json"), "E_SESSION_NOT_FOUND"),
        (("output", "no-such", "--json"), "E_NOT_FOUND"),
        (("exec", session.id, "--timeout", "soon", "--", "true"), "E_BAD_REQUEST"),
        (("run", "--output", "json", "--workspace", "/no/such", "--", "true"), "E_BAD_REQUEST"),
    ):
        r = server.cli(*args)
        error = json.loads(r.stdout)["error"]
        assert r.returncode == 125 and error["code"] == code and error["message"], args
        assert ("request_id" in error) == (args[0] != "run")  # that is found out here
        assert code.encode() in r.stderr
    r = server.cli("--server", "/no/such.sock", "exec", "x", "--", "true")
    assert json.loads(r.stdout)["error"]["code"] == "E_UNAVAILABLE" and r.returncode == 125
    for args in (("--output", "shell", "--", "x"), ("--stream", "--", "x")):
        r = server.cli("exec", session.id, "--timeout", "soon", *args)
        assert r.stdout == b"" and b"E_BAD_REQUEST" in r.stderr, args


def test_cli_1_what_is_no_id_names_nothing(server, session):
    for name in (
        "",
        "a b",
        "..",
        "ä",
        f"{session.id}?",
        f"{session.id}/commands",
        f"%{ord(session.id[0]):x}",
        "x" * 65,
    ):
        for args in (("session", "info", name), ("session", "destroy", name), ("events", name), ("kill", name, "c")):
            r = server.cli(*args)
            assert (r.returncode, r.stdout) == (125, b""), args
            assert f"E_SESSION_NOT_FOUND: no session '{name}'".encode() in r.stderr, args
        r = server.cli("output", name)
        assert r.returncode == 125 and f"E_NOT_FOUND: no command '{name}'".encode() in r.stderr
        r = server.cli("exec", name, "--", "true")
        assert json.loads(r.stdout)["error"]["code"] == "E_SESSION_NOT_FOUND" and r.returncode == 125
        r = server.cli("exec", name, "--create", "--", "true")  # nor can it be made
        assert json.loads(r.stdout)["error"]["code"] == "E_BAD_REQUEST" and b"must match" in r.stderr
    r = server.cli("events", session.id, "--type", "exec&limit=1")
    assert r.returncode == 125 and b"unknown event type" in r.stderr
    r = server.cli("output", "c", "--stream", "stderr&offset=1")
    assert r.returncode == 125 and b"--stream is stdout or stderr" in r.stderr
    assert session.get()["state"] == "ready"


def test_cli_1_session_list_format(new_server):
    server = new_server()
    b = server.session(id="a-much-longer-name")
    a = server.session(id="s-1")
    a.exec("true")
    lines = server.cli("session", "list").stdout.decode().splitlines()
    width = len("a-much-longer-name") + 2
    assert lines[0] == f"{'ID':{width}}STATE  CREATED               COMMANDS  WORKSPACE"
    assert re.fullmatch(
        rf"{'s-1':{width}}ready  \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ  1         {a.workspace}", lines[1]
    )
    assert lines[2].startswith("a-much-longer-name  ready  ") and lines[2].endswith(str(b.workspace))
    assert {s["id"] for s in json.loads(server.cli("session", "list", "--json").stdout)["sessions"]} == {
        "s-1",
        b.id,
    }
    server.cli("session", "destroy", a.id)
    lines = server.cli("session", "list").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["ID", b.id]
    lines = server.cli("session", "list", "--all").stdout.decode().splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["s-1", "stopped"], [b.id, "ready"]]


def test_cli_1_exec_json(server, session):
    r = server.cli("exec", session.id, "--", "sh", "-c", "echo hi; exit 3")
    assert r.returncode == 3
    answer = json.loads(r.stdout)
    assert answer["result"]["stdout"] == "hi\n" and answer["result"]["exit_code"] == 3
    assert r.stdout.startswith(b'{\n  "command_id": ')
    r = server.cli("exec", session.id, "--json", '{"command":"echo","args":["-n","x"]}')
    assert json.loads(r.stdout)["result"]["stdout"] == "x"
    r = server.cli("exec", session.id, "--script", "echo $((1+2))")
    assert json.loads(r.stdout)["result"]["stdout"] == "3\n"
    r = server.cli("exec", session.id, "--timeout", "300ms", "--", "sleep", "100")
    assert r.returncode == 124


def test_exe_8_cli_exit_codes(server, session):
    for argv, code in [
        (["true"], 0),
        (["sh", "-c", "exit 42"], 42),
        (["no-such-program"], 127),
        (["/etc/passwd"], 126),
        (["sh", "-c", "kill -KILL $$"], 137),
    ]:
        for output in ("json", "shell"):
            assert server.cli("exec", session.id, "--output", output, "--", *argv).returncode == code, (
                argv,
                output,
            )
    r = server.cli("exec", "no-such-session", "--", "true")
    assert r.returncode == 125 and b"E_SESSION_NOT_FOUND" in r.stderr and b"--create" in r.stderr
    assert server.get("/api/v1/sessions/no-such-session").status == 404


def test_cli_1_exec_shell_passes_through(server, session):
    r = server.cli(
        "exec",
        session.id,
        "--output",
        "shell",
        "--",
        "sh",
        "-c",
        "cat; echo err >&2; exit 4",
        input=b"in\x00\xff",
    )
    assert (r.stdout, r.returncode) == (b"in\x00\xff", 4) and r.stderr == b"err\n"
    big = os.urandom(8 << 20)
    r = server.cli("exec", session.id, "--output", "shell", "--", "cat", input=big)
    assert r.stdout == big
    r = server.cli("exec", session.id, "--output", "shell", "--", "cat")
    assert (r.stdout, r.returncode) == (b"", 0)
    # a pipeline whose reader leaves early ends
    p = subprocess.run(
        ["sh", "-c", f"{harness.AGENTSH} exec {session.id} --output shell -- yes | head -n 2"],
        capture_output=True, env=server.environment(), timeout=60, **server.as_user(),
    )  # fmt: skip
    assert p.stdout == b"y\ny\n"


def test_cli_1_signals_reach_the_command(server, session):
    p = subprocess.Popen(
        [harness.AGENTSH, "exec", session.id, "--output", "shell", "--script",
         "trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.05; done"],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=server.environment(), **server.as_user(),
    )  # fmt: skip
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGTERM)
    assert p.stdout.read() == b"term\n" and p.wait(20) == 5
    p.stdout.close()


def test_cli_1_stream(server, session):
    r = server.cli("exec", session.id, "--stream", "--script", "echo one; echo two >&2; printf three; exit 6")
    assert r.returncode == 6
    assert sorted(r.stdout.decode().splitlines()) == ["[stderr] two", "[stdout] one", "[stdout] three"]


def test_cli_1_stream_passes_nul(server, session):
    r = server.cli("exec", session.id, "--stream", "--script", r"printf 'a\0b\n'")
    assert (r.returncode, r.stdout) == (0, b"[stdout] a\0b\n")


def test_cli_1_what_is_no_text_is_refused(server, session):
    for args in (["--", "printf", b"a\xff"], ["--script", b": \xff"], ["--env", b"X=\xff", "--", "true"]):
        r = subprocess.run(
            [harness.AGENTSH, "exec", session.id, "--output", "shell", *args],
            capture_output=True, stdin=subprocess.DEVNULL, env=server.environment(), **server.as_user(),
        )  # fmt: skip
        assert r.returncode == 125 and b"is not UTF-8" in r.stderr and not r.stdout, args


@pytest.mark.parametrize("how", ["--output=shell", "--stream"])
def test_cli_1_a_reader_that_leaves_ends_the_command(server, session, how):
    cid = "endless" + how.split("=")[0]
    p = subprocess.Popen(
        [harness.AGENTSH, "exec", session.id, how, "--command-id", cid, "--", "yes"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=server.environment(), **server.as_user(),
    )  # fmt: skip
    assert b"y\n" in p.stdout.readline()
    p.stdout.close()
    assert (p.wait(20), p.stderr.read()) == (128 + signal.SIGPIPE, b"")
    p.stderr.close()
    harness.wait_for(lambda: session.get(f"/commands/{cid}")["state"] == "killed", "killed")


def test_cli_1_a_full_disk_is_told(server, session):
    for args in (
        ["session", "list"],
        ["exec", session.id, "--", "true"],
        ["exec", session.id, "--stream", "--", "yes"],
    ):
        with open("/dev/full", "w") as full:
            r = subprocess.run(
                [harness.AGENTSH, *args], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                env=server.environment(), timeout=20, **server.as_user(),
            )  # fmt: skip
        assert r.returncode == 125 and b"cannot write" in r.stderr, args


def test_cli_1_detach_prints_the_record(server, session):
    detach = ("exec", session.id, "--detach", "--idempotency-key", "once", "--", "sleep", "1000")
    r = server.cli(*detach)
    assert (r.returncode, r.stderr) == (0, b"")
    record = json.loads(r.stdout)
    assert record["state"] in ("queued", "running") and record["exit_code"] is None
    server.cli("kill", record["command_id"], "--signal", "KILL")
    harness.wait_for(lambda: session.get("/commands/" + record["command_id"])["state"] == "killed", "killed")
    r = server.cli(*detach)
    assert r.returncode == 0 and json.loads(r.stdout)["error"]["code"] == "E_COMMAND_KILLED"


def test_exe_3_cli_output(server, session):
    cid = session.exec("seq", "1", "20000")["command_id"]
    expected = "".join(f"{i}\n" for i in range(1, 20001)).encode()
    assert server.cli("output", cid).stdout == expected
    assert server.cli("output", cid, "--offset=10000", "--limit=10000").stdout == expected[10000:20000]
    assert server.cli("output", cid, "--stream", "stderr").stdout == b""
    assert json.loads(server.cli("output", cid, "--json", "--limit", "5").stdout)["data"] == "1\n2\n3"[:5]
    assert server.cli("output", "cmd-none").returncode == 125
    assert server.cli("output", cid, "--offset", "x").returncode == 125


def test_exe_5_cli_kill(server, session):
    c = session.exec(script="sleep 1000", detach=True, status=202)
    harness.wait_for(lambda: session.get()["queue"]["running"], "running")
    r = server.cli("kill", c["command_id"], "--signal", "KILL")
    assert r.returncode == 0, r.stderr
    harness.wait_for(lambda: session.get("/commands/" + c["command_id"])["state"] == "killed", "killed")
    assert server.cli("kill", session.id, c["command_id"]).returncode == 125


def test_evt_4_cli_events(server):
    s = server.session()
    p = subprocess.Popen(
        [harness.AGENTSH, "events", s.id, "--after", "0", "--type", "command_finished,session_destroyed"],
        stdout=subprocess.PIPE, env=server.environment(), **server.as_user(),
    )  # fmt: skip
    s.exec("true")
    s.destroy()
    events = [json.loads(line) for line in p.stdout.read().splitlines()]
    assert [e["type"] for e in events] == ["command_finished", "session_destroyed"]
    assert p.wait(20) == 0
    p.stdout.close()


def test_cli_1_help_version_and_mistakes(server):
    assert b"usage: agentsh" in server.cli("--help").stdout
    assert server.cli("--version").stdout.startswith(b"agentsh ")
    assert json.loads(server.cli("version", "--json").stdout)["version"]
    text = server.cli("help").stdout.decode()
    for name in ("server", "run", "session create", "exec", "output", "kill", "events", "config show"):
        assert name in text
        assert b"usage: agentsh" in server.cli(*name.split(), "--help").stdout
        assert server.cli("help", *name.split()).stdout == server.cli(*name.split(), "-h").stdout or name == "server"
    assert server.cli("help", "server").stdout == server.cli("server", "--help").stdout
    for args in (["nonsense"], ["session", "nonsense"], ["exec"], ["exec", "s", "--nope"], ["exec", "s"], []):
        r = server.cli(*args)
        assert r.returncode == 125 and r.stderr and not r.stdout, args


def user_environment(tmp, uid):
    runtime = tmp / "runtime"
    runtime.mkdir()
    home = tmp / "home"
    home.mkdir()
    for p in (tmp, runtime, home):
        os.chown(p, uid, uid)
    os.chmod(runtime, 0o700)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}
    if "ASAN_OPTIONS" in os.environ:
        env["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
    return env


def environment_of(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:  # the process has ended; other tests run servers, too
        return ""


def server_pids(tmp):
    return [
        int(p) for p in os.listdir("/proc")
        if p.isdigit() and harness.program_of(p) == "agentsh-server" and str(tmp) in environment_of(p)
    ]  # fmt: skip


def test_cli_1_run_needs_nothing(tmp_path):
    """No daemon, no configuration: as a normal user in a fresh home."""
    harness.ensure_user()
    for part in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(part, 0o755)
    env = user_environment(tmp_path, 1000)
    ws = tmp_path / "ws"
    ws.mkdir()
    os.chown(ws, 1000, 1000)

    def run(*args, **kw):
        return subprocess.run(
            [harness.AGENTSH, "run", *args], capture_output=True, env=env, cwd=ws, timeout=60, user=1000, group=1000,
            extra_groups=[], **kw,
        )  # fmt: skip

    try:
        r = run("--", "sh", "-c", "pwd; cat; touch made; exit 3", input=b"stdin\n")
        assert (r.returncode, r.stdout) == (3, f"{ws}\nstdin\n".encode()), r.stderr
        assert (ws / "made").stat().st_uid == 1000
        r = run("--output", "json", "--", "echo", "hi", stdin=subprocess.DEVNULL)
        assert json.loads(r.stdout)["result"]["stdout"] == "hi\n"
        assert run("--", "no-such", stdin=subprocess.DEVNULL).returncode == 127
        assert run("--policy", "nope", "--", "true", stdin=subprocess.DEVNULL).returncode == 125

        # no sessions are left: each ends behind its answer
        def states():
            r = subprocess.run(
                [harness.AGENTSH, "session", "list", "--json"],
                capture_output=True,
                env=env,
                user=1000,
                group=1000,
            )
            return [s["state"] for s in json.loads(r.stdout)["sessions"]]

        harness.wait_for(lambda: set(states()) == {"stopped"}, "the sessions end", show=states)
        # two that start at once get one server
        for pid in server_pids(tmp_path):
            os.kill(pid, signal.SIGTERM)
        harness.wait_for(lambda: not server_pids(tmp_path), "the server ends")
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(run("--", "true", stdin=subprocess.DEVNULL)))
            for _ in range(4)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert [r.returncode for r in results] == [0] * 4, results
        assert len(server_pids(tmp_path)) == 1
    finally:
        for pid in server_pids(tmp_path):
            os.kill(pid, signal.SIGTERM)
        harness.wait_for(lambda: not server_pids(tmp_path), "the server ends")


def test_cli_1_one_server_of_a_user_wherever_it_was_started(tmp_path):
    """XDG_RUNTIME_DIR differs between a login, cron and su; the state is the user's all the same."""
    harness.ensure_user()
    for part in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(part, 0o755)
    env = user_environment(tmp_path, 1000)
    elsewhere = tmp_path / "elsewhere"
    ws = tmp_path / "ws"
    for path in (elsewhere, ws):
        path.mkdir(mode=0o700)
        os.chown(path, 1000, 1000)

    def cli(*args, **more):
        r = subprocess.run(
            [harness.AGENTSH, *args], capture_output=True, env={**env, **more}, cwd=ws, timeout=60, user=1000,
            group=1000, extra_groups=[], stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert r.returncode == 0, r.stderr
        return r.stdout.decode()

    try:
        sid = cli("session", "create", "--workspace", ws).split()[-1]
        assert cli("run", "--", "echo", "found", XDG_RUNTIME_DIR=str(elsewhere)) == "found\n"
        assert len(server_pids(tmp_path)) == 1
        assert sid in cli("session", "list", XDG_RUNTIME_DIR=str(elsewhere))
    finally:
        for pid in server_pids(tmp_path):
            os.kill(pid, signal.SIGTERM)
        harness.wait_for(lambda: not server_pids(tmp_path), "the server ends")


def test_cli_1_an_auto_started_server_ends_when_idle(tmp_path):
    harness.ensure_user()
    for part in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(part, 0o755)
    env = user_environment(tmp_path, 1000)
    config = tmp_path / "config.yaml"
    config.write_text("server: {auto_idle: 1s}\n")
    os.chown(config, 1000, 1000)
    env["AGENTSH_CONFIG"] = str(config)
    ws = tmp_path / "ws"
    ws.mkdir()
    os.chown(ws, 1000, 1000)
    r = subprocess.run(
        [harness.AGENTSH, "run", "--", "true"],
        env=env,
        cwd=ws,
        user=1000,
        group=1000,
        extra_groups=[],
        timeout=60,
    )
    assert r.returncode == 0
    harness.wait_for(lambda: not server_pids(tmp_path), "the idle server ends", 20)


def test_cli_1_the_server_that_agentsh_config_names_is_used_and_no_other(tmp_path):
    """It is started if it does not run, although another one of the same user does."""
    harness.ensure_user()
    for part in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(part, 0o755)
    env = user_environment(tmp_path, 1000)
    ws = tmp_path / "ws"
    config = tmp_path / "other.yaml"
    broken = tmp_path / "broken.yaml"
    shared = tmp_path / "shared.yaml"
    config.write_text(
        f"server: {{unix_socket: {tmp_path}/other/s.sock}}\nsessions: {{base_dir: {tmp_path}/other/state}}\n"
    )
    broken.write_text("server: {unix_sockt: /x}\n")
    shared.write_text(f"server: {{unix_socket: {tmp_path}/third/s.sock}}\n")
    ws.mkdir()
    for path in (ws, config, broken, shared, tmp_path):
        os.chown(path, 1000, 1000)

    def cli(*args, **more):
        return subprocess.run(
            [harness.AGENTSH, *args], capture_output=True, text=True, env=env | more,
            user=1000, group=1000, extra_groups=[], cwd=tmp_path, timeout=60,
        )  # fmt: skip

    try:
        usual = cli("session", "create", "--workspace", str(ws)).stdout.split()[-1]
        r = cli("session", "create", "--workspace", str(ws), AGENTSH_CONFIG="other.yaml", AGENTSH_NO_AUTO="1")
        assert r.returncode == 125 and f"{tmp_path}/other/s.sock" in r.stderr, r.stderr
        r = cli("session", "create", "--workspace", str(ws), AGENTSH_CONFIG="other.yaml")
        assert r.returncode == 0, r.stderr
        assert len(server_pids(tmp_path)) == 2 and (tmp_path / "other/s.sock").is_socket()
        assert usual not in cli("session", "list", AGENTSH_CONFIG=str(config)).stdout
        assert r.stdout.split()[-1] in cli("session", "list", AGENTSH_CONFIG=str(config)).stdout
        assert usual in cli("session", "list").stdout
        for file, said in (("broken.yaml", "unix_sockt"), ("no-such.yaml", "no-such.yaml")):
            r = cli("session", "list", AGENTSH_CONFIG=file)
            assert r.returncode == 125 and said in r.stderr, r.stderr
        r = cli("session", "list", AGENTSH_CONFIG="shared.yaml")  # the data directory is the first one's
        assert r.returncode == 125 and "sessions.base_dir" in r.stderr, r.stderr
        assert len(server_pids(tmp_path)) == 2
    finally:
        for pid in server_pids(tmp_path):
            os.kill(pid, signal.SIGTERM)
        harness.wait_for(lambda: not server_pids(tmp_path), "the servers end")


def test_cli_1_no_auto(tmp_path):
    harness.ensure_user()
    for part in (tmp_path, *tmp_path.parents[:2]):
        os.chmod(part, 0o755)
    env = user_environment(tmp_path, 1000) | {"AGENTSH_NO_AUTO": "1"}
    r = subprocess.run(
        [harness.AGENTSH, "session", "list"], capture_output=True, env=env, user=1000, group=1000, cwd="/"
    )
    assert r.returncode == 125 and b"AGENTSH_NO_AUTO" in r.stderr or b"server" in r.stderr
    assert not server_pids(tmp_path)


def test_cli_1_exec_makes_a_missing_session_with_create(server):
    ws = server.workspace()
    r = subprocess.run(
        [harness.AGENTSH, "exec", "made-by-exec", "--create", "--output", "shell", "--", "pwd"], capture_output=True, cwd=ws,
        env=server.environment(), stdin=subprocess.DEVNULL, **server.as_user(),
    )  # fmt: skip
    assert (r.returncode, r.stdout) == (0, f"{ws}\n".encode()), r.stderr
    assert server.get("/api/v1/sessions/made-by-exec").json["workspace"] == str(ws)


def test_cli_1_clients_that_want_a_session_at_once_share_it(server):
    """exec --create makes the session it names; of several at a time one makes it, and the others wait for it."""
    workspace = server.workspace()
    for turn in range(3):
        name = f"shared-{server.uid}-{turn}"
        clients = [
            subprocess.Popen(
                [harness.AGENTSH, "exec", name, "--create", "--output", "shell", "--", "echo", str(i)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=server.environment(), cwd=workspace, **server.as_user(),
            )
            for i in range(6)
        ]  # fmt: skip
        answers = [(*c.communicate(timeout=60), c.returncode) for c in clients]
        assert answers == [(f"{i}\n".encode(), b"", 0) for i in range(6)]
        assert server.cli("session", "destroy", name).returncode == 0
