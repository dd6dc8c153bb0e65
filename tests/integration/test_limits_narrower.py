# SPDX-License-Identifier: Apache-2.0
"""Limits that become narrower while the session lives."""

import os

import pytest
from cgroups import control_file, groups_of, hits, narrow, needs_cgroups, unlimited, walls
from harness import USER_UID, Session, wait_for


def capped(a, field, value):
    """What would be wider stays, and is shown."""
    assert a.status == 200, a.body
    assert a.json["config"]["resource_limits"][field] == value
    assert f"resource_limits.{field}" in a.json["capped"]


def entries(answer):
    return {w["wall"]: w for w in answer.json["enforcement"]}


FORKS = """
import os, signal
n = 0
try:
    while n < 60:
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
        n += 1
except BlockingIOError:
    pass
print(n)
"""


@needs_cgroups
def test_ses_5_a_narrower_pids_limit_holds_at_once(root_server):
    s = root_server.session(resource_limits={"pids_max": 100})
    assert s.exec("python3", "-c", FORKS, timeout="20s")["result"]["stdout"] == "60\n"
    a = narrow(root_server, s, pids_max=20)
    assert a.status == 200, a.body
    assert a.json["config"]["resource_limits"]["pids_max"] == 20
    assert "20 processes" in entries(a)["pids_limit"]["detail"]
    assert control_file(root_server, s, "pids.max") == "20\n"
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert 3 < int(r["stdout"]) < 20 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    # the record and the group are the same afterwards, and neither widens
    assert "20 processes" in {w["wall"]: w for w in s.get()["enforcement"]}["pids_limit"]["detail"]
    capped(narrow(root_server, s, pids_max=21), "pids_max", 20)
    assert control_file(root_server, s, "pids.max") == "20\n"
    s.destroy()


@needs_cgroups
def test_ses_5_a_limit_that_was_not_there_is_told_when_it_is_hit(new_server):
    root_server = unlimited(new_server)
    s = root_server.session(resource_limits={"max_memory_mb": 400})
    assert walls(s)["pids_limit"]["state"] == "absent"
    a = narrow(root_server, s, pids_max=25)
    assert a.status == 200 and entries(a)["pids_limit"]["state"] == "up", a.body
    assert "400 MB" in entries(a)["memory_limit"]["detail"]
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert int(r["stdout"]) < 25 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    assert hits(s, "failed_forks")
    s.destroy()


def processes_of(server, session):
    """The warden and everything in the session's PID namespace."""
    meta = dict(line.split("=") for line in (server.runtime / f"sessions/{session.id}.meta").read_text().split())
    space = os.readlink(f"/proc/{meta['init_pid']}/ns/pid")
    found = {meta["warden_pid"]}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == space:
                found.add(pid)
        except OSError:
            pass
    return found


FAMILY = "for i in 1 2 3; do sh -c 'sleep 100 & wait' & done; touch started; wait"


def pool_of(new_server, size):
    server = unlimited(new_server, {"sandbox": {"pool_size": size}})
    wait_for(lambda: len(server.waiting_pids()) == size, f"{size} sandboxes are prepared")
    return server


@needs_cgroups
@pytest.mark.parametrize("pool", [0, 2])
def test_ses_5_a_session_without_limits_has_a_group_for_later_ones(new_server, pool):
    server = pool_of(new_server, pool)
    s = server.session()
    other = server.session()
    assert walls(s)["pids_limit"]["state"] == "absent"
    running = s.exec("sh", "-c", FAMILY, detach=True, status=202)["command_id"]
    wait_for(lambda: (s.workspace / "started").exists(), "the command has its processes")
    in_group = lambda: set(control_file(server, s, "cgroup.procs").split())  # noqa: E731
    # a process that is ending leaves the group before /proc
    wait_for(lambda: len(in_group()) >= 10 and processes_of(server, s) <= in_group(), "all are in the group")
    assert not processes_of(server, other) & in_group()
    a = narrow(server, s, pids_max=40)
    assert a.status == 200 and entries(a)["pids_limit"]["state"] == "up", a.body
    assert control_file(server, s, "pids.max") == "40\n"
    assert server.post(f"{s.path}/kill/{running}", {"signal": "KILL"}).status == 200
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert int(r["stdout"]) < 40 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    assert hits(s, "failed_forks")
    a = narrow(server, s, pids_max=30, max_cpu_percent=50)
    assert a.status == 200 and "50 %" in entries(a)["cpu_limit"]["detail"], a.body
    capped(narrow(server, s, pids_max=31), "pids_max", 30)
    s.destroy()
    other.destroy()
    # only those of prepared sandboxes are left
    wait_for(lambda: len(groups_of(server)) == len(server.waiting_pids()) == pool, "its group is removed")


