# SPDX-License-Identifier: Apache-2.0
"""Limits of a session: memory, CPU, processes, disk bandwidth, space; and the cgroups that hold them."""

import contextlib
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from cgroups import CGROUP, control_file, groups_of, hits, narrow, needs_cgroups, peak_can_be_reset, unlimited, walls
from harness import USER_UID, Gate, alive, wait_for


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
def test_sbx_4_scratch_files_cannot_take_all_memory(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160})
    assert "/tmp counts" in walls(s)["memory_limit"]["detail"], walls(s)["memory_limit"]
    assert walls(s)["disk_limit"]["detail"].startswith("80 MB for /tmp"), walls(s)["disk_limit"]
    for place in ("/tmp", "/dev/shm"):
        r = s.script(f"dd if=/dev/zero of={place}/x bs=1M count=200", timeout="30s")["result"]
        assert r["exit_code"] == 1 and "No space left" in r["stderr"], r
        assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "scratch space" in r["error"]["message"], r
        assert s.out(f"rm {place}/x; echo alive") == "alive\n"
    # with all of it in use, what needs too much is ended, and only that
    s.script("dd if=/dev/zero of=/tmp/x bs=1M count=200", timeout="30s")
    r = s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    assert s.out("echo alive") == "alive\n" and s.get()["state"] == "ready"
    s.destroy()


@needs_cgroups
def test_sbx_4_space_that_was_asked_for_stays_if_it_is_smaller(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 160, "max_disk_mb": 8})
    assert walls(s)["disk_limit"]["detail"].startswith("8 MB for /tmp"), walls(s)["disk_limit"]
    s.destroy()


