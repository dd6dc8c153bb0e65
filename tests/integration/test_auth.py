# SPDX-License-Identifier: Apache-2.0
"""Who may do what: keys, peers, roles, workspaces."""

import hashlib
import http.client
import json
import os
import subprocess

import harness


def key(id, agent, role, uid, secret):
    return {
        "id": id,
        "agent_id": agent,
        "role": role,
        "uid": uid,
        "sha256": hashlib.sha256(secret.encode()).hexdigest(),
    }


KEYS = [
    key("k1", "agent-1", "agent", 1000, "secret-1"),
    key("k2", "agent-2", "agent", 1001, "secret-2"),
    key("k3", "person", "approver", 1002, "secret-3"),
    key("k4", "boss", "admin", 0, "secret-4"),
]


def server_with_keys(new_server, **more):
    harness.ensure_user()
    return new_server(keys=KEYS, **more)


def owned(server, uid):
    ws = server.workspace()
    os.chown(ws, uid, uid)
    return str(ws)


def test_api_3_agents_see_only_their_own(new_server):
    s = server_with_keys(new_server)
    one = s.session(key="secret-1", workspace=owned(s, 1000))
    assert one.record["agent_id"] == "agent-1" and one.record["owner_uid"] == 1000
    cid = one.exec("echo", "mine")["command_id"]
    for method, path in [
        ("GET", one.path),
        ("DELETE", one.path),
        ("PATCH", one.path),
        ("POST", f"{one.path}/exec"),
        ("POST", f"{one.path}/exec/stream"),
        ("GET", f"{one.path}/commands"),
        ("GET", f"{one.path}/commands/{cid}"),
        ("GET", f"{one.path}/output/{cid}"),
        ("GET", f"{one.path}/events"),
        ("GET", f"{one.path}/history"),
        ("POST", f"{one.path}/kill/{cid}"),
    ]:
        a = s.call(method, path, body={"command": "true"} if method in ("POST", "PATCH") else None, key="secret-2")
        assert (a.status, a.code) == (404, "E_SESSION_NOT_FOUND"), (method, path)
    a = s.get(f"/api/v1/commands/{cid}", key="secret-2")
    assert (a.status, a.code) == (404, "E_NOT_FOUND")
    assert s.get("/api/v1/sessions", key="secret-2").json["sessions"] == []
    assert [x["id"] for x in s.get("/api/v1/sessions", key="secret-4").json["sessions"]] == [one.id]
    assert s.get(one.path, key="secret-4").status == 200
    two = s.session(key="secret-2", workspace=owned(s, 1001))
    a = s.get(f"{two.path}/output/{cid}", key="secret-2")
    assert (a.status, a.code) == (404, "E_NOT_FOUND")
    # the same command id may be used by another agent
    assert two.exec("echo", "x", command_id=cid)["command_id"] == cid
    assert one.output(cid)["data"] == "mine\n"


def test_api_3_keys(new_server):
    s = server_with_keys(new_server)
    assert s.get("/api/v1/sessions", key="wrong").code == "E_UNAUTHENTICATED"
    assert s.get("/api/v1/sessions", key="x" * 4000).code == "E_UNAUTHENTICATED"
    assert s.get("/api/v1/sessions", headers={"Authorization": "Basic abc"}).code == "E_UNAUTHENTICATED"
    assert s.get("/api/v1/sessions", headers={"X-API-Key": "secret-1"}).status == 200
    a = s.get("/api/v1/sessions", headers={"X-API-Key": "secret-1"}, key="secret-2")
    assert a.code == "E_UNAUTHENTICATED"
    assert s.get("/api/v1/sessions", key="secret-3").code == "E_FORBIDDEN"
    assert s.get("/health", key="wrong").status == 200


def test_api_3_tcp_needs_a_key(new_server):
    s = server_with_keys(new_server, config={"server": {"http_addr": "127.0.0.1:0", "auth": {"type": "api_key"}}})
    port = int(s.ready_line.rsplit(":", 1)[1])
    for headers, status in (({}, 401), ({"Authorization": "Bearer secret-1"}, 200)):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        c.request("GET", "/api/v1/sessions", headers=headers)
        assert c.getresponse().status == status
        c.close()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    ws = owned(s, 1000)
    body = json.dumps({"workspace": ws})
    c.request("POST", "/api/v1/sessions", body, {"Authorization": "Bearer secret-1"})
    r = c.getresponse()
    record = json.loads(r.read())
    assert r.status == 201, record
    c.request("POST", f"/api/v1/sessions/{record['id']}/exec", json.dumps({"command": "touch", "args": ["made"]}),
              {"Authorization": "Bearer secret-1"})  # fmt: skip
    assert json.loads(c.getresponse().read())["result"]["exit_code"] == 0
    assert os.stat(f"{ws}/made").st_uid == 1000
    c.close()