@needs_cgroups
def test_ses_5_memory_of_a_session_made_without_limits(new_server):
    server = pool_of(new_server, 0)
    s = server.session()
    a = narrow(server, s, max_memory_mb=160)
    wall = entries(a)["memory_limit"]
    assert a.status == 200 and wall["state"] == "up" and "160 MB" in wall["detail"], a.body
    r = s.exec("python3", "-c", "x = bytearray(250 << 20)", timeout="30s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    assert hits(s, "oom_kills")


@needs_cgroups
def test_ses_8_later_limits_survive_the_server(new_server):
    server = pool_of(new_server, 0)
    s = server.session()
    assert narrow(server, s, pids_max=40).status == 200
    server.process.kill()
    server.process.wait()
    server.start()
    assert control_file(server, s, "pids.max") == "40\n"
    assert narrow(server, s, pids_max=30).status == 200
    r = s.exec("python3", "-c", FORKS, timeout="20s")["result"]
    assert int(r["stdout"]) < 30 and r["error"]["code"] == "E_RESOURCE_LIMIT", r
    s.destroy()
    wait_for(lambda: not groups_of(server), "its group is removed")


@needs_cgroups
def test_ses_5_narrower_memory_ends_what_needs_more(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600})
    eater = "x = bytearray(250 << 20); print(len(x) >> 20)"
    assert s.exec("python3", "-c", eater, timeout="30s")["result"]["stdout"] == "250\n"
    a = narrow(root_server, s, max_memory_mb=160)
    assert a.status == 200 and "160 MB" in entries(a)["memory_limit"]["detail"], a.body
    r = s.exec("python3", "-c", eater, timeout="30s")["result"]
    assert r["error"]["code"] == "E_RESOURCE_LIMIT" and "OOM kill" in r["error"]["message"], r
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_memory_leaves_less_for_scratch_files(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 400})
    assert s.out("df -m --output=size /tmp").split()[-1] == "200"
    a = narrow(root_server, s, max_memory_mb=300)
    assert entries(a)["disk_limit"]["detail"].startswith("150 MB"), a.body
    assert "/tmp counts" in entries(a)["memory_limit"]["detail"], a.body
    assert s.out("df -m --output=size /tmp").split()[-1] == "150"
    # not below what is there
    s.script("head -c 100500000 /dev/zero >/tmp/a")
    a = narrow(root_server, s, max_memory_mb=180)
    assert a.status == 200 and entries(a)["disk_limit"]["detail"].startswith("96 MB"), a.body
    assert s.out("wc -c </tmp/a; df -m --output=size /tmp").split() == ["100500000", "1M-blocks", "96"]
    r = s.script("dd if=/dev/zero of=/tmp/b bs=1M count=200")["result"]
    assert r["exit_code"] == 1 and "No space left" in r["stderr"], r
    # nor is anything widened
    a = narrow(root_server, s, max_memory_mb=179, max_disk_mb=97)
    assert a.status == 400 and "is 96" in a.json["error"]["message"], a.body
    s.destroy()


@needs_cgroups
def test_ses_5_memory_that_is_in_use_is_not_taken_away(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 600, "pids_max": 100})
    holder = "import time; x = bytearray(200 << 20); open('held', 'w').close(); time.sleep(60)"
    s.exec("python3", "-c", holder, detach=True, status=202)
    wait_for(lambda: (s.workspace / "held").exists(), "the memory is held")
    before = {f: control_file(root_server, s, f) for f in ("memory.limit_in_bytes", "memory.max", "pids.max")}
    a = narrow(root_server, s, max_memory_mb=50, pids_max=50)
    assert (a.status, a.code) == (409, "E_CONFLICT"), a.body
    assert a.json["error"]["subject"] == "memory_limit" and "MB are in use" in a.json["error"]["message"]
    assert {f: control_file(root_server, s, f) for f in before} == before
    assert s.get()["config"]["resource_limits"]["pids_max"] == 100
    assert s.get()["config"]["resource_limits"]["max_memory_mb"] == 600
    s.destroy()


