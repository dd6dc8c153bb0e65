# SPDX-License-Identifier: Apache-2.0
"""Every configuration key is seen to work."""

import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import signal
import socket
import sqlite3
import struct
import time
from pathlib import Path

import harness
import pytest


def test_cfg_1_server_unix_socket(new_server):
    s = new_server(start=False)
    s.runtime = s.dir / "elsewhere"
    s.socket = s.runtime / "my.sock"
    s.merge(s.config, {"server": {"unix_socket": str(s.socket)}})
    s.start()
    assert s.get("/health").status == 200 and str(s.socket) in s.ready_line
    assert s.socket.stat().st_mode & 0o777 == 0o666


def test_cfg_1_server_http_addr(new_server):
    s = new_server(config={"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "none", "none_as": 1000}}})
    assert http_get(s, "/health") == 200


def http_get(server, path):
    c = http.client.HTTPConnection("127.0.0.1", int(server.ready_line.rsplit(":", 1)[1]), timeout=10)
    c.request("GET", path)
    status = c.getresponse().status
    c.close()
    return status


def test_cfg_1_server_auth_type(new_server):
    s = new_server(config={"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "none", "none_as": 1000}}})
    assert http_get(s, "/api/v1/sessions") == 200
    s = new_server(config={"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "api_key"}}}, keys=[])
    assert http_get(s, "/api/v1/sessions") == 401


def test_cfg_1_server_auth_none_as(new_server):
    """With auth.type none every local user can ask; a root server says for which user, and it is not root."""
    none = {"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "none"}}}
    for more in ({}, {"server": {"auth": {"none_as": 0}}}):
        s = new_server(config=none, start=False)
        s.merge(s.config, more)
        s.start(wait=False)
        assert s.process.wait(30) == 125
        assert "server.auth.none_as: must name a user id other than 0" in s.log_text(), s.log_text()
    harness.ensure_user()
    s = new_server(config={"server": {**none["server"], "auth": {"type": "none", "none_as": 1000}}})
    tcp = http.client.HTTPConnection("127.0.0.1", int(s.ready_line.rsplit(":", 1)[1]), timeout=60)
    roots, theirs = s.workspace(), s.workspace()
    roots.chmod(0o700)
    os.chown(theirs, 1000, 1000)
    a = s.post("/api/v1/sessions", {"workspace": str(roots)}, connection=tcp)
    assert (a.status, a.code) == (403, "E_FORBIDDEN"), a.body
    a = s.post("/api/v1/sessions", {"workspace": str(theirs)}, connection=tcp)
    assert a.status == 201 and (a.json["owner_uid"], a.json["agent_id"]) == (1000, "uid-1000"), a.body
    path = f"/api/v1/sessions/{a.json['id']}"
    r = s.post(f"{path}/exec", {"script": "touch made; id -u"}, connection=tcp).json["result"]
    assert r["exit_code"] == 0, r
    assert (theirs / "made").stat().st_uid == 1000
    assert s.cli("session", "info", a.json["id"], uid=1000).returncode == 0  # it is that user's
    mine = s.session()  # root's own, by the unix socket
    assert s.get(mine.path, connection=tcp).status == 404
    s.refuses_to_reload({"server": {"auth": {"none_as": 0}}}, "server.auth.none_as")
    # a normal user's server speaks for that user, and only for that user
    s = new_server(uid=1000, config=none)
    tcp = http.client.HTTPConnection("127.0.0.1", int(s.ready_line.rsplit(":", 1)[1]), timeout=60)
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())}, connection=tcp)
    assert a.status == 201 and (a.json["owner_uid"], a.json["agent_id"]) == (1000, "anonymous"), a.body
    s = new_server(
        uid=1000, config={"server": {**none["server"], "auth": {"type": "none", "none_as": 1}}}, start=False
    )
    s.start(wait=False)
    assert s.process.wait(30) == 125 and "server.auth.none_as" in s.log_text()


def test_cfg_1_server_auth_api_keys_file(new_server):
    key = {"id": "k", "agent_id": "me", "role": "agent", "uid": 1000, "sha256": hashlib.sha256(b"s").hexdigest()}
    s = new_server(keys=[key])
    assert s.get("/api/v1/sessions", key="s").status == 200
    s.keys_file.write_text(json.dumps({"keys": []}))
    s.process.send_signal(signal.SIGHUP)
    harness.wait_for(lambda: s.get("/api/v1/sessions", key="s").status == 401, "the key is gone after SIGHUP")


def test_cfg_1_server_api_uid(new_server):
    s = new_server(config={"server": {"api_uid": 54321}})
    assert harness.status_of(s.api_pid())["Uid"].split()[0] == "54321"


def test_cfg_1_server_max_request_bytes(new_server):
    s = new_server(config={"server": {"max_request_bytes": 65536}})
    a = s.post("/api/v1/sessions", b" " * 65537)
    assert (a.status, a.code) == (413, "E_TOO_LARGE")
    assert s.post("/api/v1/sessions", b" " * 65536).status == 400


def test_cfg_1_server_max_connections(new_server):
    s = new_server(config={"server": {"max_connections": 4}})
    held = [s.connect() for _ in range(4)]
    for c in held:
        c.request("GET", "/health")
        c.getresponse().read()
    a = s.get("/health")
    assert (a.status, a.code) == (503, "E_UNAVAILABLE")
    for c in held:
        c.close()
    harness.wait_for(lambda: s.get("/health").status == 200, "room again")


def test_cfg_1_server_auto_idle(new_server):
    s = new_server(config={"server": {"auto_idle": "1s"}}, start=False)
    s.start("--auto")
    session = s.session()
    time.sleep(2.5)  # the thing shown is that time alone does not end it while a session lives
    assert s.process.poll() is None
    session.destroy()
    assert s.process.wait(20) == 0


def log_lines(new_server, **logging):
    s = new_server(start=False)
    out = s.dir / "the.log"
    s.merge(s.config, {"logging": {"output": str(out), **logging}})
    s.start()
    s.session(environment={"LD_PRELOAD": "x"}).destroy()
    s.stop()
    return out.read_text().splitlines()


def test_cfg_1_logging_output(new_server):
    assert log_lines(new_server)
    s = new_server(start=False)
    out = s.dir / "the.log"
    s.merge(s.config, {"logging": {"output": str(out)}})
    s.start()
    out.rename(s.dir / "rotated")
    s.process.send_signal(signal.SIGHUP)
    harness.wait_for(out.exists, "the log is made again")
    s.session()
    harness.wait_for(lambda: "agentsh-api" in out.read_text(), "the API process writes there too")


def hup(server, config):
    """Changes the configuration of a running server and waits until it holds."""
    before = server.log_text().count("reloaded")
    server.merge(server.config, config)
    server.config_file.write_text(json.dumps(server.config))
    server.process.send_signal(signal.SIGHUP)
    harness.wait_for(lambda: server.log_text().count("reloaded") > before, "it was read again")
    assert "not replaced" not in server.log_text()


def test_cfg_1_sighup_reaches_the_wardens(new_server):
    """A log that was put aside is let go by every process, and the new one gets the wardens' lines."""
    s = new_server(start=False)
    s.merge(s.config, {"logging": {"output": str(s.dir / "the.log")}})
    s.start()
    s.log = s.dir / "the.log"
    session = s.session()
    old = s.dir / "rotated"
    s.log.rename(old)
    hup(s, {"logging": {"format": "json"}})

    def holders():
        pids = [s.pid, s.api_pid(), *s.warden_pids()]
        return [p for p in pids for fd in (Path(f"/proc/{p}/fd").iterdir()) if os.path.realpath(fd) == str(old)]

    harness.wait_for(lambda: not holders(), "nobody holds the old log", show=holders)
    session.destroy()

    def programs():
        lines = [json.loads(x) for x in s.log.read_text().splitlines() if x.startswith("{")]
        return {x["program"] for x in lines}

    harness.wait_for(lambda: "agentsh-warden" in programs(), "the warden writes there", show=programs)


def test_cfg_1_sighup_applies_what_can_change(new_server):
    s = new_server()
    session = s.session()
    hup(
        s,
        {
            "server": {"max_request_bytes": 65536},
            "sessions": {"max_sessions": 1, "default_timeout": "2h"},
            "output": {"command_quota": 4096},
            "metrics": {"path": "/numbers"},
            "logging": {"level": "info"},
        },
    )
    assert s.post("/api/v1/sessions", {"workspace": str(s.workspace())}).code == "E_RESOURCE_LIMIT"
    assert s.post("/api/v1/sessions", b" " * 65537).status == 413
    assert s.get("/numbers").status == 200 and s.get("/metrics").status == 404
    r = session.exec(script="head -c 10000 /dev/zero")  # a session that lived before
    assert session.output(r["command_id"], offset=4000)["next_offset"] == 4096
    session.destroy()
    assert s.session().record["config"]["timeout"] == "2h"


def test_cfg_1_sighup_names_what_needs_a_restart(new_server):
    s = new_server()
    session = s.session()
    hup(
        s,
        {
            "server": {"unix_socket": str(s.dir / "run/other.sock"), "api_uid": 54321},
            "sessions": {"base_dir": str(s.dir / "elsewhere"), "max_sessions": 1},
            "events": {"db": str(s.dir / "other.db"), "jsonl": {"path": "none"}},
        },
    )
    for key in ("server.unix_socket", "server.api_uid", "sessions.base_dir", "events.db", "events.jsonl.path"):
        assert f"needs a restart key={key}" in s.log_text(), s.log_text()
    assert s.post("/api/v1/sessions", {"workspace": str(s.workspace())}).code == "E_RESOURCE_LIMIT"
    os.kill(s.api_pid(), signal.SIGKILL)  # the next one uses what is in use, too
    harness.wait_for(lambda: s.api_pid() and s.get("/ready").status == 200, "the next API process")
    assert session.get()["state"] == "ready" and not (s.dir / "elsewhere").exists()


def test_cfg_1_logging_format(new_server):
    lines = [json.loads(x) for x in log_lines(new_server, format="json")]
    assert all({"time", "level", "program", "message"} <= set(x) for x in lines)
    assert {x["program"] for x in lines} >= {"agentsh-server", "agentsh-api", "agentsh-warden"}


def test_cfg_1_logging_level(new_server):
    def levels(level):
        return {json.loads(x)["level"] for x in log_lines(new_server, format="json", level=level)}

    assert levels("debug") >= {"debug", "info"}
    assert levels("info") == {"info"}
    assert not levels("error")


def test_cfg_1_sessions_base_dir(new_server):
    s = new_server(start=False)
    s.merge(s.config, {"sessions": {"base_dir": str(s.dir / "data")}})
    s.start()
    assert (s.dir / "data/agentsh.db").exists()
    # others may pass to the trash of their own sessions, and neither list nor open anything else
    assert (s.dir / "data").stat().st_mode & 0o777 == 0o711
    for e in (s.dir / "data").iterdir():
        assert e.name == "trash" or e.stat().st_mode & 0o077 == 0, (e, oct(e.stat().st_mode))


def test_cfg_1_sessions_max_sessions(new_server):
    s = new_server(config={"sessions": {"max_sessions": 1}})
    s.session()
    assert s.post("/api/v1/sessions", {"workspace": str(s.workspace())}).code == "E_RESOURCE_LIMIT"


def test_cfg_1_sessions_max_sessions_per_agent(new_server):
    s = new_server(config={"sessions": {"max_sessions_per_agent": 2}})
    s.session()
    s.session()
    assert s.post("/api/v1/sessions", {"workspace": str(s.workspace())}).code == "E_RESOURCE_LIMIT"


def agents_limit(new_server, tmp_path, key, agent, policy):
    """Of request, policy, agent's limit and server the smallest wins."""
    (tmp_path / "brief.yaml").write_text(
        f"version: 1\nname: brief\ndefault: {{files: allow, commands: allow}}\nresource_limits: {{{policy}: 20m}}\n"
    )
    tmp_path.chmod(0o755)
    s = new_server(
        config={
            "policies": {"dir": str(tmp_path)},
            "sessions": {agent: "25m", "default_timeout": "30m", "default_idle_timeout": "30m"},
        }
    )
    assert s.session().record["config"][key] == "25m"
    assert s.session(**{key: "40m"}).record["config"][key] == "25m"
    assert s.session(**{key: "15m"}).record["config"][key] == "15m"
    assert s.session(policy="brief").record["config"][key] == "20m"
    assert s.session(policy="brief", **{key: "21m"}).record["config"][key] == "20m"
    assert s.session(policy="brief", **{key: "10m"}).record["config"][key] == "10m"
    hup(s, {"sessions": {agent: "5m"}})
    assert s.session(policy="brief", **{key: "10m"}).record["config"][key] == "5m"
    hup(s, {"sessions": {agent: "0s"}})
    assert s.session().record["config"][key] == "30m"
    hup(s, {"sessions": {agent: "100ms", "cleanup_interval": "50ms"}})
    ends = s.session()
    harness.wait_for(lambda: ends.get()["state"] == "stopped", "the agent's session ends")


def test_cfg_1_sessions_agent_max_lifetime(new_server, tmp_path):
    agents_limit(new_server, tmp_path, "timeout", "agent_max_lifetime", "session_timeout")


def test_cfg_1_sessions_agent_idle_timeout(new_server, tmp_path):
    agents_limit(new_server, tmp_path, "idle_timeout", "agent_idle_timeout", "idle_timeout")


def test_cfg_1_sessions_default_timeout(new_server):
    assert new_server(config={"sessions": {"default_timeout": "2h"}}).session().record["config"]["timeout"] == "2h"


def test_cfg_1_sessions_default_idle_timeout(new_server):
    s = new_server(config={"sessions": {"default_idle_timeout": "7m"}})
    assert s.session().record["config"]["idle_timeout"] == "7m"
    assert s.session(idle_timeout="8m").record["config"]["idle_timeout"] == "7m"


def test_cfg_1_sessions_cleanup_interval(new_server):
    s = new_server(config={"sessions": {"cleanup_interval": "100ms"}})
    idle = s.session(idle_timeout="200ms")
    harness.wait_for(lambda: idle.get()["state"] == "stopped", "the idle session ends")


def test_cfg_1_sessions_orphan_timeout(new_server):
    s = new_server(config={"sessions": {"orphan_timeout": "500ms"}})
    s.session()
    wardens = s.warden_pids()
    assert wardens
    s.process.kill()
    s.process.wait()
    harness.wait_for(lambda: not any(map(harness.alive, wardens)), "the orphan ends", 10)


def test_cfg_1_sessions_max_queue(new_server):
    s = new_server(config={"sessions": {"max_queue": 1}})
    session = s.session()
    session.exec("sleep", "100", detach=True, status=202)
    session.exec("true", detach=True, status=202)
    a = s.post(f"{session.path}/exec", {"command": "true"})
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT")


def test_cfg_1_policies_default(new_server, tmp_path):
    (tmp_path / "mine.yaml").write_text("version: 1\nname: mine\ndefault: {files: allow}\n")
    tmp_path.chmod(0o755)
    s = new_server(config={"policies": {"dir": str(tmp_path), "default": "mine"}})
    assert s.session().record["policy"]["name"] == "mine"
    assert s.session(policy="observe").record["policy"]["name"] == "observe"
    assert harness.validate_config("policies: {default: any-name.1}\n", tmp_path).returncode == 0
    assert harness.validate_config("policies: {default: ../mine}\n", tmp_path).returncode == 125


class LinkOf:
    """The API process's own link to the warden of its only session, for use while that process stands still."""

    EXEC, RESULT, ACK = 22, 26, 27
    PIDFD_GETFD = 438  # the same number on every machine

    def __init__(self, api):
        args = Path(f"/proc/{api}/cmdline").read_text().split("\0")
        launcher_link = args[args.index("--link-fd") + 1]
        pidfd = os.pidfd_open(api)
        libc = ctypes.CDLL(None, use_errno=True)
        for fd in os.listdir(f"/proc/{api}/fd"):
            if fd == launcher_link or not os.readlink(f"/proc/{api}/fd/{fd}").startswith("socket:"):
                continue
            got = libc.syscall(self.PIDFD_GETFD, pidfd, int(fd), 0)
            assert got >= 0, os.strerror(ctypes.get_errno())
            sock = socket.socket(fileno=got)
            if sock.type == socket.SOCK_SEQPACKET:
                self.sock = sock
            else:
                sock.close()
        os.close(pidfd)
        self.out = [os.memfd_create("out") for _ in range(2)]

    @staticmethod
    def text(s):
        return struct.pack("<I", 0xFFFFFFFF) if s is None else struct.pack("<I", len(s)) + s.encode()

    def send(self, kind, payload, fds=()):
        head = struct.pack("<IHHIIII", 0x4B4C4841, 1, kind, 0, len(payload), 0, 0)
        socket.send_fds(self.sock, [head + payload], list(fds))

    def exec(self, command_id, *argv):
        words = struct.pack("<I", len(argv)) + b"".join(map(self.text, argv))
        rest = words + struct.pack("<IIQ7I", 0, 0, 0, *[0] * 7)  # no env, no stdin, no time-out, pipes
        self.send(self.EXEC, self.text(command_id) + self.text(None) * 4 + rest, self.out)

    def ack(self, command_id):
        self.send(self.ACK, struct.pack("<I", 1) + self.text(command_id))

    def await_result(self, command_id):
        """Everything about the command has been given to the journal by then."""
        self.sock.setblocking(True)
        self.sock.settimeout(harness.DEADLINE)
        while True:
            data = self.sock.recv(1 << 16)
            assert data, "the warden has closed its link"
            if struct.unpack_from("<H", data, 6)[0] == self.RESULT and command_id.encode() in data:
                return


def fill_ring(new_server, mode, most):
    """Commands run while nobody takes their events, until one of them waits or there were enough. The session's
    server, the session, how many ran."""
    # natively: operations on files would be events, too
    s = new_server(config={"events": {"full_ring": mode, "ring_bytes": 262144}, **harness.NATIVE})
    session = s.session()
    session.exec("true")
    os.kill(s.api_pid(), signal.SIGSTOP)
    link = LinkOf(s.api_pid())
    done = session.workspace / "done"
    done.touch()
    done.chmod(0o666)

    def ran(n, seconds):
        with contextlib.suppress(AssertionError):
            return harness.wait_for(lambda: done.stat().st_size == n, "it ran", seconds)
        return False

    for n in range(most):
        link.exec(f"flood-{n}", "sh", "-c", "printf x >> /workspace/done", "a long line " * 80)
        if not ran(n + 1, 2):
            break
        if mode == "drop":
            link.await_result(f"flood-{n}")
        link.ack(f"flood-{n}")
    return s, session, done.stat().st_size


def next_api(server):
    """The API process does not know what ran meanwhile; the next one takes it all from the warden."""
    before = server.api_pid()
    os.kill(before, signal.SIGKILL)
    harness.wait_for(lambda: server.api_pid() not in (None, before), "the next API process")
    harness.wait_for(lambda: server.get("/ready").status == 200, "it has found the session")


def flood_events(session):
    return [e for e in session.history(limit=10000) if e.get("command_id", "").startswith("flood-")]


def dropped_metric(server):
    text = server.get("/metrics").body.decode()
    return next(
        int(line.split()[1]) for line in text.splitlines() if line.startswith("agentsh_events_dropped_total ")
    )


def test_cfg_1_events_full_ring(new_server):
    """wait: a command is held while its events have no room, and nothing is lost."""
    s, session, ran = fill_ring(new_server, "wait", 400)
    assert 20 < ran < 400
    next_api(s)
    done = session.workspace / "done"
    harness.wait_for(lambda: done.stat().st_size == ran + 1, "the one that was held runs")
    assert session.out("echo goes on") == "goes on\n"
    harness.wait_for(lambda: len(flood_events(session)) == 3 * (ran + 1), "all are stored")
    history = session.history(limit=10000)
    for kind in ("command_started", "exec", "command_finished"):
        ids = [e["command_id"] for e in history if e["type"] == kind and e.get("command_id", "").startswith("flood-")]
        assert sorted(ids) == sorted(f"flood-{n}" for n in range(ran + 1))
    assert not [e for e in history if e["type"] == "events_dropped"]


def test_cfg_1_events_full_ring_drop(new_server):
    """drop: commands run on, and what has no room is counted."""
    s, session, ran = fill_ring(new_server, "drop", 250)
    assert ran == 250
    next_api(s)
    assert dropped_metric(s) > 0  # before any event tells of it
    assert session.out("echo goes on") == "goes on\n"  # the count stands before the next event that has room
    harness.wait_for(lambda: session.history(type="events_dropped"), "the count is stored")
    kept, dropped = flood_events(session), [e["count"] for e in session.history(type="events_dropped")]
    assert 40 < len(kept) < 750 and len(dropped) == 1
    assert len(kept) + dropped[0] == 750
    assert dropped_metric(s) == dropped[0]


@pytest.mark.parametrize("end", ["destroyed", "killed"])
def test_evt_2_what_was_dropped_is_told_when_the_session_ends(new_server, end):
    s, session, ran = fill_ring(new_server, "drop", 250)
    if end == "killed":
        for pid in s.warden_pids():
            os.kill(pid, signal.SIGKILL)
    next_api(s)
    if end == "destroyed":
        session.destroy()
    harness.wait_for(lambda: session.history(type="events_dropped"), "the count is stored")
    kept, dropped = flood_events(session), [e["count"] for e in session.history(type="events_dropped")]
    assert len(dropped) == 1 and len(kept) + dropped[0] == 3 * ran
    assert dropped_metric(s) == dropped[0]


def test_cfg_1_events_ring_bytes(new_server):
    s = new_server(config={"events": {"ring_bytes": 524288}})
    session = s.session()
    ring = next(s.runtime.glob(f"sessions/{session.id}*ring*"))
    assert 524288 <= ring.stat().st_size < 2 * 524288


def test_cfg_1_events_db(new_server):
    s = new_server(start=False)
    s.merge(s.config, {"events": {"db": str(s.state / "other.db")}})
    s.start()
    assert (s.state / "other.db").exists() and not (s.state / "agentsh.db").exists()


def test_cfg_1_events_jsonl_path(new_server):
    s = new_server(start=False)
    s.merge(s.config, {"events": {"jsonl": {"path": str(s.state / "lines")}}})
    s.start()
    s.session()
    assert (s.state / "lines").read_text()
    off = new_server(config={"events": {"jsonl": {"path": "none"}}})
    off.session()
    assert not (off.state / "events.jsonl").exists()


def jsonl_files(new_server, **jsonl):
    s = new_server(config={"events": {"jsonl": jsonl}})
    session = s.session()
    for _ in range(6):
        session.exec("sleep", "0.2")
    return list(s.state.glob("events.jsonl*"))


def test_cfg_1_events_jsonl_max_bytes(new_server):
    files = jsonl_files(new_server, max_bytes=4096, keep=100)
    assert len(files) > 1 and all(f.stat().st_size <= 4096 + 1024 for f in files)


def test_cfg_1_events_jsonl_max_age(new_server):
    assert len(jsonl_files(new_server, max_age="300ms", keep=100)) > 2


def test_cfg_1_events_jsonl_keep(new_server):
    assert len(jsonl_files(new_server, max_bytes=4096, keep=1)) == 2


def test_cfg_1_output_command_quota(new_server):
    s = new_server(config={"output": {"command_quota": 100000}})
    session = s.session()
    r = session.exec(script="head -c 300000 /dev/zero")
    assert r["result"]["stdout_total_bytes"] == 300000
    page = session.output(r["command_id"], offset=99999, limit=100)
    assert page["next_offset"] == 100000 and page["has_more"] is False


def test_cfg_1_output_quota(new_server):
    s = new_server(
        config={"output": {"quota": 1000000, "command_quota": 1000000}, "sessions": {"cleanup_interval": "200ms"}}
    )
    session = s.session()
    ids = [session.exec(script="head -c 600000 /dev/zero")["command_id"] for _ in range(3)]
    harness.wait_for(lambda: s.get(f"{session.path}/output/{ids[0]}").status != 200, "the oldest output is gone")
    assert s.get(f"{session.path}/output/{ids[2]}").status == 200


def believe_the_clock(server):
    """As if the API process had seen the wall clock agree with CLOCK_BOOTTIME for two hours."""
    server.stop()
    boot_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    text = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {time.time_ns() // 1000 - boot_us} {boot_us - 7200_000_000}"
    with contextlib.closing(sqlite3.connect(server.state / "agentsh.db")) as db, db:
        db.execute("INSERT OR REPLACE INTO meta(key, value) VALUES('wall_clock', ?)", [text])
    return server.start()


def test_cfg_1_output_max_age(new_server):
    s = new_server(config={"output": {"max_age": "1s"}, "sessions": {"cleanup_interval": "200ms"}})
    believe_the_clock(s)
    session = s.session()
    cid = session.exec("echo", "old")["command_id"]
    assert session.output(cid)["data"] == "old\n"
    harness.wait_for(lambda: s.get(f"{session.path}/output/{cid}").status == 404, "the old output is gone")


def test_cfg_1_commands_idempotency_age(new_server):
    s = new_server(config={"commands": {"idempotency_age": "1s"}, "sessions": {"cleanup_interval": "200ms"}})
    believe_the_clock(s)
    session = s.session()
    body = {"script": "echo x >> runs"}
    first = s.post(f"{session.path}/exec", body, headers={"Idempotency-Key": "k"}).json["command_id"]

    def again():
        return s.post(f"{session.path}/exec", body, headers={"Idempotency-Key": "k"}).json["command_id"] != first

    assert not again()
    harness.wait_for(again, "the key is forgotten")


def test_cfg_1_metrics_enabled(new_server):
    assert new_server().get("/metrics").status == 200
    assert new_server(config={"metrics": {"enabled": False}}).get("/metrics").status == 404


def test_cfg_1_metrics_path(new_server):
    s = new_server(config={"metrics": {"path": "/numbers"}})
    assert s.get("/numbers").status == 200 and s.get("/metrics").status == 404
