# SPDX-License-Identifier: Apache-2.0
"""Sessions as clients see them: create, list, get, patch, destroy, limits, states."""

import os
import re
import signal

import harness
import pytest

RECORD = {
    "id", "state", "created", "last_activity", "agent_id", "owner_uid", "workspace", "policy", "working_dir",
    "environment", "config", "command_count", "total_file_ops", "total_net_ops", "total_bytes_read",
    "total_bytes_written", "queue", "failure", "enforcement", "endpoints",
}  # fmt: skip
WALLS = {
    "user_namespace", "mount_namespace", "pid_namespace", "net_namespace", "ipc_namespace", "uts_namespace",
    "cgroup_namespace", "capabilities", "no_new_privs", "seccomp", "landlock", "exec_policy", "file_rules",
    "network_rules", "memory_limit", "cpu_limit", "pids_limit", "io_limit", "disk_limit", "network_limit", "env_filter",
}  # fmt: skip
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")


def test_ses_1_create_get_list_destroy(server):
    ws = server.workspace()
    a = server.post("/api/v1/sessions", {"id": "session-abc123", "workspace": str(ws)})
    assert a.status == 201
    r = a.json
    assert r["id"] == "session-abc123" and r["state"] == "ready" and r["workspace"] == str(ws)
    assert r["endpoints"]["exec"] == "/api/v1/sessions/session-abc123/exec"
    assert r["endpoints"]["events"] == "/api/v1/sessions/session-abc123/events"
    assert server.get("/api/v1/sessions/session-abc123").json == r
    assert "session-abc123" in [s["id"] for s in server.get("/api/v1/sessions").json["sessions"]]
    d = server.call("DELETE", "/api/v1/sessions/session-abc123")
    assert d.status == 200 and d.json["state"] == "stopped"
    again = server.call("DELETE", "/api/v1/sessions/session-abc123")
    assert again.status == 200 and again.json["state"] == "stopped"


def test_ses_1_generated_ids_are_valid_and_different(server):
    a, b = server.session(), server.session()
    assert a.id != b.id
    for s in (a, b):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", s.id)
        s.destroy()


def test_ses_1_unknown_id(server):
    for method, path in [
        ("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/exec"), ("GET", "/commands"), ("GET", "/history"),
    ]:  # fmt: skip
        body = None if method in ("GET", "DELETE") else {"command": "true"}
        a = server.call(method, f"/api/v1/sessions/session-x{path}", body=body)
        assert (a.status, a.code) == (404, "E_SESSION_NOT_FOUND"), (method, path)
        assert a.json["error"]["subject"] == "session-x"
        assert a.json["error"]["request_id"]


def test_ses_1_taken_id_is_a_conflict(server):
    s = server.session(id="taken")
    a = server.post("/api/v1/sessions", {"id": "taken", "workspace": str(s.workspace)})
    assert (a.status, a.code) == (409, "E_CONFLICT")
    r = server.cli("session", "create", "--id", "taken", "--workspace", s.workspace)
    assert len(r.stderr.splitlines()) == 1 and b"the id is taken" in r.stderr  # not once more as a detail
    s.destroy()


def test_ses_1_a_conflict_says_the_same_for_every_cause_and_proposes_a_free_id(server):
    """Another one's, one's own, one that has ended, and one of which only files are left."""
    longest = "x" * 64
    mine, ended, long = (server.session(id=name) for name in ("my-id", "ended-id", longest))
    ended.destroy()
    (server.runtime / "sessions/left-id.ring").write_text("")
    said = set()
    for uid in (0, 2002) if server.uid == 0 else (server.uid,):  # a normal user's server answers no other user
        for name in ("my-id", "ended-id", "left-id", longest):
            connection = connect_as(server, uid)
            ws = server.workspace()
            os.chown(ws, uid, -1)
            wanted = {"id": name, "workspace": str(ws)}
            a = server.post("/api/v1/sessions", wanted, connection=connection)
            assert (a.status, a.code) == (409, "E_CONFLICT"), a.body
            error = a.json["error"]
            free = re.fullmatch(r"the id is taken; '([^']*)' is free", error["message"])[1]
            assert free.startswith(name[:40]) and error["subject"] == name
            assert error["details"] == [{"field": "id", "problem": error["message"]}]
            said.add(error["message"].replace(free, "F"))
            assert server.post("/api/v1/sessions", {**wanted, "id": free}, connection=connection).status == 201
    assert said == {"the id is taken; 'F' is free"}
    (server.runtime / "sessions/left-id.ring").unlink()
    for s in (mine, long):
        s.destroy()