def score_of(pid):
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def processes_with(argument):
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def above(pid):
    """Its parent and so on."""
    parents = []
    while pid > 1:
        pid = int(re.search(r"PPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())[1])
        parents.append(pid)
    return parents


def test_sbx_4_out_of_memory_a_command_goes_first(server):
    s = server.session()
    r = s.script("echo 0 >/proc/self/oom_score_adj")["result"]
    assert r["exit_code"] != 0, r
    s.exec("sh", "-c", f"python3 -c 'import time; time.sleep(60)' of-{s.id}; true", detach=True, status=202)
    (command,) = wait_for(lambda: processes_with(f"of-{s.id}"), "the command runs")
    shell, leader, init, warden = above(command)[:4]
    assert [score_of(pid) for pid in (command, shell, leader)] == [1000] * 3
    own = score_of(server.process.pid)
    assert warden in server.warden_pids() and score_of(init) == score_of(warden) == own < 1000
    s.destroy()


@needs_cgroups
def test_sbx_4_a_warden_that_runs_out_of_memory_is_named(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"max_memory_mb": 160})
    s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")
    # Two processes, each of at most half the limit: the libraries that a process maps count for its score too, so a
    # process that has all of the limit would be above the warden's 1000.
    eater = (
        "import fcntl, os, signal\n"
        "fcntl.flock(open('gate'), fcntl.LOCK_EX)\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    x = bytearray(80 << 20)\n"
        "    os.write(w, b'x')\n"
        "    signal.pause()\n"
        "os.read(r, 1)\n"
        "x = bytearray(600 << 20)"
    )
    gate = Gate(s)
    a = s.exec("python3", "-c", eater, f"of-{s.id}", detach=True, status=202)
    (pid,) = wait_for(lambda: processes_with(f"of-{s.id}"), "the command runs")
    # the other way round than it is: the warden goes first
    (warden,) = server.warden_pids()
    for one, score in ((pid, "0"), (above(pid)[0], "0"), (warden, "1000")):
        Path(f"/proc/{one}/oom_score_adj").write_text(score)
    gate.open()
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    assert s.get()["failure"] == "out of memory (memory_limit): the kernel killed the session's warden", s.get()
    first, last = hits(s, "oom_kills")
    assert first["resource"]["value"] == 1 and last["command_id"] == a["command_id"]
    assert last["resource"]["value"] > 1 and last["resource"]["limit"] == "memory_limit", last


@needs_cgroups
def test_sbx_4_a_warden_that_is_killed_otherwise_is_not_out_of_memory(new_server):
    server = new_server(config={"sandbox": {"pool_size": 0}})
    s = server.session(resource_limits={"max_memory_mb": 160})
    s.exec("python3", "-c", "x = bytearray(600 << 20)", timeout="30s")
    os.kill(server.warden_pids()[0], signal.SIGKILL)
    wait_for(lambda: s.get()["state"] == "failed", "the session has failed")
    assert s.get()["failure"] == "the warden was killed by signal KILL (9)", s.get()
    assert len(hits(s, "oom_kills")) == 1


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
    # little enough to be used up in most periods of 100 ms also on a busy machine
    s = root_server.session(resource_limits={"max_cpu_percent": 10})
    assert walls(s)["cpu_limit"]["state"] == "up" and "10 %" in walls(s)["cpu_limit"]["detail"]
    a = s.exec("timeout", "3", "sh", "-c", "while :; do :; done", timeout="30s")
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


def test_sbx_4_full_scratch_space_is_told(server):
    s = server.session(resource_limits={"max_disk_mb": 8})

    def told(r):
        return [e for e in s.history(type="resource_limit") if e["command_id"] == r["command_id"]]

    r = s.script("head -c 6000000 /dev/zero >/tmp/a")
    assert r["result"]["exit_code"] == 0 and r["result"]["error"] is None and not told(r)
    r = s.script("cat /dev/zero >~/b")
    error = r["result"]["error"]
    assert r["result"]["exit_code"] == 1 and error["code"] == "E_RESOURCE_LIMIT", r
    assert "scratch space" in error["message"] and "8 MB" in error["message"]
    (event,) = told(r)
    assert event["resource"]["limit"] == "disk_limit" and "less than 1 %" in event["reason"], event
    r = s.script("true")  # full still, and no reason to fail
    assert r["result"]["error"] is None and len(told(r)) == 1
    r = s.script("rm ~/b; exit 3")
    assert r["result"]["exit_code"] == 3 and r["result"]["error"] is None and not told(r)
    s.destroy()


def test_sbx_4_scratch_space_that_is_full_for_a_while_is_told(server):
    s = server.session(resource_limits={"max_disk_mb": 8})
    r = s.exec(
        script="cat /dev/zero >/tmp/a; while [ ! -e seen ]; do sleep 0.1; done; rm /tmp/a; exit 4",
        command_id=f"a-while-{s.id}",
        detach=True,
        status=202,
    )
    wait_for(lambda: s.history(type="resource_limit"), "the event comes while it runs")
    (s.workspace / "seen").touch()
    wait_for(lambda: s.get(f"/commands/{r['command_id']}")["state"] == "finished", "it ends")
    error = s.get(f"/commands/{r['command_id']}")["error"]
    assert error["code"] == "E_RESOURCE_LIMIT" and len(s.history(type="resource_limit")) == 1
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
    server = unlimited(new_server, {"sandbox": {"allow_unenforced": ["memory_limit"]}}, USER_UID)
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


# --- what a command used ---

BURN = """
import os, signal, time
def burn(seconds):
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass
    os._exit(0)
"""


def test_exe_1_a_daemon_is_counted_to_its_command(server):
    s = server.session()
    # the daemon goes on when it has used what must be counted
    twice = BURN + (
        "r, w = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        while time.process_time() < 0.2:\n            pass\n        os.write(w, b'x')\n        burn(20)\n"
        "    os._exit(0)\nos.wait()\nos.read(r, 1)"
    )
    a = s.exec("python3", "-c", twice, timeout="30s")
    assert a["result"]["background"], a["result"]
    assert a["resources"]["cpu_time_ms"] > 100, a["resources"]
    s.destroy()


@needs_cgroups
def test_exe_1_nobody_needs_to_wait_for_a_process_to_be_counted(root_server):
    s = root_server.session(resource_limits={"pids_max": 100})
    alone = (
        BURN
        + "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.fork() or burn(0.3)\ntry:\n    os.wait()\nexcept OSError:\n    pass"
    )
    a = s.exec("python3", "-c", alone, timeout="30s")
    assert 280 < a["resources"]["cpu_time_ms"] < 2000, a["resources"]
    # the next one has only its own
    assert s.exec("sleep", "0.1")["resources"]["cpu_time_ms"] < 150
    s.destroy()


@needs_cgroups
def test_exe_1_memory_of_several_processes_is_added(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600})
    four = (
        "import os, time\n"
        "for i in range(4):\n"
        "    if os.fork() == 0:\n"
        "        x = bytearray(50 << 20)\n"
        "        time.sleep(1)\n"
        "        os._exit(0)\n"
        "for i in range(4):\n"
        "    os.wait()\n"
    )
    a = s.exec("python3", "-c", four, timeout="30s")
    low = 190 if peak_can_be_reset() else 50  # else it is that of the largest process
    assert low < a["resources"]["memory_peak_mb"] < 400, a["resources"]
    # pages of files that stay in the cache are nobody's
    a = s.script("head -c 100000000 /dev/zero >big; sleep 0.05", timeout="30s")
    assert a["resources"]["memory_peak_mb"] < 60, a["resources"]
    assert s.exec("sleep", "0.1")["resources"]["memory_peak_mb"] < 30
    s.destroy()


