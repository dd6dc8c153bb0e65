# SPDX-License-Identifier: Apache-2.0
"""Limits of a session: memory, CPU, processes, disk bandwidth, space; and the cgroups that hold them."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest
from harness import USER_UID, alive, children_of, program_of, wait_for

CGROUP = Path("/sys/fs/cgroup")


def has_controller(name):
    if (CGROUP / "cgroup.controllers").exists():
        return name in (CGROUP / "cgroup.controllers").read_text().split()
    return (CGROUP / {"io": "blkio"}.get(name, name) / "cgroup.procs").exists()


needs_cgroups = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(has_controller, ("memory", "cpu", "pids"))),
    reason="needs root and the cgroup controllers memory, cpu and pids",
)


def walls(session):
    return {w["wall"]: w for w in session.record["enforcement"]}


def tag_of(server):
    h = 0x811C9DC5
    for byte in str(server.runtime).encode():
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"session-{h:08x}-"


def groups_of(server):
    """The numbers of the server's groups in all trees."""
    found = set()
    for path, directories, _ in os.walk(CGROUP):
        if os.path.basename(path) == "agentsh":
            found |= {d for d in directories if d.startswith(tag_of(server))}
            directories[:] = []
    return found


def control_file(server, session, name):
    """Text of a file of the session's group, in whichever tree has it."""
    meta = dict(line.split("=") for line in (server.runtime / f"sessions/{session.id}.meta").read_text().split())
    for path, _, files in os.walk(CGROUP):
        if os.path.basename(path) == tag_of(server) + meta["group"] and name in files:
            return (Path(path) / name).read_text()
    return None


def hits(session, counter):
    return [e for e in session.history(type="resource_limit") if e["resource"]["counter"] == counter]