def connect_as(server, uid):
    c = server.connect()
    os.seteuid(uid)  # the kernel notes who connects
    try:
        c.connect()
    finally:
        os.seteuid(0)
    return c


def test_cli_1_tables_show_control_characters(server):
    """A directory that was named to steer the terminal of who lists sessions."""
    ws = server.workspace() / "a\x1b]0;title\x07\x9bb"
    ws.mkdir()
    os.chown(ws, server.uid, server.uid)
    s = server.session(workspace=str(ws))
    s.script("mkdir $'d\\e[31m'; cd $'d\\e[31m'")
    for command in (("session", "list"), ("session", "info", s.id)):
        out = server.cli(*command).stdout
        assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", out), out
    assert b"a\\x1b]0;title\\x07\\x9bb" in server.cli("session", "list").stdout
    assert b"d\\x1b[31m" in server.cli("session", "info", s.id).stdout
    odd = "no\x1b[2Jsuch"
    for command in (
        ("exec", s.id, "--output", "shell", "--", odd),
        ("exec", odd, "--output", "shell", "--", "true"),
        ("policy", "show", odd),
    ):
        said = server.cli(*command).stderr
        assert b"no\\x1b[2Jsuch" in said and b"\x1b" not in said, said
    s.destroy()


def test_ses_1_list_pages(server):
    made = [server.session() for _ in range(3)]
    seen, cursor = [], ""
    while True:
        page = server.get(f"/api/v1/sessions?limit=1{'&cursor=' + cursor if cursor else ''}").json
        seen += [s["id"] for s in page["sessions"]]
        assert len(page["sessions"]) <= 1
        cursor = page["next"]
        if not cursor:
            break
    assert {s.id for s in made} <= set(seen) and len(seen) == len(set(seen))
    for s in made:
        s.destroy()


def test_ses_1_patch_environment_and_cwd(server, session):
    a = server.call("PATCH", session.path, {"environment": {"COLOUR": "blue"}, "cwd": "/tmp"})
    assert a.status == 200, a.body
    assert a.json["working_dir"] == "/tmp" and a.json["environment"]["COLOUR"] == "blue"
    assert session.out('echo "$COLOUR $PWD"') == "blue /tmp\n"
    (updated,) = session.history(type="session_updated")
    assert updated["reason"] == "working_dir, environment.COLOUR"
    bad = server.call("PATCH", session.path, {"cwd": "/no/such/place"})
    assert bad.status == 400, bad.body
    assert session.get()["working_dir"] == "/tmp"


def test_ses_1_patch_removes_a_variable(server, session):
    session.script("export KEPT=1 GONE=2")
    a = server.call("PATCH", session.path, {"environment": {"GONE": None, "NEVER_THERE": None, "NEW": "3"}})
    assert a.status == 200, a.body
    assert "GONE" not in a.json["environment"] and a.json["environment"]["KEPT"] == "1"
    assert session.out('echo "${GONE-unset} $KEPT $NEW"') == "unset 1 3\n"
    assert server.call("PATCH", session.path, {"environment": {"KEPT": 1}}).status == 400


def test_ses_1_patch_only_narrows(server):
    s = server.session(timeout="1h", idle_timeout="10m")
    assert server.call("PATCH", s.path, {"idle_timeout": "5m"}).status == 200
    assert s.get()["config"]["idle_timeout"] == "5m"
    a = server.call("PATCH", s.path, {"timeout": "2h"})
    assert a.status == 200 and a.json["capped"] == ["timeout"], a.body
    assert s.get()["config"]["timeout"] == "1h"
    a = server.call("PATCH", s.path, {"workspace": "/"})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST")
    s.destroy()


def test_ses_2_every_state_change_is_an_event(server):
    s = server.session()
    s.exec("true")
    s.destroy()
    changes = [(e["state"]["from"], e["state"]["to"]) for e in s.history(type="session_state")]
    assert changes == [
        ("creating", "ready"), ("ready", "busy"), ("busy", "ready"), ("ready", "stopping"), ("stopping", "stopped"),
    ]  # fmt: skip
    types = [e["type"] for e in s.history()]
    assert types[0] == "session_created" and types[-1] == "session_destroyed"


def test_ses_2_busy_and_stopped(server):
    s = server.session()
    d = s.exec(script="read x < /tmp/gate || sleep 60", detach=True, status=202)
    harness.wait_for(lambda: s.get()["state"] == "busy", "busy")
    a = server.post(f"{s.path}/exec", {"command": "true", "queue": False})
    assert (a.status, a.code) == (409, "E_SESSION_BUSY")
    assert s.get()["queue"]["running"] == d["command_id"]
    s.destroy()
    a = server.post(f"{s.path}/exec", {"command": "true"})
    assert (a.status, a.code) == (410, "E_SESSION_STOPPED")
    assert s.get("/commands/" + d["command_id"])["state"] == "killed"