def test_api_3_tcp_beyond_loopback_is_refused(new_server):
    s = server_with_keys(new_server, start=False, config={"server": {"http_addr": "0.0.0.0:8080"}})
    s.start(wait=False)
    assert s.process.wait(20) != 0
    assert "TLS" in s.log_text()


def call_as(server, uid, method, path, body=None):
    """A request on the unix socket by another user: (status, JSON)."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            a = server.call(method, path, body=body)
            os.write(write, json.dumps([a.status, a.json]).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def test_api_3_unix_peers(new_server):
    s = server_with_keys(new_server)
    ws = owned(s, 1000)
    status, record = call_as(s, 1000, "POST", "/api/v1/sessions", {"workspace": ws})
    assert status == 201 and record["agent_id"] == "uid-1000" and record["owner_uid"] == 1000
    status, answer = call_as(
        s, 1000, "POST", f"/api/v1/sessions/{record['id']}/exec", {"command": "touch", "args": ["made"]}
    )
    assert answer["result"]["exit_code"] == 0
    assert os.stat(f"{ws}/made").st_uid == 1000
    assert call_as(s, 1001, "GET", f"/api/v1/sessions/{record['id']}")[0] == 404
    assert s.get(f"/api/v1/sessions/{record['id']}").status == 200  # root is admin
    assert call_as(s, 1000, "GET", "/api/v1/events/search")[0] == 403


def test_sbx_6_a_workspace_must_be_the_callers(new_server):
    s = server_with_keys(new_server)
    for ws, uid in (
        (owned(s, 0), 1000),
        (owned(s, 1001), 1000),
        ("/etc", 1000),
        ("/root", 1000),
        ("/no/such", 1000),
    ):
        status, body = call_as(s, uid, "POST", "/api/v1/sessions", {"workspace": ws})
        assert status in (403, 404), (ws, status, body)
    link = s.workspace() / "link"
    os.chown(link.parent, 1000, 1000)
    link.symlink_to(owned(s, 0))
    assert call_as(s, 1000, "POST", "/api/v1/sessions", {"workspace": str(link)})[0] == 403
    for ws in ("/", "/proc", "/sys", "/dev"):
        assert s.post("/api/v1/sessions", {"workspace": ws}).status in (400, 403), ws


def test_sbx_6_a_listed_workspace_is_for_everyone(new_server):
    harness.ensure_user()
    s = new_server(start=False)
    shared = s.workspace()
    s.merge(s.config, {"sandbox": {"workspaces": [str(shared)]}})
    s.start()
    (shared / "sub").mkdir()
    assert call_as(s, 1000, "POST", "/api/v1/sessions", {"workspace": str(shared)})[0] == 201
    assert call_as(s, 1000, "POST", "/api/v1/sessions", {"workspace": str(shared / "sub")})[0] == 201
    assert call_as(s, 1000, "POST", "/api/v1/sessions", {"workspace": str(shared) + "-not"})[0] in (403, 404)


def test_cfg_1_a_configuration_others_can_write_is_refused(new_server):
    s = new_server(start=False)
    s.config_file.write_text(json.dumps(s.config))
    os.chmod(s.config_file, 0o666)
    r = subprocess.run(
        [harness.AGENTSH, "server", "--config", s.config_file], capture_output=True, text=True, timeout=20
    )
    assert r.returncode != 0 and "no other user may be able to write it" in r.stderr


def test_api_3_on_tcp_only_a_loopback_host_is_answered(new_server):
    """A page of another host cannot reach the server by a name of its own (DNS rebinding)."""
    s = server_with_keys(new_server, config={"server": {"http_addr": "127.0.0.1:0"}})
    port = int(s.ready_line.rsplit(":", 1)[1])

    def ask(host, path="/api/v1/sessions"):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        return s.get(path, connection=c, key="secret-1", headers={"Host": host})

    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:1"):
        assert ask(host).status == 200, host
    for path in ("/api/v1/sessions", "/health", "/no/such"):
        a = ask("rebound.example", path)
        assert (a.status, a.code) == (403, "E_FORBIDDEN"), path
    assert s.get("/api/v1/sessions", headers={"Host": "rebound.example"}).status == 200  # on the unix socket


def test_api_3_metrics_on_tcp_need_a_key(new_server):
    s = server_with_keys(new_server, config={"server": {"http_addr": "127.0.0.1:0"}})

    def ask(**more):
        c = http.client.HTTPConnection("127.0.0.1", int(s.ready_line.rsplit(":", 1)[1]), timeout=10)
        return s.get("/metrics", connection=c, **more)

    assert (ask().status, ask().code) == (401, "E_UNAUTHENTICATED")
    assert ask(key="wrong").status == 401
    a = ask(key="secret-1")
    assert a.status == 200 and b"agentsh_" in a.body
    assert s.get("/metrics").status == 200