@needs_cgroups
def test_ses_5_a_narrower_cpu_limit_is_in_the_group(root_server):
    s = root_server.session(resource_limits={"max_cpu_percent": 80})
    a = narrow(root_server, s, max_cpu_percent=30)
    assert a.status == 200 and "30 %" in entries(a)["cpu_limit"]["detail"], a.body
    v1, v2 = (control_file(root_server, s, name) for name in ("cpu.cfs_quota_us", "cpu.max"))
    assert v1 == "30000\n" or v2 == "30000 100000\n"
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_disk_bandwidth_is_in_the_group(root_server):
    wanted = {
        "workspace": str(root_server.workspace()),
        "resource_limits": {"io_write_bps_max": 9 << 20, "pids_max": 90},
    }
    made = root_server.post("/api/v1/sessions", wanted)
    if made.status == 503:  # the workspace lies on no disk of its own
        assert made.json["error"]["subject"] == "io_limit"
        return
    s = Session(root_server, made.json)
    a = narrow(root_server, s, io_write_bps_max=5 << 20, io_read_bps_max=6 << 20)
    assert a.status == 200 and entries(a)["io_limit"]["state"] in ("up", "partial"), a.body
    v1, v2 = (control_file(root_server, s, name) for name in ("blkio.throttle.write_bps_device", "io.max"))
    assert (v1 and v1.split()[1] == str(5 << 20)) or (v2 and f"rbps={6 << 20} wbps={5 << 20}" in v2), (v1, v2)
    capped(narrow(root_server, s, io_write_bps_max=6 << 20), "io_write_bps_max", 5 << 20)
    s.destroy()


@needs_cgroups
def test_ses_5_narrower_limits_survive_the_server(new_server):
    server = new_server()
    s = server.session(resource_limits={"pids_max": 60})
    assert narrow(server, s, pids_max=30).status == 200
    server.process.kill()
    server.process.wait()
    server.start()
    assert "30 processes" in {w["wall"]: w for w in s.get()["enforcement"]}["pids_limit"]["detail"]
    capped(narrow(server, s, pids_max=40), "pids_max", 30)
    assert narrow(server, s, pids_max=29).status == 200
    assert control_file(server, s, "pids.max") == "29\n"


@needs_cgroups
def test_ses_5_a_refused_limit_leaves_the_directory(root_server):
    s = root_server.session(resource_limits={"max_memory_mb": 300, "max_disk_mb": 20})
    assert s.out("head -c 10000000 /dev/zero >/tmp/a; wc -c </tmp/a").strip() == "10000000"
    a = root_server.call(
        "PATCH", s.path, {"working_dir": "/tmp", "resource_limits": {"max_disk_mb": 5, "max_memory_mb": 200}}
    )
    assert (a.status, a.code) == (409, "E_CONFLICT"), a.body
    assert a.json["error"]["subject"] == "disk_limit" and "10 MB are in use" in a.json["error"]["message"], a.body
    assert s.get()["working_dir"] == "/workspace" and s.out("pwd") == "/workspace\n"
    assert "300 MB" in {w["wall"]: w for w in s.get()["enforcement"]}["memory_limit"]["detail"]
    s.destroy()


def test_ses_5_no_limit_is_wider_than_any(server):
    s = server.session()

    def limit(n):
        a = server.call("PATCH", s.path, {"limits": {"max_commands": n}})
        assert a.status == 200, a.body
        return a.json["config"]["limits"]["max_commands"], a.json.get("capped", [])

    assert limit(0) == limit(None) == (0, [])
    assert limit(5) == limit(None) == (5, [])
    assert limit(0) == (5, ["limits.max_commands"])
    # where 0 would make no sense it is refused
    a = server.call("PATCH", s.path, {"resource_limits": {"pids_max": 0}})
    assert (a.status, a.code) == (400, "E_BAD_REQUEST") and "resource_limits.pids_max" in str(a.json), a.body
    s.destroy()


def test_ses_5_narrower_scratch_space(root_server):
    s = root_server.session(resource_limits={"max_disk_mb": 30})
    a = narrow(root_server, s, max_disk_mb=8)
    assert a.status == 200 and "8 MB" in entries(a)["disk_limit"]["detail"], a.body
    r = s.script("head -c 12000000 /dev/zero >/tmp/a")["result"]
    assert r["exit_code"] != 0 and "No space left" in r["stderr"], r
    capped(narrow(root_server, s, max_disk_mb=9), "max_disk_mb", 8)
    s.destroy()


def test_ses_5_what_cannot_be_held_is_not_promised(new_server):
    server = unlimited(new_server, uid=USER_UID)
    s = server.session()
    if walls(s)["pids_limit"]["state"] == "up":
        pytest.skip("a cgroup is delegated to the user")
    a = narrow(server, s, pids_max=20)
    assert (a.status, a.code) == (503, "E_ENFORCEMENT"), a.body
    assert a.json["error"]["subject"] == "pids_limit", a.body
    assert s.get()["config"]["resource_limits"]["pids_max"] is None
    a = narrow(server, s, max_disk_mb=5)
    assert (a.status, a.code) == (503, "E_ENFORCEMENT") and a.json["error"]["subject"] == "disk_limit", a.body
    # what is no wall of the kernel is taken
    assert server.call("PATCH", s.path, {"resource_limits": {"command_timeout": "9s"}}).status == 200