def test_ses_2_commands_queue_in_order(server, session):
    first = session.exec(script="sleep 0.3; echo 1 >> order", detach=True, status=202)
    second = session.exec(script="echo 2 >> order", detach=True, status=202)
    assert session.exec(script="echo 3 >> order; cat order")["result"]["stdout"] == "1\n2\n3\n"
    for c in (first, second):
        assert session.get("/commands/" + c["command_id"])["state"] == "finished"


@pytest.mark.parametrize(
    "wanted, field",
    [
        ({"workspace": None}, "workspace"),
        ({"workspace": "relative/dir"}, "workspace"),
        ({"id": "../x"}, "id"),
        ({"id": "x" * 65}, "id"),
        ({"timeout": "abc"}, "timeout"),
        ({"timeout": 5}, "timeout"),
        ({"idle_timeout": "-1s"}, "idle_timeout"),
        ({"background": "maybe"}, "background"),
        ({"resource_limits": {"max_memory_mb": -1}}, "resource_limits.max_memory_mb"),
        ({"resource_limits": {"max_memory_mb": "1"}}, "resource_limits.max_memory_mb"),
        ({"resource_limits": {"nonsense": 1}}, "resource_limits.nonsense"),
        ({"resource_limits": {"command_timeout": "0s"}}, "resource_limits.command_timeout"),
        ({"network": {"allowed_ports": [0]}}, "network.allowed_ports"),
        ({"network": {"allowed_ports": [65536]}}, "network.allowed_ports"),
        ({"network": {"allowed_domains": ["bad domain"]}}, "network.allowed_domains"),
        ({"environment": {"1BAD": "x"}}, "environment"),
        ({"environment": {"OK": 5}}, "environment"),
        ({"limits": {"max_commands": -1}}, "limits.max_commands"),
        ({"unknown_key": 1}, "unknown_key"),
    ],
)
def test_ses_3_bad_values_are_named(server, wanted, field):
    body = {"workspace": str(server.workspace()), **wanted}
    a = server.post("/api/v1/sessions", body)
    assert (a.status, a.code) == (400, "E_BAD_REQUEST"), a.body
    fields = [d["field"] for d in a.json["error"]["details"]]
    assert any(f == field or f.startswith(field) for f in fields), fields


def test_ses_3_several_bad_values_are_all_named(server):
    shapes = {"workspace": "/x", "timeout": "abc", "idle_timeout": 5, "resource_limits": {"pids_max": 0}}
    a = server.post("/api/v1/sessions", shapes)
    assert {d["field"] for d in a.json["error"]["details"]} == {"timeout", "idle_timeout", "resource_limits.pids_max"}
    a = server.post("/api/v1/sessions", {"id": "a b", "workspace": "x", "background": "no"})
    assert {d["field"] for d in a.json["error"]["details"]} == {"id", "workspace", "background"}


def test_ses_3_a_policy_must_exist(server):
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace()), "policy": "none-such"})
    assert a.status == 400 and "observe" in a.body.decode()
    assert server.session(policy="strict").record["policy"]["name"] == "strict"


def test_ses_3_without_a_file_server_a_policy_must_be_enforceable(new_server):
    s = new_server(config=harness.NATIVE)
    for policy in ("default", "strict"):
        a = s.post("/api/v1/sessions", {"workspace": str(s.workspace()), "policy": policy})
        assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules")
    assert s.session().record["policy"]["name"] == "observe"


UNHELD = [
    ({"network": {"allowed_domains": ["github.com"]}}, "network_rules"),
    ({"network": {"blocked_domains": ["github.com"]}}, "network_rules"),
    ({"network": {"allowed_ports": [443]}}, "network_rules"),
    ({"limits": {"max_net_ops": 1}}, "network_rules"),
]


@pytest.mark.parametrize(
    ("wanted", "wall"), UNHELD, ids=[f"{k}.{n}" for w, _ in UNHELD for k, v in w.items() for n in v]
)
def test_ses_3_what_nothing_can_hold_is_refused(server, wanted, wall):
    body = {"id": "unheld", "workspace": str(server.workspace()), "policy": "observe", **wanted}
    a = server.post("/api/v1/sessions", body)
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", wall), a.body
    assert "leave" in a.json["error"]["message"]
    assert server.get("/api/v1/sessions/unheld").status == 404
    if "limits" in wanted:
        s = server.session()
        a = server.call("PATCH", s.path, {**wanted, "timeout": "1m"})
        assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", wall), a.body
        assert s.get()["config"]["timeout"] != "1m"
        s.destroy()