@needs_cgroups
def test_sbx_4_a_memory_bomb_is_ended_and_named(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    assert walls(s)["memory_limit"]["state"] in ("up", "partial"), walls(s)["memory_limit"]
    assert "160 MB" in walls(s)["memory_limit"]["detail"]
    a = s.exec("python3", "-c", "x = bytearray(600 << 20); print(len(x))", timeout="30s")
    r = a["result"]
    assert (r["exit_code"], r["signal"]) == (137, "KILL"), r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r["error"]
    (event,) = hits(s, "oom_kills")
    assert event["command_id"] == a["command_id"] and event["resource"] == {
        "limit": "memory_limit",
        "counter": "oom_kills",
        "value": 1,
    }
    # the session lives on, and the next command has no part in it
    r = s.exec("echo", "alive")["result"]
    assert r["stdout"] == "alive\n" and r["error"] is None
    s.destroy()


@needs_cgroups
def test_sbx_4_a_child_that_runs_out_of_memory_is_told_of(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    r = s.script("python3 -c 'x = bytearray(600 << 20)'; echo $?", timeout="30s")["result"]
    assert r["exit_code"] == 0 and r["stdout"].strip().endswith("137"), r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and r["signal"] is None
    s.destroy()


@needs_cgroups
def test_sbx_4_a_fork_bomb_is_bounded(root_server):
    s = root_server.session(resource_limits={"pids_max": 30})
    assert walls(s)["pids_limit"]["state"] == "up"
    bomb = (
        "import os, signal\n"
        "n = 0\n"
        "try:\n"
        "    while n < 200:\n"
        "        if os.fork() == 0:\n"
        "            signal.pause()\n"
        "            os._exit(0)\n"
        "        n += 1\n"
        "except BlockingIOError:\n"
        "    pass\n"
        "print(n)\n"
    )
    a = s.exec("python3", "-c", bomb, timeout="20s")
    r = a["result"]
    assert 5 < int(r["stdout"]) < 30, r
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "1 fork failed" in r["error"]["message"], r["error"]
    (event,) = hits(s, "failed_forks")
    assert event["resource"]["limit"] == "pids_limit" and event["command_id"] == a["command_id"]
    # what it left is gone
    assert s.out("echo again", timeout="20s") == "again\n"
    s.destroy()


@needs_cgroups
def test_sbx_4_a_shell_bomb_ends_with_its_time(root_server):
    s = root_server.session(resource_limits={"pids_max": 40, "max_cpu_percent": 50})
    r = s.script("b() { b | b & }; b; sleep 30", timeout="2s")["result"]
    assert r["error"]["code"] in ("E_COMMAND_TIMEOUT", "E_RESOURCE_LIMIT"), r["error"]
    assert hits(s, "failed_forks")
    assert s.out("echo alive", timeout="20s") == "alive\n"
    s.destroy()


@needs_cgroups
def test_sbx_4_a_cpu_quota_holds_and_is_told(root_server):
    s = root_server.session(resource_limits={"max_cpu_percent": 20})
    assert walls(s)["cpu_limit"]["state"] == "up" and "20 %" in walls(s)["cpu_limit"]["detail"]
    a = s.exec("timeout", "2", "sh", "-c", "while :; do :; done", timeout="30s")
    assert a["resources"]["cpu_time_ms"] < 1200, a["resources"]
    # the session's own start may have been throttled, too
    event = hits(s, "throttled_periods")[-1]
    assert (
        event["command_id"] == a["command_id"]
        and event["resource"]["limit"] == "cpu_limit"
        and event["resource"]["value"] >= 5
    )
    assert a["result"]["error"] is None  # slower is no failure
    s.destroy()


@needs_cgroups
def test_sbx_4_disk_bandwidth_is_named_for_what_it_is(root_server):
    a = root_server.post(
        "/api/v1/sessions",
        {
            "workspace": str(root_server.workspace()),
            "resource_limits": {"io_write_bps_max": 1 << 20, "io_read_bps_max": 1 << 20},
        },
    )
    if a.status == 503:  # the workspace lies on no disk of its own
        assert a.json["error"]["subject"] == "io_limit"
        return
    wall = next(w for w in a.json["enforcement"] if w["wall"] == "io_limit")
    if (CGROUP / "cgroup.controllers").exists():
        assert wall["state"] == "up", wall
    else:
        assert wall["state"] == "partial" and "direct I/O only" in wall["detail"]
    root_server.call("DELETE", f"/api/v1/sessions/{a.json['id']}")


def test_sbx_4_scratch_space_is_bounded(server):
    s = server.session(resource_limits={"max_disk_mb": 8})
    wall = walls(s)["disk_limit"]
    assert wall["state"] == "partial" and "8 MB" in wall["detail"] and "workspace" in wall["detail"]
    r = s.script("head -c 6000000 /dev/zero >/tmp/a && head -c 6000000 /dev/zero >~/b")["result"]
    assert r["exit_code"] != 0 and "No space left" in r["stderr"], r
    assert s.out("rm -f /tmp/a ~/b; head -c 6000000 /dev/zero >/tmp/a; wc -c </tmp/a").strip() == "6000000"
    s.destroy()


def test_sbx_4_no_traffic_leaves_a_session(server):
    s = server.session(resource_limits={"max_network_mb": 5})
    assert walls(s)["network_limit"]["state"] == "up" and "loopback" in walls(s)["network_limit"]["detail"]
    s.destroy()


@needs_cgroups
def test_sbx_4_a_wish_is_capped_by_the_servers_limits(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_memory_mb": 256, "pids_max": 50}}})
    s = server.session(resource_limits={"max_memory_mb": 4096, "pids_max": 40})
    limits = s.record["config"]["resource_limits"]
    assert (limits["max_memory_mb"], limits["pids_max"]) == (256, 40)
    assert "256 MB" in walls(s)["memory_limit"]["detail"] and "40 " in walls(s)["pids_limit"]["detail"]
    assert control_file(server, s, "pids.max") == "40\n"
    plain = server.session()
    assert "256 MB" in walls(plain)["memory_limit"]["detail"] and "50 " in walls(plain)["pids_limit"]["detail"]


def test_sbx_4_a_limit_that_cannot_be_had_is_refused_by_name(new_server):
    server = new_server(uid=USER_UID)
    body = {"workspace": str(server.workspace()), "resource_limits": {"max_memory_mb": 64}}
    a = server.post("/api/v1/sessions", body)
    if a.status == 201:
        pytest.skip("a cgroup is delegated to the user")
    assert a.status == 503 and a.code == "E_ENFORCEMENT", a.body
    assert a.json["error"]["subject"] == "memory_limit" and "allow_unenforced" in a.json["error"]["message"]
    # nothing is left of it
    assert server.get("/api/v1/sessions").json["sessions"] == []


def test_sbx_4_a_limit_may_be_missing_where_the_configuration_says_so(new_server):
    server = new_server(uid=USER_UID, config={"sandbox": {"allow_unenforced": ["memory_limit"]}})
    s = server.session(resource_limits={"max_memory_mb": 512})
    if walls(s)["memory_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    assert walls(s)["memory_limit"]["state"] == "unavailable"
    assert walls(s)["pids_limit"]["state"] == "absent"


def test_sbx_4_the_servers_own_limit_may_be_missing(new_server):
    server = new_server(uid=USER_UID, config={"sandbox": {"resource_limits": {"pids_max": 60}}})
    s = server.session()
    if walls(s)["pids_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    assert walls(s)["pids_limit"]["state"] == "unavailable" and walls(s)["pids_limit"]["detail"]


# --- the cgroups themselves ---


@needs_cgroups
def test_sbx_4_a_session_without_limits_has_no_group(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session()
    assert groups_of(server) == set()
    assert walls(s)["memory_limit"]["state"] == "absent"
    t = server.session(resource_limits={"pids_max": 50})
    assert len(groups_of(server)) == 1
    t.destroy()
    wait_for(lambda: not groups_of(server), "the group goes with its session")


@needs_cgroups
def test_sbx_4_nothing_is_left_when_the_server_ends(new_server):
    server = new_server()
    wait_for(lambda: len(groups_of(server)) == 2, "two sandboxes are prepared")
    server.session(resource_limits={"pids_max": 50})
    wait_for(lambda: len(groups_of(server)) == 3, "a new one is prepared")
    stubs = [p for p in children_of(server.pid) if program_of(p) == "agentsh-server"]
    server.stop()
    assert groups_of(server) == set()
    assert not any(map(alive, stubs))


@needs_cgroups
def test_sbx_4_a_killed_warden_leaves_no_group(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"pids_max": 50})
    s.exec("sleep", "60", detach=True, status=202)
    assert len(groups_of(server)) == 1
    for pid in server.warden_pids():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    wait_for(lambda: not groups_of(server), "its group is gone")


@needs_cgroups
def test_ses_8_a_new_launcher_takes_the_groups_over(new_server):
    server = new_server()
    wait_for(lambda: len(groups_of(server)) == 2, "two sandboxes are prepared")
    s = server.session(resource_limits={"pids_max": 50})
    wait_for(lambda: len(groups_of(server)) == 3, "a new one is prepared")
    stubs = [p for p in children_of(server.pid) if program_of(p) == "agentsh-server"]
    assert len(stubs) == 2
    server.process.kill()
    server.process.wait()
    wait_for(lambda: not any(map(alive, stubs)), "prepared sandboxes die with their launcher")
    server.start()
    assert s.out("echo same") == "same\n"
    assert control_file(server, s, "pids.max") == "50\n"
    wait_for(lambda: len(groups_of(server)) == 3, "old ones are swept, new ones are prepared")
    s.destroy()
    wait_for(lambda: len(groups_of(server)) == 2, "the session's group goes with it")
    server.stop()
    assert groups_of(server) == set()


@needs_cgroups
def test_sbx_4_sessions_without_end_use_the_pool_in_turn(new_server):
    server = new_server(config={"sandbox": {"pool_size": 3}})
    wait_for(lambda: len(groups_of(server)) == 3, "three sandboxes are prepared")
    sessions = [server.session(resource_limits={"pids_max": 30 + i}) for i in range(8)]
    for i, s in enumerate(sessions):
        assert control_file(server, s, "pids.max") == f"{30 + i}\n"
        assert s.out("echo $((6 * 7))") == "42\n"
    for s in sessions:
        s.destroy()
    wait_for(lambda: len(groups_of(server)) == 3, "only the pool is left")


# --- configuration ---


@needs_cgroups
def test_cfg_1_sandbox_pool_size(new_server):
    server = new_server(config={"sandbox": {"pool_size": 4}})
    wait_for(lambda: len(groups_of(server)) == 4, "four sandboxes are prepared")
    server.config["sandbox"]["pool_size"] = 1
    server.config_file.write_text(json.dumps(server.config))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: len(groups_of(server)) == 1, "one after a reload")


@needs_cgroups
def test_cfg_1_sandbox_cgroup_parent(new_server):
    name = f"agentsh-test-{os.getpid()}"
    server = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
    try:
        s = server.session(resource_limits={"pids_max": 50})
        found = [p for p, _, files in os.walk(CGROUP) if "pids.max" in files and f"/{name}/agentsh/session-" in p]
        assert len(found) == 1 and Path(found[0], "pids.max").read_text() == "50\n"
        s.destroy()
        server.stop()
    finally:
        for path, _, _ in list(os.walk(CGROUP, topdown=False)):
            if f"/{name}" in path:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_memory_swap_max_mb(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_memory_mb": 200, "memory_swap_max_mb": 7}}})
    detail = walls(server.session())["memory_limit"]["detail"]
    assert "swap 7 MB" in detail or "swap is not limited" in detail


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_cpu_period_us(new_server):
    server = new_server(config={"sandbox": {"resource_limits": {"max_cpu_percent": 50, "cpu_period_us": 20000}}})
    s = server.session()
    v1, v2 = (control_file(server, s, name) for name in ("cpu.cfs_period_us", "cpu.max"))
    assert v1 == "20000\n" or v2 == "10000 20000\n"


def io_is_limited(new_server, key):
    server = new_server(config={"sandbox": {"resource_limits": {key: 1 << 20}}})
    entry = walls(server.session())["io_limit"]
    assert entry["state"] in ("up", "partial") or "disk" in entry["detail"], entry
    assert walls(new_server().session())["io_limit"]["state"] == "absent"


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_io_read_bps_max(new_server):
    io_is_limited(new_server, "io_read_bps_max")


@needs_cgroups
def test_cfg_1_sandbox_resource_limits_io_write_bps_max(new_server):
    io_is_limited(new_server, "io_write_bps_max")