# --- the cgroups themselves ---


def remove_groups(name):
    """A parent of a test's own, with what is below it."""
    for path, _, _ in list(os.walk(CGROUP, topdown=False)):
        if f"/{name}" in path:
            with contextlib.suppress(OSError):
                os.rmdir(path)


@needs_cgroups
def test_sbx_4_a_session_without_limits_has_a_group_too(new_server):
    server = unlimited(new_server, {"sandbox": {"pool_size": 0}})
    s = server.session()
    # with the weight that every other session has
    v1, v2 = (control_file(server, s, name) for name in ("cpu.shares", "cpu.weight"))
    assert v1 == "1024\n" or v2 == "100\n"
    assert len(groups_of(server)) == 1
    assert walls(s)["memory_limit"]["state"] == "absent"
    a = narrow(server, s, pids_max=25)
    assert a.status == 200, a.body
    assert len(groups_of(server)) == 1
    t = server.session(resource_limits={"pids_max": 50})
    assert len(groups_of(server)) == 2
    t.destroy()
    s.destroy()
    wait_for(lambda: not groups_of(server), "the groups go with their sessions")


@needs_cgroups
def test_ses_8_the_group_of_all_sessions_is_made_again(new_server):
    """Whoever shares it, such as another server that ends, may remove it while it is empty."""
    name = f"agentsh-test-{os.getpid()}"
    server = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
    try:
        parents = [*CGROUP.glob(f"*/{name}/agentsh"), *CGROUP.glob(f"{name}/agentsh")]
        assert parents
        for parent in parents:
            parent.rmdir()
        s = server.session(resource_limits={"pids_max": 50})
        assert walls(s)["pids_limit"]["state"] == "up" and control_file(server, s, "pids.max") == "50\n"
        s.destroy()
        server.stop()
        assert not [p for p, _, _ in os.walk(CGROUP) if p.endswith(f"/{name}/agentsh")]
    finally:
        remove_groups(name)


@needs_cgroups
def test_sbx_4_nothing_is_left_when_the_server_ends(new_server):
    server = new_server()
    wait_for(lambda: len(groups_of(server)) == 2, "two sandboxes are prepared")
    server.session(resource_limits={"pids_max": 50})
    wait_for(lambda: len(groups_of(server)) == 3, "a new one is prepared")
    stubs = wait_for(lambda: len(server.waiting_pids()) == 2 and server.waiting_pids(), "both are ready")
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
    stubs = wait_for(lambda: len(server.waiting_pids()) == 2 and server.waiting_pids(), "both are ready")
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
def test_ses_8_groups_that_other_servers_left_are_removed(new_server):
    name = f"agentsh-left-{os.getpid()}"
    other = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
    try:
        living = other.session(resource_limits={"pids_max": 50})
        kept = groups_of(other)
        assert len(kept) == 1
        # Empty groups: one of a server that was killed with its sessions; one that has no process yet.
        trees = [Path(p) for p, _, _ in os.walk(CGROUP) if p.endswith(f"/{name}/agentsh")]
        young = f"session-0badcafe-{time.monotonic_ns() // 1000}"
        for tree in trees:
            (tree / "session-0badcafe-12").mkdir()
            (tree / young).mkdir()
        server = new_server(config={"sandbox": {"cgroup_parent": f"/{name}", "pool_size": 0}})
        assert not any((tree / "session-0badcafe-12").exists() for tree in trees)
        assert all((tree / young).exists() for tree in trees)
        assert groups_of(other) == kept and living.out("echo here") == "here\n"
        server.stop()
        living.destroy()
        other.stop()
    finally:
        remove_groups(name)


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
        remove_groups(name)


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