def test_ses_3_what_asks_for_nothing_is_given(server):
    none = {"allowed_domains": [], "blocked_domains": [], "allowed_ports": []}
    s = server.session(network=none, limits={"max_file_ops": 0, "max_net_ops": 0, "max_commands": 7})
    walls = {w["wall"]: w["state"] for w in s.record["enforcement"]}
    assert walls["network_rules"] == walls["cpu_limit"] == "absent"
    assert s.record["config"]["limits"] == {"max_commands": 7, "max_file_ops": 0, "max_net_ops": 0}
    assert server.call("PATCH", s.path, {"limits": {"max_file_ops": 0, "max_commands": 6}}).status == 200
    s.destroy()


def test_ses_4_record_has_every_field(server, session):
    r = session.get()
    assert set(r) >= RECORD
    assert TIME.match(r["created"]) and TIME.match(r["last_activity"])
    assert r["policy"]["name"] == "default" and r["policy"]["version"].startswith("sha256:")
    assert isinstance(r["policy"]["summary"], list)
    assert {w["wall"] for w in r["enforcement"]} >= WALLS
    assert all(w["state"] in ("up", "partial", "absent", "unavailable") and w["detail"] for w in r["enforcement"])
    assert r["working_dir"] == "/workspace" and r["command_count"] == 0
    session.exec("true")
    assert session.get()["command_count"] == 1
    assert session.get()["last_activity"] > r["last_activity"]


def test_ses_4_what_is_not_intercepted_is_not_counted(server, session):
    """Nothing intercepts the network yet, nor files in native mode: totals are 0 whatever a command did, not guessed."""
    session.out("echo x >f; cat f; (exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null; true")
    r = session.get()
    assert r["total_net_ops"] == 0 and r["command_count"] == 1
    files = [r[name] for name in ("total_file_ops", "total_bytes_read", "total_bytes_written")]
    assert files[0] > 2 and files[1:] == [2, 2]
    shown = dict(
        line.split(":", 1) for line in server.cli("session", "info", session.id).stdout.decode().splitlines()
    )
    assert [shown[name].strip() for name in ("Commands", "File Ops", "Net Ops")] == ["1", str(files[0]), "0"]


def test_ses_4_natively_files_are_not_counted(new_server):
    s = new_server(config=harness.NATIVE).session()
    s.out("echo x >f; cat f")
    r = s.get()
    assert [r[name] for name in ("total_file_ops", "total_bytes_read", "total_bytes_written")] == [0, 0, 0]
    a = s.server.post("/api/v1/sessions", {"workspace": str(s.workspace), "limits": {"max_file_ops": 1}})
    assert (a.status, a.code, a.json["error"]["subject"]) == (503, "E_ENFORCEMENT", "file_rules"), a.body


def test_ses_5_server_caps(new_server):
    s = new_server(config={"sessions": {"max_sessions": 1, "default_timeout": "1h"}})
    one = s.session(timeout="9h")
    assert one.record["config"]["timeout"] == "1h"
    a = s.post("/api/v1/sessions", {"workspace": str(s.workspace())})
    assert (a.status, a.code) == (429, "E_RESOURCE_LIMIT")
    one.destroy()
    s.session().destroy()


def test_ses_5_idle_sessions_end(new_server):
    s = new_server(config={"sessions": {"cleanup_interval": "100ms"}})
    idle = s.session(idle_timeout="300ms")
    harness.wait_for(lambda: idle.get()["state"] == "stopped", "the idle session ends")
    events = idle.history(type="session_destroyed")
    assert "idle" in events[-1]["reason"]


def test_ses_5_max_duration_and_max_commands(new_server):
    s = new_server(config={"sessions": {"cleanup_interval": "100ms"}})
    old = s.session(timeout="500ms")
    old.exec(script="sleep 30", detach=True, status=202)
    harness.wait_for(lambda: old.get()["state"] == "stopped", "the old session ends")
    few = s.session(limits={"max_commands": 2})
    few.exec("true")
    few.exec("true")
    a = s.post(f"{few.path}/exec", {"command": "true"})
    assert a.status in (410, 429), a.body
    harness.wait_for(lambda: few.get()["state"] == "stopped", "the spent session ends")


def test_ses_6_background_processes_end_with_their_command(session):
    r = session.exec(script="sleep 1000 & echo started")
    assert r["result"]["stdout"] == "started\n"
    assert len(r["result"]["background"]) == 1
    entry = r["result"]["background"][0]
    assert entry["action"] == "ended" and "sleep" in entry["command"]
    assert "sleep" not in session.out("cat /proc/[0-9]*/comm")


def test_ses_6_background_keep(server):
    s = server.session(background="keep")
    r = s.exec(script="(trap '' HUP; exec sleep 1000) & echo started")
    assert r["result"]["background"][0]["action"] == "kept"
    assert "sleep" in s.out("cat /proc/[0-9]*/comm")
    pids = [p for w in server.warden_pids() for p in harness.descendants_of(w) if harness.program_of(p) == "sleep"]
    assert pids
    s.destroy()
    harness.wait_for(lambda: not any(map(harness.alive, pids)), "the kept process ends with the session")


def test_ses_7_per_agent_cap(new_server):
    s = new_server(config={"sessions": {"max_sessions_per_agent": 1}})
    one = s.session()
    assert s.post("/api/v1/sessions", {"workspace": str(s.workspace())}).code == "E_RESOURCE_LIMIT"
    assert one.record["agent_id"] == "uid-0"
    assert all(e["agent_id"] == "uid-0" for e in one.history())
    one.destroy()


def test_ses_7_agent_id_in_the_body_must_match(server):
    a = server.post("/api/v1/sessions", {"workspace": str(server.workspace()), "agent_id": "somebody-else"})
    assert a.status in (400, 403)


@pytest.mark.parametrize("program", ["agentsh-init", "agentsh-fs"])
def test_ses_2_a_session_of_which_a_process_has_just_died_has_ended(new_server, program):
    """Whatever is asked of it: its root or workspace is gone, and none of the reasons that this looks like is the right one."""
    server = new_server()
    wishes = [
        {"command": "true"},
        {"script": "echo x"},
        {"command": "true", "working_dir": "/workspace"},
        {"command": "cd", "args": ["/"], "working_dir": "/workspace"},
    ]
    for n in range(40):
        s = server.session()
        s.exec("true")
        warden = next(w for w in server.warden_pids() if harness.children_of(w))
        victim = next(p for p in harness.children_of(warden) if harness.program_of(p) == program)
        c = server.connect()
        c.connect()
        os.kill(victim, signal.SIGKILL)
        for _ in range(3):
            a = server.post(f"{s.path}/exec", wishes[n % len(wishes)], connection=c)
            if a.status == 200:  # it was begun before
                error = a.json["result"]["error"] or {"code": "E_UNAVAILABLE"}
                assert error["code"] in ("E_UNAVAILABLE", "E_COMMAND_KILLED"), a.body
            else:
                assert (a.status, a.code) == (410, "E_SESSION_STOPPED"), a.body
        server.call("DELETE", s.path)
        harness.wait_for(lambda w=warden: not harness.alive(w), "the warden's end")


def run_until_ready(session, script):
    """Starts a script that makes a file named ready."""
    session.exec(script=script, detach=True, status=202)
    harness.wait_for((session.workspace / "ready").exists, "it is ready")


def test_cfg_1_sessions_stop_grace(new_server):
    """TERM, a grace, KILL: also for what the first process leaves behind, and for all sessions at once."""
    s = new_server(config={"sessions": {"stop_grace": "3s"}})
    polite, parent, kept = s.session(), s.session(), s.session(background="keep")
    run_until_ready(polite, "trap 'echo saved > saved; exit' TERM; touch ready; while :; do sleep 0.05; done")
    late = """$SIG{TERM} = sub { select(undef, undef, undef, 0.3); open(F, ">saved"); exit }; """
    slow = f"perl -e '{late} open(F, \">ready\"); sleep 1000'"
    run_until_ready(parent, f"{slow}; true")
    run_until_ready(kept, f"({slow}) > /dev/null 2>&1 & while [ ! -e ready ]; do sleep 0.01; done")
    s.stop()
    assert all((x.workspace / "saved").exists() for x in (polite, parent, kept))


def test_ses_8_what_ignores_term_is_killed(new_server):
    s = new_server(config={"sessions": {"stop_grace": "200ms"}})
    stubborn = s.session()
    command = "trap '' TERM; touch ready; while :; do sleep 0.05; done"
    run_until_ready(stubborn, command)
    cid = stubborn.get()["queue"]["running"]
    s.stop()
    s.start()
    record = s.get(f"/api/v1/commands/{cid}").json
    assert (record["state"], record["signal"]) == ("killed", "KILL")
    assert "the session ended" in record["error"]["message"]
